"""Windows whose arrivals are written in place: ``prev`` and subqueries read what the called view would hold."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from cepbook.engine.codegen.views import ViewCodegen
from tests.engine.joins.test_one_type import FILTERS, SCHEMA, history, reactions
from tests.random_cases import seeds

WINDOWS = ("#length(1)", "#length(3)", "#keepall", "#time(2 sec)", "#ext_timed(id, 9)", "#length_batch(2)")
VALUES = ("x", "k", "x + id", "s", "inverse(x)")
CLAUSES = ("", " output last every 2 events", " output first every 2 sec", " order by id desc")
AGGREGATES = ("max(q.x)", "min(q.id)", "sum(q.x)", "count(*)", "window(q.id)", "prev(1, q.x)", "max(inverse(q.x))")
KEYS = (
    "q.k = s.k",
    "q.k = s.k and q.x = s.x",
    "q.x > s.x",
    "inverse(q.x) = s.x",
    "q.k = s.k and q.x <= s.x",
    "q.x = 1",
)


def prev_module(draw: Random) -> str:
    def prev() -> str:
        return f"{draw.choice(['prev', 'prevtail'])}({draw.choice([0, 1, 1, 2, 3])}, {draw.choice(VALUES)})"

    window = draw.choice(["", "", "#groupwin(k)"]) + draw.choice(WINDOWS)
    grouped = draw.random() < 0.2
    conditions = ["", "", f" where {prev()} is not null", " where prev(1, x) < x", " where prevtail(x) <= x"]
    where = "" if grouped else draw.choice(conditions)
    columns = f"id, k, sum(x) as n, {prev()} as a" if grouped else f"id, {prev()} as a, {prev()} as b"
    clause = " group by k" if grouped else draw.choice(CLAUSES)
    select = draw.choice(["select", "select irstream"])
    return f"{select} {columns} from E{window} as s{where}{clause}"


def subquery_module(draw: Random) -> str:
    window = draw.choice(["", "", "#groupwin(k)"]) + draw.choice(WINDOWS)
    rows = f"from E{draw.choice(FILTERS)}{window} as q{draw.choice(['', *(f' where {key}' for key in KEYS)])}"
    value = draw.choice(
        [
            f"(select {draw.choice(AGGREGATES[:5])} {rows})",
            f"(select {draw.choice(AGGREGATES)} {rows})",
            f"(select q.id {rows})",
            f"(select q.* {rows}).firstOf()",
            f"exists (select * {rows})",
            f"s.x in (select q.x {rows})",
            f"s.x < all (select q.id {rows})",
        ]
    )
    return f"select s.id as id, {value} as v from E{draw.choice(FILTERS)} as s"


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(150))
@pytest.mark.parametrize("module", [prev_module, subquery_module])
def test_reactions_are_those_of_called_views(
    module: Callable[[Random], str], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Random(seed)
    context, named = draw.choice([("", ""), ("", ""), ("create context C partition by k from E; ", "context C ")])
    epl, steps = f"{SCHEMA}{context}@name('s') {named}{module(draw)}", history(draw)
    written = reactions(epl, steps)
    with monkeypatch.context() as patched:
        patched.setattr(ViewCodegen, "queued", False)
        called = reactions(epl, steps)
    assert repr(written) == repr(called), epl
