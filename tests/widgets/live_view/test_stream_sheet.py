"""Search and order of the whole stream: all rows that the kernel keeps, while they come and go."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cepbook.feeds import Feed
from cepbook.widgets.base.column_encoding import BinaryBuffers
from cepbook.widgets.live_view.stream_sheet import StreamRequest, StreamSheet, stream_page
from tests.widgets.fakes import FakeBrowser, FakeStatement, decoded, opened

NAMES = ("symbol", "price")


def filled(feed: Feed, count: int, start: int = 0, seed: int = 0) -> None:
    """Deliver rows: mostly one insert row, some deliveries of several insert and remove rows, some of none."""
    dice = random.Random(seed)
    for time in range(start, start + count):
        inserts = [
            {"symbol": dice.choice(["A", "b", None]), "price": float(time)} for _ in range(dice.choice((0, 1, 1, 3)))
        ]
        removes = [{"symbol": "old", "price": -float(time)} for _ in range(dice.choice((0, 0, 2)))]
        feed.push(time, inserts or None, removes or None)


def naive(feed: Feed) -> list[tuple[int, bool, Any, Any]]:
    """All rows that the kernel keeps: delivery, sign, values."""
    rows = feed.whole()
    return list(zip(rows.numbers, rows.inserts, rows.column("symbol"), rows.column("price"), strict=True))


@pytest.mark.parametrize("log", [0, 1 << 20])
@pytest.mark.parametrize("capacity", [10, 1_000])
def test_all_kept_rows_are_searched_while_the_stream_grows(capacity: int, log: int) -> None:
    feed = Feed(capacity, log)
    sheet = StreamSheet(feed, NAMES, ())
    for step, count in enumerate((0, 5, 200, 1, 0, 40, 3_000, 2)):
        filled(feed, count, step * 10_000, step)
        sheet.refresh()
        rows = naive(feed)
        for content, passes in (
            ({"conditions": {"price": "> 100"}}, lambda row: row[3] > 100),
            ({"filter": "b"}, lambda row: "b" in str(row[2])),
            ({"minus": False}, lambda row: row[1]),
            ({"conditions": {"symbol": "null"}}, lambda row: row[2] is None),
            ({"before": 150}, lambda row: row[0] < 150),
        ):
            request = StreamRequest.of(content)
            places = sheet.rows(request, sheet.kept(request.before)).places
            found = list(
                zip(
                    sheet.numbers[places].tolist(),
                    sheet.inserts[places].tolist(),
                    sheet["symbol"].values(places),
                    sheet["price"].values(places),
                    strict=True,
                )
            )
            assert found == [row for row in rows if passes(row)], (step, content)
    feed.clear()
    filled(feed, 3, 90_000)
    sheet.refresh()
    assert len(sheet.kept()) == len(naive(feed))


def test_rows_of_a_page_know_how_many_of_their_delivery_follow() -> None:
    feed = Feed(1_000)
    filled(feed, 100)
    sheet = StreamSheet(feed, NAMES, ())
    sheet.refresh()
    buffers = BinaryBuffers()
    page = stream_page(sheet, StreamRequest.of({"by": "price", "down": True}), None, range(300), buffers)
    rows = naive(feed)
    behind = decoded(page["behind"], buffers.parts)  # type: ignore[arg-type]
    sent = list(zip(*(decoded(page[name], buffers.parts) for name in ("delivery", "insert")), strict=True))  # type: ignore[arg-type]
    assert page["found"] == page["total"] == len(rows) == len(sent)
    for (number, insert), follow in zip(sent, behind, strict=True):
        side = sum(row[:2] == (number, insert) for row in rows)
        assert 0 <= follow < side
    assert sorted(behind) == sorted(
        rank for number in {row[0] for row in rows} for sign in (True, False)
        for rank in range(sum(row[:2] == (number, sign) for row in rows))
    )  # fmt: skip


def look(browser: FakeBrowser, view: Any, **request: Any) -> dict[str, Any]:
    browser.ack()
    browser.say(kind="show", client="c", pane="stream", partition=None, request="r", **request)
    view.flush(urgent=True)
    frame: dict[str, Any] = browser.frames[-1]
    return frame


def test_a_page_searches_more_than_it_has() -> None:
    source = FakeStatement()
    source.tick(5_000)
    _, view, browser = opened(source, keep=10)
    view.flush()
    page = look(browser, view, conditions={"price": "<= 4003", "symbol": "a"}, first=0, rows=20)["found"]
    assert (page["request"], page["found"], page["total"]) == ("r", 3, 1_000)  # the feed keeps 1,000 rows
    page = look(browser, view, conditions={"price": "4001 .. 4003"}, first=0, rows=20)["found"]
    assert (page["found"], decoded(page["columns"][1], browser.buffers[-1])) == (3, [4001.0, 4002.0, 4003.0])
    page = look(browser, view, by="price", down=True, first=2, rows=2)["found"]
    assert decoded(page["columns"][1], browser.buffers[-1]) == [4998.0, 4997.0]
    page = look(browser, view, plus=True, minus=False, tail=True, first=0, rows=2)["found"]
    assert (page["first"], decoded(page["columns"][1], browser.buffers[-1])) == (998, [4999.0, 5000.0])
    page = look(browser, view, conditions={"price": "> x", "symbol": "= A"}, first=0, rows=2)["found"]
    assert list(page["problems"]) == ["price"] and page["found"] == 1_000
    assert "found" not in look(browser, view, first=0, rows=2)
    assert view._sheet is None, "memory is used only while somebody searches"
