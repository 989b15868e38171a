"""What an index leaves out is what no row could meet: joins and subqueries give the same rows as without one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cepbook.engine.cycles.versioned_relation import VersionedRelation
from cepbook.engine.runtime import Runtime
from cepbook.lang.syntax.source_text import SourceText
from tests.random_cases import seeds

HELD = "b (partition store last 6) as y"
QUERIES = {
    "new_with_held": f"select x.id, y.p from a (partition store last 3) as x, {HELD} where x.$row_status is new"
    " and y.$row_status is not dead and x.id = y.id",
    "dead_with_all": f"select x.id, y.p from a (partition store last 3) as x, {HELD} where x.$row_status is dead"
    " and x.id = y.id and x.p < y.p",
    "with_itself": "select x.id, z.p from a (partition store last 6) as x, self#x as z where x.$row_status is new"
    " and z.$row_status is not dead and x.id = z.id order by z.p desc",
    "three": f"select x.id, y.p, z.p as q from a (partition store last 4) as x, {HELD}, self#y as z where"
    " x.$row_status is new and y.id = x.id and z.p = y.p and z.$row_status is not dead",
    "exists": f"select x.id from a (partition store last 3) as x where x.$row_status is dead and exists"
    f" (select p from {HELD} where y.id = x.id and not y.$row_status is new)",
    "not_in": f"select x.id from a (partition store last 3) as x where x.$row_status is new and x.p not in"
    f" (select p from {HELD} where y.id = x.id and y.$row_status is not dead)",
    "counted": f"select x.id, count(*) as n from a (partition store last 3) as x, {HELD} where x.$row_status is new"
    " and y.id = x.id group by x.id",
}


def rows_of(query: str, seed: int) -> list[Any]:
    draw, runtime, found = random.Random(seed), Runtime(), list[Any]()
    runtime.deploy("create schema a(id long, p double); create schema b(id long, p double)")
    runtime.deploy(SourceText(query, "streamcruncher", {"name": "q"}))
    runtime.statement("q").add_listener(lambda delta: found.append(list(delta.insert or ())))
    for number in range(40):
        if number == 20:
            runtime = Runtime.restored(runtime.snapshot(), {})
            runtime.statement("q").add_listener(lambda delta: found.append(list(delta.insert or ())))
        many = range(draw.choice([1, 1, 2, 3]))
        values = [draw.choice([None, 0, 1, 2, 3, 4, 5]) for _ in many]
        runtime.send_together(
            (draw.choice("ab"), {"id": id_, "p": draw.choice([None, 1.0, 2.0, 3.0])}) for id_ in values
        )
    return found


@pytest.mark.histories
@pytest.mark.parametrize("name", QUERIES)
def test_same_rows_without_indexes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    narrowed = [rows_of(QUERIES[name], seed) for seed in seeds(5)]
    monkeypatch.setattr(VersionedRelation, "among", lambda self, column, keys, statuses: self.read(statuses))
    assert narrowed == [rows_of(QUERIES[name], seed) for seed in seeds(5)]
    assert any(narrowed)
