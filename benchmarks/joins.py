"""Does the cost of an event grow with what is joined or stored, and how far is it from code by hand?

Joins: an equality join of two windows that hold so many rows that each event finds one partner; a join by a range that
finds three; and, beside the first, a dict of lists kept by hand: the same windows, the same rows delivered to a
function. Each row fills the windows, then sends events to both sides in turn, and takes CPU time per event. Both grow
with the memory that they touch: `/ 100` is how much the join does, `hand / 100` how much the dict of lists does.

Stores: an on-merge into a named window by key, an update of a table by key, correlated subqueries over a named window
and a table, beside a dict by hand; and `into table` with three aggregates beside `group by` of the same. Memory: bytes
per row of a named window with 0, 1 and 3 indexes, and after the readers that wanted these were undeployed.

Beside the stores stand dicts by hand, and how much each costs of what it costs with 100 rows: what both grow by is the
memory that is touched. Replays: joins, subqueries, stores and contexts over slices, beside the same events sent one by
one, and how the component takes them: each statement on its own, or all of them together (merged).

    python benchmarks/joins.py [--most 100000] [--stored 1000000] [--only joins,stores,aggregates,memory,replay]
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import tracemalloc
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch

SCHEMA = "create schema L(k int, v double); create schema R(k int, w double);"
EVENTS = 20_000
Event = dict[str, Any]
Send = Callable[[str, Event], object]


class Rows:
    """A sink that only counts rows; by hand it is given tuples, by the engine what they consist of."""

    def __init__(self) -> None:
        self.count = 0
        self._width = 1

    def describe(self, columns: Any, fresh: Any) -> None:
        self._width = 2 + (1 if columns is None else len(columns))

    def one(self, record: Any) -> None:
        self.count += 1

    def extend(self, records: Any) -> None:
        self.count += len(records) // self._width


def engine(epl: str) -> tuple[Send, Rows]:
    runtime, rows = Runtime(), Rows()
    runtime.deploy(SCHEMA + f"@name('s') {epl}")
    runtime.statement("s").add_sink(rows)
    return runtime.send, rows


def equality(size: int) -> tuple[Send, Rows]:
    return engine(f"select l.k as k, v, w from L#length({size}) as l, R#length({size}) as r where l.k = r.k")


def by_range(size: int) -> tuple[Send, Rows]:
    where = "r.k between l.k - 1 and l.k + 1"
    return engine(f"select l.k as k, v, w from L#length({size}) as l, R#length({size}) as r where {where}")


def by_hand(size: int) -> tuple[Send, Rows]:
    """A dict of lists for each side."""
    rows = Rows()
    held: dict[str, tuple[deque[Event], dict[int, list[Event]]]] = {"L": (deque(), {}), "R": (deque(), {})}

    def send(name: str, event: Event) -> None:
        queue, by_key = held[name]
        queue.append(event)
        by_key.setdefault(event["k"], []).append(event)
        if len(queue) > size:
            oldest = queue.popleft()
            same = by_key[oldest["k"]]
            same.remove(oldest)
            if not same:
                del by_key[oldest["k"]]
        other = held["R" if name == "L" else "L"][1]
        found = []
        for partner in other.get(event["k"], ()):
            one, two = (event, partner) if name == "L" else (partner, event)
            found.append((1, 0, one["k"], one["v"], two["w"]))
        if found:
            rows.extend(found)

    return send, rows


def measured(make: Callable[[int], tuple[Send, Rows]], size: int) -> tuple[float, float]:
    """CPU nanoseconds per event, and rows per event, with windows that are full."""
    draw = random.Random(1)
    send, rows = make(size)
    events = [("L", {"k": draw.randrange(size), "v": 1.0}) for _ in range(size + EVENTS)]
    others = [("R", {"k": draw.randrange(size), "w": 2.0}) for _ in range(size + EVENTS)]
    both = [each for pair in zip(events, others, strict=True) for each in pair]
    for name, event in both[: 2 * size]:
        send(name, event)
    gc.collect()
    before, begin = rows.count, time.process_time()
    for name, event in both[2 * size :]:
        send(name, event)
    spent = time.process_time() - begin
    count = len(both) - 2 * size
    return spent / count * 1e9, (rows.count - before) / count


# ------------------------------------------------------------------ stores
STORED = SCHEMA + "create schema E(k int, v double);"
WINDOW = "create window W#keepall as L; insert into W select * from L;"
TABLE = "create table T(k int primary key, v double); on L as e merge T as t where t.k = e.k when not matched then"
TABLE += " insert select k, v when matched then update set v = e.v;"
TASKS = {
    "merge window": WINDOW
    + "@name('s') on E as e merge W as w where w.k = e.k when matched then update set v = e.v"
    + " when not matched then insert select k, v;",
    "merge table": TABLE + "@name('s') on E as e merge T as t where t.k = e.k when matched then update set t.v = e.v;",
    "subquery window": WINDOW + "@name('s') select (select v from W as w where w.k = e.k) as v from E as e;",
    "subquery sum": WINDOW + "@name('s') select (select sum(v) from W as w where w.k = e.k) as v from E as e;",
    "subquery table": TABLE + "@name('s') select (select v from T as t where t.k = e.k) as v from E as e;",
    "join window": WINDOW + "@name('s') select w.v as v from E as e unidirectional, W as w where w.k = e.k;",
    "join table": TABLE + "@name('s') select t.v as v from E as e unidirectional, T as t where t.k = e.k;",
}


def stored(epl: str, size: int) -> tuple[Send, Rows]:
    """The engine with `size` rows in its store."""
    runtime, rows = Runtime(), Rows()
    runtime.deploy(STORED + epl)
    runtime.statement("s").add_sink(rows)
    for key in range(size):
        runtime.send("L", {"k": key, "v": 1.0})
    return runtime.send, rows


def stored_by_hand(size: int) -> tuple[Send, Rows]:
    """A dict of rows, read and replaced."""
    rows, held = Rows(), {key: {"k": key, "v": 1.0} for key in range(size)}

    def send(name: str, event: Event) -> None:
        found = held.get(event["k"])
        if found is not None:
            made = {**found, "v": event["v"]}
            held[event["k"]] = made
            rows.extend([(1, 0, made["v"])])

    return send, rows


def per_event(send: Send, size: int, count: int = EVENTS) -> float:
    """CPU nanoseconds per event ``E``, with keys that are there, the best of three."""
    draw, best = random.Random(2), float("inf")
    for _ in range(3):
        events = [{"k": draw.randrange(size), "v": 3.0} for _ in range(count)]
        gc.collect()
        begin = time.process_time()
        for event in events:
            send("E", event)
        best = min(best, (time.process_time() - begin) / count * 1e9)
    return best


def show_stores(most: int) -> None:
    print(f"\n{'store':16}{'rows held':>12}{'ns/event':>12}{'/ 100':>8}{'hand / 100':>12}{'/ hand':>8}")
    for name, epl in TASKS.items():
        first = first_by_hand = 0.0
        for size in (100, 10_000, most):
            send, _ = stored(epl, size)
            cost = per_event(send, size)
            del send
            hand = per_event(stored_by_hand(size)[0], size)
            first, first_by_hand = first or cost, first_by_hand or hand
            shown = f"{cost / first:>8.2f}{hand / first_by_hand:>12.2f}{cost / hand:>8.2f}"
            print(f"{name:16}{size:>12,}{cost:>12,.0f}{shown}")


AGGREGATES = "count(*) as n, sum(v) as s, avg(v) as a"
INTO = "create table A(k int primary key, n count(*), s sum(double), a avg(double));"


def show_aggregates(groups: int = 1000) -> None:
    by_group, _ = stored(f"@name('s') select k, {AGGREGATES} from E group by k;", 0)
    into, _ = stored(f"{INTO} @name('s') into table A select {AGGREGATES} from E group by k;", 0)
    one, two = per_event(by_group, groups), per_event(into, groups)
    print(f"\n{'aggregates':16}{'ns/event':>12}")
    print(f"{'group by':16}{one:>12,.0f}\n{'into table':16}{two:>12,.0f}   {two / one:.2f} times group by")


WANTING = {
    "no index": (),
    "1 index": ("w.k = e.k",),
    "3 indexes": ("w.k = e.k", "w.v = e.v", "w.k = e.k and w.v = e.v"),
}


def show_memory(size: int = 100_000) -> None:
    print(f"\n{'memory':16}{'bytes/row':>12}{'undeployed':>12}")
    for name, conditions in WANTING.items():
        runtime = Runtime()
        runtime.deploy(STORED + WINDOW)
        tracemalloc.start()
        for condition in conditions:
            query = f"on E as e select w.k as k from W as w where {condition}"
            runtime.deploy(query, deployment_id=condition)
        for key in range(size):
            runtime.send("L", {"k": key + 1000, "v": float(key)})
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] / size
        for condition in conditions:
            runtime.undeploy(condition)
        gc.collect()
        left = tracemalloc.get_traced_memory()[0] / size
        tracemalloc.stop()
        print(f"{name:16}{held:>12,.0f}{left:>12,.0f}")


KEYED = "create context C partition by k from L, k from R; context C "
MODULES = {
    "join": "select l.k as k, v, w from L#length(100) as l, R#length(100) as r where l.k = r.k;",
    "self join": "select a.k as k, b.v as v from L#length(100) as a, L#lastevent as b where a.k = b.k;",
    "grouped join": "select l.k as k, sum(w) as s from L#length(100) as l, R#length(100) as r where l.k = r.k"
    " group by l.k;",
    "subquery": "select v, (select sum(w) from R#length(100) as r where r.k = l.k) as s from L as l;",
    "join and 3 more": "insert into J select l.k as k, v, w from L#length(100) as l, R#length(100) as r"
    " where l.k = r.k; select k, sum(v) as s from J group by k; select k, avg(v) as a from L#length(50) group by k;"
    "select max(w) as m from R#time(10 msec);",
    "into table": f"{INTO} into table A select {AGGREGATES} from L group by k;",
    "keyed join": f"{KEYED} select l.k as k, v, w from L#length(3) as l, R#length(3) as r;",
    "keyed subquery": f"{KEYED} select v, (select sum(w) from R#length(3) as r where r.w >= l.v) as s from L as l;",
    "stores": "create window W#length(1000) as (k int, v double); insert into W select k, v from L;"
    "create table T(k int primary key, v double); on L as e merge T as t where t.k = e.k"
    " when matched then update set v = t.v + e.v when not matched then insert select k, v;"
    "select r.w as w, t.v as v from R as r unidirectional, T as t where t.k = r.k;"
    "select w, (select sum(v) from W as x where x.k = r.k) as s from R as r;",
}


def replayed(epl: str, singly: bool, count: int = 2 * EVENTS) -> tuple[float, bool]:
    """CPU nanoseconds per event, of two streams in turn at random: over slices, or sent one by one; whether merged."""
    runtime, draw = Runtime(), random.Random(3)
    runtime.deploy(SCHEMA + STORED.removeprefix(SCHEMA) + epl)
    for statement in runtime.statements.values():
        statement.add_sink(Rows())
    batch = runtime.batch(["L", "R"])
    send, merged = {name: runtime.sender(name) for name in "LR"}, bool(batch.merged)
    of: dict[str, list[tuple[int, int]]] = {"L": [], "R": []}
    for place in range(count):
        of[draw.choice("LR")].append((place, draw.randrange(100)))
    slices = [
        ColumnBatch(
            name, [p // 10 for p, _ in own], {"k": [k for _, k in own], value: [1.0] * len(own)}, [p for p, _ in own]
        )
        for (name, own), value in zip(of.items(), "vw", strict=True)
    ]
    gc.collect()
    begin = time.process_time()
    if singly:  # as somebody does who has rows of values
        rows = [(p, t, s.type, tuple(s.columns), v) for s in slices for p, t, v in s.rows()]
        rows.sort(key=itemgetter(0))
        for _, now, name, names, values in rows:
            if now > runtime.now:
                runtime.advance(now)
            send[name](dict(zip(names, values, strict=True)))
    else:
        batch.run(slices)
    return (time.process_time() - begin) / count * 1e9, merged


def show_replays() -> None:
    print(f"\n{'replay':16}{'one by one':>12}{'slices':>12}{'times':>8}")
    for name, epl in MODULES.items():
        (one, merged), (two, _) = (min(replayed(epl, singly) for _ in range(5)) for singly in (True, False))
        print(f"{name:16}{one:>12,.0f}{two:>12,.0f}{one / two:>8.2f}{'  merged' * merged}")


def show_joins(most: int) -> None:
    print(f"{'join':16}{'rows held':>12}{'ns/event':>12}{'rows/event':>12}{'/ 100':>8}{'hand / 100':>12}{'/ hand':>8}")
    for name, make in (("equality", equality), ("range", by_range)):
        first = first_by_hand = 0.0
        for size in (100, 1_000, 10_000, most):
            hand = min(measured(by_hand, size)[0] for _ in range(3))
            cost, rows = min(measured(make, size) for _ in range(3))
            first, first_by_hand = first or cost, first_by_hand or hand
            shown = f"{cost / first:>8.2f}{hand / first_by_hand:>12.2f}{cost / hand:>8.2f}"
            print(f"{name:16}{size:>12,}{cost:>12,.0f}{rows:>12.2f}{shown}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--most", type=int, default=100_000)
    options.add_argument("--stored", type=int, default=1_000_000)
    options.add_argument("--only", default="joins,stores,aggregates,memory,replay")
    given = options.parse_args()
    shows: dict[str, Callable[[], None]] = {
        "joins": lambda: show_joins(given.most),
        "stores": lambda: show_stores(given.stored),
        "aggregates": show_aggregates,
        "memory": show_memory,
        "replay": show_replays,
    }
    for name in given.only.split(","):
        shows[name]()


if __name__ == "__main__":
    main()
