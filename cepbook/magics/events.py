"""``%%events``: sends events, moves the clock, shows what that caused and checks what was expected.

The whole cell is read and checked against the event types before the first event is sent, so a mistake in its last
line leaves everything as it was. Reactions that the cell states (lines indented below a stimulus) are checked as in
scenario files: per stimulus, in order, for the statements that the cell names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from cepbook.display import format_count, format_property, format_time
from cepbook.engine.delivery.delta import Delta
from cepbook.errors import CepbookError, CompileError, Diagnostic, Span, StatementError, UsageError, did_you_mean
from cepbook.magics.event_cells.cell_reader import CellStep, EventsError, parse_cell, read_cell
from cepbook.magics.event_cells.event_times import EventTimes
from cepbook.magics.event_cells.expectation import compared_statements, evaluate_step, expectation_error, side_by_side
from cepbook.magics.shell.host import MagicCommand, NotebookHost
from cepbook.magics.shell.options import MagicOptions
from cepbook.magics.shell.output import clock_text, row_text, stack, table, text
from cepbook.session import Workbench
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.event_validation import TypeMismatch, is_missing, value_converter
from cepbook.session.io.time_conversion import parse_time
from cepbook.testing.runner import StepResult
from cepbook.testing.trace import (
    Advance,
    Failure,
    GetVariable,
    Iterate,
    Partitions,
    Reaction,
    ReadRows,
    RunQuery,
    Send,
    SetVariable,
    StatementDelivery,
    Stimulus,
    TraceStep,
)
from cepbook.testing.values import coerce_row
from cepbook.widgets.base.static_picture import StaticPicture

WIDE = 8  # with more columns than this over all statements, a row is one text
READING_FORMS = {
    "iterate": "`iterate STATEMENT` reads its rows",
    "query": "`query select …` asks",
    "partitions": "`partitions CONTEXT` lists them",
    "set": "`set VARIABLE = VALUE` assigns",
    "get": "`get VARIABLE` reads",
}  # of words that stand alone and name no event type
STIMULI = (Send, Advance, Iterate, RunQuery, Partitions, SetVariable, GetVariable)

OPTIONS = (
    MagicOptions("%%events")
    .add("--only", help="observe only these statements: --only out,alerts")
    .add("--quiet", action="store_true", help="show nothing unless a check fails")
)


@dataclass(frozen=True, slots=True)
class RecordedReaction:
    """One reaction, the clock when it came, and the line of its stimulus in the cell."""

    reaction: Reaction
    time: int
    line: int


def run_cell(host: NotebookHost, line: str, cell: str) -> None:
    """Read, check, send, show, compare.

    Raises EventsError before anything is sent. After everything was sent it raises ExpectationError or, in a cell that
    expects nothing, the first StatementError.
    """
    options = OPTIONS.parse(line)
    workbench = host.workbench
    parts = read_cell(cell, workbench.runtime.now, workbench.runtime.config.second)
    only = observed_statements(options.only, workbench)
    check(workbench, parts, cell)
    moments = EventTimes(workbench)
    parts = moments.read(parts)
    checked = compared_statements(parts)
    note = moments.untimely(parts)
    with ReactionRecorder(workbench, only) as observer:
        results = [observer.run(part.step) for part in parts]
    results = results if checked is None else [evaluate_step(result, checked) for result in results]
    wrong = checked is not None and not all(result.agrees for result in results)
    if not options.quiet or wrong:
        host.show(_shown(observer.caused, parts, workbench, moments, checked if not wrong else None, note))
    if wrong:
        host.show(side_by_side(moments.written(result) for result in results if not result.agrees))
        raise expectation_error(results)
    failed = next((c.reaction for c in observer.caused if isinstance(c.reaction, Failure)), None)
    if failed is not None and checked is None:
        raise observer.errors[0]


# ---------------------------------------------------------------- before anything is sent
def observed_statements(only: str | None, workbench: Workbench) -> list[str] | None:
    """The statements that ``--only`` names; None without it. Raises UsageError for one that is not there."""
    if only is None:
        return None
    names = [name.strip() for name in only.split(",") if name.strip()]
    if not names:
        raise UsageError("--only takes names of statements: --only out,alerts")
    for name in names:
        workbench.runtime.statement(name)
    return names


def check(workbench: Workbench, parts: Sequence[CellStep], cell: str) -> None:
    """Raises EventsError unless every part can run: times go forward, events fit their types, names exist."""
    wrong = _wrong(workbench, parts, cell, workbench.runtime.now)
    if wrong:
        raise EventsError(tuple(wrong), cell)


def check_written(workbench: Workbench, cell: str, parts: Sequence[CellStep], wrong: Sequence[Diagnostic] = ()) -> None:
    """The same of a cell that is written, with what is `wrong` already: nothing is asked of the engine.

    The clock may be another once it runs; and the times of a cell that has run lie in the past, which would make it
    wrong from then on.
    """
    found = (*wrong, *_wrong(workbench, parts, cell, None))
    if found:
        raise EventsError(found, cell)


def problems(host: NotebookHost, line: str, cell: str) -> None:
    """What is wrong with a cell that is written: raises EventsError, or UsageError where it is the options."""
    workbench = host.workbench
    observed_statements(OPTIONS.parse(line).only, workbench)
    check_written(workbench, cell, *parse_cell(cell, workbench.runtime.now, workbench.runtime.config.second))


def _wrong(workbench: Workbench, parts: Sequence[CellStep], cell: str, now: int | None) -> list[Diagnostic]:
    """All that is wrong when the clock is at `now`; None: it may be at any time, and no query is asked."""
    second = workbench.runtime.config.second
    wrong: list[Diagnostic] = []
    before = now
    for part in parts:
        stimulus = part.step.stimulus
        match stimulus:
            case Advance(time):
                if before is not None and time < before:
                    message = f"the time {clock_text(time, second)} is before the clock, {clock_text(before, second)}"
                    wrong.append(Diagnostic("time-going-backwards", message, part.span, "`%epl reset` starts anew"))
                before = time if before is None else max(before, time)
            case Send():
                wrong += _check_event(stimulus, part, workbench)
            case _:
                wrong += _check_name(stimulus, part, workbench, asked=now is not None)
        wrong += _check_reactions(part, workbench, cell)
    return wrong


def _check_event(send: Send, part: CellStep, workbench: Workbench) -> Iterator[Diagnostic]:
    types = workbench.runtime.catalog.event_types
    event_type = types.get(send.event_type)
    if event_type is None:
        hint = READING_FORMS.get(send.event_type) or did_you_mean(send.event_type, types)
        span = Span(part.span.start, part.span.start + len(send.event_type))
        yield Diagnostic("unknown-event-type", f"there is no event type `{send.event_type}`", span, hint)
        return
    properties = event_type.properties
    fitted = _fitted(send, workbench)
    for name in send.event:
        where = _place(name, part)
        if name not in properties:
            hint = did_you_mean(name, properties)
            message = f"event type `{event_type.name}` has no property `{name}`"
            yield Diagnostic("unknown-property", message, where, hint)
            continue
        try:
            value_converter(properties[name], types)(fitted[name])
        except TypeMismatch as mismatch:
            message = f"property `{name}` of event type `{event_type.name}` {mismatch}"
            yield Diagnostic("wrong-type", message, where)


def _fitted(send: Send, workbench: Workbench) -> dict[str, Any]:
    """The event with its numbers in the types that are declared: 500 for a double is 500.0. Its times may be texts."""
    types = workbench.runtime.catalog.event_types

    def properties(name: str) -> Mapping[str, Any] | None:
        found = types.get(name)
        return None if found is None else found.properties

    found = coerce_row(send.event, types[send.event_type].properties, properties)
    texts = {name for name, value in found.items() if isinstance(value, str)}
    if texts:
        for name in texts & TimeColumns(workbench.runtime).of_type(send.event_type):
            with suppress(UsageError):  # it is told as a text, where a whole number should be
                found[name] = parse_time(found[name], workbench.runtime.config.second)
    return found


def _place(name: str, part: CellStep) -> Span:
    """Where a property's name stands in the text of its event."""
    found = re.search(rf"(?<![\w.]){re.escape(name)}(?=`?\s*=)", part.step.text)
    if found is None:
        return part.span
    return Span(part.span.start + found.start(), part.span.start + found.end())


