"""Statement pass: run a batch through one statement after the other, producers before readers.

A statement that reads one stream gets the events of that stream in order; nothing else matters to it. Where rows of
several `insert into` statements meet, or derived events meet replayed ones, the order of event-by-event sending is
rebuilt from a key:

::

    (position of the causing event,  timers before the event,  steps of insert into,  path of statements and rows)

Derived events are processed first in, first out, step by step, as in the queue of a turn. A pattern, a join or a
statement with subqueries merges its streams in this order and gets the events one by one, unless arrays run it. Of
replayed events it sees those that an atom may take, or that pass a filter of its streams, as far as the columns can
tell.
"""

from __future__ import annotations

import time as wall
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from operator import itemgetter
from typing import Any

from cepbook.engine.contexts.assigner import ArrivingColumns, PartitionAssigner
from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.partition import PartitionAssignment
from cepbook.engine.contexts.tree_nodes import count_batch
from cepbook.engine.delivery.delta import CauseKey, InsertColumns, Row
from cepbook.engine.dispatch.event_engine import EventEngine
from cepbook.engine.recognize.recognized_batch import recognized_batch
from cepbook.engine.replay.batch_inputs import allocating_contexts, filter_for_patterns
from cepbook.engine.replay.output_collector import UNORDERED_CAUSE, DerivedEvents, OutputCollector, PendingDelivery
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.statements.subquery_inputs import without_state
from cepbook.engine.time.clock_stops import ClockStops
from cepbook.engine.vectorized import kernel_library
from cepbook.engine.vectorized.column_batch import (
    ColumnBatch,
    FilterableColumns,
    iterate_events,
    merge_positions,
)
from cepbook.lang.plan.references import reads_whole_events

_Batches = Sequence[ColumnBatch]
_Derived = Sequence[DerivedEvents]
_Read = tuple[ColumnBatch, tuple[int, ...]]  # events, and the numbers of the streams that they are for
# WebAssembly has no clock of a thread: its only thread is the process.
_processor_time: Callable[[], float] = getattr(wall, "thread_time", wall.process_time)
_Shown = tuple[int, Any, Any]  # time, event, and in a context its partitions
_Ordered = tuple[Iterable[tuple[Any, int]], Sequence[Iterator[_Shown]], Sequence[Callable[..., object]]]


