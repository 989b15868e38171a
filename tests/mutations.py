"""Texts of the corpus in all languages with tokens dropped, swapped, spliced, nested and made hostile.

Each mutant is checked, deployed and dropped again in a workbench where the texts before it in its case are deployed. A
refusal must be an error of cepbook, must come within `LIMIT` and must leave the workbench as it was.

``python -m tests.mutations 100000 1`` runs that many mutants from seed 1 on and prints those that fail.
"""

from __future__ import annotations

import hashlib
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config as ShellConfig

from cepbook import Workbench
from cepbook.errors import CepbookError
from cepbook.lang.types import INT, STRING
from cepbook.magics import COMMANDS
from cepbook.magics.editor.lint import answer_request
from cepbook.magics.shell.host import NotebookHost
from cepbook.testing.engines import compute_hash, concat_str
from cepbook.testing.scenario import InvalidFence, ModuleFence, QueryFence, is_scenario, read

CORPUS = Path(__file__).parent / "corpus"
LIMIT = 2.0  # seconds of the processor for one text
ENDLESS = 20.0  # seconds after which a text is given up
BATCH = 20  # mutants of one text in one workbench
SAMPLE = 8  # of as many mutants, one is also linted, completed and formatted, and the saved state compared

_TOKEN = re.compile(r"\s*(?:'[^'\n]*'|\"[^\"\n]*\"|\d[\w.]*|\w+|->|[<>=!:]=|.)|\s+", re.DOTALL)
_MAGICS = {"epl": "epl", "apama": "apama", "streamcruncher": "cruncher"}
_LANGUAGES = ("epl", "epl", "epl", "apama", "streamcruncher")
_BAD_TEXT = (
    *("\u202e", "\x00", "\ufeff", "\u2028", "\ud800", "\x1b[31m", "\x85", "\u00a0", "\U0001f600", "\U0001d54f"),
    *(
        "²",
        "٣",
        "ﬁ",
        "İ",
        "ß",
        "é",
        "`",
        "\\",
        "'",
        '"',
        "/*",
        "*/",
        "//",
        "#",
        "@",
        "?",
        ":x",
        "${x}",
        "\\u0041",
        "\r",
    ),
)
_BAD_NUMBERS = (
    *(
        "0",
        "1",
        "2",
        "3",
        "10",
        "2.5",
        "-1",
        "2147483648",
        "9223372036854775808L",
        "1" * 400,
        "1" * 5000,
        "1e308",
        "1e309",
        "1e-400",
        "1e99999",
    ),
    *("0x" + "f" * 300, "0.0f", "-0.0", "1L", "1..2", ".5", "1e", "0b1", "1_000", "99999999999999999999 years"),
)
_NESTS = (("(", ")"), ("not (", ")"), ("-(", ")"), ("case when 1=1 then ", " end"), ("{", "}"), ("[", "]"), ("a.", ""))


@dataclass(frozen=True)
class Text:
    """One text of a case. The name is that of its statement, for languages whose texts have none."""

    language: str
    name: str
    text: str

    def deploy(self, cep: Workbench, text: str) -> str:
        """Deploy `text` in place of the own one and return the id of the deployment."""
        settings = {} if self.language == "epl" else {"name": self.name}
        result = cep.run(text, dialect=self.language, **settings)
        return "" if result.replaced else result.deployment.id


@cache
def cases() -> dict[str, tuple[tuple[Text, ...], ...]]:
    """The texts of each case by the language of the last one: a mutant is made of the last, the others stand before."""
    by_language: dict[str, list[tuple[Text, ...]]] = {language: [] for language in _MAGICS}
    for path in sorted(CORPUS.rglob("*.md")):
        if not is_scenario(path.read_text(encoding="utf-8")):
            continue
        for case in read(path).cases:
            texts: tuple[Text, ...] = ()
            for fence in case.fences:
                match fence:
                    case ModuleFence(epl=epl):
                        text = Text("epl", "", epl)
                    case QueryFence(dialect=dialect, name=name):
                        text = Text(dialect, name, fence.text)
                    case InvalidFence(dialect=dialect, query=False):
                        text = Text(dialect, "mutant", fence.text)
                    case _:
                        continue
                by_language[text.language].append((*texts, text))
                if not isinstance(fence, InvalidFence):
                    texts = (*texts, text)
    return {language: tuple(found) for language, found in by_language.items()}


@cache
def words(text: str) -> tuple[str, ...]:
    """The tokens of a text, each with the blanks before it."""
    return tuple(_TOKEN.findall(text))


