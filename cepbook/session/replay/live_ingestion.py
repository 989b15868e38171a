"""Live sources: async iterators whose events go into the engine as they come.

Everything runs in the caller's event loop (in a notebook the kernel's), without threads. The engine has one time. It is
the wall clock's time when an event arrives, or, with a column of event time, the time of the latest event. An event
that is older than that (by more than a `lateness`) is late: it becomes a late event.
"""

from __future__ import annotations

import asyncio
import time as wall
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cepbook.display import format_count
from cepbook.errors import EventError, UsageError, exception_text, printable
from cepbook.lang.plan.catalog import LATE_EVENT
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.io.event_validation import find_type
from cepbook.session.io.live.live_sources import Link, Located, Sleep, Source
from cepbook.session.io.rejected_events import RejectedFile
from cepbook.session.io.time_conversion import clock_text
from cepbook.session.replay.batch_sizer import SLICE
from cepbook.session.replay.live_batcher import LOOKS, MOST, FutureLimit, LiveBatcher, TimeRules
from cepbook.session.replay.source_status import Now, SourceStatus
from cepbook.session.replay.wall_clock import WallClock

DAY = 24 * 60 * 60
FULL = 0.005  # seconds between two checks whether a reader has room again
STATUS = {"source": "string", "state": "string", "reason": "string", "gap": "double"}  # of an event about a source


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """How live events are read; `Workbench.live` explains each option. `lateness` and `ahead` are in clock units.

    `late_stream`: late events become events of the type `LateEvent`.
    """

    time: str | Mapping[str, str] | None
    lateness: int
    ahead: int | None
    late_stream: bool
    resume: bool
    status: str | None
    now: Now
    sleep: Sleep

    def time_columns(self, sources: Iterable[str]) -> dict[str, str | None]:
        """Return the column of the event time by event type, those that the sources themselves lead to included."""
        names = dict.fromkeys(sources)
        columns = {name: self.time.get(name) if isinstance(self.time, Mapping) else self.time for name in names}
        columns |= {} if self.status is None else {self.status: None}
        return columns | ({LATE_EVENT.name: None} if self.late_stream and LATE_EVENT.name not in names else {})


