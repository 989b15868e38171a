from __future__ import annotations

import asyncio

from IPython.core.interactiveshell import InteractiveShell

from cepbook.session import Workbench
from cepbook.widgets import ReplayControl, show_live, view
from tests.waiting import until
from tests.widgets.fakes import FakeBrowser, FakeHandle, FakeReplay, FakeTime


def opened() -> tuple[FakeReplay, ReplayControl, FakeBrowser, FakeTime]:
    now = FakeTime()
    replay = FakeReplay()
    control = ReplayControl(replay, now=now)
    browser = FakeBrowser(control)
    browser.hello()
    return replay, control, browser, now


def test_buttons_are_orders() -> None:
    replay, _, browser, _ = opened()
    browser.say(kind="order", order="pause")
    browser.say(kind="order", order="step", n=5)
    browser.say(kind="order", order="resume")
    browser.say(kind="order", order="stop")
    assert replay.orders == ["pause", "step 5", "resume", "stop"]


def test_orders_that_make_no_sense_are_ignored() -> None:
    replay, _, browser, _ = opened()
    for order in ({"order": "step", "n": 0}, {"order": "step", "n": "1"}, {"order": "explode"}, {}):
        browser.say(kind="order", **order)
    assert replay.orders == []


def test_slices_move_the_bar_at_most_at_the_rate() -> None:
    replay, _, browser, now = opened()
    for _ in range(50):
        replay.slice(1)
        if len(browser.frames):
            browser.ack()
        now.value += 0.01
    assert 5 <= len(browser.frames) <= 6
    assert browser.frames[0] == {
        "kind": "frame", "n": 1, "events": 1, "total": 10, "estimate": None,
        "clock": "00:00:01.000", "state": "running", "behind": 0,
        "troubles": "", "failed": False,
    }  # fmt: skip


def test_without_news_no_frame_is_sent() -> None:
    _, control, browser, now = opened()
    control.flush()
    browser.ack()
    now.value += 5
    assert not control.flush()
    assert len(browser.frames) == 1
    browser.hello()
    assert control.flush(), "a page that opens late gets the present state"
    now.value += 1.1
    assert control.flush(), "a frame that nobody answered was lost"
    browser.ack()
    now.value += 1.1
    assert not control.flush()


def test_at_the_end_the_saved_output_is_brought_up_to_date() -> None:
    replay, control, browser, _ = opened()
    handle = FakeHandle()
    control.show(handle.display)
    replay.slice(10, "finished")
    assert browser.frames[-1]["state"] == "finished"
    assert handle.texts == [
        "replay ready: 0 of 10 events, clock 00:00:00.000",
        "replay finished: 10 of 10 events, clock 00:00:10.000",
    ]
    assert replay.subscribers == []


def test_a_stopped_replay_says_how_far_it_came() -> None:
    cep = Workbench()
    cep.run("create schema Tick(ts long)")
    replay = cep.replay([{"ts": n} for n in range(10)], type="Tick", time="ts", paused=True)
    control = ReplayControl(replay)
    replay.step(3)
    replay.stop()
    assert control.freeze().text == "replay stopped: 3 of 10 events, clock 00:00:00.002"


def test_on_a_loop_a_pause_between_slices_is_noticed() -> None:
    async def run() -> list[str]:
        replay = FakeReplay(state="running")
        control = ReplayControl(replay, rate=500)
        browser = FakeBrowser(control)
        browser.hello()
        await until(lambda: browser.frames)
        browser.ack()
        replay.state = "paused"
        await until(lambda: len(browser.frames) == 2)
        control.close()
        return [frame["state"] for frame in browser.frames]

    assert asyncio.run(run()) == ["running", "paused"]


def test_a_shell_shows_widgets_and_replays_so_that_they_can_be_brought_up_to_date() -> None:
    cep = Workbench()
    cep.run("create schema Tick(price double, ts long); @name('out') select * from Tick#lastevent")
    handle, shell = FakeHandle(), InteractiveShell()
    formatter = shell.display_formatter
    undo = show_live(shell, handle.display)
    replay = cep.replay([{"price": 1.0, "ts": 1000}, {"price": 2.0, "ts": 2000}], type="Tick", time="ts")
    for thing in (replay, view(cep, "out")):
        assert formatter.format(thing) == ({}, {})
    replay.run()
    assert handle.texts[:2] == [
        "replay ready: 0 of 2 events, clock 00:00:00.000",
        "out: 0 insert rows, 0 remove rows  (clock 00:00:00.000)",
    ]
    shell.run_cell("1")
    assert len(handle.shown) == 4, "once when the replay ends; a shell without a kernel prints nothing twice"
    assert set(handle.texts[2:]) == {
        "replay finished: 2 of 2 events, clock 00:00:02.000",
        "out: 2 insert rows, 0 remove rows  (clock 00:00:02.000)",
    }
    shell.run_cell("1")
    assert len(handle.shown) == 4, "nothing has changed"
    cep.send("Tick", price=3.0)
    shell.run_cell("1")
    assert handle.texts[4:] == ["out: 3 insert rows, 0 remove rows  (clock 00:00:02.000)"]
    undo()
    cep.send("Tick", price=3.0)
    shell.run_cell("1")
    assert len(handle.shown) == 5
    assert formatter.format(replay)[0]["text/plain"].startswith("Replay of Tick")
