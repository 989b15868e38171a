"""The number of events that the engine takes with one call."""

from __future__ import annotations

from collections.abc import Callable

SLICE = 0.010  # seconds of work between two turns of the event loop
LONG_SLICE = 0.100  # the same if no event loop waits
FIRST = 16  # events of the first call
MOST = 32_768  # maximum number of events of a call
CALLED = 1_024  # the same where user code is called, which may be slow all of a sudden
GROWTH = 4  # factor by which the number of events may grow after a call
MAX_SPAN_GROWTH = 64  # the same for the span


class BatchSizer:
    """The maximum number of `events` of a call, and the maximum `span` of event time (clock units).

    A call of n events takes ``overhead + n * each`` seconds. Both costs are estimated from calls of different sizes. A
    call gets as many events as take `aim` seconds, and more if the overhead would be the larger part.

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
        self._overhead: float | None = None  # seconds of a call without events, as far as known
        self._last = (0, 0.0)  # events and seconds of the last call

    @property
    def events(self) -> int:
        """The maximum number of events of the next call."""
        return min(self._events, CALLED if self._called() else MOST)

    def took(self, seconds: float, events: int, most: int, *, stepping: bool, span: int, cut: bool) -> None:
        """Adapt to a call of `seconds` for `events` of at most `most` in `span`; `cut`: the span limited it."""
        if not events:
            return
        overhead = self._estimate_overhead(events, seconds)
        allowed, variable = max(self.aim - overhead, overhead), seconds - overhead
        if variable > allowed:
            self._events = max(1, int(events * allowed / variable))
            if stepping and span:
                self.span = max(1, int(span * allowed / variable))
            return
        room = allowed / variable if variable else MAX_SPAN_GROWTH
        if events == most == self.events:
            self._events = min(MOST, int(events * min(GROWTH, room)))
        if cut:
            self.span *= max(1, int(min(MAX_SPAN_GROWTH, room / 2)))

    def _estimate_overhead(self, events: int, seconds: float) -> float:
        before, earlier = self._last
        self._last = events, seconds
        overhead = seconds if self._overhead is None else min(self._overhead, seconds)
        if max(events, before) >= 2 * min(events, before) > 0:
            (fewer, less), (more, longer) = sorted(((before, earlier), (events, seconds)))
            overhead = max(0.0, min(less, longer, less - fewer * (longer - less) / (more - fewer)))
        self._overhead = overhead
        return overhead
