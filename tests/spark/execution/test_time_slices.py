"""Where a stream is cut into slices of time: by how much each task gets, and by what its state needs of before."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from cepbook.spark.execution.time_slices import TimeBucket, TimeSlice, cut_slices, slices_at
from cepbook.spark.plan.lookback import LastEvents, Lookback

EVERY_SECOND = [TimeBucket(t * 1000, t * 1000, 10, (5,)) for t in range(100)]
ALL = TimeSlice(None, None, None)


def test_each_slice_begins_with_what_its_state_needs() -> None:
    found = cut_slices(EVERY_SECOND, Lookback(((3000.0,),)), [], 4, 1.0)
    assert [(each.first, each.begin, each.end) for each in found] == [
        (None, None, 25_000), (21_000, 25_000, 50_000), (46_000, 50_000, 75_000), (71_000, 75_000, None),
    ]  # fmt: skip


def test_what_would_not_pay_is_not_cut() -> None:
    assert cut_slices(EVERY_SECOND, Lookback(((80_000.0,),)), [], 4, 1.0) == [ALL]
    assert len(cut_slices(EVERY_SECOND, Lookback(((20_000.0,),)), [], 8, 1.0)) > 1
    assert cut_slices([], Lookback(((1.0,),)), [], 4, 1.0) == [ALL]
    assert cut_slices(EVERY_SECOND[:1], Lookback(((1.0,),)), [], 4, 1.0) == [ALL]


def test_a_period_counts_from_the_last_stop_before() -> None:
    """What was due long ago leaves when the clock goes on: after a gap the state before the gap still counts."""
    buckets = [TimeBucket(0, 900, 5), TimeBucket(1000, 1900, 5), TimeBucket(90_000, 90_500, 5)]
    (_, after) = slices_at([90_000], buckets, Lookback(((500.0,),)), [], 1.0)
    assert after.first == 1900 - 500
    (_, after) = slices_at([90_000], buckets, Lookback(((500.0,), (500.0,))), [], 1.0)
    assert after.first == 1000 - 500  # of a bucket only its first time is known to be a stop before 1400
    (_, inside) = slices_at([1000], buckets, Lookback(((500.0,),)), [], 1000.0)
    assert inside.first == 900 - 500_000  # microseconds


def test_events_are_counted_where_they_pass_the_filter() -> None:
    last = LastEvents("Tick", 12, None)
    (_, found) = slices_at([50_000], EVERY_SECOND, Lookback(((last,),)), [last], 1.0)
    assert found.first == 47_000  # three seconds with five of them each
    (_, found) = slices_at([2000], EVERY_SECOND, Lookback(((last,),)), [last], 1.0)
    assert found.first is None  # there are fewer before
    (_, found) = slices_at([50_000], EVERY_SECOND, Lookback(((last, 9000.0),)), [last], 1.0)
    assert found.first == 40_000
