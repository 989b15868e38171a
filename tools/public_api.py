"""Compare the public API with an earlier commit: `python tools/public_api.py [REF]`, which `make api` calls.

griffe reads both versions without importing them, and names what a change breaks: removed names, parameters that moved
or became required, other defaults. Only names that users import count, those of `PUBLIC`. Without REF, the last tag is
the earlier commit, and without a tag there is nothing to compare.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Modules whose public names users import. docs/reference describes them, tests/test_public.py checks their docstrings.
PUBLIC = (
    "cepbook",
    "cepbook.charts",
    "cepbook.engine.config",
    "cepbook.errors",
    "cepbook.session",
    "cepbook.spark",
    "cepbook.testing",
    "cepbook.widgets",
)


def last_tag() -> str | None:
    """Return the last tag before this commit."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def breakages(ref: str) -> list[str]:
    """Return a line for each change since *ref* that breaks code of users."""
    import griffe

    before = griffe.load_git("cepbook", ref=ref, repo=ROOT)
    after = griffe.load("cepbook", search_paths=[str(ROOT)])
    found = (
        breakage.explain(griffe.ExplanationStyle.ONE_LINE) for breakage in griffe.find_breaking_changes(before, after)
    )
    return [line for line in found if is_public(line)]


def is_public(line: str) -> bool:
    """Return whether a line of griffe, `FILE:LINE: NAME: what`, is about a module of `PUBLIC`."""
    file = line.partition(":")[0].replace("\\", "/")
    module = file[file.rfind("cepbook") :].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    private = any(word.startswith("_") for word in line.partition(": ")[2].partition(":")[0].split("(")[0].split("."))
    return not private and any(
        module == name or (name != "cepbook" and module.startswith(f"{name}.")) for name in PUBLIC
    )


def main(words: list[str]) -> int:
    ref = words[0] if words else last_tag()
    if ref is None:
        print("there is no tag yet: nothing is published that a change could break")
        return 0
    lines = breakages(ref)
    print("\n".join(lines) or f"nothing that was public in {ref} is broken")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
