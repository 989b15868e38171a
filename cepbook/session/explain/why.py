"""Why a row was delivered: its cause, context partition, group, provenance, and the contents of windows.

The statement runs again over the event log (`history.rerun_provenance`), up to that instant. If that does not give the
row, only the present contents are known. The answer names its `basis`. Python functions are called on request only,
because they may have side effects. `why_replayed` asks the snapshots of a replay in between.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cepbook.display import lost_rows_text
from cepbook.engine.delivery.delta import Delta, Row
from cepbook.engine.expressions.primitives import deep_copied
from cepbook.engine.inspection.visible_rows import has_window_events, latest_rows, window_events
from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.feeds import Feed
from cepbook.lang.explain.expressions import show_expr
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.session.explain.explanations import MAX_EVENTS, Basis, RowExplanation, WindowContents
from cepbook.session.explain.provenance import (
    ProvenanceEvent,
    RetainedRows,
    retained_rows,
    row_provenance,
    shadow_row,
    stream_name,
)
from cepbook.session.history.event_log import HORIZON, EventLog, LogEntry
from cepbook.session.history.rerun_provenance import (
    EVENT,
    PARTITION,
    DeliveredRow,
    ProvenanceRerun,
    StimulusPlace,
    StimulusResult,
    key_column,
    matches_row,
)
from cepbook.session.inspect.partial_matches import partial_matches, pattern_tags
from cepbook.session.inspect.partition_table import context_levels, flat_properties, key_names
from cepbook.session.io.time_conversion import clock_text

UNKNOWN_PAST = "what came before"


def find_row(feed: Feed, name: str, columns: Sequence[str], row: int | None, until: int | None) -> DeliveredRow:
    """Return the row with this index in `Workbench.changes` (negative from the end); None: the last one up to the time
    `until`.

    Raises UsageError if there is no such row.
    """
    rows = feed.whole(until)
    gone = f": {lost_rows_text(rows.lost, len(rows.times))}" if rows.lost else ""
    if not rows.times:
        hint = f'`%epl why {name} --event -1`, or `cep.why("{name}", -1)`: what became of the last event'
        then = "" if until is None else " until then"
        raise UsageError(f"`{name}` has delivered nothing{then}{gone}\n  hint: {hint}")
    indexes = range(len(rows.times))
    try:
        index = indexes[-1 if row is None else row]
    except IndexError:
        raise UsageError(f"`{name}` has {len(indexes):,} rows{gone}; there is no row {row}") from None
    number, insert = rows.numbers[index], rows.inserts[index]
    same = [i for i in range(bisect_left(rows.numbers, number), index) if rows.inserts[i] == insert]
    values = {column: rows.column(column)[index] for column in columns}
    return DeliveredRow(number, rows.times[index], insert, len(same), values)


def explain_row(runtime: Runtime, event_log: EventLog, name: str, at: DeliveredRow, *, calls: bool) -> RowExplanation:
    """Explain a row. `calls` allows the statement to call Python functions."""
    target = runtime.statement(name).plan
    notes: list[str] = []
    if isinstance(target, nodes.StreamStatement | nodes.CreateVariableStatement):
        explanation = explain_again(runtime, event_log, target, at, notes, calls=calls)
        if explanation is not None:
            return explanation
    notes.append("what was retained when the row was delivered is not known: this is what is retained now")
    return explain_now(runtime, runtime, name, at, notes)


class RerunStart(NamedTuple):
    """A statement, and the log that it runs over again."""

    runtime: Runtime
    event_log: EventLog
    target: nodes.StreamStatement | nodes.CreateVariableStatement


def explain_again(
    runtime: Runtime,
    event_log: EventLog,
    target: nodes.StreamStatement | nodes.CreateVariableStatement,
    at: DeliveredRow,
    notes: list[str],
    *,
    calls: bool,
) -> RowExplanation | None:
    """Explain a row by running its statement again over the log; None, with the reason in `notes`, if that fails.

    `calls` allows the statement to call Python functions.
    """
    start = RerunStart(runtime, event_log, target)
    first = ProvenanceRerun(*start, shadows=False)
    if first.calls and not calls:
        notes.append(uncalled_functions_note(first.calls))
        return None
    stimulus = _stimulus(first, at)
    if stimulus is None:
        what = "not all events are known any more" if first.is_incomplete else "running it again gives other rows"
        hint = f": {HORIZON}, and the snapshots of a replay with `keep=True`" if first.is_incomplete else ""
        notes.append(f"{what}, so that the row cannot be made again{hint}")
        return None
    leap = _leap(start, stimulus, at)
    if leap is None:
        return _explained_at(start, stimulus, None, at)
    if leap.stop is None:
        explanation = _explained_at(start, stimulus, None, at)
        note = "the clock leapt over several times at which something was due: windows are those at its end"
        return replace(explanation, notes=(*explanation.notes, note))
    explanation = _explained_at(start, leap.stop, stimulus, at._replace(time=leap.due))
    if leap.due == at.time:
        return explanation
    second = runtime.config.second
    cause = f"{describe_cause((), at.time, second)} in one leap: this was due at {clock_text(leap.due, second)}"
    return replace(explanation, time=at.time, cause=cause)


def _explained_at(
    start: RerunStart, stimulus: StimulusPlace, leap: StimulusPlace | None, at: DeliveredRow
) -> RowExplanation:
    run, before, cause = _run_to(start, stimulus, leap)
    shadow = shadow_row(run, run.result.rows, at)
    origin = run.earlier_origin(at, shadow)
    if origin is None:
        return _explained(start.runtime, run, at, at.time, cause, before, shadow)
    run, before, _ = _run_to(start, origin.place, leap)  # it was made then, and held back until now
    shadow = shadow_row(run, run.result.unlimited, at._replace(time=origin.time)) or shadow
    return _explained(start.runtime, run, at, origin.time, cause, before, shadow, held_back=True)


def _run_to(
    start: RerunStart, stimulus: StimulusPlace, leap: StimulusPlace | None
) -> tuple[ProvenanceRerun, RetainedRows, Sequence[LogEntry]]:
    run = ProvenanceRerun(*start, shadows=True, leap=leap)
    stimuli = run.stimuli_from(stimulus)
    log_entries = next(stimuli)
    before, run.on_delivery = retained_rows(run), retained_rows
    run.play(log_entries)
    return run, before, log_entries


class _Leap(NamedTuple):
    """A clock stop that passed due times. `stop` is the place of the stimulus that delivers the row if the clock stops
    at each due time, and `due` is its time. None: the stops deliver other rows.
    """

    stop: StimulusPlace | None
    due: int


def _leap(start: RerunStart, stimulus: StimulusPlace, at: DeliveredRow) -> _Leap | None:
    """Return when a row was due that a leap of the clock delivers; None if it was no leap, or all rows belong to its
    end.

    In a leap everything that is due happens in one call, and the contents at the time of the row are gone afterwards.
    If the clock stops on the way they can be seen. Both are equivalent if the statement delivers the same rows up to
    this one.
    """
    whole = ProvenanceRerun(*start, shadows=False)
    stimuli = whole.stimuli_from(stimulus)
    log_entries = next(stimuli)
    if not whole.is_clock_leap(log_entries):
        return None
    first = whole.count
    whole.play(log_entries)
    delivery = _delivery(whole.result, first, at, by_number=not whole.is_incomplete)
    expected = deque(whole.result.delivered)
    split = ProvenanceRerun(*start, shadows=False, leap=stimulus)
    for log_entries in split.stimuli_from(stimulus.first_stop):
        split.play(log_entries)
        for delta in split.result.delivered:
            if not expected or not _alike(delta, expected[0]):
                expected.clear()
            elif expected.popleft() is delivery:
                return _Leap(split.place, delta.time)
        if not expected or split.runtime.now >= whole.runtime.now:
            break
    limited = whole.select is not None and whole.select.output is not None
    return _Leap(None, at.time) if limited or len(whole.result.delivered) > 1 else None


def _alike(one: Delta, other: Delta) -> bool:
    return all(
        len(mine) == len(theirs) and all(map(matches_row, mine, theirs))
        for mine, theirs in ((one.insert or [], other.insert or []), (one.remove or [], other.remove or []))
    )


def uncalled_functions_note(functions: Sequence[str]) -> str:
    """Return the note that Python functions were not called."""
    names = ", ".join(f"`{name}`" for name in functions)
    return f"it calls the Python function{'s' * (len(functions) > 1)} {names}: not run again unless asked (calls=True)"


def _stimulus(run: ProvenanceRerun, at: DeliveredRow) -> StimulusPlace | None:
    fits: list[StimulusPlace] = []
    for log_entries in run.all_stimuli():
        before = run.count
        if not run.runtime.now <= at.time <= log_entries[-1].time:  # no delivery of this stimulus can have that time
            run.play_silently(log_entries)
            continue
        run.play(log_entries)
        if run.count > before and _delivery(run.result, before, at, by_number=not run.is_incomplete) is not None:
            fits.append(run.place)
    return fits[-1] if fits else None


def _delivery(result: StimulusResult, before: int, at: DeliveredRow, *, by_number: bool) -> Delta | None:
    for number, delta in enumerate(result.delivered, before):
        rows = (delta.insert if at.insert else delta.remove) or ()
        is_same = delta.time == at.time and (number == at.number or not by_number)
        if is_same and len(rows) > at.place and matches_row(rows[at.place], at.row):
            return delta
    return None


def _explained(
    origin: Runtime,
    run: ProvenanceRerun,
    at: DeliveredRow,
    time: int,
    cause: Sequence[LogEntry],
    before: RetainedRows,
    shadow: Row | None,
    *,
    held_back: bool = False,
) -> RowExplanation:
    """Build the explanation from a rerun. `time` is when the row was made, `shadow` is the row with hidden columns.

    `held_back`: an earlier stimulus than the one that delivered the row made it.
    """
    target, runtime, second = run.target, run.runtime, run.runtime.config.second
    partition = None if shadow is None else shadow.get(PARTITION)
    after = retained_rows(run)
    held_then = _held_then(run, at, partition, before, after)
    keys = () if run.aggregation is None else run.aggregation.keys
    group = None
    if keys and shadow is not None and key_column(0) in shadow:
        group = {source_text(origin, target.name, key): shadow[key_column(i)] for i, key in enumerate(keys)}
    events = row_provenance(run, at, shadow, held_then, before, partition, cause)
    notes = []
    if held_back:
        when = "by an earlier event of the same time" if time == at.time else f"at {clock_text(time, second)}"
        notes.append(f"it was made {when}, and the output clause held it back until then")
    elif shadow is not None and run.repeats_row(shadow):
        unchanged = "its group" if keys else "the statement"
        notes.append(f"nothing changed {unchanged} since the delivery before: the output clause has its row again")
    query = run.select is not None and target.created_store is None
    if shadow is None and (keys or target.context is not None) and query:
        events = None  # it would be of all groups and partitions, like the windows
        notes.append("which earlier row of its group or partition it repeats is not known; windows are shown whole")
    if run.is_incomplete:
        begin = clock_text(run.begin, second)
        notes.append(f"{UNKNOWN_PAST} {begin} is not known, windows may have retained more: {HORIZON}")
    described = None
    if target.context is not None and partition is not None:
        known = {**before.partitions, **after.partitions}
        described = named_partition(runtime, target.context, known.get(partition))
    return RowExplanation(
        statement=target.name,
        number=at.number,
        time=at.time,
        insert=at.insert,
        row=at.row,
        basis="run again",
        cause=describe_cause(cause, at.time, second),
        stimulus=cause_event(cause),
        partition=described,
        group=group,
        provenance=None if events is None else tuple(events[-MAX_EVENTS:]),
        provenance_total=0 if events is None else len(events),
        windows=tuple(_contents(run, held_then, partition)),
        waiting=_waits(runtime, target.name, partition),
        notes=tuple(notes),
        second=second,
    )


def _held_then(
    run: ProvenanceRerun, at: DeliveredRow, partition: int | None, before: RetainedRows, after: RetainedRows
) -> RetainedRows:
    looks: list[RetainedRows] = run.result.retained
    rows = [(delta.insert if at.insert else delta.remove) or () for delta in run.result.delivered]
    fits = (n for n, side in enumerate(rows) if len(side) > at.place and matches_row(side[at.place], at.row))
    number = next(fits, None)
    ended = partition is not None and partition not in after.partitions
    if run.shows_former_state(at):
        return looks[number - 1] if number else before
    if ended and number is not None and partition not in looks[number].partitions:
        return replace(before, unwindowed_count=looks[number].unwindowed_count, windows=_moved_on(run, before))
    return looks[number] if number is not None and (ended or len(looks) > 1) else after


def _moved_on(run: ProvenanceRerun, before: RetainedRows) -> dict[int, list[Row]]:
    windows = {}
    for number, rows in before.windows.items():
        moved = run.result.window_changes.get(number, ())
        gone = {id(row[EVENT]) for delta in moved for row in delta.remove or ()}
        entered = [row for delta in moved for row in delta.insert or ()]
        windows[number] = [row for row in (*rows, *entered) if id(row[EVENT]) not in gone]
    return windows


def _contents(run: ProvenanceRerun, held_then: RetainedRows, partition: int | None) -> Iterator[WindowContents]:
    for number, rows in held_then.of(partition).items():
        assert run.select is not None
        events = tuple(deep_copied(dict(row[EVENT])) for row in rows[-MAX_EVENTS:])
        yield WindowContents(stream_name(run.select, number), len(rows), events)
    for number, rows in enumerate(held_then.cycles):
        source = run.target.sources[number]
        events = tuple(deep_copied(dict(row)) for row in rows[-MAX_EVENTS:])
        yield WindowContents(source.alias or source.event_type, len(rows), events)
    for name, stored in held_then.stores.items():
        yield WindowContents(name, len(stored), tuple(deep_copied(dict(row)) for row in stored[-MAX_EVENTS:]))


def _waits(runtime: Runtime, name: str, partition: int | None) -> tuple[str, ...]:
    if pattern_tags(runtime, name) is None:
        return ()
    rows = partial_matches(runtime, name, partition).rows
    return tuple(dict.fromkeys(partial.waiting_for for partial in rows))


def named_partition(runtime: Runtime, context: str, row: Row | None) -> dict[str, Any] | None:
    """Return a partition by the names that users know: ``{"id": 0, "symbol": "A"}``."""
    if row is None:
        return None
    names = key_names(runtime, context)
    return {
        "id": row["id"],
        **{
            names.get(n, n): deep_copied(value)
            for n, value in flat_properties(row, context_levels(runtime, context)).items()
        },
    }


def describe_cause(cause: Sequence[LogEntry], time: int, second: int) -> str:
    """Describe the cause in words."""
    events = [entry.type_name for entry in cause if entry.type_name is not None]
    if len(events) > 1:
        return f"{len(events)} events that arrived together"
    if cause and cause[0].variable is not None:
        return f"variable {cause[0].variable} was given the value {cause[0].value!r}"
    if events and cause[0].time == time:
        return f"an event of type {events[0]}"
    if cause and cause[0].manual_action is not None:
        text = " ".join((cause[0].query or "").split())
        return f"the query `{text}`" if text else cause[0].description
    return f"the clock, which came to {clock_text(time, second)}"


def cause_event(cause: Sequence[LogEntry]) -> ProvenanceEvent | None:
    """Return the event that caused the row, if one did."""
    if len(cause) != 1 or cause[0].type_name is None:
        return None
    return ProvenanceEvent("", dict(cause[0].event), cause[0].time, cause[0].type_name)


def source_text(runtime: Runtime, name: str, e: Any) -> str:
    """Return an expression or clause as written in the statement; if it was not written, as the plan prints it."""
    deployment = runtime.deployments[runtime.statement(name).deployment_id]
    span = e.span
    written = deployment.source[span.start : span.end]
    if written.strip():
        return " ".join(written.split())
    return show_expr(e) if isinstance(e, x.BoundExpr) else ""


def explain_now(
    runtime: Runtime, inspected: Runtime, name: str, at: DeliveredRow, notes: list[str], basis: Basis = "now"
) -> RowExplanation:
    """Explain a row by the contents of the windows of `inspected`, which are not those of its time."""
    statement = inspected.statements.get(name)
    windows: list[WindowContents] = []
    waiting: tuple[str, ...] = ()
    if statement is not None:
        if has_window_events(statement):
            contents = window_events(statement, MAX_EVENTS)
            windows.append(WindowContents("window", contents.total, tuple(contents.rows)))
        elif statement.keeps_rows and statement.steps.windows:
            rows = latest_rows(statement, MAX_EVENTS)
            windows.append(WindowContents("window", rows.total, tuple(rows.rows)))
        waiting = _waits(inspected, name, None)
        if statement.steps.context is not None:
            notes.append("windows of all context partitions together")
    second = runtime.config.second
    return RowExplanation(
        statement=name,
        number=at.number,
        time=at.time,
        insert=at.insert,
        row=at.row,
        basis=basis,
        windows=tuple(windows),
        waiting=waiting,
        notes=tuple(notes),
        second=second,
    )