@dataclass(slots=True)
class ReplayNode:
    """A statement with the replayed types and the statements that it reads from.

    `keyed`: the order of its rows will matter. `whole`: it reads events as wholes, and events of a subtype have more
    properties than the columns that it reads. (A statement that needs the order of events gets all properties anyway.)
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
    """Return nodes, producers before readers; or the name of a statement that reads its own output."""
    statements = sorted(statements, key=lambda s: s.order)
    inserts = [(s.name, s.steps.emit.insert.target) for s in statements if s.steps.emit.insert is not None]
    nodes: dict[str, ReplayNode] = {}
    for statement in statements:
        raw = [name for name in types if statement.reads(name)]
        producers = [name for name, target in inserts if statement.reads(target)]
        others = any(name != statement.steps.source.event_type for name in raw)
        whole = others and not statement.steps.needs_event_order and reads_whole_events(statement.plan)
        nodes[statement.name] = ReplayNode(statement, raw, producers, whole=whole)
    ordered: list[ReplayNode] = []
    placed: set[str] = set()
    while len(ordered) < len(nodes):
        ready = [node for name, node in nodes.items() if name not in placed and placed.issuperset(node.producers)]
        if not ready:
            return next(name for name in nodes if name not in placed)
        ordered += ready
        placed.update(node.statement.name for node in ready)
    for node in reversed(ordered):
        node.keyed = node.keyed or node.statement.outlet.traced
        if node.merges or node.keyed:
            for name in node.producers:
                nodes[name].keyed = True
    return ordered


class StatementPass:
    """One batch, up to the last of the `stops` of the clock; at the end all timers that are due have run."""

    def __init__(self, runtime: EventEngine, batches: _Batches, stops: ClockStops) -> None:
        self._runtime = runtime
        self._batches = {s.type: s for s in batches if s.times}
        self._stops = stops
        self.last = stops.last
        self._present_cause: Callable[[], CauseKey] = lambda: UNORDERED_CAUSE
        self._elapsed: list[tuple[RunningStatement, float]] = []
        self._derived: dict[str, DerivedEvents] = {}
        self.partitions: dict[tuple[str, str], Sequence[Any]] = {}  # partitions of each event, by context and type
        self._opened: dict[tuple[str, int], list[PartitionAssignment]] = {}  # the same for derived events
        self._in_several: set[tuple[str, str]] = set()  # (context, type) with events in several partitions

    def run(self, nodes: Sequence[ReplayNode]) -> None:
        """Run the batch through `nodes` (producers before readers)."""
        contexts = {node.statement.steps.context for node in nodes}
        self._assign(contexts)
        began = _processor_time()
        try:
            for node in nodes:
                derived = self.through(node)
                if node.statement.steps.emit.insert is not None:
                    self._derived[node.statement.name] = derived
        finally:
            self._record_processor_time(_processor_time() - began)

    def _record_processor_time(self, seconds: float) -> None:
        """Divide the CPU time of the batch among the statements by their elapsed times, which cost less to measure."""
        elapsed, self._elapsed = self._elapsed, []
        whole = sum(time for _, time in elapsed)
        for statement, time in elapsed:
            statement.processor_time.seconds += time * seconds / whole

    def _assign(self, contexts: Container[str | None]) -> None:
        arriving: dict[str, tuple[PartitionAssigner, list[tuple[ColumnBatch, ArrivingColumns]]]] = {}
        for batch in self._batches.values():
            for context, way in allocating_contexts(self._runtime, batch.type):
                if context.name in contexts:
                    columns = ArrivingColumns(way, batch.columns, batch.times, batch.places)
                    arriving.setdefault(context.name, (context, []))[1].append((batch, columns))
        for context, batches in arriving.values():
            assigned = context.assign([columns for _, columns in batches])
            for (batch, columns), partitions in zip(batches, assigned, strict=True):
                self.partitions[context.name, batch.type] = partitions
                if columns.locator.several and tuple in set(map(type, partitions)):
                    self._in_several.add((context.name, batch.type))
                if context.event_counters:
                    count_batch(partitions, batch.times, alone=len(batches) == 1)

    @property
    def cause(self) -> CauseKey:
        """The cause of the present delivery of a statement whose causes are needed."""
        return self._present_cause()

    def through(self, node: ReplayNode) -> DerivedEvents:
        """Run the batch through one statement."""
        batches = [self._batches[t] for t in node.raw if t in self._batches]
        derived = [self._derived[name] for name in node.producers]
        if not (batches or derived) and node.statement.timed.due > self.last:
            return DerivedEvents()  # most of many statements are not affected by a batch
        began = wall.perf_counter()
        try:
            return self._run(node, batches, derived)
        finally:
            self._elapsed.append((node.statement, wall.perf_counter() - began))

    def _run(self, node: ReplayNode, batches: _Batches, derived: _Derived) -> DerivedEvents:
        out = OutputCollector(node.statement, self._batches.values(), node.keyed)
        self._present_cause = lambda: out.key
        several_partitions = self._shares(node.statement, batches, derived)
        if node.statement.steps.needs_event_order or several_partitions:
            plain = not (derived or out.keyed or several_partitions)
            if not (plain and self._run_streams(node.statement, batches, out)):
                joined = self._joined(node.statement, batches) if plain else None
                if joined is not None:
                    self._run_joined(node.statement, joined, out)
                else:
                    order = None if derived else self._chained(node.statement, batches, out)
                    order = order or self._in_order(node, batches, derived)
                    self._run_in_order(node.statement, *order, out, several_partitions)
        else:
            with node.statement.timed.aside():
                self._run_through(node, batches, derived, out)
        if out.plain is not None:
            node.statement.outlet.deliver_columns(out.plain, out.numbers, out.causes)
        elif out.flat:
            node.statement.outlet.deliver_records(out.flat, out.causes)
        return out.derived()

    def _shares(self, statement: RunningStatement, batches: _Batches, derived: _Derived) -> bool:
        """Return True if an event may be in several partitions, whose rows are one delivery."""
        context = statement.context
        if context is None or context.assigner is None:
            return False
        ways = [context.assigner.locator(events.type) for events in derived]
        return any(way.several for way in ways if way) or any(
            (context.name, s.type) in self._in_several for s in batches
        )

    def _run_through(self, node: ReplayNode, batches: _Batches, derived: _Derived, out: OutputCollector) -> None:
        if node.merges or node.whole:
            self._run_events(node.statement, *self._merged(node.statement, batches, derived), out)
        elif batches:
            self._run_columns(node.statement, batches[0], out)
        elif derived:
            self._run_derived(node.statement, derived[0], out)
        if node.statement.timed.due <= self.last:
            self._catch_up(node.statement, out)(self.last)

    def _run_derived(self, statement: RunningStatement, derived: DerivedEvents, out: OutputCollector) -> None:
        batch = derived.columns(statement.program.columns) if statement.context is None else None
        if batch is None:
            order = [(key, 0) for key in derived.keys or [UNORDERED_CAUSE] * len(derived.events)]
            self._run_events(statement, order, [self._located(statement, derived)], out)
        else:
            self._run_columns(statement, batch, out, derived.keys)

    def _run_columns(
        self, statement: RunningStatement, batch: ColumnBatch, out: OutputCollector, keys: Sequence[CauseKey] = ()
    ) -> None:
        program, context = statement.program, statement.context
        partitions = None if context is None else self.partitions[context.name, batch.type]
        filtered = statement.steps.source.filter is None
        passed = None if keys else batch.passing((statement.leading,))
        if passed is not None:
            batch, filtered = passed.batch, statement.leading_covers_filter and passed.exact
            partitions = None if partitions is None else passed.of(partitions)
        many = len(batch.times) >= kernel_library.LEAST and isinstance(batch.columns, FilterableColumns)
        if filtered and many and self._run_vectorized(statement, batch, partitions, out, keys):
            return
        if filtered and many and partitions is None and self._run_recognized(statement, batch, out, keys):
            return
        catch_up = self._catch_up(statement, out)
        times: Iterable[int] = batch.times
        marks: Iterable[int] = repeat(0)
        if out.keyed:
            times, marks, self._present_cause = out.begin_batch(batch, keys)
        columns = [batch.columns[name] for name in program.columns]
        ports = out.flat.extend, out.taken, out.expired, out.timer_cause, catch_up
        rest = filtered if partitions is None else partitions
        output = program.functions.run(times, marks, statement.state, *ports, self._stops.fire, rest, *columns)
        if output is not None:
            out.take(InsertColumns(batch.times, output[1]), output[0])

    def _run_vectorized(
        self,
        statement: RunningStatement,
        batch: ColumnBatch,
        partitions: Sequence[PartitionAssignment] | None,
        out: OutputCollector,
        keys: Sequence[CauseKey],
    ) -> bool:
        """Run a batch of events that pass the filter by kernels. Return False if that is not possible."""
        if statement.vectorized is None:
            return False
        own = None if partitions is None else (partitions, statement.program.slot)
        output = statement.vectorized.run(batch, statement.state, self._stops.fire, statement.timed.rearm, own)
        if output is None:
            return False
        rows, passes = output
        numbers: Sequence[int] = range(1, len(batch.times) + 1)
        if out.keyed:
            out.begin_batch(batch, keys)
            numbers = numbers if passes is None else (passes.nonzero()[0] + 1).tolist()
        out.take_columns(rows, numbers)
        return True

    def _run_recognized(
        self, statement: RunningStatement, batch: ColumnBatch, out: OutputCollector, keys: Sequence[CauseKey]
    ) -> bool:
        """Run the rows of a batch that complete a match of `match_recognize`, where arrays find these. Return False if
        they cannot.
        """
        program, state = statement.program, statement.state
        if program.recognize is None:
            return False
        if out.keyed and statement.steps.timed:  # the causes of what timers deliver count all events
            return False
        properties = [name for name in batch.columns if name in program.columns]  # in the order of the event type
        recognized = recognized_batch(program.recognize, batch, state.view.then, properties)
        if recognized is None:
            return False
        marks: Sequence[int] = [0] * len(recognized.completing)
        if out.keyed:
            _, of_events, _ = out.begin_batch(batch, keys)
            marks, causes = [of_events[row] for row in recognized.completing], out.causes or ()
            self._present_cause = lambda: causes[recognized.present_row + 1]
        names = program.match_columns
        measures = None if names is None else recognized.measures(names)
        if measures is None:
            columns = recognized.columns
            ports = out.flat.extend, out.taken, out.expired, out.timer_cause, self._catch_up(statement, out)
            rest = self._stops.fire, True, *(columns[name] for name in program.columns)
            program.functions.run(recognized.prepare_rows(), marks, state, *ports, *rest)
        recognized.finish()
        if measures is not None:
            times = [batch.times[row] for row in recognized.completing]
            rows: Sequence[Sequence[Any]] = [measures[name] for name in names or ()]
            if program.row_columns is None:
                rows = [list(iterate_events(measures, len(times)))]
            out.take_columns(InsertColumns(times, tuple(rows)), [row + 1 for row in recognized.completing])
        return True

    def _merged(
        self, statement: RunningStatement, batches: _Batches, derived_inputs: _Derived
    ) -> tuple[list[tuple[CauseKey, int]], list[Iterator[_Shown]]]:
        """Merge several inputs: the key and stream of each event in order, and the streams."""
        order: list[tuple[CauseKey, int]] = []
        streams: list[Iterator[_Shown]] = []
        for batch in batches:
            order += [((place, 1, 0, ()), len(streams)) for place in batch.places]
            rows = iterate_events(batch.columns, len(batch.times))
            streams.append(zip(batch.times, rows, self._partitions_of(statement, batch)))  # noqa: B905 - the times tell how many
        for derived in derived_inputs:
            order += [(key, len(streams)) for key in derived.keys]
            streams.append(self._located(statement, derived))
        order.sort(key=itemgetter(0))
        return order, streams

    def _in_order(self, node: ReplayNode, batches: _Batches, derived_inputs: _Derived) -> _Ordered:
        """Return the key (or position) and stream of each event in order, the streams, and the handlers."""
        statement = node.statement
        keys: list[Sequence[Any]] = []
        streams: list[Iterator[_Shown]] = []
        takes: list[Callable[..., object]] = []

        def add(type_name: str, own: Sequence[Any], events: Iterator[_Shown]) -> None:
            reading = statement.reading(type_name)
            if reading is not None:
                keys.append(own)
                streams.append(events)
                takes.append(reading.checked if statement.context else _alone(reading.checked, statement.state))

        for batch in batches:
            own: Sequence[Any] = [(place, 1, 0, ()) for place in batch.places] if derived_inputs else batch.places
            partitions, filtered = self._partitions_of(statement, batch), batch
            passed = filter_for_patterns([statement], batch) or batch.passing(statement.ways(batch.type))
            if passed is not None:
                own, partitions = list(compress(own, passed.flags)), compress(partitions, passed.flags)
                filtered = passed.batch
            rows = iterate_events(filtered.columns, len(filtered.times))
            add(batch.type, own, zip(filtered.times, rows, partitions))  # noqa: B905 - the times tell how many
        for derived in derived_inputs:
            add(
                derived.type, derived.keys or [UNORDERED_CAUSE] * len(derived.events), self._located(statement, derived)
            )
        if not keys or derived_inputs:
            return sorted((key, number) for number, own in enumerate(keys) for key in own), streams, takes
        return zip(*merge_positions(keys), strict=True), streams, takes

    def _chained(self, statement: RunningStatement, batches: _Batches, out: OutputCollector) -> _Ordered | None:
        """Return, in the form of `_in_order`, what a pattern has to do where arrays follow its partial matches; None if
        they cannot.
        """
        pattern = statement.pattern_alone
        chain = "" if pattern is None else pattern.chain
        if pattern is None or isinstance(chain, str) or (chain.timed and self._stops.leaps):
            return None
        if chain.has_timer and statement.steps.timed:  # what is due at one instant is one delivery
            return None
        if sum(len(batch.times) for batch in batches) < kernel_library.LEAST:
            return None
        by_type: dict[str, ColumnBatch] = {}
        for batch in batches:
            groups = statement.groups(batch.type) or ()
            if len(groups) != 1 or groups[0].event_type in by_type:
                return None
            passed = filter_for_patterns([statement], batch)
            by_type[groups[0].event_type] = batch if passed is None else passed.batch
        followed = pattern.follow(by_type, self.last, statement.state)
        if followed is None:
            return None
        stimuli, take = followed
        keys: Sequence[Any] = [0] * len(stimuli)
        if out.keyed:
            places = sorted(place for batch in by_type.values() for place in batch.places)
            keys = [out.timer_key(s.time) if s.timer else places[s.row] for s in stimuli]
        return [(key, 0) for key in keys], [((s.time, s, None) for s in stimuli)], [take]

    def _partitions_of(self, statement: RunningStatement, batch: ColumnBatch) -> Iterable[PartitionAssignment]:
        context = statement.context
        return repeat(None) if context is None else self.partitions[context.name, batch.type]

    def _located(self, statement: RunningStatement, derived: DerivedEvents) -> Iterator[_Shown]:
        """Yield derived events with their partitions; the first reader finds or opens a partition in turn."""
        context = statement.context
        if context is None:
            yield from ((*entry, None) for entry in derived.events)
            return
        partitions = self._opened.get((context.name, id(derived)))
        if partitions is not None:
            yield from ((*entry, partition) for entry, partition in zip(derived.events, partitions, strict=True))
            return
        partitions = self._opened[context.name, id(derived)] = []
        locate = self._locator(context, derived.type)
        for time, event in derived.events:
            partitions.append(locate(event, time))
            if context.event_counters:
                count_batch(partitions[-1:], (time,), alone=False)  # replayed events were counted before
            yield time, event, partitions[-1]

    def _run_in_order(
        self,
        statement: RunningStatement,
        order: Iterable[tuple[Any, int]],
        streams: Sequence[Iterator[_Shown]],
        takes: Sequence[Callable[..., object]],
        out: OutputCollector,
        shared: bool,
    ) -> None:
        """Pass events one by one; all matches of one event, or of one stop of the clock, are one delivery."""
        clock, timed = self._runtime.clock, statement.timed
        before, keyed, divided = clock.now, out.keyed, statement.context is not None
        slot = statement.program.slot
        pending = PendingDelivery(statement.outlet.layout) if statement.steps.reads_pattern or shared else None
        advance = self._advancing(statement, out, pending)
        receivers = out.one, out.push
        one, push = receivers if pending is None else (pending.one, pending.push)
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
                    if pending is not None and (pending.flat or pending.rows):
                        pending.deliver(*receivers)
                advance(self.last)
            finally:
                clock.now = before

    def _joined(self, statement: RunningStatement, batches: _Batches) -> list[_Read | None] | None:
        """Return the batch of each stream of a join, last the one that several read; None if not one each."""
        if statement.program.loop is None:
            return None
        is_a, scans = self._runtime.catalog.is_a, statement.steps.scans
        inputs: list[_Read | None] = [None] * (len(scans) + 1)
        for batch in batches:
            readers = [n for n, scan in enumerate(scans) if is_a(batch.type, scan.source.event_type or "")]
            place = readers[0] if len(readers) == 1 else -1
            if inputs[place] is not None:
                return None
            inputs[place] = batch, tuple(readers)
        return inputs

    def _run_streams(self, statement: RunningStatement, batches: _Batches, out: OutputCollector) -> bool:
        """Run a batch of a join, or of a statement with subqueries, over arrays. Return False if it is not possible."""
        if sum(len(batch.times) for batch in batches) < kernel_library.LEAST or statement.vectorized is None:
            return False
        if self._stops.leaps and statement.vectorized.form.timed:  # timers that are late are counted
            return False
        is_a, streams = self._runtime.catalog.is_a, list[ColumnBatch | None]()
        for source in statement.program.sources:
            read = [batch for batch in batches if is_a(batch.type, source.event_type or "")]
            if len(read) > 1:
                return False
            streams.append(read[0] if read else None)
        span = self._runtime.clock.now, self.last
        output = statement.vectorized.run(streams, statement.state, span, statement.timed)
        if output is None:
            return False
        out.take_deliveries(*output)
        return True

    def _run_joined(self, statement: RunningStatement, inputs: list[_Read | None], out: OutputCollector) -> None:
        clock, program = self._runtime.clock, statement.program
        assert program.loop is not None
        advance = self._advancing(statement, out, None)
        reads: list[Callable[[], Any]] = []
        for at, (read, (names, whole)) in enumerate(zip(inputs, (*program.loop, ((), True)), strict=True)):
            columns: list[Iterable[Any]] = []
            if read is not None:
                batch, readers = read
                partitions = self._partitions_of(statement, batch)
                passed = batch.passing(statement.ways(batch.type))
                if passed is not None:
                    batch, partitions = passed.batch, compress(partitions, passed.flags)
                inputs[at] = batch, readers
                columns.append(batch.times)
                if statement.context is not None:
                    columns.append(partitions)
                if whole:
                    columns.append(iterate_events(batch.columns, len(batch.times)))
                columns += [batch.columns[name] for name in names] if len(readers) == 1 else [repeat(readers)]
            reads.append(zip(*columns).__next__)  # noqa: B905 - the times tell how many
        _, order = merge_positions([() if read is None else read[0].places for read in inputs])
        before = clock.now
        try:
            program.functions.run_joined(order, statement.state, out.one, out.push, advance, reads)
            advance(self.last)
        finally:
            clock.now = before

    def _advancing(
        self, statement: RunningStatement, out: OutputCollector, pending: PendingDelivery | None
    ) -> Callable[[int], None]:
        """Return a function that advances the clock, stopping if a timer of the statement is due."""
        clock, stops, timed = self._runtime.clock, self._stops, statement.timed

        def advance(t: int) -> None:
            for time in stops.on_the_way(timed, clock.now, t):
                clock.former, clock.now = clock.now, time
                try:
                    if pending is not None:
                        timed.run(clock.now, timed.take(clock.now))
                    elif (sides := timed.collect(clock.now)) is not None:
                        out.expired(clock.now, *sides)
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    statement.failed(failure)
                if pending is not None:
                    pending.deliver(out.emit_one_expired, out.expired)
            clock.now = max(t, clock.now)

        return advance

    def _run_events(
        self,
        statement: RunningStatement,
        order: Iterable[tuple[CauseKey, int]],
        streams: Sequence[Iterator[_Shown]],
        out: OutputCollector,
    ) -> None:
        clock, timed, divided = self._runtime.clock, statement.timed, statement.context is not None
        catch_up = self._catch_up(statement, out)
        before = clock.now
        with statement.outlet.redirected(out.one, out.push):
            take: Any = statement.program.functions.on_event
            slot = statement.program.slot
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
        """Return a function that runs the statement's timers up to a time, at the stops of the clock."""
        clock, stops = self._runtime.clock, self._stops
        timed, fire, push, flat, cause_of = statement.timed, stops.fire, out.expired, out.flat.extend, out.timer_cause
        if statement.program.functions.expire_all is not None:
            expire = timed.expire

            def catch_up(t: int) -> None:
                while timed.due <= t:
                    expire(fire(timed.due), flat, cause_of)

            return catch_up

        def catch_up_by_rows(t: int) -> None:
            while timed.due <= t:
                stop = fire(timed.due)
                clock.former = stops.before(stop, clock.now)
                sides = timed.collect(stop)
                if sides is not None:
                    push(stop, *sides)

        return catch_up_by_rows


def _alone(take: Callable[[Any, Any], object], state: Any) -> Callable[[Any], object]:
    return without_state(take) or (lambda event: take(event, state))
