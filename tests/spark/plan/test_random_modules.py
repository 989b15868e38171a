"""Random modules over random histories: what tasks deliver, divided as the placement says, is what the kernel does.

Most of them call the functions of the tasks, a few run on Spark.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cepbook import Workbench
from cepbook.errors import CepbookError, StatementError
from cepbook.lang.plan.nodes import SelectStatement
from tests.random_cases import several
from tests.spark import streams, tasks
from tests.spark.modules import Modules
from tests.spark.tasks import Recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.histories
SEEDS = several(30)  # the first time slice comes with seed 27
ON_SPARK = int(os.environ.get("CEPBOOK_SPARK_SEEDS", "8"))
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


COLUMNS = {
    "k": pa.string(),
    "g": pa.int32(),
    "x": pa.int32(),
    "n": pa.int64(),
    "d": pa.float64(),
    "t": pa.int64(),
    "b": pa.bool_(),
    "y": pa.int32(),
    "c": pa.int64(),
    "items": pa.list_(pa.struct({"q": pa.int32(), "w": pa.float64()})),
    "at": pa.int64(),
    "place": pa.int64(),
}


def tables(history: list[tuple[str, int, dict[str, Any]]]) -> dict[str, pa.Table]:
    """The events of each type, with their time and their place among all."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for place, (name, time, values) in enumerate(history):
        rows.setdefault(name, []).append({**values, "at": time, "place": place})
    return {
        name: pa.table({c: pa.array([row[c] for row in own], COLUMNS[c]) for c in COLUMNS if c in own[0]})
        for name, own in rows.items()
    }


@pytest.mark.filterwarnings("ignore")
def test_a_batch_on_spark_delivers_the_rows_of_live_events(spark: SparkSession) -> None:
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    seed = FIRST
    while counts["modules"] < ON_SPARK:
        seed += 1
        draw, cep = Modules(seed), Workbench()
        text = draw.module_text()
        cep.function(lambda x: None if x is None else x % 2 == 1, name="odd")
        try:
            cep.run(text)
        except CepbookError:
            continue
        if not isinstance(cep.runtime.statements["s"].plan, SelectStatement):
            continue  # Spark delivers the rows of no others
        history = draw.history()
        until = history[-1][1] + 2500
        try:
            for name, time, values in history:
                cep.advance(time, stepping=True)
                cep.send(name, values)
            cep.advance(until, stepping=True)
        except StatementError as failure:
            wrong.append(f"seed {seed}: {failure}\n{text}")
            continue
        options = {"time": "at", "sequence": "place", "until": until, "statements": ["s"], "session": spark}
        with closing(cep.spark(tables(history), **options)) as run:
            comparison = cep.compare(run)
            counts.update(["modules", run.coverage["s"].path])
            counts["rows"] += comparison.statements["s"].equal
        if comparison.verdict != "equal":
            wrong.append(f"seed {seed}: {comparison}\n{text}")
    print(dict(counts))
    assert not wrong, "\n\n".join([f"{len(wrong)} wrong", *wrong[:5]])
    assert counts["rows"] > 5 * ON_SPARK, counts
