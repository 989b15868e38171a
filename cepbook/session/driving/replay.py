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
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from cepbook.errors import Interrupted, UsageError
from cepbook.session.data.framed import Late
from cepbook.session.data.merge import Merge, Part, on_time
from cepbook.session.data.sources import Source, planned
from cepbook.session.driving.portions import PIECES, SLICE, Portions
from cepbook.session.driving.travel import Travel
from cepbook.session.running.process import Interruptions, Patience, check_speed, leftovers
from cepbook.session.running.results import Progress, ReplayInterrupted, ReplayResult, paused_at
from cepbook.session.values.clock import Moment, before_clock, show

if TYPE_CHECKING:
    from cepbook.session.workbench import Workbench

TURNS = 8  # turns of the event loop between two slices: a message of the browser needs several until somebody has it
NAP = 0.05  # longest sleep in seconds while waiting for real time, so that orders are obeyed soon
ENDED = ("finished", "stopped", "failed")
NO_SNAPSHOTS = 'this replay keeps no snapshots\n  hint: replay(…, keep=True), or keep="1 day"'


class Target(Protocol):
    """What a replay needs of the workbench."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held while the engine works."""

    @property
    def second(self) -> int:
        """How many units of the clock a second has."""

    @property
    def now(self) -> int: ...
    @property
    def next_due(self) -> int | None: ...
    @property
    def calls_out(self) -> bool: ...  # whether code of the user is called while events come
    def due_after(self, time: int) -> int | None: ...
    def advance_to(self, time: int) -> None: ...
    def halt(self, on: bool) -> None:
        """Ask the loops of the engine to stop at the next place where nothing is lost; or no more."""

    def feeder(self, types: Sequence[str]) -> Callable[[Sequence[Part], bool], None]:
        """What takes parts of these event types, in total order, and whether to stop at what is due between events."""

    def counts(self) -> tuple[dict[str, int], int]:
        """Deliveries by statement, number of statement errors; both since the workbench began."""


