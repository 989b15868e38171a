"""Stores keep indexes for all their readers, as long as these want them."""

from __future__ import annotations

import gc
from random import Random
from typing import Any

import pytest

from cepbook.engine.relations.relation import ArrivalIndex, HashIndex, RelationIndex, SortedIndex
from cepbook.engine.runtime import Runtime

WINDOW = """
create schema A(k string, x int, i int); create schema B(k string, x int, i int);
create window W#keepall as A; insert into W select * from A;
"""
READERS = (
    "@name('join') select w.i as i, b.i as j from W as w, B#lastevent as b where w.k = b.k",
    "@name('sub') select (select count(*) from W as w where w.k = b.k) as n from B as b",
    "on B(x = 7) as b delete from W as w where w.k = b.k",
    "@name('on') on B as b select w.i as i from W as w where w.k = b.k",
)


def _sent(runtime: Runtime) -> None:
    for number, key in enumerate("aabca"):
        runtime.send("A", {"k": key, "x": number, "i": number})


def _kept(kind: type[Any]) -> int:
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


def _indexes(runtime: Runtime, name: str = "W") -> dict[Any, RelationIndex]:
    indexes: dict[Any, RelationIndex] = runtime.stores[name].owner.state_of(None).indexes
    return indexes


def _keyed(runtime: Runtime, name: str = "W") -> list[Any]:
    return [key for key in _indexes(runtime, name) if key != ("rows",)]


@pytest.mark.histories
def test_readers_share_one_index_that_goes_with_the_last_of_them() -> None:
    before = _kept(HashIndex), _kept(ArrivalIndex)
    runtime = Runtime()
    runtime.deploy(WINDOW)
    for text in READERS:
        runtime.deploy(text, deployment_id=text)
    _sent(runtime)
    assert _keyed(runtime) == [("hash", "k")]
    assert [len(items) for items in _indexes(runtime)["hash", "k"].table.values()] == [3, 1, 1]  # type: ignore[attr-defined]
    assert _kept(HashIndex) - before[0] == 2, "that of the window, and that of the other side of the join"
    for number, text in enumerate(READERS):
        assert _indexes(runtime), f"{len(READERS) - number} still read it"
        runtime.undeploy(text)
    assert not _indexes(runtime) and not runtime.stores["W"].requested_indexes
    assert (_kept(HashIndex), _kept(ArrivalIndex)) == before, "the memory is free"


def test_a_declared_index_stays_and_is_used() -> None:
    runtime = Runtime()
    runtime.deploy(WINDOW)
    runtime.deploy("create index I on W(k)", deployment_id="index")
    _sent(runtime)
    runtime.deploy(READERS[0], deployment_id="join")
    assert _keyed(runtime) == [("hash", "k")]
    index = _indexes(runtime)["hash", "k"]
    runtime.undeploy("join")
    assert _indexes(runtime)["hash", "k"] is index
    runtime.undeploy("index")
    assert not _indexes(runtime)


def test_queries_leave_no_index() -> None:
    runtime = Runtime()
    runtime.deploy(WINDOW)
    _sent(runtime)
    assert runtime.query("select i from W where k = 'a'") == [{"i": 0}, {"i": 1}, {"i": 4}]
    runtime.query("update W set x = 5 where k = 'a'")
    runtime.query("select a.i, (select count(*) from W as c where c.k = b.k) from W as a, W as b where a.k = b.k")
    assert not _indexes(runtime)


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("w.k = b.k and w.x = b.x", [("hash", "k", "x")]),
        ("w.x < b.x", [("sorted", "x")]),
        ("w.x in (b.x, 3)", [("hash", "x")]),
        ("w.x + 1 = b.x", [("hash", "", "q", "store_key0")]),
        ("w.x + 1 = b.x and w.k = b.k", [("hash", "k")]),
        ("w.x != b.x", []),
    ],
)
def test_the_index_follows_from_the_condition(condition: str, names: list[Any]) -> None:
    runtime = Runtime()
    runtime.deploy(WINDOW)
    runtime.deploy(f"@name('q') select w.i as i from W as w, B#lastevent as b where {condition}", deployment_id="q")
    _sent(runtime)
    assert _keyed(runtime) == names
    got: list[Any] = []
    runtime.statement("q").add_listener(lambda delta: got.extend(row["i"] for row in delta.insert))
    runtime.send("B", {"k": "a", "x": 1, "i": 9})
    wanted = {
        "w.k = b.k and w.x = b.x": [1],
        "w.x < b.x": [0],
        "w.x in (b.x, 3)": [1, 3],
        "w.x + 1 = b.x": [0],
        "w.x + 1 = b.x and w.k = b.k": [0],
        "w.x != b.x": [0, 2, 3, 4],
    }
    assert got == wanted[condition]


