"""Read cells of events: events and times in the online notebook's notation and as trace lines, mixed freely.

Every line decides for itself. A line ``t = …`` or ``Type = {…}`` (which may continue over several lines) is in the
notation of `notation`. Any other flush-left line is a trace line as in scenario files (`cepbook.testing`).
Lines indented below either are the expected reactions. ``//``, ``/* … */`` and lines that begin with ``#`` are
comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cepbook.errors import Diagnostic, EventError, Span
from cepbook.testing import notation
from cepbook.testing.trace import Advance, ScenarioError, Send, Stimulus, TraceStep, parse_steps

_REACTION = re.compile(r"\s*(?:[-+=!]|(?:`[^`]+`|[^\s`=]+)\s+(?:[-+]|\(empty\)))")
_COMMENT = re.compile(r"[ \t]*(?:(?://|#)[^\n]*|/\*.*?\*/[ \t]*)(?=\n|\Z)", re.DOTALL)
_PYTHON_VALUE = re.compile(r"(?P<before>[\w`]=):(?P<name>[^\W\d]\w*)(?=\s|$)")
_LINE = re.compile(r"[^\n]*")


class EventsError(EventError):
    """A cell of events or reactions that cannot run: everything that is wrong, with line and caret. Nothing was sent.

    The first line is that of the magic, as the front end counts.
    """

    def __init__(self, diagnostics: tuple[Diagnostic, ...], source: str) -> None:
        self.diagnostics = tuple(sorted(diagnostics, key=lambda d: d.span.start))
        self.source = source
        super().__init__("\n".join(d.render(source, "cell", 2) for d in self.diagnostics))


@dataclass(frozen=True, slots=True)
class CellStep:
    """One stimulus with its expected reactions (a `Step`), and the span of the stimulus in the cell."""

    step: TraceStep
    span: Span


Variables = Mapping[str, Any]


def read_cell(cell: str, now: int, second: int = 1000, variables: Variables | None = None) -> tuple[CellStep, ...]:
    """Return the steps of a cell. The clock before it is `now`, with `second` units per second. Raises EventsError.

    `variables` are the values of ``:name``.
    """
    parts, wrong = parse_cell(cell, now, second, variables)
    if wrong:
        raise EventsError(wrong, cell)
    return parts


def parse_cell(
    cell: str, now: int, second: int = 1000, variables: Variables | None = None
) -> tuple[tuple[CellStep, ...], tuple[Diagnostic, ...]]:
    """Return the steps that can be read, and diagnostics for the others."""
    reader = _Reader(cell, now, second, variables or {})
    parts = tuple(reader.parts())
    return parts, tuple(reader.wrong)


class _Reader:
    def __init__(self, cell: str, now: int, second: int, variables: Variables) -> None:
        self.cell = cell
        self.variables = variables
        self.now = now
        self.second = second
        self.at = 0
        self.wrong: list[Diagnostic] = []

    def parts(self) -> Iterator[CellStep]:
        while self.at < len(self.cell):
            if self._comment() or not self._line().strip():
                self._next_line()
                continue
            start = self.at + len(self._line()) - len(self._line().lstrip())
            stimulus = self._stimulus()
            span = Span(start, max(self.at, start + 1))
            self._trailing_comment()
            step = self._with_reactions(stimulus, span)
            if step is not None:
                yield CellStep(step, span)

    def _line(self) -> str:
        match = _LINE.match(self.cell, self.at)
        return match.group() if match is not None else ""

    def _next_line(self) -> None:
        end = self.cell.find("\n", self.at)
        self.at = len(self.cell) if end < 0 else end + 1

    def _comment(self) -> bool:
        """Skip a comment that has its lines for itself."""
        match = _COMMENT.match(self.cell, self.at)
        if match is not None:
            self.at = match.end()
        return match is not None

    def _trailing_comment(self) -> None:
        """Skip a comment or semicolon behind ``Type = {…}``; report other text."""
        rest = self._line()
        if not self._comment() and rest.strip(" \t;"):
            begin = self.at + len(rest) - len(rest.lstrip())
            end = self.at + len(rest)
            self._note("unexpected-text", "unexpected text; every event has a line of its own", begin, end)
        self._next_line()

    def _stimulus(self) -> Stimulus | None:
        """Read the stimulus at the start of a line; None, with a diagnostic, if it is malformed."""
        line = self._line()
        try:
            if notation.CLOCK.match(line):
                self.now, self.at = notation.parse_clock(self.cell, self.at, self.now, self.second)
                return Advance(self.now, stepping=False)
            if notation.EVENT.match(line):
                name, event, self.at = notation.parse_event(self.cell, self.at, self.variables)
                return Send(name, event)
        except notation.NotationError as error:
            self._note("events-syntax", error.message, error.start, error.end, error.hint)
            self._skip_malformed(error.end)
            return None
        return self._trace_line(line)

    def _skip_malformed(self, reached: int) -> None:
        """Continue at the next line that begins something new, so that errors do not cascade."""
        while self.at < len(self.cell):
            self._next_line()
            line = self._line()
            begins = notation.CLOCK.match(line) or notation.EVENT.match(line) or line[:1] == "@"
            if self.at >= reached and (begins or not line.strip()):
                break
        self.at = max(0, self.at - 1)  # at the line break, where a well-formed event ends, too

    def _trace_line(self, line: str) -> Stimulus | None:
        start = self.at
        self.at += len(line)
        if line[0].isspace():
            what = "a reaction without a stimulus above it" if _REACTION.match(line) else "an indented line"
            self._note("events-syntax", what, start + len(line) - len(line.lstrip()), self.at, "stimuli are flush left")
            return None
        steps = self._parse([_PYTHON_VALUE.sub(self._json, line)], start)
        if not steps:
            return None
        stimulus = steps[0].stimulus
        if isinstance(stimulus, Advance):
            self.now = stimulus.time
        return stimulus

    def _json(self, match: re.Match[str]) -> str:
        """The value of ``:name`` in a trace line, as JSON; a value that has none stays, and is reported."""
        try:
            return match["before"] + json.dumps(notation.plain_value(self.variables[match["name"]]))
        except (KeyError, TypeError, ValueError):
            return match.group()

    def _with_reactions(self, stimulus: Stimulus | None, span: Span) -> TraceStep | None:
        """Read the indented lines below the stimulus."""
        first = self.at
        lines: list[str] = []
        while self.at < len(self.cell):
            line = self._line()
            if not self._is_reaction(line):
                break
            lines.append(line)
            self._next_line()
        number = self.cell.count("\n", 0, span.start) + 1
        text = self.cell[span.start : span.end]
        if not lines:
            return TraceStep(stimulus, (), text, number, number) if stimulus is not None else None
        steps = self._parse(["@0", *lines], first, skip=1)
        if stimulus is None or not steps:
            return None
        return TraceStep(stimulus, steps[0].reactions, text, number, number + len(lines))

    def _is_reaction(self, line: str) -> bool:
        return (
            bool(line.strip())
            and line[0].isspace()
            and notation.CLOCK.match(line) is None
            and notation.EVENT.match(line) is None
            and _COMMENT.match(line) is None
        )

    def _parse(self, lines: list[str], start: int, skip: int = 0) -> tuple[TraceStep, ...]:
        """Parse trace lines as a step. The first one, after `skip` that are not in the cell, is at offset `start`."""
        try:
            return parse_steps(lines, 1, Path("cell"))
        except ScenarioError as error:
            index = max(error.line - 1, skip)
            begin = start + sum(len(line) + 1 for line in lines[skip:index])
            text = lines[index]
            hint = "texts stand in double quotes in a trace line" if "'" in text else None
            self._note("events-syntax", error.message, begin + len(text) - len(text.lstrip()), begin + len(text), hint)
            return ()

    def _note(self, code: str, message: str, start: int, end: int, hint: str | None = None) -> None:
        self.wrong.append(Diagnostic(code, message, Span(start, max(end, start + 1)), hint))
