"""Random histories of several types with ties and gaps: what tasks deliver, divided as the placement says, is what the
kernel delivered, form by form."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.random_cases import several
from tests.spark.tasks import Recorded, differences

pytestmark = pytest.mark.histories
HISTORIES = several(1)

# ruff: noqa: E501  (a table of statements reads better with a statement in one line)
SCHEMA = """
create schema Tick(symbol string, venue string, price int, volume int, ts long);
create schema Bid(symbol string, account string, price int, n int);
create schema BigBid(more int) inherits Bid;
create schema Low(symbol string, price int);
create context P partition by symbol from Tick, symbol from Bid;
create context Cats group price < 4 as low, group price between 3 and 6 as middle, group volume > 5 as large from Tick;
create context Cheap group price < 4 as low, group price > 6 as high from Tick;
create context Hashed coalesce by consistent_hash_crc32(symbol) from Tick, consistent_hash_crc32(symbol) from Bid granularity 4;
create context Coded coalesce by hash_code(symbol, volume) from Tick granularity 5;
create context Sessions partition by symbol from Tick, symbol from Bid terminated after 3 sec;
create context Ended partition by symbol from Tick, symbol from Bid initiated by Tick(price > 3) terminated by Bid(price > 5);
create context Spans context K partition by symbol from Tick, symbol from Bid, context S start Tick(price > 4) end after 2 sec;
create context Inits context K partition by symbol from Tick, symbol from Bid, context S initiated by Bid(price > 4) terminated by Tick(price > 6);
create context Mornings context Zeit start (0, *, *, *, *) end (1, *, *, *, *), context K partition by symbol from Tick, symbol from Bid;
create context CatKey context C group price < 4 as low, group price > 2 as other from Tick, context K partition by symbol from Tick;
create context KeyCat context K partition by symbol from Tick, context C group price < 4 as low, group price > 2 as other from Tick;
"""
BY_KEY = (
    "context {c} select symbol, price, count(*) as n, sum(volume) as s from Tick#length(3)",
    "context {c} select irstream count(*) as n, max(price) as m from Tick#time(2 sec)",
    "context {c} select irstream price from Tick#time_batch(2 sec)",
    "context {c} select count(*) as n, sum(price) as s from Tick output last every 2 sec",
    "context {c} select a.price as a, b.volume as b from pattern [every a=Tick(price > 5) -> b=Tick(volume > 5) where timer:within(3 sec)]",
    "context {c} select a.price as a from pattern [not Tick(price > 7) -> every a=Tick(price < 3)]",
    "context {c} select a.price as a from pattern [a=Tick(price > 5) or not Tick(price > 7)]#time(1 sec)",
    "context {c} select prev(1, price) as p, prior(2, volume) as q from Tick#length(4)",
    "context {c} create window W{c}#length(2) as Tick; context {c} insert into W{c} select * from Tick; context {c} select irstream symbol, sum(price) as s from W{c}",
    "context {c} select (select max(volume) from Tick#length(3)) as top, price from Tick",
)
IN_CONTEXTS = tuple(
    f.replace("{c}", c)
    for c in (
        "P",
        "Cats",
        "Cheap",
        "Hashed",
        "Coded",
        "Sessions",
        "Ended",
        "Spans",
        "Inits",
        "Mornings",
        "CatKey",
        "KeyCat",
    )
    for f in BY_KEY
)
KEYED = (
    "select symbol, price, prev(1, price) as p from Tick#groupwin(symbol)#length(3)",
    "select irstream symbol, price from Tick#groupwin(symbol)#ext_timed(ts, 2 sec)",
    "select irstream symbol, price, prev(1, price) as p from Tick#groupwin(symbol)#ext_timed(ts, 2 sec)",
    "select irstream symbol, sum(price) as s from Tick#groupwin(symbol)#sort(2, price) group by symbol",
    "select symbol, percentile_approx(price, 90) as p, approx_count_distinct(volume) as n from Tick#time(2 sec) group by symbol",
    "select irstream symbol, price from Tick#groupwin(symbol)#lastevent",
    "select irstream symbol, price from Tick#groupwin(symbol)#firstlength(2)",
    "select irstream symbol, price from Tick#groupwin(symbol)#ext_timed_batch(ts, 2 sec)",
    "select t.price as a, b.price as b from Tick#time(2 sec) as t, Bid#keepall as b where t.symbol = b.symbol",
    "select t.price as a, b.price as b, c.n as n from Tick#time(2 sec) as t, Bid#unique(symbol) as b, BigBid#groupwin(symbol)#length(2) as c where t.symbol = b.symbol and c.symbol = t.symbol",
    "select t.price as a, b.price as b from Tick#time(1 sec) as t left outer join Bid#time(2 sec) as b on t.symbol = b.symbol",
    "select t.price as a, b.price as b from Tick#groupwin(symbol)#length(2) as t full outer join Bid#time(2 sec) as b on t.symbol = b.symbol",
    "select t.price as a, b.price as b from Tick#time(2 sec) as t full outer join Bid#groupwin(symbol)#length(2) as b on t.symbol = b.symbol and b.price > t.price and t.volume > 2",
    "select t.symbol as s, sum(b.price) as p from Tick#time(2 sec) as t right outer join Bid#groupwin(symbol)#length(2) as b on t.symbol = b.symbol group by t.symbol, b.symbol",
    "select t.price as a, b.price as b, c.price as c from Tick#time(1 sec) as t left outer join Bid#time(2 sec) as b on t.symbol = b.symbol right outer join Bid#groupwin(symbol)#length(2) as c on b.symbol = c.symbol",
    "select t.symbol as s, count(*) as n from Tick#keepall as t left outer join Bid#time(2 sec) as b on t.symbol = b.symbol group by t.symbol",
    "select count(*) as n from Tick#keepall as t full outer join Bid#time(2 sec) as b on t.symbol = b.symbol group by t.symbol, b.symbol",
    "select t.price as a, b.price as b from Tick as t unidirectional, Bid#time(2 sec) as b where t.symbol = b.symbol",
    "select a.price as a, b.price as b from pattern [every a=Tick -> b=Bid(symbol = a.symbol)]",
    "select a.price as a, b.price as b, c.n as n from pattern [every a=Tick(price > 3) -> (b=Bid(symbol = a.symbol) and not Tick(symbol = a.symbol, price > 7)) -> c=Bid(a.symbol = symbol, n > b.n) where timer:within(2 sec)]",
    "select a.price as a from pattern [every a=Tick -> [2] b=Bid(symbol = a.symbol)]",
    "insert into Pairs select a.symbol as symbol, b.price as price from pattern [every a=Tick -> b=Bid(symbol = a.symbol)]; select symbol, sum(price) as s from Pairs#groupwin(symbol)#length(3) group by symbol",
    "on Tick insert into Low select symbol, price where price < 5 insert into High select symbol as s, price; select symbol, count(*) as n from Low#groupwin(symbol)#length(3) group by symbol",
    "update istream Tick set price = price + 1 where volume > 4; select symbol, sum(price) as s from Tick group by symbol",
    "select price, (select max(price) from Bid#time(2 sec) as b where b.symbol = t.symbol) as m from Tick as t",
    "select price, (select sum(price) from Bid#groupwin(symbol)#length(2) as b where b.symbol = t.symbol) as m from Tick as t",
    "select price from Tick as t where exists (select * from Bid#unique(symbol) as b where b.symbol = t.symbol and b.price > t.price)",
    "select price from Tick as t where price in (select price from Bid#keepall as b where b.symbol = t.symbol)",
    "select symbol, sum(price) as s, (select sum(price) from Bid#keepall as b where b.symbol = t.symbol) as m from Tick as t group by symbol",
)
STORES = (
    "create window W#keepall as Tick; insert into W select * from Tick; select symbol, sum(price) as s from W group by symbol",
    "create window W#keepall as Tick; insert into W select * from Tick; on Bid as b select w.price as p, b.price as q from W as w where w.symbol = b.symbol order by w.price",
    "create window W#unique(symbol) as Tick; insert into W select * from Tick; on Bid as b select sum(w.price) as p from W as w where w.symbol = b.symbol",
    "create window W#time(2 sec) as Tick; insert into W select * from Tick; on Bid(price > 3) as b delete from W as w where w.symbol = b.symbol; select irstream symbol, count(*) as n from W group by symbol",
    "create window W#groupwin(symbol)#length(2) as Tick; insert into W select * from Tick(price > 2); select b.price as p, w.price as q from Bid as b unidirectional, W as w where w.symbol = b.symbol",
    "create window W#keepall as (symbol string, total int); on Tick as t merge W as w where w.symbol = t.symbol when matched then update set total = w.total + t.price when not matched then insert select t.symbol as symbol, t.price as total; on Bid as b select w.total as t from W as w where w.symbol = b.symbol",
    "create window W#keepall as (symbol string, total int); on Tick as t merge W as w where w.symbol = t.symbol when matched and t.price > 7 then delete when matched then update set total = w.total + t.price when not matched then insert select t.symbol as symbol, t.price as total; select (select total from W as w where w.symbol = b.symbol) as t from Bid as b",
    "create window W#keepall as Tick; insert into W select * from Tick; create index I on W(symbol); on Bid as b update W as w set price = b.price where w.symbol = b.symbol; select price, (select max(price) from W as w where w.symbol = b.symbol) as m from Bid as b",
    "create window W#keepall as Tick; insert into W select * from Tick; create unique index I on W(symbol, volume); on Bid as b select w.price as p from W as w where w.symbol = b.symbol",
    "create table T(symbol string primary key, n count(*), s sum(int)); into table T select count(*) as n, sum(price) as s from Tick group by symbol; select T[symbol].n as n, T[symbol].s as s from Bid",
    "create table T(symbol string primary key, venue string primary key, n count(*)); into table T select count(*) as n from Tick#groupwin(symbol)#length(3) group by symbol, venue; on Bid as b select t.venue as v, t.n as n from T as t where t.symbol = b.symbol",
    "create table T(symbol string primary key, total int); on Tick as t merge T as w where w.symbol = t.symbol when matched then update set total = w.total + t.price when not matched then insert select t.symbol as symbol, t.price as total; select b.price as p, t.total as t from Bid as b unidirectional, T as t where t.symbol = b.symbol",
    "create table T(symbol string primary key, n count(*)); into table T select count(*) as n from Tick group by symbol; on Bid(price > 5) as b delete from T as t where t.symbol = b.symbol; select T[symbol].n as n from Bid",
)
# Rows that may go to partitions of other keys, or to all of them
INSERTED_ELSEWHERE = tuple(
    f"context {c} create window W#keepall as {of}; context {c} insert into W select {columns} from Tick;"
    f" context {c} select irstream symbol, sum(price) as s from W group by symbol"
    for c in ("P", "Hashed", "Sessions", "Spans")
    for of, columns in (
        ("(symbol string, price int)", "symbol, price"),
        ("Tick", "venue as symbol, symbol as venue, price, volume, ts"),
    )
)
SLICES = (
    "select irstream symbol, price from Tick#time(2 sec)",
    "select irstream count(*) as n, sum(price) as s, min(price) as lo, max(volume) as hi, avg(price) as a from Tick#time(3 sec)",
    "select price, count(*) as n from Tick(price > 2)#time(1 sec) having count(*) > 1",
    "select irstream price from Tick#length(4)",
    "select irstream sum(price) as s, first(volume) as f, last(volume) as l, window(price) as w from Tick(price > 3)#length(3)",
    "select price, prior(2, volume) as p from Tick(volume > 2)",
    "select irstream price, prior(2, volume) as p from Tick(volume > 2)#time(300 msec)",
    "select irstream price, prior(1, volume) as p, prior(3, price) as q from Tick#length(2)",
    "select irstream price from Tick#time_batch(2 sec, 0L)",
    "select irstream count(*) as n, sum(price) as s from Tick#time_batch(2 sec, 500L)",
    "select price * 2 as p, count(*) as n from Tick#time(2 sec) group by price * 2",
    "select irstream distinct price from Tick#time(2 sec) order by price limit 2",
    "select irstream t.price as a, b.price as b from Tick#time(2 sec) as t, Bid#time(1 sec) as b where t.price = b.price + 1 or t.volume = b.n",
    "select irstream t.price as a, b.price as b from Tick#length(2) as t full outer join Bid#time(1 sec) as b on t.price = b.n and t.volume = b.price where t.price > 2 or b.price > 3",
    "select price, (select max(price) from Bid#time(2 sec)) as m from Tick",
    "select price, (select count(*) from Bid#length(3)) as m from Tick where exists (select * from Tick#time(1 sec) as o where o.price > 5)",
    "select a.price as a, b.price as b from pattern [every a=Tick(price > 4) -> b=Bid(price > a.price) where timer:within(2 sec)]",
    "select a.price as a from pattern [every a=Tick(price > 3) -> (timer:interval(2 sec) and not Bid(symbol = a.symbol))]",
    "select a.price as a from pattern [every a=Tick(price > 3) -> timer:interval(1 sec) -> (timer:interval(2 sec) and not Bid(price > 4))]",
    "select a.price as a, b.price as b from pattern [every a=Tick -> ((b=Bid(price > 4) where timer:within(1 sec)) or timer:interval(2 sec))]",
    "insert into Calm select a.symbol as symbol, a.price as price from pattern [every a=Tick(price > 3) -> (timer:interval(1 sec) and not Bid)]; select irstream symbol, count(*) as n from Calm#time(2 sec)",
    "insert into Many select count(*) as n from Tick#time(2 sec); select max(n) as m, count(*) as c from Many#time(1 sec)",
    "select rstream price from Tick#time(2 sec)",
    "select irstream symbol, price, prev(1, price) as p from Tick#time(2 sec)",
    "select irstream symbol, sum(volume) as s, count(*) as n from Tick#ext_timed(ts, 2 sec) group by symbol",
    "select irstream price, prev(1, price) as p from Tick(price > 2)#ext_timed(ts, 1 sec)",
    "select irstream price from Tick#ext_timed_batch(ts, 2 sec, 0L)",
    "select irstream sum(volume) as s, count(*) as n from Tick(volume > 4)#ext_timed_batch(ts, 1 sec, 700L)",
    "select price, (select max(volume) from Tick#ext_timed(ts, 2 sec)) as m from Bid",
)
EXPECTED = {
    **dict.fromkeys((*IN_CONTEXTS, *KEYED, *STORES), "by key"),
    **dict.fromkeys(SLICES, "by time slice"),
    **dict.fromkeys(INSERTED_ELSEWHERE, "ordered"),
    **{epl: "ordered" for epl in IN_CONTEXTS if epl.startswith(("context Cats create", "context Cheap create"))},
}


def history(rng: random.Random, events: int) -> list[tuple[str, int, dict[str, Any]]]:
    """Events of three types; many of one time, sometimes none for long."""
    time, found = 0, []
    for _ in range(events):
        time += rng.choices((0, rng.randrange(1, 400), 1000, 6000), (4, 5, 1, 0.3))[0]
        symbol = rng.choice(("A", "B", "C", "DD", "E", None))
        name = rng.choice(("Tick", "Tick", "Bid", "BigBid"))
        event: dict[str, Any] = {"symbol": symbol, "price": rng.randrange(10)}
        if name == "Tick":
            event |= {"venue": rng.choice("XY"), "volume": rng.randrange(10), "ts": time}
        else:
            event |= {"account": rng.choice("ab"), "n": rng.randrange(10)}
        if name == "BigBid":
            event["more"] = rng.randrange(3)
        found.append((name, time, event))
    return found


def replayed(epl: str, events: list[tuple[str, int, dict[str, Any]]], until: int) -> Recorded:
    engine = Recorded(0, {})
    engine.runtime.add_error_listener(lambda error: None)  # as in tasks, failures end nothing
    engine.deploy(SCHEMA + epl, "module")
    for name, time, event in events:
        if time > engine.runtime.now:
            engine.advance(time, stepping=False)
        engine.send(name, event)
    engine.advance(until, stepping=False)
    return engine


@pytest.mark.parametrize("epl", EXPECTED)
def test_tasks_deliver_what_the_kernel_does(epl: str) -> None:
    paths: Counter[str] = Counter()
    for seed in range(HISTORIES):
        events = history(random.Random(f"{epl} {seed}"), 60)
        engine = replayed(epl, events, events[-1][1] + 2500)
        wrong, ran = differences(engine, only={[*engine.rows][-1]})
        assert not wrong, (seed, wrong)
        paths += ran
    assert paths[EXPECTED[epl]] == HISTORIES, paths


def test_statements_of_several_cells_may_be_called_alike() -> None:
    """What has no name has its number in its cell: an expression and a context are both `stmt_1`."""
    cells = (
        SCHEMA,
        "create expression twice {t => t.price * 2}",
        "create context Own group price < 5 as low, group price > 3 as high from Tick",
        "context Own select context.label as label, twice(t) as p, count(*) as n from Tick as t",
    )
    engine = Recorded(0, {})
    for number, text in enumerate(cells):
        engine.deploy(text, f"cell {number}")
    for name, time, event in history(random.Random(5), 60):
        if time > engine.runtime.now:
            engine.advance(time, stepping=False)
        engine.send(name, event)
    wrong, ran = differences(engine, only={[*engine.rows][-1]})
    assert not wrong and ran["by key"]
