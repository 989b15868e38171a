"""Statements that collect groups until the output is due deliver what they deliver when each change makes its rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from cepbook import Workbench
from cepbook.engine.physical.plan import PhysicalPlan
from tests.random_cases import seeds

WINDOWS = (
    "#time(3 sec)",
    "#time(1 sec)",
    "#length(4)",
    "#keepall",
    "#time_batch(2 sec)",
    "#length_batch(3)",
    "#unique(x)",
    "#groupwin(k)#time(2 sec)",
    "#groupwin(x)#length(2)",
    "#ext_timed(at, 2 sec)",
    "#sort(3, x)",
    "#time(2 sec)#length(3)",
    "#time_accum(1 sec)",
    "",
)
RATES = ("every 1 sec", "every 700 milliseconds", "every 2.5 sec", "at (*, *, *, *, *, */2)", "when terminated")
ENDING = (
    "start @now end after 2 sec",
    "initiated by E(x = 3) terminated after 1500 milliseconds",
    "start E end E(x = 0)",
)
CLAUSES = ("", " where x > 1", " having count(*) > 1", " where x is not null", " having sum(x) is not null")


def module(draw: random.Random) -> str:
    window, rate = draw.choice(WINDOWS), draw.choice(RATES)
    which, clause, context = (
        draw.choice(["last", "all", "snapshot"]),
        draw.choice(CLAUSES),
        draw.choice(["", "context C "]),
    )
    where, having = (clause, "") if "where" in clause else ("", clause)
    contexts = "create context C partition by k from E;" if context else ""
    if rate == "when terminated":
        contexts, context = f"create context C {draw.choice(ENDING)};", "context C "
    order = draw.choice(["", " order by sum(x) desc, k"])
    return (
        f"create schema E(at long, k string, x int);{contexts}\n"
        f"@name('q') {context}select k, count(*) as n, sum(x) as s, max(x) as most from E{window}{where} "
        f"group by k{having} output {which} {rate}{order}"
    )


def history(draw: random.Random) -> list[tuple[str, Any]]:
    steps: list[tuple[str, Any]] = []
    now = 0
    for _ in range(draw.randrange(10, 60)):
        kind = draw.choices(["send", "advance", "leap", "look", "save"], [8, 4, 2, 1, 0.5])[0]
        now += draw.choice([0, 1, 100, 500, 1000, 1700]) if kind in ("advance", "leap") else 0
        now += 5000 if kind == "leap" and draw.random() < 0.3 else 0
        event = {"at": now, "k": draw.choice("abc"), "x": draw.choice([None, 0, 1, 2, 3])}
        steps.append((kind, event if kind == "send" else now))
    return steps


def delivered(epl: str, steps: list[tuple[str, Any]], folder: Path) -> tuple[list[Any], list[Any]]:
    """Return the deliveries, and what a reader saw meanwhile."""
    cep = Workbench()
    cep.run(epl)
    seen: list[Any] = []
    for kind, value in steps:
        if kind == "send":
            cep.send("E", value)
        elif kind in ("advance", "leap"):
            cep.advance(value, stepping=kind == "advance")
        elif kind == "look" and "#" in epl:
            seen.append(cep.to_frame("q").to_dict("records"))
        elif kind == "save":
            cep.save(folder / "saved")
            cep.load(folder / "saved")
    assert not cep.errors
    return cep.changes("q").to_dict("records"), seen


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(60))
def test_deliveries_are_those_of_the_general_code(seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    draw = random.Random(seed)
    epl, steps = module(draw), history(draw)
    collected = delivered(epl, steps, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(PhysicalPlan, "collects_groups", False)
        general = delivered(epl, steps, tmp_path)
    assert repr(collected) == repr(general), epl
