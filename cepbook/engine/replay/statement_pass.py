"""One slice of a replay through statements: each runs through it on its own, sources before readers.

A statement that reads one stream gets that stream's events in their order, and nothing else needs to be known. Where
rows of several ``insert into`` statements meet, or derived with replayed events, the order of event-by-event sending is
rebuilt from a key: the place of the event that caused them, timers before the event, then step by step as the queue of
derived events is served (first in, first out). A pattern, a join, a statement with subqueries merges the streams that
it reads in that order, and is shown their events one by one; of replayed events it sees those that an atom may take or
that pass a filter of its streams, as far as the columns tell.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from operator import itemgetter
from time import thread_time
from typing import Any

from cepbook.engine.contexts.assigner import ArrivingColumns, PartitionAssigner
from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.event_counts import count_batch
from cepbook.engine.contexts.locator import PartitionLocator
from cepbook.engine.contexts.partition import PartitionAssignment
from cepbook.engine.delivery.delta import CauseKey, InsertColumns, Row
from cepbook.engine.dispatch.event_engine import EventEngine
from cepbook.engine.replay.output_collector import UNORDERED_CAUSE, DerivedEvents, OutputCollector, PendingDelivery
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.statements.subquery_inputs import without_state
from cepbook.engine.vectorized.column_batch import ColumnBatch, FilteredBatch
from cepbook.engine.vectorized.event_order import iterate_events, merge_positions
from cepbook.lang.plan.references import reads_whole_events

_Read = tuple[ColumnBatch, tuple[int, ...]]  # events, and the numbers of the streams that they are for
_Shown = tuple[int, Row, Any]  # an event with its time and, in a context, its `Place`


@dataclass(slots=True)
class ReplayNode:
    """A statement, the replayed types and the statements that it reads from; `keyed`: its rows' order will matter.

    `whole`: it looks at events as wholes, and those of a subtype have more properties than the columns that it reads.
    """

    statement: RunningStatement
    raw: list[str]
    producers: list[str]
    keyed: bool = False
    whole: bool = False

    @property
    def merges(self) -> bool:
        return len(self.raw) + len(self.producers) > 1


def replay_nodes(statements: Iterable[RunningStatement], types: Sequence[str]) -> list[ReplayNode] | str:
    """All `statements`, sources before readers; or the name of one that reads, directly or not, what it inserts."""
    statements = sorted(statements, key=lambda s: s.order)
    inserts = [(s.name, s.steps.apply.insert.target) for s in statements if s.steps.apply.insert is not None]
    nodes: dict[str, ReplayNode] = {}
    for statement in statements:
        raw = [t for t in types if statement.reads(t)]
        producers = [name for name, target in inserts if statement.reads(target)]
        whole = any(t != statement.steps.source.event_type for t in raw) and reads_whole_events(statement.plan)
        nodes[statement.name] = ReplayNode(statement, raw, producers, whole=whole)
    ordered: list[ReplayNode] = []
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


class StatementPass:
    """One slice on its way, up to the time `last`: then all timers that are due have run.

    The clock stops at `ticks`: the times of its events, or `stops`, if given: these and others, ascending up to `last`.
    """

    def __init__(
        self, runtime: EventEngine, slices: Sequence[ColumnBatch], last: int, stops: Sequence[int] | None = None
    ) -> None:
        self._runtime = runtime
        self._slices = {s.type: s for s in slices if s.times}
        self.last = last
        self.ticks = _ticks(list(self._slices.values()), last) if stops is None else stops
        self._hand: Callable[[], CauseKey] = lambda: UNORDERED_CAUSE
        self._derived: dict[str, DerivedEvents] = {}
        self._partitions: dict[tuple[str, str], list[Any]] = {}  # by context and type: a `Place` for each event
        self._opened: dict[tuple[str, int], list[PartitionAssignment]] = {}  # the same of derived events
        self._shared: set[tuple[str, str]] = set()  # where some events are in several partitions

    def run(self, nodes: Sequence[ReplayNode]) -> None:
        """Take the slice through `nodes` (sources before readers)."""
        contexts = {node.statement.steps.context for node in nodes}
        self._assign(contexts)
        for node in nodes:
            found = self.through(node)
            if node.statement.steps.apply.insert is not None:
                self._derived[node.statement.name] = found

    def _assign(self, contexts: Container[str | None]) -> None:
        """Find the partition of each event, in those of `contexts` that allocate some of them."""
        found: dict[str, tuple[PartitionAssigner, list[tuple[ColumnBatch, ArrivingColumns]]]] = {}
        for each in self._slices.values():
            for context, way in allocating_contexts(self._runtime, each.type):
                if context.name in contexts:
                    given = ArrivingColumns(way, each.columns, each.times, each.places)
                    found.setdefault(context.name, (context, []))[1].append((each, given))
        for context, parts in found.values():
            assigned = context.assign([given for _, given in parts])
            for (each, given), partitions in zip(parts, assigned, strict=True):
                self._partitions[context.name, each.type] = partitions
                if given.locator.several and tuple in set(map(type, partitions)):
                    self._shared.add((context.name, each.type))
                if context.event_counters:
                    count_batch(partitions, each.times, alone=len(parts) == 1)

    @property
    def cause(self) -> CauseKey:
        """What is in hand, of statements of which that is wanted."""
        return self._hand()

    def through(self, node: ReplayNode) -> DerivedEvents:
        """Take the slice through one statement, and count the time that it takes."""
        given = [self._slices[t] for t in node.raw if t in self._slices]
        produced = [self._derived[name] for name in node.producers]
        if not (given or produced) and node.statement.timed.due > self.last:
            return DerivedEvents()  # of many statements most have nothing to do with a slice
        began = thread_time()
        try:
            return self._run(node, given, produced)
        finally:
            node.statement.spent.seconds += thread_time() - began

    def _run(self, node: ReplayNode, given: list[ColumnBatch], produced: list[DerivedEvents]) -> DerivedEvents:
        out = OutputCollector(node.statement, self._slices.values(), node.keyed)
        self._hand = lambda: out.key
        shared = self._shares(node.statement, given, produced)
        if node.statement.steps.in_order or shared:
            joined = None if produced or out.keyed or shared else self._joined(node.statement, given)
            if joined is None:
                self._run_in_order(node.statement, *self._in_order(node, given, produced), out, shared)
            else:
                self._run_joined(node.statement, joined, out)
        else:
            self._run_plain(node, given, produced, out)
        if out.plain is not None:
            node.statement.outlet.deliver_columns(out.plain, out.numbers, out.causes)
        elif out.flat:
            node.statement.outlet.deliver_records(out.flat, out.causes)
        return out.derived()

    def _shares(
        self, statement: RunningStatement, given: Sequence[ColumnBatch], produced: Sequence[DerivedEvents]
    ) -> bool:
        """Whether an event may be in several partitions, whose rows are one delivery."""
        context = statement.context
        if context is None or context.assigner is None:
            return False
        ways = [context.assigner.locator(each.type) for each in produced]
        return any(way.several for way in ways if way) or any((context.name, s.type) in self._shared for s in given)

    def _run_plain(
        self, node: ReplayNode, given: list[ColumnBatch], produced: list[DerivedEvents], out: OutputCollector
    ) -> None:
        with node.statement.timed.aside():
            self._run_through(node, given, produced, out)

    def _run_through(
        self, node: ReplayNode, given: list[ColumnBatch], produced: list[DerivedEvents], out: OutputCollector
    ) -> None:
        if node.merges or node.whole:
            self._run_events(node.statement, *self._merged(node.statement, given, produced), out)
        elif given:
            self._run_columns(node.statement, given[0], out)
        elif produced:
            self._run_derived(node.statement, produced[0], out)
        if node.statement.timed.due <= self.last:
            self._catch_up(node.statement, out)(self.last)

    def _run_derived(self, statement: RunningStatement, derived: DerivedEvents, out: OutputCollector) -> None:
        """Where nothing but the events is needed they go on as columns."""
        each = derived.columns(statement.program.columns) if statement.context is None else None
        if each is None:
            order = [(key, 0) for key in derived.keys or [UNORDERED_CAUSE] * len(derived.events)]
            self._run_events(statement, order, [self._located(statement, derived)], out)
        else:
            self._run_columns(statement, each, out, derived.keys)

    def _run_columns(
        self, statement: RunningStatement, each: ColumnBatch, out: OutputCollector, keys: Sequence[CauseKey] = ()
    ) -> None:
        program, context = statement.program, statement.context
        rest: Any = None if context is None else self._partitions[context.name, each.type]
        passed = None if keys else each.passing((statement.leading,))
        if passed is not None:
            each = passed.slice
            rest = statement.led and passed.exact if context is None else list(compress(rest, passed.flags))
        columns = [each.columns[name] for name in program.columns]
        catch_up = self._catch_up(statement, out)
        times: Iterable[int] = each.times
        marks: Iterable[int] = repeat(0)
        if out.keyed:
            times, marks, self._hand = out.watched(each, keys)
        ports = out.flat.extend, out.taken, out.expired, out.told, catch_up
        ticks = () if each.times is self.ticks else self.ticks  # then the clock stops where an event asks what is due
        found = program["run"](times, marks, statement.state, *ports, ticks, rest, *columns)
        if found is not None:
            out.take(InsertColumns(each.times, found[1]), found[0])

    def _merged(
        self, statement: RunningStatement, given: list[ColumnBatch], produced: list[DerivedEvents]
    ) -> tuple[list[tuple[CauseKey, int]], list[Iterator[_Shown]]]:
        """The events of several slices: of each in order its key and stream; the streams."""
        order: list[tuple[CauseKey, int]] = []
        streams: list[Iterator[_Shown]] = []
        for each in given:
            order += [((place, 1, 0, ()), len(streams)) for place in each.places]
            rows = iterate_events(each.columns, len(each.times))
            streams.append(zip(each.times, rows, self._partitions_of(statement, each)))  # noqa: B905 - the times tell how many
        for derived in produced:
            order += [(key, len(streams)) for key in derived.keys]
            streams.append(self._located(statement, derived))
        order.sort(key=itemgetter(0))
        return order, streams

    # -------------------------------------------------------------- several streams, in order
    def _in_order(
        self, node: ReplayNode, given: list[ColumnBatch], produced: list[DerivedEvents]
    ) -> tuple[Iterable[tuple[Any, int]], list[Iterator[_Shown]], list[Callable[..., object]]]:
        """The events that a node takes one by one: of each in order the key (or place) and stream; streams; takers."""
        statement = node.statement
        keys: list[Sequence[Any]] = []
        streams: list[Iterator[_Shown]] = []
        takes: list[Callable[..., object]] = []

        def add(type_name: str, own: Sequence[Any], shown: Iterator[_Shown]) -> None:
            reading = statement.reading(type_name)
            if reading is not None:
                keys.append(own)
                streams.append(shown)
                takes.append(reading.checked if statement.context else _alone(reading.checked, statement.state))

        for each in given:
            own: Sequence[Any] = [(place, 1, 0, ()) for place in each.places] if produced else each.places
            partitions, part = self._partitions_of(statement, each), each
            passed = filter_for_patterns([statement], each) or each.passing(statement.ways(each.type))
            if passed is not None:
                own, partitions = list(compress(own, passed.flags)), compress(partitions, passed.flags)
                part = passed.slice
            rows = iterate_events(part.columns, len(part.times))
            add(each.type, own, zip(part.times, rows, partitions))  # noqa: B905 - the times tell how many
        for derived in produced:
            add(
                derived.type, derived.keys or [UNORDERED_CAUSE] * len(derived.events), self._located(statement, derived)
            )
        if not keys or produced:
            return sorted((key, number) for number, own in enumerate(keys) for key in own), streams, takes
        return zip(*merge_positions(keys), strict=True), streams, takes

    def _partitions_of(self, statement: RunningStatement, each: ColumnBatch) -> Iterable[PartitionAssignment]:
        context = statement.context
        return repeat(None) if context is None else self._partitions[context.name, each.type]

    def _located(self, statement: RunningStatement, derived: DerivedEvents) -> Iterator[_Shown]:
        """Derived events, each with its partition: the first reader finds it, or opens it, when it is its turn."""
        context = statement.context
        if context is None:
            yield from ((*shown, None) for shown in derived.events)
            return
        found = self._opened.get((context.name, id(derived)))
        if found is not None:
            yield from ((*shown, partition) for shown, partition in zip(derived.events, found, strict=True))
            return
        found = self._opened[context.name, id(derived)] = []
        locate = self._locator(context, derived.type)
        for time, event in derived.events:
            found.append(locate(event, time))
            if context.event_counters:
                count_batch(found[-1:], (time,), alone=False)  # raw events of the slice were counted before
            yield time, event, found[-1]

    def _run_in_order(
        self,
        statement: RunningStatement,
        order: Iterable[tuple[Any, int]],
        streams: Sequence[Iterator[_Shown]],
        takes: Sequence[Callable[..., object]],
        out: OutputCollector,
        shared: bool,
    ) -> None:
        """Show a statement events. All that one event, or one stop of the clock, makes of matches is one delivery."""
        clock, timed = self._runtime.clock, statement.timed
        before, keyed, divided = clock.now, out.keyed, statement.context is not None
        slot = statement.program.namespace["slot"]
        held = PendingDelivery(statement.outlet.layout) if statement.steps.matches or shared else None
        advance = self._advancing(statement, out, held)
        taken = out.one, out.push
        one, push = taken if held is None else (held.one, held.push)
        with statement.outlet.redirected(one, push):
            try:
                for key, number in order:
                    time, event, partition = next(streams[number])
                    if time > clock.now:
                        if time >= timed.due:
                            advance(time)
                        clock.now = time
                    if keyed:
                        out.key = key if isinstance(key, tuple) else (key, 1, 0, ())
                    try:
                        if not divided:
                            takes[number](event)
                        elif isinstance(partition, tuple):
                            statement.guarded(takes[number], event, partition)
                        elif partition is not None:
                            takes[number](event, partition.states[slot])
                    except Exception as failure:  # noqa: BLE001 - reported to the error feed
                        statement.failed(failure)
                    if held is not None and (held.flat or held.rows):
                        held.deliver(*taken)
                advance(self.last)
            finally:
                clock.now = before

    def _joined(self, statement: RunningStatement, given: list[ColumnBatch]) -> list[_Read | None] | None:
        """What each stream of a join reads in its loop over columns, behind these what several do; None: it has none.

        At most one slice can stand in each place.
        """
        if statement.program.loop is None:
            return None
        is_a, scans = self._runtime.catalog.is_a, statement.steps.scans
        found: list[_Read | None] = [None] * (len(scans) + 1)
        for each in given:
            readers = [n for n, scan in enumerate(scans) if is_a(each.type, scan.source.event_type or "")]
            place = readers[0] if len(readers) == 1 else -1
            if found[place] is not None:
                return None
            found[place] = each, tuple(readers)
        return found

    def _run_joined(self, statement: RunningStatement, given: list[_Read | None], out: OutputCollector) -> None:
        """Take slices through a join, each stream as columns."""
        clock, program = self._runtime.clock, statement.program
        assert program.loop is not None
        advance = self._advancing(statement, out, None)
        reads: list[Callable[[], Any]] = []
        for at, (read, (names, whole)) in enumerate(zip(given, (*program.loop, ((), True)), strict=True)):
            parts: list[Iterable[Any]] = []
            if read is not None:
                each, readers = read
                partitions = self._partitions_of(statement, each)
                passed = each.passing(statement.ways(each.type))
                if passed is not None:
                    each, partitions = passed.slice, compress(partitions, passed.flags)
                given[at] = each, readers
                parts.append(each.times)
                if statement.context is not None:
                    parts.append(partitions)
                if whole:
                    parts.append(iterate_events(each.columns, len(each.times)))
                parts += [each.columns[name] for name in names] if len(readers) == 1 else [repeat(readers)]
            reads.append(zip(*parts).__next__)  # noqa: B905 - the times tell how many
        _, order = merge_positions([() if read is None else read[0].places for read in given])
        before = clock.now
        try:
            program["run_joined"](order, statement.state, out.one, out.push, advance, reads)
            advance(self.last)
        finally:
            clock.now = before

    def _advancing(
        self, statement: RunningStatement, out: OutputCollector, held: PendingDelivery | None
    ) -> Callable[[int], None]:
        """What takes the clock to a time, with the stops at which a timer of the statement is due.

        The clock stops at the times of events only; what becomes due at a stop waits for the next one.
        """
        clock, ticks, timed = self._runtime.clock, self.ticks, statement.timed

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
                    held.deliver(out.emit_one_expired, out.expired)
            clock.now = max(t, clock.now)

        return advance

    # -------------------------------------------------------------- other statements
    def _run_events(
        self,
        statement: RunningStatement,
        order: Iterable[tuple[CauseKey, int]],
        streams: Sequence[Iterator[_Shown]],
        out: OutputCollector,
    ) -> None:
        """Show a statement events: of each in order its key and the number of its stream."""
        clock, timed, divided = self._runtime.clock, statement.timed, statement.context is not None
        catch_up = self._catch_up(statement, out)
        before = clock.now
        with statement.outlet.redirected(out.one, out.push):
            take: Any = statement.program["on_event"]
            slot = statement.program.namespace["slot"]
            try:
                for out.key, number in order:
                    time, event, partition = next(streams[number])
                    if time >= timed.due:
                        catch_up(time)
                    clock.now = time
                    try:
                        if not divided:
                            take(event)
                        elif partition is not None:
                            take(event, partition.states[slot])
                    except Exception as failure:  # noqa: BLE001 - reported to the error feed
                        statement.failed(failure)
            finally:
                clock.now = before

    def _locator(self, context: Context, type_name: str) -> Callable[[Row, int], PartitionAssignment]:
        return next(
            c.partition_finder(way)
            for c, way in allocating_contexts(self._runtime, type_name)
            if c.name == context.name
        )

    def _catch_up(self, statement: RunningStatement, out: OutputCollector) -> Callable[[int], None]:
        """A function that fires the statement's timers up to a time, at the ticks at which the clock stops."""
        timed, ticks, push, flat, told = statement.timed, self.ticks, out.expired, out.flat.extend, out.told
        if "expire_all" in statement.program.namespace:
            expire = timed.expire

            def catch_up(t: int) -> None:
                while timed.due <= t:
                    expire(ticks[bisect_left(ticks, timed.due)], flat, told)

            return catch_up

        def catch_up_by_rows(t: int) -> None:
            while timed.due <= t:
                tick = ticks[bisect_left(ticks, timed.due)]
                found = timed.collect(tick)
                if found is not None:
                    push(tick, *found)

        return catch_up_by_rows


