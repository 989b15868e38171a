"""Hints as rows: the words around the place where a parser stopped, what it accepts there, and the text to show.

::

    Hint("write instanceof(x, string)", here="instanceof")      select a instanceof string from T
    Hint("write first 5", before="top", kind="NUMBER")          select top 5 a from T

The first row that fits gives the hint, so special cases stand before general ones. The tables are
`reader/foreign_syntax.py` for EPL, and `hints.py` of each dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cepbook.lang.syntax.reader.parse_failure import ParseFailure

Words = str | Collection[str]
StopT = TypeVar("StopT", bound=ParseFailure)


@dataclass(frozen=True, slots=True)
class Hint(Generic[StopT]):
    """A hint and the places that it is for. What is None does not matter.

    `here` is the word at which the parser stopped, in lower case (empty: the text ends), and `kind` the kind of its
    token. `before` and `earlier` are the two words before it, `after` is the word behind it. The statement begins with
    the words `begins`, and one of the words `among` stands before the place. The parser accepts one of the terminals
    `accepts`, and none of `refuses`. `when` is a further condition. `text` may be a function of the place; if it
    returns None, later rows are tried.
    """

    text: str | Callable[[StopT], str | None]
    here: Words | None = None
    kind: Words | None = None
    before: Words | None = None
    earlier: Words | None = None
    after: Words | None = None
    begins: str = ""
    among: Words | None = None
    accepts: Words | None = None
    refuses: Words = ()
    when: Callable[[StopT], object] = lambda stop: True

    def at(self, stop: StopT) -> str | None:
        """Return the hint for a place, or None if the row is for others."""
        around = (self.earlier, -2), (self.before, -1), (self.here, 0), (self.after, 1)
        if not all(words is None or is_among(stop.text(offset), words) for words, offset in around):
            return None
        if self.kind is not None and not is_among(stop.kind(), self.kind):
            return None
        if self.accepts is not None and not _has_one(stop.accepted, self.accepts):
            return None
        if _has_one(stop.accepted, self.refuses) or not self.when(stop):
            return None
        before, begins = stop.words_before(), self.begins.split()
        if before[: len(begins)] != begins or not (self.among is None or _has_one(before, self.among)):
            return None
        return self.text if isinstance(self.text, str) else self.text(stop)


def first_hint(rows: Iterable[Hint[StopT]], stop: StopT) -> str | None:
    """Return the hint of the first row that fits, or None."""
    return next((hint for row in rows if (hint := row.at(stop)) is not None), None)


def is_among(word: str, words: Words) -> bool:
    """Return True if a word is the one word, or one of the words."""
    return word == words if isinstance(words, str) else word in words


def _has_one(names: Iterable[str], words: Words) -> bool:
    return any(is_among(name, words) for name in names)


def keyword_hint(word: str) -> str:
    """Return the hint for a keyword that stands where a name does."""
    return f"{word.lower()} is a keyword; as a name write it in backticks: `{word}`"
