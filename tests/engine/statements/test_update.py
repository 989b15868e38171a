"""``update istream``: the caller's event stays as it is; what coverage, steps and plan say; failures change nothing."""

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
@name('u') @Priority(2) update istream E set v = v + 1 where k is not null;
@name('q') select v from E
"""


def test_the_event_that_was_sent_stays_as_it_is() -> None:
    runtime = Runtime()
    runtime.deploy(EPL)
    found: list[object] = []
    runtime.statement("q").add_listener(lambda delta: found.extend(delta.insert or ()))
    event = {"k": "a", "v": 1}
    runtime.send("E", event)
    assert (found, event) == ([{"v": 2}], {"k": "a", "v": 1})


def test_what_coverage_plan_and_steps_say() -> None:
    runtime = Runtime()
    deployment = runtime.deploy(EPL)
    assert runtime.batch(["E"]).merged["q"] == "`u` changes events before others see them"
    line = dependencies_of("q", deployment.plan.statements, runtime.catalog, ["E"])
    found = place(line, runtime.catalog)
    assert (found.path, found.reason) == ("row by row", "no row depends on state: each event is evaluated by itself")
    shown = show_plan(deployment.plan)
    assert "update statement `u` (of E)\n  where k is not null\n  v = v + 1\n  priority 2" in shown
    steps = explain_program("u", runtime.statement("u").program)
    assert "changes the event before any statement sees it: v = v + 1" in steps


def test_an_update_that_fails_leaves_the_event_as_it_is() -> None:
    def fails(value: int) -> int:
        raise ValueError("no")

    runtime = Runtime(functions={"fails": fails})
    runtime.deploy("create schema E(v int); @name('u') update istream E set v = cast(fails(v), int);")
    runtime.deploy("@name('q') select v from E")
    found: list[object] = []
    runtime.statement("q").add_listener(lambda delta: found.extend(delta.insert or ()))
    with pytest.raises(StatementError, match="no"):
        runtime.send("E", {"v": 1})
    assert found == [{"v": 1}]
