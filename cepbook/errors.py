"""Positions, diagnostics, and the exceptions that carry them.

A `Diagnostic` states a fact (lower case, no full stop), points at the text with a `Span`, and proposes a remedy in its
`hint` only. Exceptions with diagnostics know the source text, so ``str(error)`` shows the offending line with a caret.
Notebooks show them without a Python traceback.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range ``[start, end)`` of character offsets into one source text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Return the smallest span that covers both."""
        return Span(min(self.start, other.start), max(self.end, other.end))

    def line_column(self, source: str) -> tuple[int, int]:
        """Return the 1-based line and column of `start` in `source`."""
        before = source[: self.start]
        return before.count("\n") + 1, self.start - (before.rfind("\n") + 1) + 1


NO_SPAN = Span(0, 0)


def nearest_name(name: object, known: Iterable[str]) -> str | None:
    """Return the entry of `known` of which `name` is a slip, ignoring case and underscores; None if there is none.

    A slip has one wrong letter, of long names up to three, or is the beginning of the entry.
    """
    if not isinstance(name, str):
        return None
    ranked = ((_slip_distance(name, candidate), candidate) for candidate in known)
    near = [(distance, candidate) for distance, candidate in ranked if distance is not None]
    return min(near, key=lambda pair: (pair[0], abs(len(pair[1]) - len(name))))[1] if near else None


def _slip_distance(name: str, candidate: str) -> float | None:
    """Return how far `name` is from `candidate`, or None if it is no slip."""
    typed, meant = (text.lower().replace("_", "") for text in (name, candidate))
    short, long = sorted((len(typed), len(meant)))
    if typed == meant:
        return 0
    if short < 2 or (long - short > 3 and not meant.startswith(typed)):
        return None
    most = 1 if long < 6 else 2 if long < 10 else 3
    distance = _edit_distance(typed, meant)
    if distance <= most and (typed[0] == meant[0] or (long >= 5 and distance < most) or long - short == distance):
        return distance
    if short >= 3 and meant.startswith(typed) and "." not in meant[len(typed) :]:
        return 1.5
    return None


def _edit_distance(a: str, b: str) -> int:
    """Return how many letters must be inserted, deleted, replaced or exchanged with their neighbour."""
    rows = [list(range(len(b) + 1))]
    for i, letter in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            row.append(min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (letter != other)))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                row[j] = min(row[j], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]


def did_you_mean(name: object, known: Iterable[str]) -> str | None:
    """Return a hint with the nearest of `known`; None if none is near."""
    nearest = nearest_name(name, known)
    return None if nearest is None else f"did you mean `{nearest}`?"


_MOST_NAMES = 8  # names in a hint


def nearest_or_known_names(name: object, known: Iterable[str]) -> str | None:
    """Return a hint with the nearest of `known`, or else its first names; None if it is empty."""
    names = list(dict.fromkeys(known))
    listed = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
    there = f"there {'is' if len(names) == 1 else 'are'} {listed}" if names else None
    return did_you_mean(name, names) or there


def hint_line(name: object, known: Iterable[str]) -> str:
    """Return `did_you_mean` as the second line of an exception's message; empty if none is near."""
    hint = did_you_mean(name, known)
    return "" if hint is None else f"\n  hint: {hint}"


def alternatives(texts: Sequence[str]) -> str:
    """Return ``a, b or c``; an empty text for none."""
    *others, last = texts or ("",)
    return f"{', '.join(others)} or {last}" if others else last


def known_names_line(name: object, known: Iterable[str]) -> str:
    """Return `nearest_or_known_names` as the second line of an exception's message, or an empty text."""
    hint = nearest_or_known_names(name, known)
    return "" if hint is None else f"\n  hint: {hint}"


class MissingRowsWarning(UserWarning):
    """Issued when a result lacks rows that a reader expects: rows that were dropped, or that are never kept."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem in a text. `code` is words with hyphens (``unknown-property``)."""

    code: str
    message: str
    span: Span = NO_SPAN
    hint: str | None = None

    def render(self, source: str, origin: str = "epl", first: int = 1) -> str:
        """Return the diagnostic with source line and caret; `first` is the number of the first line."""
        head = f"{self.code}: {self.message}"
        if not source or self.span.end > len(source) + 1:
            return head if self.hint is None else f"{head}\n  hint: {self.hint}"
        line, column = self.span.line_column(source)
        text, before, marked = _around(source.split("\n")[line - 1], column - 1, self.span.end - self.span.start)
        number = line + first - 1
        gutter = " " * len(str(number))
        lines = [
            head,
            f"{gutter} --> {origin}:{number}:{column}",
            f"{number} | {text}",
            f"{gutter} | {_BLANKED.sub(' ', before)}{'^' * len(marked)}",
        ]
        if self.hint is not None:
            lines.append(f"{gutter} = hint: {self.hint}")
        return "\n".join(lines)


