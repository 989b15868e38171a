"""Rows of a statement as growing columns: nothing is lost, whatever the feed drops; each row is found again."""

from __future__ import annotations

import numpy as np
import pytest

from cepbook.feeds import Feed
from cepbook.widgets.charts.series_rows import SERIES, GrowingArray, SeriesRows, row_of


def feed_of(capacity: int) -> Feed:
    feed = Feed(capacity, log=1 << 20)
    feed.describe(("s", "v"), lambda row: dict(zip(("s", "v"), row, strict=True)))
    return feed


@pytest.mark.parametrize("seed", range(40))
def test_every_row_arrives_once_and_is_found_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    feed, rows, sent = feed_of(int(rng.choice([1, 10, 1_000]))), SeriesRows(["v"], "s"), []
    for time in range(200):
        inserts = [(str(rng.choice(list("AB"))), float(rng.integers(0, 100))) for _ in range(rng.integers(0, 4))]
        feed.push(time, list(inserts) or None, [("A", 0.0)] if rng.random() < 0.3 else None)
        sent += [(time, *row) for row in inserts]
        if rng.random() < 0.1:
            rows.read(feed)
    rows.read(feed)
    rows.read(feed)
    assert len(rows) == len(sent)
    for group in rows.groups:
        expected = [(time, value) for time, label, value in sent if label == group.label]
        assert list(zip(group.times.tolist(), group.numbers(0).tolist(), strict=True)) == expected
        for place in rng.integers(0, len(group), 20).tolist():
            time, value = expected[place]
            found = row_of(feed, group.key(place))
            assert found is not None and found[0] == time and dict(found[1]) == {"s": group.label, "v": value}


def test_rows_that_nothing_keeps_are_counted_and_not_found() -> None:
    feed = Feed(2)
    feed.describe(("v",), lambda row: {"v": row[0]})
    rows = SeriesRows(["v"], None)
    for time in range(10):
        feed.push(time, [(float(time),)], None)
        if time == 5:
            rows.read(feed)
    rows.read(feed)
    assert rows.lost == 4 and rows.groups[0].times.tolist() == [4, 5, 8, 9], "of the others the feed had none left"
    assert row_of(feed, rows.groups[0].key(0)) is None
    assert row_of(feed, rows.groups[0].key(3)) == (9, {"v": 9.0})


def test_what_is_no_number_is_a_gap() -> None:
    feed = feed_of(100)
    for value in (1, None, float("inf"), "x", True, 10**400, [1]):
        feed.push(0, [("A", value)], None)
    rows = SeriesRows(["v"], None)
    rows.read(feed)
    assert np.isnan(rows.groups[0].numbers(0)).tolist() == [False, True, True, True, False, True, True]


def test_any_value_can_be_a_series_and_the_ones_with_most_rows_are_drawn() -> None:
    feed = feed_of(10_000)
    labels = [None, [1], (2, 3), float("nan"), "\u202eturned", "x" * 500]
    for label in labels:
        feed.push(0, [(label, 1.0)], None)
    rows = SeriesRows(["v"], "s")
    rows.read(feed)
    assert [group.label for group in rows.groups[:3]] == ["null", "[1]", "[2, 3]"]
    assert all(len(group.label) <= 80 and "\u202e" not in group.label for group in rows.groups)
    for number in range(100):
        feed.push(1, [(f"s{number}", 1.0)] * (1 + number // 50), None)
    rows.read(feed)
    assert len(rows.series) == SERIES and all(len(series.group) == 2 for series in rows.series)
    assert len(rows) == len(labels) + 150 and rows.group_count == len(labels) + 100


def test_a_growing_array_keeps_its_values() -> None:
    array = GrowingArray(np.int64)
    for start in range(0, 1_000, 10):
        array.extend(np.arange(start, start + 10))
    assert array.values.tolist() == list(range(1_000))
