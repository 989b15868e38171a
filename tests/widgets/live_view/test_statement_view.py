from __future__ import annotations

import asyncio
import io
from typing import Any

import pandas as pd
import pytest

from cepbook.errors import UsageError
from cepbook.feeds import Feed
from cepbook.session import Workbench
from cepbook.widgets import StatementView
from cepbook.widgets.base.column_encoding import ViewColumn
from cepbook.widgets.live_view.view_source import WorkbenchSource
from tests.waiting import until
from tests.widgets.fakes import (
    FakeBrowser,
    FakeHandle,
    FakeReplay,
    FakeSheet,
    FakeStatement,
    FakeTime,
    decoded,
    opened,
)


def prices(browser: FakeBrowser, at: int = -1) -> list[float]:
    """The column `price` of the stream part of a frame."""
    return decoded(browser.frames[at]["stream"]["columns"][1], browser.buffers[at])


def test_the_first_frame_has_what_was_delivered_before_the_page_opened() -> None:
    source = FakeStatement()
    source.tick(3)
    _, view, browser = opened(source)
    assert view.flush()
    stream = browser.frames[0]["stream"]
    assert prices(browser) == [1.0, 2.0, 3.0]
    assert (stream["full"], stream["from"], stream["to"]) == (True, 0, 3)
    assert browser.frames[0]["counts"] == {"inserted": 3, "removed": 0}
    assert browser.frames[0]["clock"] == "00:00:03.000"


def test_a_frame_carries_only_what_the_page_lacks() -> None:
    source, view, browser = opened()
    source.tick(2)
    view.flush()
    browser.ack()
    source.tick(2)
    view.flush(urgent=True)
    assert prices(browser) == [3.0, 4.0]
    assert browser.frames[-1]["stream"]["from"] == 2


def test_without_an_acknowledgement_deliveries_are_conflated_and_none_is_lost() -> None:
    now = FakeTime()
    source, view, browser = opened(now=now)
    source.tick(1)
    view.flush()
    for _ in range(50):
        source.tick(1)
        view.flush()
    assert len(browser.frames) == 1
    now.value += 1.1
    view.flush()
    assert len(browser.frames) == 2
    assert prices(browser) == [float(i) for i in range(1, 52)], "the first frame may have been lost"


def test_a_frame_has_at_most_keep_rows_and_they_are_the_newest() -> None:
    source, view, browser = opened(keep=10)
    source.tick(500)
    view.flush()
    assert prices(browser) == [float(i) for i in range(491, 501)]
    assert browser.frames[0]["counts"]["inserted"] == 500


def test_one_huge_delivery_is_cut_from_the_front() -> None:
    source, view, browser = opened(keep=4)
    source.feed.push(5, [{"symbol": "A", "price": float(i)} for i in range(6)], [{"symbol": "B", "price": 9.0}])
    view.flush()
    assert prices(browser) == [3.0, 4.0, 5.0, 9.0]


def test_insert_and_remove_rows_of_one_delivery_share_its_number() -> None:
    source, view, browser = opened()
    source.feed.push(5, [{"symbol": "A", "price": 1.0}], [{"symbol": "B", "price": 2.0}])
    source.feed.push(5, None, [{"symbol": "C", "price": 3.0}])
    view.flush()
    stream, buffers = browser.frames[0]["stream"], browser.buffers[0]
    assert decoded(stream["delivery"], buffers) == [0, 0, 1]
    assert decoded(stream["insert"], buffers) == [True, False, False]


def test_a_page_that_opens_later_gets_everything_again() -> None:
    source, view, browser = opened()
    source.tick(2)
    view.flush()
    browser.ack()
    browser.hello()
    view.flush()
    assert prices(browser) == [1.0, 2.0]
    assert browser.frames[-1]["stream"]["full"]


def test_a_cleared_feed_says_which_rows_are_gone() -> None:
    source, view, browser = opened()
    source.tick(2)
    view.flush()
    browser.ack()
    source.feed.clear()
    source.tick(1)
    view.flush(urgent=True)
    frame = browser.frames[-1]
    assert (frame["stream"]["first"], frame["counts"]["inserted"]) == (2, 1)


