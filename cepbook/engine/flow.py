"""One slice of a replay through statements: each runs through it on its own, sources before readers.

A statement that reads one stream gets that stream's events in their order, and nothing else needs to be known. Where
rows of several ``insert into`` statements meet, or derived with replayed events, the order of event-by-event sending is
rebuilt from a key: the place of the event that caused them, timers before the event, then step by step as the queue of
derived events is served (first in, first out). A pattern, a join, a statement with subqueries merges the streams that
it reads in that order, and is shown their events one by one; of replayed events a pattern sees those that an atom may
take, which the columns tell.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import compress, repeat
from operator import length_hint
from typing import Any, Protocol

from cepbook.engine.clock import Clock
from cepbook.engine.config import Config
from cepbook.engine.contexts.context import Columnar, Context
from cepbook.engine.contexts.partition import Partition
from cepbook.engine.delta import GONE, INSERT, MORE, REMOVE, Key, Out, Push, Record, Row, Rows
from cepbook.engine.deployments import Deployment
from cepbook.engine.inner import unwrapped
from cepbook.engine.layout import Layout, deliveries
from cepbook.engine.rounds import Rounds
from cepbook.engine.statement import Statement
from cepbook.lang.catalog import Catalog


class Routing(Protocol):
    """What shows events to statements."""

    shown: tuple[int, int]

    def only(self, type_name: str, names: Container[str]) -> Callable[[Any], object]: ...
    def announced(self, entered: Callable[[], None], derived: Container[str]) -> AbstractContextManager[None]: ...


class Replayed(Protocol):
    """What a batch needs of the runtime that it feeds."""

    clock: Clock
    config: Config
    catalog: Catalog
    version: int
    entered: Callable[[], object]
    rounds: Rounds

    @property
    def routes(self) -> Routing: ...
    @property
    def now(self) -> int: ...
    @property
    def deployments(self) -> Mapping[str, Deployment]: ...
    @property
    def statements(self) -> Mapping[str, Statement]: ...
    @property
    def contexts(self) -> Mapping[str, Context]: ...
    def readers(self, type_name: str) -> list[Statement]: ...
    def sender(self, type_name: str) -> Callable[[dict[str, Any]], None]: ...
    def sender_to(self, type_name: str, statements: Container[str]) -> Callable[[dict[str, Any]], None]: ...
    def advance(self, t: int) -> None: ...
    def raise_unraised(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive events of one type: `times` ascending (ms), `columns` by property name, all of one length.

    `ranks` are the positions of the events in the total order of the replay; needed when several types are replayed.
    """

    type: str
    times: list[int]
    columns: Mapping[str, list[Any]]
    ranks: Sequence[int] | None = None

    @property
    def places(self) -> Sequence[int]:
        """The positions of the events among all of the slice."""
        return range(len(self.times)) if self.ranks is None else self.ranks

    def rows(self) -> Iterable[tuple[int, int, tuple[Any, ...]]]:
        """(place, time, values in the order of `columns`) of each event."""
        values = zip(*self.columns.values(), strict=True) if self.columns else repeat(())
        return zip(self.places, self.times, values)  # noqa: B905 - without columns the times tell how many

    def part(self, begin: int, end: int | None = None) -> Slice:
        """The events number `begin` (from 0) to before `end`."""
        cut = slice(begin, end)
        columns = {name: values[cut] for name, values in self.columns.items()}
        return Slice(self.type, self.times[cut], columns, self.places[cut])


_AFTER: Key = (1 << 62, 0, 0, ())  # all events of the slice
_ALONE: Key = (0, 1, 0, ())  # of events that meet no others: their order is known
# an event, its time, what takes it; and behind its key, or its place alone
_Shown = tuple[int, Callable[[Any], object], Row]
_Taken = tuple[Any, _Shown]


@dataclass(slots=True)
class Node:
    """A statement, the replayed types and the statements that it reads from; `keyed`: its rows' order will matter."""

    statement: Statement
    raw: list[str]
    producers: list[str]
    keyed: bool = False

    @property
    def merges(self) -> bool:
        return len(self.raw) + len(self.producers) > 1


