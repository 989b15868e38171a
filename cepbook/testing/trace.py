"""Trace lines: flush-left stimuli, and indented reactions below them.

Reading (`parse_steps`) and printing (`format_reactions`) are inverse to each other, so that recorded lines can be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cepbook.errors import CepbookError
from cepbook.testing.values import ValueSyntaxError, format_name, format_row, parse_name, parse_row, parse_value

INDENT = "    "
T = TypeVar("T")

_FURTHER_ROW = re.compile(r"(?P<sign>[-+])(?:\s+(?P<row>.*))?\Z")
_DELIVERY = re.compile(r"(?P<name>`[^`]+`|[^\s`]+)\s+(?:(?P<empty>\(empty\))|(?P<sign>[-+])(?:\s+(?P<row>.*))?)\s*\Z")
_ADVANCE = re.compile(r"@(?P<time>-?[0-9]{1,30})(?P<stepping>\s+stepping)?\s*\Z")
_ASSIGNMENT = re.compile(r"(?P<name>`[^`]+`|\S+)\s*=\s*(?P<value>.*)\Z")


class ScenarioError(CepbookError):
    """A scenario file is malformed. The text of the error starts with ``file:line:``."""

    def __init__(self, path: Path, line: int, message: str) -> None:
        self.path = path
        self.line = line
        self.message = message
        super().__init__(f"{path}:{line}: {message}")


@dataclass(frozen=True, slots=True)
class Send:
    """``Tick symbol="A" price=10.0``: an event arrives."""

    event_type: str
    event: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Together:
    """``together A x=1 ;; B y=2``: several events arrive at once."""

    events: tuple[Send, ...]


@dataclass(frozen=True, slots=True)
class Advance:
    """``@1500``: the clock moves to this time in one go; ``@1500 stepping`` stops at every due time on the way."""

    time: int
    stepping: bool


@dataclass(frozen=True, slots=True)
class Iterate:
    """``iterate out``: read the rows of a statement's iterator."""

    statement: str


@dataclass(frozen=True, slots=True)
class RunQuery:
    """``query select …``: run a fire-and-forget query."""

    epl: str


