"""A window beside one that keeps all: the same deliveries as alone, or the binder refuses the pair."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.errors import BindError
from cepbook.lang.registry.windows import EXAMPLE_SCHEMA, WINDOWS, WindowRow
from tests.engine.sinks import Deltas


def deliveries(epl: str) -> list[Any]:
    runtime, heard = Runtime(), Deltas()
    runtime.deploy(EXAMPLE_SCHEMA)
    runtime.deploy(f"@name('s') {epl}".replace("select", "select irstream"))
    runtime.statement("s").add_sink(heard)
    for n in range(12):
        runtime.advance(1000 * n)
        price = float(n * 7 % 5)
        runtime.send("Tick", {"symbol": "AB"[n % 2], "price": price, "volume": n, "ts": 1000 * n + 3000})
    runtime.advance(60_000)
    return list(heard)


@pytest.mark.parametrize("row", [row for row in WINDOWS.values() if row.kind == "window"], ids=lambda row: row.name)
def test_the_same_as_alone(row: WindowRow) -> None:
    try:
        beside = deliveries(f"{row.example}#keepall")
    except BindError:
        assert row.gates or row.chooses or row.passing or row.hides
    else:
        assert beside == deliveries(row.example)