def _check_name(stimulus: Stimulus, part: CellStep, workbench: Workbench, *, asked: bool) -> Iterator[Diagnostic]:
    match stimulus:
        case Iterate(name):
            yield from _known(name, "statement", workbench.runtime.statements, part)
        case Partitions(name):
            yield from _known(name, "context", workbench.runtime.catalog.contexts, part)
        case GetVariable(name):
            yield from _known(name, "variable", workbench.runtime.variables, part)
        case SetVariable():
            yield from _check_assignment(stimulus, part, workbench)
        case RunQuery(epl):
            try:
                if asked:
                    workbench.query(epl)  # it reads only; its answer at its turn is another one
                else:
                    workbench.prepare(epl)
            except CompileError as error:
                start = part.span.start + max(0, part.step.text.find(epl))
                for each in error.diagnostics:
                    yield replace(each, span=Span(each.span.start + start, each.span.end + start))
            except CepbookError as error:
                message = str(error).partition("\n")[0]
                yield Diagnostic("query", message, part.span)
        case _ if not isinstance(stimulus, STIMULI):
            word = part.step.text.split(None, 1)[0]
            yield Diagnostic("not-supported-yet", f"not supported yet in a cell: `{word}`", part.span)


def _check_assignment(stimulus: SetVariable, part: CellStep, workbench: Workbench) -> Iterator[Diagnostic]:
    catalog = workbench.runtime.catalog
    variable = catalog.variables.get(stimulus.name)
    if variable is None:
        yield from _known(stimulus.name, "variable", catalog.variables, part)
        return
    if variable.constant:
        message = f"`{stimulus.name}` is a constant, it cannot be set"
        yield Diagnostic("constant-variable", message, part.span)
    try:
        value_converter(variable.type, catalog.event_types)(stimulus.value)
    except TypeMismatch as mismatch:
        yield Diagnostic("wrong-type", f"variable `{stimulus.name}` {mismatch}", part.span)


