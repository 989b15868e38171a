"""Joins whose inputs all read the same events make the rows that they make when each input is called by itself."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.runtime import Runtime
from cepbook.errors import StatementError
from cepbook.lang.types import INT
from tests.engine.sinks import Deltas
from tests.engine.slices import inverse, sent_in_one_slice
from tests.engine.snapshot.saving import again
from tests.random_cases import seeds

SCHEMA = "create schema E(id int, x int, k string); create schema F(z int) inherits E; "
WINDOWS = ("#length(2)", "#keepall", "#time(2 sec)", "#lastevent", "#unique(k)", "#time_batch(1 sec)", "#sort(2, x)")
FILTERS = ("", "(x > 1)", "(x <= 1)", "(k = 'a')", "(inverse(x) > 3)", "(x is not null, id > x)")
CLAUSES = ("", " output last every 2 events", " order by s0.id desc", " output snapshot every 2 sec")


def module(draw: Random) -> str:
    count = draw.choice([2, 2, 2, 3])
    inputs = [f"E{draw.choice(FILTERS)}{draw.choice(WINDOWS)} as s{number}" for number in range(count)]
    if draw.random() < 0.15:
        inputs[0] = f"E{draw.choice(FILTERS)} as s0 unidirectional"
    outer = draw.choice(["", "", "left outer join ", "full outer join "])
    if outer and "unidirectional" not in inputs[0]:
        text = inputs[0]
        for number, other in enumerate(inputs[1:], 1):
            text += f" {outer}{other} on s0.k = s{number}.k"
    else:
        ties = " and ".join(f"s0.k = s{number}.k" for number in range(1, count))
        text = f"{', '.join(inputs)} where {ties}{draw.choice(['', ' and s0.x <= s1.x', ' and inverse(s1.x) > 0'])}"
    context, named = draw.choice([("", ""), ("", ""), ("create context C partition by k from E; ", "context C ")])
    select = draw.choice(["select ", "select irstream "])
    columns = draw.choice(["s0.id as a, s1.id as b", "count(*) as n, sum(s1.x) as t", "s0, s1.x as x"])
    clause = "" if "count" in columns else draw.choice(CLAUSES)
    return f"{SCHEMA}{context}@name('s') {named}{select}{columns} from {text}{clause}"


def history(draw: Random) -> list[tuple[str, Any]]:
    steps: list[tuple[str, Any]] = []
    now = 0
    for number in range(draw.randint(8, 40)):
        kind = draw.choices(["send", "advance", "look", "save", "batch"], [8, 3, 1, 0.5, 1])[0]
        now += draw.choice([0, 400, 1000, 5000]) if kind == "advance" else 0
        rows = [
            {"id": number * 10 + k, "x": draw.choice([None, 0, 1, 2, 3]), "k": draw.choice(["a", "b", None])}
            for k in range(draw.randint(1, 6) if kind == "batch" else 1)
        ]
        steps.append((kind, now if kind == "advance" else rows))
    return steps


def reactions(epl: str, steps: list[tuple[str, Any]]) -> list[Any]:
    """Return deliveries, errors and what a reader saw."""
    runtime, deliveries, seen = Runtime(), Deltas(), list[Any]()
    runtime.register_function("inverse", inverse, returns=INT)
    runtime.deploy(epl)
    runtime.statement("s").add_sink(deliveries)
    for kind, value in steps:
        try:
            if kind == "send":
                inherits = value[0]["id"] % 5 == 0
                runtime.send("F" if inherits else "E", {**value[0], **({"z": 1} if inherits else {})})
            elif kind == "advance":
                runtime.advance(value)
            elif kind == "batch":
                sent_in_one_slice(runtime, "E", value, "id")
            elif kind == "save":
                runtime = again(runtime)
                runtime.statement("s").add_sink(deliveries)
            else:
                seen.append(runtime.iterate("s"))
                runtime.turn.settled()  # a condition may have failed
        except StatementError as failure:
            seen.append(str(failure))
        seen.append(len(deliveries))
    return [list(deliveries), seen]


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(50))
def test_rows_are_those_of_inputs_called_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(seed)
    epl, steps = module(draw), history(draw)
    together = reactions(epl, steps)
    with monkeypatch.context() as patched:
        patched.setattr(PhysicalPlan, "joins_one_type", False)
        apart = reactions(epl, steps)
    assert repr(together) == repr(apart), epl


def test_a_batch_that_raises_leaves_nothing_for_the_next_turn() -> None:
    runtime = Runtime()
    runtime.register_function("inverse", inverse, returns=INT)
    runtime.deploy(f"{SCHEMA}@name('s') select a.id as id from E(inverse(x) > 3)#keepall as a, E#keepall as b")
    rows = [{"id": 1, "x": 0, "k": "a"}, {"id": 2, "x": 1, "k": "a"}]
    with pytest.raises(StatementError, match="ZeroDivisionError"):
        sent_in_one_slice(runtime, "E", rows, "id")
    assert runtime.turn.over
