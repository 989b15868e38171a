"""Frames that hold the same or other rows in columns of any type: verdicts against rows that are counted in Python.

Needs no Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cepbook import Workbench
from cepbook.errors import UsageError
from cepbook.spark import compare
from tests.random_cases import seeds

BERLIN = ZoneInfo("Europe/Berlin")
Series = Callable[[list[Any]], "pd.Series[Any]"]
Event = tuple[int, str, tuple[Any, ...]]


def of(dtype: Any) -> Series:
    return lambda values: pd.Series(values, dtype=dtype)


def objects(convert: Callable[[Any], Any] = lambda value: value) -> Series:
    def series(values: list[Any]) -> pd.Series[Any]:
        column = np.empty(len(values), dtype=object)
        for place, value in enumerate(values):
            column[place] = None if value is None else convert(value)
        return pd.Series(column)

    return series


def dates(values: list[Any]) -> pd.Series[Any]:
    return pd.Series([None if v is None else v.replace(tzinfo=None) for v in values], dtype="datetime64[us]")


LONG_LIST = [*range(3000)]
KINDS: dict[str, tuple[Callable[[Random], Any], list[Series], pa.DataType]] = {  # values, columns of pandas, of Arrow
    "int": (lambda r: r.choice((0, 1, 2)), [of("Int64"), of("Int8"), of(object), objects(np.int32)], pa.int32()),
    "large": (lambda r: 2**53 + r.randrange(3), [of("Int64"), of(object)], pa.int64()),
    "float": (lambda r: r.choice((0.1, 0.5, 3.0)), [of("Float64"), of(float), objects(np.float64)], pa.float64()),
    "text": (lambda r: r.choice(("a", "é", "", "nan")), [of(object), of("string"), of("category")], pa.string()),
    "bool": (lambda r: r.random() < 0.5, [of("boolean"), of(object), objects(np.bool_)], pa.bool_()),
    "date": (lambda r: date(2020, 1, r.randrange(1, 4)), [objects()], pa.date32()),
    "time": (
        lambda r: datetime(r.choice((2020, 5000)), 10, 25, r.randrange(2), 30, 0, r.randrange(2), tzinfo=UTC),
        [dates, lambda values: dates(values).dt.tz_localize("UTC").dt.tz_convert(BERLIN),
         objects(lambda value: value.astimezone(BERLIN))],
        pa.timestamp("us", "UTC"),
    ),
    "decimal": (lambda r: Decimal(r.choice(("1.5", "1.50", "12345678901234567890.1"))), [objects()],
                pa.decimal128(38, 9)),
    "list": (lambda r: [r.randrange(2)] * r.randrange(3), [objects(), objects(np.array)], pa.list_(pa.int64())),
    "long": (lambda r: [*LONG_LIST[:1500], r.randrange(2), *LONG_LIST], [objects(), objects(np.array)],
             pa.list_(pa.int64())),
    "map": (lambda r: {"p": r.randrange(2)}, [objects()], pa.struct([("p", pa.int64())])),
}  # fmt: skip


def random_rows(r: Random, kinds: list[str], count: int) -> list[Event]:
    nulls, instants = r.choice((0, 0.2)), r.choice((1, 3, 1000))
    return [
        (
            r.randrange(instants),
            r.choice(("insert", "insert", "remove")),
            tuple(None if r.random() < nulls else KINDS[kind][0](r) for kind in kinds),
        )
        for _ in range(count)
    ]


def changed(r: Random, rows: list[Event], kinds: list[str]) -> list[Event]:
    rows = list(rows)
    for _ in range(r.choice((0, 0, 1, 2))):
        place = r.randrange(len(rows))
        time, kind, values = rows[place]
        rows[place : place + 1] = r.choice(
            (
                [],
                [rows[place]] * 2,
                [(time + 1, kind, values)],
                [(time, "remove", values)],
                [(time, kind, random_rows(r, kinds, 1)[0][2])],
            )
        ) if len(rows) > 1 else []
        if not rows:
            break
    return r.sample(rows, len(rows)) if r.random() < 0.4 else rows


def random_frame(r: Random, rows: list[Event], kinds: list[str]) -> Any:
    names = r.sample(range(len(kinds)), len(kinds))
    columns = {f"c{n}": [values[n] for _, _, values in rows] for n in names}
    times, sides = [time for time, _, _ in rows], [kind for _, kind, _ in rows]
    if r.random() < 0.3:
        arrays = {f"c{n}": pa.array(columns[f"c{n}"], KINDS[kinds[n]][2]) for n in names}
        return pa.table({"time": pa.array(times, pa.int64()), "kind": pa.array(sides, pa.string()), **arrays})
    time = pd.Series(times, dtype=r.choice(("int64", "Int64", "float64")))
    if r.random() < 0.4:
        time = pd.to_datetime(time.astype("int64"), unit="ms", utc=True).dt.tz_convert(BERLIN)
    series = {f"c{n}": r.choice(KINDS[kinds[n]][1])(columns[f"c{n}"]) for n in names}
    return pd.DataFrame({"time": time, "kind": pd.Series(sides, dtype="category"), **series})


def counted(rows: list[Event]) -> Counter[str]:
    return Counter(repr((time, kind, [v.normalize() if isinstance(v, Decimal) else v for v in values]))
                   for time, kind, values in rows)  # fmt: skip


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(150))
def test_verdicts_and_counts(seed: int) -> None:
    r = Random(seed)
    kinds = r.choices([*KINDS], k=r.choice((1, 2, 3)))
    here = random_rows(r, kinds, r.choice((1, 2, 5, 30)))
    there = changed(r, here, kinds)
    report = compare({"q": random_frame(r, here, kinds)}, {"q": random_frame(r, there, kinds)})
    mine, theirs, verdict = counted(here), counted(there), report.statements["q"]
    assert (verdict.verdict == "equal") is (mine == theirs), report
    if not any("earlier" in note or "later" in note for note in verdict.notes):
        assert verdict.equal == (mine & theirs).total(), report
        assert verdict.equal + verdict.different + verdict.only_here == len(here), report
        assert verdict.equal + verdict.different + verdict.only_there == len(there), report


def frame(**columns: list[Any]) -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    return pd.DataFrame({"time": [1] * rows, "kind": ["insert"] * rows} | columns)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ([["nan"]], [float("nan")]),
        ([pd.Timestamp(5, unit="ns"), pd.Timestamp(6, unit="ns")], [pd.Timestamp(6, unit="ns")] * 2),
        ([5, 6], [pd.Timestamp(5_400_000, unit="ns"), pd.Timestamp(6_000_000, unit="ns")]),
        ([datetime(5000, 1, 1, 0, 0, 0, n, tzinfo=UTC) for n in (1, 2)], [datetime(5000, 1, 1, 0, 0, 0, 2)] * 2),
    ],
)
def test_values_that_are_nearly_the_same_are_different(here: list[Any], there: list[Any]) -> None:
    assert compare({"q": frame(a=here)}, {"q": frame(a=there)}).verdict == "different"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"time": [1.5]}, r"q: the column `time` has 1.5, which is neither a date nor a whole number of clock units"),
        ({"time": [None]}, r"q: the column `time` has a row without a time"),
        ({"time": [pd.Timestamp("2020-01-01 00:00:00.0004")]}, r"q: the column `time` has 2020-.*between two units"),
        ({"time": ["soon"]}, r"q: the column `time` has 'soon', which is neither"),
        ({"kind": ["delete"]}, r"q: the column `kind` has 'delete', which is neither 'insert' nor 'remove'"),
        ({"kind": [None]}, r"q: the column `kind` has None, which is neither"),
    ],
)
def test_frames_whose_rows_have_no_certain_place_are_refused(columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compare({"q": frame(a=[1])}, {"q": frame(a=[1]).assign(**columns)})


def test_a_column_that_a_frame_has_twice_is_refused() -> None:
    twice = pd.concat([frame(a=[1]), frame(a=[2])[["a"]]], axis=1)
    with pytest.raises(UsageError, match="q: the frame has two columns `a`"):
        compare({"q": frame(a=[1])}, {"q": twice})


def test_columns_of_a_statement_that_are_called_like_metadata_are_compared() -> None:
    cep = Workbench()
    cep.run("create schema A(time long, seq int, kind string, delivery int, trigger string)")
    cep.run("@name('q') select * from A")
    for seq in (3, 4):
        cep.send("A", time=7, seq=seq, kind="x", delivery=seq, trigger="t")
    same = cep.changes("q")
    assert compare(cep, {"q": same}).verdict == "equal" == compare({"q": same}, {"q": same.copy()}).verdict
    for name in ("time", "seq", "kind", "delivery", "trigger"):
        other = same.copy()
        other.loc[1, name] = "y" if name in ("kind", "trigger") else 9
        for side in (cep, {"q": same}):
            assert compare(side, {"q": other}).statements["q"].by_column == {name: 1}, name
