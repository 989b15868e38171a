"""Why a row was delivered: what set it off, its context partition, its group, the events that made it, the windows.

The statement runs again over the known events, aside (`session.past.watched`), up to that instant. Where not all of
them are known, snapshots of the replay (`Replay.at`) tell what was held then; without these only what is known now is
told, and the answer says so (`basis`). Python functions are called only on request, because they may do something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cepbook.engine.delivery.delta import Delta, Row
from cepbook.engine.expressions.primitives import deep_copied
from cepbook.engine.inspection.visible_rows import has_window_events, latest_rows, window_events
from cepbook.engine.runtime import Runtime
from cepbook.errors import CepbookError, UsageError
from cepbook.feeds import Feed
from cepbook.lang.explain.expressions import show_expr
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.session.explain.explanations import SHOWN, Basis, RowExplanation, WindowContents
from cepbook.session.explain.provenance import (
    ProvenanceEvent,
    RetainedRows,
    retained_rows,
    row_provenance,
    shadow_row,
    stream_name,
)
from cepbook.session.history.event_log import EventLog, LogEntry
from cepbook.session.history.rerun_provenance import (
    EVENT,
    PARTITION,
    DeliveredRow,
    ProvenanceRerun,
    StimulusResult,
    key_column,
    matches_row,
)
from cepbook.session.inspect.partial_matches import partial_matches, pattern_tags
from cepbook.session.inspect.partition_table import context_levels, flat_properties, key_names
from cepbook.session.io.time_conversion import format_clock_time
from cepbook.session.replay.replay import Replay


def find_row(feed: Feed, name: str, columns: Sequence[str], row: int | None, until: int | None) -> DeliveredRow:
    """The row with this index in `Workbench.changes`, negative from the end; None: the last (up to the time `until`).

    Errors: UsageError when there is no such row.
    """
    found = feed.columns()
    indexes = range(len(found.times)) if until is None else [i for i, t in enumerate(found.times) if t <= until]
    if not indexes:
        raise UsageError(f"`{name}` has delivered nothing{'' if until is None else ' until then'}")
    try:
        index = indexes[-1 if row is None else row]
    except IndexError:
        raise UsageError(f"`{name}` has {len(indexes)} rows in its feed: there is no row {row}") from None
    number, insert = found.numbers[index], found.inserts[index]
    same = [i for i in range(index) if found.numbers[i] == number and found.inserts[i] == insert]
    values = {each: found.column(each)[index] for each in columns}
    return DeliveredRow(number, found.times[index], insert, len(same), values)


def explain_row(
    runtime: Runtime, record: EventLog, replay: Replay[Any] | None, name: str, at: DeliveredRow, *, calls: bool
) -> RowExplanation:
    """The explanation of a row."""
    target = runtime.statement(name).plan
    notes: list[str] = []
    if isinstance(target, nodes.StreamStatement | nodes.CreateVariableStatement):
        found = _again(runtime, record, target, at, notes, calls=calls)
        if found is not None and not (found.notes and _covers(replay, at.time)):
            return found
        if _covers(replay, at.time) and replay is not None:
            return _by_snapshot(runtime, replay, name, at, found)
        if found is not None:
            return found
    notes.append("what was held when the row was delivered is not known: this is what is held now")
    return _now(runtime, runtime, name, at, notes)


def _covers(replay: Replay[Any] | None, time: int) -> bool:
    span = None if replay is None else replay.span
    return span is not None and span[0] <= time <= span[1]


# ---------------------------------------------------------------- run again
def _again(
    runtime: Runtime,
    record: EventLog,
    target: nodes.StreamStatement | nodes.CreateVariableStatement,
    at: DeliveredRow,
    notes: list[str],
    *,
    calls: bool,
) -> RowExplanation | None:
    first = ProvenanceRerun(runtime, record, target, shadows=False)
    if first.calls and not calls:
        notes.append(uncalled_functions_note(first.calls))
        return None
    stimulus = _stimulus(first, at)
    if stimulus is None:
        what = "not all events are known any more" if first.is_incomplete else "running it again gives other rows"
        notes.append(f"{what}, so that the row cannot be made again")
        return None
    leap = _leap(runtime, record, target, stimulus, at)
    if leap is None:
        return _made_by(runtime, record, target, stimulus, None, at)
    if leap.stop is None:
        found = _made_by(runtime, record, target, stimulus, None, at)
        note = "the clock leapt over several times at which something was due: windows are those at its end"
        return replace(found, notes=(*found.notes, note))
    found = _made_by(runtime, record, target, leap.stop, stimulus, at._replace(time=leap.due))
    if leap.due == at.time:
        return found
    second = clock_second(runtime)
    cause = f"{describe_cause((), at.time, second)} in one leap: this was due at {format_clock_time(leap.due, second)}"
    return replace(found, time=at.time, cause=cause)


def _made_by(
    runtime: Runtime,
    record: EventLog,
    target: nodes.StreamStatement | nodes.CreateVariableStatement,
    stimulus: int,
    leap: int | None,
    at: DeliveredRow,
) -> RowExplanation:
    """The explanation of a row that the stimulus delivers; numbers of stimuli are those with a `leap`
    (`ProvenanceRerun`).
    """
    run, before, cause = _run_to(runtime, record, target, stimulus, leap)
    shadow = shadow_row(run, run.result.rows, at)
    origin = run.made_earlier(at, shadow)
    if origin is None:
        return _explained(runtime, run, at, at.time, cause, before, shadow)
    run, before, _ = _run_to(runtime, record, target, origin.number, leap)  # then it was made, and held back until now
    shadow = shadow_row(run, run.result.unlimited, at._replace(time=origin.time)) or shadow
    return _explained(runtime, run, at, origin.time, cause, before, shadow, held_back=True)


def _run_to(
    runtime: Runtime,
    record: EventLog,
    target: nodes.StreamStatement | nodes.CreateVariableStatement,
    stimulus: int,
    leap: int | None,
) -> tuple[ProvenanceRerun, RetainedRows, Sequence[LogEntry]]:
    run = ProvenanceRerun(runtime, record, target, shadows=True, leap=leap)
    log_entries: Sequence[LogEntry] = ()
    for number, log_entries in enumerate(run.all_stimuli()):
        if number == stimulus:
            before, run.on_delivery = retained_rows(run), retained_rows
            run.play(log_entries)
            return run, before, log_entries
        run.play_silently(log_entries)
    raise AssertionError("the stimulus was found among these")


class _Leap(NamedTuple):
    """The clock went beyond times at which something was due. `stop` is the number of the stimulus that delivers a row
    if it stops at each of them, `due` the time of that; None: they deliver other rows."""

    stop: int | None
    due: int


def _leap(
    runtime: Runtime,
    record: EventLog,
    target: nodes.StreamStatement | nodes.CreateVariableStatement,
    stimulus: int,
    at: DeliveredRow,
) -> _Leap | None:
    """When a row was due that a leap of the clock delivers; None: it was none, or all of it comes at its end.

    All that is due happens in one call then: what was held when the row was made has gone by the end. Where the clock
    stops on its way it can be seen. That comes to the same if the statement delivers the same rows up to this one.
    """
    whole = ProvenanceRerun(runtime, record, target, shadows=False)
    fits: Delta | None = None
    for number, log_entries in enumerate(whole.all_stimuli()):
        if number < stimulus:
            whole.play_silently(log_entries)
            continue
        if not whole.is_clock_leap(log_entries):
            return None
        first = whole.count
        whole.play(log_entries)
        fits = _delivery(whole.result, first, at, by_number=not whole.is_incomplete)
        break
    wanted = deque(whole.result.delivered)
    split = ProvenanceRerun(runtime, record, target, shadows=False, leap=stimulus)
    for number, log_entries in enumerate(split.all_stimuli()):
        if number < stimulus:
            split.play_silently(log_entries)
            continue
        split.play(log_entries)
        for delta in split.result.delivered:
            if not wanted or not _alike(delta, wanted[0]):
                wanted.clear()
            elif wanted.popleft() is fits:
                return _Leap(number, delta.time)
        if not wanted or split.runtime.now >= whole.runtime.now:
            break
    limited = whole.select is not None and whole.select.output is not None
    return _Leap(None, at.time) if limited or len(whole.result.delivered) > 1 else None


def _alike(one: Delta, other: Delta) -> bool:
    return all(
        len(mine) == len(theirs) and all(map(matches_row, mine, theirs))
        for mine, theirs in ((one.insert or [], other.insert or []), (one.remove or [], other.remove or []))
    )


def uncalled_functions_note(functions: Sequence[str]) -> str:
    """The note that Python functions are not called."""
    names = ", ".join(f"`{name}`" for name in functions)
    return f"it calls the Python function{'s' * (len(functions) > 1)} {names}: not run again unless asked (calls=True)"


def _stimulus(run: ProvenanceRerun, at: DeliveredRow) -> int | None:
    fits: list[int] = []
    for number, log_entries in enumerate(run.all_stimuli()):
        before = run.count
        if not run.runtime.now <= at.time <= log_entries[-1].time:  # no delivery of this can be of that time
            run.play_silently(log_entries)
            continue
        run.play(log_entries)
        if run.count > before and _delivery(run.result, before, at, by_number=not run.is_incomplete) is not None:
            fits.append(number)
    return fits[-1] if fits else None


def _delivery(told: StimulusResult, before: int, at: DeliveredRow, *, by_number: bool) -> Delta | None:
    for number, delta in enumerate(told.delivered, before):
        rows = (delta.insert if at.insert else delta.remove) or ()
        fits = delta.time == at.time and (number == at.number or not by_number)
        if fits and len(rows) > at.place and matches_row(rows[at.place], at.row):
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
    """`time` is when the row was made, `shadow` is the row with hidden columns. `held_back`: it was made by an earlier
    stimulus than the one that delivered it.
    """
    target, runtime, second = run.target, run.runtime, clock_second(run.runtime)
    partition = None if shadow is None else shadow.get(PARTITION)
    after = retained_rows(run)
    held_then = _held_then(run, at, partition, before, after)
    keys = () if run.aggregation is None else run.aggregation.keys
    group = None
    if keys and shadow is not None and key_column(0) in shadow:
        group = {source_text(origin, target.name, key): shadow[key_column(i)] for i, key in enumerate(keys)}
    made = row_provenance(run, at, shadow, held_then, before, partition, cause)
    notes = []
    if held_back and time == at.time:
        notes.append("it was made by an earlier event of the same time, and the output clause held it back until then")
    elif held_back:
        notes.append(f"it was made at {format_clock_time(time, second)}, and the output clause held it back until then")
    elif shadow is not None and run.repeats_row(shadow):
        what = "its group" if keys else "the statement"
        notes.append(f"nothing changed {what} since the delivery before: the output clause has its row again")
    window = isinstance(target, nodes.CreateWindowStatement)
    if shadow is None and (keys or target.context is not None) and run.select is not None and not window:
        made = None  # it would be of all groups and partitions, as the windows are
        notes.append("which earlier row of its group or partition it repeats is not known; windows are shown whole")
    if run.is_incomplete:
        notes.append(
            f"what came before {format_clock_time(run.begin, second)} is not known: windows may have held more"
        )
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
        made=None if made is None else tuple(made[-SHOWN:]),
        made_total=0 if made is None else len(made),
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
    fits = (n for n, each in enumerate(rows) if len(each) > at.place and matches_row(each[at.place], at.row))
    number = next(fits, None)
    ended = partition is not None and partition not in after.partitions
    if run.shows_former_state(at):
        return looks[number - 1] if number else before
    if ended and number is not None and partition not in looks[number].partitions:
        return replace(before, unwindowed_count=looks[number].unwindowed_count, windows=_moved_on(run, before))
    return looks[number] if number is not None and (ended or len(looks) > 1) else after


def _moved_on(run: ProvenanceRerun, before: RetainedRows) -> dict[int, list[Row]]:
    found = {}
    for number, rows in before.windows.items():
        moved = run.result.window_changes.get(number, ())
        gone = {id(row[EVENT]) for delta in moved for row in delta.remove or ()}
        came = [row for delta in moved for row in delta.insert or ()]
        found[number] = [row for row in (*rows, *came) if id(row[EVENT]) not in gone]
    return found


def clock_second(runtime: Runtime) -> int:
    """How many units of the clock a second has."""
    return runtime.config.second


def _contents(run: ProvenanceRerun, held_then: RetainedRows, partition: int | None) -> Iterator[WindowContents]:
    for number, rows in held_then.of(partition).items():
        assert run.select is not None
        events = tuple(deep_copied(dict(row[EVENT])) for row in rows[-SHOWN:])
        yield WindowContents(stream_name(run.select, number), len(rows), events)
    for number, rows in enumerate(held_then.cycles):
        assert isinstance(run.target, nodes.CycleStatement)
        source = run.target.partitions[number].source
        events = tuple(deep_copied(dict(row)) for row in rows[-SHOWN:])
        yield WindowContents(source.alias or source.event_type, len(rows), events)
    for name, stored in held_then.stores.items():
        yield WindowContents(name, len(stored), tuple(deep_copied(dict(row)) for row in stored[-SHOWN:]))


def _waits(runtime: Runtime, name: str, partition: int | None) -> tuple[str, ...]:
    if pattern_tags(runtime, name) is None:
        return ()
    rows = partial_matches(runtime, name, partition).rows
    return tuple(dict.fromkeys(each.waiting_for for each in rows))


def named_partition(runtime: Runtime, context: str, row: Row | None) -> dict[str, Any] | None:
    """A partition by the names that people know: ``{"id": 0, "symbol": "A"}``."""
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
    """What set it off, in words."""
    events = [each.type_name for each in cause if each.type_name is not None]
    if len(events) > 1:
        return f"{len(events)} events that arrived together"
    if cause and cause[0].variable is not None:
        return f"variable {cause[0].variable} was given the value {cause[0].value!r}"
    if events and cause[0].time == time:
        return f"an event of type {events[0]}"
    if cause and cause[0].manual_action is not None:
        text = " ".join((cause[0].query or "").split())
        return f"the query `{text}`" if text else cause[0].description
    return f"the clock, which came to {format_clock_time(time, second)}"


def cause_event(cause: Sequence[LogEntry]) -> ProvenanceEvent | None:
    """The event that set it off, if it was one."""
    if len(cause) != 1 or cause[0].type_name is None:
        return None
    return ProvenanceEvent("", dict(cause[0].event), cause[0].time, cause[0].type_name)


def source_text(runtime: Runtime, name: str, e: Any) -> str:
    """An expression or clause of a statement as it stands in its text; of what was not written, as the plan has it."""
    deployment = runtime.deployments[runtime.statement(name).deployment_id]
    span = e.span
    found = deployment.source[span.start : span.end]
    if found.strip():
        return " ".join(found.split())
    return show_expr(e) if isinstance(e, x.BoundExpr) else ""


# ---------------------------------------------------------------- by a snapshot, or as it is now
def _by_snapshot(
    runtime: Runtime, replay: Replay[Any], name: str, at: DeliveredRow, other: RowExplanation | None
) -> RowExplanation:
    try:
        twin = replay.at(at.time if at.insert or at.time <= (replay.span or (at.time,))[0] else at.time - 1)
    except CepbookError as error:
        return other or _now(runtime, runtime, name, at, [str(error)])
    notes = ["windows are those of a snapshot of the replay, after all that happened at that time"]
    found = _now(runtime, twin.runtime, name, at, notes, "snapshot")
    if other is None:
        return found
    whole = other.made is not None and other.group is None and other.made_total <= len(other.made)
    return replace(
        found,
        cause=other.cause,
        stimulus=other.stimulus,
        partition=other.partition,
        group=other.group,
        made=other.made if whole else None,
        made_total=other.made_total if whole else 0,
    )


def _now(
    runtime: Runtime, looked_at: Runtime, name: str, at: DeliveredRow, notes: list[str], basis: Basis = "now"
) -> RowExplanation:
    statement = looked_at.statements.get(name)
    windows: list[WindowContents] = []
    waiting: tuple[str, ...] = ()
    if statement is not None:
        if has_window_events(statement):
            kept = window_events(statement, SHOWN)
            windows.append(WindowContents("window", kept.total, tuple(kept.rows)))
        elif statement.keeps_rows and statement.steps.windows:
            rows = latest_rows(statement, SHOWN)
            windows.append(WindowContents("window", rows.total, tuple(rows.rows)))
        waiting = _waits(looked_at, name, None)
        if statement.steps.context is not None:
            notes.append("windows of all context partitions together")
    second = clock_second(runtime)
    return RowExplanation(
        statement=name,
        number=at.number,
        time=at.time,
        insert=at.insert,
        row=at.row,
        basis=basis,
        cause="not known",
        stimulus=None,
        partition=None,
        group=None,
        made=None,
        made_total=0,
        windows=tuple(windows),
        waiting=waiting,
        notes=tuple(notes),
        second=second,
    )