def test_tables_are_looked_into_by_primary_key() -> None:
    runtime = Runtime()
    runtime.deploy(
        """
        create schema A(k string, x int, i int); create schema B(k string, x int, i int);
        create table T(k string primary key, x int, n count(*));
        into table T select count(*) as n from A group by k;
        @name('join') select t.n as n from B as b unidirectional, T as t where t.k = b.k and t.n > b.x;
        @name('sub') select (select n from T as t where t.k = b.k and t.n = b.x) as n from B as b;
        """
    )
    runtime.deploy(
        "@name('more') select (select count(*) from T as t where t.x = b.x) as n from B as b", deployment_id="m"
    )
    _sent(runtime)
    assert list(runtime.stores["T"].requested_indexes) == [("hash", "x")], "of aggregation columns there is no index"
    got: dict[str, Any] = {}
    for name in ("join", "sub", "more"):
        runtime.statement(name).add_listener(lambda delta, name=name: got.update({name: delta.insert}))  # type: ignore[misc]
    runtime.send("B", {"k": "a", "x": 1, "i": 0})
    assert got == {"join": [{"n": 3}], "sub": [{"n": None}], "more": [{"n": 0}]}
    runtime.undeploy("m")
    assert not _indexes(runtime, "T")


def test_a_join_sees_a_named_window_as_it_was_told_of_it() -> None:
    """An event deletes a row, and is joined with it all the same: the join learns of that after all have seen it."""
    runtime = Runtime()
    runtime.deploy(WINDOW + "@priority(1) on B as b delete from W as w where w.k = b.k;")
    runtime.deploy("@name('q') select irstream w.i as i, b.i as j from W as w, B#keepall as b where w.k = b.k")
    got: list[Any] = []
    runtime.statement("q").add_listener(lambda delta: got.append((delta.insert, delta.remove)))
    runtime.send("A", {"k": "a", "x": 0, "i": 0})
    runtime.send("B", {"k": "a", "x": 0, "i": 1})
    assert got == [([{"i": 0, "j": 1}], None), (None, [{"i": 0, "j": 1}])]
    index: RelationIndex = _indexes(runtime)["hash", "k"]
    assert index.table == {}  # type: ignore[attr-defined]
    assert not isinstance(index, SortedIndex)


@pytest.mark.parametrize(
    ("index", "where", "wanted"),
    [
        ("k", "k = 'a'", [0, 1, 4]),
        ("k", "k = 'a' and x = 1", [1]),
        ("k", "k in ('b', 'c') and i > 2", [3]),
        ("k, x", "k = 'a' and x = 4", [4]),
        ("x btree", "x between 1 and 3 and k = 'a'", [1]),
        ("x btree", "x > 2", [3, 4]),
    ],
)
def test_a_query_looks_at_what_an_index_finds(index: str, where: str, wanted: list[int]) -> None:
    runtime = Runtime()
    runtime.deploy(WINDOW)
    _sent(runtime)
    plain = runtime.query(f"select i from W where {where}")
    runtime.deploy(f"create index I on W({index})")
    assert [row["i"] for row in runtime.query(f"select i from W where {where}")] == wanted
    assert plain == [{"i": i} for i in wanted]


