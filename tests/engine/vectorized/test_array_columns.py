"""Columns as arrays tell what Python tells, or nothing; and values are made of those events alone that pass."""

from __future__ import annotations

import math
import operator
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepbook import Workbench
from cepbook.engine.subscriptions.filter_index import IndexCondition
from cepbook.engine.vectorized.array_columns import ArrayColumns, ComputedColumn, NumberColumn, TextColumn
from cepbook.engine.vectorized.column_batch import ColumnBatch, FilterMask
from cepbook.errors import StatementError
from tests.engine.histories import array_of

OPERATORS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
SCHEMA = "create schema Tick(ts long, symbol string, price double, volume long, up boolean);"
whole = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1])
floats = st.floats() | st.sampled_from([0.0, -0.0, 2.0**53, math.inf, -math.inf, 1.5]) | st.integers(-3, 3).map(float)
constants = whole | floats.filter(lambda v: v == v) | st.booleans() | st.sampled_from(["a", "b", ""]) | st.just(10**30)
columns = st.one_of(
    st.lists(whole, min_size=1),
    st.lists(floats, min_size=1),
    st.lists(st.none() | floats.filter(lambda v: v == v), min_size=1),
    st.lists(st.booleans(), min_size=1),
    st.lists(st.none() | st.sampled_from(["a", "b", "", "c"]), min_size=1),
)


def meets(value: Any, condition: IndexCondition) -> bool:
    return value is not None and any(OPERATORS[condition.op](value, each) for each in condition.values)


@given(columns, st.sampled_from([*OPERATORS]), st.lists(constants, min_size=1, max_size=2), st.data())
def test_what_an_array_tells_is_what_python_tells(
    values: list[Any], op: str, wanted: list[Any], data: st.DataObject
) -> None:
    condition = IndexCondition("x", op, tuple(wanted[:1] if op != "=" else wanted))
    column = array_of(values)
    places = data.draw(st.lists(st.integers(0, len(values) - 1), unique=True).map(sorted))
    for part, own in (
        (slice(0, len(values)), values),
        (slice(1, None), values[1:]),
        (np.array(places, int), [values[at] for at in places]),
    ):
        same = [a is b or a == b or (a != a and b != b) for a, b in zip(column.take(part), own, strict=True)]
        assert all(same)
        told = column.meets(part, condition)
        if told is not None:
            assert told.tolist() == [meets(value, condition) for value in own]


@pytest.mark.parametrize(
    ("column", "value", "tells"),
    [
        (NumberColumn(np.array([1, 2])), 2, True),
        (
            NumberColumn(np.array([1, 2])),
            2.5,
            False,
        ),  # would be compared as floats, which do not hold all whole numbers
        (NumberColumn(np.array([1, 2])), 2**70, False),
        (NumberColumn(np.array([1.0, 2.0])), 2**53, True),
        (NumberColumn(np.array([1.0, 2.0])), 2**53 + 1, False),
        (NumberColumn(np.array([True])), 1, False),
        (TextColumn(np.array([0]), np.array(["a", None], object)), "b", True),
        (ComputedColumn(lambda part: [1]), 1, False),
    ],
)
def test_which_comparisons_arrays_tell_of(column: Any, value: Any, tells: bool) -> None:
    assert (column.meets(slice(0, 1), IndexCondition("x", "=", (value,))) is not None) == tells


def asked(ways: list[list[IndexCondition]]) -> FilterMask | None:
    values = {
        "a": NumberColumn(np.array([1, 5, 7, 9])),
        "b": ComputedColumn(lambda part: np.array([4, 3, 2, 1])[part].tolist()),
    }
    return ArrayColumns(values, values.__getitem__, values["a"], slice(0, 4)).passing(ways)


def test_one_of_several_ways_is_enough() -> None:
    low, high, unknown = IndexCondition("a", "<", (2,)), IndexCondition("a", ">", (6,)), IndexCondition("b", "=", (2,))
    told = asked([[low], [high]])
    assert told is not None and told.exact
    assert (told.flags, [*told.places], told.times) == (b"\1\0\1\1", [0, 2, 3], [1, 7, 9])
    assert dict(told.columns) == {"a": [1, 7, 9], "b": [4, 2, 1]}
    again = told.columns.passing([[high, unknown]])
    assert again is not None and not again.exact and again.columns["b"] == [2, 1] and [*again.places] == [1, 2]
    assert asked([[low], [unknown]]) is None
    nothing = asked([[IndexCondition("a", "=", (2,))]])
    assert nothing is not None and (nothing.times, nothing.columns["b"]) == ([], [])


