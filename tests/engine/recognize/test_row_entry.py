"""Rows that enter by themselves make the matches, errors and open matches that they make in the general code."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cepbook.engine.config import Config
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.runtime import Runtime
from cepbook.errors import StatementError
from cepbook.lang.types import INT
from tests.engine.recognize.reference import Clauses, Row
from tests.engine.sinks import Deltas
from tests.engine.slices import inverse, sent_in_one_slice
from tests.engine.snapshot.saving import again
from tests.random_cases import seeds

SCHEMA = "create schema R(i int, x int, g string);"
INPUTS = ("from R", "from R(x is null or x < 4)", "from R", "from R#keepall")
CLAUSES = ("", "", " output every 3 events", " output last every 2 sec", " order by A")
BEGIN = "create context C start R(x = 0) end R(x = 4); "


def module(draw: Random) -> str:
    """Return a module with one clause that reports only the earliest match."""
    clauses = Clauses(0)
    clauses.random = draw
    clause = clauses.clause(skip="past last row", all_matches=False)
    while "A" not in clause.names:
        clause = clauses.clause(skip="past last row", all_matches=False)
    text = clause.epl().replace("from R", draw.choice(INPUTS))
    if draw.random() < 0.3:
        text = text.replace("A.x >=", "inverse(A.x) >= 0 and A.x >=").replace("B.x <", "inverse(B.x) >= 0 and B.x <")
    if draw.random() < 0.2:
        text = text.replace("partition by g", "partition by g, inverse(x)")
    context, named = draw.choice([("", ""), ("", ""), (BEGIN, "context C ")])
    tail = draw.choice(CLAUSES)
    if "A" in clause.many:
        tail = tail.replace("A", "A.countOf()")
    text += draw.choice(["", "", "", " where x <> 2", " where inverse(x) > 3"])
    return f"{SCHEMA} {context}@name('s') {named}{text}{tail}"


def started(epl: str, limit: int) -> tuple[Runtime, Deltas]:
    runtime, deliveries = Runtime(Config(recognize_limit=limit)), Deltas()
    runtime.register_function("inverse", inverse, returns=INT)
    runtime.deploy(epl)
    runtime.statement("s").add_sink(deliveries)
    return runtime, deliveries


def history(draw: Random) -> list[tuple[str, Any]]:
    steps: list[tuple[str, Any]] = []
    now = 0
    for number in range(draw.randint(5, 40)):
        kind = draw.choices(["send", "advance", "look", "save", "batch"], [8, 2, 1, 0.5, 1])[0]
        rows: list[Row] = [
            {"i": number * 10 + k, "x": draw.choice([None, 0, 1, 2, 3, 4]), "g": draw.choice(["a", "b", None])}
            for k in range(draw.randint(1, 9) if kind == "batch" else 1)
        ]
        now += draw.choice([0, 500, 3000]) if kind == "advance" else 0
        steps.append((kind, now if kind == "advance" else rows))
    return steps


def reactions(epl: str, steps: list[tuple[str, Any]], limit: int) -> list[Any]:
    """Return deliveries, errors and what a reader saw, in order."""
    runtime, deliveries = started(epl, limit)
    seen: list[Any] = []
    for kind, value in steps:
        try:
            if kind == "send":
                runtime.send("R", dict(value[0]))
            elif kind == "advance":
                runtime.advance(value)
            elif kind == "batch":
                sent_in_one_slice(runtime, "R", value, "i")
            elif kind == "save":
                runtime = again(runtime)
                runtime.statement("s").add_sink(deliveries)
            if kind in ("look", "save"):
                seen.append([state["partials"] for state in runtime.state("s")])
                if "keepall" in epl:
                    seen.append(runtime.iterate("s"))
                    runtime.turn.settled()  # a condition may have failed
        except StatementError as failure:
            seen.append(str(failure))
    return [list(deliveries), seen]


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(50))
def test_matches_are_those_of_the_general_code(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(seed)
    epl, steps, limit = module(draw), history(draw), draw.choice([2, 3, 5, 100, 100])
    alone = reactions(epl, steps, limit)
    with monkeypatch.context() as patched:
        patched.setattr(PhysicalPlan, "enters_rows_alone", False)
        general = reactions(epl, steps, limit)
    assert repr(alone) == repr(general), epl