def test_a_query_by_key_does_not_look_at_the_other_rows() -> None:
    runtime = Runtime()
    runtime.deploy(WINDOW + "create index I on W(k);")
    _sent(runtime)
    seen: list[Any] = []
    runtime.register_function("noted", lambda i: seen.append(i) or True)
    assert runtime.query("select i from W where k = 'b' and noted(i)") == [{"i": 2}]
    assert set(seen) == {2}


TOTALS = """create schema L(k int, v double); create schema E(x int); create variable double low = 0.5;
create table T(k int primary key, v double);
on L as l merge T as t where t.k = l.k when matched and l.v is null then delete
    when matched then update set v = l.v when not matched then insert select k, v;
@name('s') select (select sum(v) from T) as s, (select max(v) from T(v < 5)) as m, (select count(*) from T) as n,
    (select sum(v) from T(v > low)) as a from E"""


def test_aggregates_of_a_table_are_read_again_only_when_its_rows_are_others() -> None:
    runtime, found, draw = Runtime(), list[Any](), Random(7)
    runtime.deploy(TOTALS)
    runtime.statement("s").add_listener(lambda delta: found.extend(delta.insert))
    held: dict[int, float] = {}
    for step in range(300):
        if draw.random() < 0.4:
            key, value = draw.randrange(6), draw.choice((None, 1.0, 2.5, 7.0))
            runtime.send("L", {"k": key, "v": value})
            if value is None and key in held:
                del held[key]
            else:
                held[key] = value  # type: ignore[assignment]
        if step == 150:
            runtime = Runtime.restored(runtime.snapshot(), {})
            runtime.statement("s").add_listener(lambda delta: found.extend(delta.insert))
        low = draw.choice((0.5, 2.0))
        runtime.set_variable("low", low)
        runtime.send("E", {"x": 1})
        values = [v for v in held.values() if v is not None]
        above = [v for v in values if v > low]
        expected = {
            "s": sum(values) if values else None,
            "m": max((v for v in values if v < 5), default=None),
            "n": len(held),
            "a": sum(above) if above else None,
        }
        assert found[-1] == expected


FED = """create schema L(k int, v int, d int); create schema E(x int);
create table T(k int primary key, s sum(int), n count(*), label string);
into table T select sum(v) as s, count(*) as n from L(d = 0)#length(4) group by k;
on L(d = 1) as l delete from T where T.k = l.k;
on L(d = 2) as l merge T as t where t.k = l.k when matched then update set label = 'b'
    when not matched then insert select k, 'a' as label;
@name('s') select (select sum(s) from T) as s, (select max(s) from T where n > 0) as m,
    (select count(distinct label) from T) as l, (select sum(s) from T group by label having count(*) > 2) as g from E"""


@pytest.mark.parametrize("seed", range(4))
def test_aggregates_follow_rows_that_into_table_changes(seed: int) -> None:
    """Against all rows of the table, read by a query."""
    runtime, found, draw = Runtime(), list[Any](), Random(seed)
    runtime.deploy(FED)
    runtime.statement("s").add_listener(lambda delta: found.extend(delta.insert))
    saved = runtime.snapshot()
    for step in range(120):
        for _ in range(draw.randrange(3)):
            runtime.send("L", {"k": draw.randrange(5), "v": draw.randrange(9), "d": draw.choice((0, 0, 0, 1, 2))})
        if step % 30 == 20:
            saved = runtime.snapshot()
        if step % 30 == 29:
            runtime = Runtime.restored(saved, {})
            runtime.statement("s").add_listener(lambda delta: found.extend(delta.insert))
        runtime.send("E", {"x": 1})
        rows = runtime.query("select k, s, n, label from T")
        sums = [row["s"] for row in rows if row["s"] is not None]
        groups = {label: [r["s"] for r in rows if r["label"] == label] for label in {row["label"] for row in rows}}
        large = [values for values in groups.values() if len(values) > 2]
        known = [v for v in large[0] if v is not None] if len(large) == 1 else []
        assert found[-1] == {
            "s": sum(sums) if sums else None,
            "m": max((r["s"] for r in rows if r["n"] > 0 and r["s"] is not None), default=None),
            "l": len({row["label"] for row in rows if row["label"] is not None}),
            "g": sum(known) if known else None,
        }