@pytest.mark.parametrize(
    "epl",
    [
        "select ts, symbol, price from Tick(price > 90)",
        "select symbol, price * 2 as p from Tick(symbol in ('A', 'B'), price < 10, up = true)",
        "select symbol, avg(price) as p from Tick(volume >= 5)#length(3) group by symbol",
        "select * from pattern [every a=Tick(price > 95) -> b=Tick(price < 5, symbol = a.symbol)]",
        "select price from Tick(price > 50 and halved(volume) > 2)",
        "select price from Tick(halved(volume) > 2 and price > 50)",
        "select a.price as p, b.price as q from Tick(price > 60)#time(20 msec) as a, Tick(price < 40)#length(9) as b"
        " where a.symbol = b.symbol",
        "select a.price as p, b.symbol as q from Tick(price > 60)#lastevent as a"
        " left outer join Tick(symbol = 'A', halved(volume) > 2)#length(3) as b on a.symbol = b.symbol",
        "context Each select a.price as p, b.price as q from Tick(price > 60)#time(20 msec) as a,"
        " Tick(up = true)#length(2) as b",
        "select price, (select max(volume) from Tick(price < 20)#length(3)) as v from Tick(price > 80)",
        "select price from Tick(price > 50) where exists (select * from Tick(price < 2)#time(50 msec))",
        "select price, (select count(*) from Tick#length(3)) as n from Tick(price > 80)",
    ],
)
def test_a_replayed_frame_gives_what_its_events_give(epl: str) -> None:
    rng = np.random.default_rng(4)
    prices = np.round(rng.random(500) * 100, 1)
    prices[::7] = np.nan
    frame = pd.DataFrame(
        {
            "ts": np.cumsum(rng.integers(0, 2, 500)),
            "symbol": pd.Series([*"ABCD"], dtype="str").take(rng.integers(0, 4, 500)).reset_index(drop=True),
            "price": prices,
            "volume": rng.integers(0, 10, 500),
            "up": rng.random(500) > 0.5,
        }
    )

    def halved(x: int) -> int:
        return 30 // (x - 3)  # fails, sometimes

    def bench() -> Workbench:
        made = Workbench()
        made.register_function("halved", halved, returns="long")
        made.run(f"{SCHEMA} create context Each partition by symbol from Tick; @name('q') {epl}")
        return made

    one, other = bench(), bench()
    for row in frame.to_dict("records"):
        row["price"] = None if row["price"] != row["price"] else row["price"]
        one.advance(to=row["ts"]) if row["ts"] > one.runtime.now else None
        with suppress(StatementError):
            one.send("Tick", row)
    other.replay(frame, type="Tick", time="ts", errors="keep").run()
    assert one.changes("q").equals(other.changes("q")) and len(one.changes("q"))
    assert len(one.errors) == len(other.errors)
    assert bool(one.errors) == ("halved" in epl)


@pytest.mark.parametrize(
    ("epl", "shown"),
    [
        ("select symbol, price from Tick(price > 97.5)", [98.0, 99.0]),
        (
            "select b.price as price from Tick(price > 97.5)#lastevent as a, Tick(price = 99)#lastevent as b",
            [99.0],
        ),
        ("select price, (select max(price) from Tick(price = 98)#lastevent) as p from Tick(price = 99)", [99.0]),
    ],
)
def test_values_are_made_of_the_events_that_pass_alone(epl: str, shown: list[float]) -> None:
    made: list[int] = []

    class Counted(NumberColumn):
        def take(self, part: Any) -> list[Any]:
            found = super().take(part)
            made.append(len(found))
            return found

    bench = Workbench()
    bench.run(f"{SCHEMA} @name('q') {epl}")
    prices = np.arange(100.0)
    others = dict.fromkeys(
        ("symbol", "ts", "volume", "up"), ComputedColumn(lambda part: [str(v) for v in prices[part]])
    )
    columns = {"price": Counted(prices), **others}
    batch = bench.runtime.batch(["Tick"])
    given = ArrayColumns(batch.columns["Tick"], columns.__getitem__, NumberColumn(np.arange(100)), slice(0, 100))
    batch.run([ColumnBatch("Tick", [*range(100)], given)])
    assert made == [2]
    assert bench.changes("q")["price"].tolist() == shown


@given(columns, st.data())
def test_distinct_values_are_those_of_the_column(values: list[Any], data: st.DataObject) -> None:
    places = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), unique=True).map(sorted)), int)
    for part, own in ((slice(1, None), values[1:]), (places, [values[at] for at in places])):
        batch = ArrayColumns(["x"], {"x": array_of(values)}.__getitem__, array_of([0] * len(values)), part)
        coded = batch.coded("x")
        if coded is None:
            assert {float, bool, type(None)} & set(map(type, values)) or not own
        else:
            assert [*coded] == [coded[at] for at in range(len(coded))] == own
            assert len(set(coded.values)) == len(set(own)) == len(coded.values)
