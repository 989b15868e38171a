"""``prev`` of an arriving event reads from the queue of its window what the view itself answers."""

from __future__ import annotations

from random import Random

import pytest

from cepbook.engine.codegen.views import ViewCodegen
from tests.engine.joins.test_one_type import SCHEMA, history, reactions
from tests.random_cases import several

WINDOWS = ("#length(1)", "#length(3)", "#keepall", "#time(2 sec)", "#ext_timed(id, 9)", "#length_batch(2)")
VALUES = ("x", "k", "x + id", "s", "inverse(x)")
CLAUSES = ("", " output last every 2 events", " output first every 2 sec", " order by id desc")


def module(draw: Random) -> str:
    def prev() -> str:
        return f"{draw.choice(['prev', 'prevtail'])}({draw.choice([0, 1, 1, 2, 3])}, {draw.choice(VALUES)})"

    window = draw.choice(["", "", "#groupwin(k)"]) + draw.choice(WINDOWS)
    grouped = draw.random() < 0.2
    conditions = ["", "", f" where {prev()} is not null", " where prev(1, x) < x", " where prevtail(x) <= x"]
    where = "" if grouped else draw.choice(conditions)
    columns = f"id, k, sum(x) as n, {prev()} as a" if grouped else f"id, {prev()} as a, {prev()} as b"
    clause = " group by k" if grouped else draw.choice(CLAUSES)
    context, named = draw.choice([("", ""), ("", ""), ("create context C partition by k from E; ", "context C ")])
    select = draw.choice(["select", "select irstream"])
    return f"{SCHEMA}{context}@name('s') {named}{select} {columns} from E{window} as s{where}{clause}"


@pytest.mark.histories
@pytest.mark.parametrize("seed", range(several(150)))
def test_values_are_those_of_the_view(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(seed)
    epl, steps = module(draw), history(draw)
    queued = reactions(epl, steps)
    with monkeypatch.context() as patched:
        patched.setattr(ViewCodegen, "queued", False)
        viewed = reactions(epl, steps)
    assert repr(queued) == repr(viewed), epl
