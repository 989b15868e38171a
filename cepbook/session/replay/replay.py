"""Replay of historic events in event-time order, controllable while it runs.

The contract is shared with Spark. Events have a total order: time, then order of the sources, then order within the
source. Before an event with time t the clock advances to t, and stops at every due time on the way. At the end the
clock advances to `until`, if it is given.

     sources ─ SourceMerge ─ ReplayLoop ─ EngineHandle.feeder ─ engine
                  (total order)    │
                             ReplayControls   set by any thread

A replay runs as an asyncio task in slices of about 10 ms, so a notebook stays responsive without threads. `pause`,
`resume`, `step` and `stop` may be called from any thread: they set flags that the next slice obeys. With a speed, all
events that are due by the wall clock go in together.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time as wall
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

from cepbook.engine.replay.batch_replayer import Until
from cepbook.errors import CepbookError, ErrorPolicy, Interrupted, UsageError, exception_text
from cepbook.interrupts import InterruptGuard
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.core.garbage_collection import CollectionPause, garbage
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.history.replay_snapshots import ReplaySnapshots, SnapshotInterval
from cepbook.session.io.frame_source import Rejecting, ReplaySource
from cepbook.session.io.replay_options import LatePolicy, ReplayOptions, check_speed
from cepbook.session.io.time_conversion import TimeLike, clock_text
from cepbook.session.replay.batch_sizer import LONG_SLICE, SLICE
from cepbook.session.replay.replay_loop import ReplayControls, ReplayLoop
from cepbook.session.replay.replay_results import (
    Progress,
    ReplayInterrupted,
    ReplayResult,
    paused_message,
)

WorkbenchT = TypeVar("WorkbenchT", bound=WorkbenchCore)

TURNS = 8  # turns of the event loop between two slices: a message from the browser needs several
NAP = 0.05  # longest sleep in seconds while waiting for real time, so that controls take effect soon
ENDED = ("finished", "stopped", "failed")
NO_SNAPSHOTS = 'this replay keeps no snapshots\n  hint: replay(…, keep=True), or keep="1 day"'


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The arguments of `Workbench.replay`, from which the same replay can be made again."""

    events: object
    type: str | None
    time: str | Mapping[str, str] | None
    sequence: str | Mapping[str, str] | None
    until: TimeLike | None
    limit: int | None
    speed: float | None
    sort: bool
    late: LatePolicy | None
    lateness: str | timedelta | None
    rejected: str | os.PathLike[str] | None
    paused: bool
    leap: bool
    errors: ErrorPolicy
    keep: SnapshotInterval | None
    sep: str | None
    encoding: str | None
    comment: str | None
    na: str | Sequence[str]


