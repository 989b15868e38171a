"""Random joins over named windows and tables against nested loops, step by step.

The reference is that of joins over streams. It reads the rows of the tables, and those of a subquery, when a
combination enters or leaves. Windows over time are left out, as several may expire with one step of the clock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from cepbook.engine.delivery.delta import Delta
from cepbook.engine.runtime import Runtime
from tests.engine.joins.test_histories import SCHEMA, Join, Windows, drawn, expected
from tests.random_cases import seeds

STORES = """
insert into W select * from D;
create table T(i int primary key, k string, x int);
insert into T select k, x, i from E;
on F(x > 0) delete from T as t where t.x = F.x;
on F(x < 1) as f update T as t set x = t.x + 1 where t.k = f.k;
create window V#keepall as D;
insert into V select * from G;
on H(x > 0) as h update W as w set x = h.x, i = w.i + 100 where w.k = h.k;
on H(x < 1) as h delete from W as w where w.x >= h.x;
"""
INDEXES = ("", "", "create index I on W(k);", "create index I on T(x);", "create index I on W(x btree);")
Event = dict[str, Any]


def drawn_join(draw: Random) -> Join:
    """Some of the streams are the named window or the table."""
    while True:
        join = drawn(draw)
        types = [draw.choice((of, of, "W", "T")) for of in join.types]
        windows = tuple("length(2)" if window.startswith("time") else window for window in join.windows)
        stored = {"W", "T"} & {*types}
        if stored and {*types} != {"T"} and join.unidirectional is None and not join.is_refused:
            return replace(join, types=tuple(types), windows=windows)


class JoinedRows(Windows):
    """The rows of the streams and the named window, from statements of their own; those of the table by a query."""

    def __init__(self, join: Join, runtime: Runtime) -> None:
        self.contents: list[list[Event]] = [[] for _ in join.types]
        self.known: dict[tuple[int, int], Event] = {}
        self.reset()
        for number, of in enumerate(join.types):
            if of != "T":
                stream = "W" if of == "W" else f"{of}#{join.windows[number]}"
                runtime.deploy(f"@name('w{number}') select irstream * from {stream}")
                runtime.statement(f"w{number}").add_listener(self._listener(number))

    def read(self, join: Join, table: list[Event]) -> None:
        for number, of in enumerate(join.types):
            if of == "T":
                self.contents[number] = list(table)
            moved = [event for side in self.moved[number] for event in side]
            self.known.update({(number, event["i"]): event for event in (*moved, *self.contents[number])})


def subquery_holds(join: Join, seen: JoinedRows, ids: tuple[int | None, ...], rows: list[Event]) -> bool:
    """``exists (select * from V as v where v.x = s0.x)``"""
    event = None if ids[0] is None else seen.known[0, ids[0]]
    return event is not None and event["x"] is not None and any(row["x"] == event["x"] for row in rows)


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(40))
def test_joins_with_stores_against_nested_loops(seed: int) -> None:
    draw = Random(seed)
    join, asks = drawn_join(draw), draw.random() < 0.4
    text = join.text
    for number, of in enumerate(join.types):
        if of in "WT":
            text = text.replace(f"{of}#{join.windows[number]} as s{number}", f"{of} as s{number}")
    if asks:
        text += f" {'and' if join.where else 'where'} exists (select * from V as v where v.x = s0.x)"
    runtime = Runtime()
    runtime.deploy(SCHEMA + "".join(f"create schema {name}(k string, x int, i int);" for name in "DEFGH"))
    window = draw.choice(("keepall", "length(3)", "unique(k)"))
    runtime.deploy(f"create window W#{window} as D;{STORES}{draw.choice(INDEXES)}")
    seen = JoinedRows(join, runtime)
    runtime.deploy(f"@name('join') {text}")
    deliveries: list[Delta] = []
    runtime.statement("join").add_listener(deliveries.append)
    for number in range(45):
        event = {"k": draw.choice(("a", "b", None)), "x": draw.choice((None, 0, 1, 2)), "i": number}
        of = draw.choice("ABCDDDEEFGH")
        runtime.send(of, dict(event))
        seen.read(join, runtime.query("select * from T"))
        rows = runtime.query("select * from V")
        sides = [
            Counter({ids: n for ids, n in side.items() if not asks or subquery_holds(join, seen, ids, rows)})
            for side in expected(join, seen)
        ]
        assert len(deliveries) <= 1, f"{text}\none delivery for each stimulus"
        delta = deliveries.pop() if deliveries else Delta(0, None, None)
        found = [Counter(tuple(row.values()) for row in side or ()) for side in (delta.insert, delta.remove)]
        assert found == sides, f"{text}\n{window}, step {number}: {of} {event}"
