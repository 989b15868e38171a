"""Events that no condition of a context takes: statements see what they see when every event is routed."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cepbook.engine.contexts.lifecycle import NonOverlappingBranch, OverlappingBranch
from cepbook.engine.contexts.tree_nodes import Branch
from cepbook.engine.runtime import Runtime
from cepbook.errors import StatementError
from cepbook.lang.types import BOOLEAN
from tests.engine.sinks import Deltas
from tests.engine.snapshot.saving import again
from tests.random_cases import seeds

SCHEMAS = """create schema A(id int, x int); create schema B(id int, x int); create schema C(z int) inherits A;
create variable int limit_ = 2;"""
BEGINS = (
    "A(x > 2) as s",
    "A as s",
    "C(z = 1) as s",
    "A(x > limit_) as s",
    "A(even(x)) as s",
    "A(7 / x > 2) as s",
    "pattern [every s=A(x = 1)]",
    "A(x = 1 or id = 2) as s",
)
ENDS = (
    "after 2 sec",
    "B(id = s.id)",
    "B(id = s.id, x > 1) as b",
    "B(x > s.x)",
    "A(x = 0) as b",
    "B(even(x))",
    "B(7 / x > s.x)",
    "pattern [B(id = s.id) -> B(id = s.id)]",
    "A(id = s.id, x < 2)",
)
FILTERS = ("", "(id = context.s.id)", "(x >= context.s.x)", "(x > 1)", "(id = context.s.id, x > 0)")
OUTPUTS = ("", "", " output last when terminated", " output all when terminated", " output snapshot when terminated")


def module(draw: Random) -> str:
    begin, end = draw.choice(BEGINS), draw.choice(ENDS)
    kind = draw.choice(["start {} end {}", "initiated by {} terminated {}", "initiated by {} terminated {}", "now"])
    if kind == "now":
        end = draw.choice(["B(x > 3)", "after 3 sec", "B(even(x)) as b"])
        declaration, filters = f"start @now end {end}", ("", "(x > 1)")
    else:
        by = "by " if "initiated" in kind and not end.startswith("after") else ""
        declaration, filters = kind.format(begin, by + end), FILTERS
    if draw.random() < 0.2:
        declaration = f"context Period {declaration}, context Keyed partition by id from A, id from B"
        filters = ("", "(x > 1)")
    context = f"create context Life {declaration};"
    statements = [
        f"@name('s{number}') context Life select id, count(*) as n, sum(x) as t from {draw.choice('AB')}"
        f"{draw.choice(filters)}{draw.choice(['', '#length(2)'])} group by id{draw.choice(OUTPUTS)};"
        for number in range(draw.randint(1, 3))
    ]
    return "\n".join([SCHEMAS, context, *statements])


def even(x: int | None) -> bool:
    assert x is not None
    return x % 2 == 0


def history(draw: Random) -> list[tuple[str, Any]]:
    steps: list[tuple[str, Any]] = []
    now = 0
    for _ in range(draw.randint(10, 50)):
        kind = draw.choices(["send", "advance", "save", "look", "assign", "end"], [10, 2, 0.5, 1, 0.5, 0.5])[0]
        now += draw.choice([500, 1000, 2500]) if kind == "advance" else 0
        event = {"id": draw.randint(1, 3), "x": draw.choice([None, 0, 1, 2, 3, 4]), "z": draw.randint(0, 2)}
        value = {"send": (draw.choice("AABBC"), event), "advance": now}.get(kind, draw.randint(0, 3))
        steps.append((kind, value))
    return steps


def reactions(epl: str, steps: list[tuple[str, Any]]) -> list[Any]:
    """Return deliveries, errors, partitions and matches, in order."""
    runtime = Runtime()
    runtime.register_function("even", even, returns=BOOLEAN)
    runtime.deploy(epl)
    sinks = {name: Deltas() for name in runtime.statements if name.startswith("s")}
    seen: list[Any] = []
    for name, sink in sinks.items():
        runtime.statement(name).add_sink(sink)
    for kind, value in steps:
        try:
            if kind == "send":
                type_name, event = value
                runtime.send(type_name, event if type_name == "C" else {k: event[k] for k in ("id", "x")})
            elif kind == "advance":
                runtime.advance(value)
            elif kind == "save":
                runtime = again(runtime)
                for name, sink in sinks.items():
                    runtime.statement(name).add_sink(sink)
            elif kind == "assign":
                runtime.set_variable("limit_", value)
            elif kind == "end":
                ids = [partition["id"] for partition in runtime.partitions("Life")]
                if len(ids) > value:
                    runtime.end_partition("Life", ids[value])
            else:
                seen.append(runtime.partitions("Life"))
        except StatementError as failure:
            seen.append(str(failure))
        seen.append([len(sink) for sink in sinks.values()])
    return [*map(list, sinks.values()), seen]


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(50))
def test_deliveries_are_those_of_routed_events(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(seed)
    epl, steps = module(draw), history(draw)
    ignoring = reactions(epl, steps)
    with monkeypatch.context() as patched:
        for branch in (NonOverlappingBranch, OverlappingBranch):
            patched.setattr(branch, "ignores", Branch.ignores)
        routing = reactions(epl, steps)
    assert repr(ignoring) == repr(routing), epl
