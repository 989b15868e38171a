"""Hints as rows: the words around the place where a parser stopped, what it accepts there, and the text to show.

::

    Hint("write and", here="&&")                       select a && b
    Hint("write group by", before="group", refuses="BY")   select a from T group a

The first row that fits gives the hint, so special cases stand before general ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from cepbook.lang.syntax.reader.parse_failure import ParseFailure

Words = str | Collection[str]


@dataclass(frozen=True, slots=True)
class Hint:
    """A hint and the places that it is for. What is None does not matter.

    `here` is the word at which the parser stopped, in lower case (empty: the text ends), `before` and `earlier` are the
    two words before it, `after` is the word behind it. The parser accepts one of the terminals `accepts`, and none of
    `refuses`. `when` is a further condition. `text` may be a function of the place; if it returns None, later rows are
    tried.
    """

    text: str | Callable[[ParseFailure], str | None]
    here: Words | None = None
    before: Words | None = None
    earlier: Words | None = None
    after: Words | None = None
    accepts: Words | None = None
    refuses: Words = ()
    when: Callable[[ParseFailure], object] = lambda stop: True

    def at(self, stop: ParseFailure) -> str | None:
        """Return the hint for a place, or None if the row is for others."""
        words = (self.earlier, -2), (self.before, -1), (self.here, 0), (self.after, 1)
        if not all(among is None or _is_among(stop.text(offset), among) for among, offset in words):
            return None
        if self.accepts is not None and not any(_is_among(name, self.accepts) for name in stop.accepted):
            return None
        if any(_is_among(name, self.refuses) for name in stop.accepted) or not self.when(stop):
            return None
        return self.text if isinstance(self.text, str) else self.text(stop)


def first_hint(rows: Iterable[Hint], stop: ParseFailure) -> str | None:
    """Return the hint of the first row that fits, or None."""
    return next((hint for row in rows if (hint := row.at(stop)) is not None), None)


def _is_among(word: str, words: Words) -> bool:
    return word == words if isinstance(words, str) else word in words