def mutated(source: str, language: str, chance: random.Random) -> str:
    """Return `source` with one to four changes, seldom with a large one."""
    tokens = list(words(source))
    for _ in range(chance.choice((1, 1, 1, 1, 1, 2, 2, 3, 4))):
        at = chance.randrange(len(tokens) + 1)
        length = min(chance.choice((1, 1, 1, 2, 3, 8)), len(tokens) - at)
        match chance.choice(
            (
                "drop",
                "double",
                "swap",
                "splice",
                "splice",
                "replace",
                "exchange",
                "exchange",
                "exchange",
                "spoil",
                "number",
            )
        ):
            case "drop":
                del tokens[at : at + length]
            case "double":
                tokens[at:at] = tokens[at : at + length]
            case "swap" if tokens:
                other = chance.randrange(len(tokens))
                tokens[at - 1], tokens[other] = tokens[other], tokens[at - 1]
            case "splice":
                tokens[at:at] = _foreign(language, chance)
            case "replace":
                tokens[at : at + length] = _foreign(language, chance)
            case "exchange" if length:  # for a token of the same kind
                words_ = (*tokens, *(_foreign(language, chance) if chance.random() < 0.3 else ()))
                alike = [word for word in words_ if _kind(word) == _kind(tokens[at])]
                tokens[at] = chance.choice(alike)
            case "spoil":
                tokens[at:at] = [chance.choice(("", " ")) + chance.choice(_BAD_TEXT)]
            case "number":
                numbers = [index for index, word in enumerate(tokens) if _kind(word) == "number"]
                index = chance.choice(numbers) if numbers else at
                tokens[index : index + 1] = [f" {chance.choice(_BAD_NUMBERS)}"]
    return _enlarged(tokens, chance) if chance.random() < 0.02 else "".join(tokens)


def _enlarged(tokens: list[str], chance: random.Random) -> str:
    """Nest or repeat a part of a text up to thousands of times, or cut the text."""
    at = chance.randrange(len(tokens) + 1)
    end = min(len(tokens), at + chance.choice((1, 2, 3, 5, 8, 13)))
    times = chance.choice((3, 20, 100, 300, 1000, 3000))
    before, part, after = "".join(tokens[:at]), "".join(tokens[at:end]), "".join(tokens[end:])
    kind = chance.choice(("nest", "repeat", "cut"))
    if kind == "nest":
        left, right = chance.choice(_NESTS)
        return f"{before} {left * times}{part}{right * times}{after}"
    if kind == "repeat":
        return before + part * min(times, 1 + 40_000 // (len(part) + 1)) + after
    text = before + part + after
    return text[: chance.randrange(len(text) + 1)]


def _foreign(language: str, chance: random.Random) -> Sequence[str]:
    """Some tokens of another text, seldom of another language."""
    language = language if chance.random() < 0.9 else chance.choice(_LANGUAGES)
    tokens = words(chance.choice(chance.choice(cases()[language])).text)
    begin = chance.randrange(len(tokens) or 1)
    return tokens[begin : begin + chance.choice((1, 1, 2, 3, 8, 20))]


def _kind(word: str) -> str:
    first = word.strip()[:1]
    return "number" if first.isdigit() else "word" if first.isalpha() else first if first in "'\"" else "sign"


class Endless(BaseException):
    """A text took longer than `ENDLESS`."""


def guarded(work: Callable[[], object], limit: float = LIMIT) -> str | None:
    """Run `work`. Return None if it succeeded, ``refused`` for an error of cepbook, else what went wrong.

    To take more than `limit` seconds of the processor is wrong.
    """

    def give_up(number: int, frame: FrameType | None) -> None:
        raise Endless("".join(traceback.format_stack(frame, 5)))

    begun = time.process_time()
    former = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, ENDLESS)
    try:
        work()
        outcome = None
    except CepbookError as refusal:
        outcome = "refused" if str(refusal) else "a refusal without a text"
    except (Exception, Endless):  # noqa: BLE001 - what this looks for
        outcome = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)
    took = time.process_time() - begun
    return outcome if took <= limit else f"took {took:.1f} s of the processor ({outcome})"


def visible_state(cep: Workbench) -> tuple[object, ...]:
    """All names and objects of a workbench that a deployment adds."""
    runtime, catalog, engine = cep.runtime, cep.runtime.catalog, cep._engine
    registry = runtime.registry
    return (
        [(key, id(deployment)) for key, deployment in runtime.deployments.items()],
        [(name, id(statement)) for name, statement in registry.statements.items()],
        *(list(names) for names in (registry.contexts, registry.stores, registry.variables)),
        *(sorted(names) for names in (catalog.event_types, catalog.contexts, catalog.variables, catalog.functions)),
        *(list(names) for names in (cep._cells, engine._feeds)),
        (runtime.now, runtime.next_due, runtime.turn.broken, len(runtime.turn.queue), len(runtime.errors)),
    )


