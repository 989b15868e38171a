"""Random modules over histories with gaps: a replay that steps delivers what live events deliver, in either loop; one
that leaps differs only in modules of the kinds that docs/concepts/replay.md lists.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import pytest

from cepbook.engine.replay import batch_replayer
from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import CepbookError
from tests.engine.generated_statements import SCHEMA, VARIABLES, Statements
from tests.engine.histories import Event, Recorder
from tests.engine.replay import leap_kinds as leaps
from tests.random_cases import several
from tests.spark.modules import Modules

pytestmark = pytest.mark.histories
SEEDS = several(13)
FIRST = int(os.environ.get("CEPBOOK_SEED", "0"))

Play = Callable[[Runtime, Sequence[Event]], None]


def deployed(text: str) -> Runtime | None:
    """The runtime with a module; None if that is refused."""
    runtime = Runtime()
    runtime.register_function("odd", lambda x: None if x is None else x % 2 == 1)
    try:
        runtime.deploy(text)
    except CepbookError:
        return None
    return runtime


def delivered(text: str, events: Sequence[Event], play: Play) -> tuple[list[Any], int] | None:
    """The rows of all statements and the number of failures; None if the module is refused."""
    runtime, failures = deployed(text), list[object]()
    if runtime is None:
        return None
    runtime.add_error_listener(failures.append)
    recorders = {name: Recorder() for name in runtime.statements}
    for name, recorder in recorders.items():
        runtime.statement(name).add_sink(recorder)
    play(runtime, events)
    return [(name, *delta) for name, recorder in recorders.items() for delta in recorder.deltas], len(failures)


def send(runtime: Runtime, events: Sequence[Event], *, leap: bool = False) -> None:
    for event in events:
        if event.time > runtime.now:
            runtime.advance(event.time, stepping=not leap)
        runtime.send(event.type, dict(event.values))
    runtime.advance(events[-1].time + 2500, stepping=not leap)


def replay(runtime: Runtime, events: Sequence[Event], *, leap: bool = False) -> None:
    batch = runtime.batch([name for name in ("E", "F", "B", "L") if name in runtime.catalog.event_types])
    bounds = sorted({0, len(events) // 3, len(events) // 2, len(events)})
    for low, high in pairwise(bounds):
        last = events[high - 1].time
        batch.run(columns(events[low:high], batch.columns), None if leap else range(runtime.now, last + 1))
    end = events[-1].time + 2500
    batch.run([], [end] if leap else range(runtime.now, end + 1))


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


@pytest.fixture(params=[[False], [True], [True, False]], ids=["statement pass", "event loop", "in turns"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop that a replay chooses for each batch, or both in turns."""
    chosen = cycle(request.param)
    monkeypatch.setattr(batch_replayer, "event_loop_pays", lambda *_: next(chosen))


@pytest.mark.usefixtures("loops")
def test_a_replay_delivers_what_live_events_deliver() -> None:
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


def difference(live: tuple[list[Any], int], leapt: tuple[list[Any], int]) -> str | None:
    """What differs between the deliveries of two clocks: the rows, their times and deliveries alone, or nothing."""
    if live == leapt:
        return None
    return leaps.TIMES if rows_of(live) == rows_of(leapt) else leaps.ROWS


def rows_of(run: tuple[list[Any], int]) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]], int]:
    deltas, failures = run
    inserted = Counter((name, str(row)) for name, _, rows, _ in deltas for row in rows or ())
    return inserted, Counter((name, str(row)) for name, _, _, rows in deltas for row in rows or ()), failures


@pytest.mark.usefixtures("loops")
def test_a_leap_differs_only_in_the_listed_kinds() -> None:
    wrong, counts = [], Counter[tuple[str | None, str | None]]()
    for seed in range(FIRST, FIRST + SEEDS):
        text, events = drawn(seed)
        live, runtime = delivered(text, events, send), deployed(text)
        if live is None or runtime is None:
            continue
        leapt = delivered(text, events, partial(replay, leap=True))
        assert leapt is not None
        kinds = leaps.leap_kinds(runtime)
        allowed, actual = leaps.may_differ(kinds), difference(live, leapt)
        counts[allowed, actual] += 1
        if actual not in (None, allowed) and allowed != leaps.ROWS:
            wrong.append(f"seed {seed}: {actual} differ, of the kinds {kinds}\n{text}\n{live}\n{leapt}"[:3000])
        if leapt != delivered(text, events, partial(send, leap=True)):
            wrong.append(f"seed {seed}: a replay that leaps differs from events sent to a clock that leaps\n{text}")
    print(dict(counts))
    assert not wrong, "\n\n".join([f"{len(wrong)} wrong", *wrong[:3]])
    assert counts[None, None] > SEEDS / 5 and counts[leaps.ROWS, leaps.ROWS] > 0, counts


EXAMPLES = {
    leaps.OUTPUT: "@name('s') select count(*) as n from E output snapshot every 1 sec",
    leaps.BATCHES: "@name('s') select count(*) as n from E#time_batch(1 sec)",
    leaps.PATTERNS: "@name('s') select 1 as one from pattern [every timer:interval(1 sec)]",
    leaps.CONTEXTS: "create context C initiated after 2 sec terminated after 1 sec;"
    "@name('s') context C select count(*) as n from E output snapshot when terminated",
    leaps.EVICTIONS: "@name('s') select irstream x from E#time(1 sec)",
    leaps.RESULTS: "@name('s') select sum(x) as s from E#time(1 sec)",
    leaps.JOINS: "@name('s') select irstream count(*) as n from E#time(1 sec) as a, E#time(2 sec) as b where a.k = b.k",
    leaps.READERS: "insert rstream into S select x from E#time(1 sec);"
    "@name('s') select x from S output first every 700 msec",
    leaps.NOW: "@name('s') select rstream x, current_timestamp as t from E#time(1 sec)",
    leaps.INTERVALS: "@name('s') select * from E match_recognize (partition by k measures p.x as px"
    " pattern (p q*) interval 1 sec define q as q.x > 0)",
    leaps.VARIABLES: "@name('s') select irstream x from E#expr(not GO); on E(x = 4) set GO = b",
}


@pytest.mark.parametrize("kind", leaps.KINDS)
def test_each_listed_kind_differs_as_it_says(kind: str) -> None:
    text = ";\n".join([SCHEMA, VARIABLES, EXAMPLES[kind]])
    events = [event for event in Statements(1).events(60) if event.values["d"] == event.values["d"]]
    live, leapt = (delivered(text, events, partial(send, leap=leap)) for leap in (False, True))
    runtime = deployed(text)
    assert live is not None and leapt is not None and runtime is not None
    assert leaps.leap_kinds(runtime) - {leaps.EVICTIONS} == {kind} - {leaps.EVICTIONS}
    assert difference(live, leapt) == leaps.KINDS[kind]


def test_the_page_about_replays_lists_these_kinds() -> None:
    page = (Path(__file__).parents[3] / "docs/concepts/replay.md").read_text()
    rows = re.findall(r"^\| (.+?) \| .+ \| .+ \| (rows|times) \|$", page, re.MULTILINE)
    assert dict(rows) == leaps.KINDS
