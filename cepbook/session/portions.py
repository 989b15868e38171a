"""How much of a replay the engine takes with one call."""

from __future__ import annotations

SLICE = 0.010  # seconds of work between two turns of the event loop
PIECES = (16, 8_192)  # fewest and most events per call of the engine; between, as many as take up to SLICE
LONGEST = 3600  # seconds of event time per call at most, where the clock stops whenever something is due


class Portions:
    """Most `events` of a call, and most `span` of event time (clock units), so that it takes up to `SLICE`.

    The span matters where the clock stops whenever something is due: how often is not known before. A call that has
    begun goes on to its end, so both begin small and grow by steps, and `LONGEST` is for timers that are set within it.
    """

    def __init__(self, second: int) -> None:
        self.events = PIECES[0]
        self.span = second // 10
        self._longest = LONGEST * second

    def took(self, seconds: float, events: int, most: int, *, stepping: bool, span: int, cut: bool) -> None:
        """A call with `events` of at most `most`, which came within `span`, took so long; `cut`: others came behind."""
        if seconds > SLICE:
            self.events = max(1 if stepping else PIECES[0], self.events // 2)
            if stepping and span:
                self.span = max(1, span // 2)
        elif seconds < SLICE / 2:
            if events == most == self.events:
                self.events = min(PIECES[1], self.events * 2)
            if cut:
                self.span = min(self._longest, self.span * 2)