def test_aggregates_of_a_table_look_at_the_rows_that_changed() -> None:
    runtime = Runtime()
    runtime.deploy(TOTALS.replace("T(v > low)", "T"))
    runtime.statement("s").add_listener(lambda delta: None)
    for key in range(50):
        runtime.send("L", {"k": key, "v": 1.0})
    looked = list[int]()
    for program in runtime.statement("s").program.subqueries:
        taken = program.namespace["taken"]

        def counted(state: Any, rows: Any, base: int, now: int, taken: Any = taken) -> Any:
            looked.append(len(rows))
            return taken(state, rows, base, now)

        program.namespace["taken"] = counted
    runtime.send("E", {"x": 1})
    assert sum(looked) == 4 * 50
    looked.clear()
    for key in range(3):
        runtime.send("L", {"k": key, "v": 2.0})
    runtime.send("E", {"x": 1})
    assert sum(looked) == 4 * 3
    looked.clear()
    runtime.send("E", {"x": 1})
    assert not looked


def test_who_follows_a_table_parts_with_its_statement() -> None:
    runtime = Runtime()
    runtime.deploy("create schema L(k int); create schema E(x int); create table T(k int primary key)")
    runtime.deploy("@name('s') select (select sum(k) from T) as s from E", deployment_id="reader")
    runtime.statement("s").add_listener(lambda delta: None)
    table: Any = runtime.stores["T"]
    assert not table.followers
    runtime.send("E", {"x": 1})
    assert table.followers
    runtime.undeploy("reader")
    assert not table.followers


BANDED = """create schema L(g int, v int, d boolean); create schema E(g int, low int, high int);
create window W#length(60) as L; insert into W select * from L(d = false);
on L(d = true) as l update W as w set v = l.v where w.g = l.g and w.v < 3;
@name('s') select (select count(*) from W as w where w.g = e.g and w.v between e.low and e.high) as n,
    (select window(v) from W as w where w.g = e.g and w.v > e.low and w.v <= e.high) as vs from E as e;
@name('j') select w.v as v from E as e unidirectional, W as w where w.g = e.g and w.v >= e.low and w.v < e.high;
@name('o') on E as e select w.v as v from W as w where w.g = e.g and w.v < e.low;"""


def test_equality_and_range_over_a_named_window_share_a_composite_index() -> None:
    runtime, found, draw = Runtime(), dict[str, list[Any]](), Random(11)

    def listen() -> None:
        for name in "sjo":
            runtime.statement(name).add_listener(
                lambda delta, name=name: found.setdefault(name, []).extend(delta.insert)
            )

    runtime.deploy(BANDED)
    listen()
    names = set(runtime.stores["W"].requested_indexes)
    assert ("composite", "g", "v") in names
    held: list[tuple[int, int]] = []
    for step in range(200):
        event = {"g": draw.choice((1, 1, 1, 2)), "v": draw.randrange(20), "d": draw.random() < 0.1}
        runtime.send("L", event)
        if event["d"]:
            changed = [(g, v) for g, v in held if g == event["g"] and v < 3]
            held = [each for each in held if each not in changed] + [(g, event["v"]) for g, _ in changed]
        else:
            held = [*held, (event["g"], event["v"])][-60:]
        if step == 120:
            runtime = Runtime.restored(runtime.snapshot(), {})
            listen()
        found.clear()
        low, high, group = draw.randrange(20), draw.randrange(20), draw.choice((1, 2))
        runtime.send("E", {"g": group, "low": low, "high": high})
        own = [v for g, v in held if g == group]
        between = [v for v in own if min(low, high) <= v <= max(low, high)]
        assert found["s"][0]["n"] == len(between)
        assert (found["s"][0]["vs"] or []) == [v for v in own if low < v <= high]
        assert [row["v"] for row in found.get("j", [])] == [v for v in own if low <= v < high]
        assert [row["v"] for row in found.get("o", [])] == [v for v in own if v < low]
        query = f"select v from W where g = {group} and v > {low} and v < {high}"
        assert [row["v"] for row in runtime.query(query)] == [v for v in own if low < v < high]
