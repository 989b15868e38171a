"""Columns of output as arrays: plain values for every reader, and in the file of dropped rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cepbook.engine.vectorized.array_columns import StoredColumn
from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.feed_segments import SpillMedium
from cepbook.feeds import Feed
from cepbook.session.journal.row_files import RowFiles

TEXTS = np.array(["a", "b", None], object)
COLUMNS: dict[str, tuple[ArrayValues, list[Any]]] = {
    "numbers": (ArrayValues(np.arange(4)), [0, 1, 2, 3]),
    "small": (ArrayValues(np.array([1, -1, 2, 3], np.int32)), [1, -1, 2, 3]),
    "floats": (
        ArrayValues(np.array([0.5, np.nan, np.inf, 0]), np.array([False, False, False, True])),
        [0.5, np.nan, np.inf, None],
    ),
    "flags": (ArrayValues(np.array([True, False, True, True])), [True, False, True, True]),
    "texts": (ArrayValues(np.array([1, 0, -1, 1]), None, TEXTS), ["b", "a", None, "b"]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_reads_as_a_list(name: str) -> None:
    column, plain = COLUMNS[name]
    assert repr(list(column)) == repr(column.tolist()) == repr(plain)
    assert repr(column[1:].tolist()) == repr(plain[1:])
    assert [repr(column[at]) for at in range(4)] == list(map(repr, plain))
    assert len(column[2:]) == 2


def test_a_column_of_events_is_copied_from_the_frame_and_tells_null_by_nan() -> None:
    frame = np.array([1.0, np.nan, 3.0, 4.0])
    column = ArrayValues.of_column(StoredColumn(frame[1:3], gaps=True))
    frame[:] = 0
    assert column.tolist() == [None, 3.0]


@pytest.mark.parametrize("private", [True, False])
def test_a_feed_gives_back_what_it_dropped(private: bool, tmp_path: Path) -> None:
    medium = RowFiles(str(tmp_path)) if private else SpillMedium()
    feed = Feed(4, log=1 << 20, medium=medium)
    feed.describe(tuple(COLUMNS), lambda row: dict(zip(COLUMNS, row, strict=True)))
    for time in (1, 2, 3):
        feed.extend_columns([time] * 4, [column for column, _ in COLUMNS.values()])
    assert feed.dropped == 8
    assert feed.spill_file.rows == 8
    whole = feed.whole()
    assert whole.times == [1] * 4 + [2] * 4 + [3] * 4
    assert {name: repr(whole.column(name)) for name in COLUMNS} == {
        name: repr(plain * 3) for name, (_, plain) in COLUMNS.items()
    }
    assert repr(feed.columns(limit=2).values) == repr([plain[2:] for _, plain in COLUMNS.values()])
    assert [repr(delivery.insert) for delivery in feed.since(11).deliveries] == [
        repr([{name: plain[3] for name, (_, plain) in COLUMNS.items()}])
    ]
    assert repr(feed.saved()[2][0][2]) == repr([plain for _, plain in COLUMNS.values()])


def test_texts_that_hardly_repeat_are_packed_as_they_are() -> None:
    few = ArrayValues(np.array([1, 0] * 4), None, TEXTS)
    assert few.packed() == ("q", np.array([1, 0] * 4).tobytes(), None, ["a", "b", None])
    assert COLUMNS["texts"][0].packed() == ["b", "a", None, "b"]
