from __future__ import annotations

import asyncio
import threading
from itertools import pairwise

import pytest

from cepbook.widgets.pump import GIVE_UP_AFTER, Pump
from tests.waiting import until
from tests.widgets.fakes import FakeTime


def pump_of(now: FakeTime) -> tuple[Pump, list[int]]:
    sent: list[int] = []

    def build(number: int) -> bool:
        sent.append(number)
        return True

    return Pump(build, rate=20, now=now, spent=now), sent


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
    assert not pump.flush(), "50 ms have not passed"
    now.value += 0.051
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


def test_a_page_that_is_gone_gets_no_frames_until_it_says_hello() -> None:
    now = FakeTime()
    pump, sent = pump_of(now)
    pump.open()
    for _ in range(100):
        pump.touch()
        pump.flush()
        now.value += 1.1
    assert len(sent) == GIVE_UP_AFTER + 1
    assert not pump.is_open
    pump.open()
    assert pump.flush()


def test_a_page_that_answers_after_all_gets_frames_again() -> None:
    now = FakeTime()
    pump, sent = pump_of(now)
    pump.open()
    for _ in range(100):
        pump.touch()
        pump.flush()
        now.value += 1.1
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

    pump = Pump(slow, rate=20, now=now, spent=now)
    pump.open()
    for _ in range(300):
        pump.touch()
        if pump.flush():
            pump.ack(len(times))
        now.value += 0.01
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(times))
    assert len(times) >= 2


@pytest.mark.parametrize(("cost", "apart"), [(0.0, 0.05), (0.004, 0.085), (0.02, 0.22)])
def test_frames_that_cost_little_are_fluent_and_others_take_a_tenth_of_the_time(cost: float, apart: float) -> None:
    now = FakeTime()
    times: list[float] = []

    def build(_: int) -> bool:
        times.append(now.value)
        now.value += cost
        return True

    pump = Pump(build, rate=20, now=now, spent=now)
    pump.open()
    while now.value < 20:
        pump.touch()
        if pump.flush():
            pump.ack(len(times))
        now.value += 0.001
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert all(gap <= apart for gap in gaps)
    assert all(10 * cost <= gap and gap >= 0.05 for gap in gaps)


def test_on_a_loop_frames_leave_without_a_flush() -> None:
    async def run() -> list[int]:
        sent: list[int] = []

        def build(number: int) -> bool:
            sent.append(number)
            asyncio.get_running_loop().call_soon(pump.ack, number)
            return True

        pump = Pump(build, rate=1000)
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

        pump = Pump(build, rate=1000)
        other = threading.Thread(target=pump.open)
        other.start()
        other.join()
        await until(lambda: threads)
        pump.close()
        return len(threads), threads

    assert asyncio.run(run()) == (1, {threading.get_ident()})


def test_on_a_loop_a_lost_frame_is_replaced_though_nothing_new_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cepbook.widgets.pump.RESEND_AFTER", 0.02)

    async def run() -> list[int]:
        sent: list[int] = []

        def build(number: int) -> bool:
            sent.append(number)
            if number == 3:
                asyncio.get_running_loop().call_soon(pump.ack, number)
            return True

        pump = Pump(build, rate=1000)
        pump.open()
        await until(lambda: pump.acked == 3)
        await asyncio.sleep(0.06)  # and no frame follows
        pump.close()
        return sent

    assert asyncio.run(run()) == [1, 2, 3]
