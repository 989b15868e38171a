"""Where a stream is cut into slices of time: by how much each task gets, and by what its state needs of before."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from cepbook.spark.plan.reach import Last, Reach
from cepbook.spark.running.slices import Bucket, Slice, cut, slices_at

EVERY_SECOND = [Bucket(t * 1000, t * 1000, 10, (5,)) for t in range(100)]
ALL = Slice(None, None, None)


def test_each_slice_begins_with_what_its_state_needs() -> None:
    found = cut(EVERY_SECOND, Reach(((3000.0,),)), [], 4, 1.0)
    assert [(each.first, each.begin, each.end) for each in found] == [
        (None, None, 25_000), (21_000, 25_000, 50_000), (46_000, 50_000, 75_000), (71_000, 75_000, None),
    ]  # fmt: skip


def test_what_would_not_pay_is_not_cut() -> None:
    assert cut(EVERY_SECOND, Reach(((80_000.0,),)), [], 4, 1.0) == [ALL]
    assert len(cut(EVERY_SECOND, Reach(((20_000.0,),)), [], 8, 1.0)) > 1
    assert cut([], Reach(((1.0,),)), [], 4, 1.0) == [ALL]
    assert cut(EVERY_SECOND[:1], Reach(((1.0,),)), [], 4, 1.0) == [ALL]


def test_a_period_counts_from_the_last_stop_before() -> None:
    """What was due long ago leaves when the clock goes on: after a gap the state before the gap still counts."""
    buckets = [Bucket(0, 900, 5), Bucket(1000, 1900, 5), Bucket(90_000, 90_500, 5)]
    (_, after) = slices_at([90_000], buckets, Reach(((500.0,),)), [], 1.0)
    assert after.first == 1900 - 500
    (_, after) = slices_at([90_000], buckets, Reach(((500.0,), (500.0,))), [], 1.0)
    assert after.first == 1000 - 500  # of a bucket only its first time is known to be a stop before 1400
    (_, inside) = slices_at([1000], buckets, Reach(((500.0,),)), [], 1000.0)
    assert inside.first == 900 - 500_000  # microseconds


def test_events_are_counted_where_they_pass_the_filter() -> None:
    last = Last("Tick", 12, None)
    (_, found) = slices_at([50_000], EVERY_SECOND, Reach(((last,),)), [last], 1.0)
    assert found.first == 47_000  # three seconds with five of them each
    (_, found) = slices_at([2000], EVERY_SECOND, Reach(((last,),)), [last], 1.0)
    assert found.first is None  # there are fewer before
    (_, found) = slices_at([50_000], EVERY_SECOND, Reach(((last, 9000.0),)), [last], 1.0)
    assert found.first == 40_000