class LiveInterrupted(asyncio.CancelledError):
    """Raised when the task that awaits live sources is cancelled, with the sources closed. Has no traceback.

    `asyncio.timeout` of Python 3.11 compares the class with CancelledError itself, and lets this pass.
    `asyncio.wait_for` raises TimeoutError.
    """

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class Live:
    """Running live sources, made by `Workbench.live`.

    ``await`` it until all have ended. `stop` ends them, `pause` takes no more items until `resume`.

    - `events`, `late` and `malformed` count by event type, `buffered` counts the events that wait for earlier ones.
    - `rejected` holds the latest items that were no events, with the reason; `rejections` counts all of them by reason.
    - `sources` and `reconnections` are tables of the sources and of their lost connections.
    - `failures` holds the exceptions that ended sources; the other sources continue.
    - `errors` counts statement errors.
    - `obstacle` is the reason why events wait before the engine; usually empty.
    - `reason` says why the sources were stopped, unless the user did it.
    """

    def __init__(
        self,
        workbench: WorkbenchCore,
        sources: Mapping[str, AsyncIterable[object] | Iterable[object]],
        options: LiveOptions,
        *,
        clock: WallClock | None,
        owns_clock: bool,
        file: RejectedFile | None,
    ) -> None:
        self.workbench = workbench
        self._engine = workbench._engine
        self._clock, self._owns_clock = clock, owns_clock
        self._sleep = options.sleep
        self._second = workbench.runtime.config.second
        self._status_type = options.status
        self.statuses = {name: SourceStatus(name, options.now) for name in sources}
        keys = {name: source.key for name, source in sources.items() if isinstance(source, Source)}
        self._file = file
        loop = _running_loop()
        lateness, self._now = options.lateness, options.now
        future = None if options.ahead is None else FutureLimit(options.ahead, self._present)
        times = TimeRules(options.time_columns(sources), lateness, future)
        self._batcher = LiveBatcher(workbench, times, clock, self.statuses, keys, file=file)
        self.events, self.late = self._batcher.events, self._batcher.late
        self.malformed, self.rejected = self._batcher.malformed, self._batcher.rejected
        self.failures: dict[str, Exception] = {}
        self._stopped = False
        self.reason = ""
        self._going = asyncio.Event()
        self._going.set()
        offsets = self._engine.offsets if options.resume else {}
        try:
            opened = {name: _opened(source, name, offsets) for name, source in sources.items()}
            self._batcher.claim(drop=not options.resume)
        except BaseException:  # a source that cannot be iterated, or a journal that cannot be written
            if clock is not None and owns_clock:
                clock.stop()
            with suppress(Exception):  # raised again: the same, or less
                self._batcher.close()
            raise
        if clock is not None:
            clock.takers.append(self._batcher.take)
        self._tasks = {
            name: loop.create_task(self._run_source(name, items), name=f"cepbook source of {name}")
            for name, items in opened.items()
        }
        self._finishing = loop.create_task(self._finish(), name="cepbook live")
        pause = lateness / self._second / LOOKS
        self._watch = (
            loop.create_task(self._release_when_quiet(max(pause, FULL)), name="cepbook watch") if lateness else None
        )

    @property
    def state(self) -> str:
        """``running``, ``paused``, ``finished``, ``stopped`` or ``failed`` (a source failed and the others have ended,
        or the last events could not enter the engine).
        """
        if not self._finishing.done():
            return "running" if self._going.is_set() else "paused"
        if not self._finishing.cancelled() and self._finishing.exception() is not None:
            return "failed"
        return "stopped" if self._stopped else "failed" if self.failures else "finished"

    @property
    def ended(self) -> bool:
        """True if all sources have ended."""
        return self._finishing.done()

    @property
    def obstacle(self) -> str:
        """The reason why events wait before the engine: a full disk, statement or stream; usually empty."""
        failure = self._batcher.failure
        if failure is not None:
            did = "did not enter the engine" if self.ended else "wait"
            return f"events {did}: {exception_text(failure)}"
        full = None if self.ended else self._engine.full_reader()
        return "" if full is None else f"events wait: the reader of the stream of `{full}` is behind"

    @property
    def troubles(self) -> list[str]:
        """The obstacle, a clock that makes events late, and failures of the clock and of the file of rejected items."""
        troubles = [self.obstacle, self._early_clock]
        if self._clock is not None and self._clock.failure is not None:
            troubles.append(self._clock.note)
        if self._file is not None and self.missing:
            lost = format_count(self.missing, "rejected item")
            troubles.append(f"{lost} missing in {self._file.path!r}, which cannot be written")
        return [trouble for trouble in troubles if trouble]

    def _present(self) -> int:
        return self._now() // (1_000_000_000 // self._second)

    @property
    def _early_clock(self) -> str:
        """That events are late because one came with a time in the future; usually empty."""
        now = self.workbench.runtime.now
        if self._clock is not None or not self.late or now - self._present() <= DAY * self._second:
            return ""
        return (
            f"the clock is at {clock_text(now, self._second)}, in the future: an event had that time, and earlier ones "
            'are late; `%epl rewind` begins anew, and live(…, ahead="1 hour") rejects such events'
        )

    @property
    def sources(self) -> pd.DataFrame:
        """The sources: state, events, events per second, seconds since the last item, late events, those that wait for
        earlier ones, rejected items, reconnections with the seconds of their gaps, and the last report.
        """
        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `sources`."""
        state = "paused" if self.state == "paused" else "held back" if self.obstacle else "running"
        buffered = self.buffered
        return [self._row(status, state, buffered) for status in self.statuses.values()]

    def _row(self, status: SourceStatus, running: str, buffered: Mapping[str, int]) -> dict[str, Any]:
        name = status.name
        state = running if status.state == "running" else status.state
        return {
            "source": name,
            "state": state,
            "events": self.events[name],
            "rate": round(status.rate, 1) if state == "running" else 0.0,
            "age": status.age,
            "late": self.late[name],
            "buffered": buffered[name],
            "rejected": self.malformed[name],
            "reconnections": status.reconnected,
            "gap": status.gap,
            "note": status.note,
        }

    @property
    def rejections(self) -> pd.DataFrame:
        """The rejected items by source and reason: how many, the first and the last of them. Numbers and quoted values
        in reasons are left out.
        """
        rows = [
            (status.name, reason, entry.count, entry.first.text, entry.last.text)
            for status in self.statuses.values()
            for reason, entry in sorted(status.rejections.items(), key=lambda item: -item[1].count)
        ]
        return pd.DataFrame(rows, columns=["source", "reason", "count", "first", "last"])

    @property
    def reconnections(self) -> pd.DataFrame:
        """The latest lost connections: source, time of the loss, the seconds until the next connection, the reason."""
        rows = [
            (status.name, pd.Timestamp(entry.lost, tz="UTC"), entry.gap, entry.reason)
            for status in self.statuses.values()
            for entry in status.reconnections
        ]
        return pd.DataFrame(rows, columns=["source", "lost", "gap", "reason"])

    def pause(self) -> None:
        """Take no more items from the sources. Those that arrived are in the engine, or wait for earlier ones.

        An item that a source delivers during the pause waits until `resume`, or is taken by `stop`.
        """
        if not self.ended and self._going.is_set():
            self._going.clear()
            self._batcher.take()
            self._report_all("paused")

    def resume(self) -> None:
        """Take items again after `pause`."""
        if not self._going.is_set():
            self._going.set()
            self._report_all("resumed")

    @property
    def errors(self) -> int:
        """The number of statement errors."""
        return self._batcher.errors

    @property
    def missing(self) -> int:
        """The number of rejected items that the file of rejected items lacks, because it cannot be written."""
        return 0 if self._file is None else self._file.lost

    @property
    def buffered(self) -> Counter[str]:
        """The number of events that wait for earlier ones, by event type."""
        return self._batcher.buffered

    def on_end(self, fn: Callable[[], object]) -> Callable[[], None]:
        """Call `fn()` in the event loop when all sources have ended. Return the function that withdraws that."""

        def ended(_: object) -> None:
            fn()

        def forget() -> None:
            self._finishing.remove_done_callback(ended)

        self._finishing.add_done_callback(ended)
        return forget

    def stop(self, reason: str = "") -> None:
        """Close all sources. Their events so far are in the engine. Raises the exception that keeps them out of it."""
        if not self._finishing.done():
            self._stopped, self.reason = True, reason
            try:
                self._batcher.flush()
            finally:
                self._close_sources()

    def _close_sources(self, but: str = "") -> None:
        for name, task in self._tasks.items():
            if name != but:
                task.cancel()

    def _report(self, name: str, state: str, reason: str = "", gap: float = 0.0) -> None:
        """Send an event about a source, if an event type is for that."""
        if self._status_type is not None and state:
            self._batcher.put(self._status_type, {"source": name, "state": state, "reason": reason, "gap": gap})

    def _report_all(self, state: str) -> None:
        for name, status in self.statuses.items():
            if status.state in ("running", "reconnecting"):
                self._report(name, state)

    def __await__(self) -> Generator[Any, None, Live]:
        return self._wait().__await__()

    async def _wait(self) -> Live:
        try:
            await asyncio.shield(self._finishing)
        except asyncio.CancelledError:
            with suppress(Exception):  # `_finish` raises it, too
                self.stop()
            await asyncio.wait({self._finishing})
            failure = None if self._finishing.cancelled() else self._finishing.exception()
            raise LiveInterrupted(f"interrupted: {self!r}") from failure
        if self.failures:
            name, error = next(iter(self.failures.items()))
            raise EventError(f"the source of `{name}` failed: {_failure_text(error)}\n  {self!r}") from error
        return self

    async def _finish(self) -> None:
        """Wait until all sources have ended and their events are in the engine, and close everything.

        Raises the exception that keeps events out of the engine, or ended the task of a source.
        """
        ends: list[BaseException | None] = []
        try:
            ends = await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            for status in self.statuses.values():
                if status.state == "running":  # its task was cancelled before it began
                    status.state = "stopped"
            self._batcher.release()
            while not (self._stopped or self._batcher.is_done):  # the disk or a statement is full
                await asyncio.sleep(FULL)
        finally:
            with ExitStack() as closing:  # the last one first, and all of them even if one raises
                if self._clock is not None:
                    if self._owns_clock:
                        closing.callback(self._clock.stop)
                        closing.callback(self._clock.touch)
                    closing.callback(self._clock.takers.remove, self._batcher.take)
                closing.callback(self._batcher.close)
                if self._watch is not None:
                    closing.callback(self._watch.cancel)
        for failure in ends:
            if isinstance(failure, Exception):
                raise failure

    async def _release_when_quiet(self, pause: float) -> None:
        """Release waiting events when all sources are quiet. Do nothing during a pause or while a stream is full."""
        while True:
            await self._sleep(pause)
            if self._going.is_set() and self._engine.full_reader() is None:
                self._batcher.look()

    async def _run_source(self, name: str, items: AsyncIterator[object]) -> None:
        status, end = self.statuses[name], "finished"
        turn = wall.perf_counter()
        try:
            await self._going.wait()
            while True:
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    break
                except Exception as error:  # noqa: BLE001  the user's source; kept, told in repr, raised when awaited
                    self.failures[name] = error
                    break
                if type(item) is Link:
                    self._report(name, *status.link(item))
                    continue
                try:
                    if not self._going.is_set():
                        await self._going.wait()
                    while self._engine.full_reader() is not None:
                        await self._sleep(FULL)
                finally:  # the item has arrived, even if the source is stopped meanwhile
                    self._batcher.put(name, item)
                    if type(item) is not Located or item.item is not None:
                        status.take()
                if self._batcher.superseded:
                    self._stopped, self.reason, end = True, self._batcher.superseded, "stopped"
                    self._close_sources(but=name)  # this one closes below
                    return
                if self._engine.streams or len(self._batcher) >= MOST:
                    self._batcher.take(None if self._engine.streams else SLICE)
                while wall.perf_counter() - turn > SLICE or len(self._batcher) >= MOST:
                    await asyncio.sleep(0 if self._batcher.failure is None else FULL)
                    turn = wall.perf_counter()
        except asyncio.CancelledError:
            end = "stopped"
            raise
        finally:
            try:
                closing = getattr(items, "aclose", None)
                if closing is not None:
                    await closing()
            except Exception as error:  # noqa: BLE001  as above
                self.failures.setdefault(name, error)
            failure = self.failures.get(name)
            status.state = end if failure is None else "failed"
            status.note = status.note if failure is None else exception_text(failure)
            self._report(name, status.state, "" if failure is None else status.note)

    def __repr__(self) -> str:
        counts = [format_count(sum(self.events[name] for name in self.statuses), "event")]
        counts += [
            f"{sum(count.values()):,} {what}"
            for what, count in (("malformed", self.malformed), ("late", self.late), ("waiting", self.buffered))
            if count
        ]
        reconnected = sum(status.reconnected for status in self.statuses.values())
        counts += [format_count(reconnected, "reconnection")] if reconnected else []
        counts += [f"{self.errors:,} statement errors"] if self.errors else []
        lines = [f"Live of {', '.join(self._tasks)}: {', '.join(counts)}, {self.state}"]
        lines += [f"  {self.reason}"] if self.reason else []
        lines += [f"  {trouble}" for trouble in self.troubles]
        lines += [f"  the source of {name} failed: {_failure_text(error)}" for name, error in self.failures.items()]
        lines += [
            f"  the source of {status.name}, {status.state}: {status.note.splitlines()[0]}"
            for status in self.statuses.values()
            if status.note and status.name not in self.failures
        ]
        if self.rejected:
            name, last = self.rejected[-1]
            lines.append(f"  last malformed, of {name}: {last.reason.splitlines()[0]}: {last.text}"[:300])
        lines.append(f"  clock {clock_text(self.workbench.runtime.now, self._second)}")
        return printable("\n".join(lines))


def _failure_text(error: Exception) -> str:
    try:
        return repr(error)
    except Exception:  # noqa: BLE001  an exception of the user's source
        return exception_text(error)


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError("live sources need a running event loop, as a notebook or asyncio.run have") from None


def _opened(
    source: AsyncIterable[object] | Iterable[object], type_name: str, offsets: Mapping[tuple[str, str, str], Any]
) -> AsyncIterator[object]:
    """Return the items of a source, from its `offsets` on if it can continue."""
    if not isinstance(source, Source):
        return _iterated(source)
    here = (type_name, source.key)
    own = {partition: offset for (*place, partition), offset in offsets.items() if tuple(place) == here}
    return source.open({partition: offset() if callable(offset) else offset for partition, offset in own.items()})


def _iterated(source: AsyncIterable[object] | Iterable[object]) -> AsyncIterator[object]:
    if isinstance(source, AsyncIterable):
        return aiter(source)
    return _one_by_one(source)


async def _one_by_one(source: Iterable[object]) -> AsyncIterator[object]:
    for item in source:
        yield item


def check_sources(workbench: WorkbenchCore, sources: Mapping[str, object], status: str | None) -> None:
    """Raise UsageError or EventError for objects that cannot be sources, for unknown event types, and for a type of
    `status` that cannot have events about sources.
    """
    if not isinstance(sources, Mapping) or not sources:
        raise UsageError('which events? live({"Tick": source})')
    for name, source in sources.items():
        find_type(name, workbench.runtime.catalog.event_types)
        if isinstance(source, str | bytes | Mapping) or not isinstance(source, AsyncIterable | Iterable):
            raise UsageError(
                f"events of `{name}` cannot come from {type(source).__name__}: expected an async iterator, such as "
                "`cepbook.session.inlets` makes, or an iterable"
            )
    known = {} if status is None else workbench.runtime.catalog.event_types
    properties = {} if status not in known else known[status].properties
    if status is not None and (
        status in sources or any(str(properties.get(name)) != of for name, of in STATUS.items())
    ):
        schema = ", ".join(f"{name} {of}" for name, of in STATUS.items())
        raise UsageError(
            f"`status` names an event type for changes of the sources, and `{status}` is none\n"
            f'  hint: deploy `create schema SourceChange({schema})` and pass status="SourceChange"'
        )
