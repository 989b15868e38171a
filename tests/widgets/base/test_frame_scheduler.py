from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise

import pytest

from cepbook.widgets.base.frame_scheduler import GIVE_UP_AFTER, FrameScheduler
from tests.waiting import until
from tests.widgets.fakes import FakeTime


def pump_of(now: FakeTime) -> tuple[FrameScheduler, list[int]]:
    sent: list[int] = []

    def build(number: int) -> bool:
        sent.append(number)
        return True

    return FrameScheduler(build, rate=20, now=now, spent=now), sent


def test_nothing_is_sent_before_a_browser_listens() -> None:
    pump, sent = pump_of(FakeTime())
    pump.touch()
    assert not pump.flush(urgent=True)
    pump.open()
    assert pump.flush()
    assert sent == [1]


def test_the_next_frame_waits_for_the_acknowledgement_and_the_rate() -> None:
    now = FakeTime()
    pump, sent = pump_of(now)
    pump.open()
    pump.flush()
    for _ in range(100):
        pump.touch()
        pump.flush()
    assert sent == [1]
    pump.ack(1)
    assert not pump.flush(), "80 ms have not passed"
    now.value += 0.081
    assert pump.flush()
    assert sent == [1, 2]


def test_a_lost_frame_is_replaced_after_a_second() -> None:
    now = FakeTime()
    pump, sent = pump_of(now)
    pump.open()
    pump.flush()
    pump.touch()
    now.value += 0.99
    assert not pump.flush()
    now.value += 0.02
    assert pump.flush()
    assert sent == [1, 2]
    pump.ack(1)  # late and out of date
    pump.touch()
    now.value += 0.5
    assert not pump.flush()


def test_an_acknowledgement_of_a_frame_that_was_never_sent_is_ignored() -> None:
    pump, _ = pump_of(FakeTime())
    pump.open()
    pump.flush()
    pump.ack(77)
    assert pump.acked == 0


def unheard() -> tuple[FrameScheduler, list[int]]:
    """A pump whose page has not answered for a long time, and what it sent."""
    now = FakeTime()
    pump, sent = pump_of(now)
    pump.open()
    for _ in range(100):
        pump.touch()
        pump.flush()
        now.value += 1.1
    return pump, sent


def test_a_page_that_is_gone_gets_no_frames_until_it_says_hello() -> None:
    pump, sent = unheard()
    assert len(sent) == GIVE_UP_AFTER + 1
    assert not pump.is_open
    pump.open()
    assert pump.flush()


def test_a_page_that_answers_after_all_gets_frames_again() -> None:
    pump, sent = unheard()
    assert not pump.is_open
    pump.ack(sent[-1])
    assert pump.is_open
    assert pump.flush(), "it gets what there is now, though nothing new came"


def test_a_frame_that_was_slow_to_build_is_followed_by_a_rest() -> None:
    now = FakeTime()
    times: list[float] = []

    def slow(_: int) -> bool:
        times.append(now.value)
        now.value += 0.1
        return True

    pump = FrameScheduler(slow, rate=20, now=now, spent=now)
    pump.open()
    for _ in range(300):
        pump.touch()
        if pump.flush():
            pump.ack(len(times))
        now.value += 0.01
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(times))
    assert len(times) >= 2


def test_work_that_is_done_once_needs_no_rest() -> None:
    now = FakeTime()
    times: list[float] = []

    def build(_: int) -> bool:
        times.append(now.value)
        now.value += 0.1
        pump.share(0.1)
        return True

    pump = FrameScheduler(build, rate=20, now=now, spent=now)
    pump.open()
    while now.value < 10:
        pump.touch()
        if pump.flush():
            pump.ack(len(times))
        now.value += 0.01
    assert all(later - earlier < 0.2 for earlier, later in pairwise(times))


def test_a_reader_who_waits_gets_a_frame_without_the_rest_after_a_slow_one() -> None:
    now = FakeTime()

    def build(number: int) -> bool:
        now.value += 5.0
        return True

    pump = FrameScheduler(build, rate=20, now=now, spent=now)
    pump.open()
    assert pump.flush()
    pump.ack(1)
    pump.touch()
    assert not pump.flush()
    pump.hurry()
    assert pump.flush()


@pytest.mark.parametrize(("cost", "apart"), [(0.0, 0.082), (0.004, 0.105), (0.02, 0.31)])
def test_frames_that_cost_little_are_fluent_and_others_take_a_twelfth_of_the_time(cost: float, apart: float) -> None:
    now = FakeTime()
    times: list[float] = []

    def build(_: int) -> bool:
        times.append(now.value)
        now.value += cost
        return True

    pump = FrameScheduler(build, rate=20, now=now, spent=now)
    pump.open()
    while now.value < 20:
        pump.touch()
        if pump.flush():
            pump.ack(len(times))
        now.value += 0.001
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert all(gap <= apart for gap in gaps)
    assert all(12 * cost <= gap and gap >= 0.05 for gap in gaps)


class Row:
    """Frames that may go without an answer, to a page that answers `late` seconds after it was asked."""

    def __init__(self, late: float) -> None:
        self.now = FakeTime()
        self.frames: list[tuple[float, bool]] = []  # when, and whether it asked
        self.answers: list[tuple[float, int]] = []
        self.pump = FrameScheduler(self.build, rate=20, now=self.now, spent=self.now)
        self.late = late
        self.pump.open()

    def build(self, number: int) -> bool:
        asks = not self.pump.spare()
        self.frames.append((self.now.value, asks))
        if asks:
            self.answers.append((self.now.value + self.late, number))
        return True

    def go_on(self, seconds: float, *, news: bool = True) -> None:
        end = self.now.value + seconds
        while self.now.value < end:
            if self.answers and self.answers[0][0] <= self.now.value:
                self.pump.ack(self.answers.pop(0)[1])
            if news:
                self.pump.touch()
            self.pump.flush()
            self.now.value += 0.005

    @property
    def asked(self) -> list[bool]:
        return [asks for _, asks in self.frames]


