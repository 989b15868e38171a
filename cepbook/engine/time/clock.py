"""The engine clock: time is an input, an integer number of milliseconds. No code here reads a wall clock.

`advance(t)` is one step: everything due at or before `t` runs once, with the time `t`. A jump over several due times of
one timer evaluates that timer once, at the target (recorded from the reference). With `stepping` the clock stops at
every due time on the way instead.

::

    due times       10   20   30              advance(35)            fires once, now = 35
    clock      0 ────•────•────•──── 35       advance(35, stepping)  fires at 10, 20, 30
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cepbook.argument_checks import short_repr
from cepbook.display import format_time
from cepbook.engine.time.timers import NEVER, DispatchOrder, DueEntry, DueQueue, OwnerTimers, TimerFollower
from cepbook.errors import EventError

__all__ = ["LAST_TIME", "NEVER", "Clock", "check_unit"]

LAST_TIME = (1 << 61) - 1
_YEARS = (631_152_000, 4_102_444_800)  # seconds from 1970 to 1990 and to 2100
_FOREIGN = {"seconds": 1, "ms": 1000, "µs": 1_000_000, "ns": 1_000_000_000}
_PANDAS = {1: "s", 1000: "ms", 1_000_000: "us", 1_000_000_000: "ns"}
_SPARK = {
    1: "timestamp_seconds({})",
    1000: "timestamp_millis({})",
    1_000_000: "timestamp_micros({})",
    1_000_000_000: "timestamp_micros({} div 1000)",
}
_UNITS = {1000: "ms", 1_000_000: "µs"}

_DueOwners = list[tuple[OwnerTimers, list[DueEntry]]]


class Clock(DueQueue[DispatchOrder], TimerFollower):
    """Engine time and the timers of all owners. Its entries are the orders of the owners.

    `now` is engine time in ms, and `due` the earliest time at which anything is due, `NEVER` if nothing is. While
    timers run, `former` is the time before the clock moved to `now`.
    """

    __slots__ = ("_by_time", "_owners", "_place", "former", "now")
    SAVED = ("_when", "_owners", "now")

    def __init__(self, start: int, place: Callable[[DispatchOrder], DispatchOrder] | None = None) -> None:
        """Create a clock at `start`. `place` gives the sort key of an owner's order; None: the order itself.

        Without `place` owners run in their order, whatever was due earlier: a context that ends partitions runs before
        the statements of these partitions (recorded: nw_context_seed_speeding). With `place` (no priorities) an earlier
        due time comes first (recorded in the corrections).
        """
        super().__init__()
        self.now = self.former = start
        self._place = place or tuple
        self._by_time = place is not None
        self._owners: dict[DispatchOrder, OwnerTimers] = {}

    def follow(self, timers: OwnerTimers) -> None:
        """Run `timers` when they are due."""
        self._owners[timers.order] = timers
        self.arm(timers.order, timers.due)

    def leave(self, timers: OwnerTimers) -> None:
        """Stop running `timers`."""
        self.arm(timers.order, NEVER)
        self._owners.pop(timers.order, None)

    def suspend_timers(self, owners: Iterable[OwnerTimers]) -> None:
        """Stop running the timers of `owners` until `restore_timers`. They must not be armed meanwhile."""
        for timers in owners:
            self.leave(timers)

    def restore_timers(self, owners: Iterable[OwnerTimers]) -> None:
        """Undo `suspend_timers`."""
        for timers in owners:
            self.follow(timers)

    def beyond(self, time: int) -> int:
        if self.due > time:
            return self.due
        return min((timers.beyond(time) for timers in self._owners.values()), default=NEVER)

    def pop_due(self, t: int) -> _DueOwners:
        """Remove and return everything due at or before `t`, in the order in which it must run.

        A timer that is armed meanwhile waits for the next advance, whatever its time.
        """
        if len(self._heap) == 1 and self.due <= t:  # the most common case: one owner has timers
            order = self._heap.pop()[1]
            self._when.clear()
            self.due = NEVER
            timers = self._owners[order]
            entries = DueQueue.take(timers, t)
            if timers.due < NEVER:
                self.arm(order, timers.due)
            return [(timers, entries)]
        due_owners: _DueOwners = []
        while self.due <= t:
            order = self.pop()
            timers = self._owners[order]
            due_owners.append((timers, DueQueue.take(timers, t)))
            if timers.due < NEVER:
                self.arm(order, timers.due)
        if len(due_owners) > 1:
            due_owners.sort(key=self._place_of)
            if self._by_time and any(timers.leads for timers, _ in due_owners):
                return self._around_leading(due_owners)
        return due_owners

    def _place_of(self, due: tuple[OwnerTimers, list[DueEntry]]) -> DispatchOrder:
        place = self._place(due[0].order)
        return (place[0], 0, *place[1:]) if due[0].drops else place  # no serial number is below 1

    def _around_leading(self, due_owners: _DueOwners) -> _DueOwners:
        """Order the entries so that everything due before an entry of a leading owner runs before it."""
        entries = [(entry[0], self._place_of(due), entry, due[0]) for due in due_owners for entry in due[1]]
        entries.sort(key=lambda entry_owner: entry_owner[:2])
        ordered: _DueOwners = []
        pending: dict[DispatchOrder, tuple[OwnerTimers, list[DueEntry]]] = {}
        for _, place, entry, timers in entries:
            if timers.leads:
                ordered += sorted(pending.values(), key=self._place_of)
                ordered.append((timers, [entry]))
                pending.clear()
            else:
                pending.setdefault(place, (timers, []))[1].append(entry)
        return ordered + sorted(pending.values(), key=self._place_of)


def check_unit(where: str, name: str, first: int, last: int, now: int, second: int, *, spark: bool = False) -> None:
    """Raise EventError if whole numbers `first` to `last` can only be times in another unit than the clock's.

    Other systems store times as seconds, milliseconds, microseconds or nanoseconds since 1970. Taken in a wrong unit
    they are no error: seconds are moments in January 1970, and every window would be a thousand times too long. Such
    numbers are dates from 1990 to 2100 in the other unit, and in the clock's unit a few days in 1970 or the far
    future. Small ones are accepted if the clock, `now`, already counts in such numbers. The hint has the line that
    converts a column `name`, of a DataFrame of pandas or of `spark`.
    """
    for unit, units in _FOREIGN.items():
        lowest, highest = (bound * units for bound in _YEARS)
        counted = units < second and 0 < now <= highest
        if units != second and lowest <= first and last <= highest and not counted:
            dates = dict.fromkeys(format_time(time * 1_000_000 // units, second=1_000_000) for time in (first, last))
            own, factor = _UNITS[second], f"*= {second // units}" if units < second else f"//= {units // second}"
            hint = (
                f'frame["{name}"] = pd.to_datetime(frame["{name}"], unit="{_PANDAS[units]}"), in a dict '
                f'event["{name}"] {factor}; if the numbers are {own} after all, unit="{_PANDAS[second]}"'
            )
            if spark:
                line, same = (f'F.expr("{_SPARK[of].format(f"`{name}`")}")' for of in (units, second))
                hint = f'frame = frame.withColumn("{name}", {line}); if the numbers are {own} after all, {same}'
            raise EventError(
                f"{where}: {short_repr(first)} can only be a time in {unit} ({' to '.join(dates)}); the clock counts "
                f"{own}\n  hint: {hint}"
            )
