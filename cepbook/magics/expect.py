"""``%%expect``: assert the deliveries that the latest cell with an effect has caused.

Deliveries come from the feeds. Each statement that the cell names is compared separately, delivery by delivery. If a
feed has dropped a delivery, UsageError is raised: a missing delivery never counts as correct.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cepbook.display import format_count
from cepbook.errors import Diagnostic, Span, UsageError, did_you_mean
from cepbook.magics.event_cells.cell_checks import check, check_written
from cepbook.magics.event_cells.event_times import EventTimes
from cepbook.magics.event_cells.reaction_recorder import ReactionRecorder, expectation_error, side_by_side
from cepbook.magics.shell.cell_marks import DeliveryMarks
from cepbook.magics.shell.host import MagicCommand, NotebookHost
from cepbook.magics.shell.options import MagicOptions
from cepbook.magics.shell.output import text
from cepbook.session import Workbench
from cepbook.testing import notation
from cepbook.testing.cell_reader import CellStep, EventsError
from cepbook.testing.report import evaluate_step
from cepbook.testing.runner import StepResult, same_reactions
from cepbook.testing.trace import (
    Advance,
    Deployed,
    Failure,
    GetVariable,
    Iterate,
    Partitions,
    Reaction,
    RunQuery,
    ScenarioError,
    StatementDelivery,
    TraceStep,
    parse_steps,
)

READINGS = (Iterate, RunQuery, GetVariable, Partitions)
_FLUSH = re.compile(r"@|(?:iterate|query|get|partitions)\s+(?![-+]\s)")
_COMMENT = re.compile(r"\s*(?://|#)")
_WHOSE = re.compile(r"^\s*!?\s*`?")
_NOTHING = re.compile(r"\s*(?P<name>`[^`]+`|[^\s`]+)\s+\(none\)\s*$")

OPTIONS = MagicOptions("%%expect").add(
    "--all", action="store_true", help="all that was delivered since the statement was deployed, as far as it is kept"
)


@dataclass(slots=True)
class _Expected:
    """The expected reactions of one statement at one time; None: at any time."""

    name: str
    time: int | None
    line: int
    reactions: list[Reaction] = field(default_factory=list)


def run_cell(host: NotebookHost, line: str, cell: str) -> None:
    """Read, check the names, compare. Raises EventsError for a malformed cell, ExpectationError for a difference."""
    options = OPTIONS.parse(line)
    workbench = host.workbench
    expected, parts = _read(cell, workbench.runtime.config.second)
    if not expected and not parts:
        raise UsageError("the cell expects nothing\n  hint: a line like `out + price=10.0`, or `out (none)`")
    check(workbench, parts, cell)
    _check(expected, workbench, cell)
    moments = EventTimes(workbench)
    expected = [replace(e, reactions=[*moments.stated(None, e.reactions)]) for e in expected]
    parts = [*moments.read(parts)]
    since = DeliveryMarks() if options.all else host.since.latest
    results = [*_delivered(expected, workbench, since, moments)]
    with ReactionRecorder(workbench, []) as observer:
        results += [evaluate_step(observer.run(step.step), frozenset()) for step in parts]
    wrong = [result for result in results if not result.agrees]
    if wrong:
        host.show(side_by_side(map(moments.written, wrong), "expectation"))
        raise expectation_error(wrong, "expectation", "expectations")
    deliveries = sum(isinstance(r, StatementDelivery) for expectation in expected for r in expectation.reactions)
    names = ", ".join(dict.fromkeys(expectation.name for expectation in expected))
    said = [f"{format_count(deliveries, 'delivery', 'deliveries')} of {names}"] if names else []
    said += [format_count(len(parts), "reading")] if parts else []
    host.show(text(f"✓ {' and '.join(said)} as expected"))


def check_cell(host: NotebookHost, line: str, body: str, cell: str | None) -> tuple[Diagnostic, ...]:
    """Raise EventsError for what is wrong with a cell, UsageError for wrong options; run nothing."""
    OPTIONS.parse(line)
    expected, parts = _read(body, host.workbench.runtime.config.second)
    check_written(host.workbench, body, parts)
    _check(expected, host.workbench, body)
    return ()


def _read(cell: str, second: int) -> tuple[list[_Expected], list[CellStep]]:
    """Return the expectations by statement and time, and the readings."""
    lines: list[str] = []
    nothing: list[tuple[int, str]] = []
    now: int | None = None
    for number, line in enumerate(cell.splitlines(), 1):
        match = _NOTHING.match(line)
        if notation.CLOCK.match(line):
            now = _moment(line, now, second, cell, number)
            lines.append(f"@{now}")
        elif match is not None and match["name"] not in ("=", "query"):
            nothing.append((number, match["name"].strip("`")))
            lines.append("")
        elif not line.strip() or _COMMENT.match(line):
            lines.append("")
        else:
            lines.append(line.strip() if _FLUSH.match(line.lstrip()) else f"    {line}")
    try:
        steps = parse_steps(["@0", *lines], 0, Path("cell"))
    except ScenarioError as error:
        raise _wrong(cell, error.line, error.message, _HINT) from None
    expected: dict[tuple[str, int | None], _Expected] = {}
    parts: list[CellStep] = []
    times: list[tuple[int, int | None]] = []
    for step in steps:
        match step.stimulus:
            case Advance(time):
                times.append((step.line, time if step.line else None))
                for reaction in step.reactions:
                    _add(expected, reaction, times[-1][1], step.line, cell)
            case stimulus if isinstance(stimulus, READINGS):
                parts.append(CellStep(step, _line_span(cell, step.line)))
            case _:
                raise _wrong(cell, step.line, "this is neither a reaction nor a reading", _HINT)
    for number, name in nothing:
        at_time = [time for at, time in times if at <= number][-1]
        stated = expected.setdefault((name, at_time), _Expected(name, at_time, number))
        if stated.reactions:
            what = f"`{name}` delivers nothing here, and a row at the same time"
            raise _wrong(cell, number, what, "keep one of them, or write `@TIME` above each")
    if len({time is None for _, time in expected}) > 1:
        at = min(expectation.line for expectation in expected.values() if expectation.time is None)
        what = "some deliveries have a time and these have none"
        raise _wrong(cell, at, what, '`t = "…"` or `@TIME` above them')
    return sorted(expected.values(), key=lambda each: each.line), parts


def _moment(line: str, now: int | None, second: int, cell: str, number: int) -> int:
    """Return the time of a line ``t = …``; `now` is the time before."""
    try:
        time, end = notation.parse_clock(line, 0, now, second)
    except notation.NotationError as error:
        start = _line_span(cell, number).start
        span = Span(start + error.start, start + error.end)
        raise EventsError((Diagnostic("expect-syntax", error.message, span, error.hint),), cell) from None
    if line[end:].strip(" \t;") and not _COMMENT.match(line, end):
        raise _wrong(cell, number, "there is something behind the time", 't = "2024-01-01 08:00:00"')
    return time


def _add(
    expected: dict[tuple[str, int | None], _Expected], reaction: Reaction, time: int | None, above: int, cell: str
) -> None:
    match reaction:
        case StatementDelivery(name) | Failure(name):
            lines = enumerate(cell.splitlines(), 1)
            whole = re.compile(re.escape(name) + r"(?!\w)")
            line = next(n for n, text in lines if n > above and whole.match(_WHOSE.sub("", text)))
            if isinstance(reaction, Failure) and time is not None:
                what = "at what time a statement failed is not known"
                raise _wrong(cell, line, what, "no time above it")
            expected.setdefault((name, time), _Expected(name, time, line)).reactions.append(reaction)
        case _:
            message = "rows without what they are read from"
            raise _wrong(cell, above + 1, message, "`iterate NAME` above")


def _line_span(cell: str, line: int) -> Span:
    lines = cell.splitlines(keepends=True)
    start = sum(map(len, lines[: line - 1]))
    return Span(start, start + max(1, len(lines[line - 1].rstrip())))


def _wrong(cell: str, line: int, message: str, hint: str) -> EventsError:
    return EventsError((Diagnostic("expect-syntax", message, _line_span(cell, max(line, 1)), hint),), cell)


_HINT = "`out + price=10.0`, `out (none)`, `! out`, `t = …`, `@TIME`, or `iterate out` with `= …` below it"


def _check(expected: Sequence[_Expected], workbench: Workbench, cell: str) -> None:
    """Raise EventsError for a name that is not a statement."""
    known = workbench.runtime.statements
    wrong = []
    for expectation in expected:
        if expectation.name not in known:
            message = f"there is no statement `{expectation.name}`"
            span = _line_span(cell, expectation.line)
            wrong.append(Diagnostic("unknown-statement", message, span, did_you_mean(expectation.name, known)))
    if wrong:
        raise EventsError(tuple(wrong), cell)


def _delivered(
    expected: Sequence[_Expected], workbench: Workbench, since: DeliveryMarks, moments: EventTimes
) -> Iterator[StepResult]:
    """Yield the actual deliveries of each statement beside the expected ones; with times, each time by itself."""
    for name in dict.fromkeys(entry.name for entry in expected):
        own = [entry for entry in expected if entry.name == name]
        feed = workbench.feed(name)
        unread = feed.since(since.cursor(name, feed))
        if unread.missed:
            raise UsageError(
                f"`{name}`: {format_count(unread.missed, 'delivery', 'deliveries')} of these are not kept any more\n"
                "  hint: a workbench with a larger feed_capacity, or an expectation after a smaller step"
            )
        timed = own[0].time is not None
        actual: dict[int | None, list[Reaction]] = {entry.time: [] for entry in own}
        for delivery in unread.deliveries:
            if delivery.insert or delivery.remove:
                rows = (tuple(delivery.insert or ()), tuple(delivery.remove or ()))
                actual.setdefault(delivery.time if timed else None, []).append(StatementDelivery(name, *rows))
        if since.failed(name, workbench):
            actual.setdefault(None, []).append(Failure(name, ""))
        by_time = {entry.time: entry for entry in own}
        for time in sorted(actual, key=lambda time: (time is not None, time or 0)):
            expectation = by_time.get(time, _Expected(name, time, own[-1].line))
            reactions = tuple(expectation.reactions)
            heading = name if time is None else f"{name} @{moments.text(time)}"
            step = TraceStep(Deployed(), reactions, heading, expectation.line, expectation.line)
            agrees = same_reactions(reactions, actual[time], unordered=False)
            yield StepResult(step, tuple(actual[time]), agrees)


DETAILS = """\
Below a cell that did something (sent events, moved the clock, replayed), what it must have led to:
  out + symbol="A" price=10.0       a delivery of statement out: an insert row; values are JSON
      - symbol="Z" price=1.0        a remove row of the same delivery
  out (none)                        out delivered nothing
  ! out                             out failed
  t = "2024-01-01 08:00:00.000"     the deliveries below it came at this time; all of the cell or none have one; also
                                    t = t.plus(1 hour), t = 1500 or @1500 (ms)
  iterate out                       then `= …` lines: the rows that it shows now; also partitions, query, get
All deliveries of a statement that the cell names must be stated, in their order; other statements are not looked at.
A column that holds the time of an event may be a date: `out + at="2024-01-01 08:00" price=10.0`."""

COMMAND = MagicCommand(
    "expect",
    "Assert what statements delivered because of the latest cell that did something.",
    ("%%expect [--all]",),
    cell=run_cell,
    details=DETAILS,
    options=OPTIONS,
    check=check_cell,
)
