"""``%epl show steps`` tells which index is looked into, and why there is none."""

from __future__ import annotations

import pytest

from cepbook.session import Workbench

STORES = """
create schema A(k string, x int, i int); create schema B(k string, x int, i int);
create window W#keepall as A; insert into W select * from A;
create table T(k string primary key, x int, n count(*)); into table T select count(*) as n from A group by k;
"""
SHARED = "of window W, shared by its readers"


@pytest.mark.parametrize(
    ("epl", "lookups"),
    [
        (
            "select w.i from B as e unidirectional, W as w where w.k = e.k and w.x > e.x",
            [
                f"w found by a composite index {SHARED}: w.k = e.k; of many of one key those with w.x: > e.x",
                "w then tested: w.x > e.x",
            ],
        ),
        (
            "select w.i from B#length(3) as e, W(x > 0) as w where w.x != e.x or w.k = e.k",
            [
                "w all rows of window W are scanned; `or` has no index",
                "then tested: (w.x != e.x) or (w.k = e.k), w.x > 0",
            ],
        ),
        (
            "select a.i from B#length(3) as e, A#length(9) as a where a.k = e.k and a.x between e.x and e.x + 3",
            [
                "a found by a composite index: a.k = e.k; of many of one key those with a.x: >= e.x and <= e.x + 3",
                "a then tested: a.x",
            ],
        ),
        (
            "select t.n from B#length(3) as e, T as t where t.k = e.k",
            ["t found by the primary key of table T: t.k = e.k"],
        ),
        (
            "on B as e merge W as w where w.x in (e.x, 3) when matched then delete",
            [f"found by a hash index {SHARED}: w.x is looked up for each of e.x, 3"],
        ),
        (
            "on B as e update T as t set x = 1 where t.n > e.x",
            ["all rows of table T are scanned; n is an aggregation column, which has no index", "tested: t.n > e.x"],
        ),
        (
            "on B as e select w.* from W as w where w.x between e.x and e.x + 3",
            [f"found by a sorted index {SHARED}, on w.x: >= e.x and <= e.x + 3"],
        ),
        ("on B as e delete from W as w where w.x != e.x", ["scanned; an exclusion has no index"]),
        ("on B as e delete from W as w where w.x > w.i + e.i", ["both sides read the row"]),
        ("select (select max(x) from T) as z from B", ["aggregates are updated from the rows changed"]),
        ("select (select last(x) from T) as z from B", ["all rows of table T are read at each lookup"]),
        ("select (select max(x) from W) as z from B", ["aggregates are updated by each event; no rows are looked up"]),
        (
            "select e.i from B#keepall as e full outer join W as w on w.k = e.k",
            [f"w found by a hash index {SHARED}: w.k is e.k", "e found by a hash index: e.k is w.k"],
        ),
    ],
)
def test_steps_tell_how_rows_are_found(epl: str, lookups: list[str]) -> None:
    cep = Workbench()
    cep.run(STORES)
    steps = cep.explain(epl, "steps").replace("W.x is", "w.x is").replace("T.n", "t.n")
    for lookup in lookups:
        assert lookup in steps, steps
