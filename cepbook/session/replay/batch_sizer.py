"""The number of events that the engine takes with one call."""

from __future__ import annotations

from collections.abc import Callable

SLICE = 0.010  # seconds of work between two turns of the event loop
LONG_SLICE = 0.100  # the same if no event loop waits
FIRST = 16  # events of the first call
MOST = 8_192  # maximum number of events of a call
CALLED = 1_024  # the same where user code is called, which may be slow all of a sudden
GROWTH = 4  # factor by which the number of events may grow after a call
MAX_SPAN_GROWTH = 64  # the same for the span


class BatchSizer:
    """The maximum number of `events` of a call, and the maximum `span` of event time (clock units).

    A call of n events takes ``fixed + n * each`` seconds. Both costs are estimated from calls of different sizes. A
    call gets as many events as take `aim` seconds, and more if the fixed cost would be the larger part.

    The span matters where the clock stops at every due time, because the number of stops is not known beforehand. A
    call runs to its end even if Ctrl-C is pressed, so both limits start small and grow stepwise. One slow call is
    enough to reduce them. If ``called()`` is true, user code is called: the first call has one event, and a call has at
    most `CALLED`.
    """

    def __init__(self, second: int, called: Callable[[], bool] = lambda: False) -> None:
        self.aim = SLICE
        self.span = second // 10
        self._called = called
        self._events = 1 if called() else FIRST
        self._fixed = 0.0
        self._last = (0, 0.0)  # events and seconds of the last call

    @property
    def events(self) -> int:
        """The maximum number of events of the next call."""
        return min(self._events, CALLED if self._called() else MOST)

    def took(self, seconds: float, events: int, most: int, *, stepping: bool, span: int, cut: bool) -> None:
        """Adapt to a call of `seconds` for `events` of at most `most` in `span`; `cut`: the span limited it."""
        if stepping and span and seconds > self.aim:
            self.span = max(1, min(span // 2, int(span * self.aim / seconds)))
        elif cut and seconds < self.aim / 2:
            self.span *= max(1, min(MAX_SPAN_GROWTH, int(self.aim / 2 / seconds)) if seconds else MAX_SPAN_GROWTH)
        if not events:
            return
        best = self._best(events, seconds)
        if best < events:
            self._events = best
        elif events == most == self.events:
            self._events = min(best, GROWTH * events)

    def _best(self, events: int, seconds: float) -> int:
        before, earlier = self._last
        self._last = events, seconds
        if max(events, before) >= 2 * min(events, before) > 0:
            smaller, larger = sorted(((before, earlier), (events, seconds)))
            each = max(0.0, larger[1] - smaller[1]) / (larger[0] - smaller[0])
            self._fixed = max(0.0, min(earlier, seconds, smaller[1] - smaller[0] * each))
        fixed = min(self._fixed, seconds)
        each = (seconds - fixed) / events
        return max(1, min(MOST, int(max(self.aim - fixed, fixed) / each))) if each * MOST > self.aim else MOST
