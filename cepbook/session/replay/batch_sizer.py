"""The number of events that the engine takes with one call."""

from __future__ import annotations

from collections.abc import Callable

SLICE = 0.010  # seconds of work between two turns of the event loop
PIECES = (16, 8_192)  # minimum and maximum number of events per call; between them, as many as take SLICE
CALLED = 1_024  # maximum where user code is called, which may be slow all of a sudden
LONGEST = 3600  # maximum seconds of event time per call if the clock stops at due times


class BatchSizer:
    """The maximum number of `events` of a call, and the maximum `span` of event time (clock units), so that it takes
    about `SLICE` seconds.

    The span matters where the clock stops at every due time, because the number of stops is not known beforehand. A
    call runs to its end even if Ctrl-C is pressed, so both limits start small and grow stepwise. `LONGEST` covers
    timers that are set within the call. One slow call is enough to reduce the number of events. If ``called()`` is
    true, user code is called: the first call has one event, and a call has at most `CALLED`.
    """

    def __init__(self, second: int, called: Callable[[], bool] = lambda: False) -> None:
        self._called = called
        self._events = 1 if called() else PIECES[0]
        self._last = (0, 0.0)  # events and seconds of the last slow call
        self._fixed = False  # calls are slow whatever the number of events
        self.span = second // 10
        self._longest = LONGEST * second

    @property
    def events(self) -> int:
        """The maximum number of events of the next call."""
        return min(self._events, self._most)

    @property
    def _most(self) -> int:
        return min(CALLED, PIECES[1]) if self._called() else PIECES[1]

    def took(self, seconds: float, events: int, most: int, *, stepping: bool, span: int, cut: bool) -> None:
        """Adapt to a call of `seconds` for `events` of at most `most` in `span`; `cut`: the span limited it."""
        if seconds > SLICE:
            fewest = 1 if stepping or self._dear(seconds, events) else PIECES[0]
            self._events = max(fewest, min(self.events // 2, int(events * SLICE / seconds)))
            if stepping and span:
                self.span = max(1, min(span // 2, int(span * SLICE / seconds)))
        elif seconds < SLICE / 2:
            if events == most == self.events:
                self._events = min(self._most, max(1, self._events) * 2)
            if cut:
                self.span = min(self._longest, self.span * 2)

    def _dear(self, seconds: float, events: int) -> bool:
        before, took = self._last
        self._fixed = self._fixed or (events < before and seconds > 0.9 * took)
        self._last = events, seconds
        return not self._fixed and seconds > SLICE * max(events, 1)
