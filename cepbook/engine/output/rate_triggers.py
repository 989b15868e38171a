"""Triggers: collected rows are due after n events, every period, at points of a crontab, or when a condition holds."""

from __future__ import annotations

from collections.abc import Callable

from cepbook.engine.state import State, initial
from cepbook.engine.time.calendar_periods import next_on_grid
from cepbook.engine.time.clock import NEVER

# A period: calendar months, clock units (null from variables), and the number of clock units in a second
PeriodLength = tuple[int | None, int | None, int] | tuple[int | None, int | None, int, str]


class OutputCounters(State):
    """The built-in properties of output conditions: numbers of entered and left events since the last output and in
    all. `last_output_timestamp` starts as the start time of the statement or its partition.
    """

    last_output_timestamp: int
    count_insert: int = initial(0)
    count_remove: int = initial(0)
    count_insert_total: int = initial(0)
    count_remove_total: int = initial(0)

    def add(self, n_in: int, n_out: int) -> None:
        self.count_insert += n_in
        self.count_insert_total += n_in
        self.count_remove += n_out
        self.count_remove_total += n_out

    def reset(self, now: int) -> None:
        self.count_insert = self.count_remove = 0
        self.last_output_timestamp = now


class OutputTrigger(State):
    """Decides when collected rows are delivered. `due` is the time of its timer, `NEVER` if it has none."""

    due: int = initial(NEVER)

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        """Count events that entered and left, and return whether the output is due at once."""
        raise NotImplementedError

    def fired(self, now: int) -> None:
        """Set `due` to the next time after the timer fired at `now`."""
        raise NotImplementedError


class LastKnownNumber(State):
    """A number that an expression returns; if it is null, the last number that was not."""

    _read: Callable[[int], int | None]
    _last: int | None = initial(None)

    def __call__(self, now: int) -> int | None:
        number = self._read(now)
        if number is not None:
            self._last = number
        return self._last


class EventCountTrigger(OutputTrigger):
    """Fires every n events; entered and left events are counted separately, and either count is enough."""

    _number: Callable[[int], int | None]
    _in: int = initial(0)
    _out: int = initial(0)

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        self._in += n_in
        self._out += n_out
        number = self._number(now)
        if number is None or (self._in < number and self._out < number):
            return False
        self._in = self._out = 0
        return True

    def fired(self, now: int) -> None: ...


class PeriodTrigger(OutputTrigger):
    """Fires every period. The grid starts with the first event; a new period applies from the next event or output."""

    _period: Callable[[int], PeriodLength]
    _origin: int | None = initial(None)
    _length: PeriodLength = initial((0, 0, 1000))

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        length = self._period(now)
        if self._origin is None or length != self._length:
            self._length = length
            self.fired(now)
        return False

    def fired(self, now: int) -> None:
        if self._origin is None:
            self._origin = now
        self._length = self._period(now)
        self.due = next_grid_point(now, self._origin, self._length)


def next_grid_point(now: int, origin: int, length: PeriodLength) -> int:
    """Return the first point after `now` of the grid through `origin`. Errors: ValueError for a length that is null or
    0.
    """
    months, units, *calendar = length
    if months is None or units is None:
        raise ValueError("the output rate is null")
    if months < 0 or units < 0 or not (months or units):
        raise ValueError("the output rate is not above 0")
    return next_on_grid(now, origin, months, units, *calendar)


class CrontabTrigger(OutputTrigger):
    """Fires at the points of a crontab, from the first event on."""

    _point_after: Callable[[int], int]
    _started: bool = initial(False)

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        if not self._started:
            self._started = True
            self.fired(now)
        return False

    def fired(self, now: int) -> None:
        self.due = self._point_after(now)


class ConditionTrigger(OutputTrigger):
    """Fires when a condition holds, which is evaluated after each event and after each assignment of its variables. If
    an assignment makes it hold, the then clause runs at once, and the rows follow at the next advance of time.
    """

    _holds: Callable[[int], bool]
    _then: Callable[[int], None] | None
    _assigning: bool = initial(False)

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        if not self._holds(now):
            return False
        self.assign(now)
        return True

    def changed(self, now: int) -> bool:
        """Reevaluate the condition after an assignment, and return whether it holds."""
        if self._assigning or not self._holds(now):  # the then clause must not trigger itself
            return False
        self.assign(now)
        self.due = min(self.due, now)
        return True

    def fired(self, now: int) -> None:
        self.due = NEVER

    def assign(self, now: int) -> None:
        """Run the then clause."""
        if self._then is None:
            return
        self._assigning = True
        try:
            self._then(now)
        finally:
            self._assigning = False


class ImmediateTrigger(OutputTrigger):
    """Fires at once; only ``after`` holds rows back."""

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        return True

    def fired(self, now: int) -> None: ...


class TerminationTrigger(OutputTrigger):
    """Never fires; rows are released when the context partition ends."""

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        return False

    def fired(self, now: int) -> None: ...
