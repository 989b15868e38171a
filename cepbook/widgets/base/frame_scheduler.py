"""When a widget sends its next frame to the browser: conflation and back-pressure.

No frame follows one that asks for an acknowledgement before that has come. So a slow browser gets fewer and newer
frames instead of a queue that overflows silently. Receiving an acknowledgement costs the kernel more than making a
frame, so while they come at once, only some frames in a row ask. A lost frame is replaced after one second.

No thread is needed: while an asyncio loop runs, frames are timers on it; in a blocking cell, the replay calls `flush`
between its slices.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

RESEND_AFTER = 1.0  # seconds without an acknowledgement
GIVE_UP_AFTER = 30  # frames in a row without an acknowledgement: the page was closed
REST_FACTOR = 12  # a frame that cost t seconds of processor time is followed by a rest of at least REST_FACTOR * t
LONG_REST_FACTOR = 40  # and of LONG_REST_FACTOR * t, as long as frames stay fluent:
FLUENT_REST = 0.055  # seconds of rest that leave ten frames per second, and some for a slice of the replay
SEND_COST = 0.002  # seconds that the kernel's threads spend on sending a frame, besides building it
ACK_COST = 0.0022  # and on an acknowledgement, all that comes with it included
MAX_UNACKNOWLEDGED = 6  # of so many frames that follow each other one asks for an answer, at least
MAX_LAG = 0.6  # seconds that a browser may be behind: the longer answers take, the more frames ask
RUN_PAUSE = 0.25  # seconds without a frame that end a row of them


class FrameScheduler:
    """Calls `build(number)` when a frame is due.

    `build` makes and sends one frame of the newest state, or returns False if nothing changed. If it calls `spare` and
    the result is True, it must tell the browser not to acknowledge the frame. `rate` is the maximum of frames per
    second. `touch` and `hurry` announce a change, `open` a listening browser, `ack(number)` that the browser has drawn
    a frame. They may be called from any thread and only set flags; `build` runs on the loop, or inside `flush`.

    The cost of a frame is the processor time `spent` by the thread, which does not grow on a busy machine.
    """

    def __init__(
        self,
        build: Callable[[int], bool],
        *,
        rate: float = 20.0,
        now: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._build = build
        self._interval = 1.0 / rate
        self._now = now
        self._spent = spent
        self._is_open = False
        self._dirty = False
        self._number = 0
        self._requested_ack = 0  # the last frame that requests an acknowledgement
        self._acknowledged = 0
        self._requested_at = 0.0
        self._ack_latency = float("inf")  # seconds until the last acknowledgement
        self._shared_cost = 0.0  # seconds of the frame that is being built, see `share`
        self._may_skip_ack = False  # whether the frame that is being built may go without
        self._unacknowledged_run = False  # whether the last one did, so that nobody knows whether it arrived
        self._flushes_without_ack = 0
        self._sent_at = 0.0
        self._earliest = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._ends_run = False  # whether it is for the end of a run only
        self._reminder: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._find_loop()

    @property
    def is_open(self) -> bool:
        """True if a browser has asked for frames and still acknowledges them."""
        return self._is_open

    @property
    def is_due(self) -> bool:
        """True if a browser listens, and `flush` would send a change."""
        return self._is_open and self._now() >= self._next()

    @property
    def acked(self) -> int:
        """The number of the last frame that the browser has drawn for certain; 0 before the first."""
        return self._acknowledged

    def spare(self) -> bool:
        """Return, for `build`, whether the frame that it makes needs no acknowledgement."""
        spared, self._may_skip_ack = self._may_skip_ack, False
        if spared:
            self._unacknowledged_run = True
        return spared

    def share(self, seconds: float) -> None:
        """Leave processor time of the frame that `build` makes out of its cost: work that some frame has to do once,
        however many follow, such as reading the rows that arrived. A rest would not save it.
        """
        self._shared_cost += seconds

    def touch(self) -> None:
        """Announce a change. Cheap: called for every delivery of a statement."""
        self._dirty = True
        if self._is_open and (self._timer is None or self._ends_run):
            self._wake(again=True)

    def hurry(self) -> None:
        """Announce a change that a reader waits for: the next frame needs no rest, whatever the last one cost."""
        self._dirty = True
        self._earliest = 0.0
        if self._is_open:
            self._wake(again=True)

    def remind(self, delay: float) -> None:
        """Touch again after `delay` seconds, if a loop runs; otherwise the next `touch` or `flush` does it."""
        if self._loop is not None and self._reminder is None:
            self._reminder = self._loop.call_later(delay, self._reminded)

    def soon(self, fn: Callable[[], object]) -> bool:
        """Call `fn` at the next turn of the loop; return False if none is known. May be called from any thread."""
        if not self._find_loop() or self._loop is None or self._loop.is_closed():
            return False
        self._loop.call_soon_threadsafe(fn)
        return True

    def open(self) -> None:
        """Let frames flow to a listening browser, the first one at once."""
        self._is_open = True
        self._flushes_without_ack = 0
        self._acknowledged = self._requested_ack = self._number
        self._ack_latency = float("inf")
        self._earliest = 0.0
        self._dirty = True
        self._wake()

    def shut(self) -> None:
        """Stop sending until `open`, because no browser listens."""
        self._is_open = False
        self._flushes_without_ack = 0

    def ack(self, number: int) -> None:
        """Note that the browser has drawn frame `number`."""
        if self._acknowledged < number <= self._number:
            self._acknowledged = number
            self._ack_latency = self._now() - self._requested_at
            if self._flushes_without_ack > GIVE_UP_AFTER:  # the page was busy, and is there after all
                self._is_open = self._dirty = True
            self._flushes_without_ack = 0
            self._wake(again=True)

    def close(self) -> None:
        """Stop for good."""
        self._is_open = False
        self._loop = None
        for handle in (self._timer, self._reminder):
            if handle is not None:
                handle.cancel()
        self._timer = self._reminder = None

    def flush(self, *, urgent: bool = False) -> bool:
        """Send a frame if one is due (`urgent`: even right after the last); return whether one was sent."""
        if not self._is_open:
            return False
        now = self._now()
        ends = (
            self._unacknowledged_run and now >= self._sent_at + RUN_PAUSE
        )  # the last of a run is sent again, and requests one
        if not (self._dirty or ends) or now < self._next(urgent=urgent):
            return False
        if self._waits:
            self._flushes_without_ack += 1
            if self._flushes_without_ack > GIVE_UP_AFTER:
                self._is_open = False
                return False
        unacknowledged = self._number + 1 - self._requested_ack
        self._may_skip_ack = (
            not urgent
            and now < self._sent_at + RUN_PAUSE
            and unacknowledged < MAX_UNACKNOWLEDGED
            and unacknowledged * self._ack_latency < MAX_LAG
        )
        self._dirty = self._unacknowledged_run = False
        self._number += 1  # before the frame leaves: its acknowledgement may come in another thread
        last_request = self._requested_ack, self._requested_at
        self._requested_ack, self._requested_at = self._number, now
        self._shared_cost = 0.0
        before = self._spent()
        if not self._build(self._number):
            self._number -= 1
            self._requested_ack, self._requested_at = last_request
            return False
        if self._unacknowledged_run:
            self._requested_ack, self._requested_at = last_request
        self._sent_at = self._now()
        cost = self._spent() - before - self._shared_cost + SEND_COST + (0 if self._unacknowledged_run else ACK_COST)
        self._earliest = self._sent_at + max(
            self._interval, REST_FACTOR * cost, min(LONG_REST_FACTOR * cost, FLUENT_REST)
        )
        if self._dirty and self._timer is not None:  # `build` announced a change when the frame had not left yet
            self._wake(again=True)
        return True

    @property
    def _waits(self) -> bool:
        """True if a frame requests an acknowledgement that has not come."""
        return self._acknowledged < self._requested_ack

    def _next(self, *, urgent: bool = False) -> float:
        """Return the time at which the next frame may leave."""
        return self._sent_at + RESEND_AFTER if self._waits else 0 if urgent else self._earliest

    def _find_loop(self) -> bool:
        if self._loop is None:
            try:
                self._loop = asyncio.get_running_loop()
            except RuntimeError:
                return False
        return True

    def _wake(self, again: bool = False) -> None:
        if not self._find_loop() or self._loop is None:
            return
        try:
            inside = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            inside = False
        if inside:
            self._schedule(again)
            return
        try:
            self._loop.call_soon_threadsafe(self._schedule, again)
        except RuntimeError:  # the loop was closed; the next one that runs is found again
            self._loop = None

    def _schedule(self, again: bool = False) -> None:
        if self._loop is None or not self._is_open:
            return
        if self._timer is not None:
            if not again:
                return
            self._timer.cancel()
        self._ends_run = not (self._dirty or self._waits)
        due = max(self._next(), self._sent_at + RUN_PAUSE) if self._ends_run else self._next()
        self._timer = self._loop.call_later(max(0.0, due - self._now()), self._tick)

    def _reminded(self) -> None:
        self._reminder = None
        self.touch()

    def _tick(self) -> None:
        self._timer = None
        if self._waits and self._now() >= self._sent_at + RESEND_AFTER:
            self._dirty = True  # the last frame was lost, and it must not be missing only because nothing followed
        self.flush()
        if self._dirty or self._waits or self._unacknowledged_run:
            self._schedule()
