"""Why a row was delivered: what set it off, its context partition, its group, the events that made it, the windows.

The statement runs again over the known events, aside (`session.past.watched`), up to that instant. Where not all of
them are known, snapshots of the replay (`Replay.at`) tell what was held then; without these only what is known now is
told, and the answer says so (`basis`). Python functions are called only on request, because they may do something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from cepbook.engine.delta import Delta, Row
from cepbook.engine.looking import held, holds_events, latest
from cepbook.engine.rows.support import copied
from cepbook.engine.runtime import Runtime
from cepbook.errors import CepbookError, UsageError
from cepbook.lang import expr as x
from cepbook.lang import plan
from cepbook.lang.explain_plan import show_expr
from cepbook.session.inspect.partials import partials_of, tags_of
from cepbook.session.inspect.partitions import flat, key_names, levels_of
from cepbook.session.past.watched import EVENT, PARTITION, Place, Told, Watched, is_like, key_column
from cepbook.session.running.arrivals import Arrivals, Happening
from cepbook.session.values.clock import show
from cepbook.session.why.answers import SHOWN, Basis, Contents, Fired
from cepbook.session.why.made import Held, Piece, held_by, made_of, shadow_row, stream_name

if TYPE_CHECKING:
    from cepbook.feeds import Feed
    from cepbook.session.driving.replay import Replay

def place_of(feed: Feed, name: str, columns: Sequence[str], row: int | None, until: int | None) -> Place:
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
    return Place(number, found.times[index], insert, len(same), values)


def why_fired(runtime: Runtime, record: Arrivals, replay: Replay | None, name: str, at: Place, *, calls: bool) -> Fired:
    """The explanation of a row."""
    target = runtime.statement(name).plan
    notes: list[str] = []
    if isinstance(target, plan.Reader | plan.CreateVariableStatement):
        found = _again(runtime, record, target, at, notes, calls=calls)
        if found is not None and not (found.notes and _covers(replay, at.time)):
            return found
        if _covers(replay, at.time) and replay is not None:
            return _by_snapshot(runtime, replay, name, at, found)
        if found is not None:
            return found
    notes.append("what was held when the row was delivered is not known: this is what is held now")
    return _now(runtime, runtime, name, at, notes)


def _covers(replay: Replay | None, time: int) -> bool:
    span = None if replay is None else replay.span
    return span is not None and span[0] <= time <= span[1]


# ---------------------------------------------------------------- run again
def _again(
    runtime: Runtime,
    record: Arrivals,
    target: plan.Reader | plan.CreateVariableStatement,
    at: Place,
    notes: list[str],
    *,
    calls: bool,
) -> Fired | None:
    """The explanation by what happens again; None when it comes out otherwise than it did, with a note."""
    first = Watched(runtime, record, target, shadows=False)
    if first.calls and not calls:
        notes.append(called(first.calls))
        return None
    stimulus = _stimulus(first, at)
    if stimulus is None:
        what = "not all events are known any more" if first.lost else "running it again gives other rows"
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
    second = at_second(runtime)
    cause = f"{cause_of((), at.time, second)} in one leap: this was due at {show(leap.due, second)}"
    return replace(found, time=at.time, cause=cause)


def _made_by(
    runtime: Runtime,
    record: Arrivals,
    target: plan.Reader | plan.CreateVariableStatement,
    stimulus: int,
    leap: int | None,
    at: Place,
) -> Fired:
    """The explanation of a row that the stimulus delivers; numbers of stimuli are those with a `leap` (`Watched`)."""
    run, before, cause = _run_to(runtime, record, target, stimulus, leap)
    shadow = shadow_row(run, run.told.rows, at)
    origin = run.made_before(at, shadow)
    if origin is None:
        return _explained(runtime, run, at, at.time, cause, before, shadow)
    run, before, _ = _run_to(runtime, record, target, origin.number, leap)  # then it was made, and held back until now
    shadow = shadow_row(run, run.told.unlimited, at._replace(time=origin.time)) or shadow
    return _explained(runtime, run, at, origin.time, cause, before, shadow, held_back=True)


def _run_to(
    runtime: Runtime,
    record: Arrivals,
    target: plan.Reader | plan.CreateVariableStatement,
    stimulus: int,
    leap: int | None,
) -> tuple[Watched, Held, Sequence[Happening]]:
    """The statement after a stimulus, what was held before it, and the stimulus."""
    run = Watched(runtime, record, target, shadows=True, leap=leap)
    happenings: Sequence[Happening] = ()
    for number, happenings in enumerate(run.course()):
        if number == stimulus:
            before, run.look = held_by(run), held_by
            run.let(happenings)
            return run, before, happenings
        run.pass_by(happenings)
    raise AssertionError("the stimulus was found among these")


class _Leap(NamedTuple):
    """The clock went beyond times at which something was due. `stop` is the number of the stimulus that delivers a row
    if it stops at each of them, `due` the time of that; None: they deliver other rows."""

    stop: int | None
    due: int


def _leap(
    runtime: Runtime,
    record: Arrivals,
    target: plan.Reader | plan.CreateVariableStatement,
    stimulus: int,
    at: Place,
) -> _Leap | None:
    """When a row was due that a leap of the clock delivers; None: it was none, or all of it comes at its end.

    All that is due happens in one call then: what was held when the row was made has gone by the end. Where the clock
    stops on its way it can be seen. That comes to the same if the statement delivers the same rows up to this one.
    """
    whole = Watched(runtime, record, target, shadows=False)
    fits: Delta | None = None
    for number, happenings in enumerate(whole.course()):
        if number < stimulus:
            whole.pass_by(happenings)
            continue
        if not whole.leaps(happenings):
            return None
        first = whole.count
        whole.let(happenings)
        fits = _delivery(whole.told, first, at, by_number=not whole.lost)
        break
    wanted = deque(whole.told.delivered)
    split = Watched(runtime, record, target, shadows=False, leap=stimulus)
    for number, happenings in enumerate(split.course()):
        if number < stimulus:
            split.pass_by(happenings)
            continue
        split.let(happenings)
        for delta in split.told.delivered:
            if not wanted or not _alike(delta, wanted[0]):
                wanted.clear()
            elif wanted.popleft() is fits:
                return _Leap(number, delta.time)
        if not wanted or split.runtime.now >= whole.runtime.now:
            break
    limited = whole.select is not None and whole.select.output is not None
    return _Leap(None, at.time) if limited or len(whole.told.delivered) > 1 else None


def _alike(one: Delta, other: Delta) -> bool:
    """Whether deliveries have the same rows, whatever their times."""
    return all(
        len(mine) == len(theirs) and all(map(is_like, mine, theirs))
        for mine, theirs in ((one.insert or [], other.insert or []), (one.remove or [], other.remove or []))
    )


def called(functions: Sequence[str]) -> str:
    """The note that Python functions are not called."""
    names = ", ".join(f"`{name}`" for name in functions)
    return f"it calls the Python function{'s' * (len(functions) > 1)} {names}: not run again unless asked (calls=True)"


def _stimulus(run: Watched, at: Place) -> int | None:
    """The number of the stimulus that leads to the delivery. None: none does so."""
    fits: list[int] = []
    for number, happenings in enumerate(run.course()):
        before = run.count
        if not run.runtime.now <= at.time <= happenings[-1].time:  # no delivery of this can be of that time
            run.pass_by(happenings)
            continue
        run.let(happenings)
        if run.count > before and _delivery(run.told, before, at, by_number=not run.lost) is not None:
            fits.append(number)
    return fits[-1] if fits else None


def _delivery(told: Told, before: int, at: Place, *, by_number: bool) -> Delta | None:
    """The delivery that has the row in its place, among those of one stimulus; `before` it there were so many."""
    for number, delta in enumerate(told.delivered, before):
        rows = (delta.insert if at.insert else delta.remove) or ()
        fits = delta.time == at.time and (number == at.number or not by_number)
        if fits and len(rows) > at.place and is_like(rows[at.place], at.row):
            return delta
    return None


def _explained(
    origin: Runtime,
    run: Watched,
    at: Place,
    time: int,
    cause: Sequence[Happening],
    before: Held,
    shadow: Row | None,
    *,
    held_back: bool = False,
) -> Fired:
    """`time` is when the row was made, `shadow` is the row with hidden columns. `held_back`: it was made by an earlier
    stimulus than the one that delivered it.
    """
    target, runtime, second = run.target, run.runtime, at_second(run.runtime)
    partition = None if shadow is None else shadow.get(PARTITION)
    after = held_by(run)
    held_then = _held_then(run, at, partition, before, after)
    keys = () if run.aggregation is None else run.aggregation.keys
    group = None
    if keys and shadow is not None and key_column(0) in shadow:
        group = {written(origin, target.name, key): shadow[key_column(i)] for i, key in enumerate(keys)}
    made = made_of(run, at, shadow, held_then, before, partition, cause)
    notes = []
    if held_back and time == at.time:
        notes.append("it was made by an earlier event of the same time, and the output clause held it back until then")
    elif held_back:
        notes.append(f"it was made at {show(time, second)}, and the output clause held it back until then")
    elif shadow is not None and run.has_again(shadow):
        what = "its group" if keys else "the statement"
        notes.append(f"nothing changed {what} since the delivery before: the output clause has its row again")
    window = isinstance(target, plan.CreateWindowStatement)
    if shadow is None and (keys or target.context is not None) and run.select is not None and not window:
        made = None  # it would be of all groups and partitions, as the windows are
        notes.append("which earlier row of its group or partition it repeats is not known; windows are shown whole")
    if run.lost:
        notes.append(f"what came before {show(run.begin, second)} is not known: windows may have held more")
    described = None
    if target.context is not None and partition is not None:
        known = {**before.partitions, **after.partitions}
        described = described_partition(runtime, target.context, known.get(partition))
    return Fired(
        statement=target.name,
        number=at.number,
        time=at.time,
        insert=at.insert,
        row=at.row,
        basis="run again",
        cause=cause_of(cause, at.time, second),
        stimulus=stimulus_of(cause),
        partition=described,
        group=group,
        made=None if made is None else tuple(made[-SHOWN:]),
        made_total=0 if made is None else len(made),
        windows=tuple(_contents(run, held_then, partition)),
        waiting=_waits(runtime, target.name, partition),
        notes=tuple(notes),
        second=second,
    )


def _held_then(run: Watched, at: Place, partition: int | None, before: Held, after: Held) -> Held:
    """What was held when a row was made: of a remove row, or one of rstream, before."""
    looks: list[Held] = run.told.held
    rows = [(delta.insert if at.insert else delta.remove) or () for delta in run.told.delivered]
    fits = (n for n, each in enumerate(rows) if len(each) > at.place and is_like(each[at.place], at.row))
    number = next(fits, None)
    ended = partition is not None and partition not in after.partitions
    if run.is_former(at):
        return looks[number - 1] if number else before
    if ended and number is not None and partition not in looks[number].partitions:
        return replace(before, unbound=looks[number].unbound, windows=_moved_on(run, before))
    return looks[number] if number is not None and (ended or len(looks) > 1) else after


def _moved_on(run: Watched, before: Held) -> dict[int, list[Row]]:
    """What windows held after the stimulus, where a partition ended with it: the event that ended it may count, too."""
    found = {}
    for number, rows in before.windows.items():
        moved = run.told.moved.get(number, ())
        gone = {id(row[EVENT]) for delta in moved for row in delta.remove or ()}
        came = [row for delta in moved for row in delta.insert or ()]
        found[number] = [row for row in (*rows, *came) if id(row[EVENT]) not in gone]
    return found


def at_second(runtime: Runtime) -> int:
    """How many units of the clock a second has."""
    return runtime.config.second


def _contents(run: Watched, held_then: Held, partition: int | None) -> Iterator[Contents]:
    """What windows, subqueries, named windows and tables held."""
    for number, rows in held_then.of(partition).items():
        assert run.select is not None
        events = tuple(copied(dict(row[EVENT])) for row in rows[-SHOWN:])
        yield Contents(stream_name(run.select, number), len(rows), events)
    for number, rows in enumerate(held_then.cycled):
        assert isinstance(run.target, plan.CycleStatement)
        source = run.target.partitions[number].source
        events = tuple(copied(dict(row)) for row in rows[-SHOWN:])
        yield Contents(source.alias or source.event_type, len(rows), events)
    for name, stored in held_then.stored.items():
        yield Contents(name, len(stored), tuple(copied(dict(row)) for row in stored[-SHOWN:]))


def _waits(runtime: Runtime, name: str, partition: int | None) -> tuple[str, ...]:
    if tags_of(runtime, name) is None:
        return ()
    rows = partials_of(runtime, name, partition).rows
    return tuple(dict.fromkeys(each.waiting_for for each in rows))


def described_partition(runtime: Runtime, context: str, row: Row | None) -> dict[str, Any] | None:
    """A partition by the names that people know: ``{"id": 0, "symbol": "A"}``."""
    if row is None:
        return None
    names = key_names(runtime, context)
    return {
        "id": row["id"],
        **{names.get(n, n): copied(value) for n, value in flat(row, levels_of(runtime, context)).items()},
    }


def cause_of(cause: Sequence[Happening], time: int, second: int) -> str:
    """What set it off, in words."""
    events = [each.type_name for each in cause if each.type_name is not None]
    if len(events) > 1:
        return f"{len(events)} events that arrived together"
    if cause and cause[0].variable is not None:
        return f"variable {cause[0].variable} was given the value {cause[0].value!r}"
    if events and cause[0].time == time:
        return f"an event of type {events[0]}"
    if cause and cause[0].deed is not None:
        text = " ".join((cause[0].query or "").split())
        return f"the query `{text}`" if text else cause[0].what
    return f"the clock, which came to {show(time, second)}"


def stimulus_of(cause: Sequence[Happening]) -> Piece | None:
    """The event that set it off, if it was one."""
    if len(cause) != 1 or cause[0].type_name is None:
        return None
    return Piece("", dict(cause[0].event), cause[0].time, cause[0].type_name)


def written(runtime: Runtime, name: str, e: Any) -> str:
    """An expression or clause of a statement as it stands in its text; of what was not written, as the plan has it."""
    deployment = runtime.deployments[runtime.statement(name).deployment_id]
    span = e.span
    found = deployment.source[span.start : span.end]
    if found.strip():
        return " ".join(found.split())
    return show_expr(e) if isinstance(e, x.Expr) else ""


# ---------------------------------------------------------------- by a snapshot, or as it is now
def _by_snapshot(runtime: Runtime, replay: Replay, name: str, at: Place, other: Fired | None) -> Fired:
    """With what was held at that instant; for remove rows just before."""
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


def _now(runtime: Runtime, looked_at: Runtime, name: str, at: Place, notes: list[str], basis: Basis = "now") -> Fired:
    statement = looked_at.statements.get(name)
    windows: list[Contents] = []
    waiting: tuple[str, ...] = ()
    if statement is not None:
        if holds_events(statement):
            kept = held(statement, SHOWN)
            windows.append(Contents("window", kept.total, tuple(kept.rows)))
        elif statement.keeps_rows and statement.steps.windows:
            rows = latest(statement, SHOWN)
            windows.append(Contents("window", rows.total, tuple(rows.rows)))
        waiting = _waits(looked_at, name, None)
        if statement.steps.context is not None:
            notes.append("windows of all context partitions together")
    second = at_second(runtime)
    return Fired(
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
