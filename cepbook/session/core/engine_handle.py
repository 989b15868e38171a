"""The engine as a replay and the readers of feeds see it: one runtime, its lock, a feed for every statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from threading import RLock

from cepbook.engine.contexts.partition_listeners import PartitionListener, PartitionNotice
from cepbook.engine.delivery.delta import Listener, Sink
from cepbook.engine.inspection.evaluation import python_functions_called
from cepbook.engine.runtime import RunningStatement, Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import StatementError, UsageError
from cepbook.feeds import SPILL_LIMIT, Feed
from cepbook.interrupts import InterruptGuard
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.references import expressions_in
from cepbook.session.core.cpu_sampler import CpuSampler
from cepbook.session.history.event_log import EventLog, ManualAction
from cepbook.session.history.partition_lifetimes import PartitionLifetimes
from cepbook.session.io.sinks import DeliveryStream, Successor
from cepbook.session.io.source_merge import SourceBatch


class UninterruptedCall(InterruptGuard):
    """One call of the engine: the work of one event, one advance, one deployment is done as a whole."""

    def __init__(self, engine: EngineHandle) -> None:
        super().__init__(lambda: engine.halt(True))
        self._engine = engine

    def __exit__(self, kind: object, failure: BaseException | None, at: object) -> None:
        self._engine.halt(False)
        super().__exit__(kind, failure, at)


def _calls_out(runtime: Runtime) -> bool:
    if any(each.listened for each in runtime.statements.values()):
        return True
    if any(each.kind == "window" for each in runtime.catalog.functions.values()):
        return True
    plans = tuple(statement for deployment in runtime.deployments.values() for statement in deployment.plan.statements)
    return bool(runtime.functions) and any(python_functions_called(each) for each in expressions_in(plans))


class EngineHandle:
    """Holds a `Runtime`. Feeds and listeners belong to statement names and follow a statement that is deployed anew."""

    def __init__(self, runtime: Runtime, lock: RLock, feed_capacity: int) -> None:
        self.runtime = runtime
        self.lock = lock
        self.version = 0
        self.failures = 0
        self.manual_actions = 0  # what was done by hand, beside replays
        self.failed: Counter[str] = Counter()
        self.failed_since_deployed: Counter[str] = Counter()  # since the statement, or context, was deployed
        self._contexts: Mapping[str, object] = {}
        self.arrivals = EventLog()
        self.lives = PartitionLifetimes()
        self.sampler = CpuSampler(lambda: self.runtime.statements, self.event_counts)
        self._capacity = feed_capacity
        self._feeds: dict[str, tuple[RunningStatement, Feed]] = {}
        self._listeners: dict[str, list[Listener]] = {}
        self.readers: list[DeliveryStream] = []
        self._sinks: dict[str, list[tuple[Sink, Successor]]] = {}
        self._partition_listeners: list[tuple[str, PartitionListener]] = []
        self._calls_out: tuple[int, bool] | None  # in which version of the runtime that is
        self._attend(runtime)

    # ---- what a replay needs

    @property
    def now(self) -> int:
        """The clock."""
        return self.runtime.now

    @property
    def second(self) -> int:
        """How many units of the clock a second has."""
        return self.runtime.config.second

    @property
    def next_due(self) -> int | None:
        """When the next timer is due."""
        return self.runtime.next_due

    @property
    def calls_out(self) -> bool:
        """Whether code of the user is called while events come: functions in statements, listeners."""
        version = self.runtime.version
        if self._calls_out is None or self._calls_out[0] != version:
            self._calls_out = version, _calls_out(self.runtime)
        return self._calls_out[1]

    def halt(self, on: bool) -> None:
        """Ask the loops of the engine to stop at the next place where nothing is lost; or no more."""
        self.runtime.turn.halt = on

    def manual_call(self) -> UninterruptedCall:
        """Within, somebody acts by hand: Ctrl-C waits until the engine is done, and asks it to hurry."""
        self.act()
        return UninterruptedCall(self)

    def act(self) -> None:
        """Somebody does something by hand."""
        self.manual_actions += 1

    def done(
        self, manual_action: ManualAction, stores: Set[str] = frozenset(), *, query: str | None = None, what: str = ""
    ) -> None:
        """Somebody changes a store or a context by hand, as `manual_action` does to another runtime: by a `query`, or
        `what`.

        It reads and changes `stores`.
        """
        self.act()
        self.arrivals.done(self.now, manual_action, query, what, frozenset(stores))

    def due_after(self, time: int) -> int | None:
        """When the next timer behind `time` is due."""
        return self.runtime.due_after(time)

    def advance_to(self, time: int) -> None:
        """One advance of the clock."""
        self.arrivals.stopped(time)
        self.runtime.advance(time)

    def feeder(self, types: Sequence[str]) -> Callable[[Sequence[SourceBatch], bool], None]:
        """The function that takes parts of these event types, in total order; before each event the clock advances.

        If it is told to it stops whenever something is due on the way.
        """
        batch = self.runtime.batch(types)
        known = self.runtime.catalog.event_types
        begun = {name: known[name] for name in types}
        record = self.arrivals.replayed

        def feed(parts: Sequence[SourceBatch], stepping: bool) -> None:
            self._same_types(begun)
            record(parts, stepping=stepping)
            columns = batch.columns  # may change whenever statements come or go
            slices = []
            for part in parts:
                slices.append(
                    ColumnBatch(part.type_name, part.times, part.columns(columns[part.type_name]), part.ranks)
                )
            stops = range(self.now, max(part.times[-1] for part in parts) + 1) if stepping and parts else None
            batch.run(slices, stops)

        return feed

    def _same_types(self, begun: Mapping[str, EventType]) -> None:
        known = self.runtime.catalog.event_types
        for name, event_type in begun.items():
            now = known.get(name)
            if now is not event_type and now != event_type:
                what = "dropped" if now is None else "changed"
                raise UsageError(f"event type `{name}` was {what} during the replay\n  hint: replay the events again")

    def counts(self) -> tuple[dict[str, int], int]:
        """Deliveries by statement, number of statement errors."""
        return {name: feed.deliveries for name, (_, feed) in self._feeds.items()}, self.failures

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise the first run-time failure of a statement within, after everything else was done."""
        before = self.failures
        yield
        if self.failures != before:
            self.raise_since(before)

    def raise_since(self, before: int) -> None:
        """Raise the first run-time failure of a statement since there were `before` of them."""
        failures = self.runtime.errors
        first = failures[max(0, len(failures) - (self.failures - before))]
        raise first from first.cause

    # ---- feeds and listeners

    def follow(self) -> None:
        """Attach feeds and listeners to statements that are new, and let go of those that are gone."""
        self.version += 1
        self.arrivals.deployed(self.runtime.deployments, self.runtime.now)
        contexts = dict(self.runtime.catalog.contexts)
        self.lives.keep(contexts)
        for name, context in self._contexts.items():
            if contexts.get(name) is not context:
                del self.failed_since_deployed[name]
        self._contexts = contexts
        live = self.runtime.statements
        for name, (statement, feed) in list(self._feeds.items()):
            if live.get(name) is not statement:
                del self._feeds[name]
                del self.failed_since_deployed[name]
                feed.wake()  # whoever shows it looks for its successor
                for _, successor in self._sinks.get(name, [])[:]:
                    successor(live.get(name))
        for name, statement in live.items():
            if name not in self._feeds:
                feed = Feed(self._capacity, SPILL_LIMIT)
                statement.add_sink(feed)
                self._feeds[name] = (statement, feed)
                for fn in self._listeners.get(name, ()):
                    statement.add_listener(fn)
                for sink, _ in self._sinks.get(name, ()):
                    statement.add_sink(sink)

    def restart(self, runtime: Runtime) -> None:
        """Go on with `runtime`, in which nothing has happened: feeds begin anew, listeners follow."""
        self.runtime.remove_error_listener(self._count_failure)
        self.runtime.remove_partition_listener(None, self.lives.take)
        self.sampler.settle()
        self.runtime = runtime
        self.failures = 0
        self.failed, self.failed_since_deployed = Counter(), Counter()
        self.arrivals = EventLog()
        self.lives = PartitionLifetimes()
        self._attend(runtime)
        self.follow()
        for name, _, value, constant in runtime.external_variables():
            if not constant:
                self.arrivals.assigned(runtime.now, name, value)

    def _attend(self, runtime: Runtime) -> None:
        """Take note of failures and of context partitions."""
        self._calls_out = None
        runtime.add_error_listener(self._count_failure)
        runtime.add_partition_listener(None, self.lives.take)
        for context in runtime.catalog.contexts:  # those that are there from the beginning on
            for partition in runtime.partitions(context):
                self.lives.take(PartitionNotice("allocated", context, partition["id"], partition, runtime.now))
        for context, fn in self._partition_listeners:
            runtime.add_partition_listener(context, fn)

    def release(self) -> None:
        """Let go of everything: whoever shows a feed looks for its successor."""
        for _, feed in self._feeds.values():
            feed.wake()
        for _, successor in [entry for entries in self._sinks.values() for entry in entries]:
            successor(None)

    def feed(self, name: str) -> Feed:
        """The feed of a statement; UsageError when there is no such statement."""
        self.statement(name)
        return self._feeds[name][1]

    def event_counts(self) -> dict[str, int]:
        """Events by type: sent, replayed, and inserted by statements."""
        counts = dict(self.arrivals.counts)
        for statement, feed in self._feeds.values():
            for target in statement.steps.emit.targets:
                counts[target] = counts.get(target, 0) + feed.total_insert
        return counts

    def clear_feeds(self) -> None:
        """Forget what feeds hold."""
        for _, feed in self._feeds.values():
            feed.clear()

    def statement(self, name: str) -> RunningStatement:
        """The statement, or a UsageError with the nearest known name."""
        return self.runtime.statement(name)

    def listen(self, name: str, fn: Listener) -> Callable[[], None]:
        """Call `fn` for every delivery of the statement, also after it was deployed anew. Returns the way out."""
        self.statement(name).add_listener(fn)
        self._listeners.setdefault(name, []).append(fn)

        def cancel() -> None:
            if fn in self._listeners.get(name, ()):
                self._listeners[name].remove(fn)
                statement = self.runtime.statements.get(name)
                if statement is not None:
                    statement.remove_listener(fn)

        return cancel

    def attach(self, name: str, sink: Sink, successor: Successor) -> Callable[[], None]:
        """Feed `sink` what the statement delivers, also after it was deployed anew. Returns the way out.

        ``successor(statement)`` is called before another statement of the name feeds it; with None when there is none.
        """
        self.statement(name).add_sink(sink)
        entry = sink, successor
        self._sinks.setdefault(name, []).append(entry)

        def leave() -> None:
            if entry in self._sinks.get(name, ()):
                self._sinks[name].remove(entry)
                statement = self.runtime.statements.get(name)
                if statement is not None and self._feeds.get(name, (None,))[0] is statement:
                    statement.remove_sink(sink)

        return leave

    def is_reader_full(self) -> bool:
        """Whether somebody who reads deliveries has no room for more."""
        return any(reader.is_full for reader in self.readers)

    def listen_to_partitions(self, context: str, fn: PartitionListener) -> Callable[[], None]:
        """Call `fn` for what becomes of a context and its partitions. Returns the way out."""
        self.runtime.context(context)
        entry = context, fn
        self._partition_listeners.append(entry)
        self.runtime.add_partition_listener(context, fn)

        def cancel() -> None:
            if entry in self._partition_listeners:
                self._partition_listeners.remove(entry)
                self.runtime.remove_partition_listener(context, fn)

        return cancel

    def _count_failure(self, error: StatementError) -> None:
        self.failures += 1
        self.failed[error.statement] += 1
        self.failed_since_deployed[error.statement] += 1