def test_the_window_is_read_only_while_it_is_shown() -> None:
    now = FakeTime()
    source, view, browser = opened(FakeStatement(contents=[{"symbol": "A", "price": 1.0}]), now=now)
    source.tick()
    view.flush()
    assert "window" not in browser.frames[-1] and source.reads == 0
    browser.ack()
    browser.show("window")
    view.flush(urgent=True)
    window = browser.frames[-1]["window"]
    assert (window["total"], window["count"], window["partition"]) == (1, 1, None)
    assert "stream" not in browser.frames[-1], "rows that nobody sees are not sent"


def test_reading_contents_takes_a_twelfth_of_the_time_at_most() -> None:
    now = FakeTime()

    class Slow(FakeStatement):
        def every(self, partition: int | None = None) -> FakeSheet:
            now.value += 0.02
            return super().every(partition)

    source, view, browser = opened(Slow(), now=now)
    browser.show("window")
    began = now.value
    while now.value < began + 10:
        source.tick()
        if view.flush():
            browser.ack()
        now.value += 0.001
    assert source.reads + 1 >= 10 / 0.33 and source.reads * 0.02 <= 10 / 12


def test_only_the_rows_in_sight_are_sent() -> None:
    held = [{"symbol": "A", "price": float(i)} for i in range(1500)]
    _, view, browser = opened(FakeStatement(contents=held))
    browser.say(kind="show", client="c", pane="window", partition=None, first=100, rows=40)
    view.flush(urgent=True)
    window = browser.frames[-1]["window"]
    assert (window["total"], window["count"], window["first"]) == (1500, 1000, 100)
    assert decoded(window["columns"][1], browser.buffers[-1]) == [600.0 + i for i in range(40)]
    browser.ack()
    browser.say(kind="show", client="c", pane="window", partition=None, first=2, rows=3, by="price", down=True)
    view.flush(urgent=True)
    assert decoded(browser.frames[-1]["window"]["columns"][1], browser.buffers[-1]) == [1497.0, 1496.0, 1495.0]


def test_while_a_replay_runs_the_newest_rows_are_sent_and_at_rest_all_that_a_page_keeps() -> None:
    replay = FakeReplay()
    source, view, browser = opened(FakeStatement(replaying=replay))
    replay.slice(1)
    browser.ack()
    source.tick(1500)
    view.flush(urgent=True)
    assert prices(browser) == [float(i) for i in range(1001, 1501)]
    browser.ack()
    source.tick(1)
    view.flush(urgent=True)
    assert prices(browser) == [1501.0]
    browser.ack()
    replay.slice(1, "finished")
    assert prices(browser) == [float(i) for i in range(502, 1502)], "what the feed has"


def test_a_large_window_is_cut_but_counted() -> None:
    _, view, browser = opened(FakeStatement(contents=[{"symbol": "A", "price": float(i)} for i in range(1500)]))
    browser.show("window")
    view.flush(urgent=True)
    assert (browser.frames[-1]["window"]["total"], browser.frames[-1]["window"]["count"]) == (1500, 1000)


def test_the_kernel_looks_through_a_large_window_for_what_the_page_seeks() -> None:
    rows = [{"symbol": "Ab" if i % 100 == 7 else "C", "price": float(i)} for i in range(1500)]
    _, view, browser = opened(FakeStatement(contents=rows))
    browser.say(kind="show", client="c", pane="window", partition=None, filter="aB  7.0")
    view.flush(urgent=True)
    window = browser.frames[-1]["window"]
    assert (window["total"], window["found"], window["count"]) == (1500, 15, 15)
    browser.ack()
    browser.say(kind="show", client="c", pane="window", partition=None, filter="")
    view.flush(urgent=True)
    assert "found" not in browser.frames[-1]["window"]