# Control characters (but for line breaks and tabs), marks that change the direction of a text, what breaks lines or
# shows nothing at all, and halves of characters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return `text` with invisible and direction-changing characters as escapes: ``\\x07``, ``\\u202e``."""
    if text.isprintable():
        return text
    return _UNSEEN.sub(_number, text.replace("\r\n", "\n"))


def _number(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


MOST_WORDS = 40_000  # and signs, of a statement: reading more takes longer than a user waits
MOST_PROBLEMS = 100  # of one text: after as many, further statements are not checked
_MOST_LINES = 200  # maximum lines of an error in a notebook
_LONGEST = 1000  # maximum characters of a line, and of a foreign exception's message
_ENDS = 600, 200  # characters that remain of a longer one, from its beginning and its end
_WIDEST = 200  # characters of a source line around a caret
_BLANKED = re.compile("[^\t]")  # tabs stay, so that the caret lines up


def shorten_line(line: str) -> str:
    """Return a line, of a very long one its beginning and its end."""
    if len(line) <= _LONGEST:
        return line
    first, last = _ENDS
    return f"{line[:first]}… ({len(line):,} characters) …{line[-last:]}"


def _around(line: str, start: int, width: int) -> tuple[str, str, str]:
    begin = 0 if len(line) <= _WIDEST else max(0, min(start - _WIDEST // 2, len(line) - _WIDEST))
    end = begin + _WIDEST
    before = ("…" if begin else "") + printable(line[begin:start])
    marked = printable(line[start : min(start + width, end)])
    after = printable(line[min(start + width, end) : end]) + ("…" if end < len(line) else "")
    return before + marked + after, before, marked or " "


class CepbookError(Exception):
    """Base of all errors that the user can correct. Notebooks show them without a Python traceback.

    Texts of users in the message are made harmless: invisible characters are escaped, very long lines shortened.
    """

    def __str__(self) -> str:
        return "\n".join(shorten_line(line) for line in printable(super().__str__()).split("\n"))

    def _render_traceback_(self) -> list[str]:
        lines = str(self).split("\n")
        more = [f"… {len(lines) - _MOST_LINES:,} more lines"] if len(lines) > _MOST_LINES else []
        return lines[:_MOST_LINES] + more


class CompileError(CepbookError):
    """EPL text that cannot become a plan, with all diagnostics of the module in text order.

    `elsewhere`: the text is that of dependent statements, not the text that was run.
    """

    def __init__(
        self, diagnostics: tuple[Diagnostic, ...], source: str = "", origin: str = "epl", elsewhere: bool = False
    ) -> None:
        self.elsewhere = elsewhere
        self.diagnostics = tuple(sorted(diagnostics, key=lambda d: d.span.start))
        self.source = source
        self.origin = origin
        super().__init__(self._rendered(1))

    def _rendered(self, first: int) -> str:
        texts = [d.render(self.source, self.origin, first) for d in self.diagnostics[:MOST_PROBLEMS]]
        more = len(self.diagnostics) - MOST_PROBLEMS
        return "\n".join([*texts, f"… {more:,} more problems"] if more > 0 else texts)

    def counted_from(self, first: int, origin: str) -> Self:
        """Return the error for a text that begins at line `first` of a notebook cell."""
        if self.elsewhere:
            return self
        self.origin = origin
        self.args = (self._rendered(first),)
        return self

    def without(self, begin: int) -> Self:
        """Return the error for the text without its first `begin` characters, which the user did not write."""

        def moved(span: Span) -> Span:
            return Span(max(0, span.start - begin), max(0, span.end - begin))

        moved_on = tuple(replace(diagnostic, span=moved(diagnostic.span)) for diagnostic in self.diagnostics)
        return type(self)(moved_on, self.source[begin:], self.origin)

    def _render_traceback_(self) -> list[str]:
        """Return the lines of the message, with links into the site if `CEPBOOK_SITE` has its address."""
        lines = super()._render_traceback_()
        site = os.environ.get("CEPBOOK_SITE", "").rstrip("/")
        codes = dict.fromkeys(diagnostic.code for diagnostic in self.diagnostics[:MOST_PROBLEMS])
        return lines + ([f"{site}/reference/problems.html#{code}" for code in codes] if site else [])


class ParseError(CompileError):
    """The text is not EPL."""


class BindError(CompileError):
    """The text is EPL, but a name, type or combination in it is wrong or not supported."""


class Refusal(CepbookError):
    """An engine cannot run a plan; another engine may. `reason` is a fact for the user."""

    def __init__(self, code: str, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(f"{code}: {reason}")


class EventError(CepbookError):
    """An event does not fit its type, or the time or order of an input is wrong."""


class UsageError(CepbookError):
    """A call that is invalid in the present state: unknown statement, dropped cell, blocked undeploy."""


class SnapshotError(CepbookError):
    """State that cannot be saved, or a snapshot that cannot be loaded: damaged, of another format, of other code."""


class JournalError(CepbookError):
    """A stimulus that cannot be written into the journal, which therefore did not happen, or a damaged journal."""


def unchecked_rest(span: Span) -> Diagnostic:
    """Return the diagnostic at the first statement that is not checked, because those before have many problems."""
    fact = f"the text is not checked from here on, because {MOST_PROBLEMS} or more problems precede"
    return Diagnostic("unchecked", fact, span, "correct these first")


def exception_text(failure: BaseException) -> str:
    """Return the class and message of an exception of user code, shortened if the message is very long."""
    try:
        message = str(failure)
    except Exception:  # noqa: BLE001 - an exception whose text fails is still reported
        message = "(an exception without a readable message)"
    return f"{type(failure).__name__}: {shorten_line(message)}"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C at a point where the engine could stop. The message says what was left out; everything else is complete.

    Notebooks show it without a traceback.
    """

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class StatementError(CepbookError):
    """An expression of a statement failed at run time. Other statements were not affected.

    `statement` is its name, `span` points into its EPL if known, `cause` is the Python exception.
    """

    def __init__(self, statement: str, message: str, span: Span | None, cause: BaseException) -> None:
        self.statement = statement
        self.span = span
        self.cause = cause
        super().__init__(message)


class StateLimitError(CepbookError):
    """A statement keeps more than `Config.state_limit` allows, so no event enters the engine.

    A replay raises it, too, if a statement keeps too much after the last event. `statement` is its name.
    """

    def __init__(self, statement: str, message: str) -> None:
        super().__init__(message)
        self.statement = statement


ErrorPolicy = Literal["raise", "keep"]
"""Errors of statements end a replay or a run on Spark with an exception, or are kept beside its result."""


class ReplayError(StatementError):
    """Statements or listeners failed in a replay, which went on to its end.

    `result` is the result of the replay: a `ReplayResult`, whose `failures` are the latest errors, or the rows of a run
    on Spark. `statement`, `span` and `cause` are those of the first of these errors.
    """

    def __init__(self, first: StatementError, message: str, result: Any) -> None:
        super().__init__(first.statement, message, first.span, first.cause)
        self.result = result


def too_long(count: int, span: Span) -> Diagnostic:
    """Return the diagnostic of a statement of more than `MOST_WORDS` words and signs. `span` is its beginning."""
    fact = f"a statement has at most {MOST_WORDS:,} words and signs, this one has {count:,}"
    hint = "divide it with `insert into`, or put its values into a table or a variable"
    return Diagnostic("too-long", fact, span, hint)


class _DeepNestingGuard(ContextDecorator):
    """A class, because a generator as context manager takes ten times as long."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if not isinstance(error, RecursionError | SyntaxError):
            return
        if isinstance(error, SyntaxError) and "nested" not in str(error):  # too many parentheses in generated code
            return
        hint = "compute parts of it in a statement of its own, with `insert into`, or in a Python function"
        too_deep = BindError((Diagnostic("too-deep", "an expression is nested too deeply", hint=hint),))
        raise too_deep from error.with_traceback(None)  # Pyodide has no room on its stack to free all frames later


def rejecting_deep_nesting() -> _DeepNestingGuard:
    """Return a context manager, or decorator, that raises BindError for expressions nested too deeply for Python's
    stack or parser.
    """
    return _DeepNestingGuard()
