"""The adapter between a view and a workbench."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from cepbook.engine.inspection.visible_rows import RowTable
from cepbook.errors import UsageError
from cepbook.lang.types import VALUE_TYPES
from cepbook.session import Workbench
from cepbook.widgets import StatementView, WorkbenchSource, view
from cepbook.widgets.base.column_encoding import ViewColumn
from cepbook.widgets.live_view.partition_rows import partition_columns
from cepbook.widgets.live_view.partition_sheet import EVENT_COLUMNS
from cepbook.widgets.live_view.row_filter import RowFilter, SheetColumns
from tests.widgets.fakes import FakeBrowser, FakeTime

MODULE = """
create schema Tick(symbol string, price double);
create context PerSymbol partition by symbol from Tick;
@name('out') context PerSymbol select * from Tick#length(2);
@name('mean') context PerSymbol select avg(price) as mean from Tick#length(2);
@name('plain') select * from Tick"""


def workbench() -> Workbench:
    cep = Workbench()
    cep.run(MODULE)
    for i, symbol in enumerate("ABCBA"):
        cep.advance(1000 * i)
        cep.send("Tick", symbol=symbol, price=float(i))
    return cep


def test_what_a_view_reads() -> None:
    source = WorkbenchSource(workbench(), "out")
    assert (source.name, source.clock(), source.results) == ("out", 4000, None)
    assert source.epl.strip().endswith("from Tick#length(2)")
    assert source.columns == (ViewColumn("symbol", "string"), ViewColumn("price", "double"))
    assert len(source.every()) == 5
    assert source.every(1).column("price") == [1.0, 3.0]
    assert source.every(1).rows([1]) == [{"symbol": "B", "price": 3.0}]
    assert len(source.every(99)) == 0
    assert source.keeps_rows and source.partitioned
    listed = [{"id": i, "symbol": s, "events": n} for i, (s, n) in enumerate({"A": 2, "B": 2, "C": 1}.items())]
    assert source.partitions() == (3, listed, 3)
    assert source.partitions(1) == (3, listed[:1], 3)
    assert source.partitions(2, shown=range(1, 9)) == (3, listed[1:2], 3)
    assert source.partitions(2, RowFilter(by="symbol", down=True)) == (3, listed[:0:-1], 3)
    assert source.partitions(choice=RowFilter(by="events"), shown=range(1)) == (3, listed[2:], 3)
    assert source.partitions(choice=RowFilter(("b",))) == (3, listed[1:2], 1)


def test_the_last_rows_are_those_of_all_partitions_by_id() -> None:
    source = WorkbenchSource(workbench(), "out")
    rows = list(source.every().rows(range(5)))
    for most in range(1, 7):
        assert source.latest(most) == (5, rows[-most:])
        assert source.latest(most, shown=range(1, 3)) == (5, rows[-most:][1:3])
    assert source.latest(1, 0) == (2, [{"symbol": "A", "price": 4.0}])


def test_rows_of_aggregates_and_the_events_behind_them() -> None:
    source = WorkbenchSource(workbench(), "mean")
    assert source.results == "Result"
    means = [{"mean": 2.0}, {"mean": 2.0}, {"mean": 2.0}]
    assert source.latest(10) == (3, means)
    assert source.latest(2, shown=range(1, 2)) == (3, means[:1])
    assert source.events(4, shown=range(1, 3)) == (5, ("price",), [{"price": 1.0}, {"price": 3.0}])
    assert source.events(10, 0) == (2, ("price",), [{"price": 0.0}, {"price": 4.0}])
    assert source.events(2) == (5, ("price",), [{"price": 3.0}, {"price": 2.0}])


@pytest.mark.parametrize("epl", ["select * from Tick#length(2) having price > 0", "select price from Tick#time(3 sec)"])
def test_the_last_rows_without_a_context(epl: str) -> None:
    cep = workbench()
    cep.run(f"@name('more') {epl}")
    for i in range(5):
        cep.advance(by="1 sec")
        cep.send("Tick", symbol="Z", price=float(i - 3))
    rows = cep.iterate("more")
    source = WorkbenchSource(cep, "more")
    assert rows and all(source.latest(most) == (len(rows), rows[-most:]) for most in (1, 2, 10))


SHEETS = {
    "plain": "select symbol, price from Tick#length(3)",
    "wildcard": "select * from Tick#length(3)",
    "wildcard of a sorted window": "select * from Tick#sort(3, price)",
    "wildcard of the last per key": "select * from Tick#unique(symbol)",
    "wildcard and a column": "select *, price * 2 as twice from Tick#length(3)",
    "wildcard into another stream": "insert into Other select * from Tick#length(3)",
    "wildcard of partitions": "context PerSymbol select * from Tick#unique(symbol)",
    "wildcard with a condition": "select * from Tick#length(3) where price > 1",
    "one": "select price as p from Tick#length(3)",
    "two names": "select price as p, symbol, price as q from Tick#length(3)",
    "computed": "select symbol, price * 2 as twice from Tick#length(3)",
    "ordered": "select symbol, price from Tick#length(3) order by price desc",
    "a few": "select symbol, price from Tick#length(3) where price > 1",
    "aggregates": "select symbol, price, sum(price) as total from Tick#length(3)",
    "groups": "select symbol, sum(price) as total from Tick#length(3) group by symbol",
    "partitions": "context PerSymbol select symbol, price from Tick#length(2)",
    "sorted": "select price from Tick#sort(2, price)",
    "lists": "select window(price) as all from Tick#length(2)",
    "nothing": "select symbol from Tick",
}


@pytest.mark.parametrize("epl", SHEETS.values(), ids=SHEETS)
def test_columns_and_rows_are_those_of_the_iterator(epl: str) -> None:
    cep = workbench()
    cep.run(epl.replace("context", "@name('sheet') context") if "context" in epl else f"@name('sheet') {epl}")
    for i, symbol in enumerate("BCAB"):
        cep.send("Tick", symbol=symbol, price=5.0 - i)
    rows, sheet = cep.runtime.iterate("sheet"), WorkbenchSource(cep, "sheet").every()
    assert len(sheet) == len(rows)
    assert sheet.rows(range(len(rows))) == rows
    for name in sheet.names:
        assert list(sheet.column(name)) == [row[name] for row in rows]
    assert list(sheet.column("no such")) == [None] * len(rows)
    for row in sheet.rows(range(len(rows))):  # it belongs to who gets it
        for value in row.values():
            if isinstance(value, list):
                value.clear()
    assert cep.runtime.iterate("sheet") == rows


@pytest.mark.parametrize(
    "epl",
    [
        "select * from Tick#length(3)",
        "select price from Tick#keepall",
        "select symbol, price * 2 as twice from Tick#length(3)",
    ],
)
def test_columns_are_used_again_while_the_rows_are_the_same(epl: str) -> None:
    cep = Workbench()
    cep.run(f"create schema Tick(symbol string, price double); @name('out') {epl}")
    source = WorkbenchSource(cep, "out")
    for price in (1.0, 2.0, 3.0, 4.0):
        cep.send("Tick", symbol="A", price=price)
        before = source.every()
        columns = SheetColumns(before, ())
        name = list(before.names)[-1]
        values = columns[name].values()
        assert values == before.column(name)
        same = columns.followed(source.every(), (), {})
        assert same[name].values() == values
        assert (same[name] is columns[name]) == (before.dropped_since(source.every()) == 0)
        cep.send("Tick", symbol="B", price=9.0)
        after = source.every()
        assert columns.followed(after, (), {})[name].values() == after.column(name)


@pytest.mark.parametrize("window", ["keepall", "length(40)", "time(30 sec)", "sort(40, price)", "length_batch(7)"])
@pytest.mark.parametrize("select", ["*", "price, symbol, n", "symbol, price as p, n"])
def test_columns_follow_their_window(window: str, select: str) -> None:
    """What is searched, after any change of the window, is what a search of all rows finds."""
    cep, random = Workbench(), Random(5)
    cep.run(f"create schema Tick(symbol string, price double, n long); @name('out') select {select} from Tick#{window}")
    source = WorkbenchSource(cep, "out")
    names = [column.name for column in source.columns]
    kinds = {column.name: VALUE_TYPES[column.type] for column in source.columns}
    columns: SheetColumns | None = None
    for step in range(120):
        for _ in range(random.choice((0, 1, 1, 5, 30))):
            price = random.choice((None, 1.5, 22.0, -0.0, 0.0, float("nan"), random.random()))
            text = random.choice((None, "a1", "N2", f"s{step}"))
            cep.send("Tick", symbol=text, price=price, n=random.randrange(30))
        cep.advance(1000 * (step + 1))
        sheet = source.every()
        columns = SheetColumns(sheet, (), kinds) if columns is None else columns.followed(sheet, (), kinds)
        rows = sheet.rows(range(len(sheet)))
        for word in ("a1", "n2", "nan", "2", "-0", "n", "1.5", str(step)):
            naive = [
                place
                for place, row in enumerate(rows)
                if any(word in str(value).lower() for value in row.values() if value is not None)
            ]
            assert list(RowFilter.of({"filter": word}).found(columns, names).places) == naive, (step, word)


def test_events_of_a_window_by_columns() -> None:
    cep = workbench()
    cep.run("@name('whole') select count(*) as n, last(*) as tick from Tick#length(2)")
    cep.run("@name('one') select sum(price) as n from Tick#length(2)")
    for i, symbol in enumerate("BCA"):
        cep.send("Tick", symbol=symbol, price=5.0 - i)
    for name in ("mean", "whole", "one"):
        source = WorkbenchSource(cep, name)
        total, names, rows = source.events(9)
        sheet = source.every_event()
        assert (len(sheet), tuple(sheet.names), list(sheet.rows(range(total)))) == (total, names, rows)
        assert all(list(sheet.column(each)) == [row[each] for row in rows] for each in names)


CONTEXTS = {
    "keyed": "create context C partition by symbol from Tick",
    "hashed": "create context C coalesce by consistent_hash_crc32(symbol) from Tick granularity 1",
    "tree": "create context C context Whole initiated by Tick(price < 1) terminated after 1 day,"
    " context Each partition by symbol from Tick",
}


@pytest.mark.parametrize("kind", CONTEXTS)
def test_events_of_partitions_are_counted_while_somebody_looks(kind: str) -> None:
    cep = Workbench()
    cep.run(f"create schema Tick(symbol string, price double); {CONTEXTS[kind]};"
            "@name('out') context C select * from Tick#length(2)")  # fmt: skip
    source = WorkbenchSource(cep, "out")
    cep.send("Tick", symbol="A", price=0.5)
    source.count(True)
    for i, symbol in enumerate("ABBA", 1):
        cep.advance(1000 * i)
        cep.send("Tick", symbol=symbol, price=5.0 + i)
    counted = [(row["last event"], row["arrived"], row["per second"]) for row in source.partitions().rows]
    assert counted == ([(4000, 4, 1.0)] if kind == "hashed" else [(4000, 2, 0.5), (3000, 2, 0.5)])
    source.count(False)
    assert "arrived" not in source.partitions().rows[0]


def test_events_of_partitions_are_counted_in_replays() -> None:
    cep = workbench()
    source = WorkbenchSource(cep, "out")
    source.count(True)
    ticks = [{"symbol": s, "price": 1.0, "time": 5000 + i} for i, s in enumerate("AAD")]
    cep.replay(ticks, type="Tick", time="time").run()
    assert [(row["symbol"], row["last event"], row["arrived"]) for row in source.partitions().rows] == [
        ("A", 5001, 2), ("B", None, 0), ("C", None, 0), ("D", 5002, 1)]  # fmt: skip


@pytest.mark.parametrize("reads", ["select count(*) as n from Known", "select a.at as at from pattern [every a=Known]"])
@pytest.mark.parametrize("also", ["", ", symbol from Late"])
def test_events_that_a_statement_inserts_are_counted_in_replays(reads: str, also: str) -> None:
    """As those that are sent one by one; they were not counted, and no word said so."""
    ticks = [{"symbol": "AB"[i % 3 == 0], "at": 10 * i} for i in range(9)]
    late = [{"symbol": "B", "at": 85}]

    def seen(*, replayed: bool) -> list[tuple[object, ...]]:
        cep = Workbench()
        cep.run(
            "create schema Tick(symbol string, at long) starttimestamp at; create schema Known(symbol string, at long);"
            "create schema Late(symbol string, at long) starttimestamp at;"
            f"create context C partition by symbol from Known{also};"
            f"insert into Known select * from Tick; @name('out') context C {reads}"
        )
        source = WorkbenchSource(cep, "out")
        source.count(True)
        if replayed:
            cep.replay({"Tick": ticks, "Late": late}).run()
        else:
            for event in (*ticks, *late):
                cep.advance(int(str(event["at"])))
                cep.send("Late" if event["at"] == 85 else "Tick", event)
        return [(row["symbol"], row["last event"], row["arrived"]) for row in source.partitions().rows]

    told = seen(replayed=True)
    assert told == seen(replayed=False)
    assert told == [("B", 85 if also else 60, 4 if also else 3), ("A", 80, 6)]


def test_an_event_is_counted_that_arrives_as_somebody_begins_to_look() -> None:
    """Its partition is not there yet: nothing tells that it came before."""
    cep = Workbench()
    source: list[WorkbenchSource] = []

    @cep.function
    def listed(symbol: str) -> bool:
        if source:
            source.pop().count(True)
        return True

    cep.run("create schema Tick(symbol string); create context C partition by symbol from Tick(listed(symbol));"
            "@name('out') context C select count(*) as n from Tick")  # fmt: skip
    seen = WorkbenchSource(cep, "out")
    source.append(seen)
    cep.send("Tick", symbol="A")
    cep.send("Tick", symbol="A")
    assert [(row["arrived"], seen.counted_since) for row in seen.partitions().rows] == [(2, None)]


def test_who_looks_later_counts_from_then_on_and_a_snapshot_knows_nothing_of_it() -> None:
    cep = Workbench()
    cep.run(
        "create schema Buy(at long, symbol string); create schema Sell(at long, symbol string);"
        "create context C partition by symbol from Buy, symbol from Sell;"
        "@name('out') context C select count(*) as n from Buy"
    )

    def replay(times: range) -> None:
        buys = [{"at": 3 * time, "symbol": "A"} for time in times]
        cep.replay({"Buy": buys, "Sell": [{**buy, "at": buy["at"] - 1} for buy in buys]}, time="at").run()

    first, second = WorkbenchSource(cep, "out"), WorkbenchSource(cep, "out")
    replay(range(1, 5))
    plain = cep.runtime.snapshot()
    first.count(True)
    assert cep.runtime.snapshot() == plain
    replay(range(5, 8))
    second.count(True)
    assert [(row["last event"], row["arrived"]) for row in second.partitions().rows] == [(None, 0)]
    replay(range(8, 10))
    told = [[(row["last event"], row["arrived"]) for row in each.partitions().rows] for each in (first, second)]
    assert told == [[(27, 10)], [(27, 4)]]
    counted = cep.runtime.snapshot()
    first.count(False)
    second.count(False)
    assert cep.runtime.snapshot() == counted


def test_an_event_of_a_context_may_be_called_as_a_size_is() -> None:
    cep = Workbench()
    cep.run(
        "create schema Open(id int); create context Odd initiated by Open as events terminated after 1 min;"
        "@name('out') context Odd select id from Open"
    )
    cep.send("Open", id=7)
    (row,) = WorkbenchSource(cep, "out").partitions(5).rows
    assert row["events_"] == {"id": 7}
    assert "events" not in row  # it has no window


def test_without_a_context_there_are_no_partitions() -> None:
    assert not WorkbenchSource(workbench(), "plain").partitioned


def test_an_unknown_statement_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="oot"):
        view(workbench(), "oot")


def test_the_last_picture_of_a_dropped_statement_stays() -> None:
    cep = workbench()
    shown = view(cep, "out")
    before = shown.freeze()
    cep.drop("out")
    for _ in range(2):
        after = shown.freeze()
        assert after.text == f"out: this statement was dropped; before that\n{before.text}"
        assert before.html in after.html


def test_a_dropped_statement_is_said_to_be_dropped() -> None:
    cep = workbench()
    shown = view(cep, "out")
    cep.drop("out")
    shown.flush()
    assert isinstance(shown, StatementView) and shown.state == "dropped"
    assert str(shown.freeze()) == "out: this statement was dropped"


def test_a_prepared_search_reads_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    cep = Workbench()
    cep.run("create schema Tick(symbol string, price double); @name('out') select * from Tick#keepall")
    starts: list[int] = []
    column = RowTable.column

    def counted(table: RowTable, name: str, start: int = 0) -> list[Any]:
        starts.append(start)
        return column(table, name, start)

    monkeypatch.setattr(RowTable, "column", counted)

    async def run() -> None:
        now = FakeTime()
        live = StatementView(WorkbenchSource(cep, "out"), now=now, spent=now)
        browser = FakeBrowser(live)
        browser.hello()
        browser.say(kind="show", client="c", pane="window", partition=None, filter="")
        for number in range(30):
            cep.send("Tick", symbol="A", price=float(number))
        browser.say(kind="prepare")
        await asyncio.sleep(0)
        read = len(starts)
        assert read and not any(starts)
        cep.send("Tick", symbol="A", price=7.5)
        live.flush(urgent=True)
        browser.ack()
        browser.say(kind="show", client="c", pane="window", partition=None, filter="7")
        live.flush(urgent=True)
        assert browser.frames[-1]["window"]["found"] == 4 and starts[read:] == [30] * read
        browser.ack()
        browser.say(kind="show", client="c", pane="window", partition=None, filter="")
        browser.say(kind="show", client="c", pane="window", partition=None, filter="7")
        live.flush(urgent=True)
        assert browser.frames[-1]["window"]["found"] == 4 and starts[2 * read :] == [0] * read, "it was forgotten"
        live.close()

    asyncio.run(run())


def test_numbers_in_the_window_of_an_aggregate_are_searched() -> None:
    cep = Workbench()
    cep.run("create schema Tick(price double, n int); @name('out') select sum(price + n) as total from Tick#keepall")
    for number in range(20):
        cep.send("Tick", price=number + 0.5, n=number)
    now = FakeTime()
    live = StatementView(WorkbenchSource(cep, "out"), now=now, spent=now)
    browser = FakeBrowser(live)
    browser.hello()
    browser.say(kind="show", client="c", pane="events", partition=None, filter="7.5")
    live.flush(urgent=True)
    assert (browser.frames[-1].get("problem"), browser.frames[-1]["events"]["found"]) == (None, 2)
    live.close()


@pytest.mark.parametrize("name", EVENT_COLUMNS)
def test_partitions_are_ordered_by_a_column_about_events(name: str) -> None:
    cep = workbench()
    source = WorkbenchSource(cep, "out")
    source.count(True)
    for i, symbol in enumerate("ABBCAAC", 1):
        cep.advance(10_000 * i)
        cep.send("Tick", symbol=symbol, price=5.0)
    values: list[Any] = [row[name] for row in source.partitions(choice=RowFilter(by=name)).rows]
    assert len(set(values)) > 1 and values == sorted(values)
    described = partition_columns([{"id": 1, name: None}])[1].describe()  # though no partition has a value
    assert (described["type"], described["title"]) == (EVENT_COLUMNS[name].type, EVENT_COLUMNS[name].title)
