"""The chart of a statement in the notebook: what its frames and its picture say, and what pages ask of it."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.errors import UsageError
from cepbook.widgets import ReplayControl
from cepbook.widgets.charts import chart_picture
from cepbook.widgets.charts.chart_frames import KINDS, ChartOptions
from cepbook.widgets.charts.chart_source import ChartSource, charted_columns
from cepbook.widgets.charts.chart_view import ChartView
from cepbook.widgets.charts.chart_view import chart as chart_of
from tests.widgets.fakes import FakeBrowser, FakeHandle, FakeTime

SCHEMA = "create schema Tick(symbol string, price double, size int)"


def bench(rows: int = 0, **options: Any) -> Workbench:
    cep = Workbench(**options)
    cep.run(SCHEMA)
    cep.run("@name('out') select * from Tick")
    if rows:
        cep.replay(ticks(rows), "Tick", "time").run()
    return cep


def ticks(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    price = rng.normal(size=rows).cumsum()
    price[rng.integers(0, rows, 2)] = 911.0, -788.0
    symbols = np.array(list("ABC"))[rng.integers(0, 3, rows)]
    return pd.DataFrame({"time": np.arange(rows) * 100, "symbol": symbols, "price": price, "size": np.arange(rows) % 7})


def opened(cep: Workbench, **options: Any) -> tuple[ChartView, FakeBrowser]:
    now = FakeTime()
    drawn = ChartOptions(options.pop("kind", "line"), None, options.pop("thresholds", ()))
    chart = ChartView(ChartSource(cep, options.pop("name", "out"), **options), drawn, now=now, spent=now)
    browser = FakeBrowser(chart)
    browser.hello()
    chart.flush(urgent=True)
    return chart, browser


def drawn(browser: FakeBrowser) -> pd.DataFrame:
    """The points of the last frame."""
    frame, parts = browser.frames[-1], browser.buffers[-1]
    start, end = frame["range"]
    pieces = []
    for series in frame["series"]:
        x, y = np.frombuffer(parts[series["x"]], np.float32), np.frombuffer(parts[series["y"]], np.float64)
        pieces.append(pd.DataFrame({"label": series["label"], "time": start + x * (end - start), "value": y}))
    return pd.concat(pieces)


def asks(browser: FakeBrowser, chart: ChartView, **content: Any) -> dict[str, Any]:
    """Send a message of the page and return the frame that answers it."""
    browser.ack()
    browser.say(client="c", **content)
    chart.flush(urgent=True)
    return browser.frames[-1]


def test_the_extremes_of_any_number_of_rows_are_those_of_pandas() -> None:
    frame = ticks(150_000)
    cep = bench(feed_capacity=20_000)
    cep.replay(frame, "Tick", "time").run()
    _, browser = opened(cep)
    points = drawn(browser)
    assert len(points) < 13_000
    for statistic in ("min", "max"):
        expected = frame.groupby("symbol").price.agg(statistic)
        assert points.groupby("label").value.agg(statistic).to_dict() == expected.to_dict()
    assert (frame.price.min(), frame.price.max()) == (-788.0, 911.0)
    for series in browser.frames[-1]["series"]:
        own = frame.price[frame.symbol == series["label"]]
        assert series["values"] == (own.min(), own.max())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_frame_and_a_picture(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cep = bench(3_000)
    chart, browser = opened(cep, kind=kind, thresholds=(100.0,))
    frame = browser.frames[-1]
    if kind == "heat":
        counts = np.frombuffer(browser.buffers[-1][frame["heat"]["b"]], np.float32)
        assert counts.sum() == 3_000 and counts.max() == frame["heat"]["most"]
    elif kind == "band":
        for series in frame["series"]:
            low, mean, high = (np.frombuffer(browser.buffers[-1][b], np.float64) for b in series["band"])
            assert (low <= mean).all() and (mean <= high).all()
    else:
        assert drawn(browser).value.max() == 911.0
    specs: list[dict[str, Any]] = []
    monkeypatch.setattr(chart_picture, "vega_png", lambda spec: specs.append(spec) or "cGlj")
    picture = chart.freeze()
    assert "data:image/png;base64,cGlj" in picture.html and picture.text.startswith(
        "out: price by symbol  (3,000 rows)"
    )
    assert specs[0]["layer"][-1]["mark"]["type"] == "rule"


def test_columns_series_and_options_are_chosen() -> None:
    cep = bench(700)
    chart, browser = opened(cep, y=["price", "size"], by="symbol")
    assert {series["label"] for series in browser.frames[-1]["series"]} >= {"A price", "A size", "C size"}
    chart, browser = opened(cep, y=["size"], by="size")
    assert [series["label"] for series in browser.frames[-1]["series"]] == list("0123456")
    assert chart.info["title"] == "out: size by size"
    for wrong, message in (({"y": ["pric"]}, "did you mean `price`"), ({"by": "symbl"}, "did you mean `symbol`")):
        with pytest.raises(UsageError, match=message):
            chart_of(cep, "out", **wrong)
    with pytest.raises(UsageError, match="did you mean `out`"):
        chart_of(cep, "outt")
    with pytest.raises(UsageError, match="did you mean `line`"):
        chart_of(cep, "out", kind="lin")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="from a lower to a higher value, not from 2 to 1"):
        chart_of(cep, "out", values=(2.0, 1.0))


def test_a_range_is_shown_by_all_charts_and_shows_more_of_it() -> None:
    cep = bench(100_000)
    (one, page), (_, other) = opened(cep), opened(cep, y=["size"])
    other.ack()
    frame = asks(page, one, kind="zoom", range=[50_000, 60_000])
    assert frame["range"] == [50_000, 60_000] and frame["zoomed"] and other.frames[-1]["range"] == [50_000, 60_000]
    points = drawn(page)
    inside = points[(points.time >= 50_000) & (points.time <= 60_000)]
    assert len(inside) == 101 and len(points) <= 101 + 6, "all rows, and of each series one at either side"
    frame = asks(page, one, kind="zoom", range=None)
    assert not frame["zoomed"] and frame["range"] == [0, 9_999_900] == frame["all"]


def test_the_instant_of_the_bar_is_told() -> None:
    cep = bench()
    replay = cep.replay(ticks(100), "Tick", "time", keep=20)
    replay.run()
    chart, page = opened(cep)
    assert page.frames[-1]["instant"] is None and page.frames[-1]["state"] == "live"
    page.ack()
    cep.glance.show(4_950, replay.at(4_950))
    assert page.frames[-1]["instant"] == 4_950 and page.frames[-1]["state"] == "past"
    page.ack()
    cep.glance.leave()
    assert page.frames[-1]["instant"] is None
    chart.close()


def test_a_page_moves_the_bar_and_the_bar_knows_the_range() -> None:
    cep = bench()
    replay = cep.replay(ticks(100), "Tick", "time", keep=20)
    replay.run()
    chart, page = opened(cep)
    asks(page, chart, kind="seek", time=4_950)
    assert cep.glance.time is None, "nobody shows the past"
    bar = ReplayControl(replay)
    assert asks(page, chart, kind="seek", time=4_950)["instant"] == 4_950 and cep.glance.time == 4_950
    asks(page, chart, kind="zoom", range=[1_000, 2_000])
    scrub: Any = bar._state()["scrub"]
    assert scrub["zoom"] == [1_000, 2_000] and scrub["past"] == 4_950
    asks(page, chart, kind="seek", time=10**9)
    assert cep.glance.time is None
    page.say(kind="seek", client="c", time="now")
    assert page.frames[-1]["kind"] == "error"


def test_a_row_is_told_when_a_page_asks() -> None:
    cep = bench(50, feed_capacity=10)
    chart, page = opened(cep)
    series = [one["label"] for one in page.frames[-1]["series"]].index("B")
    frame = asks(page, chart, kind="row", feed=1, series=series, place=2)
    cells = dict(frame["row"]["cells"])
    expected = ticks(50).query("symbol == 'B'").iloc[2]
    assert cells["symbol"] == "B" and float(cells["price"]) == pytest.approx(expected.price, abs=1e-3)
    assert cells["time"] == f"00:00:0{expected.time / 1000:.3f}"
    for wrong in ({"feed": 0}, {"series": 99}, {"place": 10**9}):
        request = {"feed": 1, "series": 0, "place": 0, **wrong}
        assert asks(page, chart, kind="row", **request)["row"]["cells"] == []


def test_the_chart_follows_a_statement_that_is_replaced_and_dropped() -> None:
    cep = bench(20)
    chart, page = opened(cep)
    page.ack()
    cep.run("@name('out') select symbol, size from Tick")
    chart.flush(urgent=True)
    assert chart.info["title"] == "out: size" or chart.info["title"] == "out: size by symbol"
    cep.send("Tick", symbol="A", price=1.0, size=3)
    page.ack()
    chart.flush(urgent=True)
    assert page.frames[-1]["rows"] == 1
    text = chart.freeze().text
    page.ack()
    cep.drop("out")
    chart.flush(urgent=True)
    assert page.frames[-1]["state"] == "dropped" and chart.freeze().text == text, "the last picture stays"
    cep.run("@name('out') select symbol from Tick")
    page.ack()
    chart.flush(urgent=True)
    assert "no numeric column" in page.frames[-1]["note"]


def test_rows_come_while_events_arrive_and_a_rewind_begins_anew() -> None:
    async def run() -> None:
        cep = bench()
        chart = chart_of(cep, "out")
        browser = FakeBrowser(chart)
        browser.hello()
        await asyncio.sleep(0.05)
        assert browser.frames[-1]["range"] is None
        for count in (1, 2):
            browser.ack()
            cep.send("Tick", symbol="A", price=1.0, size=1)
            for _ in range(200):
                await asyncio.sleep(0.01)
                if browser.frames[-1]["rows"] == count:
                    break
            assert browser.frames[-1]["rows"] == count
        browser.ack()
        cep.rewind()
        chart.flush(urgent=True)
        assert browser.frames[-1]["rows"] == 0

    asyncio.run(run())


def test_a_column_with_many_texts_is_no_series() -> None:
    cep = bench()
    for number in range(30):
        cep.send("Tick", symbol=f"s{number}", price=1.0, size=1)
    chart, browser = opened(cep)
    assert chart.info["title"] == "out: price" and len(browser.frames[-1]["series"]) == 1
    chart, browser = opened(cep, by="symbol")
    assert len(browser.frames[-1]["series"]) == 20
    assert "the 20 values of symbol with the most rows, of 30" in browser.frames[-1]["note"]
    few = bench(10)
    chart, browser = opened(few)
    assert chart.info["title"] == "out: price by symbol"
    for number in range(30):
        few.send("Tick", symbol=f"s{number}", price=1.0, size=1)
    browser.ack()
    chart.flush(urgent=True)
    assert chart.info["title"] == "out: price" and browser.frames[-1]["rows"] == 40


def test_the_saved_picture_is_of_the_rows_at_the_end_of_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart_picture, "vega_png", lambda spec: None)
    cep, handle = bench(), FakeHandle()
    chart = chart_of(cep, "out")
    chart.show(handle.display)
    assert handle.texts == ["out: price by symbol  (0 rows)"]
    cep.replay(ticks(500), "Tick", "time").run()
    assert handle.texts[-1] == "out: price by symbol  (500 rows)"
    assert handle.shown[-1]["text/plain"].splitlines()[1].split() == [
        "series",
        "rows",
        "nulls",
        "least",
        "greatest",
        "last",
    ]


def test_nulls_are_gaps_and_hostile_names_are_harmless() -> None:
    cep = Workbench()
    cep.run("create schema T(s string, v double); @name('<b>out') select * from T")
    for number in range(9):
        cep.send("T", s="<img src=x onerror=alert(1)>\u202e", v=None if number == 4 else float(number))
        cep.advance(by="1 sec")
    chart, browser = opened(cep, name="<b>out")
    assert drawn(browser).value.isna().tolist() == [number == 4 for number in range(9)]
    html = chart.freeze().html
    assert "<b>" not in html and "<img src=x" not in html and "\u202e" not in html and "data:image/png" in html


def test_messages_that_make_no_sense_change_nothing() -> None:
    cep = bench(10)
    chart, page = opened(cep)
    for content in (
        {"range": [1]}, {"range": [2, 1]}, {"range": ["a", "b"]}, {"range": [0, 10**30]}, {"range": [0, float("nan")]},
    ):  # fmt: skip
        page.say(kind="zoom", client="c", **content)
        assert page.frames[-1]["kind"] == "error"
    page.say(kind="row", client="c", feed=1, series=-1, place=0)
    assert page.frames[-1]["kind"] == "error" and cep.glance.zoom is None
    page.say(kind="size", client="c", columns=10**9, rows=-5)
    page.say(kind="ack", n=1)
    chart.flush(urgent=True)
    assert len(drawn(page)) == 10


def test_which_columns_are_drawn() -> None:
    cep = Workbench()
    cep.run("create schema T(s string, n int, v double, w double); @name('out') select * from T")
    types = cep.runtime.statement("out").output_type.properties
    assert charted_columns("out", types, frozenset(), ()) == ("v",)
    assert charted_columns("out", types, frozenset(), ("w", "n", "w")) == ("w", "n")
    with pytest.raises(UsageError, match="no column `vv`\n  hint: there are"):
        charted_columns("out", types, frozenset(), ("vv",))
    with pytest.raises(UsageError, match="holds text, and a chart draws numbers: it has `n`, `v`, `w`"):
        charted_columns("out", types, frozenset(), ("s",))
    with pytest.raises(UsageError, match="no numeric column to draw; its columns: `s`"):
        charted_columns("out", {"s": types["s"]}, frozenset(), ())