def _alone(take: Callable[[Any, Any], object], state: Any) -> Callable[[Any], object]:
    return without_state(take) or (lambda event: take(event, state))


def allocating_contexts(runtime: EventEngine, type_name: str) -> list[tuple[PartitionAssigner, PartitionLocator]]:
    """The active contexts in which events of `type_name` open partitions, each with how these are found."""
    found: list[tuple[PartitionAssigner, PartitionLocator]] = []
    for context in runtime.contexts.values():
        assigner = context.assigner
        way = None if assigner is None else assigner.locator(type_name)
        if assigner is not None and way is not None and any(context.statements):
            found.append((assigner, way))
    return found


def filter_for_patterns(statements: Iterable[RunningStatement], each: ColumnBatch) -> FilteredBatch | None:
    """The events of a slice that any of `statements`, all over patterns, may take; None: all are wanted."""
    groups = [statement.groups(each.type) for statement in statements]
    if any(found is None for found in groups):
        return None
    asked = [group for found in groups for group in found or ()]
    passed = (
        each.passing([way for group in asked for way in group.alternatives])
        if all(g.alternatives for g in asked)
        else None
    )
    if not asked or (passed is not None and passed.exact):
        return passed
    found: list[list[Any]] = []
    for group in asked:
        if group.pick is None:
            return None
        try:
            found.append(group.pick(each.columns))
        except Exception:  # noqa: BLE001 - the statement will meet it again, and tell of it
            return None
    wanted = found[0] if len(found) == 1 else [any(wants) for wants in zip(*found, strict=True)]
    return FilteredBatch(each.where(wanted), wanted)


def _ticks(slices: Sequence[ColumnBatch], last: int) -> list[int]:
    """All times at which the clock stops, in order, the end among them; of one slice its own times, repeated or not."""
    if len(slices) == 1 and slices[0].times[-1] == last:
        return slices[0].times
    return sorted({last, *(t for s in slices for t in s.times)})
