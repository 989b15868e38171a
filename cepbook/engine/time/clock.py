"""Engine time: an input, in integer milliseconds. Nothing here reads a wall clock.

``advance(t)`` is one step. Everything due at or before ``t`` runs once, with the time ``t`` (facts recorded from the
reference: a jump over several timer points evaluates each timer once, at the target).
``stepping`` visits every due time on the way instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cepbook.engine.time.timers import NEVER, DispatchOrder, DueEntry, DueQueue, OwnerTimers

__all__ = ["LAST_TIME", "NEVER", "Clock"]

LAST_TIME = (1 << 61) - 1


class Clock(DueQueue[DispatchOrder]):
    """`now` is the time; `due` the earliest time at which anything is to happen (`NEVER` if nothing).

    Its paths are the orders of the owners of timers.
    """

    __slots__ = ("_by_time", "_owners", "_place", "now")
    SAVED = ("_when", "_owners", "now")

    def __init__(self, start: int, place: Callable[[DispatchOrder], DispatchOrder] | None = None) -> None:
        """`place` gives what owners are sorted by at one advance; None: their order.

        By their order a context that ends partitions has its turn before the statements of these, whatever was due
        earlier (recorded: nw_context_seed_speeding); with a `place` what is due before it comes before it (recorded in
        the corrections, which have no priorities).
        """
        super().__init__()
        self.now = start
        self._place = place or tuple
        self._by_time = place is not None
        self._owners: dict[DispatchOrder, OwnerTimers] = {}

    def follow(self, timers: OwnerTimers) -> None:
        """Run `timers` when they are due."""
        self._owners[timers.order] = timers
        self.arm(timers.order, timers.due)

    def leave(self, timers: OwnerTimers) -> None:
        """Do not."""
        self.arm(timers.order, NEVER)
        self._owners.pop(timers.order, None)

    def suspend_timers(self, owners: Iterable[OwnerTimers]) -> None:
        """Run nothing of `owners` until `restore_timers`; meanwhile nothing may arm them."""
        for timers in owners:
            self.leave(timers)

    def restore_timers(self, owners: Iterable[OwnerTimers]) -> None:
        """Undo `suspend_timers`."""
        for timers in owners:
            self.follow(timers)

    def beyond(self, time: int) -> int:
        if self.due > time:
            return self.due
        return min((each.beyond(time) for each in self._owners.values()), default=NEVER)

    def pop_due(self, t: int) -> list[tuple[OwnerTimers, list[DueEntry]]]:
        """Remove and return everything due at or before `t`, in the order in which it is to be run.

        What is armed meanwhile waits for the next advance, whatever its time.
        """
        if len(self._heap) == 1 and self.due <= t:  # the commonest: nobody else has any timer
            order = self._heap.pop()[1]
            self._when.clear()
            self.due = NEVER
            timers = self._owners[order]
            entries = DueQueue.take(timers, t)
            if timers.due < NEVER:
                self.arm(order, timers.due)
            return [(timers, entries)]
        found: list[tuple[OwnerTimers, list[DueEntry]]] = []
        while self.due <= t:
            order = self.pop()
            timers = self._owners[order]
            found.append((timers, DueQueue.take(timers, t)))
            if timers.due < NEVER:
                self.arm(order, timers.due)
        if len(found) > 1:
            found.sort(key=self._place_of)
            if self._by_time and any(timers.leads for timers, _ in found):
                return self._around_leading(found)
        return found

    def _place_of(self, due: tuple[OwnerTimers, list[DueEntry]]) -> DispatchOrder:
        place = self._place(due[0].order)
        return (place[0], 0, *place[1:]) if due[0].drops else place  # no serial number is below 1

    def _around_leading(
        self, found: list[tuple[OwnerTimers, list[DueEntry]]]
    ) -> list[tuple[OwnerTimers, list[DueEntry]]]:
        """The same, with the entries of owners that lead at their own time: what is due before them comes before."""
        entries = [(entry[0], self._place_of(each), entry, each[0]) for each in found for entry in each[1]]
        entries.sort(key=lambda each: each[:2])
        ordered: list[tuple[OwnerTimers, list[DueEntry]]] = []
        waiting: dict[DispatchOrder, tuple[OwnerTimers, list[DueEntry]]] = {}
        for _, place, entry, timers in entries:
            if timers.leads:
                ordered += sorted(waiting.values(), key=self._place_of)
                ordered.append((timers, [entry]))
                waiting.clear()
            else:
                waiting.setdefault(place, (timers, []))[1].append(entry)
        return ordered + sorted(waiting.values(), key=self._place_of)