def test_choosing_a_partition_shows_its_rows() -> None:
    parts = {0: [{"symbol": "A", "price": 1.0}], 1: [{"symbol": "B", "price": 2.0}, {"symbol": "B", "price": 3.0}]}
    _, view, browser = opened(FakeStatement(parts=parts))
    assert view.info["context"] is True
    browser.show("partitions")
    view.flush(urgent=True)
    listed = browser.frames[-1]["partitions"]
    assert [c["name"] for c in listed["names"]] == ["id", "symbol", "events"] and listed["total"] == 2
    browser.ack()
    browser.show("window", partition=1)
    view.flush(urgent=True)
    assert (browser.frames[-1]["window"]["partition"], browser.frames[-1]["window"]["total"]) == (1, 2)


def test_two_pages_may_look_at_different_panes() -> None:
    _, view, browser = opened(FakeStatement(parts={0: [{"symbol": "A", "price": 1.0}]}))
    browser.show("partitions", client="one")
    browser.show("window", client="two")
    view.flush(urgent=True)
    assert {"window", "partitions"} <= set(browser.frames[-1])


def test_a_failing_read_is_shown_and_does_not_stop_the_stream() -> None:
    source, view, browser = opened()
    source.dropped = True
    source.tick()
    browser.show("window")
    view.flush(urgent=True)
    assert browser.frames[-1]["problem"] == "no statement out"
    browser.ack()
    browser.show("stream")
    view.flush(urgent=True)
    assert prices(browser) == [1.0]


def test_a_statement_that_was_deployed_anew_starts_over() -> None:
    source, view, browser = opened()
    source.tick(2)
    view.flush()
    browser.ack()
    source.feed, source.columns = Feed(100), (ViewColumn("symbol", "string"), ViewColumn("price", "long"))
    source.feed.push(1, [{"symbol": "Z", "price": 7}], None)
    view.flush(urgent=True)
    assert browser.frames[-1]["stream"]["full"] and prices(browser) == [7.0]
    assert view.info["columns"][1]["kind"] == "int"


def test_messages_that_make_no_sense_are_ignored() -> None:
    source, view, browser = opened()
    source.tick()
    for content in ({"kind": "ack", "n": "x"}, {"kind": "show", "client": "c", "pane": "boo"}, {}, {"kind": 3}):
        browser.say(**content)
    view._on_message(view, None, None)
    assert view.flush() and prices(browser) == [1.0]


def test_states() -> None:
    source, view, browser = opened()
    view.flush()
    assert browser.frames[-1]["state"] == "ready"
    browser.ack()
    source.tick()
    view.flush(urgent=True)
    assert browser.frames[-1]["state"] == "live"
    with pytest.raises(UsageError, match="no such state of a view: happy"):
        view.state = "happy"  # type: ignore[assignment]
    with pytest.raises(UsageError, match="at least 1 row"):
        StatementView(source, keep=0)


def test_a_view_follows_a_replay_to_its_end() -> None:
    source, view, browser = opened()
    replay, handle = FakeReplay(), FakeHandle()
    view.show(handle.display)
    view.follow(replay)
    source.tick(3)
    replay.slice(3)
    assert prices(browser) == [1.0, 2.0, 3.0] and view.state == "live"
    browser.ack()
    source.tick(1)
    replay.slice(1, "finished")
    assert prices(browser) == [4.0] and browser.frames[-1]["state"] == "finished"
    assert replay.subscribers == []
    assert [text.split("  ")[0] for text in handle.texts] == [f"out: {n} insert rows, 0 remove rows" for n in (0, 4)]
    assert "4 insert rows" in view.snapshot
    browser.ack()
    view.flush(urgent=True)
    assert browser.frames[-1]["state"] == "finished"
    browser.ack()
    source.tick(1)  # by hand, or from a live source
    view.flush(urgent=True)
    assert prices(browser) == [5.0] and browser.frames[-1]["state"] == "live"


def test_on_a_loop_the_view_updates_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "cepbook.widgets.base.frame_scheduler.RESEND_AFTER", 1000.0
    )  # a loaded machine must not look like a lost frame

    async def run() -> int:
        source = FakeStatement()
        view = StatementView(source, rate=1000)
        browser = FakeBrowser(view)
        browser.hello()
        await until(lambda: browser.frames)
        browser.ack()
        source.tick(2)
        await until(lambda: len(browser.frames) == 2)
        assert prices(browser) == [1.0, 2.0]
        view.close()
        source.tick(600)
        await asyncio.sleep(0.02)
        return len(browser.frames)

    assert asyncio.run(run()) == 2