def _check_reactions(part: CellStep, workbench: Workbench, cell: str) -> Iterator[Diagnostic]:
    for reaction in part.step.reactions:
        if isinstance(reaction, StatementDelivery):
            line = re.compile(rf"^[ \t]+(`?{re.escape(reaction.statement)}`?)[ \t]", re.MULTILINE)
            found = line.search(cell, part.span.end)
            span = part.span if found is None else Span(*found.span(1))
            yield from _known(reaction.statement, "statement", workbench.runtime.statements, part, span)


def _known(
    name: str, what: str, known: Mapping[str, object], part: CellStep, span: Span | None = None
) -> Iterator[Diagnostic]:
    if name not in known:
        hint = did_you_mean(name, known)
        yield Diagnostic(f"unknown-{what}", f"there is no {what} `{name}`", span or part.span, hint)


# ---------------------------------------------------------------- sending
class ReactionRecorder:
    """Runs steps and notes the deliveries of the statements `only`, in the order in which they are made.

    None: of all selects, and of the named ones that create or set variables.
    """

    def __init__(self, workbench: Workbench, only: Sequence[str] | None) -> None:
        runtime = workbench.runtime
        self.workbench = workbench
        self.caused: list[RecordedReaction] = []
        self.errors: list[StatementError] = []
        self._line = 0
        shown = [name for name, s in runtime.statements.items() if s.kind == "select" or s.plan.named]
        self._names = shown if only is None else list(only)
        self._end: list[Callable[[], None]] = []

    def __enter__(self) -> ReactionRecorder:
        self._end = [self.workbench.on(name, self._tap(name)) for name in self._names]
        self.workbench.runtime.add_error_listener(self._failed)
        return self

    def __exit__(self, *_: object) -> None:
        for end in self._end:
            end()
        self.workbench.runtime.remove_error_listener(self._failed)

    def _tap(self, name: str) -> Callable[[Delta], None]:
        def deliver(delta: Delta) -> None:
            insert, remove = (tuple(map(dict, rows or ())) for rows in (delta.insert, delta.remove))
            if insert or remove:
                self._note(StatementDelivery(name, insert, remove))

        return deliver

    def _failed(self, error: StatementError) -> None:
        self.errors.append(error)
        self._note(Failure(error.statement, str(error)))

    def _note(self, reaction: Reaction) -> None:
        self.caused.append(RecordedReaction(reaction, self.workbench.runtime.now, self._line))

    def run(self, step: TraceStep) -> StepResult:
        """Act, and tell what came of it. Errors that the checks before could not foresee pass through."""
        first = len(self.caused)
        self._line = step.line
        stimulus = step.stimulus
        runtime = self.workbench.runtime
        match stimulus:
            case Send(name):
                event = _fitted(stimulus, self.workbench)
                with suppress(StatementError):  # noted by `_failed`; the event has reached all statements
                    self.workbench.send(name, event)
            case Advance(time, stepping):
                with suppress(StatementError):
                    self.workbench.advance(time, stepping=stepping)
            case Iterate(name):
                self._note(ReadRows(tuple(map(dict, runtime.iterate(name)))))
            case Partitions(name):
                found = runtime.partitions(name)
                self._note(ReadRows(tuple({k: v for k, v in p.items() if k != "statements"} for p in found)))
            case GetVariable(name):
                self._note(ReadRows(({"value": self.workbench.get(name)},)))
            case SetVariable(name, value):
                with suppress(StatementError):
                    self.workbench.set(name, value)
            case RunQuery(epl):
                self._note(ReadRows(_rows_of(self.workbench.query(epl))))
        return StepResult(step, tuple(c.reaction for c in self.caused[first:]), agrees=True)


