"""Variables of contexts: who may read them from outside, what is saved, what Spark and marble diagrams are given."""

from __future__ import annotations

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.lang.plan.dependencies import dependencies_of
from cepbook.session.workbench import Workbench
from cepbook.spark.plan.placement import place

EPL = """
create schema A(k string, v int);
create context ByK partition by k from A;
@name('var') context ByK create variable int total = 0;
context ByK on A set total = total + v;
@name('q') context ByK select k, total from A
"""


def _rows(runtime: Runtime) -> list[object]:
    return runtime.iterate("var")


def test_values_are_part_of_a_snapshot() -> None:
    runtime = Runtime()
    runtime.deploy(EPL)
    for k, v in (("x", 1), ("y", 5), ("x", 2)):
        runtime.send("A", {"k": k, "v": v})
    again = Runtime.restored(runtime.snapshot(), {})
    assert _rows(runtime) == _rows(again) == [{"total": 3}, {"total": 5}]
    again.send("A", {"k": "x", "v": 10})
    assert _rows(again) == [{"total": 13}, {"total": 5}]


def test_one_partition_takes_its_values_along() -> None:
    runtime, other = Runtime(), Runtime()
    for each in (runtime, other):
        each.deploy(EPL)
    runtime.send("A", {"k": "x", "v": 4})
    other.restore_partition(runtime.snapshot(("ByK", 0)))
    other.send("A", {"k": "x", "v": 1})
    assert _rows(other) == [{"total": 5}]


def test_from_outside_there_is_no_one_value() -> None:
    runtime = Runtime()
    runtime.deploy(EPL)
    with pytest.raises(UsageError, match="has one value per partition of its context"):
        runtime.get_variable("total")
    with pytest.raises(UsageError, match="has one value per partition"):
        runtime.set_variable("total", 1)
    assert runtime.external_variables() == ()


def test_the_workbench_lists_and_rewinds_them() -> None:
    workbench = Workbench()
    workbench.run(EPL)
    workbench.send("A", k="x", v=4)
    assert workbench.variables().to_dict("records")[0]["value"] is None
    workbench.rewind()
    workbench.send("A", k="x", v=1)
    assert workbench.runtime.iterate("var") == [{"total": 1}]


def test_what_follows_a_statement_brings_them_along() -> None:
    workbench = Workbench()
    workbench.run(EPL)
    for k, v in (("x", 1), ("x", 2)):
        workbench.send("A", k=k, v=v)
    plans = [p for d in workbench.runtime.deployments.values() for p in d.plan.statements]
    line = dependencies_of("q", plans, workbench.runtime.catalog, ["A"])
    assert [s.name for s in line.variables] == ["var"]
    assert place(line, workbench.runtime.catalog).path == "ordered"
    assert [d.insert for d in workbench.marble("q").deliveries]
