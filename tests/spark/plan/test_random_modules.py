"""Random modules over random histories: what tasks deliver, divided as the placement says, is what the kernel does."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from cepbook.errors import CepbookError
from tests.spark import streams, tasks
from tests.spark.modules import Modules
from tests.spark.tasks import Recorded

pytestmark = pytest.mark.histories
SEEDS = int(os.environ.get("CEPBOOK_SEEDS", "60"))
FIRST = int(os.environ.get("CEPBOOK_SEED", "0"))


def odd(x: int) -> bool:
    if x == 4:
        raise ValueError("four")
    return x % 2 == 1


def deployed(text: str) -> Recorded | None:
    """The engine with the module; None if that is refused."""
    engine = Recorded(0, {})
    engine.count_failures()
    engine.runtime.register_function("odd", odd)
    try:
        engine.deploy(text, "module")
    except CepbookError:
        return None
    return engine


def compared(seed: int, way: str) -> tuple[list[str], Counter[str]]:
    """Where tasks, or processors, and the kernel differ in the module of a seed, and how its statements run."""
    draw = Modules(seed)
    engine = None
    while engine is None:
        text = draw.module_text()
        engine = deployed(text)
    events = draw.history()
    for name, time, event in events:
        if time > engine.runtime.now:
            engine.advance(time, stepping=way != "leap")
        engine.send(name, event)
    until = events[-1][1] + 2500
    engine.advance(until, stepping=way != "leap")
    if way == "stream":
        wrong, paths = streams.differences(engine, draw.random, until)
    else:
        wrong, paths = tasks.differences(engine, size=draw.random.choice((0, 0, 1, 7, 20)))
    paths["rows"] += sum(map(len, engine.rows.values()))
    return [f"seed {seed}: {each}\n{text}" for each in wrong], paths


@pytest.mark.parametrize("way", ["batch", "leap", "stream"])
def test_the_rows_are_those_of_the_kernel(way: str) -> None:
    wrong: list[str] = []
    paths: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + SEEDS):
        found, ran = compared(seed, way)
        wrong += found
        paths += ran
    print(dict(paths))
    assert not wrong, "\n\n".join([f"{len(wrong)} wrong", *wrong[:5]])
    assert all(paths[way] for way in ("by key", "ordered", *(() if way == "stream" else ("by time slice",)))), paths
    assert paths["rows"] > 10 * SEEDS, paths
