"""Replay: historic events into the engine in event-time order, in slices, controllable while it runs.

Contract (shared with Spark): events have a total order (time, order of the sources, order within the source);
before an event with time t the clock advances to t; at the end the clock advances to `until`, when one is given.

A replay runs as an asyncio task in slices of about 10 ms, so that a notebook stays responsive without threads.
`pause`, `resume`, `step` and `stop` may be called from any thread: they set flags that the next slice obeys. With a
speed the events that are due by the wall clock go in together, the clock stopping whenever something is due.
"""

from __future__ import annotations

import asyncio
import threading
import time as wall
from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

from cepbook.errors import Interrupted, UsageError
from cepbook.interrupts import InterruptGuard
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.core.garbage_collection import CollectionPause, garbage
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.history.replay_snapshots import ReplaySnapshots
from cepbook.session.io.frame_source import LatePolicy, ReplaySource
from cepbook.session.io.time_conversion import TimeLike, format_clock_time
from cepbook.session.replay.batch_sizer import SLICE
from cepbook.session.replay.replay_loop import ReplayControls, ReplayLoop, check_speed
from cepbook.session.replay.replay_results import Progress, ReplayInterrupted, ReplayResult, paused_message

WorkbenchT = TypeVar("WorkbenchT", bound=WorkbenchCore)

TURNS = 8  # turns of the event loop between two slices: a message of the browser needs several until somebody has it
NAP = 0.05  # longest sleep in seconds while waiting for real time, so that controls are obeyed soon
ENDED = ("finished", "stopped", "failed")
NO_SNAPSHOTS = 'this replay keeps no snapshots\n  hint: replay(…, keep=True), or keep="1 day"'


