"""Deploying in any order: all or nothing, and a runtime is what its deployments say, however it came to them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cepbook.engine.runtime import Runtime
from cepbook.errors import BindError, CepbookError, ParseError, UsageError
from tests.engine.histories import Recorder
from tests.random_cases import in_part, several

GOOD = {
    "schema": "create schema S(k string, x int)",
    "wider": "create schema S(k string, x int, y double)",
    "renamed": "create schema S(k string, z int)",
    "child": "create schema T(y int) inherits S",
    "context": "create context P partition by k from S",
    "plain": "@name('plain') select k, x from S",
    "in_context": "@name('kept') context P select irstream k, sum(x) as s from S#length(2)",
    "derive": "@name('derive') insert into D select k, x * 2 as x2 from S",
    "derived": "@name('derived') select irstream count(*) as c, sum(x2) as s from D",
    "two": "@name('one') select x from S(x > 1);@name('two') select k from S#time(1 sec)",
    "own": "create schema O(a int);@name('own') select a from O",
}
BAD = {
    "malformed": "select from where",
    "unknown": "@name('u') select nothing from S",
    "late": "create schema L(a int);@name('fine') select a from L;@name('wrong') select b from L",
    "unsupported": "create dataflow Flow S -> events {}",
    "twice": "@name('same') select x from S;@name('same') select k from S",
}
MODULES = {**GOOD, **BAD}
IDS = ["d1", "d2", "d3", "d4", "d5", "d6"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["deploy", "deploy", "deploy", "undeploy", "cascade", "redeploy", "redeploy"]),
        st.sampled_from(IDS),
        st.sampled_from([*GOOD, *GOOD, *BAD]),
    ),
    max_size=14,
)


def picture(runtime: Runtime) -> Any:
    """All that tells two runtimes apart before any event."""
    return (
        [
            (d.id, d.source, [s.name for s in d.statements], d.event_types, d.contexts)
            for d in runtime.deployments.values()
        ],
        list(runtime.statements),
        {name: (t.properties, t.supertypes) for name, t in runtime.catalog.event_types.items()},
        set(runtime.catalog.contexts),
        {name: s.properties for name, s in runtime.statements.items()},
        list(runtime.contexts),
    )


def step(runtime: Runtime, action: str, id_: str, module: str) -> bool:
    """Whether the step was possible."""
    try:
        if action == "deploy":
            runtime.deploy(MODULES[module], deployment_id=id_)
        elif action == "redeploy":
            runtime.redeploy(id_, MODULES[module])
        else:
            runtime.undeploy(id_, cascade=action == "cascade")
    except CepbookError:
        return False
    return True


def history(runtime: Runtime) -> dict[str, list[Any]]:
    """What the statements deliver for a few events of every type that there is."""
    recorders = {name: Recorder() for name in runtime.statements}
    for name, recorder in recorders.items():
        runtime.statement(name).add_sink(recorder)
    for i in range(6):
        for name in ("S", "T", "O", "D", "L"):
            if name in runtime.catalog.event_types:
                runtime.send(name, {"k": "ab"[i % 2], "x": i, "y": i, "z": i, "a": i, "x2": i})
        runtime.advance(runtime.now + 700)
    return {name: recorder.deltas for name, recorder in recorders.items()}


@settings(max_examples=several(50))
@given(STEPS)
@in_part
def test_any_order_of_steps_leaves_what_the_deployments_say(steps: list[tuple[str, str, str]]) -> None:
    runtime = Runtime()
    for action, id_, module in steps:
        before = picture(runtime)
        objects = list(runtime.statements.values())
        if not step(runtime, action, id_, module):
            assert picture(runtime) == before, f"a failed {action} of {module} changed something"
            assert list(runtime.statements.values()) == objects, "the statements run on"
    fresh = Runtime()
    for deployment in runtime.deployments.values():
        fresh.deploy(deployment.source, deployment_id=deployment.id)
    assert picture(fresh) == picture(runtime)
    assert history(fresh) == history(runtime)
    assert runtime.next_due == fresh.next_due


@pytest.mark.parametrize("module", BAD)
def test_bad_module_is_refused_whole(module: str) -> None:
    runtime = Runtime()
    runtime.deploy(GOOD["schema"], deployment_id="s")
    before = picture(runtime)
    with pytest.raises((ParseError, BindError)) as caught:
        runtime.deploy(BAD[module])
    assert picture(runtime) == before
    assert caught.value.diagnostics[0].render(caught.value.source).count("^") >= 1, "the place is shown"


def test_undeploying_what_others_use_names_them() -> None:
    runtime = Runtime()
    for name in ("schema", "context", "in_context", "derive", "derived"):
        runtime.deploy(GOOD[name], deployment_id=name)
    with pytest.raises(UsageError, match=r"`derive`.*`derived`"):
        runtime.undeploy("derive")
    with pytest.raises(UsageError, match=r"`context`.*`kept`"):
        runtime.undeploy("context")
    runtime.undeploy("schema", cascade=True)
    assert not runtime.deployments and not runtime.statements and not runtime.catalog.event_types
    assert not runtime.catalog.contexts and runtime.next_due is None


def test_redeploying_starts_dependants_afresh() -> None:
    runtime = Runtime()
    for name in ("schema", "derive", "derived"):
        runtime.deploy(GOOD[name], deployment_id=name)
    runtime.send("S", {"k": "a", "x": 1})
    assert runtime.iterate("derived") == [{"c": 1, "s": 2}]
    runtime.redeploy("schema", GOOD["wider"])
    assert runtime.iterate("derived") == [{"c": 0, "s": None}]
    runtime.send("S", {"k": "a", "x": 5, "y": 1.0})
    assert runtime.iterate("derived") == [{"c": 1, "s": 10}]


def test_redeploying_what_a_dependant_cannot_live_with_changes_nothing() -> None:
    runtime = Runtime()
    for name in ("schema", "derive", "derived"):
        runtime.deploy(GOOD[name], deployment_id=name)
    runtime.send("S", {"k": "a", "x": 1})
    with pytest.raises(BindError, match="x"):
        runtime.redeploy("schema", GOOD["renamed"])
    runtime.send("S", {"k": "a", "x": 2})
    assert runtime.iterate("derived") == [{"c": 2, "s": 6}]


def test_dropped_names_are_forgotten_and_may_come_back_with_another_shape() -> None:
    runtime = Runtime()
    runtime.deploy(GOOD["schema"], deployment_id="a")
    runtime.deploy("@name('i') insert into Fresh select k from S", deployment_id="b")
    assert list(runtime.catalog.event_types["Fresh"].properties) == ["k"]
    runtime.undeploy("b")
    assert "Fresh" not in runtime.catalog.event_types
    runtime.deploy("@name('i') insert into Fresh select x from S;@name('r') select x from Fresh", deployment_id="b")
    runtime.send("S", {"k": "a", "x": 3})
    assert list(runtime.catalog.event_types["Fresh"].properties) == ["x"]


def test_a_second_statement_of_a_name_is_refused() -> None:
    runtime = Runtime()
    runtime.deploy(GOOD["schema"])
    runtime.deploy(GOOD["plain"])
    with pytest.raises((BindError, UsageError), match="plain"):
        runtime.deploy("@name('plain') select k from S")
    assert list(runtime.statements) == ["plain"]


def test_unknown_names_get_a_proposal() -> None:
    runtime = Runtime()
    runtime.deploy(GOOD["schema"], deployment_id="schema")
    runtime.deploy(GOOD["plain"])
    with pytest.raises(UsageError, match=r"no statement `plian`\n  hint: did you mean `plain`\?$"):
        runtime.statement("plian")
    with pytest.raises(UsageError, match=r"no deployment `shema`\n  hint: did you mean `schema`\?$"):
        runtime.undeploy("shema")
    with pytest.raises(UsageError, match="no context"):
        runtime.partitions("P")


@pytest.mark.parametrize("pattern", ["", "@name('p') select * from pattern [every a=E(x=7)]"])
@pytest.mark.parametrize("first", [True, False])
def test_a_listener_may_drop_a_statement_whose_rows_still_wait(pattern: str, first: bool) -> None:
    runtime, seen = Runtime(), list[int]()
    runtime.deploy("create schema E(x int)")
    drops = "@name('s') select x from E"
    inserts = "create schema T(x int); @name('t') insert into T select x from E; @name('r') select x from T"
    for id_, epl in [("s", drops), ("t", inserts)] if first else [("t", inserts), ("s", drops)]:
        runtime.deploy(epl, deployment_id=id_)
    if pattern:
        runtime.deploy(pattern)
    runtime.statement("r").add_listener(lambda d: seen.append(d.insert[0]["x"]))
    runtime.statement("s").add_listener(lambda d: runtime.undeploy("t") if "t" in runtime.deployments else None)
    runtime.send("E", {"x": 1})
    runtime.send("E", {"x": 2})
    assert seen == []
    assert list(runtime.statements) == (["s", "p"] if pattern else ["s"])
    assert not runtime.errors
