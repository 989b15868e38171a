"""The control of live sources without a browser: frames, orders, the saved picture, texts of hostile sources."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cepbook.session import Workbench, inlets
from cepbook.session.replay.live_ingestion import Live
from cepbook.widgets.live_bar.live_control import LiveControl
from tests.waiting import until
from tests.widgets.fakes import FakeBrowser, FakeHandle

HOSTILE = "<img src=x onerror=alert(1)>\u202e\n" + "x" * 2_000


async def ticks(end: asyncio.Event) -> AsyncIterator[object]:
    yield {"price": 1.0, "at": 5000}
    yield {"price": 2.0, "at": 1000}
    yield {"price": HOSTILE, "at": 6000}
    yield inlets.Malformed(HOSTILE, HOSTILE)
    yield inlets.Link(True, HOSTILE)
    yield inlets.Link(False)
    yield {"price": 3.0, "at": 7000}
    await end.wait()
    raise ConnectionError(HOSTILE)


def watched(check: Any, **options: Any) -> None:
    """Run ``check(live, control, browser)`` while a source waits for its end, and then ``check(live, …)`` no more."""

    async def scenario() -> None:
        cep, end = Workbench(), asyncio.Event()
        cep.run("create schema Tick(at long, price double) starttimestamp at; @name('out') select price from Tick")
        live = cep.live({"Tick": ticks(end)}, time="at", **options)
        control = LiveControl(live)
        browser = FakeBrowser(control)
        browser.hello()
        await until(lambda: live.events["Tick"] == 2)
        browser.ack()
        await check(live, control, browser)
        end.set()
        await until(lambda: live.ended)
        control.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_frame_has_all_that_is_known() -> None:
    async def check(live: Live, control: LiveControl, browser: FakeBrowser) -> None:
        control.flush(urgent=True)
        frame = browser.frames[-1]
        (row,) = frame["sources"]
        assert (frame["state"], frame["events"], row["source"], row["state"]) == ("running", 2, "Tick", "running")
        assert (row["late"], row["rejected"], row["reconnections"], row["buffered"]) == (1, 2, 1, 0)
        assert sum(entry["count"] for entry in frame["rejections"]) == 2 and len(frame["losses"]) == 1
        assert len(json.dumps(frame)) < 5_000 and "\u202e" not in json.dumps(frame, ensure_ascii=False)
        browser.ack()

    watched(check)


def test_orders_run_in_the_loop_and_others_change_nothing() -> None:
    async def check(live: Live, control: LiveControl, browser: FakeBrowser) -> None:
        for order in ({"order": "explode"}, {"order": None}, {"order": ["stop"]}, {"order": {"stop": 1}}, {}):
            browser.say(kind="order", **order)
            assert browser.frames[-1]["kind"] == "error"
        await asyncio.sleep(0)
        assert live.state == "running"
        browser.say(kind="order", order="pause")
        assert live.state == "running", "not in the thread of the message"
        await until(lambda: live.state == "paused" and browser.frames[-1].get("state") == "paused")
        browser.say(kind="order", order="resume")
        await until(lambda: live.state == "running")
        browser.say(kind="order", order="stop")
        await until(lambda: live.state == "stopped")

    watched(check)


def test_the_saved_picture_has_the_end_and_no_markup_of_others() -> None:
    handle = FakeHandle()

    async def check(live: Live, control: LiveControl, browser: FakeBrowser) -> None:
        control.show(handle.display)
        live.stop()
        await until(lambda: len(handle.shown) == 2)
        html, text = handle.shown[-1]["text/html"], handle.shown[-1]["text/plain"]
        assert "stopped" in html and text == repr(live)
        assert "<img" not in html and "\u202e" not in html + text
        assert browser.frames[-1]["state"] == "stopped"
        control.close()
        control.show(handle.display)  # a closed one that has ended is displayed again
        assert handle.shown[-1]["text/plain"] == text

    watched(check)


def test_many_sources_are_cut_and_counted() -> None:
    async def scenario() -> None:
        cep = Workbench()
        names = [f"T{number}" for number in range(60)]
        cep.run(";".join(f"create schema {name}(x int)" for name in names))
        live = cep.live({name: [] for name in names})
        control = LiveControl(live)
        browser = FakeBrowser(control)
        browser.hello()
        control.flush(urgent=True)
        frame = browser.frames[-1]
        assert (len(frame["sources"]), frame["more"]) == (50, 10)
        await live
        control.close()

    asyncio.run(scenario())


async def flapping() -> AsyncIterator[object]:
    for number in range(350):
        yield inlets.Link(True, f"loss {number}")
        yield inlets.Link(False)
        yield inlets.Malformed("x", f"reason {'abcdefghijklmnopqrstuvwxyz'[number % 26]}")
    await asyncio.Event().wait()


def test_lists_that_are_cut_have_the_totals() -> None:
    async def scenario() -> None:
        cep, handle = Workbench(), FakeHandle()
        names = [f"T{number}" for number in range(60)]
        cep.run(";".join(f"create schema {name}(x int)" for name in names))
        live = cep.live({name: flapping() if name == "T59" else [] for name in names})
        await until(lambda: live.malformed["T59"] == 350)
        control = LiveControl(live)
        browser = FakeBrowser(control)
        browser.hello()
        control.flush(urgent=True)
        frame = browser.frames[-1]
        assert (frame["lost"], len(frame["losses"])) == (350, 20)
        assert (frame["rejected"], frame["reasons"], len(frame["rejections"])) == (350, 26, 20)
        control.show(handle.display)
        html = handle.shown[-1]["text/html"]
        for caption in ("50 of 60 sources", "20 of 26 reasons of rejected items", "20 of 350 lost connections"):
            assert caption in html
        live.stop()
        control.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_the_bar_says_that_events_wait() -> None:
    async def check(live: Live, control: LiveControl, browser: FakeBrowser) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        live._batcher._fail(OSError(28, "No space left on device"))
        control.flush(urgent=True)
        frame = browser.frames[-1]
        assert "events wait: OSError: [Errno 28] No space left on device" in frame["note"]
        assert frame["sources"][0]["state"] == "held back" and "No space left" in live.troubles[0]
        live._batcher.failure = None

    watched(check)


def test_the_saved_picture_is_stale_when_a_source_ends() -> None:
    async def scenario() -> None:
        cep, end = Workbench(), asyncio.Event()
        cep.run("create schema A(x int); create schema B(x int)")

        async def waiting() -> AsyncIterator[object]:
            await end.wait()
            return
            yield

        async def endless() -> AsyncIterator[object]:
            await asyncio.Event().wait()
            yield

        live = cep.live({"A": waiting(), "B": endless()})
        control, handle = LiveControl(live), FakeHandle()
        control.show(handle.display)
        end.set()
        await until(lambda: live.statuses["A"].state == "finished")
        control.refresh_if_stale()
        assert "finished" in handle.shown[-1]["text/html"]
        live.stop()
        control.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_an_order_that_nobody_can_run_is_answered_with_an_error() -> None:
    async def check(live: Live, control: LiveControl, browser: FakeBrowser) -> None:
        control._pump._loop = None
        thread = threading.Thread(target=lambda: browser.say(kind="order", order="stop"))
        thread.start()
        thread.join()
        assert browser.frames[-1]["kind"] == "error" and live.state == "running"

    watched(check)


def test_a_stop_that_cannot_hand_over_events_is_no_exception_of_the_loop() -> None:
    async def check(live: Live, control: LiveControl, browser: FakeBrowser) -> None:
        def refuse() -> None:
            raise OSError(28, "No space left on device")

        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        live._batcher.flush = refuse  # type: ignore[method-assign]
        browser.say(kind="order", order="stop")
        await until(lambda: live.ended)
        assert not problems and live.state == "failed"
        with pytest.raises(OSError, match="No space left"):
            await live

    watched(check)
