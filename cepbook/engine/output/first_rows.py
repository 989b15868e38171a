"""``output first``: rows are delivered at once, followed by silence; a grouped statement keeps a gate per group."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from cepbook.engine.output.collectors import CollectorOptions, KeyedRows, Rows
from cepbook.engine.output.rate_triggers import PeriodLength, next_grid_point
from cepbook.engine.state import State, created, initial
from cepbook.engine.time.calendar_periods import add_months
from cepbook.engine.time.clock import NEVER


class OutputGate(State):
    """Decides whether rows may pass; rows that pass shut it. Without `memory` an open gate is like a new one."""

    memory = False

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        """Count events that entered and left, and return whether rows may pass now."""
        raise NotImplementedError

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        """Shut the gate behind the rows of events that entered and left."""
        raise NotImplementedError

    def another(self) -> OutputGate:
        """Return a new gate of the same kind."""
        return copy(self)


class CountGate(OutputGate):
    """Opens with the n-th event after the one that shut it. Entered and left events are counted separately."""

    _number: Callable[[int], int | None]
    _open: bool = initial(True)
    _in: int = initial(0)
    _out: int = initial(0)

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
    """Opens after the n-th event, counted from the one that shut it. Rows of the n-th event itself do not pass
    (recorded: output_first_every_events).
    """

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
    """Opens at the next point of the crontab."""

    _point_after: Callable[[int], int]
    _until: int | None = initial(None)

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        return self._until is None or now >= self._until

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        self._until = self._point_after(now)


class PeriodGate(OutputGate):
    """Opens a period after it was shut; with `within` just after that instant, else at it."""

    _period: Callable[[int], PeriodLength]
    _within: bool
    _until: int | None = initial(None)

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        return self._until is None or now > self._until or (now == self._until and not self._within)

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        self._until = end_of_period(self._period(now), now)


class GridGate(OutputGate):
    """Opens at the points of a grid that begins with the first event, even if that did not pass."""

    _period: Callable[[int], PeriodLength]
    _origin: int | None = initial(None)
    _until: int | None = initial(None)

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        if self._origin is None:
            self._origin = now
        return self._until is None or now >= self._until

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        assert self._origin is not None
        self._until = next_grid_point(now, self._origin, self._period(now))


class ConditionGate(OutputGate):
    """Opens when the condition of ``output first when`` holds, for statements without groups."""

    _open: bool = initial(True)

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        return self._open

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        self._open = False

    def open(self) -> None:
        self._open = True


def end_of_period(length: PeriodLength, start: int) -> int:
    """Return the end of a period that starts at `start`; null has no length."""
    months, units, *calendar = length
    return (add_months(start, months, *calendar) if months else start) + (units or 0)


class FirstRows(State):
    """Passes all rows of a change that finds the gate open, for statements without groups."""

    _form: CollectorOptions
    _gate: OutputGate

    def take(self, now: int, ins: Rows, rem: Rows, n_in: int, n_out: int) -> tuple[Rows, Rows] | None:
        """Return the rows that pass; None if there are none."""
        is_open = self._gate.arrived(now, n_in, n_out)
        if not (is_open and (rem if self._form.selector == "rstream" else ins or rem)):
            return None
        self._gate.shut(now, n_in, n_out)
        return ins, rem

    def reopen(self) -> None:
        if isinstance(self._gate, ConditionGate):
            self._gate.open()


class FirstRowsOfGroups(State):
    """Gives each group of a grouped statement a gate of its own, `gate.another()`. `take` receives the keys of the
    entered and left events instead of their numbers.
    """

    _form: CollectorOptions
    _fresh: OutputGate
    _gates: dict[Any, OutputGate] = created(dict)
    _most: int = initial(0)

    def __post_init__(self) -> None:
        self._most = NEVER if self._fresh.memory else _MANY

    def take(
        self, now: int, ins: KeyedRows, rem: KeyedRows, keys_in: list[Any], keys_out: list[Any]
    ) -> tuple[Rows, Rows] | None:
        if self._form.kind == "aggregated_grouped":
            entered, left = self._rows(now, ins, keys_in, 1), self._rows(now, rem, keys_out, 0)
            rows = list(entered.values()), list(left.values())
            if self._form.leaving:  # recorded: output_first_grouped_leaving_event_is_an_insert_row
                rows = list((entered | left).values()), []
        else:
            rows = self._groups(now, ins, rem, keys_in, keys_out)
        return rows if rows[0] or rows[1] else None

    def _rows(self, now: int, pairs: KeyedRows, keys: list[Any], entering: int) -> dict[Any, Any]:
        rows = [row for _, row in pairs] if pairs else [None] * len(keys)
        keyed = zip(keys, rows, strict=True)
        return {key: row for key, row in keyed if self._passes(now, key, entering, row is not None)}

    def _groups(
        self, now: int, ins: KeyedRows, rem: KeyedRows, keys_in: list[Any], keys_out: list[Any]
    ) -> tuple[Rows, Rows]:
        if self._form.having and self._form.selector == "irstream":
            rem = ins  # recorded: output_first_having_grouped_old_row_repeats_the_new
        present = {key for key, row in (rem if self._form.selector == "rstream" else (*ins, *rem)) if row is not None}
        keys = [(key, 1) for key in keys_in] + [(key, 0) for key in keys_out]
        passed = {key for key, entering in keys if self._passes(now, key, entering, key in present)}
        sides = [[row for key, row in pairs if key in passed and row is not None] for pairs in (ins, rem)]
        return sides[0], sides[1]

    def _passes(self, now: int, key: Any, entering: int, has_row: bool) -> bool:
        """Count an event of a group and return whether its row passes, which shuts the group's gate. With having, an
        event without a row does not count (recorded: output_first_counts_rows_that_pass_having).
        """
        if self._form.having and not has_row:
            return False
        gate = self._gates.get(key)
        if gate is None:
            if len(self._gates) >= self._most:
                self._forget(now)
            gate = self._gates[key] = self._fresh.another()
        if not (gate.arrived(now, entering, 1 - entering) and has_row):
            return False
        gate.shut(now, entering, 1 - entering)
        return True

    def _forget(self, now: int) -> None:
        self._gates = {key: gate for key, gate in self._gates.items() if not gate.arrived(now, 0, 0)}
        self._most = max(_MANY, 2 * len(self._gates))


_MANY = 1024  # number of gates at which open ones are dropped
