"""Statements of the corpus with tokens dropped, doubled, swapped and spliced, for `test_mutations`.

``python -m tests.lang.mutations 100000 1`` runs that many, made from seed 1, and prints what is no diagnostic or slow.
"""

from __future__ import annotations

import random
import re
import sys
import time
import traceback
from functools import cache
from pathlib import Path

from cepbook.errors import CompileError, Refusal
from cepbook.lang.bind import Options, bind
from cepbook.lang.plan.catalog import Catalog, FunctionType
from cepbook.lang.rewrite import rewrite
from cepbook.lang.syntax.reader.lexer import tokenize
from cepbook.lang.syntax.reader.parser import parse_epl
from cepbook.lang.types import INT
from tests.lang.binding import applied

CORPUS = Path(__file__).parents[1] / "corpus"
LIMIT = 2.0  # seconds of the processor for one statement
_KINDS = (["epl"], ["invalid"])
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@cache
def sections() -> tuple[tuple[str, ...], ...]:
    """The EPL of each case of the corpus, also what is refused: the texts of its fences."""
    files = sorted(CORPUS.rglob("*.md"))
    cases = [case for file in files for case in file.read_text(encoding="utf-8").split("\n## ")]
    found = [tuple(body for kind, body in _FENCE.findall(case) if kind.split()[:1] in _KINDS) for case in cases]
    return tuple(case for case in found if any(words_of(case)))


@cache
def words_of(case: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The statements of a case as tokens."""
    pieces = [piece for text in case for piece in tokenize(text)[0]]
    good = [piece for piece in pieces if piece.tokens and all(token.kind != "bad" for token in piece.tokens)]
    return tuple(tuple(token.text for token in piece.tokens) for piece in good)


@cache
def catalog_of(case: tuple[str, ...], number: int) -> Catalog:
    """What the first `number` statements of a case declare."""
    if number == 0:
        return Catalog(functions={"computeHash": FunctionType(INT)})
    before, text = catalog_of(case, number - 1), " ".join(words_of(case)[number - 1])
    try:
        return applied(before, bind(parse_epl(text), before, text))
    except CompileError:
        return before


def mutant(chance: random.Random) -> tuple[str, Catalog]:
    """A statement with one to four changes, and a catalog for its names."""
    case = chance.choice(sections())
    number = chance.randrange(len(words_of(case)))
    words = list(words_of(case)[number])
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        at = chance.randrange(len(words) + 1)
        length = min(chance.choice((1, 1, 1, 2, 3, 8)), len(words) - at)
        change = chance.choice(("drop", "double", "swap", "splice", "replace", "exchange"))
        if change == "drop":
            del words[at : at + length]
        elif change == "double":
            words[at:at] = words[at : at + length]
        elif change == "swap" and words:
            first, second = chance.randrange(len(words)), chance.randrange(len(words))
            words[first], words[second] = words[second], words[first]
        else:
            other = chance.choice(words_of(chance.choice(sections())))
            begin = chance.randrange(len(other))
            if change == "exchange" and length:  # for a token of the same kind
                alike = [word for word in (*other, *words) if word[0].isalnum() == words[at][0].isalnum()]
                words[at] = chance.choice(alike)
                continue
            end = at + length if change == "replace" else at
            words[at:end] = other[begin : begin + chance.choice((1, 1, 2, 3, 8, 20))]
    return " ".join(words), catalog_of(case, number)


def outcome(text: str, catalog: Catalog) -> str:
    """What becomes of a statement: accepted, refused, or the exception that is no diagnostic. A slow one raises."""
    begun = time.process_time()
    try:
        rewrite(bind(parse_epl(text), catalog, text, (), Options()))
        found = "accepted"
    except (CompileError, Refusal) as refusal:
        str(refusal)
        found = "refused"
    except Exception:  # noqa: BLE001 - what this looks for
        found = traceback.format_exc()
    took = time.process_time() - begun
    return found if took <= LIMIT else f"took {took:.1f} s"


def main(count: int, seed: int) -> None:
    """Run `count` mutants and print the strange ones."""
    chance = random.Random(seed)
    outcomes: dict[str, int] = {}
    for _ in range(count):
        text, catalog = mutant(chance)
        found = outcome(text, catalog)
        if found not in ("accepted", "refused"):
            print(f"--- {text}\n{found}", flush=True)
            found = found.strip().splitlines()[-1][:60]
        outcomes[found] = outcomes.get(found, 0) + 1
    print(outcomes)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
