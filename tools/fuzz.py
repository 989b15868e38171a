"""Coverage-guided fuzzing of the reader and the binder: `python tools/fuzz.py [--seconds 600] [--seed 0]`.

atheris (libFuzzer) deploys texts in new runtimes and keeps a text that reaches code which no text before it has
reached. A text is either deployed or refused with an error of cepbook, within two seconds of the processor, or what
takes as long with the instruments of coverage. Anything else is a finding.

The first texts are the EPL of `tests/corpus`. Half of the new texts are changed token by token, as `tests/mutations.py`
does it. The other half is changed byte by byte, with the words of the corpus as dictionary. `build/fuzz/corpus` keeps
the texts for the next run. `build/fuzz/findings` has each finding with its traceback, once per cause. A finding that is
mended becomes a scenario in `tests/corpus/errors` or `tests/corpus/invalid`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
BUILD = ROOT / "build" / "fuzz"
LONGEST = 2000  # bytes of a text
INSTRUMENTS = 4  # times as long takes a text when coverage is counted: 0.77 s became 2.9 s
WORDS = 600  # of the dictionary


def fuzz(arguments: list[str]) -> None:
    """Run libFuzzer in this process, which it ends."""
    import atheris

    with atheris.instrument_imports(include=["cepbook"]):
        from cepbook.engine.runtime import Runtime
    from tests.mutations import LIMIT, guarded, mutated

    causes: set[str] = set()

    def check(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        outcome = guarded(lambda: Runtime().deploy(text), INSTRUMENTS * LIMIT)
        if outcome not in (None, "refused") and cause(outcome) not in causes:
            causes.add(cause(outcome))
            write_finding(text, outcome)

    def change(data: bytes, longest: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.5:
            return atheris.Mutate(data, longest)
        text = mutated(data.decode("utf-8", "replace"), "epl", chance)
        return text.encode("utf-8", "replace")[:longest]

    atheris.Setup([sys.argv[0], *arguments], check, custom_mutator=change)
    atheris.Fuzz()


def cause(outcome: str) -> str:
    """Return the innermost line of a traceback with its place, without the values in the message."""
    places = [line for line in outcome.splitlines() if line.lstrip().startswith("File ")]
    return places[-1] if places else outcome[:4]


def write_finding(text: str, outcome: str) -> None:
    name = hashlib.sha1(text.encode("utf-8", "replace")).hexdigest()[:12]
    (BUILD / "findings" / f"{name}.txt").write_text(f"{text!r}\n\n{outcome}\n", "utf-8")
    print(f"FINDING {name}: {outcome.splitlines()[-1][:200]}", flush=True)


def prepare() -> None:
    """Write the first texts, and the words that are most frequent in them."""
    from tests.mutations import cases, words

    for folder in ("corpus", "findings"):
        (BUILD / folder).mkdir(parents=True, exist_ok=True)
    frequent: Counter[str] = Counter()
    for texts in cases()["epl"]:
        text = ";\n".join(text.text.rstrip().rstrip(";") for text in texts if text.language == "epl")
        frequent.update(word.strip() for word in words(text))
        data = text.encode("utf-8", "replace")
        if len(data) <= LONGEST:
            (BUILD / "corpus" / hashlib.sha1(data).hexdigest()).write_bytes(data)
    entries = (word for word, _ in frequent.most_common(WORDS) if word.isascii() and word.isprintable())
    (BUILD / "words.dict").write_text("".join(f"{json.dumps(word)}\n" for word in entries if len(word) > 1))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0, help="of libFuzzer; 0 takes another one in each run")
    options = parser.parse_args()
    prepare()
    start = time.time()
    settings = {
        "max_total_time": options.seconds, "seed": options.seed, "dict": BUILD / "words.dict", "max_len": LONGEST,
        "artifact_prefix": f"{BUILD / 'findings'}/", "timeout": 60, "rss_limit_mb": 6000, "print_final_stats": 1,
    }  # fmt: skip
    flags = [f"-{name}={value}" for name, value in settings.items()]
    command = [sys.executable, __file__, "--within", str(BUILD / "corpus"), *flags]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    findings = [file for file in (BUILD / "findings").iterdir() if file.stat().st_mtime >= start]
    print(f"{len(findings)} findings in {BUILD / 'findings'}")
    return 1 if findings or status else 0


if __name__ == "__main__":
    sys.exit(fuzz(sys.argv[2:]) if sys.argv[1:2] == ["--within"] else main())