class Derived:
    """The events of type `type` that a statement inserts within a slice, with their keys if they are needed.

    They are kept as flat records, and made into dicts, or into columns, when a reader asks for them so.
    """

    __slots__ = ("_events", "_flat", "_layout", "keys", "type")

    def __init__(
        self,
        type_name: str = "",
        layout: Layout | None = None,
        flat: list[Any] | None = None,
        keys: Sequence[Key] = (),
    ) -> None:
        self.type = type_name
        self._flat = flat or []
        self.keys = keys
        self._layout = layout
        self._events: list[tuple[int, Row]] | None = None

    @property
    def events(self) -> list[tuple[int, Row]]:
        """(time, event) of each."""
        layout = self._layout
        if layout is None:
            return []
        if self._events is None:
            self._events = [(each[1], layout.event(layout.row(each))) for each in layout.records(self._flat)]
        return self._events

    def columns(self, names: Iterable[str]) -> Slice | None:
        """The events as columns; None where the events lack one of these properties."""
        if self._layout is None or self._layout.columns is None or not self._flat:
            return None
        places = {name: i for i, name in enumerate(self._layout.columns, 2)}
        if not places.keys() >= set(names):
            return None
        flat, width = self._flat, self._layout.width
        return Slice(self.type, flat[1::width], {name: flat[places[name] :: width] for name in names})


def nodes_of(statements: Iterable[Statement], types: Sequence[str]) -> list[Node] | str:
    """All `statements`, sources before readers; or the name of one that reads, directly or not, what it inserts."""
    statements = sorted(statements, key=lambda s: s.order)
    inserts = [(s.name, s.steps.apply.insert.target) for s in statements if s.steps.apply.insert is not None]
    nodes: dict[str, Node] = {}
    for statement in statements:
        raw = [t for t in types if statement.reads(t)]
        producers = [name for name, target in inserts if statement.reads(target)]
        nodes[statement.name] = Node(statement, raw, producers)
    ordered: list[Node] = []
    placed: set[str] = set()
    while len(ordered) < len(nodes):
        ready = [n for name, n in nodes.items() if name not in placed and placed.issuperset(n.producers)]
        if not ready:
            return next(name for name in nodes if name not in placed)
        ordered += ready
        placed.update(n.statement.name for n in ready)
    for node in reversed(ordered):
        node.keyed = node.keyed or node.statement.outlet.traced
        if node.merges or node.keyed:
            for name in node.producers:
                nodes[name].keyed = True
    return ordered


