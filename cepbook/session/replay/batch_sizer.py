"""How much of a replay the engine takes with one call."""

from __future__ import annotations

from collections.abc import Callable

SLICE = 0.010  # seconds of work between two turns of the event loop
PIECES = (16, 8_192)  # fewest and most events per call of the engine; between, as many as take up to SLICE
CALLED = 1_024  # most events where code of the user is called, which may take long all of a sudden
LONGEST = 3600  # seconds of event time per call at most, where the clock stops whenever something is due


class BatchSizer:
    """Most `events` of a call, and most `span` of event time (clock units), so that it takes up to `SLICE`.

    The span matters where the clock stops whenever something is due: how often is not known before. A call that has
    begun goes on to its end (nobody hears of Ctrl-C before), so both begin small and grow by steps, and `LONGEST` is
    for timers that are set within it. One call that took long is enough to know how many events would not have. With
    `called()` code of the user takes part: then it begins with one event, and a call has at most `CALLED`.
    """

    def __init__(self, second: int, called: Callable[[], bool] = lambda: False) -> None:
        self._called = called
        self._events = 1 if called() else PIECES[0]
        self._last = (0, 0.0)  # events of the last call that took long, and its seconds
        self._fixed = False  # calls take long, whatever the number of events
        self.span = second // 10
        self._longest = LONGEST * second

    @property
    def events(self) -> int:
        """The most events of the next call."""
        return min(self._events, self._most)

    @property
    def _most(self) -> int:
        return min(CALLED, PIECES[1]) if self._called() else PIECES[1]

    def took(self, seconds: float, events: int, most: int, *, stepping: bool, span: int, cut: bool) -> None:
        """A call with `events` of at most `most`, which came within `span`, took so long; `cut`: others came behind."""
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
        """Whether each of so many events takes long. Where fewer of them took as long as more, it is the calls."""
        before, took = self._last
        self._fixed = self._fixed or (events < before and seconds > 0.9 * took)
        self._last = events, seconds
        return not self._fixed and seconds > SLICE * max(events, 1)