class Replay:
    """A replay, made by `Workbench.replay`. ``await`` it, or call `run()` in a script; both give a `ReplayResult`.

    Interrupting it (Ctrl-C, the kernel's stop button) pauses it between two events, or between two due times;
    `resume()` goes on. An event whose ``insert into`` finds no end is given up, which ends the replay; so does a second
    Ctrl-C.
    """

    def __init__(
        self,
        stage: Target,
        sources: Sequence[Source],
        *,
        until: int | None = None,
        limit: int | None = None,
        speed: float | None = None,
        late: Late = "error",
        paused: bool = False,
        stepping: bool = False,
        travel: Travel | None = None,
        skip: int = 0,
        workbench: Workbench | None = None,
    ) -> None:
        check_speed(speed)
        if limit is not None and not (isinstance(limit, int) and limit >= 0):
            raise UsageError(f"the limit of a replay is a number of events, not {limit!r}")
        self._stage = stage
        self._sources = tuple(sources)
        self._planned: int | None = None
        self._until = until
        self._limit = limit
        self._speed = speed
        self._stepping = stepping
        self.workbench = workbench
        self._goal: int | None = None  # where the clock is to stop next, whatever comes
        self._fired: Callable[[], bool] | None = None
        self._late_rule = late
        if late == "error" and not skip:
            for source in sources:
                if source.first_time is not None and source.first_time < stage.now:
                    raise before_clock(source.type_name, source.first_time, stage.now, stage.second)
        self._merge = Merge(self._sources, until)
        self._taken = 0
        while self._taken < skip and (parts := self._merge.take(min(skip - self._taken, PIECES[1]))):
            self._taken += sum(len(part.times) for part in parts)
        self._names = [source.type_name for source in sources]
        self._feed_parts = stage.feeder(self._names)
        self._events = 0
        self._late = 0
        self._end: str | None = None
        self._hold = paused
        self._stop = False
        self._steps = 0
        self._portions = Portions(stage.second, lambda: stage.calls_out)
        self._inside = False
        self.interrupted = False
        self._stopped_at: int | None = None  # the clock, when no event has come since
        self._patience = Patience()
        self._active = 0.0
        self._resumed_at: float | None = None
        self._origin: tuple[float, int] | None = None
        self._behind = 0.0
        self._before, self._errors_before = stage.counts()
        self._subscribers: list[Callable[[], object]] = []
        self._thread = threading.get_ident()
        self.error: Exception | None = None
        self._result: ReplayResult | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poked: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._travel = travel
        if travel is not None:
            travel.look(0, 0, stage.now)
        self._start_task()

    # ---- looking

    @property
    def state(self) -> str:
        """``ready``, ``running``, ``paused``, ``finished``, ``stopped`` or ``failed``."""
        if self._end is not None:
            return self._end
        if self._hold:
            return "paused"
        return "running" if self._events or self._active else "ready"

    @property
    def is_scheduled(self) -> bool:
        """Whether an event loop runs the replay, or will."""
        return self._task is not None and not self._task.done()

    def refuse_another(self) -> None:
        """Errors: UsageError where a second replay would come between its events."""
        if self.state != "ready" or self.is_scheduled:
            raise UsageError(f"a replay is {self.state} already\n  hint: await it, or end it: `cep.replaying.stop()`")

    @property
    def progress(self) -> Progress:
        """Where the replay is now."""
        rate = self._events / self._active if self._active else 0.0
        late = self._late + sum(source.late for source in self._sources)
        clock = self._stage.now * 1000 // self._stage.second
        behind = self._behind if self.state == "running" else 0.0
        about = planned(self._sources, self._limit, True) if self._end is None and self._total() is None else None
        return Progress(self._events, self._total(), rate, clock, self.state, late, behind, about)

    @property
    def result(self) -> ReplayResult:
        """The result of a replay that has ended; UsageError before that, its error when it failed."""
        if self.error is not None:
            raise self.error
        if self._result is None:
            raise UsageError(f"the replay is {self.state}: await it, or call run()")
        return self._result

    def at(self, t: Moment) -> Workbench:
        """A second workbench as this one was at the instant `t`, to look at and to go on from; this one stays as it is.

        It begins with the last snapshot before `t`, or after what was done by hand, and replays what came since. Its
        feeds are empty. UsageError where there are no snapshots (`lacks`), for an instant at which it was not, and for
        events that can be read only once.
        """
        if self._travel is None:
            raise UsageError(self.lacks)
        leftovers.clear()  # of engines of other instants that nobody has any more
        with self._stage.lock:
            self._travel.catch_up(self._taken, self._events, self._stage.now)
            time, kept = self._travel.before(t)
        workbench, stage = self._travel.load(kept.data)
        rest = Replay(
            stage,
            self._travel.open_sources(time),
            until=time,
            limit=None if self._limit is None else self._limit - kept.events,
            late=self._late_rule,
            stepping=self._stepping or self._speed is not None,
            skip=kept.taken,
        )
        rest.run()
        stage.clear_feeds()
        return workbench

    @property
    def span(self) -> tuple[int, int] | None:
        """From when to when `at` can look back, in clock units; None: `lacks` says why it cannot."""
        return None if self._travel is None else self._travel.span

    @property
    def began(self) -> int | None:
        """The time of the first event, from which on something is to be seen; None where no snapshots are kept."""
        return None if self._travel is None else self._travel.began

    def forget(self, reason: str) -> None:
        """End, and let go of the past; `lacks` says the reason from then on."""
        self.stop()
        if self._travel is not None:
            self._travel.forget(reason)

    @property
    def kept(self) -> int:
        """The bytes of the snapshots that it keeps."""
        return 0 if self._travel is None else self._travel.size

    @property
    def lacks(self) -> str:
        """Why `at` cannot look back, or not to all that came; "": it can."""
        return NO_SNAPSHOTS if self._travel is None else self._travel.lacks

    @property
    def speed(self) -> float | None:
        """So many times real time; None: as fast as it goes. It may be changed at any time."""
        return self._speed

    @speed.setter
    def speed(self, factor: float | None) -> None:
        check_speed(factor)
        self._speed, self._origin, self._behind = factor, None, 0.0
        self._poke()

    def subscribe(self, fn: Callable[[], object]) -> Callable[[], None]:
        """Call `fn()` after every slice and at the end. Returns the function that ends the subscription."""
        self._subscribers.append(fn)

        def unsubscribe() -> None:
            if fn in self._subscribers:
                self._subscribers.remove(fn)

        return unsubscribe

    def _total(self) -> int | None:
        if self._end == "finished":  # late events, and those after `until`, were planned but did not happen
            return self._events
        if self._end is not None:
            return self._planned
        return planned(self._sources, self._limit)

    def __repr__(self) -> str:
        names = ", ".join(self._names)
        if self._result is not None:
            return f"Replay of {names}: {self._result!r}"
        total = self._total()
        if self.state in ("ready", "running"):
            return f"Replay of {names}: {'' if total is None else f'{total:,} events, '}{self.state}"
        of = "" if total is None else f" of {total:,}"
        clock = show(self._stage.now, self._stage.second)
        return f"Replay of {names}: {self._events:,}{of} events, {self.state}, clock {clock}"

    # ---- orders, from any thread

    def pause(self) -> None:
        """Hold after the present slice."""
        self._hold, self._goal, self._fired = True, None, None
        self._poke()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._steps = 0
        self._hold = False
        self._poke()
        self._start_task()

    def step(self, n: int = 1) -> None:
        """Pause, and replay just the next `n` events (regardless of `speed`).

        Called from the thread that made the replay the events are in the engine when it returns; from another
        thread, or from a listener, they follow as soon as the running slice is over.
        """
        if n < 1:
            raise UsageError(f"a step is at least 1 event, not {n}")
        if self._end is not None:
            return
        self._hold = True
        if threading.get_ident() == self._thread and not self._inside:
            self._slice(float("inf"), n)
            if self.error is not None:
                raise self.error
        else:
            self._steps += n
            self._poke()

    def run_to(self, time: int) -> None:
        """Replay what comes up to `time` (clock units), stop the clock there and pause; due times are visited."""
        self._goal = time if self._until is None else min(time, self._until)
        self._fired = None
        self.resume()

    def run_until(self, fired: Callable[[], bool]) -> None:
        """Replay event by event until ``fired()`` is true, which is asked after each of them; then pause."""
        self._fired = fired
        self._goal = None
        self.resume()

    def stop(self) -> None:
        """End after the present slice; the clock stays where it is."""
        self._stop = True
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
        self._hold = False
        try:
            with Interruptions(self._interrupt) as interruptions:
                while self._end is None and not (self._hold and not self._steps):
                    wall.sleep(min(self._slice(SLICE), NAP))
            if interruptions.any:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            if self.state != "paused":  # a second Ctrl-C broke in
                raise
            raise Interrupted(paused_at(self._events, self._stage.now, self._stage.second)) from None
        finally:
            self._heard()
            self._patience.end()
        return None if self._end is None else self.result

    def _interrupt(self) -> None:
        self.interrupted = True
        self._stage.halt(True)
        self.pause()

    def _heard(self) -> None:
        if self.interrupted:
            self.interrupted = False
            self._stage.halt(False)
            self._origin = None

    def __await__(self) -> Generator[Any, None, ReplayResult]:
        return self._wait().__await__()

    async def _wait(self) -> ReplayResult:
        self._start_task()
        try:
            if self._task is not None:
                await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self.pause()
            raise ReplayInterrupted(paused_at(self._events, self._stage.now, self._stage.second)) from None
        return self.result

    def _start_task(self) -> None:
        """Run as a task of the running event loop, if there is one and no task runs yet."""
        if self._end is not None or (self._task is not None and not self._task.done()):
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
            while self._end is None:
                if self._hold and not self._steps and not self._stop:
                    self._resumed_at = self._origin = None
                    self._patience.end()
                    poked.clear()
                    await poked.wait()
                    continue
                try:
                    with Interruptions(self._interrupt):
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
        if self._end is not None:
            return 0.0
        started = wall.perf_counter()
        pause = 0.0
        self._patience.begin()
        with self._stage.lock:
            self._inside = True
            try:
                pause = self._work(started + seconds, steps)
            except Exception as error:  # noqa: BLE001  kept, and raised by whoever waits for the replay
                self.error = error
                self._finish("failed")
            except BaseException:  # an interruption that a listener raised: part of a call is in the engine already
                self._finish("stopped")
                raise
            finally:
                self._inside = False
        ended = wall.perf_counter()
        self._active += ended - (self._resumed_at if self._resumed_at is not None else started)
        self._resumed_at = None if self._hold else ended
        if self._hold or self._end is not None:
            self._patience.end()
        for fn in tuple(self._subscribers):
            fn()
        return pause

    def _work(self, deadline: float, steps: int | None) -> float:
        while True:
            if self._stop:
                self._finish("stopped")
                return 0.0
            if steps is None and self._hold:
                if not self._steps:
                    return 0.0
                steps, self._steps = self._steps, 0
            if steps == 0:
                return 0.0
            took, pause = self._some(steps, deadline)
            if self._fired is not None and self._fired():
                self._fired, self._hold = None, True
                return 0.0
            if not took or pause:
                return pause
            if steps is not None:
                steps -= took
            if wall.perf_counter() >= deadline:
                return 0.0

    def _some(self, steps: int | None, deadline: float) -> tuple[int, float]:
        """One call of the engine: events taken, seconds to wait before the next."""
        if self._travel is not None:
            self._travel.catch_up(self._taken, self._events, self._stage.now)
        most = self._portions.events
        if steps is not None:
            most = min(most, steps)
        if self._limit is not None:
            most = min(most, self._limit - self._events)
        if self._travel is not None:
            most = self._travel.room(self._taken, most)
        real_time = self._speed is not None and steps is None
        upto = self._virtual_now() if real_time else None
        goal = self._goal if steps is None else None
        if goal is not None and (upto is None or upto >= goal):
            upto = goal
        visiting = real_time or self._stepping or goal is not None
        if self._fired is not None:
            most = min(most, 1)
        following = self._merge.peek() if most > 0 else None
        if following is not None and (upto is None or following <= upto):
            if visiting and not self._visit_due_times(following, deadline):
                return 0, 0.0
            if upto is not None and self._speed is not None:
                self._behind = max(0.0, (upto - following) / (self._stage.second * self._speed))
            return self._feed(following, most, upto, stepping=visiting), 0.0
        self._behind = 0.0
        if goal is not None and upto == goal:
            return self._arrive(goal, deadline)
        if self._stop:  # ordered while a source was waited for, which ended then
            return 0, 0.0
        if following is None:
            following = self._until
            if following is None or upto is None or following <= upto:
                self._finish("finished", deadline)
                return 0, 0.0
        assert upto is not None and self._speed is not None  # only real time holds events back
        if not self._visit_due_times(upto, deadline):
            return 0, 0.0
        return 0, max(0.001, (following - upto) / (self._stage.second * self._speed))

    def _arrive(self, goal: int, deadline: float) -> tuple[int, float]:
        """All that comes up to `goal` has come: the clock stops there, and the replay is paused."""
        if self._visit_due_times(goal, deadline):
            if goal > self._stage.now:
                self._stage.advance_to(goal)
            if self._travel is not None:
                self._travel.look(self._taken, self._events, self._stage.now)
            self._goal, self._hold = None, True
        return 0, 0.0

    def _feed(self, first: int, most: int, upto: int | None, *, stepping: bool) -> int:
        """Hand the engine what comes from the time `first` on; how many events that were, late ones included."""
        stage, end = self._stage, upto
        if stepping:
            end = first + self._portions.span
            end = end if upto is None else min(upto, end)
            if stage.next_due is not None and stage.next_due <= stage.now:  # waits for the next stop, whosever that is
                most = 1
                if first > stage.now:
                    stage.advance_to(first)
        now, self._stopped_at = stage.now, None
        parts = self._merge.take(most, end)
        taken = sum(len(part.times) for part in parts)
        if any(part.times[0] < now for part in parts):
            if self._late_rule == "error":
                early = min(parts, key=lambda part: part.times[0])
                raise before_clock(early.type_name, early.times[0], now, self._stage.second)
            parts, late = on_time(parts, now)
            self._late += late
        started = wall.perf_counter()
        self._feed_parts(parts, stepping)
        self._events += sum(len(part.times) for part in parts)
        self._taken += taken
        elapsed = wall.perf_counter() - started
        if self._travel is not None:
            self._travel.look(self._taken, self._events, self._stage.now, parts[0].times[0] if parts else None)
        span = self._stage.now - first
        cut = taken < most and end != upto
        self._portions.took(elapsed, taken, most, stepping=stepping, span=span, cut=cut)
        return taken

    # ---- real time

    def _virtual_now(self) -> int:
        """Event time that has come by the wall clock. The first event is due at once."""
        assert self._speed is not None
        if self._origin is None:
            first = self._merge.peek()
            start = self._stage.now if self._events or first is None else first
            self._origin = wall.perf_counter(), start
        since, start = self._origin
        return start + int((wall.perf_counter() - since) * self._stage.second * self._speed)

    def _visit_due_times(self, upto: int, deadline: float) -> bool:
        """Let the clock stop at every due time before `upto`, so that windows move while no event comes.

        Whether it came so far, was not interrupted and had the time.

        Stopping at due times only, never in between, keeps the output independent of the wall clock. What waits for
        the next advance, whatever its time, is due now, and gets it before the clock moves on; what waits again then
        does not keep it from doing so.
        """
        stage = self._stage
        bound = upto if self._until is None else min(upto, self._until)
        due = stage.due_after(stage.now) if self._stopped_at == stage.now else stage.next_due
        while stage.now < bound and due is not None and due <= bound:
            if self.interrupted:
                return False
            self._stopped_at = stop = max(due, stage.now)
            stage.advance_to(stop)
            due = stage.due_after(stop)
            if wall.perf_counter() >= deadline:
                break
        return stage.now >= bound or due is None or due > bound

    # ---- the end

    def _finish(self, state: str, deadline: float = float("inf")) -> None:
        stage = self._stage
        if state == "finished" and self._until is not None and self._until > stage.now:
            if (self._speed is not None or self._stepping) and not self._visit_due_times(self._until, deadline):
                return
            stage.advance_to(self._until)
        if self._travel is not None:
            self._travel.look(self._taken, self._events, stage.now)
        self._planned = self._total()
        self._end = state
        counts, errors = stage.counts()
        deliveries = {n: c - self._before.get(n, 0) for n, c in counts.items() if c > self._before.get(n, 0)}
        late = self._late + sum(source.late for source in self._sources)
        errors -= self._errors_before
        self._result = ReplayResult(state, self._events, stage.now, deliveries, late, errors, stage.second)
        self._merge = Merge(())
        self._feed_parts = lambda *_: None  # what took the events holds the engine, which may begin anew
        self._late, self._sources = late, ()  # a notebook keeps what its cells gave: that need not be the events
