"""Tables that several statements fill, and queries over named windows whose rows change, in random histories.

The reference keeps lists of events and computes each answer from all of them; sent, and replayed in arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pytest

from cepbook.engine.runtime import Runtime
from tests.engine.histories import Event, feed, record
from tests.random_cases import seeds

Values = dict[str, Any]
Rows = list[tuple[Any, ...]]
SCHEMA = "".join(f"create schema {name}(n int, k string, x int);" for name in "ABCD")
WINDOWS = ("#keepall", "#length(2)", "#length(4)", "#time(2 sec)")
READERS = """
@name('row') select e.n as n, T[k].s as s, T[k].c as c, T[k].d as d from C(k is not null) as e;
@name('all') select e.n as n, (select sum(s) from T) as s, (select max(c) from T where T.k <= e.k) as m,
    (select count(*) from T where T.c > e.x) as p from C as e;
@name('on') on C as e select e.n as n, T.k as k, T.s as s, T.d as d from T where T.c >= e.x;
"""
Change = Callable[[Values, Values], Values | None]  # (row, event): the new row, None if it is deleted
CHANGES: dict[str, tuple[Callable[[Values, Values], bool], Change]] = {
    "on D as d delete from W as w where w.k = d.k": (
        lambda w, d: w["k"] is not None and w["k"] == d["k"],
        lambda w, d: None,
    ),
    "on D as d delete from W as w where w.x between d.x and d.x + 1": (
        lambda w, d: None not in (w["x"], d["x"]) and d["x"] <= w["x"] <= d["x"] + 1,
        lambda w, d: None,
    ),
    "on D as d update W as w set x = w.x + 1 where w.k = d.k and w.x >= d.x": (
        lambda w, d: None not in (w["k"], w["x"], d["x"]) and w["k"] == d["k"] and w["x"] >= d["x"],
        lambda w, d: {**w, "x": w["x"] + 1},
    ),
    "on D as d merge W as w where w.x = d.x when matched and w.k = 'a' then delete"
    " when matched then update set x = 3 where w.k = 'b'": (
        lambda w, d: w["x"] is not None and w["x"] == d["x"] and w["k"] in ("a", "b"),
        lambda w, d: None if w["k"] == "a" else {**w, "x": 3},
    ),
}


class Module(NamedTuple):
    windows: tuple[str, str, str]  # of the table's two statements, of the named window
    shared: bool  # both statements fill the column `c`
    change: str
    index: str

    @property
    def epl(self) -> str:
        of_a, of_b, stored = self.windows
        second = "count(*) as c, count(*) as d" if self.shared else "count(*) as d"
        return f"""{SCHEMA}
            create table T(k string primary key, s sum(int), c count(*), m max(int), d count(*));
            into table T select sum(x) as s, count(*) as c, max(x) as m from A(k is not null){of_a} group by k;
            into table T select {second} from B(k is not null){of_b} group by k;{READERS}
            create window W{stored} as A; insert into W select * from A; {self.index} {self.change};
            @name('groups') select k, count(*) as c, sum(x) as s, max(x) as m from W(x > 0) group by k;
            @name('total') select count(*) as c, sum(x) as s from W where x != 2 having count(*) > 1;"""


def total(events: list[Values]) -> int | None:
    values = [e["x"] for e in events if e["x"] is not None]
    return sum(values) if values else None


class Model:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.rows: dict[str, list[Rows]] = {}
        self.now = 0
        self.events: dict[str, list[Values]] = {"A": [], "B": [], "W": []}
        self.keys: dict[str, None] = {}

    def insert(self, store: str, window: str, event: Values) -> list[Values]:
        """Return the events that leave."""
        kept = [*self.events[store], event]
        kept = kept[-int(window[8]) :] if window.startswith("#length") else kept
        left = [e for e in self.events[store] if all(e is not other for other in kept)]
        self.events[store] = kept
        return left

    def add(self, name: str, rows: Rows) -> None:
        if rows:
            self.rows.setdefault(name, []).append(sorted(rows, key=repr))

    def advance(self, now: int) -> None:
        for store, window in zip("ABW", self.module.windows, strict=True):
            while window.startswith("#time") and self.events[store] and self.events[store][0]["t"] + 2000 <= now:
                due = self.events[store][0]["t"]
                left = [e for e in self.events[store] if e["t"] == due]
                self.events[store] = [e for e in self.events[store] if e["t"] > due]
                if store == "W":
                    self.stored([], left)
        self.now = now

    def stored(self, entered: list[Values], left: list[Values]) -> None:
        """Rows entered the named window and left it."""
        present = self.events["W"]
        moved = [e for e in (*entered, *left) if e["x"] is not None and e["x"] > 0]
        groups = {e["k"]: [w for w in present if w["k"] == e["k"] and (w["x"] or 0) > 0] for e in moved}
        rows = [(k, len(own), total(own), max((w["x"] for w in own), default=None)) for k, own in groups.items()]
        self.add("groups", rows)
        seen = [w for w in present if w["x"] not in (None, 2)]
        if any(e["x"] not in (None, 2) for e in (*entered, *left)) and len(seen) > 1:
            self.add("total", [(len(seen), total(seen))])

    def send(self, event: Event) -> None:
        self.advance(event.time)
        values = {**event.values, "t": event.time}
        if event.type in "AB" and values["k"] is not None:
            self.keys[values["k"]] = None
            self.insert(event.type, self.module.windows["AB".index(event.type)], values)
        if event.type == "A":
            self.stored([values], self.insert("W", self.module.windows[2], values))
        elif event.type == "C":
            self.read(values)
        elif event.type == "D":
            matches, change = CHANGES[self.module.change]
            old = [w for w in self.events["W"] if matches(w, values)]
            new = [row for row in (change(w, values) for w in old) if row is not None]
            kept = [w for w in self.events["W"] if all(w is not other for other in old)]
            self.events["W"] = kept + [{**row, "t": event.time} for row in new]
            if old:
                self.stored(new, old)

    def read(self, c: Values) -> None:
        table = []
        for key in self.keys:
            a, b = ([e for e in self.events[name] if e["k"] == key] for name in "AB")
            table.append((key, total(a), len(a) + len(b) * self.module.shared, len(b)))
        if c["k"] is not None:
            own = [row[1:] for row in table if row[0] == c["k"]] or [(None, None, None)]
            self.add("row", [(c["n"], *own[0])])
        sums = [s for _, s, _, _ in table if s is not None]
        counts = [count for key, _, count, _ in table if c["k"] is not None and key <= c["k"]]
        above = sum(c["x"] is not None and count > c["x"] for _, _, count, _ in table)
        self.add("all", [(c["n"], sum(sums) if sums else None, max(counts, default=None), above)])
        found = [(c["n"], k, s, d) for k, s, count, d in table if c["x"] is not None and count >= c["x"]]
        self.add("on", found)


def history(draw: Random) -> list[Event]:
    time, events = 0, []
    gaps = draw.choice(((0, 0, 300, 1000), (0, 500, 2500), (0, 100)))
    for number in range(draw.choice((15, 40))):
        time += draw.choice(gaps)
        values = {"n": number, "k": draw.choice(("a", "b", "c", None)), "x": draw.choice((None, 0, 1, 2, 3))}
        events.append(Event(time, draw.choice("AAABCCDD"), values))
    return events


def delivered(module: Module, events: list[Event], *, replayed: bool) -> dict[str, list[Rows]]:
    runtime = Runtime()
    runtime.deploy(module.epl)
    recorded = {name: record(runtime, name) for name in ("row", "all", "on", "groups", "total")}
    feed(runtime, "ABCD", events, replayed=replayed)
    rows = {name: [sorted(inserted, key=repr) for _, inserted, _ in of] for name, of in recorded.items()}
    return {name: of for name, of in rows.items() if of}


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(80))
def test_aggregates_of_stores(seed: int) -> None:
    draw = Random(seed)
    windows = draw.choice(WINDOWS), draw.choice(["", *WINDOWS]), draw.choice(WINDOWS)
    index = draw.choice(("", "create index I on W(k);", "create index I on W(k, x);", "create index I on W(x btree);"))
    module = Module(windows, draw.random() < 0.4, draw.choice([*CHANGES]), index)
    events = history(draw)
    model = Model(module)
    for event in events:
        model.send(event)
    for replayed in (False, True):
        assert delivered(module, events, replayed=replayed) == model.rows, (module.epl, replayed)