@dataclass(frozen=True, slots=True)
class SetVariable:
    """``set V = 5``."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class GetVariable:
    """``get V``; the reaction is one row with the column ``value``."""

    name: str


@dataclass(frozen=True, slots=True)
class Undeploy:
    """``undeploy id``."""

    id: str


@dataclass(frozen=True, slots=True)
class Partitions:
    """``partitions Ctx``: the live partitions of a context with their properties."""

    context: str


@dataclass(frozen=True, slots=True)
class ReplaceTable:
    """``table NAME = [[…], …]``: replace the rows of a reference table."""

    name: str
    rows: list[list[Any]]


@dataclass(frozen=True, slots=True)
class Deployed:
    """``deployed``: stands for the deployment of the fence above, and takes the reactions to it."""


Reading = Iterate | RunQuery | GetVariable | Partitions
Stimulus = Send | Together | Advance | Reading | SetVariable | Undeploy | ReplaceTable | Deployed


@dataclass(frozen=True, slots=True)
class StatementDelivery:
    """One atomic delivery of a statement. Both row lists may be empty (a forced update)."""

    statement: str
    insert: tuple[dict[str, Any], ...]
    remove: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ReadRows:
    """The rows read by ``iterate``, ``query``, ``get`` or ``partitions``."""

    rows: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """``! what``: the stimulus failed. `what` is the failing statement, or ``runtime``.

    `detail` is the engine's message. It is displayed, but never written to a file or compared.
    """

    what: str
    detail: str = ""


Reaction = StatementDelivery | ReadRows | Failure


@dataclass(frozen=True, slots=True)
class TraceStep:
    """A stimulus with its expected reactions. Lines are 1-based; reactions are from `line` + 1 to `last_line`."""

    stimulus: Stimulus
    reactions: tuple[Reaction, ...]
    text: str
    line: int
    last_line: int


def parse_steps(lines: Sequence[str], first_line: int, path: Path) -> tuple[TraceStep, ...]:
    """Parse the lines of a trace; `first_line` is the number of the first one. Errors: `ScenarioError`."""
    steps: list[TraceStep] = []
    numbered = [(number, line.rstrip()) for number, line in enumerate(lines, first_line) if line.strip()]
    at = 0
    while at < len(numbered):
        number, line = numbered[at]
        if line[0].isspace():
            raise ScenarioError(path, number, "a reaction without a stimulus above it")
        end = at + 1
        while end < len(numbered) and numbered[end][1][0].isspace():
            end += 1
        stimulus = _at(path, number, parse_stimulus, line)
        reactions = tuple(_reactions(numbered[at + 1 : end], path))
        steps.append(TraceStep(stimulus, reactions, line, number, numbered[end - 1][0]))
        at = end
    return tuple(steps)


def _at(path: Path, line: int, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueSyntaxError as error:
        raise ScenarioError(path, line, str(error)) from None


def parse_stimulus(line: str) -> Stimulus:
    """Parse one flush-left trace line. Errors: `ValueSyntaxError`."""
    word, _, rest = line.partition(" ")
    rest = rest.strip()
    if line.startswith("@"):
        return _advance(line)
    if word in _KEYWORDS and (rest or word == "deployed"):
        return _KEYWORDS[word](rest)
    return _event(line)


def _advance(line: str) -> Advance:
    match = _ADVANCE.match(line)
    if match is None:
        raise ValueSyntaxError("expected '@TIME' or '@TIME stepping', the time in whole milliseconds")
    return Advance(int(match["time"]), match["stepping"] is not None)


def _event(line: str) -> Send:
    name, end = parse_name(line)
    if end < len(line) and not line[end].isspace():
        raise ValueSyntaxError(f"expected a blank after the event type {name!r}")
    return Send(name, parse_row(line[end:]))


def _together(text: str) -> Together:
    return Together(tuple(_event(text_of_event.strip()) for text_of_event in text.split(" ;; ")))


def _assignment(text: str) -> tuple[str, Any]:
    match = _ASSIGNMENT.match(text)
    if match is None:
        raise ValueSyntaxError("expected 'NAME = JSON'")
    return match["name"].strip("`"), parse_value(match["value"])


def _replace_table(text: str) -> ReplaceTable:
    name, rows = _assignment(text)
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise ValueSyntaxError("the rows of a table are an array of arrays")
    return ReplaceTable(name, rows)


def _deployed(text: str) -> Deployed:
    if text:
        raise ValueSyntaxError("'deployed' stands alone")
    return Deployed()


def _name(text: str) -> str:
    return text[1:-1] if text.startswith("`") and text.endswith("`") else text


_KEYWORDS: dict[str, Callable[[str], Stimulus]] = {
    "iterate": lambda text: Iterate(_name(text)),
    "query": RunQuery,
    "set": lambda text: SetVariable(*_assignment(text)),
    "get": lambda text: GetVariable(_name(text)),
    "undeploy": lambda text: Undeploy(_name(text)),
    "partitions": lambda text: Partitions(_name(text)),
    "together": _together,
    "table": _replace_table,
    "deployed": _deployed,
}


def _reactions(lines: Sequence[tuple[int, str]], path: Path) -> Iterator[Reaction]:
    """Return the reactions in numbered, indented lines. Consecutive ``=`` lines are one reading."""
    at = 0
    while at < len(lines):
        number, text = lines[at][0], lines[at][1].strip()
        if text.startswith("!"):
            yield Failure(text[1:].strip())
            at += 1
        elif text.startswith("="):
            end = _run(lines, at, lambda other: other.startswith("="))
            yield ReadRows(tuple(_read_rows(lines[at:end], path)))
            at = end
        else:
            end = _run(lines, at + 1, lambda other: _FURTHER_ROW.match(other) is not None)
            yield _delivery(number, text, lines[at + 1 : end], path)
            at = end


def _run(lines: Sequence[tuple[int, str]], start: int, belongs: Callable[[str], bool]) -> int:
    end = start
    while end < len(lines) and belongs(lines[end][1].strip()):
        end += 1
    return end


def _read_rows(lines: Sequence[tuple[int, str]], path: Path) -> Iterator[dict[str, Any]]:
    for number, line in lines:
        text = line.strip()[1:].strip()
        if text != "(none)":
            yield _at(path, number, parse_row, text)
        elif len(lines) > 1:
            raise ScenarioError(path, number, "'(none)' stands alone")


def _delivery(number: int, text: str, further: Sequence[tuple[int, str]], path: Path) -> StatementDelivery:
    match = _DELIVERY.match(text)
    if match is None:
        raise ScenarioError(
            path, number, "expected a reaction: 'NAME + row', 'NAME - row', 'NAME (empty)', '= row', '! what'"
        )
    name = _name(match["name"])
    if match["empty"] is not None:
        if further:
            raise ScenarioError(path, further[0][0], "an (empty) delivery has no rows")
        return StatementDelivery(name, (), ())
    rows: dict[str, list[dict[str, Any]]] = {"+": [], "-": []}
    rows[match["sign"]].append(_at(path, number, parse_row, match["row"] or ""))
    for line_number, line in further:
        row = _FURTHER_ROW.match(line.strip())
        assert row is not None  # `_run` stops before any other line
        if row["sign"] == "+" and rows["-"]:
            raise ScenarioError(path, line_number, "insert rows come before remove rows")
        rows[row["sign"]].append(_at(path, line_number, parse_row, row["row"] or ""))
    return StatementDelivery(name, tuple(rows["+"]), tuple(rows["-"]))


def format_reactions(reactions: Iterable[Reaction], *, details: bool = False) -> list[str]:
    """Return the reactions as trace lines without indentation; `details` adds the messages of failures."""
    lines: list[str] = []
    for reaction in reactions:
        match reaction:
            case Failure(what, detail):
                lines.append(f"! {what}")
                lines.extend(f"  {line}" for line in (detail.splitlines() if details else ()))
            case ReadRows(rows):
                lines.extend([f"= {format_row(row)}" for row in rows] or ["= (none)"])
            case StatementDelivery(statement, insert, remove):
                lines.extend(_delivery_lines(format_name(statement), insert, remove))
    return lines


def _delivery_lines(name: str, insert: Sequence[dict[str, Any]], remove: Sequence[dict[str, Any]]) -> list[str]:
    signed = [f"+ {format_row(row)}" for row in insert] + [f"- {format_row(row)}" for row in remove]
    if not signed:
        return [f"{name} (empty)"]
    return [f"{name} {signed[0]}", *(f"{' ' * len(name)} {line}" for line in signed[1:])]