class Replay(Generic[WorkbenchT]):
    """A replay, made by `Workbench.replay`. ``await`` it, or call `run()` in a script; both return a `ReplayResult`.

    If statements or listeners failed, both raise ReplayError after the last event, unless ``errors="keep"``. The
    failures of a `step` are raised by that step, as by `send`. A replay that nobody awaits prints its error.

    Ctrl-C (or the kernel's stop button) pauses the replay between two events, or between two due times; `resume()`
    continues. An event whose ``insert into`` never ends is given up, which ends the replay. So does a second Ctrl-C.
    """

    on_await: ClassVar[Callable[[Replay[Any]], object] | None] = None  # displays the bar in a notebook

    def __init__(
        self,
        engine: EngineHandle,
        sources: Sequence[ReplaySource],
        options: ReplayOptions,
        *,
        snapshots: ReplaySnapshots[WorkbenchT] | None = None,
        reject: Rejecting | None = None,
        workbench: WorkbenchT | None = None,
    ) -> None:
        self._engine = engine
        self._controls = controls = ReplayControls(hold=options.paused)
        self._replay_loop = ReplayLoop(engine, sources, controls, options, snapshots=snapshots, reject=reject)
        self._replay_snapshots = snapshots
        self.workbench = workbench
        self.request: ReplayRequest | None = None  # to make the same replay again
        self.only_once = ""  # why it cannot
        self.successor: Replay[WorkbenchT] | None = None  # the replay that has repeated this one
        self._inside = False
        self._patience = CollectionPause()
        self._raising = options.errors == "raise"
        self._last_clock: int | None = None  # clock units, once the clock belongs to another replay
        self._waiters = 0  # callers that wait for the outcome, or got it
        self._active = 0.0
        self._resumed_at: float | None = None
        self._subscribers: list[Callable[[], object]] = []
        self._thread = threading.get_ident()
        self.error: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._start_task()

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
        """True if an event loop runs the replay, or will run it."""
        return self._task is not None and not self._task.done()

    def refuse_another(self) -> None:
        """Raise UsageError if a second replay would come between the events of this one."""
        if self.state != "ready" or self.is_scheduled:
            raise UsageError(f"a replay is {self.state} already\n  hint: await it, or end it: `cep.replaying.stop()`")

    @property
    def interrupted(self) -> bool:
        """True if Ctrl-C was received in the current slice."""
        return self._controls.interrupted

    @property
    def progress(self) -> Progress:
        """The current progress."""
        loop = self._replay_loop
        rate = loop.events / self._active if self._active else 0.0
        clock = (self._engine.now if self._last_clock is None else self._last_clock) * 1000 // self._engine.second
        behind = loop.behind if self.state == "running" else 0.0
        done, total = loop.events, loop.total()
        return Progress(
            done, total, rate, clock, self.state, loop.late.total(), behind, loop.estimated_total(), errors=loop.errors
        )

    @property
    def result(self) -> ReplayResult:
        """The result of the ended replay. Raises UsageError before the end, and its error if the replay failed.

        Statement errors do not raise here.
        """
        if self.error is not None:
            raise self.error
        if self._replay_loop.result is None:
            raise UsageError(f"the replay is {self.state}: await it, or call run()")
        return self._replay_loop.result

    def at(self, t: TimeLike) -> WorkbenchT:
        """Return a second workbench in the state of the instant `t`, to look at and to continue from.

        The second workbench starts from the last snapshot before `t` and replays the events since. Its feeds are empty.
        This workbench is unchanged. Raises UsageError without snapshots (see `lacks`), for an instant outside `span`,
        and for events that can be read only once.
        """
        return self.at_with_past(t, 0)

    def at_with_past(self, t: TimeLike, events: int) -> WorkbenchT:
        """Return `at(t)` with an event log of at least so many events before `t`, or of all that a replay repeats."""
        if self._replay_snapshots is None:
            raise UsageError(self.lacks)
        garbage.clear()  # engines of other instants that are no longer referenced
        loop = self._replay_loop
        with self._engine.lock:
            self._replay_snapshots.record_manual_actions(loop.taken, loop.events, self._engine.now)
            time, snapshot = self._replay_snapshots.before(t, events)
        workbench = self._replay_snapshots.load(snapshot.data)
        engine = workbench._engine
        options = replace(
            loop.options,
            until=time,
            limit=None if loop.options.limit is None else loop.options.limit - snapshot.events,
            speed=None,
            paused=False,
            leap=loop.options.leap and loop.speed is None,
            errors="keep",
            skip=snapshot.taken,
        )
        rest = Replay[WorkbenchT](engine, self._replay_snapshots.open_sources(time), options)
        limit = engine.runtime.config.state_limit
        engine.runtime.limit_state(None)  # what has happened is not refused
        rest.run()
        engine.runtime.limit_state(limit)
        counts = engine.event_counts()
        for name in engine.runtime.statements:
            engine.feed(name).clear()
        engine.event_log.counts = Counter(snapshot.counts) + Counter(counts)
        return workbench

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and last time that `at` can restore, in clock units; None if it can restore none (see `lacks`)."""
        return None if self._replay_snapshots is None else self._replay_snapshots.span

    @property
    def began(self) -> int | None:
        """The time of the first event; None if the replay keeps no snapshots."""
        return None if self._replay_snapshots is None else self._replay_snapshots.began

    @property
    def repeated_limit(self) -> int | None:
        """The maximum number of events when the replay is repeated: where it was cut short, as many as came."""
        loop = self._replay_loop
        return loop.options.limit if self.state == "finished" else loop.events

    @property
    def last_time(self) -> int | None:
        """The time (clock units) at which the clock will stand at the end; None if it is unknown."""
        return self._replay_loop.last_time()

    def leave_clock(self) -> None:
        """Let `progress` keep the present clock if the replay has ended: from now on another replay moves the clock."""
        if self._replay_loop.end is not None and self._last_clock is None:
            self._last_clock = self._engine.now

    def forget(self, reason: str) -> None:
        """End the replay and drop its snapshots. `lacks` gives the reason from then on."""
        self.stop()
        self.leave_clock()
        self.request = None
        if self._replay_snapshots is not None:
            self._replay_snapshots.forget(reason)

    @property
    def snapshot_bytes(self) -> int:
        """The size of the snapshots in bytes."""
        return 0 if self._replay_snapshots is None else self._replay_snapshots.size

    @property
    def lacks(self) -> str:
        """Why `at` cannot go back, or not to all events; empty if it can."""
        return NO_SNAPSHOTS if self._replay_snapshots is None else self._replay_snapshots.lacks

    @property
    def speed(self) -> float | None:
        """The multiple of real time; None is as fast as possible. It may be changed at any time."""
        return self._replay_loop.speed

    @speed.setter
    def speed(self, factor: float | None) -> None:
        check_speed(factor)
        self._replay_loop.speed, self._replay_loop.behind = factor, 0.0
        self._replay_loop.restart_real_time()
        self._wake_task()

    def subscribe(self, fn: Callable[[], object]) -> Callable[[], None]:
        """Call `fn()` after every slice and at the end. Return the function that ends the subscription."""
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
        clock = clock_text(self._engine.now, self._engine.second)
        return f"Replay of {names}: {loop.events:,}{of} events, {self.state}, clock {clock}"

    def pause(self) -> None:
        """Pause after the current slice."""
        controls = self._controls
        controls.hold, controls.goal, controls.condition = True, None, None
        self._wake_task()

    def resume(self) -> None:
        """Continue after `pause`."""
        self._controls.steps = 0
        self._controls.hold = False
        self._wake_task()
        self._start_task()

    def step(self, n: int = 1) -> None:
        """Pause, and replay just the next `n` events, whatever the `speed`.

        In the thread that made the replay, the events are in the engine when `step` returns. From another thread, or
        from a listener, they follow after the current slice.
        """
        if n < 1:
            raise UsageError(f"a step is at least 1 event, not {n}")
        if self._replay_loop.end is not None:
            return
        self._controls.hold = True
        if threading.get_ident() == self._thread and not self._inside:
            before = self._engine.failures
            self._slice(float("inf"), n)
            if self.error is not None:
                raise self.error
            if self._raising:
                self._engine.raise_failure_since(before)
        else:
            self._controls.steps += n
            self._wake_task()

    def run_to(self, time: int) -> None:
        """Replay up to `time` (clock units, inclusive), visiting due times. Stop the clock there and pause."""
        until = self._replay_loop.options.until
        self._controls.goal = time if until is None else min(time, until)
        self._controls.condition = None
        self.resume()

    def run_until(self, fired: Callable[[], bool], *, statement: str | None = None) -> None:
        """Replay until ``fired()`` returns True, then pause. `fired` is called after every event and every stop of the
        clock, so nothing comes after the event or the due time that made it true. If it depends on the deliveries of
        one `statement` alone, the other statements run as fast as without a condition.
        """
        self._controls.condition = Until(fired, statement)
        self._controls.goal = None
        self.resume()

    def stop(self) -> None:
        """End the replay after the current slice. The clock stays where it is."""
        self._controls.stop = True
        if threading.get_ident() == self._thread and not self._inside:
            self._slice(0.0)
        self._wake_task()

    def run(self) -> ReplayResult | None:
        """Replay to the end, blocking. Return None if the replay was paused before the end.

        Raises EventError for a bad event; all events before it are in the engine. Raises ReplayError at the end if
        statements or listeners failed, unless ``errors="keep"``; it has the `result`. Ctrl-C pauses the replay and
        raises Interrupted, a KeyboardInterrupt that says where.
        """
        if self._inside:
            raise UsageError("a replay cannot be run from within itself")
        self._controls.hold = False
        try:
            with InterruptGuard(self._interrupt) as interruptions:
                while self._replay_loop.end is None and not (self._controls.hold and not self._controls.steps):
                    wall.sleep(min(self._slice(LONG_SLICE if self.speed is None else SLICE), NAP))
            if interruptions.any:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            if self.state != "paused":  # a second Ctrl-C interrupted at once
                raise
            raise Interrupted(self._paused_at()) from None
        finally:
            self._heard()
            self._patience.end()
        return None if self._replay_loop.end is None else self._outcome()

    def _outcome(self) -> ReplayResult:
        """Return the result of the ended replay, or raise its error."""
        self._waiters += 1
        result = self.result
        if self._raising and result.errors:
            error = result.error()
            raise error from error.cause
        return result

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
        if Replay.on_await is not None:
            Replay.on_await(self)
        self._start_task()
        self._waiters += 1
        try:
            if self._task is not None:
                await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self.pause()
            raise ReplayInterrupted(self._paused_at()) from None
        finally:
            self._waiters -= 1
        return self._outcome()

    def _start_task(self) -> None:
        if self._replay_loop.end is not None or (self._task is not None and not self._task.done()):
            return
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._wake = asyncio.Event()
        self._task = self._loop.create_task(self._drive(self._wake), name="cepbook replay")

    async def _drive(self, wake: asyncio.Event) -> None:
        await asyncio.sleep(0)
        try:
            while self._replay_loop.end is None:
                if self._controls.hold and not self._controls.steps and not self._controls.stop:
                    self._resumed_at = None
                    self._replay_loop.restart_real_time()
                    self._patience.end()
                    wake.clear()
                    await wake.wait()
                    continue
                try:
                    with InterruptGuard(self._interrupt):
                        pause = self._slice(SLICE)
                finally:
                    self._heard()
                await asyncio.sleep(min(pause, NAP))
                for _ in range(TURNS):
                    await asyncio.sleep(0)
            if not self._waiters:
                self._print_error()
        finally:
            self._patience.end()

    def _print_error(self) -> None:
        try:
            self._outcome()
        except CepbookError as error:
            sys.stderr.write(f"cepbook: {error}\n")
        except Exception as error:  # noqa: BLE001  printed
            sys.stderr.write(f"cepbook: the replay failed: {exception_text(error)}\n")

    def _wake_task(self) -> None:
        if self._loop is not None and self._wake is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)

    def _slice(self, seconds: float, steps: int | None = None) -> float:
        if self._replay_loop.end is not None:
            return 0.0
        started = wall.perf_counter()
        pause = 0.0
        self._patience.begin()
        with self._engine.lock:
            self._inside = True
            try:
                pause = self._replay_loop.work(seconds, steps)
                self._engine.flush_journal()
            except Exception as error:  # noqa: BLE001  kept, and raised by whoever waits for the replay
                self.error = error
                self._replay_loop.finish("failed")
            except BaseException:  # raised by a listener: a part of the call is in the engine already
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
