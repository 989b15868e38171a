"""``output first``: rows are delivered at once, then there is silence; grouped statements keep one for each group."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from cepbook.engine.output.collectors import CollectorOptions, KeyedRows, Rows
from cepbook.engine.output.rate_triggers import PeriodLength, next_grid_point
from cepbook.engine.state import State
from cepbook.engine.time.calendar_periods import add_months


class OutputGate(State):
    """Decides whether rows may pass. A gate begins open; rows that pass shut it."""

    __slots__ = ()

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        """Count events that entered and left, and return whether rows may pass now."""
        raise NotImplementedError

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        """Shut the gate behind the rows of events that entered and left."""
        raise NotImplementedError


class CountGate(OutputGate):
    """Opens with the n-th event behind the one that shut it; entering and leaving ones are counted apart."""

    __slots__ = ("_in", "_number", "_open", "_out")

    def __init__(self, number: Callable[[int], int | None]) -> None:
        self._number = number
        self._open = True
        self._in = self._out = 0

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        if not self._open:
            self._in += n_in
            self._out += n_out
            self._look(now)
        return self._open

    def _look(self, now: int) -> None:
        number = self._number(now)
        self._open = number is not None and (self._in >= number or self._out >= number)

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        self._open = False
        self._in = self._out = 0


class StimulusGate(CountGate):
    """Opens behind the n-th event, counted from the one that shut it.

    What comes together with the n-th one does not pass (recorded: output_first_every_events).
    """

    __slots__ = ()

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        if not self._open:
            self._look(now)
            self._in += n_in
            self._out += n_out
        return self._open

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        self._open = False
        self._in, self._out = n_in, n_out


class CrontabGate(OutputGate):
    """Opens at the point that follows the shutting."""

    __slots__ = ("_point_after", "_until")

    def __init__(self, point_after: Callable[[int], int]) -> None:
        self._point_after = point_after
        self._until: int | None = None

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        return self._until is None or now >= self._until

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        self._until = self._point_after(now)


class PeriodGate(OutputGate):
    """Opens a period after the shutting; `within`: right behind the period's last instant, else with it."""

    __slots__ = ("_period", "_until", "_within")

    def __init__(self, period: Callable[[int], PeriodLength], *, within: bool) -> None:
        self._period = period
        self._until: int | None = None
        self._within = within

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        return self._until is None or now > self._until or (now == self._until and not self._within)

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        self._until = end_of_period(self._period(now), now)


class GridGate(OutputGate):
    """Opens at the points of the grid that starts with the first event, whether it passed or not."""

    __slots__ = ("_origin", "_period", "_until")

    def __init__(self, period: Callable[[int], PeriodLength]) -> None:
        self._period = period
        self._origin: int | None = None
        self._until: int | None = None

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        if self._origin is None:
            self._origin = now
        return self._until is None or now >= self._until

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        assert self._origin is not None
        self._until = next_grid_point(now, self._origin, self._period(now))


class ConditionGate(OutputGate):
    """Opens when it is told to."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open = True

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        return self._open

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        self._open = False

    def open(self) -> None:
        """The condition holds."""
        self._open = True


def end_of_period(length: PeriodLength, start: int) -> int:
    """The end of a period that starts at a given time; what is null has no length."""
    months, units, *calendar = length
    return (add_months(start, months, *calendar) if months else start) + (units or 0)


class FirstRows(State):
    """Of statements without groups: all rows of the stimulus that finds the gate open."""

    def __init__(self, form: CollectorOptions, gate: OutputGate) -> None:
        self._form = form
        self._gate = gate

    def take(self, now: int, ins: Rows, rem: Rows, n_in: int, n_out: int) -> tuple[Rows, Rows] | None:
        """The rows that pass; None if nothing does."""
        is_open = self._gate.arrived(now, n_in, n_out)
        if not (is_open and (rem if self._form.selector == "rstream" else ins or rem)):
            return None
        self._gate.shut(now, n_in, n_out)
        return ins, rem

    def reopen(self) -> None:
        """The condition of ``output first when`` holds."""
        if isinstance(self._gate, ConditionGate):
            self._gate.open()


class FirstRowsOfGroups(State):
    """Of grouped statements: each group has a gate of its own.

    `take` is given the keys of the entering and leaving events, one by one, in place of their numbers. The gates of
    groups begin as copies of `gate`.
    """

    def __init__(self, form: CollectorOptions, gate: OutputGate) -> None:
        self._form = form
        self._fresh = gate
        self._gates: dict[Any, OutputGate] = {}  # an open gate is as good as none
        self._most = _MANY

    def take(
        self, now: int, ins: KeyedRows, rem: KeyedRows, keys_in: list[Any], keys_out: list[Any]
    ) -> tuple[Rows, Rows] | None:
        """The rows that pass; None if nothing does."""
        if self._form.kind == "aggregated_grouped":
            found = self._rows(now, ins, keys_in, 1), self._rows(now, rem, keys_out, 0)
            if self._form.leaving:  # recorded: output_first_grouped_leaving_event_is_an_insert_row
                found = [*found[0], *found[1]], []
        else:
            found = self._groups(now, ins, rem, keys_in, keys_out)
        return found if found[0] or found[1] else None

    def _rows(self, now: int, pairs: KeyedRows, keys: list[Any], entering: int) -> Rows:
        """A row for each event: the events count one after the other."""
        found: Rows = []
        rows = [row for _, row in pairs] if pairs else [None] * len(keys)
        for key, row in zip(keys, rows, strict=True):
            if self._passes(now, key, entering, row is not None):
                found.append(row)
        return found

    def _groups(
        self, now: int, ins: KeyedRows, rem: KeyedRows, keys_in: list[Any], keys_out: list[Any]
    ) -> tuple[Rows, Rows]:
        """A row for each group that was touched."""
        if self._form.having and self._form.selector == "irstream":
            rem = ins  # recorded: output_first_having_grouped_old_row_repeats_the_new
        shown = {key for key, row in (rem if self._form.selector == "rstream" else (*ins, *rem)) if row is not None}
        keys = [(key, 1) for key in keys_in] + [(key, 0) for key in keys_out]
        passed = {key for key, entering in keys if self._passes(now, key, entering, key in shown)}
        sides = [[row for key, row in pairs if key in passed and row is not None] for pairs in (ins, rem)]
        return sides[0], sides[1]

    def _passes(self, now: int, key: Any, entering: int, shown: bool) -> bool:
        """Count an event of a group; whether its row passes, which then shuts the group's gate."""
        gate = self._gates.get(key)
        if not (gate is None or gate.arrived(now, entering, 1 - entering)) or not shown:
            return False
        if gate is None:
            if len(self._gates) >= self._most:
                self._forget(now)
            gate = self._gates[key] = copy(self._fresh)
        gate.shut(now, entering, 1 - entering)
        return True

    def _forget(self, now: int) -> None:
        """Drop the gates of groups whose silence is over."""
        self._gates = {key: gate for key, gate in self._gates.items() if not gate.arrived(now, 0, 0)}
        self._most = max(_MANY, 2 * len(self._gates))

    def reopen(self) -> None:
        """The condition of ``output first when`` holds: all groups may pass again."""
        self._gates.clear()


_MANY = 1024  # gates, before it pays to look for those that are open again
