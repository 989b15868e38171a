"""Messages of a page that make no sense, to every widget: an answer, and nothing has changed.

A new subclass of `LiveWidget` needs a line in `WIDGETS`; `test_every_widget_is_here` says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cepbook import Workbench
from cepbook.session.replay.live_ingestion import Live
from cepbook.widgets import ReplayControl, view
from cepbook.widgets.base.control import ControlWidget
from cepbook.widgets.base.live_widget import CLIENT_NAME, CLIENTS, FeedView, LiveWidget
from cepbook.widgets.charts.chart_view import chart
from cepbook.widgets.live_bar.live_control import LiveControl
from cepbook.widgets.map.flow_map import FlowMap
from cepbook.widgets.panel.workbench_panel import panel

MODULE = """create schema Tick(symbol string, price double);
create variable double least = 1;
@name('all') select * from Tick(price > least)#length(3)"""
WRONG = (None, True, -1, 10**400, 1.5, float("nan"), float("inf"), "", "x" * 100_000, [], [[]], {}, {"kind": "x"})
KINDS = (
    "hello", "bye", "ack", "size", "zoom", "row", "seek", "show", "expand", "why", "take", "open", "order", "frame",
    "error", "nothing", "",
)  # fmt: skip
ORDERS = (
    "pause",
    "step",
    "seek",
    "hop",
    "mark",
    "unmark",
    "speed",
    "until",
    "clock",
    "select",
    "search",
    "set",
    "open",
    "",
)
FIELDS = (
    "client", "n", "pane", "partition", "first", "rows", "filter", "by", "opened", "shut", "delivery", "behind",
    "insert", "id", "form", "stream", "name", "what", "section", "text", "time", "statement", "back", "factor", "due",
    "columns", "range", "feed", "series", "place",
)  # fmt: skip


def workbench() -> Workbench:
    cep = Workbench()
    cep.run(MODULE)
    cep.send("Tick", symbol="a", price=2.0)
    return cep


def replayed() -> Any:
    cep = workbench()
    replay = cep.replay([{"symbol": "a", "price": 3.0, "ts": n} for n in range(5)], type="Tick", time="ts")
    return ReplayControl(replay), cep


def live_sources() -> tuple[LiveWidget, Workbench]:
    cep = workbench()

    async def ended() -> Live:
        return await cep.live({"Tick": [{"symbol": "a", "price": 3.0}]})

    return LiveControl(asyncio.run(ended())), cep


def with_workbench(make: Callable[[Workbench], LiveWidget]) -> Callable[[], tuple[LiveWidget, Workbench]]:
    def made() -> tuple[LiveWidget, Workbench]:
        cep = workbench()
        return make(cep), cep

    return made


WIDGETS: dict[str, Callable[[], tuple[LiveWidget, Workbench]]] = {
    "StatementView": with_workbench(lambda cep: view(cep, "all")),
    "Panel": with_workbench(panel),
    "FlowMap": with_workbench(FlowMap),
    "ReplayControl": replayed,
    "LiveControl": live_sources,
    "ChartView": with_workbench(lambda cep: chart(cep, "all")),
}


def subclasses(of: type) -> list[type]:
    return [inner for cls in of.__subclasses__() for inner in (cls, *subclasses(cls))]


def test_every_widget_is_here() -> None:
    widgets = {cls.__name__ for cls in subclasses(LiveWidget) if cls.__module__.startswith("cepbook.")}
    assert widgets - {ControlWidget.__name__, FeedView.__name__} == set(WIDGETS)


def listening(widget: LiveWidget) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    widget.send = lambda content, buffers=None: sent.append(content)  # type: ignore[method-assign]
    widget._handle_msg(custom({"kind": "hello", "client": "page"}))
    widget.flush(urgent=True)
    sent.clear()
    return sent


def custom(content: Any) -> dict[str, Any]:
    return {"content": {"data": {"method": "custom", "content": content}}, "buffers": []}


def picture(widget: LiveWidget, cep: Workbench) -> tuple[Any, ...]:
    """The workbench, and all traits that the page has a copy of."""
    traits = {name: getattr(widget, name) for name in widget.keys if name not in ("layout", "comm")}
    return cep.runtime.now, cep.get("least"), list(cep.runtime.statements), cep.changes("all").to_csv(), traits