class Replay(Generic[WorkbenchT]):
    """A replay, made by `Workbench.replay`. ``await`` it, or call `run()` in a script; both give a `ReplayResult`.

    Interrupting it (Ctrl-C, the kernel's stop button) pauses it between two events, or between two due times;
    `resume()` goes on. An event whose ``insert into`` finds no end is given up, which ends the replay; so does a second
    Ctrl-C.
    """

    def __init__(
        self,
        engine: EngineHandle,
        sources: Sequence[ReplaySource],
        *,
        until: int | None = None,
        limit: int | None = None,
        speed: float | None = None,
        late: LatePolicy = "error",
        paused: bool = False,
        stepping: bool = False,
        snapshots: ReplaySnapshots[WorkbenchT] | None = None,
        skip: int = 0,
        workbench: WorkbenchT | None = None,
    ) -> None:
        self._engine = engine
        self._controls = controls = ReplayControls(hold=paused)
        self._replay_loop = ReplayLoop(
            engine,
            sources,
            controls,
            until=until,
            limit=limit,
            speed=speed,
            late=late,
            stepping=stepping,
            snapshots=snapshots,
            skip=skip,
        )
        self._replay_snapshots = snapshots
        self.workbench = workbench
        self._inside = False
        self._patience = CollectionPause()
        self._active = 0.0
        self._resumed_at: float | None = None
        self._subscribers: list[Callable[[], object]] = []
        self._thread = threading.get_ident()
        self.error: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poked: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._start_task()

    # ---- looking

    @property
    def state(self) -> str:
        """``ready``, ``running``, ``paused``, ``finished``, ``stopped`` or ``failed``."""
        if self._replay_loop.end is not None:
            return self._replay_loop.end
        if self._controls.hold:
            return "paused"
        return "running" if self._replay_loop.events or self._active else "ready"

    @property
    def is_scheduled(self) -> bool:
        """Whether an event loop runs the replay, or will."""
        return self._task is not None and not self._task.done()

    def refuse_another(self) -> None:
        """Errors: UsageError where a second replay would come between its events."""
        if self.state != "ready" or self.is_scheduled:
            raise UsageError(f"a replay is {self.state} already\n  hint: await it, or end it: `cep.replaying.stop()`")

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C was heard in the present slice."""
        return self._controls.interrupted

    @property
    def progress(self) -> Progress:
        """Where the replay is now."""
        loop = self._replay_loop
        rate = loop.events / self._active if self._active else 0.0
        clock = self._engine.now * 1000 // self._engine.second
        behind = loop.behind if self.state == "running" else 0.0
        done, total = loop.events, loop.total()
        return Progress(done, total, rate, clock, self.state, loop.late, behind, loop.estimated_total())

    @property
    def result(self) -> ReplayResult:
        """The result of a replay that has ended; UsageError before that, its error when it failed."""
        if self.error is not None:
            raise self.error
        if self._replay_loop.result is None:
            raise UsageError(f"the replay is {self.state}: await it, or call run()")
        return self._replay_loop.result

    def at(self, t: TimeLike) -> WorkbenchT:
        """A second workbench as this one was at the instant `t`, to look at and to go on from; this one stays as it is.

        It begins with the last snapshot before `t`, or after what was done by hand, and replays what came since. Its
        feeds are empty. UsageError where there are no snapshots (`lacks`), for an instant at which it was not, and for
        events that can be read only once.
        """
        if self._replay_snapshots is None:
            raise UsageError(self.lacks)
        garbage.clear()  # of engines of other instants that nobody has any more
        loop = self._replay_loop
        with self._engine.lock:
            self._replay_snapshots.record_manual_actions(loop.taken, loop.events, self._engine.now)
            time, kept = self._replay_snapshots.before(t)
        workbench = self._replay_snapshots.load(kept.data)
        engine = workbench._engine
        rest = Replay[WorkbenchT](
            engine,
            self._replay_snapshots.open_sources(time),
            until=time,
            limit=None if loop.limit is None else loop.limit - kept.events,
            late=loop.late_rule,
            stepping=loop.stepping or loop.speed is not None,
            skip=kept.taken,
        )
        rest.run()
        engine.clear_feeds()
        return workbench

    @property
    def span(self) -> tuple[int, int] | None:
        """From when to when `at` can look back, in clock units; None: `lacks` says why it cannot."""
        return None if self._replay_snapshots is None else self._replay_snapshots.span

    @property
    def began(self) -> int | None:
        """The time of the first event, from which on something is to be seen; None where no snapshots are kept."""
        return None if self._replay_snapshots is None else self._replay_snapshots.began

    def forget(self, reason: str) -> None:
        """End, and let go of the past; `lacks` says the reason from then on."""
        self.stop()
        if self._replay_snapshots is not None:
            self._replay_snapshots.forget(reason)

    @property
    def snapshot_bytes(self) -> int:
        """The bytes of the snapshots that it keeps."""
        return 0 if self._replay_snapshots is None else self._replay_snapshots.size

    @property
    def lacks(self) -> str:
        """Why `at` cannot look back, or not to all that came; "": it can."""
        return NO_SNAPSHOTS if self._replay_snapshots is None else self._replay_snapshots.lacks

    @property
    def speed(self) -> float | None:
        """So many times real time; None: as fast as it goes. It may be changed at any time."""
        return self._replay_loop.speed

    @speed.setter
    def speed(self, factor: float | None) -> None:
        check_speed(factor)
        self._replay_loop.speed, self._replay_loop.behind = factor, 0.0
        self._replay_loop.restart_real_time()
        self._poke()

    def subscribe(self, fn: Callable[[], object]) -> Callable[[], None]:
        """Call `fn()` after every slice and at the end. Returns the function that ends the subscription."""
        self._subscribers.append(fn)

        def unsubscribe() -> None:
            if fn in self._subscribers:
                self._subscribers.remove(fn)

        return unsubscribe

    def __repr__(self) -> str:
        loop = self._replay_loop
        names = ", ".join(loop.names)
        if loop.result is not None:
            return f"Replay of {names}: {loop.result!r}"
        total = loop.total()
        if self.state in ("ready", "running"):
            return f"Replay of {names}: {'' if total is None else f'{total:,} events, '}{self.state}"
        of = "" if total is None else f" of {total:,}"
        clock = format_clock_time(self._engine.now, self._engine.second)
        return f"Replay of {names}: {loop.events:,}{of} events, {self.state}, clock {clock}"

    # ---- controls, from any thread

    def pause(self) -> None:
        """Hold after the present slice."""
        controls = self._controls
        controls.hold, controls.goal, controls.condition = True, None, None
        self._poke()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._controls.steps = 0
        self._controls.hold = False
        self._poke()
        self._start_task()

    def step(self, n: int = 1) -> None:
        """Pause, and replay just the next `n` events (regardless of `speed`).

        Called from the thread that made the replay the events are in the engine when it returns; from another
        thread, or from a listener, they follow as soon as the running slice is over.
        """
        if n < 1:
            raise UsageError(f"a step is at least 1 event, not {n}")
        if self._replay_loop.end is not None:
            return
        self._controls.hold = True
        if threading.get_ident() == self._thread and not self._inside:
            self._slice(float("inf"), n)
            if self.error is not None:
                raise self.error
        else:
            self._controls.steps += n
            self._poke()

    def run_to(self, time: int) -> None:
        """Replay what comes up to `time` (clock units), stop the clock there and pause; due times are visited."""
        self._controls.goal = time if self._replay_loop.until is None else min(time, self._replay_loop.until)
        self._controls.condition = None
        self.resume()

    def run_until(self, fired: Callable[[], bool]) -> None:
        """Replay event by event until ``fired()`` is true, which is asked after each of them; then pause."""
        self._controls.condition = fired
        self._controls.goal = None
        self.resume()

    def stop(self) -> None:
        """End after the present slice; the clock stays where it is."""
        self._controls.stop = True
        if threading.get_ident() == self._thread and not self._inside:
            self._slice(0.0)
        self._poke()

    # ---- running

    def run(self) -> ReplayResult | None:
        """Replay to the end, blocking. Returns None when the replay was paused before the end.

        Raises EventError for a bad event (all before it are in the engine) and Interrupted, a KeyboardInterrupt,
        after pausing, when interrupted: it says where.
        """
        if self._inside:
            raise UsageError("a replay cannot be run from within itself")
        self._controls.hold = False
        try:
            with InterruptGuard(self._interrupt) as interruptions:
                while self._replay_loop.end is None and not (self._controls.hold and not self._controls.steps):
                    wall.sleep(min(self._slice(SLICE), NAP))
            if interruptions.any:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            if self.state != "paused":  # a second Ctrl-C broke in
                raise
            raise Interrupted(self._paused_at()) from None
        finally:
            self._heard()
            self._patience.end()
        return None if self._replay_loop.end is None else self.result

    def _paused_at(self) -> str:
        return paused_message(self._replay_loop.events, self._engine.now, self._engine.second)

    def _interrupt(self) -> None:
        self._controls.interrupted = True
        self._engine.halt(True)
        self.pause()

    def _heard(self) -> None:
        if self._controls.interrupted:
            self._controls.interrupted = False
            self._engine.halt(False)
            self._replay_loop.restart_real_time()

    def __await__(self) -> Generator[Any, None, ReplayResult]:
        return self._wait().__await__()

    async def _wait(self) -> ReplayResult:
        self._start_task()
        try:
            if self._task is not None:
                await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self.pause()
            raise ReplayInterrupted(self._paused_at()) from None
        return self.result

    def _start_task(self) -> None:
        """Run as a task of the running event loop, if there is one and no task runs yet."""
        if self._replay_loop.end is not None or (self._task is not None and not self._task.done()):
            return
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._poked = asyncio.Event()
        self._task = self._loop.create_task(self._drive(self._poked), name="cepbook replay")

    async def _drive(self, poked: asyncio.Event) -> None:
        await asyncio.sleep(0)
        try:
            while self._replay_loop.end is None:
                if self._controls.hold and not self._controls.steps and not self._controls.stop:
                    self._resumed_at = None
                    self._replay_loop.restart_real_time()
                    self._patience.end()
                    poked.clear()
                    await poked.wait()
                    continue
                try:
                    with InterruptGuard(self._interrupt):
                        pause = self._slice(SLICE)
                finally:
                    self._heard()
                await asyncio.sleep(min(pause, NAP))
                for _ in range(TURNS):
                    await asyncio.sleep(0)
        finally:
            self._patience.end()

    def _poke(self) -> None:
        if self._loop is not None and self._poked is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._poked.set)

    # ---- one slice

    def _slice(self, seconds: float, steps: int | None = None) -> float:
        """Work for about `seconds`; the seconds until there is more to do. A failure ends the replay."""
        if self._replay_loop.end is not None:
            return 0.0
        started = wall.perf_counter()
        pause = 0.0
        self._patience.begin()
        with self._engine.lock:
            self._inside = True
            try:
                pause = self._replay_loop.work(started + seconds, steps)
            except Exception as error:  # noqa: BLE001  kept, and raised by whoever waits for the replay
                self.error = error
                self._replay_loop.finish("failed")
            except BaseException:  # an interruption that a listener raised: part of a call is in the engine already
                self._replay_loop.finish("stopped")
                raise
            finally:
                self._inside = False
        ended = wall.perf_counter()
        self._active += ended - (self._resumed_at if self._resumed_at is not None else started)
        self._resumed_at = None if self._controls.hold else ended
        if self._controls.hold or self._replay_loop.end is not None:
            self._patience.end()
        for fn in tuple(self._subscribers):
            fn()
        return pause
