"""The order of inserted events, updates and `@Drop`: a replay delivers what sent events deliver."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cepbook.engine.config import Config
from cepbook.engine.runtime import Runtime
from cepbook.lang.explain.statements import show_plan
from tests.engine.histories import Event, Run, histories
from tests.random_cases import in_part, several

MODULES = {
    "precedence": """
        insert into Job event-precedence(p) select k, g as p from A;
        insert into Job event-precedence(-p) select k, g as p from A;
        insert into Job event-precedence(1) select k, 7 as p from A#time(1 sec);
        @name('rows') select k, p, prev(1, p) as q from Job#length(3);
        @name('total') select k, sum(p) as s from Job#time_batch(1 sec) group by k
    """,
    "precedence in a context": """
        create context ByK partition by k from A;
        context ByK insert into Job event-precedence(g) select k, g, x from A;
        context ByK insert into Job event-precedence(2) select k, g, -x as x from A;
        @name('rows') select k, g, x, prior(1, x) as y from Job
    """,
    "windows first": """
        create window W#length(3) as (k string, x int);
        on A insert into Job select k, x insert into W select k, x output all;
        @name('rows') select k, x, (select count(*) from W) as c from Job
    """,
    "updates": """
        insert into Job select k, x from A; insert into Job select k, x + 1 as x from A(x > 0);
        update istream Job set x = (select max(g) from A#length(2)) where x = 1;
        @Drop update istream Job set x = 0 where x = 2;
        @name('rows') select k, x from Job
    """,
    "drop": """
        create window W#length(2) as A; insert into W select * from A;
        @name('drop') @Drop select irstream x from W; @name('low') select irstream k from W;
        @name('high') @Priority(2) select x from A; @Drop @name('first') select k from A(x > 1);
        @name('rest') select g from A
    """,
    "patterns in a window's context": """
        create context ByK partition by k from A; context ByK create window W#keepall as A;
        context ByK insert into W select * from A(x > 0);
        @name('pairs') context ByK select a.x as x, b.x as y from pattern[every a=A(x = 0) -> b=W]
    """,
}  # fmt: skip


@pytest.mark.histories
@pytest.mark.parametrize("name", MODULES)
@settings(max_examples=several(8))
@given(events=histories(), cuts=st.lists(st.integers(1, 39), max_size=3))
@in_part
def test_a_replay_keeps_the_order(name: str, events: list[Event], cuts: list[int]) -> None:
    config = Config(precedence=True)
    sent, replayed = Run(MODULES[name], config=config), Run(MODULES[name], config=config)
    sent.send(events)
    replayed.replay(events, cuts)
    assert replayed.deliveries == sent.deliveries
    assert replayed.readings() == sent.readings()


def test_what_coverage_and_plan_say() -> None:
    epl = "create schema A(x int); @name('ins') insert into Job event-precedence(x) select x from A; select x from Job"
    runtime = Runtime(Config(precedence=True))
    shown = show_plan(runtime.deploy(epl).plan)
    assert "inserted by istream, created here, precedence x" in shown
    assert runtime.batch(["A"]).merged["ins"] == "`ins` inserts events with a precedence"
    plain = Runtime()
    plain.deploy(epl)
    assert not plain.batch(["A"]).merged
