"""Check a cell of events before the first one is sent: times, event types, properties and names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from cepbook.errors import CepbookError, CompileError, Diagnostic, Span, UsageError, did_you_mean
from cepbook.magics.shell.output import clock_text
from cepbook.session import Workbench
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.event_validation import TypeMismatch, value_converter
from cepbook.session.io.time_conversion import parse_time
from cepbook.testing.cell_reader import CellStep, EventsError
from cepbook.testing.trace import (
    Advance,
    GetVariable,
    Iterate,
    Partitions,
    RunQuery,
    Send,
    SetVariable,
    StatementDelivery,
    Stimulus,
)
from cepbook.testing.values import coerce_row

READING_FORMS = {
    "iterate": "`iterate STATEMENT` reads its rows",
    "query": "`query select …` asks",
    "partitions": "`partitions CONTEXT` lists them",
    "set": "`set VARIABLE = VALUE` assigns",
    "get": "`get VARIABLE` reads",
}  # of words that stand alone and name no event type
STIMULI = (Send, Advance, Iterate, RunQuery, Partitions, SetVariable, GetVariable)


def observed_statements(only: str | None, workbench: Workbench) -> list[str] | None:
    """Return the statements of ``--only``, or None without it. Raises UsageError for an unknown one."""
    if only is None:
        return None
    names = [name.strip() for name in only.split(",") if name.strip()]
    if not names:
        raise UsageError("--only takes names of statements: --only out,alerts")
    for name in names:
        workbench.runtime.statement(name)
    return names


def check(workbench: Workbench, parts: Sequence[CellStep], cell: str) -> None:
    """Raise EventsError unless every step can run: times go forward, events fit their types, names exist."""
    wrong = _wrong(workbench, parts, cell, workbench.runtime.now)
    if wrong:
        raise EventsError(tuple(wrong), cell)


_REWIND = "`%epl rewind` begins anew with what is deployed"


def check_written(workbench: Workbench, cell: str, parts: Sequence[CellStep], wrong: Sequence[Diagnostic] = ()) -> None:
    """Check a cell that is being written; `wrong` is what its reader reported. The engine is not queried.

    The clock is not compared, because it may be different when the cell runs, and a cell that has run lies in the past.
    """
    diagnostics = (*wrong, *_wrong(workbench, parts, cell, None))
    if diagnostics:
        raise EventsError(diagnostics, cell)


def _wrong(workbench: Workbench, parts: Sequence[CellStep], cell: str, now: int | None) -> list[Diagnostic]:
    """Return everything that is wrong with the clock at `now`; with None times are not compared and queries not run."""
    second = workbench.runtime.config.second
    wrong: list[Diagnostic] = []
    before = now
    for step in parts:
        stimulus = step.step.stimulus
        match stimulus:
            case Advance(time):
                if before is not None and time < before:
                    message = f"the time {clock_text(time, second)} is before the clock, {clock_text(before, second)}"
                    wrong.append(Diagnostic("time-going-backwards", message, step.span, _REWIND))
                before = time if before is None else max(before, time)
            case Send():
                wrong += _check_event(stimulus, step, workbench)
            case _:
                wrong += _check_name(stimulus, step, workbench, asked=now is not None)
        wrong += _check_reactions(step, workbench, cell)
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
    fitted = fitted_event(send, workbench)
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


def fitted_event(send: Send, workbench: Workbench) -> dict[str, Any]:
    """Convert the numbers of an event to the declared types: 500 for a double becomes 500.0. Times may be texts."""
    types = workbench.runtime.catalog.event_types

    def properties(name: str) -> Mapping[str, Any] | None:
        event_type = types.get(name)
        return None if event_type is None else event_type.properties

    event = coerce_row(send.event, types[send.event_type].properties, properties)
    texts = {name for name, value in event.items() if isinstance(value, str)}
    if texts:
        for name in texts & TimeColumns(workbench.runtime).of_type(send.event_type):
            with suppress(UsageError):  # it is told as a text, where a whole number should be
                event[name] = parse_time(event[name], workbench.runtime.config.second)
    return event


def _place(name: str, part: CellStep) -> Span:
    """Return the span of a property's name in the text of its event."""
    match = re.search(rf"(?<![\w.]){re.escape(name)}(?=`?\s*=)", part.step.text)
    if match is None:
        return part.span
    return Span(part.span.start + match.start(), part.span.start + match.end())


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
                for diagnostic in error.diagnostics:
                    span = Span(diagnostic.span.start + start, diagnostic.span.end + start)
                    yield replace(diagnostic, span=span)
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
            match = line.search(cell, part.span.end)
            span = part.span if match is None else Span(*match.span(1))
            yield from _known(reaction.statement, "statement", workbench.runtime.statements, part, span)


def _known(
    name: str, what: str, known: Mapping[str, object], part: CellStep, span: Span | None = None
) -> Iterator[Diagnostic]:
    if name not in known:
        hint = did_you_mean(name, known)
        yield Diagnostic(f"unknown-{what}", f"there is no {what} `{name}`", span or part.span, hint)