class Flow:
    """One slice on its way, up to the time `last`: then all timers that are due have run.

    The clock stops at the times of its events, or at `stops`, if given: these and others, ascending up to `last`.
    """

    def __init__(
        self, runtime: Replayed, slices: Sequence[Slice], last: int, stops: Sequence[int] | None = None
    ) -> None:
        self._runtime = runtime
        self._slices = {s.type: s for s in slices if s.times}
        self.last = last
        self._ticks = _ticks(list(self._slices.values()), last) if stops is None else stops
        self._hand: Callable[[], Key] = lambda: _ALONE
        self._derived: dict[str, Derived] = {}
        self._partitions: dict[tuple[str, str], list[Partition | None]] = {}

    def run(self, nodes: Sequence[Node]) -> None:
        """Take the slice through `nodes` (sources before readers)."""
        contexts = {node.statement.steps.context for node in nodes}
        for each in self._slices.values():
            for context, listed in allocating(self._runtime, each.type):
                if context.name in contexts:
                    assigned = context.assign(listed, each.columns, each.times)
                    self._partitions[context.name, each.type] = assigned
                    for tally in context.tallies:
                        tally.batch(assigned, each.times)
        for node in nodes:
            found = self._run(node)
            if node.statement.steps.apply.insert is not None:
                self._derived[node.statement.name] = found

    @property
    def cause(self) -> Key:
        """What is in hand, of statements of which that is wanted."""
        return self._hand()

    def _run(self, node: Node) -> Derived:
        given = [self._slices[t] for t in node.raw if t in self._slices]
        produced = [self._derived[name] for name in node.producers]
        if not (given or produced) and node.statement.timed.due > self.last:
            return Derived()  # of many statements most have nothing to do with a slice
        out = _Out(node.statement, self._slices.values(), node.keyed)
        self._hand = lambda: out.key
        if node.statement.steps.in_order:
            self._run_in_order(node.statement, self._in_order(node, given, produced), out)
        else:
            self._run_plain(node, given, produced, out)
        if out.flat:
            node.statement.outlet.deliver_batch(out.flat, out.causes)
        return out.derived()

    def _run_plain(self, node: Node, given: list[Slice], produced: list[Derived], out: _Out) -> None:
        if node.merges:
            self._run_events(node.statement, *self._merged(given, produced), out)
        elif given:
            self._run_columns(node.statement, given[0], out)
        elif produced:
            self._run_derived(node.statement, produced[0], out)
        if node.statement.timed.due <= self.last:
            self._catch_up(node.statement, out.expired)(self.last)

    def _run_derived(self, statement: Statement, derived: Derived, out: _Out) -> None:
        """Where nothing but the events is needed they go on as columns."""
        each = derived.columns(statement.program.columns) if statement.context is None else None
        if each is None:
            self._run_events(statement, derived.events, derived.keys, out)
        else:
            self._run_columns(statement, each, out, derived.keys)

    def _run_columns(self, statement: Statement, each: Slice, out: _Out, keys: Sequence[Key] = ()) -> None:
        program, partitions = statement.program, None
        if statement.context is not None:
            partitions = self._partitions[statement.context.name, each.type]
        columns = [each.columns[name] for name in program.columns]
        catch_up = self._catch_up(statement, out.expired)
        times: Iterable[int] = each.times
        one, push = out.one, out.push
        if out.keyed:
            times, one, push, self._hand = out.watched(each, keys)
        given = times, statement.state, one, push, out.expired, catch_up, self._ticks, partitions
        program["run"](*given, *columns)

    def _merged(self, given: list[Slice], produced: list[Derived]) -> tuple[list[tuple[int, Row]], list[Key]]:
        found: list[tuple[Key, tuple[int, Row]]] = []
        for each in given:
            names = list(each.columns)
            for place, time, row in each.rows():
                found.append(((place, 1, 0, ()), (time, dict(zip(names, row, strict=True)))))
        for derived in produced:
            found += zip(derived.keys, derived.events, strict=True)
        found.sort(key=lambda pair: pair[0])
        return [event for _, event in found], [key for key, _ in found]

    # -------------------------------------------------------------- several streams, in order
    def _in_order(self, node: Node, given: list[Slice], produced: list[Derived]) -> Iterator[_Taken]:
        """The events that a node takes one by one, in order. Few of them are there at a time."""
        statement = node.statement
        streams: list[tuple[Iterable[Any], Iterator[_Shown]]] = []
        for each in given:
            reading = statement.reading(each.type)
            if reading is not None:
                names, wanted = tuple(each.columns), wanted_by([statement], each)
                values = zip(*each.columns.values(), strict=True) if names else repeat((), len(each.times))
                take, rows = _alone(reading.checked, statement.state), map(dict, map(zip, repeat(names), values))
                shown = zip(each.times, repeat(take), rows)
                keys: Iterable[Any] = each.places
                if produced:
                    keys = zip(keys, repeat(1), repeat(0), repeat(()))
                streams.append((keys, shown) if wanted is None else (compress(keys, wanted), compress(shown, wanted)))
        for derived in produced:
            reading = statement.reading(derived.type)
            if reading is not None:
                take = _alone(reading.checked, statement.state)
                own = derived.keys or repeat(_ALONE, len(derived.events))
                streams.append((own, ((time, take, row) for time, row in derived.events)))
        if len(streams) == 1:
            return zip(*streams[0])  # noqa: B905
        order = [(key, number) for number, (keys, _) in enumerate(streams) for key in keys]
        order.sort()
        heads = [shown for _, shown in streams]
        return ((key, next(heads[number])) for key, number in order)

    def _run_in_order(self, statement: Statement, events: Iterable[_Taken], out: _Out) -> None:
        """Show a statement `events`. All that one event, or one stop of the clock, makes of matches is one delivery."""
        clock, timed = self._runtime.clock, statement.timed
        before, keyed = clock.now, out.keyed
        held = _Held(statement.outlet.layout) if statement.steps.matches else None
        advance = self._advancing(statement, out, held)
        one, push = (out.one, out.push) if held is None else (held.one, held.push)
        with statement.outlet.diverted(one, push):
            try:
                for key, (time, take, event) in events:
                    if time > clock.now:
                        if time >= timed.due:
                            advance(time)
                        clock.now = time
                    if keyed:
                        out.key = key if isinstance(key, tuple) else (key, 1, 0, ())
                    try:
                        take(event)
                    except Exception as failure:  # noqa: BLE001 - reported to the error feed
                        statement.failed(failure)
                    if held is not None and held.rows is not None:
                        held.deliver(out.push)
                advance(self.last)
            finally:
                clock.now = before

    def _advancing(self, statement: Statement, out: _Out, held: _Held | None) -> Callable[[int], None]:
        """What takes the clock to a time, with the stops at which a timer of the statement is due.

        The clock stops at the times of events only; what becomes due at a stop waits for the next one.
        """
        clock, ticks, timed = self._runtime.clock, self._ticks, statement.timed

        def advance(t: int) -> None:
            while timed.due <= t:
                place = bisect_left(ticks, max(timed.due, clock.now + 1))
                if place == len(ticks) or ticks[place] > t:
                    break
                clock.now = ticks[place]
                try:
                    if held is not None:
                        timed.run(clock.now, timed.take(clock.now))
                    elif (found := timed.collect(clock.now)) is not None:
                        out.expired(clock.now, *found)
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    statement.failed(failure)
                if held is not None:
                    held.deliver(out.expired)
            clock.now = max(t, clock.now)

        return advance

    # -------------------------------------------------------------- other statements
    def _run_events(self, statement: Statement, events: list[tuple[int, Row]], keys: Sequence[Key], out: _Out) -> None:
        clock, timed = self._runtime.clock, statement.timed
        catch_up = self._catch_up(statement, out.expired)
        before = clock.now
        with statement.outlet.diverted(out.one, out.push):
            take = self._taker(statement)
            try:
                for number, (time, event) in enumerate(events):
                    if time >= timed.due:
                        catch_up(time)
                    clock.now = time
                    if keys:
                        out.key = keys[number]
                    try:
                        take(event)
                    except Exception as failure:  # noqa: BLE001 - reported to the error feed
                        statement.failed(failure)
            finally:
                clock.now = before

    def _taker(self, statement: Statement) -> Callable[[Any], None]:
        take: Any = statement.program["on_event"]
        context = statement.context
        if context is None:
            return take  # type: ignore[no-any-return]
        target = statement.steps.source.event_type
        locate = next(c.locator(listed) for c, listed in allocating(self._runtime, target) if c.name == context.name)
        slot = statement.program.namespace["slot"]

        def within(event: Row) -> None:
            partition = locate(event)
            if partition is not None:
                take(event, partition.states[slot])

        return within

    def _catch_up(self, statement: Statement, push: Push) -> Callable[[int], None]:
        """A function that fires the statement's timers up to a time, at the ticks at which the clock stops."""
        timed, ticks = statement.timed, self._ticks

        def catch_up(t: int) -> None:
            while timed.due <= t:
                tick = ticks[bisect_left(ticks, timed.due)]
                found = statement.timed.collect(tick)
                if found is not None:
                    push(tick, *found)

        return catch_up