def saved_state(cep: Workbench) -> str:
    """A hash of the saved state."""
    return hashlib.sha256(cep.runtime.snapshot()).hexdigest()


@cache
def notebook() -> NotebookHost:
    """A host in which the workbench of the present text stands."""
    config = ShellConfig()
    config.HistoryManager.enabled = False
    return NotebookHost(InteractiveShell(config=config), COMMANDS)


@dataclass
class Mutants:
    """Mutants of one text and what became of them. The same seed gives the same mutants."""

    seed: str

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []
        language = self.chance.choice(_LANGUAGES)
        *self.before, self.original = self.chance.choice(cases()[language])

    def workbench(self) -> Workbench:
        """A workbench in which the texts before the mutant are deployed."""
        cep = Workbench()
        cep.register_function("computeHash", compute_hash, returns=INT)
        cep.register_function("concatStr", concat_str, returns=STRING)
        for text in self.before:
            try:
                text.deploy(cep, text.text)
            except CepbookError:  # needs the settings of its case
                self.outcomes["without a text before"] += 1
        return cep

    def run(self, count: int = BATCH) -> None:
        """Check `count` mutants."""
        cep = self.workbench()
        for number in range(count):
            text = mutated(self.original.text, self.original.language, self.chance)
            thorough = self.chance.randrange(SAMPLE) == 0
            outcome, same = self.outcome(cep, text, thorough)
            self.outcomes[self.original.language, outcome.splitlines()[0][:20]] += 1
            if outcome not in ("accepted", "refused"):
                shown = text if len(text) < 2000 else f"{text[:1000]} … {text[-300:]}"
                self.failures.append(f"--- {self.seed}, {number}: {self.original.language}\n{shown!r}\n{outcome}")
            if not same:
                cep = self.workbench()

    def outcome(self, cep: Workbench, text: str, thorough: bool) -> tuple[str, bool]:
        """What becomes of one mutant, and whether the workbench is as before."""
        former, saved = visible_state(cep), saved_state(cep) if thorough else ""
        deployed: list[str] = []
        if thorough:
            wrong = self.edited(cep, text)
            if wrong is not None:
                return wrong, False
        outcome = guarded(lambda: deployed.append(self.original.deploy(cep, text)))
        if outcome is None and not deployed[0]:
            return "accepted", False  # it has replaced another deployment
        if outcome is None:
            outcome = guarded(lambda: cep.drop(deployed[0], cascade=True))
            if outcome is not None:
                return f"cannot be dropped: {outcome}", False
            same = visible_state(cep) == former
            return ("accepted", True) if same else ("accepted, and something is left of it", False)
        if outcome != "refused":
            return outcome, False
        if visible_state(cep) != former or (saved and saved_state(cep) != saved):
            return "half deployed", False
        return outcome, True

    def edited(self, cep: Workbench, text: str) -> str | None:
        """What goes wrong when the text is linted, completed, described and formatted; else None."""
        host = notebook()
        host.shell.user_ns["cep"] = cep
        cell = f"%%{_MAGICS[self.original.language]} mutant\n{text}"
        if self.original.language == "epl":
            cell = f"%%epl\n{text}"
        for kind in ("lint", "complete", "hover", "format"):
            request = {"id": 1, "kind": kind, "text": cell, "at": self.chance.randrange(len(cell) + 1)}
            wrong = guarded(lambda: answer_request(host, request))  # noqa: B023 - called at once
            if wrong is not None:
                return f"{kind} at {request['at']}: {wrong}"
        return None


def batches(seed: int, count: int) -> Iterator[Mutants]:
    """Run `count` mutants of many texts."""
    for number in range(-(-count // BATCH)):
        mutants = Mutants(f"{seed}.{number}")
        mutants.run()
        yield mutants


def main(count: int, seed: int) -> None:
    """Run `count` mutants and print those that fail."""
    outcomes: Counter[str] = Counter()
    begun = time.monotonic()
    for number, mutants in enumerate(batches(seed, count), 1):
        outcomes += mutants.outcomes
        for failure in mutants.failures:
            print(failure, flush=True)
        if number % 500 == 0:
            print(f"=== {number * BATCH:,} in {time.monotonic() - begun:.0f} s: {dict(outcomes)}", flush=True)
    print(f"=== {count:,} in {time.monotonic() - begun:.0f} s: {dict(outcomes)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