def _rows_of(frame: Any) -> tuple[dict[str, Any], ...]:
    """The rows of a DataFrame, nulls as None."""
    records = frame.astype(object).to_dict("records")
    return tuple({str(name): None if is_missing(value) else value for name, value in row.items()} for row in records)


# ---------------------------------------------------------------- showing
def _shown(
    caused: Sequence[RecordedReaction],
    parts: Sequence[CellStep],
    workbench: Workbench,
    moments: EventTimes,
    agreed: frozenset[str] | None,
    note: str | None,
) -> StaticPicture:
    sent = sum(isinstance(part.step.stimulus, Send) for part in parts)
    deliveries = [c for c in caused if isinstance(c.reaction, StatementDelivery)]
    head = (
        f"{format_count(sent, 'event')}, clock {clock_text(workbench.runtime.now, workbench.runtime.config.second)}, "
    )
    head += format_count(len(deliveries), "delivery", "deliveries")
    shown = [_deliveries(head, deliveries, moments)]
    by_line = {part.step.line: part.step for part in parts}
    for c in caused:
        if isinstance(c.reaction, ReadRows):
            shown.append(_reading(by_line[c.line], c.reaction, moments))
        elif isinstance(c.reaction, Failure):
            shown.append(text(f"line {c.line}: {c.reaction.detail}"))
    if note is not None:
        shown.append(text(note, sentences=True))
    if agreed is not None:
        expected = sum(len(part.step.reactions) for part in parts)
        shown.append(text(f"✓ {format_count(expected, 'reaction')} as expected"))
    return stack(shown)


def _deliveries(head: str, caused: Sequence[RecordedReaction], moments: EventTimes) -> StaticPicture:
    """One row per event of a delivery; the clock and the statement stand on the first row of each delivery."""
    second = moments.second
    deliveries = [c.reaction for c in caused if isinstance(c.reaction, StatementDelivery)]
    times = {each.statement: moments.columns(None, each) for each in deliveries}
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
    """The columns that hold nothing but numbers and nulls."""
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
)