class _Held:
    """The rows of one delivery, while it may still grow."""

    __slots__ = ("_layout", "rows")

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.rows: tuple[int, list[Any], list[Any]] | None = None

    def one(self, record: Record) -> None:
        """The row of one match."""
        self.push(record[1], [self._layout.row(record)], None)

    def push(self, time: int, insert: Rows, remove: Rows) -> None:
        """Rows of one match, or of one timer."""
        if self.rows is None:
            self.rows = time, [], []
        self.rows[1].extend(insert or ())
        self.rows[2].extend(remove or ())

    def deliver(self, push: Push) -> None:
        """The delivery is complete, if there is one."""
        if self.rows is not None:
            (time, insert, remove), self.rows = self.rows, None
            push(time, insert or None, remove or None)


# the marks of the records of either side
_SIDES = {"istream": {INSERT, MORE}, "rstream": {REMOVE, GONE}, "irstream": {INSERT, MORE, REMOVE, GONE}}


class _Out:
    """What one statement delivers within a slice: `one` and `push` take deliveries of events, `expired` of timers.

    It holds no method of its own, which would be a cycle: what it holds goes at once when the slice is done.
    """

    __slots__ = ("_bases", "_slices", "_statement", "flat", "key", "keyed")

    def __init__(self, statement: Statement, slices: Iterable[Slice], keyed: bool) -> None:
        self._statement = statement
        self._slices = slices
        self.flat: list[Any] = []  # records
        self.keyed = keyed
        self.key: Key = (0, 1, 0, ())
        self._bases: list[Key] = []  # of each delivery

    @property
    def one(self) -> Out:
        """Takes a delivery of one row."""
        return self._one if self.keyed else self.flat.extend

    @property
    def push(self) -> Push:
        """Takes a delivery of rows."""
        return self._push if self.keyed else self._take

    @property
    def expired(self) -> Push:
        """Takes what a timer made."""
        return self._expired if self.keyed else self._take

    @property
    def causes(self) -> Sequence[Key]:
        """What each delivery is due to; empty where nobody wants to know."""
        return self._bases

    def watched(self, each: Slice, keys: Sequence[Key]) -> tuple[Iterator[int], Out, Push, Callable[[], Key]]:
        """The times of `each`, what takes deliveries, and the key of the event whose time was drawn last.

        That is its own of `keys`, of derived events, else its place.
        """
        times, count, places = iter(each.times), len(each.times), each.places
        flat, bases = self.flat, self._bases

        def hand() -> Key:
            at = max(count - length_hint(times) - 1, 0)
            return keys[at] if keys else (places[at], 1, 0, ())

        def one(record: Record) -> None:
            flat.extend(record)
            at = count - length_hint(times) - 1
            bases.append(keys[at] if keys else (places[at], 1, 0, ()))

        def push(time: int, insert: Rows, remove: Rows) -> None:
            self._take(time, insert, remove)
            bases.append(hand())

        return times, one, push, hand

    def _take(self, time: int, insert: Rows, remove: Rows) -> None:
        self.flat += self._statement.outlet.layout.flat(time, insert, remove)

    def _one(self, record: Record) -> None:
        self.flat.extend(record)
        self._bases.append(self.key)

    def _push(self, time: int, insert: Rows, remove: Rows) -> None:
        self._take(time, insert, remove)
        self._bases.append(self.key)

    def _expired(self, time: int, insert: Rows, remove: Rows) -> None:
        self._take(time, insert, remove)
        stops = [(s.places[i], 0, 0, ()) for s in self._slices if (i := bisect_left(s.times, time)) < len(s.times)]
        self._bases.append(min(stops, default=_AFTER))

    def derived(self) -> Derived:
        """The rows that ``insert into`` hands on."""
        insert, order = self._statement.steps.apply.insert, self._statement.order
        if insert is None:
            return Derived()
        layout = self._statement.outlet.layout
        wanted = _SIDES[self._statement.steps.fed]
        if not self.keyed and wanted.issuperset(self.flat[:: layout.width]):
            return Derived(insert.target, layout, self.flat)
        found: list[Any] = []
        keys: list[Key] = []
        bases = self._bases if self.keyed else repeat(_ALONE)
        for records, (place, phase, steps, way) in zip(deliveries(layout.records(self.flat)), bases):  # noqa: B905
            for number, record in enumerate(r for r in records if r[0] in wanted):
                found += record
                if self.keyed:
                    keys.append((place, phase, steps + 1, (*way, order, number)))
        return Derived(insert.target, layout, found, keys)


