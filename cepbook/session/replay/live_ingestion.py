"""Live sources: async iterators whose events go into the engine as they come.

Everything runs in the caller's event loop (in a notebook the kernel's), without threads. The engine has one time. It is
the wall clock's time when an event arrives, or, with a column of event time, the time of the latest event. An event
that is older than that is late: it is left out and counted.
"""

from __future__ import annotations

import asyncio
import time as wall
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Mapping
from typing import Any

from cepbook.display import format_count
from cepbook.errors import EventError, UsageError, printable
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.io.event_validation import find_type
from cepbook.session.io.live_sources import Sleep
from cepbook.session.io.time_conversion import clock_text
from cepbook.session.replay.batch_sizer import SLICE
from cepbook.session.replay.live_batcher import MOST, LiveBatcher
from cepbook.session.replay.wall_clock import WallClock

FULL = 0.005  # seconds between two checks whether a reader has room again


class LiveInterrupted(asyncio.CancelledError):
    """Raised when the task that awaits live sources is cancelled, with the sources closed. Has no traceback."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class Live:
    """Running live sources, made by `Workbench.live`. ``await`` it until all have ended; `stop` ends them.

    `events`, `late` and `malformed` count by event type. `rejected` holds the latest items that were no events, with
    the reason. `failures` holds the exceptions that ended sources; the other sources continue. `errors` counts
    statement errors.
    """

    def __init__(
        self,
        workbench: WorkbenchCore,
        sources: Mapping[str, AsyncIterable[object] | Iterable[object]],
        *,
        time: str | Mapping[str, str] | None,
        clock: WallClock | None,
        owns_clock: bool = False,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._workbench = workbench
        self._engine = workbench._engine
        self._clock, self._owns_clock = clock, owns_clock
        self._sleep = sleep
        self._second = workbench.runtime.config.second
        columns = {name: time.get(name) if isinstance(time, Mapping) else time for name in sources}
        self._batcher = LiveBatcher(workbench, columns, clock)
        self.events, self.late = self._batcher.events, self._batcher.late
        self.malformed, self.rejected = self._batcher.malformed, self._batcher.rejected
        self.failures: dict[str, Exception] = {}
        if clock is not None:
            clock.takers.append(self._batcher.take)
        self._stopped = False
        self._reason = ""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("live sources need a running event loop, as a notebook or asyncio.run have") from None
        self._tasks = {
            name: loop.create_task(self._pump(name, source), name=f"cepbook source of {name}")
            for name, source in sources.items()
        }
        self._end = loop.create_task(self._finish(), name="cepbook live")

    @property
    def state(self) -> str:
        """``running``, ``finished``, ``stopped`` or ``failed`` (a source failed and the others have ended)."""
        if not self._end.done():
            return "running"
        return "stopped" if self._stopped else "failed" if self.failures else "finished"

    @property
    def errors(self) -> int:
        """The number of statement errors."""
        return self._batcher.errors

    def on_end(self, fn: Callable[[], object]) -> Callable[[], None]:
        """Call `fn()` in the event loop when all sources have ended. Return the function that withdraws that."""

        def ended(_: object) -> None:
            fn()

        def forget() -> None:
            self._end.remove_done_callback(ended)

        self._end.add_done_callback(ended)
        return forget

    def stop(self, reason: str = "") -> None:
        """Close all sources. Their events so far are in the engine."""
        if not self._end.done():
            self._stopped, self._reason = True, reason
            self._batcher.take()
            for task in self._tasks.values():
                task.cancel()

    def __await__(self) -> Generator[Any, None, Live]:
        return self._wait().__await__()

    async def _wait(self) -> Live:
        try:
            await asyncio.shield(self._end)
        except asyncio.CancelledError:
            self.stop()
            await self._end
            raise LiveInterrupted(f"interrupted: {self!r}") from None
        for name, error in self.failures.items():
            raise EventError(f"the source of `{name}` failed: {error!r}\n  {self!r}") from error
        return self

    async def _finish(self) -> None:
        try:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        finally:
            self._batcher.take()
            if self._clock is not None:
                self._clock.takers.remove(self._batcher.take)
                if self._owns_clock:
                    self._clock.touch()
                    self._clock.stop()

    async def _pump(self, name: str, source: AsyncIterable[object] | Iterable[object]) -> None:
        items = _iterated(source)
        turn = wall.perf_counter()
        try:
            async for item in items:
                try:
                    while self._engine.is_reader_full():
                        await self._sleep(FULL)
                finally:  # the item has arrived, even if the source is stopped meanwhile
                    self._batcher.put(name, item)
                if self._workbench._engine is not self._engine:
                    self.stop("the workbench was reset")
                    return
                if self._engine.streams or len(self._batcher) >= MOST:
                    self._batcher.take(None if self._engine.streams else SLICE)
                while wall.perf_counter() - turn > SLICE or len(self._batcher) >= MOST:
                    await asyncio.sleep(0)
                    turn = wall.perf_counter()
        except Exception as error:  # noqa: BLE001  the user's source; kept, told in repr, raised by whoever awaits
            self.failures[name] = error
        finally:
            try:
                closing = getattr(items, "aclose", None)
                if closing is not None:
                    await closing()
            except Exception as error:  # noqa: BLE001  as above
                self.failures.setdefault(name, error)

    def __repr__(self) -> str:
        counts = [format_count(self.events.total(), "event")]
        counts += [
            f"{n:,} {what}" for what, n in (("malformed", self.malformed.total()), ("late", self.late.total())) if n
        ]
        counts += [f"{self.errors:,} statement errors"] if self.errors else []
        lines = [f"Live of {', '.join(self._tasks)}: {', '.join(counts)}, {self.state}"]
        lines += [f"  {self._reason}"] if self._reason else []
        lines += [f"  the source of {name} failed: {error!r}" for name, error in self.failures.items()]
        if self._clock is not None and self._clock.failure is not None:
            lines.append(f"  {self._clock.note}")
        if self.rejected:
            name, last = self.rejected[-1]
            lines.append(f"  last malformed, of {name}: {last.reason.splitlines()[0]}: {last.text}"[:300])
        lines.append(f"  clock {clock_text(self._workbench.runtime.now, self._second)}")
        return printable("\n".join(lines))


def _iterated(source: AsyncIterable[object] | Iterable[object]) -> AsyncIterator[object]:
    if isinstance(source, AsyncIterable):
        return aiter(source)
    return _one_by_one(source)


async def _one_by_one(source: Iterable[object]) -> AsyncIterator[object]:
    for item in source:
        yield item


def check_sources(workbench: WorkbenchCore, sources: Mapping[str, object]) -> None:
    """Raise UsageError or EventError for objects that cannot be sources and for unknown event types."""
    if not isinstance(sources, Mapping) or not sources:
        raise UsageError('which events? live({"Tick": source})')
    for name, source in sources.items():
        find_type(name, workbench.runtime.catalog.event_types)
        if isinstance(source, str | bytes | Mapping) or not isinstance(source, AsyncIterable | Iterable):
            raise UsageError(
                f"events of `{name}` cannot come from {type(source).__name__}: expected an async iterator, such as "
                "`cepbook.session.inlets` makes, or an iterable"
            )
