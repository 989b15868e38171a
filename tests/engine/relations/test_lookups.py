"""Lookups find the rows that a scan of all rows finds, whatever indexes there are."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime

NUMBERS = random.Random(7)
ROWS = [{"id": i, "k": NUMBERS.choice("abc"), "x": NUMBERS.randrange(4), "y": NUMBERS.randrange(3)} for i in range(24)]
QUERIES = [{"id": i, "k": NUMBERS.choice("abcd"), "x": NUMBERS.randrange(5), "y": 1} for i in (3, 11, 23, 40)]
CONDITIONS = {
    "S.k = q.k": lambda r, q: r["k"] == q["k"],
    "S.k = q.k and S.x = q.x": lambda r, q: r["k"] == q["k"] and r["x"] == q["x"],
    "S.y = q.y and S.x = q.x and S.k = q.k": lambda r, q: (r["k"], r["x"], r["y"]) == (q["k"], q["x"], q["y"]),
    "S.x > q.x": lambda r, q: r["x"] > q["x"],
    "S.k = q.k and S.x >= q.y": lambda r, q: r["k"] == q["k"] and r["x"] >= q["y"],
    "S.k = q.k and S.x between q.x - 1 and q.x": lambda r, q: r["k"] == q["k"] and q["x"] - 1 <= r["x"] <= q["x"],
    "S.k = q.k and S.y = q.y and S.x < q.x": lambda r, q: r["k"] == q["k"] and r["y"] == q["y"] and r["x"] < q["x"],
    "S.id = q.id": lambda r, q: r["id"] == q["id"],
    "S.k = q.k and S.id = q.id": lambda r, q: r["id"] == q["id"] and r["k"] == q["k"],
    "S.x = q.x and S.k = q.k and S.id = q.id": lambda r, q: all(r[n] == q[n] for n in ("id", "k", "x")),
    "S.id = q.id and S.x < q.x": lambda r, q: r["id"] == q["id"] and r["x"] < q["x"],
}
STORES = {
    "window": "create window S#keepall as R",
    "table": "create table S(id int primary key, k string, x int, y int)",
    "table of two keys": "create table S(id int primary key, k string primary key, x int, y int)",
}
INDEXES = {
    "no index": (),
    "one column": ("create index A on S(k)",),
    "ordered": ("create index A on S(x btree)", "create index B on S(k, x btree)"),
    "several": ("create index A on S(y)", "create index B on S(k, x)", "create index C on S(x)"),
}

USES = {
    "on select": "on Q as q select S.id as id from S where {}",
    "subquery": "select (select window(S.id) from S where {}) as ids from Q as q",
    "join": "select S.id as id from Q as q unidirectional, S where {}",
}


def literals(condition: str, query: dict[str, Any]) -> str:
    for name, value in query.items():
        condition = condition.replace(f"q.{name}", repr(value))
    return condition


def filled(store: str, indexes: str, statements: Callable[[Runtime], None] = lambda runtime: None) -> Runtime:
    runtime = Runtime()
    runtime.deploy("create schema R(id int, k string, x int, y int); create schema Q(id int, k string, x int, y int)")
    runtime.deploy("; ".join((STORES[store], *INDEXES[indexes])))
    runtime.deploy("insert into S select id, k, x, y from R")
    statements(runtime)
    for row in ROWS:
        runtime.send("R", row)
    return runtime


@pytest.mark.parametrize("indexes", INDEXES)
@pytest.mark.parametrize("store", STORES)
def test_lookups_are_scans(store: str, indexes: str) -> None:
    deliveries: dict[tuple[str, str], list[int]] = {}

    def note(condition: str, use: str, delta: Any) -> None:
        for row in delta.insert or ():
            deliveries.setdefault((condition, use), []).extend(row["ids"] or () if "ids" in row else [row["id"]])

    def deploy(runtime: Runtime) -> None:
        for condition in CONDITIONS:
            for use, epl in USES.items():
                for statement in runtime.deploy(epl.format(condition)).statements:
                    statement.add_listener(partial(note, condition, use))

    runtime = filled(store, indexes, deploy)
    for query in QUERIES:
        deliveries.clear()
        runtime.send("Q", query)
        for condition, accepts in CONDITIONS.items():
            expected = [row["id"] for row in ROWS if accepts(row, query)]
            for use in USES:
                assert sorted(deliveries.get((condition, use), ())) == expected, (condition, use, query)


@pytest.mark.parametrize("indexes", INDEXES)
@pytest.mark.parametrize("store", STORES)
def test_queries_are_scans(store: str, indexes: str) -> None:
    runtime = filled(store, indexes)
    for condition, accepts in CONDITIONS.items():
        for query in QUERIES:
            rows = runtime.query(f"select id from S where {literals(condition, query)}")
            assert sorted(row["id"] for row in rows) == [row["id"] for row in ROWS if accepts(row, query)], condition