def _alone(take: Callable[[Any, Any], object], state: Any) -> Callable[[Any], object]:
    return unwrapped(take) or (lambda event: take(event, state))


def allocating(runtime: Replayed, type_name: str) -> list[tuple[Columnar, str]]:
    """The active contexts in which events of `type_name` open partitions, each with its listed type."""
    found: list[tuple[Columnar, str]] = []
    for context in runtime.contexts.values():
        columnar = context.columnar
        listed = None if columnar is None else columnar.listed(type_name)
        if columnar is not None and listed is not None and any(context.statements):
            found.append((columnar, listed))
    return found


def wanted_by(statements: Iterable[Statement], each: Slice) -> list[Any] | None:
    """Of each event of a slice whether any of `statements`, all over patterns, may take it; None: all are wanted."""
    found: list[list[Any]] = []
    for statement in statements:
        picks = statement.picks(each.type)
        if picks is None:
            return None
        try:
            found += [pick(each.columns) for pick in picks]
        except Exception:  # noqa: BLE001 - the statement will meet it again, and tell of it
            return None
    return found[0] if len(found) == 1 else [any(wants) for wants in zip(*found, strict=True)] if found else None


def _ticks(slices: Sequence[Slice], last: int) -> list[int]:
    """All times at which the clock stops, in order, the end among them; of one slice its own times, repeated or not."""
    if len(slices) == 1 and slices[0].times[-1] == last:
        return slices[0].times
    return sorted({last, *(t for s in slices for t in s.times)})
