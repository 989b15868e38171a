"""Random modules over histories with gaps: a replay that steps delivers what live events deliver, in either loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from cepbook.engine.replay import batch_replayer
from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import CepbookError
from tests.engine.generated_statements import Statements
from tests.engine.histories import Event, Recorder
from tests.spark.modules import Modules

pytestmark = pytest.mark.histories
SEEDS = int(os.environ.get("CEPBOOK_SEEDS", "60"))
FIRST = int(os.environ.get("CEPBOOK_SEED", "0"))

Play = Callable[[Runtime, Sequence[Event]], None]


def delivered(text: str, events: Sequence[Event], play: Play) -> tuple[list[Any], int] | None:
    """The rows of ``s`` and the number of failures; None if the module is refused."""
    runtime, recorder, failures = Runtime(), Recorder(), list[object]()
    runtime.add_error_listener(failures.append)
    runtime.register_function("odd", lambda x: None if x is None else x % 2 == 1)
    try:
        runtime.deploy(text)
    except CepbookError:
        return None
    runtime.statement("s").add_sink(recorder)
    play(runtime, events)
    return recorder.deltas, len(failures)


def send(runtime: Runtime, events: Sequence[Event]) -> None:
    for event in events:
        if event.time > runtime.now:
            runtime.advance(event.time, stepping=True)
        runtime.send(event.type, dict(event.values))
    runtime.advance(events[-1].time + 2500, stepping=True)


def replay(runtime: Runtime, events: Sequence[Event]) -> None:
    batch = runtime.batch([name for name in ("E", "F", "B", "L") if name in runtime.catalog.event_types])
    bounds = sorted({0, len(events) // 3, len(events) // 2, len(events)})
    for low, high in pairwise(bounds):
        last = events[high - 1].time
        batch.run(columns(events[low:high], batch.columns), range(runtime.now, last + 1))
    batch.run([], range(runtime.now, events[-1].time + 2501))


def columns(events: Sequence[Event], names: Mapping[str, Sequence[str]]) -> list[ColumnBatch]:
    batches = []
    for type_name in dict.fromkeys(event.type for event in events):
        own = [(place, event) for place, event in enumerate(events) if event.type == type_name]
        values = {name: [event.values.get(name) for _, event in own] for name in names[type_name]}
        batches.append(ColumnBatch(type_name, [e.time for _, e in own], values, [place for place, _ in own]))
    return batches


def drawn(seed: int) -> tuple[str, list[Event]]:
    """A module and a history; every other module has several types, contexts and stores."""
    if seed % 2:
        modules = Modules(seed)
        return modules.module_text(), [Event(time, name, values) for name, time, values in modules.history()]
    draw = Statements(seed)
    return draw.module().epl, [event for event in draw.events() if event.values["d"] == event.values["d"]]


@pytest.mark.parametrize("loop", [False, True], ids=["statement pass", "event loop"])
def test_a_replay_delivers_what_live_events_deliver(loop: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_replayer, "event_loop_pays", lambda *_: loop)
    wrong, rows = [], 0
    for seed in range(FIRST, FIRST + SEEDS):
        text, events = drawn(seed)
        live = delivered(text, events, send)
        if live is None:
            continue
        rows += len(live[0])
        replayed = delivered(text, events, replay)
        if replayed != live:
            wrong.append(f"seed {seed}\n{text}\nlive     {live}\nreplayed {replayed}"[:3000])
    assert not wrong, "\n\n".join([f"{len(wrong)} wrong", *wrong[:3]])
    assert rows > 5 * SEEDS
