"""The workloads of `benchmarks/workloads.py`, sent and replayed, deliver what functions by hand deliver."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
from by_hand import by_hand
from workloads import EPL, module, ticks

EVENTS, SYMBOLS = 12_000, 40


def comparable(deliveries: Iterable[tuple[int, list[dict[str, Any]]]]) -> list[Any]:
    """Deliveries with rows in any order, and with floats to nine digits: by hand they are summed in another order."""
    return [(time, sorted(map(_row, rows), key=repr)) for time, rows in deliveries if rows]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 9) if isinstance(value, float) else value for name, value in row.items()}


@pytest.mark.parametrize("name", EPL)
def test_rows_are_those_by_hand(name: str) -> None:
    events = ticks(EVENTS, SYMBOLS)
    expected: list[tuple[int, list[dict[str, Any]]]] = []
    on_event = by_hand(name, lambda time, rows, _: expected.append((time, rows)))
    for event in events:
        on_event(event)
    sent, replayed = Workbench(), Workbench()
    for bench in (sent, replayed):
        bench.run(module(name))
    for event in events:
        sent.runtime.send("Tick", dict(event), event["ts"])
    replayed.replay(pd.DataFrame(events), "Tick", time="ts").run()
    assert sum(len(rows) for _, rows in expected) > 10
    for bench in (sent, replayed):
        deliveries = ((delivery.time, delivery.insert or []) for delivery in bench.feed("out").snapshot())
        assert comparable(deliveries) == comparable(expected)
