"""The choice between a statement pass and an event loop: few events through many selective rules go event by event.

`tests/conftest.py` sets the cost of a statement to zero, so that the small batches of other tests take the statement
pass. These tests restore it.
"""

from __future__ import annotations

import pytest

from cepbook.engine.replay import batch_replayer, loop_costs
from cepbook.engine.replay.loop_costs import event_loop_pays
from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from tests.engine.histories import Recorder

_COST = 52.0


@pytest.fixture(autouse=True)
def _costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_costs, "PASS_STATEMENT", _COST)


def _batch(first: int, count: int) -> ColumnBatch:
    values = {"user": [f"u{n % 50}" for n in range(first, first + count)], "v": list(range(first, first + count))}
    places = list(range(first, first + count))
    return ColumnBatch("E", places, values, places)


@pytest.mark.parametrize(
    ("events", "statements", "called", "loop"),
    [
        (10, 1, 1, True),
        (100, 1, 1, False),
        (100_000, 10, 5, False),
        (500, 1000, 5, True),
        (500, 1000, 1000, False),
        (1_000_000, 1000, 2, True),
        (1_000_000, 10, 2, False),
    ],
)
def test_the_cheaper_way_is_chosen(events: int, statements: int, called: int, loop: bool) -> None:
    assert event_loop_pays([_batch(0, events)], statements, lambda *_: called) is loop


def test_batches_of_any_size_deliver_what_sent_events_deliver(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[bool] = []

    def noted(*args: object) -> bool:
        chosen.append(event_loop_pays(*args))  # type: ignore[arg-type]
        return chosen[-1]

    monkeypatch.setattr(batch_replayer, "event_loop_pays", noted)
    rows = []
    for replayed in (False, True):
        runtime = Runtime()
        rules = (f"@name('r{i}') select v, sum(v) as s from E(user='u{i}')#time(30 msec)" for i in range(50))
        runtime.deploy(f"create schema E(user string, v int); {';'.join(rules)}")
        recorders = {name: Recorder() for name in runtime.statements}
        for name, recorder in recorders.items():
            runtime.statement(name).add_sink(recorder)
        replayer, first = runtime.batch(["E"]), 0
        for count in (1, 3, 3000, 20, 4000):
            batch = _batch(first, count)
            if replayed:
                replayer.run([batch], range(runtime.now, first + count))
            else:
                for time, user, v in zip(batch.times, batch.columns["user"], batch.columns["v"], strict=True):
                    runtime.advance(time, stepping=True)
                    runtime.send("E", {"user": user, "v": v})
            first += count
        rows.append({name: recorder.deltas for name, recorder in recorders.items()})
    assert rows[0] == rows[1]
    assert set(chosen) == {True, False}
