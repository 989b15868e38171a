"""A statement in a keyed context does for every key what it does alone on the events of that key."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings

from cepbook.engine.runtime import Runtime
from tests.engine.histories import SELECTS, Event, Run, comparable, histories
from tests.random_cases import in_part, several

OWN = [
    "select irstream x from A#lastevent where x > 0",
    "select rstream * from A#time(500 msec)",
]


def by_key(deltas: list[Any]) -> dict[Any, list[Any]]:
    """Rows by key and time, in order, whatever delivery they came in; the key is the column `key`."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for time, insert, remove in deltas:
        for flag, rows in (("+", insert), ("-", remove)):
            for row in rows or ():
                key = row["key"] and row["key"][1]
                found[key].append((time, flag, {name: v for name, v in row.items() if name != "key"}))
    return dict(found)


def without_delivery_borders(deltas: list[Any]) -> list[Any]:
    return [(t, flag, row) for t, ins, rem in deltas for flag, rows in (("+", ins), ("-", rem)) for row in rows or ()]


@pytest.mark.parametrize("select", [*SELECTS, *OWN])
def test_partition_is_the_statement_alone(select: str) -> None:
    head, tail = select.split(" from ", 1)
    keyed = f"{head}, context.key1 as key from {tail}"

    @settings(max_examples=several(6))
    @given(histories(("A",), most=30))
    @in_part
    def check(events: list[Event]) -> None:
        run = Run(f"create context P partition by k from A;@name('s') context P {keyed}")
        run.send(events)
        found = by_key(run.deliveries["s"])
        times = [Event(e.time, "B", {}) for e in events]  # the clock of a key moves with the events of all
        for key in {e.values["k"] for e in events}:
            alone = Run(f"@name('s') {select}")
            alone.send([e if e.values["k"] == key else t for e, t in zip(events, times, strict=True)])
            assert found.get(key, []) == without_delivery_borders(alone.deliveries["s"])

    check()


@settings(max_examples=several(10))
@given(histories(("A",), most=30))
@in_part
def test_partitions_have_ids_in_order_of_their_first_event(events: list[Event]) -> None:
    """null is a key like any other; the statement's own filter keeps no partition from being made."""
    run = Run("create context P partition by k from A;@name('s') context P select count(*) as c from A(x > 0)")
    run.send(events)
    keys = list(dict.fromkeys(e.values["k"] for e in events))
    expected = [{"id": i, "key1": key, "name": "P", "statements": ["s"]} for i, key in enumerate(keys)]
    assert run.runtime.partitions("P") == expected
    counts = [sum(1 for e in events if e.values["k"] == key and (e.values["x"] or 0) > 0) for key in keys]
    assert comparable(run.runtime.iterate_partitions("s")) == comparable(
        [(i, [{"c": c}]) for i, c in enumerate(counts)]
    )


@pytest.mark.parametrize("terminated", ["", " terminated by E(n = 9)"])
def test_all_nan_are_one_key(terminated: str) -> None:
    """Whichever object they are: a column of a replay makes new ones."""
    runtime = Runtime()
    runtime.deploy("create schema E(x double, n int)")
    runtime.deploy(f"create context Each partition by x from E{terminated};create context Two partition by x, n from E")
    runtime.deploy("@name('s') context Each select count(*) as c from E;@name('t') context Two select n from E")
    runtime.deploy("@name('u') select e.n as n from pattern [every-distinct(e.x) e=E]")
    found: dict[str, list[Any]] = {"s": [], "t": [], "u": []}
    for name, rows in found.items():
        runtime.statement(name).add_listener(lambda delta, rows=rows: rows.extend(delta.insert or ()))
    for _ in range(3):
        runtime.send("E", {"x": float("nan"), "n": 1})
    assert found == {"s": [{"c": 1}, {"c": 2}, {"c": 3}], "t": [{"n": 1}] * 3, "u": [{"n": 1}]}
    assert len(runtime.partitions("Each")) == len(runtime.partitions("Two")) == 1
    runtime.send("E", {"x": float("nan"), "n": 9})
    assert len(runtime.partitions("Each")) == (0 if terminated else 1)


# ---------------------------------------------------------------- one event, one delivery
ENDING = "partition by k from E terminated after 1 sec"


@pytest.mark.parametrize(
    ("context", "rest", "merges"),
    [
        ("coalesce by hash_code(k) from E granularity 10", "from E", False),
        (ENDING, "from E", False),
        (ENDING, "from E#length(2)", False),
        (ENDING, "from E output snapshot when terminated", True),
        (ENDING, "from E#time(1 sec)", True),
        ("initiated by E as s terminated after 1 sec", "from E", True),
        ("context A coalesce by hash_code(k) from E granularity 10, context B partition by k from E", "from E", False),
        ("context A partition by k from E, context B group k < 'b' as a, group k < 'c' as b from E", "from E", True),
        ("context A partition by k from E, context B partition by k from E terminated after 1 sec", "from E", True),
    ],
)
def test_rows_are_held_where_a_statement_may_deliver_several_times(context: str, rest: str, merges: bool) -> None:
    runtime = Runtime()
    schemas = "create schema E(k string);"
    statement = runtime.deploy(f"{schemas} create context C {context}; context C select count(*) as n {rest}")
    assert statement.statements[0].merges is merges


def test_partitions_that_end_in_one_advance_make_one_delivery() -> None:
    runtime = Runtime()
    deployment = runtime.deploy(
        f"create schema E(k string); create context C {ENDING};"
        "context C select k from E#keepall output snapshot when terminated"
    )
    found: list[Any] = []
    deployment.statements[0].add_listener(found.append)
    runtime.send("E", {"k": "a"}, 0)
    runtime.send("E", {"k": "b"}, 200)
    runtime.advance(5000)
    assert [delta.insert for delta in found] == [[{"k": "a"}, {"k": "b"}]]
