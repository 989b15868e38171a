"""Why a row was delivered: what set it off, its context partition, its group, the events that made it, the windows.

The statement runs again over the known events, aside (`session.watched`), up to that instant. Where not all of them are
known, snapshots of the replay (`Replay.at`) tell what was held then; without these only what is known now is told, and
the answer says so (`basis`). Python functions are called only on request, because they may do something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cepbook.engine.delta import Delta, Row
from cepbook.engine.looking import held, holds_events, latest
from cepbook.engine.rows.support import copied
from cepbook.engine.runtime import Runtime
from cepbook.errors import CepbookError, UsageError
from cepbook.lang import expr as x
from cepbook.lang import plan
from cepbook.lang.explain_plan import show_expr
from cepbook.session.arrivals import Arrivals, Happening
from cepbook.session.clock import show
from cepbook.session.partials import partials_of, tags_of
from cepbook.session.partitions import flat, key_names, levels_of
from cepbook.session.rerun import same_row
from cepbook.session.watched import COUNTS, EVENT, PARTITION, Told, Watched, event_column, key_column

if TYPE_CHECKING:
    from cepbook.feeds import Feed
    from cepbook.session.replay import Replay

SHOWN = 50  # events of one list
Basis = Literal["run again", "snapshot", "now"]


@dataclass(frozen=True, slots=True)
class Piece:
    """An event of an explanation. `tag` is its stream, its tag in a pattern, or its variable in match_recognize; `time`
    (clock units) and `type_name` are None where they are not known: of events that a statement made."""

    tag: str
    event: Mapping[str, Any]
    time: int | None = None
    type_name: str | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """What a window held: the last `SHOWN` of `total` events, oldest first; `name` is that of the stream."""

    name: str
    total: int
    events: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Fired:
    """Why statement `statement` delivered `row` with delivery `number` at `time` (clock units).

    `cause` says in words what set it off, `stimulus` is the event if one did. `partition` and `group` are None without
    a context and without group by. `made` are the events that made the row, the last `SHOWN` of `made_total`; None
    where that is not known. `windows` are those after the stimulus, of a remove row those before. `waiting` is what a
    pattern waited for then. `basis` tells how it is known: the statement was ``run again`` over all events, by a
    ``snapshot`` of the replay, or only by what there is ``now``.
    """

    statement: str
    number: int
    time: int
    insert: bool
    row: Mapping[str, Any]
    basis: Basis
    cause: str
    stimulus: Piece | None
    partition: Mapping[str, Any] | None
    group: Mapping[str, Any] | None
    made: tuple[Piece, ...] | None
    made_total: int
    windows: tuple[Contents, ...]
    waiting: tuple[str, ...]
    notes: tuple[str, ...]
    second: int = 1000

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


class Place(NamedTuple):
    """A row of a feed: the number of its delivery, its time, its side and its place there."""

    number: int
    time: int
    insert: bool
    place: int
    row: Mapping[str, Any]


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
    """The explanation of a row. Errors: UsageError for a statement that runs in cycles or has no rows of its own."""
    target = runtime.statement(name).plan
    notes: list[str] = []
    if isinstance(target, plan.SelectStatement):
        found = _again(runtime, record, target, at, notes, calls=calls)
        if found is not None and not (found.notes and _covers(replay, at.time)):
            return found
        if _covers(replay, at.time) and replay is not None:
            return _by_snapshot(runtime, replay, name, at, found)
        if found is not None:
            return found
    else:
        notes.append(f"a statement of kind `{runtime.statement(name).kind}` is not run again")
    notes.append("what was held when the row was delivered is not known: this is what is held now")
    return _now(runtime, runtime, name, at, notes)


def _covers(replay: Replay | None, time: int) -> bool:
    span = None if replay is None else replay.span
    return span is not None and span[0] <= time <= span[1]


# ---------------------------------------------------------------- run again
def _again(
    runtime: Runtime, record: Arrivals, target: plan.SelectStatement, at: Place, notes: list[str], *, calls: bool
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
    run = Watched(runtime, record, target, shadows=True)
    before: dict[int, list[Row]] = {}
    partitions: dict[int, Row] = {}
    cause: Sequence[Happening] = ()
    for number, happenings in enumerate(run.stimuli()):
        cause = happenings
        if number == stimulus:
            before, partitions = _held(run), _partitions(run)
            run.let(happenings)
            break
        run.pass_by(happenings)
    else:
        before, partitions, cause = _held(run), _partitions(run), ()
        run.catch_up()
    return _explained(runtime, run, at, cause, before, partitions)


def called(functions: Sequence[str]) -> str:
    """The note that Python functions are not called."""
    names = ", ".join(f"`{name}`" for name in functions)
    return f"it calls the Python function{'s' * (len(functions) > 1)} {names}: not run again unless asked (calls=True)"


def _stimulus(run: Watched, at: Place) -> int | None:
    """The number of the stimulus that leads to the delivery; -1: the clock as it stands now. None: none does so."""
    fits: list[int] = []
    number = -1
    for number, happenings in enumerate(run.stimuli()):
        before = run.count
        if not run.runtime.now <= at.time <= happenings[-1].time:  # no delivery of this can be of that time
            run.pass_by(happenings)
            continue
        run.let(happenings)
        if run.count > before and _delivery(run.told, before, at, by_number=not run.lost) is not None:
            fits.append(number)
    before = run.count
    run.catch_up()
    if run.count > before and _delivery(run.told, before, at, by_number=not run.lost) is not None:
        fits.append(number + 1)
    return fits[-1] if fits else None


def _delivery(told: Told, before: int, at: Place, *, by_number: bool) -> Delta | None:
    """The delivery that has the row in its place, among those of one stimulus; `before` it there were so many."""
    for number, delta in enumerate(told.delivered, before):
        rows = (delta.insert if at.insert else delta.remove) or ()
        fits = delta.time == at.time and (number == at.number or not by_number)
        if fits and len(rows) > at.place and same_row(_alike(rows[at.place], at.row), dict(at.row)):
            return delta
    return None


def _alike(row: Row, like: Mapping[str, Any]) -> Row:
    """Events within a row are told of as dicts, whatever they are."""
    return {name: row.get(name) for name in like}


def _held(run: Watched) -> dict[int, list[Row]]:
    return {number: run.held(number) or [] for number in run.windows}


def _partitions(run: Watched) -> dict[int, Row]:
    if run.target.context is None or run.target.context not in run.runtime.contexts:
        return {}
    return {row["id"]: row for row in run.runtime.partitions(run.target.context)}


def _explained(
    origin: Runtime,
    run: Watched,
    at: Place,
    cause: Sequence[Happening],
    before: Mapping[int, list[Row]],
    partitions: dict[int, Row],
) -> Fired:
    target, runtime = run.target, run.runtime
    shadow = _shadow_row(run, at)
    partition = None if shadow is None else shadow.get(PARTITION)
    known = {**partitions, **_partitions(run)}
    keys = () if run.aggregation is None else run.aggregation.keys
    group = None
    if keys and shadow is not None and key_column(0) in shadow:
        group = {written(origin, target.name, key): shadow[key_column(i)] for i, key in enumerate(keys)}
    held_rows = {n: run.held(n) or [] for n in run.windows} if at.insert else dict(before)
    in_partition = {n: [r for r in rows if _is_of(r, partition)] for n, rows in held_rows.items()}
    made = _made(run, at, shadow, in_partition, partition)
    notes = []
    if run.lost:
        notes.append(f"what came before {show(run.begin, at_second(runtime))} is not known: windows may have held more")
    if made is None and run.aggregation is not None and target.join is not None:
        notes.append("which events of a join an aggregate is made of is not told: see the windows")
    described = None
    if target.context is not None:
        described = None if partition is None else described_partition(runtime, target.context, known.get(partition))
    return Fired(
        target.name,
        at.number,
        at.time,
        at.insert,
        at.row,
        "run again",
        cause_of(cause, at.time, at_second(runtime)),
        stimulus_of(cause),
        described,
        group,
        None if made is None else tuple(made[-SHOWN:]),
        0 if made is None else len(made),
        tuple(_contents(run, n, rows) for n, rows in in_partition.items()),
        _waits(runtime, target.name, partition),
        tuple(notes),
        at_second(runtime),
    )


def at_second(runtime: Runtime) -> int:
    """How many units of the clock a second has."""
    return runtime.config.second


def _shadow_row(run: Watched, at: Place) -> Row | None:
    """The row with its hidden columns."""
    for delta in run.told.rows:
        rows = (delta.insert if at.insert else delta.remove) or ()
        if delta.time == at.time and len(rows) > at.place and same_row(_alike(rows[at.place], at.row), dict(at.row)):
            return rows[at.place]
    return None


def _is_of(row: Row, partition: int | None) -> bool:
    return partition is None or row.get(PARTITION, partition) == partition


def _contents(run: Watched, number: int, rows: Sequence[Row]) -> Contents:
    name = stream_name(run.target, number)
    return Contents(name, len(rows), tuple(copied(dict(row[EVENT])) for row in rows[-SHOWN:]))


def stream_name(target: plan.SelectStatement, number: int) -> str:
    """What a stream is called: its alias or its event type."""
    source = target.sources[number]
    return source.alias or (source.store.name if source.store is not None else source.event_type)


def _made(
    run: Watched, at: Place, shadow: Row | None, windows: Mapping[int, list[Row]], partition: int | None
) -> list[Piece] | None:
    """The events behind the row; None where that is not known."""
    target = run.target
    matches = run.told.matches
    if target.join is None and (target.source.pattern is not None or _recognizes(target)):
        match = matches[at.place] if len(matches) > at.place and at.insert else None
        match = match or (shadow or {}).get(event_column(0))
        return None if match is None else path_of(run, match)
    if run.aggregation is not None and run.aggregation.kind.startswith("fully"):
        return _group_made(run, at, shadow, windows, partition) if target.join is None else None
    if shadow is None or event_column(0) not in shadow:
        return None
    found = [(stream_name(target, n), shadow[event_column(n)]) for n in range(len(target.sources))]
    return [piece(run, tag, event) for tag, event in found if event is not None]


def _recognizes(target: plan.SelectStatement) -> bool:
    return any(isinstance(node, plan.Recognize) for node in plan.chain(target.root))


def _group_made(
    run: Watched, at: Place, shadow: Row | None, windows: Mapping[int, list[Row]], partition: int | None
) -> list[Piece]:
    """The events of the row's group: of batches those that were released, of sliding windows those that are held."""
    if 0 not in run.windows:
        rows = [row for row in run.unbound if _is_of(row, partition)]
    elif run.batched:
        moved = run.told.moved.get(0, ())
        rows = [row for delta in moved for row in (delta.insert if at.insert else delta.remove) or ()]
        rows = [row for row in rows if _is_of(row, partition)]
    else:
        rows = windows.get(0, [])
    keys = () if run.aggregation is None else run.aggregation.keys
    levels = run.aggregation is not None and bool(run.aggregation.levels)
    for number in range(len(keys)):
        name = key_column(number)
        if shadow is not None and name in shadow and not (levels and shadow[name] is None):
            rows = [row for row in rows if row.get(name, shadow[name]) == shadow[name]]
    return [piece(run, stream_name(run.target, 0), row[EVENT]) for row in rows if row.get(COUNTS, True) is True]


def piece(run: Watched, tag: str, event: Row) -> Piece:
    """An event with what is known of its coming."""
    sent = run.sent.get(id(event))
    if sent is None:
        return Piece(tag, copied(dict(event)))
    return Piece(tag, copied(dict(event)), sent.time, sent.type_name)


def path_of(run: Watched, match: Mapping[str, Any]) -> list[Piece]:
    """The events of a match, by tag or variable, in the order in which they came."""
    found: list[Piece] = []
    for tag, value in match.items():
        events = value if isinstance(value, list | tuple) else [value]
        found += [piece(run, tag, event) for event in events if isinstance(event, Mapping)]  # type: ignore[arg-type]
    return sorted(found, key=lambda each: (each.time is None, each.time or 0))


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
        name, at.number, at.time, at.insert, at.row, basis, "not known", None, None, None, None, 0, tuple(windows),
        waiting, tuple(notes), second,
    )  # fmt: skip
