"""Contained events: sent is replayed, in batches where nothing else is in the way; what steps and plan say."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.engine.codegen.program import explain_program
from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import StatementError
from cepbook.lang.explain.statements import show_plan
from cepbook.lang.plan.dependencies import dependencies_of, properties_read
from cepbook.spark.plan.placement import place

SCHEMA = "create schema Item(sku string, n int); create schema Basket(id string, flag int, items Item[]);"
STATEMENTS = {
    "plain": "select id, sku, n from Basket[select id, sku, n from items where n > 0] where n < 9",
    "window": "select irstream sku, sum(n) as s from Basket(flag > 0)[items]#time(3) group by sku",
    "batch": "select sku, count(*) as c from Basket[items]#length_batch(3) group by sku",
    "total": "select sum(n) as s, max(n) as m from Basket[items]",
    "event": "select i as item from Basket[items]#lastevent as i",
}
EVENTS: list[tuple[int, str, int, Any]] = [
    (0, "a", 1, [{"sku": "x", "n": 1}, {"sku": "y", "n": 12}]),
    (1000, "b", 0, [{"sku": "x", "n": 5}]),
    (1000, "a", 1, []),
    (2500, "b", 1, None),
    (3500, "a", 1, [{"sku": "z"}, {"sku": "x", "n": 2}, {"sku": "x", "n": 3}]),
    (9000, "c", 1, [{"sku": "y", "n": 4}]),
]


def _listening(epl: str) -> tuple[Runtime, list[Any]]:
    runtime = Runtime()
    runtime.deploy(f"{SCHEMA} create context ById partition by id from Basket; @name('out') {epl}")
    found: list[Any] = []

    class Sink:
        def describe(self, columns: Any, fresh: Any) -> None: ...
        def one(self, record: Any) -> None:
            found.append(record)

        def extend(self, records: list[Any]) -> None:
            found.extend(records)

    runtime.statement("out").add_sink(Sink())
    return runtime, found


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("context", ["", "context ById "])
def test_sent_is_replayed(name: str, context: str) -> None:
    epl = f"{context}{STATEMENTS[name]}"
    (one, sent), (other, replayed) = _listening(epl), _listening(epl)
    for time, id_, flag, items in EVENTS:
        one.send("Basket", {"id": id_, "flag": flag, "items": items}, at=time)
    batch = other.batch(["Basket"])
    assert batch.reasons == {}
    columns = dict(zip(("id", "flag", "items"), ([e[i] for e in EVENTS] for i in (1, 2, 3)), strict=True))
    batch.run([ColumnBatch("Basket", [e[0] for e in EVENTS], columns)])
    assert sent == replayed
    assert sent


def test_what_steps_plan_and_spark_say() -> None:
    runtime, _ = _listening(STATEMENTS["plain"])
    steps = explain_program("out", runtime.statement("out").program)
    assert "items: id = [1].id, sku = sku, n = n where n > 0" in steps
    plan = next(d.plan for d in runtime.deployments.values())
    assert "contained items: id = [1].id, sku = sku, n = n where n > 0" in show_plan(plan)
    line = dependencies_of("out", plan.statements, runtime.catalog, ["Basket"])
    found = place(line, runtime.catalog)
    assert (found.path, found.reason.partition(",")[0]) == ("ordered", "its events are contained in other events")
    assert properties_read(line, runtime.catalog) == {"Basket": ("id", "flag", "items")}


def test_a_failure_within_is_told_where_it_stands() -> None:
    def fails(value: int) -> int:
        raise ValueError("no")

    runtime = Runtime(functions={"fails": fails})
    runtime.deploy(f"{SCHEMA} @name('out') select * from Basket[items where fails(n) > 1]")
    with pytest.raises(StatementError, match="no"):
        runtime.send("Basket", {"id": "a", "items": [{"sku": "x", "n": 1}]})
    runtime.send("Basket", {"id": "a", "items": []})
