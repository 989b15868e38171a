"""Events as they come: async sources into the engine, and a wall clock that drives its time.

All of it runs in the event loop of the caller (in a notebook the kernel's), without threads. The engine has one
time: either that of the wall clock when an event arrives, or, with a column of event time, the latest event's; an event
that is older is late then, and left out and counted.
"""

from __future__ import annotations

import asyncio
import time as wall
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cepbook.display import format_count, format_time
from cepbook.errors import EventError, StatementError, UsageError, exception_text, printable
from cepbook.session.inlets import Sleep
from cepbook.session.io.event_validation import find_type
from cepbook.session.io.time_conversion import format_clock_time
from cepbook.session.replay.batch_sizer import SLICE
from cepbook.session.replay.live_batcher import MOST, LiveBatcher

if TYPE_CHECKING:
    from cepbook.session.core.workbench_core import WorkbenchCore

GRAIN = 0.05  # seconds: how often the wall clock looks at what is due
JUMP = 60  # seconds: a longer gap (a machine that slept) is one advance, not a stop at every due time
FULL = 0.005  # seconds between two looks whether a reader has room again

Now = Callable[[], int]


def unix_ns() -> int:
    """Nanoseconds since 1970."""
    return wall.time_ns()


class WallClock:
    """Advances the clock of a workbench with real time, in an asyncio task, until `stop`.

    The first advance goes to the present (UTC) in one go; with `here` time runs on from where the clock stands, also
    where that is moved by hand. `failures` counts advances with statement errors; `failure` is the exception that
    ended it, if one did, and `note` says so. Raises UsageError without a running event loop and when the clock is past
    the present already.
    """

    def __init__(
        self, bench: WorkbenchCore, *, here: bool = False, now: Now = unix_ns, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._bench = bench
        self._now, self._sleep = now, sleep
        self._here = here
        self._offset = 0
        self._runtime = bench.runtime
        self.failures = 0
        self.failure: Exception | None = None
        self.takers: list[Callable[[], object]] = []  # what is to be taken before time goes on: what came until now
        if bench.replaying is not None:
            bench.replaying.refuse_another()
        if here:
            self._anchor()
        elif self.lead:
            raise UsageError(
                f"the clock is at {bench.clock}, past the present\n  hint: `%epl rewind` begins anew, or let it "
                "run on from there: run_clock(here=True), `%clock live here`"
            )
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("a live clock needs a running event loop, as a notebook or asyncio.run have") from None
        self.touch()
        self._task: asyncio.Task[None] | None = loop.create_task(self._run(), name="cepbook clock")

    @property
    def _second(self) -> int:
        return self._bench.runtime.config.second

    @property
    def present(self) -> int:
        """The time that the clock should have now."""
        return self._now() // (1_000_000_000 // self._second) + self._offset

    @property
    def lead(self) -> int:
        """How far the clock is past the present, in its units: so long nothing moves it. 0: it is not."""
        return max(0, self._bench.runtime.now - self.present)

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def note(self) -> str:
        """What people should know: what ended it, that it waits for the present; mostly nothing."""
        if self.failure is not None:
            return f"the live clock ended: {exception_text(self.failure)}"
        if self._task is not None and self._task.done():
            return "the live clock ended with its event loop"
        if self.running and not self._here and self.lead >= self._second:
            return f"{format_time(self.lead, second=self._second)} ahead of the present: the live clock waits for it"
        return ""

    def _anchor(self) -> None:
        """Time runs on from where the clock stands."""
        self._runtime = self._bench.runtime
        self._offset += self._runtime.now - self.present

    def touch(self, to: int | None = None) -> None:
        """Bring the engine's clock to the present, or `to` a time before it that is not long ago.

        Statements that fail are counted and told in `errors`.
        """
        if to is None:
            for take in (*self.takers,):
                take()
            if self._here and (self._bench.runtime is not self._runtime or self.lead):
                self._anchor()  # it has begun anew, was loaded, or moved by hand
            to = self.present
        behind = to - self._bench.runtime.now
        if behind <= 0:
            return
        try:
            self._bench.advance(to, stepping=behind <= JUMP * self._second)
        except StatementError:
            self.failures += 1

    async def _run(self) -> None:
        try:
            while True:
                due = self._bench.runtime.next_due
                wait = GRAIN if due is None else (due - self.present) / self._second
                await self._sleep(min(max(wait, 0.001), GRAIN))
                self.touch()
        except Exception as error:  # noqa: BLE001  kept: `note` tells of it, and so do the panel and `%clock`
            self.failure = error
            told = {"message": f"cepbook: {self.note}", "exception": error, "task": self._task}
            asyncio.get_running_loop().call_exception_handler(told)

    def stop(self) -> None:
        """Time stands still again."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def __repr__(self) -> str:
        failed = f", {self.failures:,} advances with statement errors" if self.failures else ""
        state = "live" if self.running else "stopped"
        return f"clock {self._bench.clock}, {state}{failed}" + (f"\n  {self.note}" if self.note else "")


class LiveInterrupted(asyncio.CancelledError):
    """Who awaited live sources was cancelled; they are closed. A notebook shows the words without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class Live:
    """Live sources, made by `Workbench.live`. ``await`` it until all have ended; `stop` ends them.

    `events`, `late` and `malformed` count by event type; `rejected` are the latest items that were no events, with the
    reason. `failures` are the exceptions that ended sources; the others go on. `errors` counts failures of statements.
    """

    def __init__(
        self,
        bench: WorkbenchCore,
        sources: Mapping[str, AsyncIterable[object] | Iterable[object]],
        *,
        time: str | Mapping[str, str] | None,
        clock: WallClock | None,
        owns_clock: bool = False,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._bench = bench
        self._stage = bench._stage
        self._clock, self._owns_clock = clock, owns_clock
        self._sleep = sleep
        self._second = bench.runtime.config.second
        columns = {name: time.get(name) if isinstance(time, Mapping) else time for name in sources}
        self._batcher = LiveBatcher(bench, columns, clock)
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
        """``running``, ``finished``, ``stopped`` or ``failed`` (a source failed; those that did not have ended)."""
        if not self._end.done():
            return "running"
        return "stopped" if self._stopped else "failed" if self.failures else "finished"

    @property
    def errors(self) -> int:
        """How often a statement failed."""
        return self._batcher.errors

    def on_end(self, fn: Callable[[], object]) -> Callable[[], None]:
        """Call `fn()` when all sources have ended, from the event loop; returns the function that takes that back."""

        def ended(_: object) -> None:
            fn()

        def forget() -> None:
            self._end.remove_done_callback(ended)

        self._end.add_done_callback(ended)
        return forget

    def stop(self, reason: str = "") -> None:
        """Close all sources. What they have delivered is in the engine."""
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

    # ---- a source

    async def _pump(self, name: str, source: AsyncIterable[object] | Iterable[object]) -> None:
        items = _iterated(source)
        turn = wall.perf_counter()
        try:
            async for item in items:
                try:
                    while self._stage.is_reader_full():
                        await self._sleep(FULL)
                finally:  # it came, also where it is stopped meanwhile
                    self._batcher.put(name, item)
                if self._bench._stage is not self._stage:
                    self.stop("the workbench was reset")
                    return
                if self._stage.readers or len(self._batcher) >= MOST:
                    self._batcher.take(None if self._stage.readers else SLICE)
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
        lines.append(f"  clock {format_clock_time(self._bench.runtime.now, self._second)}")
        return printable("\n".join(lines))


def _iterated(source: AsyncIterable[object] | Iterable[object]) -> AsyncIterator[object]:
    if isinstance(source, AsyncIterable):
        return aiter(source)
    return _one_by_one(source)


async def _one_by_one(source: Iterable[object]) -> AsyncIterator[object]:
    for item in source:
        yield item


def check_sources(bench: WorkbenchCore, sources: Mapping[str, object]) -> None:
    """Raise UsageError, EventError for what no source can be, and for unknown event types."""
    if not isinstance(sources, Mapping) or not sources:
        raise UsageError('which events? live({"Tick": source})')
    for name, source in sources.items():
        find_type(name, bench.runtime.catalog.event_types)
        if isinstance(source, str | bytes | Mapping) or not isinstance(source, AsyncIterable | Iterable):
            raise UsageError(
                f"events of `{name}` cannot come from {type(source).__name__}: expected an async iterator, such as "
                "`cepbook.session.inlets` makes, or an iterable"
            )
