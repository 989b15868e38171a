"""Queries of the workbench over named windows, beside those over statements."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook import Workbench
from cepbook.engine.config import Config
from cepbook.engine.deploy import fire_and_forget
from cepbook.engine.deploy.compiler import compile_plan
from cepbook.engine.runtime import Runtime
from cepbook.errors import BindError, ParseError, UsageError


@pytest.fixture
def cep() -> Workbench:
    workbench = Workbench()
    workbench.run(
        "create schema Tick(k string, x int); create window W#keepall as (k string, x int);"
        "insert into W select k, x from Tick; @name('kept') select k, x from Tick#length(2)"
    )
    for number, key in enumerate("abc"):
        workbench.send("Tick", k=key, x=number)
    return workbench


def test_a_query_reads_named_windows_and_statements(cep: Workbench) -> None:
    assert cep.query("select k, x from W order by x desc").to_dict("list") == {"k": ["c", "b", "a"], "x": [2, 1, 0]}
    assert cep.query("select k from kept").to_dict("list") == {"k": ["b", "c"]}


def test_a_query_without_from_reads_by_subqueries(cep: Workbench) -> None:
    assert cep.query("select 1 + 1 as two, (select sum(x) from W) as s").to_dict("list") == {"two": [2], "s": [3]}


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select k from kept where x > (select min(x) from kept)", [("c",)]),
        ("select k from kept where x > (select avg(x) from W)", [("c",)]),
        ("select k from W where x < (select min(x) from kept)", [("a",)]),
        ("select k from W as w where not exists (select * from kept as o where o.k = w.k)", [("a",)]),
        ("select k, (select count(*) from `two words`) as n from kept order by k", [("b", 3), ("c", 3)]),
        ("select o.k, w.x from kept as o, W as w where o.k = w.k order by w.x", [("b", 1), ("c", 2)]),
        ("select twice(o) as t from kept as o order by t", [(2,), (4,)]),
    ],
)
def test_subqueries_joins_and_expressions_over_statements_and_stores(
    cep: Workbench, query: str, rows: list[tuple[Any, ...]]
) -> None:
    cep.run("create expression twice { o => o.x * 2 }; @name('two words') select x from Tick#keepall")
    for number, key in enumerate("abc"):
        cep.send("Tick", k=key, x=number)
    cep.query("delete from W where x >= 0")
    for number, key in enumerate("abc"):
        cep.query(f"insert into W values ('{key}', {number})")
    assert [tuple(row) for row in cep.query(query).itertuples(index=False)] == rows


def test_a_query_over_statements_that_cannot_be_answered(cep: Workbench) -> None:
    cep.run("create schema Leg(x int); create schema Trip(leg Leg); @name('Leg') select leg from Trip#keepall")
    for query, reason in {
        "select * from Leg": "`Leg` is a statement and the event type of a column",
        "select k from kept where x > (select min(x) from Tick)": "`Tick` is an event type, and events are not stored",
        "select k from W where x > (select min(x) from kep)": "no named window, table or statement `kep`.*\n.*kept",
        "context C select k from kept": "cannot have a context",
        "create schema T(x int)": "a query is one select, insert, update or delete",
    }.items():
        with pytest.raises(UsageError, match=reason):
            cep.query(query)


def test_a_query_that_changes_a_named_window_gives_what_changed(cep: Workbench) -> None:
    heard: list[object] = []
    cep.run("@name('count') select count(*) as n from W")
    cep.on("count", lambda delta: heard.append(delta.insert[0]["n"]))
    assert cep.query("insert into W values ('d', 7)").to_dict("list") == {"k": ["d"], "x": [7]}
    assert cep.query("delete from W where x < 2").to_dict("list") == {"k": ["a", "b"], "x": [0, 1]}
    cep.query("update W set x = x + 1 where k = 'd'")
    assert cep.query("select sum(x) as s from W")["s"].tolist() == [10]
    assert heard == [4, 2, 2]


def test_partitions_of_what_has_no_context_cannot_be_selected(cep: Workbench) -> None:
    with pytest.raises(UsageError, match="nothing that has a context"):
        cep.query("select * from W", selector=1)
    with pytest.raises(BindError, match="no property `y`"):
        cep.query("select y from W")
    assert len(cep.query("select * from W")) == 3


# ---------------------------------------------------------------- prepared, with parameters
def test_values_may_be_given_for_parameters(cep: Workbench) -> None:
    assert cep.query("select k from W where x > :least", parameters={"least": 0}).to_dict("list") == {"k": ["b", "c"]}
    assert cep.query("select k from W where x > ? and k = ?", parameters=[0, "c"]).to_dict("list") == {"k": ["c"]}
    assert cep.query("select k from kept where x > :least", parameters={"least": 1}).to_dict("list") == {"k": ["c"]}


def test_a_prepared_query_is_compiled_once_for_values_of_the_same_types(
    cep: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[object] = []

    def counting(plan: object, *others: object) -> object:
        compiled.append(plan)
        return compile_plan(plan, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(fire_and_forget, "compile_plan", counting)
    query = cep.prepare("select k, x + :more as y from W where x >= :more")
    assert query.parameters == ("more",)
    assert query.run(more=1).to_dict("list") == {"k": ["b", "c"], "y": [2, 3]}
    assert query.run({"more": 2}).to_dict("list") == {"k": ["c"], "y": [4]}
    cep.send("Tick", k="d", x=5)
    assert query.run(more=2)["k"].tolist() == ["c", "d"]
    assert len(compiled) == 1
    assert query.run(more=1.5).to_dict("list") == {"k": ["c", "d"], "y": [3.5, 6.5]}
    assert len(compiled) == 2
    cep.run("create window Other#keepall as Tick")  # the engine is another one now
    assert query.run(more=5)["k"].tolist() == ["d"]
    assert len(compiled) == 3
    cep.reset()
    with pytest.raises(UsageError, match="no named window, table or statement `W`"):
        query.run(more=1)


def test_prepared_queries_change_stores_and_read_statements(cep: Workbench) -> None:
    assert cep.prepare("insert into W values (?, ?)").run("z", 9).to_dict("list") == {"k": ["z"], "x": [9]}
    assert cep.prepare("update W set x = ? where k = ?").run([7, "z"]).to_dict("list") == {"k": ["z"], "x": [7]}
    assert cep.prepare("delete from W where k in (:keys)").run(keys=["a", "z"])["k"].tolist() == ["a", "z"]
    assert cep.prepare("select k from W order by x limit :n").run(n=1)["k"].tolist() == ["b"]
    assert cep.prepare("select count(*) as n from kept where x < :most").run(most=2)["n"].tolist() == [1]


@pytest.mark.parametrize(
    ("values", "named", "kind", "message"),
    [
        ((1,), {}, UsageError, "the query takes no values by number, found 1\n  hint: give it by name: run(least=…)"),
        ((), {"lest": 1}, UsageError, "the query has no parameter `lest`\n  hint: did you mean `least`?"),
        ((), {}, BindError, "`:least` has no value"),
        ((), {"least": "x"}, BindError, "`>` cannot compare int with string"),
        ((), {"least": object()}, BindError, "which EPL has no type for"),
    ],
)
def test_what_is_wrong_with_values(
    cep: Workbench, values: tuple[object, ...], named: dict[str, object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as failure:
        cep.prepare("select k from W where x > :least").run(*values, **named)
    assert message in str(failure.value)
    if kind is BindError:
        assert "^" in str(failure.value)


def test_too_many_values_and_texts_that_are_none(cep: Workbench) -> None:
    with pytest.raises(UsageError, match="the query takes 1 value, found 2"):
        cep.prepare("select k from W where x > ?").run(1, 2)
    with pytest.raises(UsageError, match="`epl` is text, not 3"):
        cep.prepare(3)  # type: ignore[arg-type]
    with pytest.raises(ParseError):
        cep.prepare("select k from W where x >")


def test_a_prepared_query_reads_selected_partitions(cep: Workbench) -> None:
    cep.run(
        "create context ByKey partition by k from Tick; context ByKey create window V#keepall as Tick;"
        "context ByKey insert into V select * from Tick"
    )
    for number, key in enumerate("abca"):
        cep.send("Tick", k=key, x=number)
    query = cep.prepare("context ByKey select context.key1 as key, x from V where x >= :least")
    assert query.run(least=0, selector={"key1": "a"}).to_dict("list") == {"key": ["a", "a"], "x": [0, 3]}
    assert query.run(least=1, selector=[1, 2]).to_dict("list") == {"key": ["b", "c"], "x": [1, 2]}
    assert cep.prepare("select x from V where x > :least").run(least=2, selector=0)["x"].tolist() == [3]
    assert cep.query("context ByKey delete from V", selector=1)["x"].tolist() == [1]
    with pytest.raises(UsageError, match="reads nothing that has a context"):
        cep.prepare("select x from W").run(selector=0)
    with pytest.raises(UsageError, match="selects no context partitions"):
        query.run(least=0, selector="a")


# ---------------------------------------------------------------- what there is
def test_named_windows_and_tables_are_listed_with_what_they_hold(cep: Workbench) -> None:
    cep.run(
        "create table T(k string primary key, n count(*)); into table T select count(*) as n from Tick group by k;"
        "create unique index U on W(k); on Tick t select * from W where W.x = t.x;"
        "create context ByKey partition by k from Tick;"
        "@name('divided') context ByKey create window V#keepall as Tick; context ByKey insert into V select * from Tick"
    )
    cep.send("Tick", k="z", x=7)
    stores = cep.stores().set_index("name")
    assert stores["kind"].to_dict() == {"W": "named window", "T": "table", "V": "named window"}
    assert stores["rows"].to_dict() == {"W": 4, "T": 1, "V": 1}
    assert stores.loc["T", "keys"] == "k" and stores.loc["T", "columns"] == "k string, n long"
    assert stores.loc["T", "indexes"] == "primary key unique hash(k): 1 key"
    assert "U unique hash(k): 4 keys" in stores.loc["W", "indexes"].splitlines()
    assert stores.loc["V", "context"] == "ByKey" and stores.loc["V", "partitions"] == 1
    kinds = cep.statements().set_index("name")["kind"]
    assert (kinds["W"], kinds["T"], kinds["divided"]) == ("named window", "table", "named window V")
    assert kinds["U"] == "create index"
    assert cep.to_frame("T").to_dict("list") == {"k": ["z"], "n": [1]}


def test_statements_of_stores_can_be_explained(cep: Workbench) -> None:
    cep.run("create table T(k string primary key, n count(*))")
    assert "create window `W`" in cep.explain("W")
    steps = cep.explain("T", "steps")
    assert "a row for each k" in steps and "n = count(*)" in steps and "rows by key" in steps
    assert "create table `T` by k" in cep.explain("T")
    assert cep.explain("W", "steps").startswith("W\n")


def test_steps_call_streams_by_their_names_and_periods_by_their_units() -> None:
    cep = Workbench()
    cep.run("create schema A(id string, n int); create window W#time(1 day 30 min) as A")
    assert "time(1 day 30 min)" in cep.explain("W", "steps")
    assert "every 3 sec 5 msec" in cep.explain("select * from A output every 3 sec 5 msec")
    assert "time(1 year 2 months)" in cep.explain("select * from A#time(14 months)")
    steps = cep.explain("select a.n from A#length(2) as a, W as w where a.id = w.id and a.n > 3", "steps")
    assert "w found by a hash index of window W, shared by its readers: w.id = a.id" in steps and "[1]" not in steps
    plan = cep.explain("on A as a delete from W where W.id = a.id")
    assert "where W.id = a.id" in plan


def test_periods_of_a_clock_of_microseconds() -> None:
    cep = Workbench(config=Config(microseconds=True))
    cep.run("create schema A(id string, n int)")
    assert "time(1 day)" in cep.explain("select * from A#time(1 day)")
    assert "time(1 sec 2 msec 3 microseconds)" in cep.explain("select * from A#time(1.002003)")


def test_a_query_asks_each_row_once() -> None:
    asked: list[int] = []

    def noted(value: int) -> int:
        asked.append(value)
        return value

    runtime = Runtime()
    runtime.register_function("noted", noted)
    runtime.deploy("create schema A(x int); create window W#keepall as A; insert into W select * from A;")
    for value in range(5):
        runtime.send("A", {"x": value})
    assert runtime.query("select noted(x) as y from W where noted(x) > 2") == [{"y": 3}, {"y": 4}]
    assert sorted(asked) == [0, 1, 2, 3, 3, 4, 4]


def test_kinds_of_on_triggers() -> None:
    cep = Workbench()
    cep.run("create schema E(k string); create window W#keepall as E; @name('d') on E delete from W;"
            "@name('u') on E update W set k = 'x'; @name('m') on E merge W when matched then delete")  # fmt: skip
    kinds = cep.statements().set_index("name")["kind"]
    assert kinds[["d", "u", "m"]].tolist() == ["on delete", "on update", "on merge"]
