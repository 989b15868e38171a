"""Buffers of live sources: what is committed, what waits again, and who gets what a source has left."""

from __future__ import annotations

import time
from typing import Any

from cepbook.session.io.reorder import ReorderBuffer
from cepbook.session.io.waiting_events import WaitingBuffers, WaitingEvents


def entry(at: int) -> tuple[int, Any]:
    return at, ("E", {"v": at})


def times(buffer: ReorderBuffer) -> list[int]:
    return [at for at, _ in buffer.entries()]


def test_claimed_events_are_never_late() -> None:
    buffer = WaitingEvents(1, 5, owned=True)
    buffer.add(100, ("E", {}))
    buffer.fill([entry(50), entry(20)])
    assert times(buffer) == [20, 50, 100] and not buffer.changed
    assert [at for at, _ in buffer.release()] == [20, 50]


def test_events_that_wait_again_are_as_before() -> None:
    buffer = WaitingEvents(1, 0, owned=True)
    buffer.fill([entry(1), entry(2)])
    buffer.insert(entry(3))
    buffer.advance(3)
    released = buffer.release(2)
    assert buffer.changes() == [1, 2, [[3, "E", {"v": 3}]]]
    buffer.put_back(released)
    assert times(buffer) == [1, 2, 3] and [event[0] for event in buffer.saved()] == [1, 2]
    assert buffer.changes() == [1, 0, [[3, "E", {"v": 3}]]]
    buffer.release()
    buffer.commit()
    buffer.put_back([entry(4)])
    assert buffer.saved() == [] and buffer.changes() == [1, 0, [[4, "E", {"v": 4}]]]


def test_a_released_buffer_leaves_what_is_committed_to_another_source() -> None:
    buffers = WaitingBuffers()
    first = buffers.open(5)
    first.fill([entry(1)])
    first.insert(entry(2))
    buffers.release(first)
    assert buffers.unclaimed() == [first.number] and [event[0] for event in buffers.saved()] == [1]
    second = buffers.open(5)
    assert second.number != first.number
    buffers.move(["E"], [first.number, 99], second.number)
    assert times(second) == [1] and buffers.unclaimed() == []
    second.end_waiting()
    second.release()
    second.commit()
    buffers.release(second)
    assert buffers.saved() == [] and buffers.open(0).number == 1


def test_restoring_many_events_is_linear() -> None:
    buffers = WaitingBuffers()
    began = time.process_time()
    buffers.restore((at, "E", {}, 1) for at in range(100_000))
    assert len(buffers.saved()) == 100_000 and time.process_time() - began < 5


def test_without_a_watermark_nothing_is_released() -> None:
    buffer = ReorderBuffer()
    buffer.insert(entry(-5))
    assert not buffer.ready and buffer.release() == []
    buffer.end_waiting()
    assert buffer.ready and len(buffer.release()) == 1
