"""The facts of aggregates in their rows, which `distinct` and the code of subqueries rely on."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.registry.aggregates import AGGREGATES, AggregateRow
from cepbook.lang.registry.windows import EXAMPLE_SCHEMA

TICKS = [{"symbol": f"S{n}", "price": price, "volume": n + 1} for n, price in enumerate((4.0, 9.0, 0.5, 30.0))]
OF_WHAT_IS_HELD = [row for row in AGGREGATES.values() if not (row.ever or row.remembers or row.plain)]


def value(row: AggregateRow, ticks: list[dict[str, Any]]) -> Any:
    """The row's example over a window with `ticks`, of which one more has left."""
    runtime = Runtime()
    runtime.deploy(EXAMPLE_SCHEMA)
    runtime.deploy(f"@name('s') select {row.example} as v from Tick#length({len(ticks)})")
    for tick in (TICKS[1], *ticks):
        runtime.send("Tick", tick)
    shown = runtime.iterate("s")[0]["v"]
    return float(f"{shown:.10g}") if isinstance(shown, float) else shown


@pytest.mark.parametrize("row", [row for row in OF_WHAT_IS_HELD if row.distinct], ids=lambda row: row.name)
def test_a_row_says_whether_equal_values_count(row: AggregateRow) -> None:
    assert (value(row, TICKS) == value(row, [*TICKS, TICKS[3], TICKS[3]])) != row.repeats


@pytest.mark.parametrize("row", [row for row in OF_WHAT_IS_HELD if not row.sorts], ids=lambda row: row.name)
def test_a_row_says_whether_the_order_of_events_counts(row: AggregateRow) -> None:
    assert (value(row, TICKS) == value(row, TICKS[::-1])) != row.in_order
