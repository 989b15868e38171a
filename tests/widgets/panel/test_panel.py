"""The panel: what it sends, and that it is only what changed; the orders that it takes; what a saved notebook keeps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cepbook.errors import UsageError
from cepbook.session import Workbench
from cepbook.session.inspect.overview import field_text, parse_field_value
from cepbook.widgets.panel.workbench_panel import Panel, panel
from tests.waiting import until
from tests.widgets.fakes import FakeBrowser

HOSTILE = "<script>alert(1)</script>\u202e"
MODULE = f"""
create schema Tick(symbol string, price double, note string);
create variable double threshold = 5;
create constant variable int most = 3;
create variable string[] names;
create context PerSymbol partition by symbol from Tick;
create window Newest#unique(symbol) as Tick;
insert into Newest select * from Tick;
@name('high') select symbol, price from Tick(price > threshold);
@name('mean') context PerSymbol select symbol, avg(price) as mean from Tick#length(5);
@name('{HOSTILE}') select note from Tick;
@name('wrong') select cast(note, int) as n from Tick(price > 99)
"""


def bench() -> Workbench:
    cep = Workbench()
    cep.run(MODULE)
    for i in range(10):
        cep.send("Tick", symbol="AB"[i % 2], price=float(i), note=HOSTILE)
    return cep


def shown(widget: Panel) -> tuple[FakeBrowser, dict[str, Any]]:
    browser = FakeBrowser(widget)
    browser.hello()
    widget.flush(urgent=True)
    browser.ack()
    return browser, browser.frames[-1]


def ordered(widget: Panel, browser: FakeBrowser, order: str, **more: object) -> dict[str, Any]:
    """The frame that answers an order."""
    browser.say(kind="order", order=order, **more)
    widget.flush(urgent=True)
    browser.ack()
    return browser.frames[-1]


def items(frame: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    return {each["key"]: [(item[0], item[3]) for item in each["items"]] for each in frame["sections"]}


def test_everything_is_listed_with_its_figure() -> None:
    found = items(shown(panel(bench()))[1])
    assert ("high", "4") in found["statements"] and ("mean", "10") in found["statements"]
    assert found["types"] == [("Tick", "10")] and found["contexts"] == [("PerSymbol", "2")]
    assert found["stores"] == [("Newest", "2")] and found["errors"] == []
    assert found["variables"] == [("threshold", "5.0"), ("most", "3"), ("names", "null")]


def test_a_frame_carries_what_changed_and_nothing_is_sent_when_nothing_did() -> None:
    cep = bench()
    widget = panel(cep)
    browser, _ = shown(widget)
    widget.flush(urgent=True)
    assert len(browser.frames) == 1
    cep.advance(by="1 sec")
    widget.flush(urgent=True)
    assert set(browser.frames[-1]) == {"kind", "n", "clock"} and browser.frames[-1]["clock"] == "00:00:01.000"
    browser.ack()
    cep.send("Tick", symbol="C", price=1.0)
    widget.flush(urgent=True)
    assert "sections" in browser.frames[-1] and "detail" not in browser.frames[-1]


def test_what_a_lost_frame_said_is_said_again() -> None:
    cep = bench()
    widget = panel(cep)
    browser, _ = shown(widget)
    cep.advance(by="1 sec")
    widget.flush(urgent=True)  # lost: nobody answers
    browser.hello()
    widget.flush(urgent=True)
    assert browser.frames[-1]["clock"] == "00:00:01.000" and "sections" in browser.frames[-1]


def test_search_looks_at_names_kinds_and_values() -> None:
    widget = panel(bench())
    browser, _ = shown(widget)
    found = ordered(widget, browser, "search", text="SYMBOL key")
    assert items(found)["contexts"] == [("PerSymbol", "2")] and items(found)["statements"] == []
    assert [each["total"] for each in found["sections"]] == [5, 1, 1, 1, 3, 0]


def test_details_of_each_kind() -> None:
    widget = panel(bench())
    browser, _ = shown(widget)
    high = ordered(widget, browser, "select", section="statements", name="high")["detail"]
    assert "last delivery, 00:00:00.000" in high["html"] and "scan" in high["plan"]
    assert high["opens"] == {"name": "high", "line": "%view high", "why": "%epl why high"}
    hostile = ordered(widget, browser, "select", section="statements", name=HOSTILE)["detail"]
    assert "<script" not in hostile["html"] and "&lt;script&gt;" in hostile["html"]
    types = ordered(widget, browser, "select", section="types", name="Tick")["detail"]
    assert "price" in types["html"] and "read by" in types["html"]
    context = ordered(widget, browser, "select", section="contexts", name="PerSymbol")["detail"]
    assert "first partitions" in context["html"]
    store = ordered(widget, browser, "select", section="stores", name="Newest")["detail"]
    assert "last rows" in store["html"] and store["opens"]["line"] == "%view Newest"
    assert ordered(widget, browser, "select", section="statements", name="gone")["detail"] is None


def test_variables_are_set_as_their_type_says() -> None:
    cep = bench()
    widget = panel(cep)
    browser, _ = shown(widget)
    field = ordered(widget, browser, "select", section="variables", name="threshold")["detail"]["field"]
    assert field == {"value": "5.0", "type": "double"}
    assert ordered(widget, browser, "select", section="variables", name="most")["detail"].get("field") is None
    told = ordered(widget, browser, "set", name="threshold", text="much")
    assert told["said"] == {"threshold": "`much` is no value of type double"} and cep.get("threshold") == 5.0
    assert ordered(widget, browser, "set", name="threshold", text="7.5")["said"] == {} and cep.get("threshold") == 7.5
    ordered(widget, browser, "set", name="names", text='["a", "b"]')
    assert cep.get("names") == ["a", "b"]
    assert "is a constant" in ordered(widget, browser, "set", name="most", text="4")["said"]["most"]


def test_what_is_written_into_fields() -> None:
    types = bench().runtime.catalog.variables
    assert parse_field_value("null", types["threshold"].type) is None
    assert parse_field_value(" 4 ", types["most"].type) == 4
    with pytest.raises(UsageError, match=r"`a, b` is no value of type string\[\]: write an array"):
        parse_field_value("a, b", types["names"].type)
    with pytest.raises(UsageError, match=r"is no value of type string\[\]: write an array"):
        parse_field_value("[" * 100_000, types["names"].type)


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("localdate", "2024-01-02", "2024-01-02"),
        ("localtime", "10:30", "10:30:00"),
        ("localdatetime", "2024-01-02T10:30", "2024-01-02 10:30:00"),
        ("timestamp", "2024-01-02 10:30", "2024-01-02 10:30:00+00:00"),
        ("zoneddatetime", "2024-01-02T10:30+01:00", "2024-01-02 10:30:00+01:00"),
    ],
)
def test_dates_are_written_as_they_are_shown(kind: str, text: str, shown: str) -> None:
    cep = Workbench()
    cep.run(f"create variable {kind} v")
    of = cep.runtime.catalog.variables["v"].type
    for each in (text, shown):
        cep.set("v", parse_field_value(each, of))
        assert field_text(cep.get("v")) == shown
    with pytest.raises(UsageError, match=f"`soon` is no value of type {kind}: write it as in `"):
        parse_field_value("soon", of)


def test_the_clock_and_errors() -> None:
    cep = bench()
    cep.run("@name('late') select * from Tick#time(10 sec) output every 3 sec")
    cep.send("Tick", symbol="A", price=1.0)
    widget = panel(cep)
    browser, first = shown(widget)
    assert first["due"] == "00:00:03.000"
    assert ordered(widget, browser, "advance")["clock"] == "00:00:01.000"
    assert ordered(widget, browser, "due")["clock"] == "00:00:03.000"
    with pytest.raises(Exception, match="failed"):
        cep.send("Tick", symbol="A", price=100.0, note="x")
    widget.flush(urgent=True)
    browser.ack()
    assert items(browser.frames[-1])["errors"] == [("wrong", "1")]
    detail = ordered(widget, browser, "select", section="errors", name="wrong")["detail"]
    assert "cc-error" in detail["html"]
    assert items(ordered(widget, browser, "clear"))["errors"] == []
    assert cep.errors == () and cep.failures == {}


def test_a_live_clock_that_ended_is_told() -> None:
    cep = bench()

    async def ends() -> None:
        async def gone(seconds: float) -> None:
            raise OSError("gone")

        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        clock = cep.run_clock(here=True, sleep=gone)
        await until(lambda: not clock.running)

    asyncio.run(ends())
    assert shown(panel(cep))[1]["said"] == {"clock": "the live clock ended: OSError: gone"}


def test_a_view_opens_below() -> None:
    widget = panel(bench())
    browser, _ = shown(widget)
    browser.say(kind="order", order="open", what="view", name="high")
    widget.flush(urgent=True)
    first = widget.opened
    assert first
    browser.say(kind="order", order="open", what="map")
    widget.flush(urgent=True)
    assert widget.opened not in ("", first)
    widget.close()


def test_without_a_workbench_it_says_so_and_comes_back() -> None:
    held: list[Workbench] = []

    def find() -> Workbench:
        if not held:
            raise UsageError("the variable `cep` is gone")
        return held[0]

    widget = Panel(find)
    browser, frame = shown(widget)
    assert frame["note"] == "the variable `cep` is gone" and "cep" in widget.freeze().text
    held.append(bench())
    widget.flush(urgent=True)
    assert browser.frames[-1]["note"] == "" and items(browser.frames[-1])["types"] == [("Tick", "10")]


def test_a_saved_panel_is_the_same_for_the_same_state() -> None:
    cep = bench()
    frozen = panel(cep).freeze()
    assert frozen == panel(cep).freeze() and "<script" not in frozen.html
    assert "Variables (3)" in frozen.text and "threshold" in frozen.text
    assert panel(Workbench()).freeze().text == "clock 00:00:00.000"