def test_a_replay_that_starts_later_is_found_even_without_a_page() -> None:
    async def run() -> None:
        source, handle = FakeStatement(), FakeHandle()
        view = StatementView(source)
        view.show(handle.display)
        source.tick()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        replay = source.replaying = FakeReplay()
        source.tick()
        assert len(replay.subscribers) == 1
        replay.slice(1)
        replay.slice(1, "finished")
        assert len(handle.shown) == 2 and view.state == "finished"
        assert "2 insert rows" in view.snapshot

    asyncio.run(run())


def test_a_view_that_is_no_longer_displayed_costs_no_frames() -> None:
    source, view, browser = opened()
    browser.say(kind="hello", client="second")
    browser.say(kind="bye", client="second")
    source.tick()
    assert view.flush(), "the first page still looks"
    browser.say(kind="bye")
    browser.ack()
    source.tick()
    assert not view.flush(urgent=True)
    browser.hello()
    assert view.flush() and prices(browser) == [1.0, 2.0]


def test_pages_without_a_name_are_counted() -> None:
    source, view, browser = opened()
    browser.hello()
    browser.say(kind="bye")
    source.tick()
    assert view.flush(), "the other page still displays the view"
    browser.ack()
    browser.say(kind="bye")
    source.tick()
    assert not view.flush(urgent=True)


def test_a_message_whose_handling_fails_opens_acknowledges_and_closes_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(content: dict[str, Any]) -> None:
        raise ValueError("planted")

    source, view, browser = opened()
    assert view.flush()
    monkeypatch.setattr(view, "_receive", fail)
    browser.ack()
    assert "planted" in browser.frames[-1]["message"]
    monkeypatch.undo()
    source.tick()
    view.flush(urgent=True)
    assert prices(browser)[-1:] == [1.0], "the acknowledgement counts"
    browser.ack()
    monkeypatch.setattr(view, "_receive", fail)
    browser.say(kind="bye")
    assert not view.watched
    browser.hello()
    assert view.watched


def taken(view: StatementView, browser: FakeBrowser, **wanted: object) -> tuple[dict[str, Any], bytes]:
    """The last message about a file, and the file."""
    browser.ack()
    sent = len(browser.frames)
    browser.say(kind="take", client="c", id="1", **{"form": "csv", "stream": True, "partition": None, **wanted})
    view.flush(urgent=True)
    for download in view._downloads:
        download.join(60)
    messages = [
        (message, parts)
        for message, parts in zip(browser.frames[sent:], browser.buffers[sent:], strict=True)
        if message["kind"] == "download"
    ]
    return messages[-1][0], b"".join(part for _, parts in messages for part in parts)


def ticks(count: int) -> tuple[Workbench, StatementView, FakeBrowser]:
    """A workbench with a statement `out` that delivered insert and remove rows, and its view."""
    cep = Workbench()
    cep.run("create schema Tick(symbol string, price double); @name('out') select irstream * from Tick#length(2)")
    for price in range(1, count + 1):
        cep.send("Tick", symbol='A"\t', price=float(price))
    view = StatementView(WorkbenchSource(cep, "out"))
    browser = FakeBrowser(view)
    browser.hello()
    view.flush(urgent=True)
    return cep, view, browser


def test_rows_are_taken_as_files() -> None:
    _, view, browser = ticks(3)
    answer, made = taken(view, browser)
    assert (answer["file"], answer["rows"]) == ("out.csv", 4)
    row = '1970-01-01T00:00:00.000+00:00,0,insert,"A""\t",1.0'
    assert made.decode().splitlines()[:2] == ["time,seq,kind,symbol,price", row]
    _, made = taken(view, browser, form="text", stream=False)
    assert made.decode().splitlines() == ["symbol\tprice", '"A""\t"\t2.0', '"A""\t"\t3.0']
    _, made = taken(view, browser, form="parquet", stream=False)
    assert pd.read_parquet(io.BytesIO(made))["price"].tolist() == [2.0, 3.0]
