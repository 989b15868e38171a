"""Contexts and their statements in the filter index.

An event reaches the contexts whose conditions it may meet, and the index changes with the statements.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from tests.random_cases import seeds

SCHEMA = """create schema E(k int, v int, s string); create schema F(k int, v int);
create context Keyed partition by k from E; create context Both partition by k from E, k from F;
create context Kinds group v < 2 as low, group v >= 2 as high from E;
create context Open start E(v = 3) end E(v = 0);
"""
CONTEXTS = [
    "initiated by E(k = {0}, v > 1) terminated by E(k = {0}, v = 0)",
    "initiated by E(k = {0}, v > 1) as a terminated by E(k = a.k, v = 0)",
    "initiated by E(k = {0}) as a terminated by F(k = a.k)",
    "initiated by E(k = {0}) terminated after 3 sec",
    "initiated by distinct(a.v) E(k in ({0}, {1})) as a terminated after 5 sec",
    "initiated by E(v > {0}) terminated by E(v < {1})",
    "initiated @now and pattern [every E(k = {0})] terminated by E(k = {0}, v = 1)",
    "initiated by pattern [every a=E(k = {0}) -> b=E(k = {0}, v > 1)] terminated by E(k = {0}, v = 0)",
    "initiated by pattern [every (timer:interval(1 sec) or a=E(k = {0}, v = 2))] terminated after 2 sec",
    "initiated by pattern [not E(k = {0})] terminated after 2 sec",
    "start E(k = {0}, v > 1) end E(k = {0}, v = 0)",
    "start E(k = {0}, v > 1) as a end pattern [E(k = {0}) -> F(k = {1})]",
    "start E(k = {0}) end pattern [not E(k = {0}, v = {1})]",
    "start @now end E(k = {0}, v between 1 and 2)",
    "start F(k = {0}) end after 4 sec",
    "partition by k from E(v > {0}) terminated by E(v = {1})",
    "context A initiated by E(k = {0}) terminated by E(v = 0), context B start E(v = 2) end E(v = {1})",
]
RULES = [
    "select k, v from E(k = {0})",
    "select k, count(*) as n from E(v > {0}, k = {1})#length(3)",
    "select count(*) as n from E",
    "select k, v from F(k in ({0}, {1}))",
    "select a.v as a, b.v as b from pattern [every a=E(k = {0}) -> b=F(k = {1})]",
]
DROPPING = "@Drop @Priority(1) select k from E(k = {0}, v = {1})"
SHARED = ["", "context Keyed ", "context Both ", "context Kinds ", "context Open "]
ONLY_E = ["context Keyed ", "context Kinds "]


class Rules:
    """A runtime, and what its statements deliver."""

    def __init__(self) -> None:
        self.runtime = Runtime()
        self.rows: list[tuple[str, Any]] = []
        self.runtime.deploy(SCHEMA)

    def add(self, name: str, epl: str) -> None:
        self.runtime.deploy(epl, deployment_id=name)
        self.runtime.statement(name).add_listener(
            lambda delta: self.rows.append((name, repr((delta.insert, delta.remove))))
        )

    def send(self, at: int, type_name: str, event: dict[str, Any]) -> list[tuple[str, Any]]:
        self.rows.clear()
        self.runtime.advance(at)
        self.runtime.send(type_name, dict(event))
        return [*self.rows]


def rule(rng: random.Random, name: str, *, drops: bool) -> str:
    numbers = rng.randrange(4), rng.randrange(4)
    if drops and rng.random() < 0.2:
        return f"@name('{name}') {DROPPING.format(*numbers)}"
    select, context = rng.choice(RULES).format(*numbers), rng.choice(CONTEXTS)
    if rng.random() < 0.5:
        shared = rng.choice(SHARED)
        return f"@name('{name}') {shared}{select.replace('F(', 'E(') if shared in ONLY_E else select}"
    select = select.replace("F(", "E(") if context.startswith("partition") else select
    return f"create context C{name} {context.format(*numbers)}; @name('{name}') context C{name} {select}"


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(12))
def test_an_index_that_changes_delivers_what_a_new_one_delivers(seed: int) -> None:
    rng, at = random.Random(seed), 0
    changing, anew = Rules(), Rules()
    running: list[str] = []
    delivered = 0
    for step in range(160):
        action = rng.random()
        if action < 0.3:
            epl = rule(rng, f"s{step}", drops=seed % 3 == 0)
            for rules in (changing, anew):
                rules.add(f"s{step}", epl)
            running.append(f"s{step}")
        elif action < 0.4 and running:
            name = running.pop(rng.randrange(len(running)))
            for rules in (changing, anew):
                rules.runtime.undeploy(name)
        else:
            at += rng.choice([0, 0, 500, 1000])
            event = {"k": rng.choice([0, 1, 2, 3, None]), "v": rng.choice([0, 1, 2, 3, None]), "s": "a"}
            anew.runtime.rewired()
            rows = anew.send(at, type_name := rng.choice("EEF"), event)
            assert changing.send(at, type_name, event) == rows, (step, event)
            delivered += len(rows)
    assert delivered


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(10))
def test_many_contexts_deliver_what_each_delivers_alone(seed: int) -> None:
    rng, at = random.Random(seed), 0
    together, alone = Rules(), dict[str, Rules]()
    for number in range(16):
        name = f"s{number}"
        epl = rule(rng, name, drops=False)
        alone[name] = Rules()
        for rules in (together, alone[name]):
            rules.add(name, epl)
    delivered = 0
    for _ in range(80):
        at += rng.choice([0, 0, 500, 1000])
        event = {"k": rng.choice([0, 1, 2, 3, None]), "v": rng.choice([0, 1, 2, 3, None]), "s": "a"}
        rows = together.send(at, type_name := rng.choice("EEF"), event)
        for name, rules in alone.items():
            assert rules.send(at, type_name, event) == [row for row in rows if row[0] == name], (name, event)
        delivered += len(rows)
    assert delivered


@pytest.mark.parametrize(
    "context",
    [
        "initiated by E(k = {0}, v > 1) terminated by E(k = {0}, v = 0)",
        "initiated by E(k = {0}) terminated after 3 sec",
        "start E(k = {0}, v > 1) end E(k = {0}, v = 0)",
        "initiated by pattern [every a=E(k = {0}) -> b=E(k = {0}, v > 1)] terminated by E(k = {0}, v = 0)",
    ],
)
def test_an_event_reaches_the_contexts_whose_conditions_it_may_meet(context: str) -> None:
    rules = Rules()
    for number in range(40):
        epl = f"create context C{number} {context}; @name('s{number}') context C{number} select v from E(k = {{0}})"
        rules.add(f"s{number}", epl.format(number))
    assert rules.runtime.routes.call_counter("E")({"k": 7, "v": 3}) == 2  # one context and its statement
    assert rules.runtime.routes.call_counter("E")({"k": 77, "v": 3}) == 0


@pytest.mark.parametrize(
    "added",
    [
        "@name('added') select k from E(k = 3)",
        "@name('added') context Keyed select k from E(k = 3)",
        "create context C initiated by E(k = 3) terminated after 1 sec; @name('added') context C select k from E",
    ],
)
def test_the_index_stays_beside_contexts(added: str) -> None:
    rules = Rules()
    for number in range(6):
        rules.add(f"s{number}", f"@name('s{number}') select v from E(k = {number})")
    rules.add("keyed", "@name('keyed') context Keyed select k from E")
    rules.add("open", "@name('open') context Open select k from E")
    rules.send(0, "E", {"k": 3, "v": 3})
    index = rules.runtime.routes._indexed["E"]
    rules.add("added", added)
    assert "added" in dict(rules.send(0, "E", {"k": 3, "v": 3}))
    assert rules.runtime.routes._indexed["E"] is index
    rules.runtime.undeploy("added")
    assert "added" not in dict(rules.send(0, "E", {"k": 3, "v": 3}))
    assert rules.runtime.routes._indexed["E"] is index
    rules.runtime.undeploy("keyed")
    rules.runtime.undeploy("open")
    assert dict(rules.send(0, "E", {"k": 3, "v": 3})).keys() == {"s3"}
    assert rules.runtime.routes._indexed["E"].contexts == 0  # handlers without slots


@pytest.mark.parametrize("context", ["Keyed", "Kinds", "Open"])
def test_statements_of_a_context_keep_their_subscriptions_when_another_one_comes_or_goes(context: str) -> None:
    rules = Rules()
    for number in range(6):
        rules.add(f"s{number}", f"@name('s{number}') context {context} select v from E(k = {number})")
    rules.send(0, "E", {"k": 3, "v": 3})
    index = rules.runtime.routes._indexed["E"].index
    former = index.subscriptions()
    rules.add("added", f"@name('added') context {context} select v from E(k = 3)")
    assert len(rules.send(0, "E", {"k": 3, "v": 3})) == 2
    kept = [subscription for subscription in former if subscription in index]
    assert (len(kept), len(index)) == (6, 8)  # the context itself has another one
    rules.runtime.undeploy("s3")
    assert [name for name, _ in rules.send(0, "E", {"k": 3, "v": 3})] == ["added"]
    assert (sum(subscription in index for subscription in kept), len(index)) == (5, 7)


def test_contexts_that_come_take_the_places_of_those_that_went() -> None:
    rules = Rules()
    for number in range(8):
        context = f"create context C{number} start E(v = 3) end E(v = 0)"
        rules.add(f"s{number}", f"{context}; @name('s{number}') context C{number} select v from E")
        assert len(rules.send(0, "E", {"k": 1, "v": 3})) == min(number, 2) + 1
        if number >= 2:
            rules.runtime.undeploy(f"s{number - 2}")
    assert rules.runtime.routes._indexed["E"].contexts == 3
