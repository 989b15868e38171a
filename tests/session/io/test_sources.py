"""Rows and times from DataFrames, files and iterables; every bad input names its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.errors import EventError, UsageError
from cepbook.lang import types as t
from cepbook.lang.plan.catalog import EventType
from cepbook.session.io import frame_source
from cepbook.session.io.frame_source import SourceOptions
from cepbook.session.io.replay_options import ReplayOptions
from cepbook.session.io.source_merge import SourceBatch, SourceMerge
from cepbook.session.io.sources import open_source

TICK = EventType("Tick", {"at": t.LONG, "symbol": t.STRING, "price": t.DOUBLE, "size": t.INT})


def source_options(event_type: EventType = TICK, time: str = "at", **options: Any) -> SourceOptions:
    return SourceOptions(event_type, time, {event_type.name: event_type}, ReplayOptions(**options))


def read(source: object, w: SourceOptions, *names: str) -> tuple[list[int], list[tuple[Any, ...]]]:
    times, rows = list[int](), list[tuple[Any, ...]]()
    for chunk in open_source(source, w).chunks():
        times += chunk.times
        rows += zip(*(chunk.column(name) for name in names or w.event_type.properties), strict=True)
    return times, rows


def ticks(**columns: Any) -> pd.DataFrame:
    base = {"at": [1, 2, 3], "symbol": ["a", None, "c"], "price": [1.5, np.nan, 3.0], "size": [1, 2, 3]}
    return pd.DataFrame({**base, **columns})


def test_missing_values_are_null_and_values_are_plain_python() -> None:
    times, rows = read(ticks(), source_options())
    assert times == [1, 2, 3]
    assert rows == [(1, "a", 1.5, 1), (2, None, None, 2), (3, "c", 3.0, 3)]
    assert [type(v) for v in rows[0]] == [int, str, float, int]


def test_columns_are_read_by_name() -> None:
    assert read(ticks(extra=[0, 0, 0]), source_options(), "size", "symbol")[1] == [(1, "a"), (2, None), (3, "c")]


@pytest.mark.parametrize(
    ("values", "of", "expected"),
    [
        (pd.array([1, None], "Int64"), t.LONG, [1, None]),
        (pd.array([1, None], "Int64"), t.DOUBLE, [1.0, None]),
        ([1.0, np.nan], t.INT, [1, None]),
        (pd.array([1.5, None], "Float64"), t.DOUBLE, [1.5, None]),
        (np.array([1.1, np.nan]), t.FLOAT, [1.100000023841858, None]),
        (np.array([1e300, -1e300]), t.FLOAT, [float("inf"), float("-inf")]),
        (np.array([1.1, np.nan], "float32"), t.FLOAT, [1.100000023841858, None]),
        (np.array([16_777_217, 1]), t.FLOAT, [16_777_216.0, 1.0]),
        (pd.array([1.1, None], "Float64"), t.FLOAT, [1.100000023841858, None]),
        (pd.Series([1.1, None], dtype=object), t.FLOAT, [1.100000023841858, None]),
        (pd.Categorical([1.1, None]), t.FLOAT, [1.100000023841858, None]),
        (pd.array([True, None], "boolean"), t.BOOLEAN, [True, None]),
        (np.array([True, False]), t.BOOLEAN, [True, False]),
        (pd.Series([True, None], dtype=object), t.BOOLEAN, [True, None]),
        (pd.to_datetime(["1970-01-01 00:00:01.5", None]), t.LONG, [1500, None]),
        (pd.to_datetime(["1970-01-01 01:00:01", None]).tz_localize("Europe/Berlin"), t.LONG, [1000, None]),
        (pd.to_datetime(["1969-12-31 23:59:59.9999", None], format="ISO8601").as_unit("ns"), t.LONG, [-1, None]),
        (pd.to_timedelta(["2s", None]), t.LONG, [2000, None]),
        (pd.Series([date(1970, 1, 2), None], dtype=object), t.LONG, [86_400_000, None]),
        (pd.to_datetime(["1970-01-01", None]), t.TIMESTAMP, [datetime(1970, 1, 1, tzinfo=UTC), None]),
        (pd.Categorical(["x", None]), t.STRING, ["x", None]),
        (pd.Series([pd.NA, "y"], dtype=object), t.STRING, [None, "y"]),
        (pd.Series(["x", None], dtype=object), t.CHAR, ["x", None]),
        (pd.Series([Decimal("1.5"), 2], dtype=object), t.BIGDECIMAL, [Decimal("1.5"), Decimal(2)]),
        (pd.Series([(1, 2), None], dtype=object), t.array_of(t.INT), [[1, 2], None]),
        (pd.Series([np.array([1.0]), None], dtype=object), t.array_of(t.DOUBLE), [[1.0], None]),
        (pd.Series([{"a": 1}, None], dtype=object), t.MAP, [{"a": 1}, None]),
        (pd.Series([None, None], dtype=object), t.INT, [None, None]),
        (pd.array([1, None], "int64[pyarrow]"), t.LONG, [1, None]),
        (pd.array(["x", None], "string[pyarrow]"), t.STRING, ["x", None]),
    ],
    ids=str,
)
def test_values_by_dtype_and_type(values: Any, of: t.Type, expected: list[Any]) -> None:
    kind = EventType("T", {"x": of})
    rows = read(pd.DataFrame({"t": [1, 2], "x": values}), source_options(kind, "t"))[1]
    assert [row[0] for row in rows] == expected
    assert [type(row[0]) for row in rows] == [type(v) for v in expected]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"size": [1, 2, 2**31]}, "column `size` of `Tick`, row 2: the property is int, and 2147483648 is outside"),
        ({"size": [1.0, np.nan, 2.5]}, "column `size` of `Tick`, row 2: the property is int, not 2.5"),
        ({"size": ["1", "2", "3"]}, "column `size` of `Tick`, row 0: the property is int, not '1'"),
        ({"size": [True, False, True]}, "column `size` of `Tick`, row 0: the property is int, not True"),
        ({"price": ["1", "2", "3"]}, "column `price` of `Tick`, row 0: the property is double"),
        ({"symbol": [1, 2, 3]}, "column `symbol` of `Tick`, row 0: the property is string, not 1"),
        ({"symbol": pd.Series(["a", 1, "b"], dtype=object)}, "column `symbol` of `Tick`, row 1"),
        ({"symbol": pd.Categorical([1, 2, 3])}, "column `symbol` of `Tick`"),
        ({"at": [1.0, np.nan, 3.0]}, "time column `at` of `Tick`, row 1: the event time is missing"),
        ({"at": [1.0, 2.5, 3.0]}, "time column `at` of `Tick`, row 1: 2.5 is no time in whole milliseconds"),
        ({"at": pd.to_datetime(["2020", None, "2021"], format="%Y")}, "time column `at` of `Tick`, row 1: .* missing"),
    ],
)
def test_a_frame_that_does_not_fit_says_where(column: dict[str, Any], message: str) -> None:
    with pytest.raises(EventError, match=message):
        open_source(ticks(**column), source_options())


def test_a_frame_that_lacks_columns() -> None:
    with pytest.raises(EventError, match=r"(?s)lacks the column `price`.*did you mean `prices`"):
        open_source(ticks().rename(columns={"price": "prices"}), source_options())
    with pytest.raises(EventError, match="no time column `when`"):
        open_source(ticks(), source_options(time="when"))


def test_row_names_show_the_index_label() -> None:
    with pytest.raises(EventError, match=r"row 1 \(index 'q'\)"):
        open_source(ticks(at=[1, None, 3]).set_index(pd.Index(["p", "q", "r"])), source_options())


def test_event_time_as_dates_texts_and_index() -> None:
    kind = EventType("T", {"x": t.LONG})
    for values in (
        pd.to_datetime(["1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z"]),
        ["1970-01-01T00:00:01Z", "1970-01-01 00:00:02"],
        [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)],
        pd.Categorical(["1970-01-01T00:00:01", "1970-01-01T00:00:02"]),
        [1000.0, 2000.0],
    ):
        assert read(pd.DataFrame({"t": values, "x": [1, 2]}), source_options(kind, "t"))[0] == [1000, 2000]
    indexed = pd.DataFrame({"x": [1, 2]}, index=pd.Index([5, 6], name="t"))
    assert read(indexed, source_options(kind, "t")) == ([5, 6], [(1,), (2,)])
    with pytest.raises(EventError, match="row 1: 'noon' is not an ISO 8601"):
        open_source(pd.DataFrame({"t": ["1970-01-01", "noon"], "x": [1, 2]}), source_options(kind, "t"))


def test_an_unsorted_frame_is_sorted_stably_or_refused_or_thinned() -> None:
    frame = ticks(at=[2, 1, 2])
    assert read(frame, source_options())[1] == [(1, None, None, 2), (2, "a", 1.5, 1), (2, "c", 3.0, 3)]
    with pytest.raises(EventError, match=r"row 1 of `Tick` goes back in time: 00:00:00.001 after 00:00:00.002"):
        open_source(frame, source_options(sort=False))
    thinned = open_source(frame, source_options(sort=False, late="drop"))
    assert ([c.times for c in thinned.chunks()], thinned.late) == ([[2, 2]], 1)


def test_until_is_inclusive_and_counts() -> None:
    source = open_source(ticks(), source_options(until=2))
    assert (source.total, source.first_time, [c.times for c in source.chunks()]) == (2, 1, [[1, 2]])


def test_frames_come_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_source, "FRAME_CHUNK", 2)
    assert [len(c.times) for c in open_source(ticks(at=[3, 2, 1]), source_options()).chunks()] == [2, 1]
    assert read(ticks(at=[3, 2, 1]), source_options())[0] == [1, 2, 3]


def test_texts_that_repeat_are_one_object() -> None:
    names = ["".join(("x", str(number % 3))) for number in range(60)]
    texts = pd.array([*names, None, names[1]], dtype="str")
    frame = ticks(at=range(62, 0, -1), symbol=texts, price=[1.0] * 62, size=[1] * 62)
    _, rows = read(frame, source_options())
    column = [row[1] for row in rows]
    assert column == [names[1], None, *reversed(names)]
    assert len({id(text) for text in column}) == 4
    unlike = ticks(at=range(9), symbol=pd.array(list("abcdefghi"), dtype="str"), price=[1.0] * 9, size=[1] * 9)
    assert [row[1] for row in read(unlike, source_options())[1]] == list("abcdefghi")


@pytest.mark.parametrize(
    ("values", "of"),
    [
        (pd.array([1, None], "Int64"), t.LONG),
        (pd.array([1, None], "int32[pyarrow]"), t.INT),
        (np.array([1.0, np.nan]), t.INT),
        (np.array([1.5, np.nan]), t.DOUBLE),
        (pd.array([True, False], "boolean"), t.BOOLEAN),
        (pd.to_datetime(["1970-01-01 00:00:01.5", None]), t.LONG),
        (pd.to_timedelta(["2s", None]), t.LONG),
        (pd.Categorical(["x", None]), t.STRING),
        (pd.Categorical(["x", "y"], categories=["z", "y", "x"]), t.STRING),
        (pd.Series([None, "y"], dtype=object), t.STRING),
        (pd.Series([None, "y"], dtype="str"), t.STRING),
    ],
    ids=str,
)
def test_numbers_dates_and_repeated_texts_stay_arrays(values: Any, of: t.Type) -> None:
    kind = EventType("T", {"x": of})
    repeated = pd.concat([pd.DataFrame({"x": values})] * 10, ignore_index=True).assign(t=range(20))
    (chunk,) = open_source(repeated, source_options(kind, "t")).chunks()
    columns: Any = chunk.columns(("x",), 0, 20)
    stored = columns.retained("x")
    assert stored is not None
    assert list(ArrayValues.of_column(stored)) == columns["x"] == [*columns["x"][:2]] * 10


@dataclass
class Tick:
    at: int
    symbol: str | None
    price: float
    size: int
    note: str = "ignored"


def test_iterables_of_dicts_and_dataclasses() -> None:
    dicts = [{"at": 1, "symbol": "a", "price": 2, "size": np.int64(3)}, {"at": 2, "price": float("nan")}]
    assert read(iter(dicts), source_options()) == ([1, 2], [(1, "a", 2.0, 3), (2, None, None, None)])
    assert read([Tick(1, "a", 2.0, 3)], source_options())[1] == [(1, "a", 2.0, 3)]


def test_the_time_of_an_event_need_not_be_a_property() -> None:
    kind = EventType("T", {"x": t.LONG})
    assert read([{"when": datetime(1970, 1, 2), "x": 1}], source_options(kind, "when")) == ([86_400_000], [(1,)])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"at": 3, "symbl": "x"}, "(?s)row 2 of `Tick`: event type `Tick` has no property `symbl`.*`symbol`"),
        ({"at": 3, "price": "x"}, "row 2 of `Tick`: property `price` of event type `Tick` is double, not 'x'"),
        ({"symbol": "x"}, "row 2 of `Tick`: the event time `at` is missing"),
        ({"at": "soon"}, "row 2 of `Tick`: the event time `at`: 'soon'"),
        ({"at": 1}, "row 2 of `Tick` goes back in time: 00:00:00.001 after 00:00:00.002"),
        (7, "row 2 of `Tick`: .* not 7"),
    ],
)
def test_a_bad_event_comes_after_the_good_ones(bad: object, message: str) -> None:
    source = open_source([{"at": 1}, {"at": 2}, bad, {"at": 4}], source_options())
    chunks = source.chunks()
    assert next(chunks).times == [1, 2]
    with pytest.raises(EventError, match=message):
        next(chunks)


def test_a_failing_generator_names_the_row_and_keeps_the_cause() -> None:
    def events() -> Iterator[dict[str, int]]:
        yield {"at": 1}
        raise ValueError("no more")

    chunks = open_source(events(), source_options()).chunks()
    assert next(chunks).times == [1]
    with pytest.raises(EventError, match=r"failed before row 1: ValueError\('no more'\)") as caught:
        next(chunks)
    assert isinstance(caught.value.__cause__, ValueError)


def test_late_events_of_an_iterable_can_be_dropped() -> None:
    source = open_source([{"at": 5}, {"at": 4}, {"at": 5}], source_options(late="drop"))
    assert [c.times for c in source.chunks()] == [[5, 5]]
    assert source.late == 1


def test_files(tmp_path: Path) -> None:
    frame = ticks(symbol=["007", None, "c"], spare=[0, 0, 0])
    frame.to_parquet(tmp_path / "ticks.parquet")
    frame.to_csv(tmp_path / "ticks.csv.gz", index=False)
    expected = read(frame, source_options())
    assert read(tmp_path / "ticks.parquet", source_options()) == expected
    assert read(str(tmp_path / "ticks.csv.gz"), source_options()) == expected
    frame.drop(columns="size").to_parquet(tmp_path / "less.parquet")
    with pytest.raises(EventError, match="lacks the column `size`"):
        open_source(tmp_path / "less.parquet", source_options())
    with pytest.raises(UsageError, match="there is no file"):
        open_source(tmp_path / "nothing.csv", source_options())
    (tmp_path / "x.txt").touch()
    with pytest.raises(UsageError, match="neither a Parquet"):
        open_source(tmp_path / "x.txt", source_options())


def test_a_word_among_the_numbers_of_a_csv_file_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "ticks.csv"
    ticks(symbol=["two\nlines", "b", "c"], size=[1, "oops", 3]).to_csv(path, index=False)
    path.write_text("\n" + path.read_text())
    with pytest.raises(EventError, match=r"ticks\.csv', line 5, column `size`: 'oops' is no int"):
        open_source(path, source_options())
    ticks(size=[1, "oops", 3]).to_csv(f"{path}.bz2", index=False)
    with pytest.raises(EventError, match=r"bz2', line 3, column `size`: 'oops' is no int"):
        open_source(f"{path}.bz2", source_options())
    ticks().drop(columns="size").to_csv(path, index=False)
    with pytest.raises(EventError, match=r"the file '.*ticks\.csv' for event type `.*` lacks the column `size`"):
        open_source(path, source_options())


@pytest.mark.parametrize("source", [7, {"at": 1}, None])
def test_things_that_are_no_source(source: object) -> None:
    with pytest.raises(UsageError, match="cannot come from"):
        open_source(source, source_options())


def merged(inputs: list[object], until: int | None = None, most: int = 1_000_000) -> list[list[SourceBatch]]:
    merge = SourceMerge([open_source(one, source_options()) for one in inputs], until)
    batches = []
    while parts := merge.take(most):
        assert 0 < sum(len(batch.times) for batch in parts) <= most
        batches.append(parts)
    assert merge.peek() is None
    return batches


def symbols(batches: list[list[SourceBatch]]) -> list[str]:
    """The symbols in total order."""
    order: list[str] = []
    for parts in batches:
        ranked = [
            (rank, symbol)
            for batch in parts
            for rank, symbol in zip(batch.ranks or range(len(batch.times)), batch.column("symbol"), strict=True)
        ]
        assert [rank for rank, _ in sorted(ranked)] == list(range(len(ranked)))
        order += [symbol for _, symbol in sorted(ranked)]
    return order


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_merge_orders_by_time_then_source_then_row(most: int) -> None:
    one = [{"at": at, "symbol": f"x{i}"} for i, at in enumerate([1, 1, 3, 5, 5, 9])]
    two = [{"at": at, "symbol": f"y{i}"} for i, at in enumerate([1, 2, 5, 6])]
    expected = ["x0", "x1", "y0", "y1", "x2", "x3", "x4", "y2", "y3", "x5"]
    assert symbols(merged([one, two], most=most)) == expected
    assert symbols(merged([one, two], until=2, most=most)) == ["x0", "x1", "y0", "y1"]
    assert symbols(merged([one, []], most=most)) == [f"x{i}" for i in range(6)]


def test_merge_waits_for_its_time() -> None:
    merge = SourceMerge([open_source([{"at": 1}, {"at": 3}], source_options())])
    assert merge.peek() == 1
    assert merge.take(9, upto=0) == []
    assert [batch.times for batch in merge.take(9, upto=2)] == [[1]]
    assert (merge.take(9, upto=2), merge.peek()) == ([], 3)


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_merge_agrees_with_sorting(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(frame_source, "FRAME_CHUNK", 7)
    random = np.random.default_rng(5)
    frames: list[pd.DataFrame] = []
    for number in range(3):
        at = random.integers(0, 40, 50)
        frames.append(pd.DataFrame({"at": at, "symbol": [f"{number}-{i}" for i in range(50)], "price": 0.0, "size": 1}))
    expected = sorted(
        (int(at), number, i, symbol)
        for number, frame in enumerate(frames)
        for i, (at, symbol) in enumerate(zip(frame["at"], frame["symbol"], strict=True))
    )
    assert symbols(merged(list(frames), most=most)) == [symbol for _, _, _, symbol in expected]


def test_a_part_can_lose_its_first_events() -> None:
    (batch,) = SourceMerge([open_source(ticks(at=[3, 2, 1]), source_options())]).take(3)
    later = batch.after(2)
    assert (later.times, later.column("symbol"), later.column("size")) == ([3], ["a"], [1])


def test_timedelta_of_an_event_is_milliseconds() -> None:
    kind = EventType("T", {"at": t.LONG, "gap": t.LONG})
    assert read([{"at": 1, "gap": timedelta(seconds=2)}], source_options(kind))[1] == [(1, 2000)]


def test_dates_in_a_column_of_numbers_come_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(EventError, match=r"property is long, not '2024-03-01' .*\n  hint: .*parse_dates"):
        open_source(
            pd.DataFrame({"at": [1], "n": ["2024-03-01"]}), source_options(EventType("T", {"at": t.LONG, "n": t.LONG}))
        )
    with pytest.raises(EventError) as plain:
        open_source(
            pd.DataFrame({"at": [1], "n": ["soon"]}), source_options(EventType("T", {"at": t.LONG, "n": t.LONG}))
        )
    assert "hint" not in str(plain.value)


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "ticks.jsonl"
    path.write_text('{"at": 2, "symbol": "007", "price": 1, "more": []}\n\n{"at": 1, "size": 9007199254740993}\n')
    long = EventType("Tick", {"at": t.LONG, "symbol": t.STRING, "price": t.DOUBLE, "size": t.LONG})
    times, rows = read(str(path), source_options(long))
    assert times == [1, 2]
    assert rows == [(1, None, None, 9007199254740993), (2, "007", 1.0, None)]


@pytest.mark.parametrize(
    ("line", "said"),
    [("{", "this is no JSON"), ("[1]", "an event is a JSON object, not list"), ("[" * 100_000, "")],
)
def test_json_lines_that_are_wrong(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "ticks.jsonl"
    path.write_text('{"at": 1}\n' + line + "\n")
    with pytest.raises(EventError, match=rf"ticks.jsonl', line 2: .*{said}"):
        open_source(str(path), source_options())
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(EventError, match="cannot be read as JSON lines"):
        open_source(str(path), source_options())
