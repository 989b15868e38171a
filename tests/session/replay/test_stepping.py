"""Replays whose clock stops whenever something is due give what events sent one by one give, and are known as such."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
import pytest

from cepbook.session import Workbench
from cepbook.testing.workbench_scenario import scenario_of

SCHEMA = "create schema A(t long, k string, x int) starttimestamp t;"
MODULES = {
    "timers of two statements meet": "insert rstream into C select rstream k, x from A#time(1 sec);"
    "insert into C select k, x from A#time_batch(700 msec); @name('s') select irstream k, x from C#length(3)",
    "a pattern and an output clause": "@name('s') select a.k as k, b.x as x from pattern [every a=A(x > 7) ->"
    " (timer:interval(300 msec) -> b=A) where timer:within(5 sec)];"
    "@name('u') select k, sum(x) as s from A#time(2 sec) group by k output snapshot every 700 msec",
    "a variable and a context": "create variable int low = 3; on A(x > 8) set low = x - 4;"
    "create context C initiated by A(x > 6) terminated after 1500 msec;"
    "@name('s') context C select count(*) as n from A(x > low) output snapshot every 400 msec",
    "something due at each stop of the clock": "create context C initiated after 0 sec terminated after 900 msec;"
    "@name('s') context C select count(*) as n from A output last when terminated;"
    "@name('u') select 1 as one from pattern [every timer:interval(400 msec)]",
}


def events(count: int = 150) -> list[dict[str, Any]]:
    draw = random.Random(7)
    time, events = 0, []
    for _ in range(count):
        time += draw.choice((0, 0, 1, 40, 250, 900))
        events.append({"t": time, "k": draw.choice("abc"), "x": draw.randrange(10)})
    return events


def bench(epl: str) -> Workbench:
    cep = Workbench()
    cep.run(SCHEMA + epl)
    return cep


def delivered(cep: Workbench) -> dict[str, str]:
    return {name: cep.changes(name).to_string() for name in cep.runtime.statements if cep.feed(name).deliveries}


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("options", [{}, {"speed": 1e9}, {"speed": 2e4}])
def test_as_sent_one_by_one(module: str, options: dict[str, Any]) -> None:
    sent, replayed = bench(MODULES[module]), bench(MODULES[module])
    for event in events():
        if event["t"] > sent.runtime.now:
            sent.advance(event["t"], stepping=True)
        sent.send("A", event)
    end = sent.runtime.now + 3000
    sent.advance(end, stepping=True)
    replayed.replay(pd.DataFrame(events()), type="A", until=end, **options).run()
    assert delivered(replayed) == delivered(sent)
    assert delivered(sent)


@pytest.mark.parametrize("module", MODULES)
def test_the_past_is_known_as_it_was(module: str) -> None:
    cep = bench(MODULES[module])
    cep.replay(events(60), type="A").run()
    assert delivered(cep.again()) == delivered(cep)
    cep.send("A", t=0, k="a", x=9)
    assert delivered(cep.again()) == delivered(cep)


def test_a_row_of_a_timer_is_explained_and_recorded() -> None:
    cep = bench("@name('s') select irstream k, x from A#time(1 sec)")
    cep.replay([{"t": t, "k": "a", "x": t} for t in (0, 300, 5000)], type="A").run()
    assert cep.changes("s", times="ms")["time"].tolist() == [0, 300, 1000, 1300, 5000]
    assert "00:00:01.300" in repr(cep.why("s", at=1300))
    recorded = scenario_of(cep, "stepping")
    assert "@5000 stepping\nA" in recorded.text and not recorded.otherwise
