"""Keys that a dict of Python would tell apart, and groups that an event belongs to no more when it leaves."""

from __future__ import annotations

from math import isnan, nan
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.errors import BindError

SCHEMA = "create schema E(k string, x double, i int); create variable int v = 0"


def deployed(select: str) -> tuple[Runtime, list[tuple[list[Any], list[Any]]]]:
    """A runtime with the statement, and the list of its deliveries: the values of each insert and remove row."""
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(f"@name('s') {select}")
    found: list[tuple[list[Any], list[Any]]] = []
    runtime.statement("s").add_listener(
        lambda d: found.append(([*map(_values, d.insert or ())], [*map(_values, d.remove or ())]))
    )
    return runtime, found


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple("nan" if isinstance(v, float) and isnan(v) else v for v in row.values())


def another_nan() -> float:
    return float("nan")


@pytest.mark.parametrize("key", ["x", "x + 1", "x, k", "x + 1, k"])
@pytest.mark.parametrize("more", ["", ", prior(1, i) as p", ", count(*, group_by: (x + 1)) as n"])
def test_all_nan_are_one_group(key: str, more: str) -> None:
    runtime, found = deployed(f"select x, count(*) as c{more} from E#length(2) group by {key}")
    for x in (another_nan(), another_nan(), 1.0, 2.0, nan):
        runtime.send("E", {"k": "a", "x": x, "i": 1})
    assert [row[1] for insert, _ in found for row in insert[:1]] == [1, 2, 1, 1, 1]


@pytest.mark.parametrize("window", ["#unique(x)", "#unique(x + 1)", "#unique(x)#length(5)", "#rank(x, 5, i)"])
def test_a_nan_replaces_a_nan(window: str) -> None:
    runtime, found = deployed(f"select irstream x, i from E{window}")
    runtime.send("E", {"x": another_nan(), "i": 1})
    runtime.send("E", {"x": another_nan(), "i": 2})
    assert found[1] == ([("nan", 2)], [("nan", 1)])


def test_nan_is_one_value_to_distinct() -> None:
    runtime, found = deployed("select count(distinct x + 1) as c from E#length(2)")
    for x in (another_nan(), another_nan(), 1.0, 2.0):
        runtime.send("E", {"x": x, "i": 1})
    assert [insert[0] for insert, _ in found] == [(1,), (1,), (2,), (2,)]
    runtime, found = deployed("select distinct x from E#length_batch(2)")
    for _ in range(2):
        runtime.send("E", {"x": another_nan(), "i": 1})
    assert found == [([("nan",)], [])]


WINDOWS = ["#length(2)", "#groupwin(k)#length(2)", "#time(5 sec)", "#unique(k)", "#sort(2, i)", "#length(2)#unique(k)"]
STATEMENTS = [
    f"select irstream count(*) as c, {values} from E{{window}} {clauses}"
    for values in (
        "sum(i) as s, window(i) as w",
        "first(i) as f, prior(1, i) as p",
        "sum(i, group_by: k) as s, min(i) as m",
    )
    for clauses in ("where i > v", "where i > v group by k", "group by i > v")
] + ["select irstream count(*) as c, sum(i) as s from E{window} where i > v group by rollup(k, i > v)"]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_events_may_leave_other_groups_than_they_entered(window: str, statement: str) -> None:
    runtime, found = deployed(statement.format(window=window))
    steps = [(5, "a", 1), (0, "b", 9), (4, "a", 3), (0, "c", 6), (9, "b", 7), (0, "a", 8)]
    for v, k, i in steps:
        runtime.set_variable("v", v)
        runtime.send("E", {"k": k, "x": 1.0, "i": i})
        runtime.advance(runtime.now + 2000)
    assert found
    assert all(row[0] >= 0 for insert, remove in found for row in (*insert, *remove))


def test_an_event_that_never_entered_leaves_nothing() -> None:
    runtime, found = deployed("select k, count(*) as c, min(i) as m from E#length(1) where i > v group by k")
    runtime.set_variable("v", 5)
    runtime.send("E", {"k": "a", "i": 1})
    runtime.set_variable("v", 0)
    runtime.send("E", {"k": "b", "i": 9})
    runtime.send("E", {"k": "a", "i": 3})
    assert found == [([("b", 1, 9), ("a", 0, None)], []), ([("a", 1, 3), ("b", 0, None)], [])]
    assert runtime.state("s")[0]["groups"] == 1


@pytest.mark.parametrize("window", ["time_batch(v sec)", "ext_timed_batch(i, v sec)", "time_length_batch(v sec, 2)"])
@pytest.mark.parametrize("output", ["", " output every 2 events"])
def test_a_batch_of_no_time_does_not_start(window: str, output: str) -> None:
    with pytest.raises(BindError, match="must be above 0, found 0"):
        deployed(f"select i from E#{window}{output}")
