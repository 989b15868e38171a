"""The stops of the clock that tasks are told of: packed by tasks that read, brought together by those that replay."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pyarrow as pa
import pytest

from cepbook.spark.task import clock_ticks
from cepbook.spark.task.clock_ticks import NO_TICKS, ClockTicks, TickBlock, as_sequence, pack_block, pack_ticks
from cepbook.spark.task.stream_columns import SEQ, TAG, TICK, TICKS, TIME


def events(times: list[int], numbers: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({TIME: pa.array(times, pa.int64()), SEQ: pa.array(numbers, pa.int64())})


def unpacked(block: bytes) -> tuple[np.ndarray, np.ndarray]:
    found = TickBlock(block)
    times = np.empty(found.count, np.int64)
    found.times(times)
    return times, found.numbers()


def upto(told: ClockTicks, time: int | None) -> list[list[int]]:
    times, numbers = told.take_until(time)
    return [times.tolist(), numbers(np.arange(len(times))).tolist()]


def rows(*batches: pa.RecordBatch) -> list[dict[str, object]]:
    return [row for batch in pack_ticks(batches) for row in batch.to_pylist()]


def test_a_block_is_what_it_was() -> None:
    times, numbers = unpacked(pack_block(np.array([-5, 0, 2**53]), np.array([9, 1, 2**62])))
    assert (times.tolist(), numbers.tolist()) == ([-5, 0, 2**53], [9, 1, 2**62])
    for step in (1, 127, 128, -129, 2**15, -(2**31) - 1, 2**62, -(2**63)):  # of each width, and around its end
        found = unpacked(pack_block(np.array([3, 4]), np.array([0, step])))
        assert [each.tolist() for each in found] == [[3, 4], [0, step]]


def test_short_steps_take_few_bytes() -> None:
    assert len(pack_block(np.arange(0, 90_000, 90), np.arange(1000))) < 2100


def test_each_time_is_packed_once_with_its_least_number(monkeypatch: pytest.MonkeyPatch) -> None:
    given = events([3, 1, 3], [4, 7, 2]), events([1, 2], [1, 0])
    (row,) = rows(*given)
    assert (row[TAG], row[TIME], row[SEQ]) == (TICK, 1, 1)
    assert [each.tolist() for each in unpacked(row[TICKS])] == [[1, 2, 3], [1, 0, 2]]
    monkeypatch.setattr(clock_ticks, "_BLOCK", 2)
    monkeypatch.setattr(clock_ticks, "_SORTED_AT_ONCE", 2)
    assert [(row[TIME], row[SEQ], len(unpacked(row[TICKS])[0])) for row in rows(*given)] == [(1, 7, 2), (1, 1, 2)]
    assert rows() == rows(events([], [])) == []


def test_blocks_that_overlap_come_together() -> None:
    told = ClockTicks()
    blocks = [row for part in ([1, 5, 9], [5, 6]) for row in rows(events(part, [n + len(part) for n in part]))]
    fields = [pa.field(TIME, pa.int64()), pa.field(SEQ, pa.int64()), pa.field(TICKS, pa.binary())]
    blocks.append({TIME: 12, SEQ: 30, TICKS: None})  # a stop alone
    for block in blocks:
        told.add_rows(pa.RecordBatch.from_pylist([block], schema=pa.schema(fields)))
    assert upto(told, 5) == [[1, 5], [4, 7]]
    assert upto(told, 5) == [[], []]
    assert upto(told, None) == [[6, 9, 12], [8, 12, 30]]


def test_stops_are_a_sequence_of_plain_numbers() -> None:
    found = as_sequence(np.array([-5, 0, 2**53]))
    assert list(found) == [-5, 0, 2**53] and {type(each) for each in found} == {int}
    assert (bisect_left(found, 1), found[-1], len(found), bool(as_sequence(NO_TICKS))) == (2, 2**53, 3, False)


def test_stops_of_any_order_of_events_in_any_number_of_tasks_are_all_told() -> None:
    rng = np.random.default_rng(3)
    times, numbers = rng.integers(0, 3000, 20_000), rng.permutation(20_000)
    parts = [(times[i::3].tolist(), numbers[i::3].tolist()) for i in range(3)]
    found = sorted((row for part in parts for row in rows(events(*part))), key=lambda row: (row[TIME], row[SEQ]))
    told = ClockTicks()
    told.add_rows(pa.RecordBatch.from_pylist(found))
    own, least = upto(told, None)
    assert own == sorted(set(times.tolist()))
    assert least == [int(numbers[times == time].min()) for time in own]


def test_stops_come_and_go_in_any_pieces() -> None:
    """Blocks one behind the other, which are not brought together: sequence numbers stay with their times."""
    rng = np.random.default_rng(4)
    times, numbers = np.cumsum(rng.integers(1, 300, 5000)), rng.permutation(5000)
    told, at, kept, found = ClockTicks(), 0, [], [[], []]  # type: ignore[var-annotated]
    while at < len(times):
        blocks = []
        for size in rng.integers(1, 200, rng.integers(0, 4)):
            own = times[at : at + size], numbers[at : at + size]
            alone = len(own[0]) == 1 and rng.random() < 0.5
            if len(own[0]):
                blocks.append({TIME: own[0][0], SEQ: own[1][0], TICKS: None if alone else pack_block(*own)})
            at += size
        kinds = pa.schema([pa.field(TIME, pa.int64()), pa.field(SEQ, pa.int64()), pa.field(TICKS, pa.binary())])
        told.add_rows(pa.RecordBatch.from_pylist(blocks, kinds))
        kept.append(told.take_until(int(times[min(at, 5000) - 1] - rng.integers(0, 5000))))
    kept.append(told.take_until(None))
    for own_times, asked in kept:  # some time later
        found[0] += own_times.tolist()
        places = rng.permutation(len(own_times))
        head = rng.integers(0, 9, 2)
        behind = asked.behind(head)(np.array([1, *(places + 2)], int))
        assert behind.tolist() == [head[1], *asked(places).tolist()]
        found[1] += asked(places)[np.argsort(places)].tolist()
    assert found == [times.tolist(), numbers.tolist()]
