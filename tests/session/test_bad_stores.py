"""What goes wrong with named windows and tables is told, and changes nothing."""

from __future__ import annotations

import pytest

from cepbook import Workbench
from cepbook.engine.dispatch import turn
from cepbook.errors import BindError, StatementError, UsageError


@pytest.fixture
def cep() -> Workbench:
    workbench = Workbench()
    workbench.run(
        "create schema A(id string, n int); create schema B(id string, n int); create window W#keepall as A;"
        "create unique index U on W(id); insert into W select * from A;"
        "@name('count') select count(*) as c from W; create table T(id string primary key, n int);"
        "insert into T select id, n from A(n < 10);"
        "@name('change') on B b update W set id = b.id where W.n >= b.n;"
        "@name('move') on B(n = 50) b update T set id = b.id"
    )
    workbench.send("A", id="a", n=1)
    workbench.send("A", id="b", n=2)
    return workbench


def contents(cep: Workbench) -> tuple[object, object]:
    return cep.to_frame("W").to_dict("list"), cep.to_frame("T").to_dict("list")


def test_a_unique_index_refuses_whole_changes(cep: Workbench) -> None:
    before = contents(cep)
    with pytest.raises(StatementError, match="unique index `U`: `W` has a row with id = 'a' already"):
        cep.send("A", id="a", n=30)
    with pytest.raises(StatementError, match=r"`change` failed on an event: .*unique index `U`"):
        cep.send("B", id="z", n=0)
    with pytest.raises(UsageError, match="unique index `U`: `W` has a row with id = 'q' already"):
        cep.query("insert into W values ('q', 1), ('q', 2)")
    with pytest.raises(StatementError, match="unique index `U`"):
        cep.query("update W set id = 'same'")
    assert contents(cep) == before
    assert cep.to_frame("count")["c"].tolist() == [2]


def test_the_key_of_a_table_refuses_whole_changes(cep: Workbench) -> None:
    before = contents(cep)
    with pytest.raises(StatementError, match=r"`move` failed on an event: .*table `T` has a row with id = 'k' already"):
        cep.send("B", id="k", n=50)
    with pytest.raises(UsageError, match="table `T` has a row with id = 'a' already"):
        cep.query("insert into T values ('x', 1), ('a', 2)")
    with pytest.raises(StatementError, match="table `T` has a row with id = 'k' already"):
        cep.query("update T set id = 'k'")
    assert contents(cep) == before


def test_wrong_types_are_refused(cep: Workbench) -> None:
    before = contents(cep)
    for epl in ("insert into W values ('q', 'x')", "update T set n = 'x'", "insert into T select n as id, n from W"):
        with pytest.raises(BindError) as failure:
            cep.query(epl)
        assert "^" in str(failure.value)
    with pytest.raises(BindError, match="property `id` of `W` is string, selected is int"):
        cep.run("insert into W select n as id, n from B")
    assert contents(cep) == before


def test_a_merge_that_feeds_its_own_named_window_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "_MOST_STEPS", 100)
    cep = Workbench()
    cep.run(
        "create schema A(n int); create window W#keepall as A; insert into W select * from A;"
        "@name('m') on W(n > 0) a merge W insert select a.n + 1 as n"
    )
    with pytest.raises(UsageError, match="named window `W` feeds itself: one event caused more than 100"):
        cep.send("A", n=1)
    cep.send("A", n=0)  # it goes on
    assert cep.to_frame("W")["n"].tolist()[-1] == 0


def test_a_query_cannot_change_what_another_one_reads(cep: Workbench) -> None:
    cep.register_function("clear", lambda n: len(cep.query("delete from W where n = 2")))
    before = contents(cep)
    with pytest.raises(StatementError, match="`W` is being read by a query, so a function that the query calls cannot"):
        cep.query("select clear(n) as x from W")
    with pytest.raises(StatementError, match="`W` is being read by a query"):
        cep.query("select (select count(*) from W) as c, clear(n) as x from T")
    assert contents(cep) == before
    assert cep.query("select clear(n) as x from T")["x"].tolist()[-1] == 0  # of others it can
    assert cep.to_frame("W")["id"].tolist() == ["a"]


def test_what_others_need_stays_and_they_are_named() -> None:
    cep = Workbench()
    cep.run("create schema A(id string, n int)")
    cep.run("create window W#keepall as A")
    cep.run("create table T(id string primary key, n int)")
    cep.run("@name('reader') select * from W")
    cep.run("@name('by_key') select T[id].n as n from A")
    cep.run("@name('asks') select (select count(*) from W) as c from A")
    cep.run("@name('clears') on A delete from T")
    for name, users in (("W", ("reader", "asks")), ("T", ("by_key", "clears"))):
        with pytest.raises(UsageError) as failure:
            cep.drop(name)
        assert all(f"`{user}`" in str(failure.value) for user in users)
        assert name in cep.runtime.stores
    assert set(cep.drop("W", cascade=True)) == {"W", "reader", "asks"}


def test_a_query_inserts_into_partitions_that_there_are() -> None:
    cep = Workbench()
    cep.run(
        "create schema A(id string, n int); create context ById partition by id from A;"
        "context ById create window W#keepall as A; context ById insert into W select * from A;"
        "context ById create unique index U on W(id, n); context ById create table T(k string primary key, n count(*))"
    )
    with pytest.raises(UsageError, match="no live partition of the context `ById` takes the row"):
        cep.query("insert into T(k) values ('z')")
    cep.send("A", id="a", n=1)
    cep.send("A", id="b", n=1)
    with pytest.raises(UsageError, match="unique index `U`: `W` has a row with id = 'b', n = 1 already"):
        cep.query("insert into W values ('a', 2), ('b', 1)")
    assert cep.query("select id, n from W").to_dict("list") == {"id": ["a", "b"], "n": [1, 1]}
    cep.query("context ById insert into T(k) values ('z')", lambda partition: partition["key1"] == "b")
    assert cep.query("context ById select context.key1 as p from T").to_dict("list") == {"p": ["b"]}
    with pytest.raises(UsageError, match="a query is one select, insert, update or delete"):
        cep.query("on A delete from W")
