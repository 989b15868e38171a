"""The control of live sources without a browser: frames, orders, the saved picture, texts of hostile sources."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

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
