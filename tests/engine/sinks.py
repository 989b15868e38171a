"""A sink for tests: deliveries as listeners see them, without making a replay go event by event as listeners do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepbook.engine.delivery.delta import MORE, Delta, Record, Row
from cepbook.engine.delivery.row_layout import split_deliveries, split_records


class Deltas(list[Delta]):
    """All deliveries in order."""

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row]) -> None:
        self._whole, self._fresh = columns is None, fresh
        self._width = 2 + (1 if columns is None else len(columns))

    def one(self, record: Record) -> None:
        self.extend([*record])

    def extend(self, flat: list[Any]) -> None:  # type: ignore[override]
        for each in split_deliveries(split_records(flat, self._width)):
            sides: tuple[list[Row], list[Row]] = [], []
            for mark, _, *row in each:
                if mark < 4:
                    sides[mark > MORE].append(self._fresh(row[0] if self._whole else row))
            self.append(Delta(each[0][1], sides[0] or None, sides[1] or None))
