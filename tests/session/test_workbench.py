"""The Workbench over the real engine: cells in any order, bad input, replay, reading."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cepbook.engine.config import Config
from cepbook.engine.delivery.delta import Delta
from cepbook.errors import BindError, CepbookError, EventError, ParseError, ReplayError, StatementError, UsageError
from cepbook.session import Workbench

SCHEMA = "create schema Tick(ts long, symbol string, price double)"
SUMS = "@name('sums') select irstream symbol, sum(price) as total from Tick#time(10 sec) group by symbol"


@pytest.fixture
def cep() -> Workbench:
    workbench = Workbench()
    workbench.run(SCHEMA)
    return workbench


def picture(cep: Workbench) -> dict[str, Any]:
    """All that a user can see of a workbench."""
    names = list(cep.runtime.statements)
    return {
        "clock": cep.clock.ms,
        "due": cep.runtime.next_due,
        "statements": cep.statements().to_dict("list") | {"context": None},
        "types": dict(cep.runtime.catalog.event_types),
        "contexts": dict(cep.runtime.catalog.contexts),
        "deployments": list(cep.runtime.deployments),
        "rows": {name: cep.runtime.iterate(name) for name in names},
        "feeds": {name: cep.feed(name).snapshot() for name in names},
        "same": [id(s) for s in cep.runtime.statements.values()],
        "errors": len(cep.errors),
    }


def ticks(*rows: tuple[int, str | None, float | None]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["ts", "symbol", "price"])


# ---------------------------------------------------------------- cells


def test_run_send_advance_read(cep: Workbench) -> None:
    result = cep.run(SUMS)
    assert repr(result) == "deployed sums"
    assert ">symbol string, total double</td>" in result._repr_html_()
    cep.send("Tick", symbol="a", price=1)
    cep.send("Tick", {"symbol": "b", "price": 2.0, "ts": datetime(1970, 1, 1, tzinfo=UTC)})
    cep.advance("10 sec")
    assert cep.clock.ms == 10_000
    changes = cep.changes("sums")
    assert list(changes.columns) == ["time", "seq", "kind", "symbol", "total"]
    assert changes["time"].tolist()[-1] == pd.Timestamp("1970-01-01 00:00:10")
    assert cep.feed("sums").total_insert == (changes["kind"] == "insert").sum()
    assert len(cep.to_frame("sums")) == 0
    assert [str(d) for d in cep.to_frame("sums").dtypes] == ["string", "float64"]


def test_running_a_cell_again_replaces_what_it_deployed(cep: Workbench) -> None:
    first = cep.run(SUMS, cell="c1")
    cep.send("Tick", symbol="a", price=1)
    former = cep.feed("sums")
    second = cep.run("@name('avgs') select avg(price) as mean from Tick", cell="c1")
    assert (first.replaced, second.replaced) == (False, True)
    assert list(cep.runtime.statements) == ["avgs"]
    assert repr(second) == "replaced avgs\ndropped sums"
    assert former.total_insert == 1
    third = cep.run(SUMS, cell="c1")
    assert third.replaced
    assert cep.feed("sums").total_insert == 0


def test_without_a_cell_a_name_is_replaced(cep: Workbench) -> None:
    cep.run(SUMS)
    assert cep.run(SUMS).replaced
    assert not cep.run("@name('other') select * from Tick").replaced
    assert cep.run("select 1 as one from Tick").replaced is False
    assert cep.run("select  1 as one\nfrom Tick").replaced is True
    assert len(cep.runtime.statements) == 3


def test_a_changed_schema_deploys_its_dependants_anew(cep: Workbench) -> None:
    cep.run(SUMS)
    result = cep.run("create schema Tick(ts long, symbol string, price double, size int)")
    assert repr(result) == "replaced Tick\nredeployed, because they depend on it: sums"
    cep.send("Tick", symbol="a", price=1, size=3)
    assert len(cep.changes("sums")) > 0


def test_a_schema_that_breaks_its_dependants_changes_nothing(cep: Workbench) -> None:
    cep.run(SUMS)
    cep.send("Tick", symbol="a", price=1)
    before = picture(cep)
    with pytest.raises(CepbookError, match="price") as refused:
        cep.run("create schema Tick(ts long, symbol string)")
    assert picture(cep) == before
    message = str(refused.value)
    assert " --> sums:" in message and "this is of `sums`, which must be redeployed" in message


def test_what_fails_with_the_first_partitions_is_told_with_the_deployment(cep: Workbench) -> None:
    cep.run("create variable int N; create context Two group price > 1 as high, group price <= 1 as low from Tick")
    result = cep.run("@name('s') context Two select * from Tick#length(N)")
    assert repr(result).splitlines() == [
        "deployed s",
        "`s` failed as it began: ValueError: the size of a window must be above 0, found null",
    ]
    assert cep.run("@name('t') select * from Tick#keepall").messages == ()


@pytest.mark.parametrize(
    ("epl", "error", "message"),
    [
        ("selct * from Tick", ParseError, "selct"),
        ("select * form Tick", ParseError, "form"),
        ("select * from Tck", BindError, r"(?s)Tck.*Tick"),
        ("select prise from Tick", BindError, r"(?s)prise.*price"),
        ("select symbol + 1 from Tick", BindError, "symbol"),
        ("select a, b from Tick", BindError, r"(?s)`a`.*`b`"),
        ("select sum(symbol) from Tick", BindError, "symbol|sum"),
        ("@name('ok') select * from Tick; select nothing from Tick", BindError, "nothing"),
        ("create schema Tick2(x nonsense)", BindError, "nonsense"),
        ("select * from Tick#nowindow(5)", BindError, "nowindow"),
    ],
)
@pytest.mark.parametrize("cell", [None, "c1"])
def test_epl_that_does_not_compile_changes_nothing(
    cep: Workbench, epl: str, error: type[CepbookError], message: str, cell: str | None
) -> None:
    cep.run(SUMS, cell="c1")
    cep.send("Tick", symbol="a", price=1)
    before = picture(cep)
    with pytest.raises(error, match=message):
        cep.run(epl, cell=cell)
    assert picture(cep) == before


MODULE = """
create schema Tick(symbol string, price double);
@name('mean') select avg(price) as mean from Tick#time(5 sec); // one of several; with a comment
select 1 as one from Tick;
@name('count') /* ; */ select count(*) as n from Tick;
@name('big') insert into Big select * from Tick(price > 5);
@name('bigs') select count(*) as n from Big
"""


def test_dropping_one_statement_lets_the_rest_run_on(tmp_path: Path) -> None:
    cep = Workbench()
    cep.run(MODULE, cell="c")
    for price in (4.0, 5.0, 6.0):
        cep.send("Tick", symbol="a", price=price)
    assert cep.drop("mean") == ("mean",)
    assert cep.statements()["name"].tolist() == ["Tick", "stmt_2", "count", "big", "bigs"]
    cep.send("Tick", symbol="a", price=9.0)
    assert cep.to_frame("count")["n"].tolist() == [4] and cep.to_frame("bigs")["n"].tolist() == [2]
    assert [arrival.event["price"] for arrival in cep.marble("count").arrivals] == [4.0, 5.0, 6.0, 9.0]
    cep.save(tmp_path / "saved")
    loaded = Workbench()
    loaded.load(tmp_path / "saved")
    assert loaded.to_frame("count")["n"].tolist() == [4] and "mean" not in loaded.runtime.statements
    assert cep.run("@name('mean') select 1 as mean from Tick", cell="d").replaced is False  # the name is free
    assert cep.run(MODULE.replace("'mean'", "'means'"), cell="c").replaced is True


def test_what_the_rest_needs_goes_only_with_the_rest() -> None:
    cep = Workbench()
    cep.run(MODULE, cell="c")
    before = picture(cep)
    with pytest.raises(
        UsageError, match=r"(?s)`big` was deployed with `Big`, `Tick`, .*, and goes with them\n  hint: "
    ):
        cep.drop("big")
    assert picture(cep) == before
    assert cep.drop("bigs") == ("bigs",) and cep.drop("big") == ("big",)
    assert list(cep.runtime.catalog.event_types) == ["Tick"]  # `Big` went with the last who used it
    assert cep.drop("Tick", cascade=True) == ("mean", "stmt_2", "count")


def test_dropping_a_variable_leaves_the_event_type_of_the_same_name() -> None:
    cep = Workbench()
    cep.run("create schema A(n int); @name('v') create variable int A = 2; @name('s') select n from A")
    assert cep.drop("v") == ("v",)
    assert list(cep.runtime.catalog.event_types) == ["A"] and not cep.runtime.variables
    cep.send("A", n=5)
    assert cep.changes("s")["n"].tolist() == [5]


def test_dropping_a_store_that_nobody_reads() -> None:
    cep = Workbench()
    cep.run("create schema Tick(price double); create window W#keepall as Tick")
    cep.run("create window V#keepall as Tick; @name('in') insert into V select * from W", cell="v")
    with pytest.raises(UsageError, match="goes with them"):
        cep.drop("V")
    assert cep.drop("in") == ("in",)
    with pytest.raises(UsageError, match="`V` would have to go, too"):
        cep.drop("W")
    assert cep.drop("V") == ("V",)
    assert cep.drop("W") == ("W",) and "W" not in cep.runtime.stores
    assert list(cep.runtime.catalog.event_types) == ["Tick"]


LOOKUPS = """
create schema F(a double); create table T(k string primary key, v double);
create index IX on T(v);
create expression twice { x => x.a * 2 };
@name('o') select twice(f) as t from F as f;
@name('q') on F as f select t.v from T as t where t.v = f.a"""


def test_indexes_and_expressions_are_dropped_by_name() -> None:
    cep = Workbench()
    cep.run(LOOKUPS)
    for used, users in (("T", "`F`, `IX`, `o`, `q`, `twice`"), ("twice", "`F`, `IX`, `T`, `o`, `q`")):
        with pytest.raises(UsageError, match=f"`{used}` was deployed with {users}, and goes with them"):
            cep.drop(used)
    assert cep.drop("IX") == ()
    assert cep.drop("o") == ("o",) and cep.drop("twice") == ()
    assert cep.statements()["name"].tolist() == ["F", "T", "q"]
    with pytest.raises(UsageError, match="nothing named `IX` is deployed"):
        cep.drop("IX")
    cep.run("create index IX on T(v)", cell="c")
    assert cep.drop("IX") == ()
    assert cep.drop("q") == ("q",) and "T" in cep.runtime.stores


def test_an_expression_of_the_same_module_lets_other_statements_go() -> None:
    cep = Workbench()
    cep.run(LOOKUPS + "; @name('p') select twice(f) + 1 as t from F as f")
    assert cep.drop("o") == ("o",)
    cep.send("F", a=2.0)
    assert cep.changes("p")["t"].tolist() == [5.0]


def test_drop(cep: Workbench) -> None:
    cep.run("@name('big') insert into Big select symbol, price from Tick(price > 10)", cell="c1")
    cep.run("@name('last') select * from Big#lastevent", cell="c2")
    before = picture(cep)
    with pytest.raises(UsageError, match="`big`"):
        cep.drop("Tick")
    with pytest.raises(UsageError, match="`last`"):
        cep.drop("big")
    with pytest.raises(UsageError, match=r"(?s)`lst`.*`last`"):
        cep.drop("lst")
    assert picture(cep) == before
    assert cep.drop("big", cascade=True) == ("big", "last")
    assert list(cep.runtime.catalog.event_types) == ["Tick"]
    assert cep.drop("Tick") == ()
    with pytest.raises(EventError, match="no event type `Tick`"):
        cep.send("Tick", price=1)


CELLS = {
    "schema": SCHEMA,
    "big": "@name('big') insert into Big select symbol, price from Tick(price > 10)",
    "last": "@name('last') select * from Big#lastevent",
}


@pytest.mark.parametrize("order", list(permutations(CELLS)), ids="-".join)
def test_cells_in_any_order_end_in_the_same_state(order: tuple[str, ...]) -> None:
    cep = Workbench()
    for name in order:
        try:
            cep.run(CELLS[name], cell=name)
        except BindError as error:
            assert "unknown" in str(error)  # its types do not exist yet: nothing is deployed
            assert name not in cep.runtime.deployments
    for _ in range(2):
        for name in CELLS:
            cep.run(CELLS[name], cell=name)
    cep.send("Tick", symbol="a", price=11)
    assert cep.to_frame("last").to_dict("records") == [{"symbol": "a", "price": 11.0}]
    for name in order:
        cep.drop(name, cascade=True) if name in cep.runtime.deployments else None
    assert not cep.runtime.statements
    assert not cep.runtime.catalog.event_types


def test_names_of_another_cell_are_not_taken(cep: Workbench) -> None:
    cep.run("@name('a') select * from Tick; @name('b') select * from Tick", cell="c1")
    before = picture(cep)
    with pytest.raises(UsageError, match=r"`a` \(with `b`\)"):
        cep.run("@name('a') select 1 as one from Tick", cell="c2")
    assert picture(cep) == before
    assert cep.run("@name('a') select 1 as x from Tick; @name('b') select 2 as x from Tick", cell="c2").replaced
    assert not cep.run("@name('c') select * from Tick", cell="c1").replaced
    assert list(cep.runtime.statements) == ["a", "b", "c"]


def test_reset(cep: Workbench) -> None:
    cep = Workbench(start="2013-01-01", feed_capacity=5)
    cep.register_function("twice", lambda x: None if x is None else 2 * x)
    cep.run(SCHEMA)
    cep.run("@name('t') select twice(price) as p from Tick")
    cep.advance("1 hour")
    calls: list[int] = []
    cep.feed("t").subscribe(lambda: calls.append(1))
    cep.reset()
    assert calls == [1]
    assert (cep.clock.ms, len(cep.statements()), list(cep.runtime.catalog.event_types)) == (1356998400000, 0, [])
    cep.run(SCHEMA)
    cep.run("@name('t') select twice(price) as p from Tick")
    cep.send("Tick", price=4)
    assert cep.changes("t")["p"].tolist() == [8.0]


def test_rewind_keeps_what_is_deployed_and_forgets_what_happened() -> None:
    cep = Workbench(start="2013-01-01")
    cep.register_function("twice", lambda x: None if x is None else 2 * x)
    cep.run(SCHEMA)
    cep.run("create variable int most = 3")
    cep.run("@name('t') select irstream twice(price) as p from Tick#expr(current_count <= most)", cell="t")
    times: list[int] = []
    cep.on("t", lambda delta: times.append(delta.time))
    feed = cep.feed("t")
    feed.subscribe(lambda: times.append(0))
    cep.set("most", 1)
    cep.send("Tick", price=4.0)
    replay = cep.replay([{"price": 1.0, "t": "2013-01-02"}], type="Tick", time="t", paused=True)
    times.clear()

    cep.rewind()
    assert times == [0], "who shows the feed looks for the next one"
    assert (cep.clock.ms, cep.replaying, replay.state) == (1356998400000, None, "stopped")
    assert cep.feed("t") is not feed and cep.changes("t").empty and cep.to_frame("t").empty
    assert cep.marble("t").arrivals == ()
    assert cep.get("most") == 1

    times.clear()
    for price in (5.0, 6.0):
        cep.send("Tick", price=price)
    cep.advance(by="1 sec")
    assert times == [1356998400000] * 2, "the variable is as it was, which is no news to the window"
    assert cep.changes("t")["p"].tolist() == [10.0, 12.0, 10.0]
    assert list(cep.marble("t").deliveries) == cep.feed("t").snapshot()
    assert cep.run("@name('t') select price from Tick", cell="t").replaced


def test_a_failing_statement_is_told_after_a_rewind_too() -> None:
    cep = Workbench()
    cep.register_function("fail", lambda x: 1 / x)
    cep.run(SCHEMA + "; @name('f') select fail(price) as p from Tick")
    cep.rewind()
    with pytest.raises(StatementError):
        cep.send("Tick", price=0.0)
    assert len(cep.errors) == 1


@pytest.mark.parametrize(
    ("epl", "keeps"),
    [
        ("select * from Tick", False),
        ("select symbol, count(*) as n from Tick", False),
        ("select symbol, count(*) as n from Tick group by symbol", False),
        ("select count(*) as n from Tick", True),
        ("select * from Tick#lastevent", True),
        ("select symbol, count(*) as n from Tick#length(5) group by symbol", True),
    ],
)
def test_which_statements_keep_rows(cep: Workbench, epl: str, keeps: bool) -> None:
    cep.run(f"@name('q') {epl}")
    cep.send("Tick", symbol="A", price=1.0)
    assert cep.keeps_rows("q") is keeps is (len(cep.runtime.iterate("q")) == 1)
    other = Workbench(config=Config(iterable_unbound=True))
    other.run(SCHEMA)
    other.run(f"@name('q') {epl}")
    other.send("Tick", symbol="A", price=1.0)
    assert other.keeps_rows("q") and len(other.to_frame("q")) == 1


def test_floats_hold_single_precision_however_they_come_in(cep: Workbench) -> None:
    cep.run("create schema F(f float, d double, ts long); @name('f') select f, f = d as same from F")
    row = {"f": 1.1, "d": 1.1, "ts": 1000}
    cep.send("F", row)
    for events in (pd.DataFrame([row]), [row]):
        cep.replay(events, type="F", time="ts").run()
    assert cep.changes("f")["f"].tolist() == [1.100000023841858] * 3
    assert cep.changes("f")["same"].tolist() == [False] * 3


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("select", "a reserved word"),
        ("not", "a reserved word"),
        ("Cast", "a reserved word"),
        ("max", "EPL has a function of this name"),
        ("Count", "EPL has a function of this name"),
        ("current_timestamp", "EPL has a function of this name"),
        ("a b", "begins with a letter"),
        ("Math.half", "begins with a letter"),
        ("", "begins with a letter"),
    ],
)
def test_functions_leave_the_names_of_epl_alone(cep: Workbench, name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"a function cannot be called `{name}`: .*{reason}"):
        cep.register_function(name, lambda x: x)
    cep.reset()
    assert name not in cep.runtime.functions and name not in cep.runtime.catalog.functions


# ---------------------------------------------------------------- events and the clock


@pytest.mark.parametrize(
    ("args", "properties", "message"),
    [
        (("Tik",), {"price": 1}, r"(?s)no event type `Tik`.*did you mean `Tick`"),
        (("Tick",), {"prise": 1}, r"(?s)no property `prise`.*did you mean `price`"),
        (("Tick",), {"price": "1"}, r"property `price` of event type `Tick` is double, not '1' \(str\)"),
        (("Tick",), {"price": True}, "is double, not True"),
        (("Tick",), {"ts": 1.5}, "is long, not 1.5"),
        (("Tick",), {"ts": 2**63}, "outside"),
        (("Tick", [1]), {}, "is a dict or a dataclass"),
    ],
)
def test_events_that_do_not_fit_change_nothing(
    cep: Workbench, args: tuple[Any, ...], properties: dict[str, Any], message: str
) -> None:
    cep.run(SUMS)
    cep.send("Tick", symbol="a", price=1)
    before = picture(cep)
    with pytest.raises(EventError, match=message):
        cep.send(*args, **properties)
    assert picture(cep) == before


def test_missing_nan_and_none_are_null(cep: Workbench) -> None:
    cep.run("@name('all') select * from Tick")
    for event in ({}, {"price": None}, {"price": float("nan")}, {"price": pd.NA}, {"ts": pd.NaT}, {"symbol": np.nan}):
        cep.send("Tick", event)
    assert [d.insert for d in cep.feed("all").snapshot()] == [[{"ts": None, "symbol": None, "price": None}]] * 6


def test_the_sent_dict_is_the_callers_own(cep: Workbench) -> None:
    cep.run("@name('all') select * from Tick#keepall")
    event = {"symbol": "a"}
    cep.send("Tick", event)
    event["symbol"] = "b"
    assert cep.to_frame("all")["symbol"].tolist() == ["a"]
    with pytest.raises(UsageError, match="not both"):
        cep.send("Tick", event, price=1)


def test_the_clock(cep: Workbench) -> None:
    assert repr(cep.clock) == "00:00:00.000 (0 ms)"
    assert int(cep.advance(1500)) == 1500
    assert cep.advance(by="1 min").ms == 61_500
    assert cep.advance(timedelta(seconds=1)).ms == 62_500
    assert cep.advance("1970-01-01T00:02").ms == 120_000
    assert cep.advance(datetime(1970, 1, 1, 0, 3)).datetime == datetime(1970, 1, 1, 0, 3, tzinfo=UTC)
    before = picture(cep)
    with pytest.raises(EventError, match=r"cannot go back from 00:03:00\.000"):
        cep.advance(5)
    for bad in ("soon", None):
        with pytest.raises(UsageError):
            cep.advance(bad)
    with pytest.raises(UsageError, match="to a time or by a period"):
        cep.advance(5, by="1 sec")
    assert picture(cep) == before


def test_a_failing_statement_is_reported_and_others_go_on(cep: Workbench) -> None:
    def broken(x: object) -> object:
        raise ValueError("broken")

    cep.register_function("broken", broken)
    cep.run("@name('bad') select broken(price) as p from Tick")
    cep.run("@name('good') select price from Tick")
    with pytest.raises(StatementError, match="`bad` failed"):
        cep.send("Tick", price=1)
    assert cep.changes("good")["price"].tolist() == [1.0]
    with pytest.raises(StatementError, match="2 statement errors in a replay of 2 events: `bad` 2") as raised:
        cep.replay(ticks((1, "a", 1.0), (2, "a", 2.0)), type="Tick", time="ts").run()
    assert isinstance(raised.value, ReplayError)
    result = raised.value.result
    assert (result.errors, len(result.failures), len(cep.errors)) == (2, 2, 3)
    assert "2 statement errors" in repr(result)
    assert cep.changes("good")["price"].tolist() == [1.0, 1.0, 2.0]


def test_define_from_python(cep: Workbench) -> None:
    @dataclass
    class Trade:
        ts: datetime
        symbol: str
        size: int

    event_type = cep.define("Trade", Trade, time="ts")
    assert cep.define("Trade", Trade, time="ts") == event_type
    cep.run("@name('t') select symbol, size from Trade")
    cep.send("Trade", Trade(datetime(2020, 1, 1), "a", 3))
    cep.replay([Trade(datetime(2020, 1, 2), "b", 4)], type="Trade").run()
    assert cep.changes("t")["symbol"].tolist() == ["a", "b"]
    assert cep.clock.datetime == datetime(2020, 1, 2, tzinfo=UTC)
    before = picture(cep)
    with pytest.raises(UsageError, match="`t`"):
        cep.define("Trade", {"symbol": int})
    with pytest.raises(UsageError, match="twice"):
        cep.define("Odd", pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(UsageError, match="defined from Python"):
        cep.drop("Trade")
    assert picture(cep) == before


def test_odd_column_names_stay_usable() -> None:
    cep = Workbench()
    frame = pd.DataFrame({"ts": [1, 2], "air time": [5, 7], "select": ["x", "y"]})
    cep.define("Flight", frame, time="ts")
    cep.run("@name('odd') select `air time`, `select` as chosen from Flight where `air time` > 5")
    cep.replay({"Flight": frame}).run()
    assert cep.changes("odd", times="ms").to_dict("list") == {
        "time": [2], "seq": [0], "kind": ["insert"], "air time": [7], "chosen": ["y"],
    }  # fmt: skip


# ---------------------------------------------------------------- replay


@pytest.mark.parametrize(
    ("events", "options", "message"),
    [
        ({"Tik": ticks((1, "a", 1.0))}, {"time": "ts"}, r"(?s)no event type `Tik`.*`Tick`"),
        ({"Tick": ticks((1, "a", 1.0)).drop(columns="price")}, {"time": "ts"}, "lacks the column `price`"),
        ({"Tick": ticks((1, "a", 1.0))}, {"time": "when"}, "no time column `when`"),
        ({"Tick": ticks((1, "a", 1.0))}, {}, "the event time of `Tick` is not known"),
        ({"Tick": ticks((1, "a", 1.0)).assign(price="x")}, {"time": "ts"}, "column `price` of `Tick`, row 0"),
        ({"Tick": ticks((1, "a", 1.0), (2, "b", 1.0)).assign(ts=[1, np.nan])}, {"time": "ts"}, "row 1: the event time"),
        ({"Tick": ticks((2, "a", 1.0), (1, "b", 1.0))}, {"time": "ts", "sort": False}, "row 1 of `Tick` goes back"),
        ({"Tick": ticks((-5, "a", 1.0))}, {"time": "ts"}, "is before the clock"),
        ({"Tick": ticks((1, "a", 1.0))}, {"time": "ts", "until": -1}, "is already past"),
        ({"Tick": ticks((1, "a", 1.0))}, {"time": "ts", "late": "maybe"}, "`late` is"),
        ({}, {}, "nothing to replay"),
        (ticks((1, "a", 1.0)), {"time": "ts"}, "which event type"),
        ({"Tick": ticks((1, "a", 1.0))}, {"time": "ts", "type": "Tick"}, "a single source"),
        ({"Tick": 5}, {"time": "ts"}, "cannot come from int"),
        ({"Tick": "nothing.csv"}, {"time": "ts"}, "there is no file"),
        ({"Tick": ticks((1, "a", 1.0)), "Tock": []}, {"time": "ts"}, "no event type `Tock`"),
    ],
)
def test_replays_that_cannot_begin_change_nothing(
    cep: Workbench, events: Any, options: dict[str, Any], message: str
) -> None:
    cep.run(SUMS)
    cep.send("Tick", symbol="a", price=1)
    before = picture(cep)
    with pytest.raises(CepbookError, match=message):
        cep.replay(events, **options)
    assert picture(cep) == before
    assert cep.replaying is None


def expected_by_sending(frame: pd.DataFrame, *epl: str, until: int) -> dict[str, Any]:
    cep = Workbench()
    cep.run(SCHEMA)
    for text in epl:
        cep.run(text)
    for row in frame.to_dict("records"):
        cep.advance(row["ts"], stepping=True)
        cep.send("Tick", {str(k): v for k, v in row.items()})
    cep.advance(until, stepping=True)
    return {name: cep.feed(name).snapshot() for name in cep.runtime.statements}


CONTEXT = "create context PerSymbol partition by symbol from Tick"
STATEMENTS = (
    SUMS,
    "@name('last3') select irstream * from Tick#length(3)",
    "@name('batch') select count(*) as n from Tick#time_batch(7 sec)",
    CONTEXT,
    "@name('mine') context PerSymbol select symbol, avg(price) as mean from Tick#length(2)",
    "@name('big') insert into Big select symbol, price from Tick where price > 5",
    "@name('bigs') select irstream symbol, count(*) as n from Big#time(4 sec) group by symbol",
)


def random_ticks(n: int = 400) -> pd.DataFrame:
    random = np.random.default_rng(3)
    price = np.where(random.random(n) < 0.1, np.nan, random.integers(0, 10, n))
    return pd.DataFrame(
        {"ts": np.sort(random.integers(0, 100_000, n)), "symbol": random.choice(["a", "b", "c"], n), "price": price}
    )


def test_replay_delivers_what_sending_delivers(tmp_path: Path) -> None:
    frame = random_ticks()
    expected = expected_by_sending(frame, *STATEMENTS, until=120_000)
    frame.to_parquet(tmp_path / "ticks.parquet")

    def generated() -> Iterator[dict[str, Any]]:
        yield from ({str(k): v for k, v in row.items()} for row in frame.to_dict("records"))

    for source in (frame, tmp_path / "ticks.parquet", generated()):
        for step in (None, 1, 37):
            if step is not None and not isinstance(source, pd.DataFrame):
                continue
            cep = Workbench()
            cep.run(SCHEMA)
            for epl in STATEMENTS:
                cep.run(epl)
            replay = cep.replay({"Tick": source}, time="ts", until=120_000, paused=step is not None)
            while step is not None and replay.state == "paused":
                replay.step(step)
            replay.run()
            assert cep.clock.ms == 120_000
            for name, deliveries in expected.items():
                assert cep.feed(name).snapshot() == deliveries, name
            assert replay.result.deliveries == {name: len(d) for name, d in expected.items() if d}


def test_replay_merges_types_in_total_order(cep: Workbench) -> None:
    cep.run("create schema Note(ts long, text string)")
    cep.run("@name('out') select symbol from Tick")
    cep.run("@name('notes') select text from Note")
    seen: list[tuple[int, str]] = []
    cep.on("out", lambda delta: seen.extend((delta.time, row["symbol"]) for row in delta.insert or ()))
    cep.on("notes", lambda delta: seen.extend((delta.time, row["text"]) for row in delta.insert or ()))
    notes = pd.DataFrame({"ts": [1, 2, 2, 5], "text": ["n1", "n2", "n3", "n4"]})
    events = {"Tick": ticks((2, "t1", 0), (3, "t2", 0), (5, "t3", 0)), "Note": notes}
    result = cep.replay(events, time={"Tick": "ts", "Note": "ts"}).run()
    assert seen == [(1, "n1"), (2, "t1"), (2, "n2"), (2, "n3"), (3, "t2"), (5, "t3"), (5, "n4")]
    assert repr(result) == ("7 events finished, clock 00:00:00.005\n  out: 3 deliveries\n  notes: 4 deliveries")


def test_statements_may_come_and_go_while_a_replay_is_paused(cep: Workbench) -> None:
    cep.run("@name('n') select count(*) as n from Tick")
    replay = cep.replay(ticks(*((i, "a", float(i)) for i in range(10))), type="Tick", time="ts", paused=True)
    replay.step(4)
    cep.run("@name('p') select price from Tick")
    replay.step(2)
    cep.drop("p")
    cep.run("@name('s') select symbol from Tick")
    replay.run()
    assert cep.changes("n")["n"].tolist() == list(range(1, 11))
    assert cep.changes("s")["symbol"].tolist() == ["a"] * 4


def test_one_replay_at_a_time(cep: Workbench) -> None:
    replay = cep.replay(ticks((1, "a", 1.0), (2, "a", 1.0)), type="Tick", time="ts", paused=True)
    replay.step()
    assert cep.replaying is replay
    with pytest.raises(UsageError, match="a replay is paused already"):
        cep.replay(ticks((3, "a", 1.0)), type="Tick", time="ts")
    replay.stop()
    assert cep.replaying is None
    cep.replay(ticks((3, "a", 1.0)), type="Tick", time="ts").run()
    assert cep.clock.ms == 3


def test_await_a_replay(cep: Workbench) -> None:
    cep.run("@name('n') select count(*) as n from Tick")

    async def main() -> None:
        result = await cep.replay({"Tick": random_ticks()}, time="ts")
        assert result.events == 400
        with pytest.raises(EventError, match="is before the clock"):
            await cep.replay([{"ts": 1}], type="Tick", time="ts")

    asyncio.run(main())
    assert cep.changes("n")["n"].tolist()[-1] == 400


def test_time_going_backwards_keeps_the_good_rows(cep: Workbench) -> None:
    cep.run("@name('n') select count(*) as n from Tick")
    events = [{"ts": 5}, {"ts": 7}, {"ts": 6}, {"ts": 9}]
    with pytest.raises(EventError, match=r"row 2 of `Tick` goes back in time: 00:00:00.006 after 00:00:00.007"):
        cep.replay(events, type="Tick", time="ts").run()
    assert (cep.clock.ms, cep.changes("n")["n"].tolist()) == (7, [1, 2])
    cep.replay([{"ts": 8}, {"ts": 1}], type="Tick", time="ts", late="drop").run()
    assert cep.changes("n")["n"].tolist() == [1, 2, 3]


def test_memory_of_feeds_is_bounded() -> None:
    cep = Workbench(feed_capacity=100)
    cep.run(SCHEMA)
    cep.run("@name('all') select * from Tick")
    cep.replay({"Tick": random_ticks(5_000)}, time="ts").run()
    feed = cep.feed("all")
    assert (feed.total_insert, len(feed.snapshot()), feed.dropped) == (5_000, 100, 4_900)


# ---------------------------------------------------------------- reading


def test_listeners_follow_a_statement(cep: Workbench) -> None:
    cep.run(SUMS)
    seen: list[Delta] = []
    stop = cep.on("sums", seen.append)
    cep.send("Tick", symbol="a", price=1)
    cep.run(SUMS)
    cep.send("Tick", symbol="a", price=2)
    assert [(d.insert or [])[0]["total"] for d in seen] == [1.0, 2.0]
    stop()
    stop()
    cep.send("Tick", symbol="a", price=3)
    assert len(seen) == 2
    with pytest.raises(UsageError, match=r"(?s)`sum`.*`sums`"):
        cep.on("sum", seen.append)


def test_query_reads_current_rows(cep: Workbench) -> None:
    cep.run(SUMS)
    cep.run("@name('latest') select * from Tick#lastevent")
    for symbol, price in (("a", 1), ("b", 5), ("a", 3)):
        cep.send("Tick", symbol=symbol, price=price)
    before = picture(cep)
    sums = cep.query("select symbol, total * 2 as double_total from sums where total > 4.5")
    assert sums.to_dict("records") == [{"symbol": "b", "double_total": 10.0}]
    assert [str(d) for d in sums.dtypes] == ["string", "float64"]
    assert cep.query("select count(*) as n, sum(total) as s from sums").to_dict("records") == [{"n": 2, "s": 9.0}]
    assert len(cep.query("select * from latest")) == 1
    assert picture(cep) == before


@pytest.mark.parametrize(
    ("epl", "error", "message"),
    [
        ("select * from smus", UsageError, r"(?s)no named window, table or statement `smus`.*`sums`"),
        ("select * from Tick", UsageError, "`Tick` is an event type"),
        ("select nothing from sums", BindError, "nothing"),
        ("select * from sums#length(2)", BindError, "takes no data window"),
        ("insert into X select * from sums", BindError, "a query that inserts cannot have a from-clause"),
        ("select * from sums output every 2 events", BindError, "output clause"),
        ("create schema X(a int)", UsageError, "one select"),
        ("select * from", ParseError, "from"),
    ],
)
def test_queries_that_make_no_sense(cep: Workbench, epl: str, error: type[CepbookError], message: str) -> None:
    cep.run(SUMS)
    before = picture(cep)
    with pytest.raises(error, match=message):
        cep.query(epl)
    assert picture(cep) == before


def test_partitions_and_statements(cep: Workbench) -> None:
    cep.run(CONTEXT)
    cep.run("@name('mine') context PerSymbol select symbol, count(*) as n from Tick#keepall")
    assert len(cep.partitions("PerSymbol")) == 0
    for symbol in ("a", "b", "a"):
        cep.send("Tick", symbol=symbol)
    partitions = cep.partitions("PerSymbol")
    assert partitions["id"].tolist() == [0, 1]
    assert partitions["key1"].tolist() == ["a", "b"]
    with pytest.raises(UsageError, match=r"(?s)no context `PerSymbl`.*`PerSymbol`"):
        cep.partitions("PerSymbl")
    listed = cep.statements()
    assert listed["name"].tolist() == ["Tick", "PerSymbol", "mine"]
    assert listed["kind"].tolist() == ["create schema", "create context", "select"]
    assert listed.iloc[2][["context", "reads", "columns", "delivered"]].tolist() == [
        "PerSymbol", "Tick", "symbol string, n long", 3,
    ]  # fmt: skip
    assert list(Workbench().statements().columns) == list(listed.columns)


@pytest.mark.parametrize("stage", ["ast", "plan", "rewritten", "steps", "python", "coverage"])
def test_explain(cep: Workbench, stage: str) -> None:
    cep.run(SUMS)
    before = picture(cep)
    of_name, of_text = cep.explain("sums", stage), cep.explain("select price from Tick where price > 1", stage)
    assert of_name
    assert of_text
    assert of_name != of_text
    assert picture(cep) == before


def test_explain_tells_constants_and_how_a_replay_runs(cep: Workbench) -> None:
    cep.run("@name('dear') insert into Dear select symbol, price * 2.5 as twice from Tick(price > 7.5)")
    cep.run("@name('sums') select sum(twice) as s from Dear")
    python = cep.explain("dear", "python")
    for constant in ("= 7.5", "= 2.5", "symbol, twice", "= 'symbol'"):
        assert constant in python.split("def on_event")[0]
    for name in ("dear", "sums"):
        assert "replay   in batches" in cep.explain(name, "coverage")
    cep.on("sums", print)
    assert "replay   event by event: `sums` has a listener" in cep.explain("dear", "coverage")
    cep.run("@name('other') select price from Tick")
    cep.run("@name('after') select a.price as p from pattern [every a=Tick -> Tick]")
    for name in ("other", "after"):  # nothing connects them with `sums`
        assert "replay   in batches" in cep.explain(name, "coverage")
    assert "arrays follow the partial matches" in cep.explain("after", "coverage")
    cep.run("@name('once') select a.price as p from pattern [a=Tick -> Tick]")
    assert "because it is not of the form `every a=A -> …`" in cep.explain("once", "coverage")
    assert "decided when it is deployed" in cep.explain("select * from Tick", "coverage")
    join = "select a.price as p from Tick#length(2) as a, Tick#length(2) as b where a."
    cep.run(f"@name('pairs') {join}symbol = b.symbol; @name('all') {join}price > b.price")
    assert "arrays find the pairs of events" in cep.explain("pairs", "coverage")
    assert "because no texts, whole numbers or booleans of the two" in cep.explain("all", "coverage")


def test_explain_says_what_is_wrong(cep: Workbench) -> None:
    with pytest.raises(UsageError, match="no stage `plna`"):
        cep.explain(SUMS, "plna")
    with pytest.raises(BindError):
        cep.explain("select nothing from Tick")


def test_repr(cep: Workbench) -> None:
    assert repr(cep) == "Workbench(0 statements, clock 00:00:00.000)"
    cep.run("create variable int least = 3")
    assert repr(cep).startswith("Workbench(0 statements"), "as lists count them"
    with pytest.raises(UsageError):
        Workbench(feed_capacity=0)
    with pytest.raises(UsageError):
        Workbench(start="once")
