"""Check a cell of events before the first one is sent: times, event types, properties and names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from cepbook.errors import CepbookError, CompileError, Diagnostic, Span, UsageError, did_you_mean
from cepbook.magics.event_cells.cell_reader import CellStep, EventsError
from cepbook.magics.shell.output import clock_text
from cepbook.session import Workbench
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.event_validation import TypeMismatch, value_converter
from cepbook.session.io.time_conversion import parse_time
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
