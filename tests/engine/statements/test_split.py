"""Split streams: what coverage, steps and plan say; who is told; failures insert nothing."""

from __future__ import annotations

import pytest

from cepbook.engine.codegen.program import explain_program
from cepbook.engine.runtime import Runtime
from cepbook.errors import StatementError
from cepbook.lang.explain.statements import show_plan
from cepbook.lang.plan.dependencies import dependencies_of
from cepbook.spark.plan.placement import place

EPL = """
create schema E(k string, v int);
@name('split') on E(v > 0) insert into Big select k, v where v > 5 insert into Small select * output all;
@name('big') select k from Big
"""


def test_replays_send_its_component_event_by_event() -> None:
    runtime = Runtime()
    runtime.deploy(EPL)
    assert runtime.batch(["E"]).merged["big"] == "`split` splits its stream into several"


def test_spark_runs_what_it_feeds_with_it() -> None:
    runtime = Runtime()
    plan = runtime.deploy(EPL).plan
    line = dependencies_of("big", plan.statements, runtime.catalog, ["E"])
    assert [s.name for s in line.triggers] == ["split"]
    found = place(line, runtime.catalog)
    assert (found.path, found.reason) == ("row by row", "no row depends on state: each event is evaluated by itself")


def test_plan_and_steps_show_the_branches() -> None:
    runtime = Runtime()
    deployment = runtime.deploy(EPL)
    assert "split statement `split` (to every branch that takes it)" in show_plan(deployment.plan)
    assert "into Big(k string, v int), created here\n    where v > 5" in show_plan(deployment.plan)
    steps = explain_program("split", runtime.statement("split").program)
    assert "into Big: k, v where v > 5" in steps
    assert "into Small: *" in steps


def test_a_failing_branch_inserts_nothing() -> None:
    def fails(value: int) -> int:
        raise ValueError("no")

    runtime = Runtime(functions={"fails": fails})
    runtime.deploy(
        "create schema E(v int); on E insert into A select v insert into B select fails(v) as v output all;"
        "@name('a') select v from A"
    )
    found: list[object] = []
    runtime.statement("a").add_listener(found.append)
    with pytest.raises(StatementError, match="no"):
        runtime.send("E", {"v": 1})
    assert found == []