def test_of_frames_in_a_row_one_of_six_asks_for_an_answer_when_answers_come_soon() -> None:
    row = Row(late=0.03)
    row.go_on(5)
    assert row.asked[:13] == [True, *[False] * 5, True, *[False] * 5, True]
    assert all(later[0] - earlier[0] <= 0.12 for earlier, later in pairwise(row.frames))


@pytest.mark.parametrize(("late", "quiet"), [(0.16, 3), (0.22, 2), (0.7, 0)])
def test_the_slower_a_page_is_the_more_frames_ask_so_that_it_is_never_far_behind(late: float, quiet: int) -> None:
    row = Row(late)
    row.go_on(8)
    rest = row.asked[1:]
    assert rest[: 2 * quiet + 2] == ([False] * quiet + [True]) * 2


def test_the_last_frame_of_a_row_is_repeated_and_asks() -> None:
    row = Row(late=0.03)
    row.go_on(0.2)
    row.go_on(0.1, news=False)
    before = len(row.frames)
    assert not row.asked[-1]
    row.go_on(5, news=False)
    assert row.asked[before:] == [True], "it may have been lost, and nothing follows"
    assert row.pump.acked == len(row.frames)


def test_frames_that_come_now_and_then_all_ask() -> None:
    row = Row(late=0.03)
    for _ in range(10):
        row.pump.touch()
        row.go_on(0.4, news=False)
    assert row.asked == [True] * 10


def test_an_urgent_frame_asks() -> None:
    row = Row(late=0.03)
    row.go_on(0.2)
    assert not row.asked[-1]
    row.pump.touch()
    assert row.pump.flush(urgent=True)
    assert row.asked[-1]


def test_on_a_loop_what_is_new_does_not_wait_for_the_end_of_a_row() -> None:
    async def run() -> tuple[list[float], list[bool]]:
        sent: list[float] = []
        asked: list[bool] = []

        def build(number: int) -> bool:
            sent.append(time.monotonic())
            asked.append(not pump.spare())
            if asked[-1]:
                asyncio.get_running_loop().call_soon(pump.ack, number)
            return True

        pump = FrameScheduler(build)
        pump.open()
        while len(sent) < 4:
            pump.touch()
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # all is told; what is left is that nobody knows whether it arrived
        began = time.monotonic()
        pump.touch()
        count = len(sent)
        await until(lambda: len(sent) > count)
        waited = sent[-1] - began
        await until(lambda: asked[-1])
        pump.close()
        return [waited], asked

    waited, asked = asyncio.run(run())
    assert waited[0] < 0.1
    assert asked[:4] == [True, False, False, False]
    assert asked[-1]


def test_on_a_loop_a_change_while_a_frame_is_built_is_sent_with_the_next() -> None:
    async def run() -> list[float]:
        sent: list[float] = []

        def build(number: int) -> bool:
            sent.append(time.monotonic())
            if len(sent) == 2:
                pump.touch()
            asyncio.get_running_loop().call_soon(pump.ack, number)
            return True

        pump = FrameScheduler(build)
        pump.open()
        await until(lambda: len(sent) == 1)
        pump.touch()
        await until(lambda: len(sent) == 3)
        pump.close()
        return sent

    sent = asyncio.run(run())
    assert sent[2] - sent[1] < 0.5


def test_on_a_loop_frames_leave_without_a_flush() -> None:
    async def run() -> list[int]:
        sent: list[int] = []

        def build(number: int) -> bool:
            sent.append(number)
            asyncio.get_running_loop().call_soon(pump.ack, number)
            return True

        pump = FrameScheduler(build, rate=1000)
        pump.open()
        await until(lambda: sent and pump.acked == 1)
        first = len(sent)
        pump.touch()
        await until(lambda: len(sent) == 2)
        pump.close()
        pump.touch()
        await asyncio.sleep(0.01)
        return [first, len(sent)]

    assert asyncio.run(run()) == [1, 2]


def test_orders_from_another_thread_reach_the_loop() -> None:
    async def run() -> tuple[int, set[int]]:
        threads: set[int] = set()

        def build(_: int) -> bool:
            threads.add(threading.get_ident())
            return True

        pump = FrameScheduler(build, rate=1000)
        other = threading.Thread(target=pump.open)
        other.start()
        other.join()
        await until(lambda: threads)
        pump.close()
        return len(threads), threads

    assert asyncio.run(run()) == (1, {threading.get_ident()})


def test_on_a_loop_a_lost_frame_is_replaced_though_nothing_new_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cepbook.widgets.base.frame_scheduler.RESEND_AFTER", 0.02)

    async def run() -> list[int]:
        sent: list[int] = []

        def build(number: int) -> bool:
            sent.append(number)
            if number == 3:
                asyncio.get_running_loop().call_soon(pump.ack, number)
            return True

        pump = FrameScheduler(build, rate=1000)
        pump.open()
        await until(lambda: pump.acked == 3)
        await asyncio.sleep(0.06)  # and no frame follows
        pump.close()
        return sent

    assert asyncio.run(run()) == [1, 2, 3]