@pytest.mark.parametrize("name", WIDGETS)
def test_messages_that_make_no_sense(name: str) -> None:
    widget, cep = WIDGETS[name]()
    sent, before = listening(widget), picture(widget, cep)
    senseless = [*WRONG, *({"kind": wrong} for wrong in WRONG), *({"kind": kind, "client": 7} for kind in KINDS)]
    senseless += [{"kind": "order", "order": wrong, "name": wrong} for wrong in WRONG]
    senseless += [{"kind": "hello", "client": wrong} for wrong in WRONG if wrong not in (None, "")]
    for message in senseless:
        sent.clear()
        widget._handle_msg(custom(message))
        assert [answer["kind"] for answer in sent] == ["error"], message
        assert len(sent[0]["message"]) < 300
    for message in ({}, {"content": None}, {"content": {"data": {}}}, {"content": {"data": {"method": "x"}}}):
        sent.clear()
        widget._handle_msg(message)
        assert [answer["kind"] for answer in sent] == ["error"], message
    assert picture(widget, cep) == before
    widget.close()


@pytest.mark.histories
@pytest.mark.parametrize("name", WIDGETS)
def test_fields_of_wrong_types_raise_nothing(name: str) -> None:
    widget, _ = WIDGETS[name]()
    sent = listening(widget)
    count = 0
    for kind in KINDS:
        for order in ORDERS if kind == "order" else ("",):
            good = {"kind": kind, "order": order, "client": "page", "n": 1, "delivery": 0, "behind": 0, "insert": True}
            good |= {
                "name": "least",
                "pane": "stream",
                "form": "csv",
                "id": "x",
                "text": "1",
                "time": 1,
                "section": "types",
            }
            for field in FIELDS:
                for wrong in WRONG:
                    widget._handle_msg(custom({**good, field: wrong}))
                    widget.flush(urgent=True)
                    count += 1
                    del sent[:]
    assert widget.freeze().text
    print(name, count, "messages")
    widget.close()


@pytest.mark.parametrize("name", WIDGETS)
def test_a_page_changes_no_trait(name: str) -> None:
    widget, cep = WIDGETS[name]()
    sent, before = listening(widget), picture(widget, cep)
    for trait in (*widget.keys, "_esm", "_css", "snapshot", "info", "own", "nothing"):
        for value in ("", "export default {}", None, {}, 7):
            sent.clear()
            widget._handle_msg({"content": {"data": {"method": "update", "state": {trait: value}}}, "buffers": []})
            assert "error" in [answer.get("kind") for answer in sent]
    for state in WRONG:
        widget._handle_msg({"content": {"data": {"method": "update", "state": state}}, "buffers": []})
    assert picture(widget, cep) == before
    widget.close()


@pytest.mark.parametrize("name", WIDGETS)
def test_names_of_clients_are_bounded(name: str) -> None:
    widget, _ = WIDGETS[name]()
    listening(widget)
    for number in range(1000):
        widget._handle_msg(custom({"kind": "hello", "client": f"page {number}"}))
        widget._handle_msg(custom({"kind": "show", "client": f"page {number}", "pane": "stream"}))
    widget._handle_msg(custom({"kind": "hello", "client": "x" * (CLIENT_NAME + 1)}))
    assert len(widget._clients) <= CLIENTS
    assert len(getattr(widget, "_shown", ())) <= CLIENTS
    assert max(map(len, widget._clients)) <= CLIENT_NAME
    widget.close()


@pytest.mark.parametrize("name", WIDGETS)
def test_a_page_beyond_the_limit_gets_frames_when_the_others_are_closed(name: str) -> None:
    widget, _ = WIDGETS[name]()
    listening(widget)
    pages = [f"page {number}" for number in range(CLIENTS + 1)]
    for kind, clients in (("hello", pages), ("bye", pages[:-1])):
        for client in clients:
            widget._handle_msg(custom({"kind": kind, "client": client}))
    assert widget.watched
    widget._pump.shut()  # as after many frames without an acknowledgement
    widget._handle_msg(custom({"kind": "hello", "client": "another"}))
    assert widget.watched and widget._clients == {"another"}
    widget._handle_msg(custom({"kind": "bye", "client": "another"}))
    assert not widget.watched
    widget.close()
