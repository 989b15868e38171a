"""Which statements may be divided by key: decided from the plan, without Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cepbook.spark
from cepbook.engine.runtime import Runtime
from cepbook.lang.plan.dependencies import dependencies_of, properties_read
from cepbook.spark.plan.placement import Placement, place

# ruff: noqa: E501  (a table of statements reads better with a statement in one line)
SCHEMA = """
create schema Tick(symbol string, venue string, price double, volume int, ts long);
create schema Bid(symbol string, account string, price double);
create schema BigBid(limit_ double) inherits Bid;
create context PerSymbol partition by symbol from Tick;
create context PerPrice partition by price from Tick;
create context PerPair partition by symbol and venue from Tick;
create context Shared partition by symbol from Tick, symbol from Bid;
create context Crossed partition by symbol and venue from Tick, account and symbol from Bid;
create context Kinds group price * 2 > 5 as high, group price * 2 <= 5 as low from Tick;
create context Events context S start Bid end after 3 sec, context K partition by symbol from Tick;
create window W#keepall as Tick;
"""
GIVEN = ("Tick", "Bid", "BigBid")


def placed(epl: str) -> Placement:
    """The placement of the last statement of `epl`."""
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(epl)
    plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
    return place(dependencies_of(plans[-1].name, plans, runtime.catalog, GIVEN), runtime.catalog)


@pytest.mark.parametrize(
    ("epl", "keys"),
    [
        ("select volume from Tick group by symbol", {"Tick": ("symbol",)}),
        ("select symbol, venue, count(*) from Tick group by symbol, venue", {"Tick": ("symbol", "venue")}),
        ("context PerPair select count(*) from Tick", {"Tick": ("symbol", "venue")}),
        ("context PerPair select count(*) from Tick group by volume", {"Tick": ("symbol", "venue")}),
        ("select symbol, count(*) from Tick#unique(symbol, venue) group by symbol", {"Tick": ("symbol",)}),
        ("select symbol, count(*) from Bid group by symbol", {"Bid": ("symbol",), "BigBid": ("symbol",)}),
        (
            "context Crossed select count(*) from Tick",
            {"Tick": ("symbol", "venue"), "Bid": ("account", "symbol"), "BigBid": ("account", "symbol")},
        ),
        ("context Shared select count(*) from Bid#length(2)", dict.fromkeys(GIVEN, ("symbol",))),
        (
            "insert into Cheap select symbol as s, price from Bid(price < 10);"
            "insert into Cheap select symbol as s, price"
            " from Tick; select s, min(price) from Cheap group by s",
            dict.fromkeys(GIVEN, ("symbol",)),
        ),
    ],
)
def test_by_key(epl: str, keys: dict[str, tuple[str, ...]]) -> None:
    found = placed(epl)
    assert (found.path, dict(found.keys), found.ticks) == ("by key", keys, False), found


@pytest.mark.parametrize(
    ("epl", "ticks", "reason"),
    [
        ("select count(*) from Tick", False, "one aggregate over the events of all keys"),
        ("select symbol from Tick#length_batch(3)", False, "the window length_batch holds events of all keys"),
        ("select irstream symbol from Tick#time(3)#length(9)", True, "several data windows keep events together"),
        ("select sum(price) from Tick#time(3)", True, "; the last digits of sum depend on all numbers that ever"),
        (
            "select count(*) from Tick#time(3) as t left outer join Bid#time(3) as b on t.price = b.price",
            True,
            "; rows without a partner stay",
        ),
        (
            "select prior(1, price) from Tick(price * 2 > 3)",
            False,
            "; its filter is not one that Spark expresses itself",
        ),
        (
            "select a.price from pattern [every a=Tick -> b=Bid]",
            False,
            "in a key could be divided by it; it has no `timer:within`",
        ),
        ("select price from Tick output last every 3 sec", True, "its output clause follows the events and the clock"),
        ("on Bid as b select w.price from W as w", False, "its condition does not look up rows of W by a key"),
        (
            "insert into W select * from Tick; on Bid as b delete from W as w where w.price = b.price; select symbol, count(*) from W group by symbol",
            False,
            "stmt_2, which feeds it: its condition does not look up rows of W by a key",
        ),
        (
            "on Bid as b merge W as w where w.symbol = b.symbol when not matched and (select count(*) from Tick#keepall"
            " as t where t.symbol = b.symbol) = 0 then insert select b.symbol as symbol; select price from W",
            False,
            "stmt_1, which feeds it: its subqueries read the events of all keys",
        ),
        (
            "select (select count(*) from Bid#keepall) as n from Tick",
            False,
            "a comparison with a key of the outer event would",
        ),
        ("context Kinds select count(*) from Tick", True, "conditions that cannot be written in Spark SQL"),
        ("context Events select count(*) from Tick", True, "its outer level begins and ends with events of all keys"),
        (
            "insert into Counts select count(*) as n from Tick; select n from Counts",
            False,
            "which feeds it: one aggregate",
        ),
        ("select count(*) from Tick group by price", False, "no group-by key is a plain property"),
        ("select count(*) from Tick group by symbol || venue", False, "no group-by key is a plain property"),
        (
            "select venue, count(*) from Tick#groupwin(symbol)#length(3) group by venue",
            False,
            "also divides the windows",
        ),
        ("context PerPrice select count(*) from Tick", False, "no property divides all the state"),
        ("context PerSymbol select context.id from Tick", False, "context.id numbers the partitions"),
        (
            "context PerSymbol select distinct count(*) from Tick#time(3)",
            True,
            "sorted, limited or made distinct",
        ),
        ("context PerSymbol select count(*) from Tick#time(3) limit 1", True, "sorted, limited or made distinct"),
        (
            "@name('first') insert into Sums select sum(volume) as v, symbol from Tick#length(5);"
            "select symbol, max(v) from Sums group by symbol",
            False,
            "first, which feeds it: the window length holds",
        ),
        (
            "insert into Sums select sum(volume) as v, venue from Tick group by symbol;"
            "select venue, max(v) from Sums group by venue",
            False,
            "no property divides all the state of the statement and what feeds it",
        ),
    ],
)
def test_ordered(epl: str, ticks: bool, reason: str) -> None:
    found = placed(epl)
    assert (found.path, found.ticks) == ("ordered", ticks), found
    assert reason in found.reason
    assert "partition by" in found.advice or "context" in epl
    assert "outermost" in found.advice or not {"Events", "Kinds"} & set(epl.split())


@pytest.mark.parametrize(
    "epl", ["select * from Tick(volume > 3)", "select symbol from Tick#time(3 sec)", "select price from Tick#keepall"]
)
def test_row_by_row(epl: str) -> None:
    assert placed(epl).path == "row by row"


@pytest.mark.parametrize(
    ("epl", "reason"),
    [
        ("select count(*) from Dated#ext_timed(at, 3 sec)", None),
        ("select irstream n from Dated(n > 3)#ext_timed_batch(at, 3 sec, 0L)", None),
        ("select count(*) from Dated#ext_timed_batch(at, 3 sec)", "which has no reference point"),
        ("select count(*) from Dated#ext_timed(n, 3 sec)", "are not those of a time column that is long"),
        ("select count(*) from Dated(n * 2 > 3)#ext_timed(at, 3 sec)", "is not one that Spark expresses itself"),
        ("select count(*) from Tick#ext_timed(ts, 3 sec)", "are not those of a time column that is long"),
        ("select count(*) from Dated#time_order(at, 3 sec)", "the window time_order holds events of all keys"),
        ("select count(*) from Dated#timetolive(at)", "the window timetolive holds events of all keys"),
        ("select n * 2, count(*) from Dated#groupwin(n * 2)#ext_timed(at, 3 sec) group by n * 2", "no groupwin key"),
        ("insert into Odd select n as at from Dated; select count(*) from Odd#ext_timed(at, 3 sec)", "of all keys"),
        ("select count(*) from Parent#ext_timed(at, 3 sec)", "are not those of a time column that is long"),
    ],
)
def test_windows_over_timestamps_are_sliced_where_these_are_the_time(epl: str, reason: str | None) -> None:
    runtime = Runtime()
    runtime.deploy(
        "create schema Tick(ts long); create schema Parent(at long, n long);"
        "create schema Dated() inherits Parent starttimestamp at; create schema Other() inherits Parent"
    )
    runtime.deploy(epl)
    plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
    line = dependencies_of(plans[-1].name, plans, runtime.catalog, ("Tick", "Dated", "Other"))
    found = place(line, runtime.catalog)
    assert found.path == ("ordered" if reason else "by time slice"), found
    assert (reason or "its state reaches back") in found.reason
    given = place(line, runtime.catalog, {"Tick": "ts", "Other": "n"})  # as `time=` says, which counts alone
    assert (given.path == "by time slice") is ("Tick" in epl), given


def test_timed_windows_of_a_key_are_told_the_time_of_the_whole_stream() -> None:
    found = placed("context PerSymbol select irstream count(*) from Tick#time(3 sec)")
    assert (found.path, found.ticks) == ("by key", True)
    assert found.reason == "all state is divided by Tick.symbol; every task follows the clock of the whole stream"


@pytest.mark.parametrize(
    ("epl", "ticks"),
    [
        ("context Shared select t.price from Tick#length(2) as t, Bid#keepall as b where t.symbol = b.symbol", False),
        ("context Shared select a.price from pattern [every a=Tick -> b=Bid]", False),
        ("context Shared select a.price from pattern [every a=Tick -> b=Bid where timer:within(3 sec)]", True),
        ("context Shared select a.price from pattern [every a=Tick -> timer:interval(3 sec)]", True),
        ("context Shared select a.price from pattern [every-distinct(a.price, 3 sec) a=Tick]", True),
        ("context Shared select count(*) from Tick output last every 2 sec", True),
        ("context Shared select count(*) from Tick output last every 2 events", False),
        ("context Shared select count(*) from Tick output after 3 sec every 2 events", True),
        ("context Shared select count(*) from Tick#time(3 sec)", True),
        ("context Shared select price, count(*) from Tick#time(3 sec)", False),
        ("context Shared select price, count(*) from Tick#time(3 sec) having count(*) > 2", False),
        ("context Shared select irstream price, count(*) from Tick#time(3 sec)", True),
        ("context Shared select (select max(price) from Bid#time(3 sec)) as top from Tick", False),
        ("context Shared select (select max(price) from Bid#time_batch(3 sec)) as top from Tick", True),
        ("context Shared select (select max(price) from Bid#keepall) as top from Tick", False),
        ("context Shared select prior(1, price) from Tick", False),
    ],
)
def test_in_partitions_of_keys_all_state_is_divided(epl: str, ticks: bool) -> None:
    found = placed(epl)
    assert (found.path, found.ticks) == ("by key", ticks), found


@pytest.mark.parametrize(
    ("select", "keys"),
    [
        ("select t.price from Tick#keepall as t, Bid#keepall as b where t.symbol = b.symbol", ("symbol",)),
        ("select t.price from Tick as t unidirectional left outer join Bid#unique(symbol) as b on t.symbol = b.symbol", ("symbol",)),
        ("select b.symbol, count(*) from Tick#keepall as t, Bid#keepall as b where b.symbol = t.symbol group by b.symbol", ("symbol",)),
        ("select a.price from Tick#keepall as a, Tick#keepall as b where a.symbol = b.symbol and a.venue = b.venue", ("symbol", "venue")),
    ],
)  # fmt: skip
def test_joins_by_equal_keys_are_divided_by_them(select: str, keys: tuple[str, ...]) -> None:
    found = placed(select)
    assert found.path == "by key" and dict(found.keys)["Tick"] == keys, found


@pytest.mark.parametrize(
    "select",
    [
        "select t.price from Tick#keepall as t, Bid#keepall as b where t.symbol = b.account or t.symbol = b.symbol",
        "select t.price from Tick#keepall as t left outer join Bid#keepall as b on t.price = b.price where t.symbol = b.symbol",
        "select t.price from Tick#keepall as t, Bid#keepall as b",
        "select count(*) from Tick#keepall as t left outer join Bid#keepall as b on t.symbol = b.symbol group by b.symbol",
        "select count(*) from Tick#keepall as t full outer join Bid#keepall as b on t.symbol = b.symbol group by t.symbol",
        "select t.price from Tick#length(3) as t, Bid#keepall as b where t.symbol = b.symbol",
        "select t.price from Tick#unique(venue) as t, Bid#keepall as b where t.symbol = b.symbol",
        "select count(*) from Tick#keepall as t, Bid#keepall as b where t.symbol = b.symbol",
        "select a.price from Tick#keepall as a, Tick#keepall as b where a.symbol = b.venue",
        "select a.price from Tick#keepall as a, Tick#keepall as b, Bid#keepall as c where a.symbol = b.symbol and c.price = a.price",
    ],
)  # fmt: skip
def test_other_joins_are_ordered(select: str) -> None:
    assert placed(select).path == "ordered"


@pytest.mark.parametrize(
    ("epl", "reason"),
    [
        ("context PerSymbol select (select max(price) from Bid#keepall) as top from Tick", "it reads Bid, which"),
        ("context PerSymbol select a.price from pattern [every a=Tick -> Bid]", "does not divide"),
        (
            "create table T(venue string primary key, n count(*));"
            "into table T select count(*) as n from Tick group by venue; select T[symbol].n as n from Tick",
            "it reads or changes T, which no property of all its events divides",
        ),
        (
            "create table T(n count(*)); into table T select count(*) as n from Tick; select T.n as n from Bid",
            "it looks at rows of all keys of the table T",
        ),
        ("insert into W select * from Tick; select sum(price) from W", "one aggregate over the events of all keys"),
        ("create variable int x; on Bid set x = 1; select x from Tick", "it reads variables that"),
        (
            "create context Hashed coalesce by hash_code(symbol) from Tick granularity 4;"
            "context Hashed create window H#keepall as Tick; context Hashed insert into H select * from Tick;"
            "@name('p') context Hashed select a.price from pattern [every a=H -> Tick]",
            "the pattern of p follows the rows of H in all partitions",
        ),
    ],
)
def test_what_sees_the_rows_of_all_keys_is_ordered(epl: str, reason: str) -> None:
    found = placed(epl)
    assert found.path == "ordered" and reason in found.reason, found


def test_only_properties_that_are_read_travel() -> None:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy("context PerSymbol select sum(volume) as v from Tick(price > 1) having sum(volume) > 3")
    plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
    line = dependencies_of(plans[-1].name, plans, runtime.catalog, GIVEN)
    assert properties_read(line, runtime.catalog) == {"Tick": ("symbol", "price", "volume")}


def test_what_assigns_a_variable_belongs_to_those_that_read_it() -> None:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(
        "create variable int x = 1; create variable int y = 1; create variable int z = 1;"
        "insert into Cheap select price from Tick; @name('a') on Cheap set x = y;"
        "@name('b') on Bid(price > 1) set y = 2; @name('c') on BigBid set z = 1;"
        "@name('q') select x from Tick group by symbol; @name('r') select 1 from Tick"
    )
    plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
    line = dependencies_of("q", plans, runtime.catalog, GIVEN)
    assert [s.name for s in line.triggers] == ["a", "b"]
    read = {"Tick": ("symbol", "price"), "Bid": ("price",), "BigBid": ("price",)}
    assert properties_read(line, runtime.catalog) == read
    found = place(line, runtime.catalog)
    assert (found.path, found.reason) == ("ordered", "it reads variables that a, b assigns event by event")
    assert not dependencies_of("r", plans, runtime.catalog, GIVEN).triggers


def test_output_clauses_run_in_order_and_may_assign_variables() -> None:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(
        "create variable int x = 1; @name('a') select price from Bid output when count_insert > 1 then set x = x + 1;"
        "@name('q') select x from Tick;"
        "@name('every') select symbol, count(*) from Tick group by symbol output every 2 events"
    )
    plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
    line = dependencies_of("q", plans, runtime.catalog, GIVEN)
    assert [s.name for s in line.selects] == ["a", "q"]
    found = place(line, runtime.catalog)
    assert (found.path, found.ticks) == ("ordered", True)
    assert found.reason == "it reads variables that a assigns event by event"
    found = place(dependencies_of("every", plans, runtime.catalog, GIVEN), runtime.catalog)
    assert (found.path, found.reason) == ("ordered", "its output clause counts the events of the whole stream")
    runtime.deploy("@name('rises') select b.price as p from pattern [every a=Tick -> b=Tick(price > a.price)]")
    plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
    rises = place(dependencies_of("rises", plans, runtime.catalog, GIVEN), runtime.catalog)
    assert rises.reason.startswith("its pattern follows the events of the whole stream; events that equal `a` in a key")


def test_patterns_and_spans_run_with_all_that_they_read() -> None:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(
        "@name('feed') insert into Cheap select symbol, price from Bid;"
        "@name('match') select a.symbol, b.price from pattern [every a=Tick -> b=Cheap(symbol = a.symbol)];"
        "create context Span start Cheap as c end after 5 sec;"
        "@name('in span') context Span select count(*) from Tick;"
        "@name('spans') context Span select context.c.price;"
        "create context Session partition by symbol from Tick terminated after 5 sec;"
        "@name('session') context Session select count(*) from Tick"
    )
    plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
    found = {
        name: dependencies_of(name, plans, runtime.catalog, GIVEN) for name in ("match", "in span", "spans", "session")
    }
    everything = ("symbol", "venue", "price", "volume", "ts")
    match = found["match"]
    assert [s.name for s in match.selects] == ["feed", "match"]
    read = {"Tick": ("symbol",), "Bid": ("symbol", "price"), "BigBid": ("symbol", "price")}
    assert properties_read(match, runtime.catalog) == read
    assert [s.name for s in found["in span"].selects] == ["feed", "in span"]
    assert [c.context.name for c in found["in span"].contexts] == ["Span"]
    assert found["spans"].inputs == ("Bid", "BigBid")
    assert properties_read(found["session"], runtime.catalog) == {"Tick": everything}
    placements = {name: place(line, runtime.catalog) for name, line in found.items()}
    assert [p.path for p in placements.values()] == ["by key", "ordered", "ordered", "by key"]
    assert [p.ticks for p in placements.values()] == [False, True, True, True]
    assert [p.reason for p in placements.values()] == [
        "all state is divided by Tick.symbol, Bid.symbol, BigBid.symbol",
        "the partitions of the context Span begin and end with the whole stream",
        "it has a row for each context partition, in the order in which they began",
        "all state is divided by Tick.symbol; every task follows the clock of the whole stream",
    ]


EVERYTHING = ("symbol", "venue", "price", "volume", "ts")
TAGS = {
    # what is read of them, also in filters, by the tags' own types
    "select a.volume as v from pattern [every a=Tick(price > 1) -> b=Bid(symbol = a.symbol)]": (
        ("symbol", "price", "volume"),
        ("symbol", "price"),
    ),
    "select count(*) as n, sum(b.price) as s from pattern [every a=Tick -> b=Bid]#length(3)": ((), ("price",)),
    "select prev(1, a.ts) as p, prior(2, b.account) as q from pattern [every a=Tick -> b=Bid]#length(3)": (
        ("ts",),
        ("account",),
    ),
    "select a[1].ts as t from pattern [every [2] a=Tick(price > 3) -> b=Bid(account = a[0].venue)]": (
        ("venue", "price", "ts"),
        ("account", "price"),
    ),
    "select 1 as one from pattern [every [2] (a=Tick -> b=Bid(account = a.venue))]": (("venue",), ("account",)),
    "select 1 as one from pattern [every-distinct(a.symbol) a=Tick -> (b=Bid while (b.price < a.volume))]": (
        ("symbol", "volume"),
        ("price",),
    ),
    "select a.venue as v, (select max(price) from Bid#length(2) as q where q.account = a.symbol) as m from pattern [every a=Tick]": (
        ("symbol", "venue", "price"),
        ("account", "price"),
    ),
    "select a.venue as v from pattern [every (a=Tick or b=Bid)] where b.price > 1 output last every 2 events": (
        ("venue",),
        ("price",),
    ),
    "select a.ts as x, b.price as y from pattern [every a=Tick]#length(3) as m, Bid#length(2) as b where m.a.venue = b.account": (
        ("venue", "price", "ts"),
        ("account", "price"),
    ),
    "context PerSymbol select a.ts as t from pattern [every a=Tick -> b=Tick(volume > a.volume)]": (
        ("symbol", "volume", "ts"),
    ),
    "on pattern [every a=Tick -> b=Bid] merge W as w where w.venue = a.venue when matched then delete": (
        ("venue",),
        (),
    ),
    # events as values, and what is not known to look at some properties only
    "select a, b.price as p from pattern [every a=Tick -> b=Bid]": (EVERYTHING, ("price",)),
    "select a.* from pattern [every a=Tick -> b=Bid(symbol = a.symbol)]": (EVERYTHING, ("symbol",)),
    "select prior(1, a) as x from pattern [every a=Tick -> b=Bid]": (EVERYTHING, ()),
    "insert into Pairs select a as first, b.price as p from pattern [every a=Tick -> b=Bid]": (EVERYTHING, ("price",)),
    "select a.countOf(x => x.price > 3) as n from pattern [every [2] a=Tick -> b=Bid]": (EVERYTHING, ()),
    "select * from pattern [every a=Tick -> b=Bid]": (EVERYTHING, ("symbol", "account", "price")),
}


@pytest.mark.parametrize("epl", TAGS)
def test_of_events_of_patterns_travels_what_is_read(epl: str) -> None:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(epl)
    plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
    line = dependencies_of(plans[-1].name, plans, runtime.catalog, GIVEN)
    read = {name: properties for name, properties in properties_read(line, runtime.catalog).items() if name != "BigBid"}
    assert read == dict(zip(("Tick", "Bid"), TAGS[epl], strict=False))


def test_nothing_that_spark_connect_lacks_is_used() -> None:
    folder = Path(cepbook.spark.__file__).parent
    texts = {path.name: path.read_text() for path in folder.rglob("*.py")}
    used = [name for name, text in texts.items() if re.search(r"sparkContext|_jvm|\.rdd\b|_jdf", text)]
    assert used == ["action_progress.py"]  # the status tracker, where there is one
    assert (
        texts["action_progress.py"].count("sparkContext") == 1
        and "_ConnectMonitor if is_remote() else _ClassicMonitor" in texts["action_progress.py"]
    )
