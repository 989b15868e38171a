"""Aggregates of stages: values enter and leave; only ``count`` counts nulls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cepbook.engine.aggregates.accumulators import Accumulator
from cepbook.engine.aggregates.power_sums import HIGHEST_POWERS, PowerSums
from cepbook.engine.expressions.sort_keys import ascending_key, value_of_key
from cepbook.engine.state import SortedList, State, created, initial
from cepbook.lang.registry.cycles import CYCLE_AGGREGATES


class RowCount(State):
    """The number of rows."""

    count: int = initial(0)

    def enter(self, value: Any) -> None:
        self.count += 1

    def leave(self, value: Any) -> None:
        self.count -= 1

    def value(self) -> int:
        return self.count


class OrderedValues(State):
    """Values in order, for the minimum, the maximum and the median."""

    what: str
    parts: SortedList[Any] = created(SortedList)

    def enter(self, value: Any) -> None:
        if value is not None:
            self.parts.add(ascending_key(value))

    def leave(self, value: Any) -> None:
        if value is not None:
            self.parts.remove(ascending_key(value))

    def value(self) -> Any:
        keys = self.parts
        if not keys:
            return None
        if self.what != "median":
            return value_of_key(keys[0 if self.what == "min" else -1])
        middle = len(keys) // 2
        low, high = value_of_key(keys[middle - 1 + len(keys) % 2]), value_of_key(keys[middle])
        return float(low) if low == high else (float(low) + float(high)) / 2.0


class CollectedValues(State):
    """The values in the order of arrival, for a registered function."""

    values: list[Any] = created(list)

    def enter(self, value: Any) -> None:
        if value is not None:
            self.values.append(value)

    def leave(self, value: Any) -> None:
        if value is not None:
            self.values.remove(value)

    def value(self) -> list[Any]:
        return list(self.values)


# Makes an aggregate without values; that of a name that is not here collects them
STAGE_ACCUMULATORS: dict[str, Callable[[], Accumulator]] = {
    "count": RowCount,
    "min": partial(OrderedValues, "min"),
    "max": partial(OrderedValues, "max"),
    "median": partial(OrderedValues, "median"),
    **{name: partial(PowerSums, name, 0.0) for name in HIGHEST_POWERS},
}
for _name in CYCLE_AGGREGATES:
    if _name not in STAGE_ACCUMULATORS:
        raise TypeError(f"the row of aggregate {_name} has no class here")
