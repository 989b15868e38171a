"""``%%events``: send events, advance the clock, show the reactions and check the expected ones.

The whole cell is read and checked against the event types before the first event is sent, so a mistake in its last line
leaves everything as it was. Expected reactions (lines indented below a stimulus) are compared as in scenario files: per
stimulus, in order, for the statements that the cell names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from cepbook.display import format_count, format_property, format_time
from cepbook.errors import Diagnostic
from cepbook.magics.event_cells.cell_checks import check, check_written, observed_statements
from cepbook.magics.event_cells.event_times import EventTimes
from cepbook.magics.event_cells.reaction_recorder import (
    ReactionRecorder,
    RecordedReaction,
    expectation_error,
    side_by_side,
)
from cepbook.magics.shell.host import MagicCommand, NotebookHost
from cepbook.magics.shell.options import MagicOptions
from cepbook.magics.shell.output import clock_text, row_text, stack, table, text
from cepbook.session import Workbench
from cepbook.testing.cell_reader import CellStep, parse_cell, read_cell
from cepbook.testing.report import compared_statements, evaluate_step
from cepbook.testing.trace import Failure, ReadRows, Send, StatementDelivery, TraceStep
from cepbook.widgets.base.static_picture import StaticPicture

WIDE = 8  # with more columns than this over all statements, a row is one text
OPTIONS = (
    MagicOptions("%%events")
    .add("--only", help="observe only these statements: --only out,alerts")
    .add("--quiet", action="store_true", help="show nothing unless a check fails")
)


def run_cell(host: NotebookHost, line: str, cell: str) -> None:
    """Read, check, send, show, compare.

    Raises EventsError before anything is sent. Afterwards it raises ExpectationError or, in a cell without
    expectations, the first StatementError.
    """
    options = OPTIONS.parse(line)
    workbench = host.workbench
    parts = read_cell(cell, workbench.runtime.now, workbench.runtime.config.second, host.shell.user_ns)
    only = observed_statements(options.only, workbench)
    check(workbench, parts, cell)
    moments = EventTimes(workbench)
    parts = moments.read(parts)
    checked = compared_statements(parts)
    note = moments.untimely(parts)
    with ReactionRecorder(workbench, only) as observer:
        results = [observer.run(step.step) for step in parts]
    results = results if checked is None else [evaluate_step(result, checked) for result in results]
    wrong = checked is not None and not all(result.agrees for result in results)
    if not options.quiet or wrong:
        host.show(_result_picture(observer.caused, parts, workbench, moments, checked if not wrong else None, note))
    if wrong:
        host.show(side_by_side(moments.written(result) for result in results if not result.agrees))
        raise expectation_error(results)
    failed = next((c.reaction for c in observer.caused if isinstance(c.reaction, Failure)), None)
    if failed is not None and checked is None:
        raise observer.errors[0]


def check_cell(host: NotebookHost, line: str, body: str, cell: str | None) -> tuple[Diagnostic, ...]:
    """Raise EventsError for what is wrong with a cell, UsageError for wrong options; run nothing."""
    workbench = host.workbench
    observed_statements(OPTIONS.parse(line).only, workbench)
    second, variables = workbench.runtime.config.second, host.shell.user_ns
    check_written(workbench, body, *parse_cell(body, workbench.runtime.now, second, variables))
    return ()


def _result_picture(
    caused: Sequence[RecordedReaction],
    parts: Sequence[CellStep],
    workbench: Workbench,
    moments: EventTimes,
    agreed: frozenset[str] | None,
    note: str | None,
) -> StaticPicture:
    sent = sum(isinstance(step.step.stimulus, Send) for step in parts)
    deliveries = [c for c in caused if isinstance(c.reaction, StatementDelivery)]
    head = (
        f"{format_count(sent, 'event')}, clock {clock_text(workbench.runtime.now, workbench.runtime.config.second)}, "
    )
    head += format_count(len(deliveries), "delivery", "deliveries")
    pictures = [_deliveries(head, deliveries, moments)]
    by_line = {step.step.line: step.step for step in parts}
    for c in caused:
        if isinstance(c.reaction, ReadRows):
            pictures.append(_reading(by_line[c.line], c.reaction, moments))
        elif isinstance(c.reaction, Failure):
            pictures.append(text(f"line {c.line}: {c.reaction.detail}"))
    if note is not None:
        pictures.append(text(note, sentences=True))
    if agreed is not None:
        expected = sum(len(step.step.reactions) for step in parts)
        pictures.append(text(f"✓ {format_count(expected, 'reaction')} as expected"))
    return stack(pictures)


def _deliveries(head: str, caused: Sequence[RecordedReaction], moments: EventTimes) -> StaticPicture:
    """One row per event; only the first row of a delivery has the time and the statement."""
    second = moments.second
    deliveries = [c.reaction for c in caused if isinstance(c.reaction, StatementDelivery)]
    times = {delivery.statement: moments.columns(None, delivery) for delivery in deliveries}
    names = list(dict.fromkeys(name for _, _, row in _signed(caused) for name in row))
    wide = len(names) > WIDE
    rows, signs = [], []
    previous: RecordedReaction | None = None
    for c, sign, row in _signed(caused):
        assert isinstance(c.reaction, StatementDelivery)
        lead = ("", "") if c is previous else (format_time(c.time, second=second), c.reaction.statement)
        own = times[c.reaction.statement]
        cells = (row_text(row, own, second),) if wide else tuple(_text(n, row, own, second) for n in names)
        rows.append((*lead, sign, *cells))
        signs.append(sign)
        previous = c
    numeric = _numeric(names, [row for _, _, row in _signed(caused)]) - frozenset[str]().union(*times.values())
    headings = ("time", "statement", "±", *(("columns",) if wide else names))
    return table(head, headings, rows, signs=signs, right=numeric)


def _text(name: str, row: Mapping[str, Any], times: Collection[str], second: int) -> str:
    return format_property(name, row[name], times, second) if name in row else ""


def _signed(caused: Sequence[RecordedReaction]) -> Iterator[tuple[RecordedReaction, str, dict[str, Any]]]:
    for c in caused:
        if isinstance(c.reaction, StatementDelivery):
            yield from ((c, "+", row) for row in c.reaction.insert)
            yield from ((c, "−", row) for row in c.reaction.remove)


def _reading(step: TraceStep, found: ReadRows, moments: EventTimes) -> StaticPicture:
    names = list(dict.fromkeys(name for row in found.rows for name in row))
    times = moments.columns(step.stimulus, found)
    rows = [tuple(_text(name, row, times, moments.second) for name in names) for row in found.rows]
    numeric = _numeric(names, found.rows) - times
    return table(f"{step.text.strip()}: {format_count(len(rows), 'row')}", names, rows, right=numeric)


def _numeric(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> set[str]:
    return {name for name in names if all(isinstance(row.get(name) or 0, int | float) for row in rows)}


DETAILS = """\
Lines in two notations, mixed freely:
  t = "2024-01-01 08:00:00.000"          the clock, UTC; also t = "00:05" and t = 1500 (ms) of one that began at 0
  t = t.plus(1 hour 30 seconds)
  Tick = {symbol = 'A', price = 10.0}    an event; a property that is left out is null, the time of the event may be a
                                         date: {at = '2024-01-01 08:00'}
  Tick symbol="A" price=10.0             the same as a trace line; values are JSON
  @1500                                  the clock in ms; `@1500 stepping` stops at every due time
  iterate out                            the rows of a statement; also: partitions CONTEXT, query EPL
  set threshold = 5                      assign a variable (JSON); `get threshold` reads it: `= value=5`
  // comment, /* comment */, # comment
What must follow stands below it, indented; then every delivery of the statements that the cell names is checked:
      out + symbol="A" price=10.0
          - symbol="Z" price=1.0
      = symbol="A" price=10.0            a row that iterate, partitions or query reads; `= (none)`: no row
      ! out                              statement out fails
There, too, the time of an event may be a date: `out + at="2024-01-01 08:00" price=10.0`."""

COMMAND = MagicCommand(
    "events",
    "Send events and move the clock; show what they cause, and check it where the cell says what to expect.",
    ("%%events [--only STATEMENT,…] [--quiet]",),
    cell=run_cell,
    details=DETAILS,
    options=OPTIONS,
    check=check_cell,
)
