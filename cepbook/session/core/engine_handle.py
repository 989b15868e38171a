"""The engine as replays, sinks and readers of feeds see it: one runtime, its lock, a feed for every statement."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any
from weakref import WeakMethod, WeakSet

from cepbook import interrupts
from cepbook.engine.contexts.partition_listeners import PartitionListener, PartitionNotice
from cepbook.engine.delivery.delta import Listener, Sink
from cepbook.engine.inspection.evaluation import calls_user_code
from cepbook.engine.replay.batch_replayer import Until
from cepbook.engine.runtime import RunningStatement, Runtime
from cepbook.engine.statements.state_limit import AFTER_THE_LAST
from cepbook.engine.time.clock_stops import LateTimers
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import StatementError, UsageError
from cepbook.feed_segments import ANONYMOUS, SpillMedium
from cepbook.feeds import SPILL_LIMIT, Feed
from cepbook.interrupts import SIGINT, InterruptGuard, set_handler
from cepbook.lang.plan.catalog import EventType
from cepbook.locks import EngineLock, members
from cepbook.session.core.cpu_sampler import CpuSampler
from cepbook.session.history.event_log import EventLog, EventRecorder, LogPosition, ManualAction
from cepbook.session.history.partition_lifetimes import PartitionLifetimes
from cepbook.session.io.files import file_stamp
from cepbook.session.io.output.delivery_stream import DeliveryStream
from cepbook.session.io.output.sinks import FileSink, SinkError, SinkHooks, Successor, end_sink
from cepbook.session.io.source_merge import SourceBatch
from cepbook.session.io.waiting_events import (
    NO_PROGRESS,
    SourcePart,
    SourceProgress,
    WaitingBuffers,
    WaitingEvent,
    WaitingEvents,
)
from cepbook.session.journal.journal import Journal

# of batches, whether the clock stops on the way, progress (default: none), and the condition that ends the batch
BatchTaker = Callable[..., Sequence[int] | None]


class UninterruptedCall(InterruptGuard):
    """Guard of one call of the engine: one event, advance or deployment completes before Ctrl-C is raised."""

    def __init__(self, engine: EngineHandle) -> None:
        self._engine = engine

    def _order(self) -> None:
        self._engine.halt(True)

    def _withdraw(self) -> None:
        self._engine.halt(False)

    def _note_failure(self, failure: BaseException) -> None:
        self._engine.mark_half_change(failure)


class JournaledCall(UninterruptedCall):
    """Guard of calls of an engine that has a journal, one after the other.

    Its methods contain those of `InterruptGuard`, because two calls more would be a thirtieth of `Workbench.send`.
    """

    def __init__(self, engine: EngineHandle, journal: Journal) -> None:
        self._engine = engine
        self.journal = journal
        self._handler = self._on_signal

    def __enter__(self) -> JournaledCall:
        self.any = False
        if threading.get_ident() == interrupts.main_thread:
            self._former = set_handler(SIGINT, self._handler)
        self.journal.depth += 1
        return self

    def __exit__(self, kind: object, failure: BaseException | None, at: object) -> None:
        journal = self.journal
        try:
            if failure is not None:
                self._note_failure(failure)
            if self.any:  # again: a snapshot within the call has settled the doubt of before
                journal.doubt()
            journal.depth -= 1
            if journal.uncertain:
                journal.settle()
        finally:
            former = self._former
            if former is not None:
                self._former = None  # the next call may be one of another thread
                set_handler(SIGINT, former)
                if self.any:
                    self._raise_interrupt(failure)


class EngineHandle(SinkHooks):
    """A `Runtime` with feeds, listeners, sinks, the event log and the partition lifetimes.

    Feeds and listeners belong to statement names. They follow a statement that is redeployed.
    """

    def __init__(self, runtime: Runtime, lock: EngineLock, feed_capacity: int) -> None:
        self.runtime = runtime
        self.lock = lock
        self.version = 0
        self.failures = 0
        self.manual_actions = 0  # actions of the user, without replays: a replay takes a snapshot after them
        self.failed: Counter[str] = Counter()
        self.failed_since_deployed: Counter[str] = Counter()  # since the statement or context was deployed
        self._contexts: dict[str, object] = {}
        self.event_log = EventLog()
        self.partition_lifetimes = PartitionLifetimes()
        self.sampler = CpuSampler(lambda: self.runtime.statements, self.event_counts)
        self._capacity = feed_capacity
        self._medium = ANONYMOUS
        self._feeds: dict[str, tuple[RunningStatement, Feed]] = {}
        self._listeners: dict[str, list[Listener]] = {}
        self.file_sinks: list[FileSink] = []
        self.recovered_sinks: list[FileSink] = []
        self.streams: WeakSet[DeliveryStream] = WeakSet()
        self._sinks: dict[str, list[tuple[Sink, Successor]]] = {}
        self._partition_listeners: list[tuple[str, PartitionListener]] = []
        self.offsets: dict[SourcePart, Any] = {}  # of live sources: by event type, source and part
        self.buffers = WaitingBuffers()
        self.loads = 0  # how often a saved workbench has replaced the contents
        self._restarting = False  # the runtime is being replaced
        self.journal: Journal | None = None
        self._outer_call: JournaledCall | None = None  # the guard of calls that are not within another one
        self._calls_out: tuple[int, bool] | None  # the version of the runtime that the answer is for
        lock.torn = WeakMethod(self._mark_torn)
        self._attend(runtime)

    @property
    def now(self) -> int:
        """The current time of the clock."""
        return self.runtime.now

    @property
    def second(self) -> int:
        """How many clock units a second has."""
        return self.runtime.config.second

    @property
    def next_due(self) -> int | None:
        """The time of the next timer; None if there is none."""
        return self.runtime.next_due

    @property
    def calls_out(self) -> bool:
        """True if events call user code: functions in statements, windows from Python, or listeners."""
        version = self.runtime.version
        if self._calls_out is None or self._calls_out[0] != version:
            self._calls_out = version, calls_user_code(self.runtime)
        return self._calls_out[1]

    def use_journal(self, journal: Journal | None) -> None:
        """Record stimuli in `journal` from now on, or in none."""
        self.journal = journal
        self._outer_call = None if journal is None else JournaledCall(self, journal)

    def halt(self, on: bool) -> None:
        """Ask the loops of the engine to stop at the next point where nothing is lost (`on`), or withdraw that."""
        self.runtime.turn.halt = on
        if on and self.journal is not None:
            self.journal.doubt()

    def mark_half_change(self, failure: BaseException) -> None:
        """Mark the runtime as broken if `failure` came between a change of deployments and its end in the workbench.

        A call that was cut short and leaves no half change gets a snapshot in the journal.
        """
        if self.journal is not None and not isinstance(failure, Exception):
            self.journal.doubt()
        if self._restarting or self.runtime.touched:
            self.runtime.turn.mark_broken(failure)

    def _mark_torn(self) -> None:
        self.runtime.turn.mark_broken(RuntimeError("this process was forked while another thread used the workbench"))

    def manual_call(self) -> UninterruptedCall:
        """Return the guard for an action of the user: Ctrl-C waits for the engine and makes it stop early."""
        self.manual_actions += 1
        outer = self._outer_call
        if outer is None:
            return UninterruptedCall(self)
        return JournaledCall(self, outer.journal) if outer.journal.depth else outer

    def uninterrupted(self) -> UninterruptedCall:
        """Return the guard for several stimuli from outside, such as live events."""
        self.manual_actions += 1
        return UninterruptedCall(self)

    def stimulus(self) -> AbstractContextManager[None]:
        """Return the context manager within which a stimulus is recorded in the journal and acted on."""
        return nullcontext() if self.journal is None else self.journal.stimulus()

    @contextmanager
    def action(self, name: str, /, **arguments: Any) -> Iterator[None]:
        """Context manager for an action of the user that changes the workbench: it is in the journal before it begins.

        Raises JournalError if it cannot be written. Then the journal has whether it failed.
        """
        with self.manual_call():
            self.record_in_journal(name, **arguments)
            try:
                yield
            except Exception:
                if self.journal is not None:
                    self.journal.record_failure()
                raise

    def record_in_journal(self, action: str, /, **arguments: Any) -> None:
        """Write an action of the user into the journal, if there is one. Raises JournalError."""
        if self.journal is not None:
            self.journal.record_action(action, **arguments)

    def recorder(self, type_name: str, event_type: EventType) -> EventRecorder:
        """Return the function that records an event before it is sent, in the journal and in the event log."""
        record = self.event_log.recorder(type_name, self.journal)
        check = None if self.journal is None else self.journal.open_type(type_name, event_type)
        if self.runtime.state_limit is None and check is None:
            return record

        def record_admitted(time: int, event: dict[str, Any], position: LogPosition | None) -> None:
            self.admit(1)
            if check is not None:
                check(event)
            record(time, event, position)

        return record_admitted

    def room(self, events: int, first: int = 0, *, stepping: bool = False) -> int:
        """Return how many of the next `events`, the first one at `first`, enter before the state is counted again.

        Raises StateLimitError if a statement keeps too much, also when the clock is at `first`.
        """
        limit = self.runtime.state_limit
        if limit is None:
            return events
        return limit.room(events, partial(self.advance_to, first, stepping=stepping) if first > self.now else None)

    def admit(self, events: int) -> None:
        """Count new events that enter at the present time, or raise StateLimitError if a statement keeps too much."""
        limit = self.runtime.state_limit
        if limit is not None:
            limit.room(events)
            limit.took(events)

    def check_state(self) -> None:
        """Raise StateLimitError if a statement keeps more than `Config.state_limit` after the last event."""
        if self.runtime.state_limit is not None:
            self.runtime.state_limit.check(AFTER_THE_LAST)

    def sink_marks(self) -> list[Any]:
        """Write waiting rows of sinks into their files, and return how far each of them is.

        Sinks whose files nobody could continue are left out: the standard output, Parquet files that are not `whole`.
        Of a sink that has failed there is only the error.
        """
        self.file_sinks = [sink for sink in self.file_sinks if sink.is_open]
        marks = []
        for sink in [sink for sink in self.file_sinks if sink.survives]:
            try:
                marks.append(sink.mark())
            except SinkError as error:
                marks.append({"lost": str(error)})
        return marks

    def before_write(self) -> None:
        self.flush_journal()

    def before_close(self, sink: FileSink) -> None:
        if sink in self.file_sinks:
            self.record_in_journal("close_sink", **sink.key, former=file_stamp(sink.full_path))

    def after_close(self, sink: FileSink) -> None:
        if sink in self.file_sinks:
            self.file_sinks.remove(sink)
            self.record_in_journal("sink_closed", **sink.key)

    def flush_journal(self) -> None:
        """Write all stimuli so far into the journal, if there is one. Raises JournalError."""
        if self.journal is not None:
            self.journal.flush()

    def reach(self, progress: SourceProgress) -> None:
        """Note how far live sources are, if no event leads there. Raises JournalError."""
        with self.stimulus():
            self.record_in_journal("reach", **progress.plain())
            progress.commit(self.offsets)

    def repeat_progress(self, offsets: Sequence[Sequence[Any]] = (), waiting: Sequence[Any] | None = None) -> None:
        """Make the progress of live sources that a journal has recorded."""
        self.offsets.update({(name, source, place): offset for name, source, place, offset in offsets})
        if waiting is not None:
            number, gone, events = waiting
            self.buffers.repeat(number, gone, events)

    def record_manual_action(
        self, manual_action: ManualAction, stores: Set[str] = frozenset(), *, query: str | None = None, what: str = ""
    ) -> None:
        """Log that the user changes a store or a context. `manual_action` does the same to another runtime.

        `query` is the text if the action is a query, `what` describes any other action. `stores` are the stores that
        the action reads or changes.
        """
        self.manual_actions += 1
        self.event_log.record_action(self.now, manual_action, query, what, frozenset(stores))

    def due_after(self, time: int) -> int | None:
        """Return the time of the first timer after `time`; None if there is none."""
        return self.runtime.due_after(time)

    def advance_to(self, time: int, *, stepping: bool = False) -> None:
        """Move the clock to `time`. With `stepping` it visits every due time on the way."""
        with self.stimulus():
            self.record_stop(time, stepping=stepping)
            self.runtime.advance(time, stepping=stepping)

    def record_stop(self, time: int, *, stepping: bool = False, by_hand: bool = False) -> None:
        """Log that the clock is set to `time`, `by_hand` by the user. With `stepping` it visits every due time."""
        if self.journal is not None:
            self.journal.record_clock(time, stepping)
        self.event_log.record_stop(time, stepping=stepping, by_hand=by_hand)

    def count_overdue(self, time: int, late: LateTimers) -> None:
        """Count in `late` the timers that fire after they are due if the clock leaps to `time`."""
        for due, _ in self.runtime.clock.upto(time - 1):
            late.add(time - due)

    def feeder(self, types: Sequence[str], late: LateTimers | None = None) -> BatchTaker:
        """Return the function that takes batches of these event types, in total order. The clock advances to each
        event.

        Its second argument says whether the clock stops at every due time on the way. If not, `late` counts the timers
        that fire after they are due. Its third argument is the progress of live sources after these events. Its fourth
        argument, `until`, is the condition that ends a batch; the result is then how many events of each batch were
        taken. The function is for the present runtime only.
        """
        runtime = self.runtime
        engine_batch = runtime.batch(types, late)
        known = runtime.catalog.event_types
        types_at_start = {name: known[name] for name in types}
        record_replayed = self.event_log.record_replayed

        def feed(
            batches: Sequence[SourceBatch],
            stepping: bool,
            progress: SourceProgress = NO_PROGRESS,
            until: Until | None = None,
        ) -> Sequence[int] | None:
            if self.runtime is not runtime:
                raise UsageError("the workbench was rewound or loaded, and this feeds its former contents")
            self._same_types(types_at_start)
            engine_batch.awaited = None if until is None else until.statement
            columns = engine_batch.columns  # deployments change it
            column_batches = [
                ColumnBatch(batch.type_name, batch.times, batch.columns(columns[batch.type_name]), batch.ranks)
                for batch in batches
            ]
            stops = range(self.now, max(batch.times[-1] for batch in batches) + 1) if stepping and batches else None
            with self.stimulus():
                if self.journal is not None and batches:
                    named = [batch.columns for batch in column_batches]
                    facts = {} if progress is NO_PROGRESS else progress.plain()
                    self.journal.record_batches(batches, named, types_at_start, stepping, facts)
                progress.commit(self.offsets)
                record_replayed(batches, stepping=stepping)
                taken = engine_batch.run(column_batches, stops, None if until is None else until.fired)
                if taken is not None:
                    self.event_log.shorten_replayed(batches, taken)
                return taken

        return feed

    def _same_types(self, types_at_start: Mapping[str, EventType]) -> None:
        known = self.runtime.catalog.event_types
        for name, event_type in types_at_start.items():
            current = known.get(name)
            if current is not event_type and current != event_type:
                what = "dropped" if current is None else "changed"
                raise UsageError(f"event type `{name}` was {what} during the replay\n  hint: replay the events again")

    def counts(self) -> tuple[dict[str, int], int]:
        """Return the deliveries by statement and the number of statement errors, both since the workbench began.

        Tables, and variables that were not assigned, are left out.
        """
        counts = {name: feed.deliveries for name, (_, feed) in self._feeds.items()}
        silent = {n for n, (s, _) in self._feeds.items() if s.kind == "create variable" or not s.delivers}
        return {name: count for name, count in counts.items() if count or name not in silent}, self.failures

    @contextmanager
    def raising_failures(self) -> Iterator[None]:
        """Raise the first statement error of the block after the block has completed."""
        before = self.failures
        yield
        if self.failures != before:
            self.raise_failure_since(before)

    def raise_failure_since(self, before: int) -> None:
        """Raise the first statement error after the first `before` ones."""
        for first in self.failures_since(before):
            raise first from first.cause

    def failures_since(self, before: int) -> tuple[StatementError, ...]:
        """Return the statement errors after the first `before` ones that the runtime still has, oldest first."""
        return tuple(self.runtime.errors)[max(0, len(self.runtime.errors) - (self.failures - before)) :]

    def follow_deployments(self) -> None:
        """Attach feeds and listeners to new statements, and detach them from statements that are gone.

        This is the last step of every change of deployments (`mark_half_change`). It costs as much as the change,
        however many statements there are.
        """
        self.version += 1
        touched = tuple(self.runtime.touched)
        for name in touched:
            self.event_log.record_deployment(name, self.runtime.deployments.get(name), self.runtime.now)
            self._follow_context(name)
        live = self.runtime.statements
        for name in [name for name in touched if name in self._feeds and live.get(name) is not self._feeds[name][0]]:
            _, feed = self._feeds.pop(name)
            del self.failed_since_deployed[name]
            feed.wake()  # whoever shows it looks for its successor
            if name not in live:
                for _, successor in self._sinks.get(name, [])[:]:
                    successor(None)
        for statement in [live[name] for name in touched if name in live and name not in self._feeds]:
            feed, name = Feed(self._capacity, SPILL_LIMIT, self._medium), statement.name
            statement.add_sink(feed)
            self._feeds[name] = (statement, feed)
            for fn in self._listeners.get(name, ()):
                statement.add_listener(fn)
            for sink, successor in self._sinks.get(name, [])[:]:
                successor(statement)
                statement.add_sink(sink)
        self.runtime.touched.clear()

    def _follow_context(self, name: str) -> None:
        context = self.runtime.catalog.contexts.get(name)
        if name in self._contexts and self._contexts[name] is not context:
            del self.failed_since_deployed[name]
        if context is None:
            self._contexts.pop(name, None)
            self.partition_lifetimes.forget(name)
        else:
            self._contexts[name] = context

    def restart(self, runtime: Runtime) -> None:
        """Continue with `runtime`, in which nothing has happened: feeds start empty, listeners follow."""
        self._restarting = True
        self.sampler.settle()
        with suppress(ValueError):  # an interrupted restart has removed it
            self.runtime.remove_error_listener(self._count_failure)
        with suppress(ValueError):
            self.runtime.remove_partition_listener(None, self.partition_lifetimes.take)
        self.runtime = runtime
        self.failures = 0
        self.failed, self.failed_since_deployed = Counter(), Counter()
        self.offsets = {}
        self.buffers.clear()
        self.event_log = EventLog()
        self.partition_lifetimes = PartitionLifetimes()
        self._attend(runtime)
        self.follow_deployments()
        self._restarting = False

    def _attend(self, runtime: Runtime) -> None:
        names = (runtime.statements, runtime.deployments, runtime.catalog.contexts, self._feeds, self._contexts)
        runtime.touched.update((name, None) for of_kind in names for name in of_kind)
        self._calls_out = None
        runtime.add_error_listener(self._count_failure)
        runtime.add_partition_listener(None, self.partition_lifetimes.take)
        for context in runtime.catalog.contexts:  # partitions that exist from the start
            for partition in runtime.partitions(context):
                notice = PartitionNotice("allocated", context, partition["id"], partition, runtime.now)
                self.partition_lifetimes.take(notice)
        for context, fn in self._partition_listeners:
            runtime.add_partition_listener(context, fn)

    def release(self) -> None:
        """Detach everything, and finish the files of sinks. Whoever shows a feed looks for its successor."""
        for _, feed in self._feeds.values():
            feed.wake()
        for _, successor in [entry for entries in self._sinks.values() for entry in entries]:
            successor(None)
        for sink in list(self.file_sinks):
            end_sink(sink, failed=False)

    def feed(self, name: str) -> Feed:
        """Return the feed of a statement. Raises UsageError if there is no such statement."""
        self.statement(name)
        return self._feeds[name][1]

    def event_counts(self) -> dict[str, int]:
        """Return the number of events by type: sent, replayed, and inserted by statements."""
        counts = dict(self.event_log.counts)
        for statement, feed in self._feeds.values():
            for target in statement.steps.emit.targets:
                counts[target] = counts.get(target, 0) + feed.total_insert
        return counts

    def resize_feeds(self, capacity: int) -> None:
        """Change the capacity of all feeds, also of statements that are deployed later."""
        self._capacity = capacity
        for _, feed in self._feeds.values():
            feed.resize(capacity)

    def spill_into(self, medium: SpillMedium) -> None:
        """Put the spill files of all feeds into `medium`, also of statements that are deployed later."""
        self._medium = medium
        for _, feed in self._feeds.values():
            feed.medium = medium

    def statement(self, name: str) -> RunningStatement:
        """Return the statement. Raises UsageError with the nearest known name."""
        return self.runtime.statement(name)

    def listen(self, name: str, fn: Listener) -> Callable[[], None]:
        """Call `fn` for every delivery, also after a redeployment. Return the function that ends it."""
        listener = self.lock.listening(f"the listener of `{name}`", fn)
        self.statement(name).add_listener(listener)
        self._listeners.setdefault(name, []).append(listener)

        def cancel() -> None:
            if listener in self._listeners.get(name, ()):
                self._listeners[name].remove(listener)
                statement = self.runtime.statements.get(name)
                if statement is not None:
                    statement.remove_listener(listener)

        return cancel

    def attach_sink(self, name: str, sink: Sink, successor: Successor, *, later: bool = False) -> Callable[[], None]:
        """Send every delivery of the statement to `sink`, also after a redeployment. Return the function that ends it.

        ``successor(statement)`` is called before another statement of the name is attached, with None if there is none.
        With `later` the statement may be deployed later.
        """
        if not later or name in self.runtime.statements:
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

    @property
    def waiting(self) -> list[WaitingEvent]:
        """The events of live sources that wait for earlier ones."""
        return self.buffers.saved()

    def claim_waiting(self, names: Collection[str], heir: WaitingEvents | None) -> None:
        """Move the loaded events of these types into the buffer `heir`, or drop them if there is none."""
        origins = self.buffers.unclaimed()
        if origins:
            number = None if heir is None else heir.number
            with self.action("move_waiting", names=sorted(names), origins=origins, number=number):
                self.buffers.move(names, origins, number)

    def full_reader(self) -> str | None:
        """Return the statement of a stream that has no room for another delivery; None if there is none."""
        return next((reader.statement for reader in members(self.streams) if reader.is_full), None)

    def listen_to_partitions(self, context: str, fn: PartitionListener) -> Callable[[], None]:
        """Call `fn` for every notice about a context or its partitions. Return the function that ends it."""
        self.runtime.context(context)
        listener = self.lock.listening(f"the partition listener of `{context}`", fn)
        self._partition_listeners.append(entry := (context, listener))
        self.runtime.add_partition_listener(context, listener)

        def cancel() -> None:
            if entry in self._partition_listeners:
                self._partition_listeners.remove(entry)
                self.runtime.remove_partition_listener(context, listener)

        return cancel

    def _count_failure(self, error: StatementError) -> None:
        self.failures += 1
        self.failed[error.statement] += 1
        self.failed_since_deployed[error.statement] += 1
