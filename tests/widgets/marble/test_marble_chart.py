"""The marble chart: its lanes, how many marks they have, and that nothing in it is left to chance."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from cepbook.charts.offline_renderer import SCHEMA
from cepbook.session import Workbench
from cepbook.widgets import charts
from cepbook.widgets.marble.marble_chart import MOST_LEVELS, MOST_ROWS, WIDTH, _width, marble_chart

pytestmark = pytest.mark.histories

EPOCH = 1_704_096_000_000


def drawn(epl: str, *events: tuple[int, str, float], start: int = 0, end: int = 0, **options: Any) -> dict[str, Any]:
    """The Vega-Lite specification of the chart of statement `s`."""
    cep = Workbench(start=start)
    cep.run(f"create schema Tick(symbol string, price double); @name('s') {epl}")
    for time, symbol, price in events:
        cep.advance(start + time, stepping=True)
        cep.send("Tick", symbol=symbol, price=price)
    cep.advance(max(cep.clock.ms, start + end), stepping=True)
    made = marble_chart(cep.marble("s", **options))._repr_mimebundle_(None, None)
    bundle = made[0] if isinstance(made, tuple) else made
    spec: dict[str, Any] = bundle[charts.MIME]
    assert bundle["text/plain"] == spec["description"]
    return spec


def layers(spec: dict[str, Any], mark: str) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The layers of a mark with their rows."""
    return [(layer, layer["data"]["values"]) for layer in spec["layer"] if layer["mark"]["type"] == mark]


def domain(spec: dict[str, Any]) -> list[float]:
    """The times at the edges of the plot. One layer has them: Vega would warn of the others."""
    (times,) = [
        x["scale"]["domain"]
        for layer in spec["layer"]
        if "domain" in (x := layer["encoding"].get("x", {})).get("scale", {})
    ]
    return list(times)


def lane_names(spec: dict[str, Any]) -> list[str]:
    return [rows[0]["label"] for layer, rows in layers(spec, "text") if layer["mark"].get("fontWeight") == "bold"]


def bars(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for _, rows in layers(spec, "rect") for row in rows]


def labels(spec: dict[str, Any], color: str) -> list[str]:
    """The labels of the points of a colour, in order."""
    heights = {(row["time"], row["y"]) for row in points(spec, color)}
    found = [row for layer, rows in layers(spec, "text") if layer["mark"]["align"] == "left" for row in rows]
    return [row["label"] for row in found if (row["time"], row["y"]) in heights]


def points(spec: dict[str, Any], color: str) -> list[dict[str, Any]]:
    found = [rows for layer, rows in layers(spec, "point") if layer["encoding"]["color"] == {"value": color}]
    return [row for rows in found for row in rows if "t0" in row]


INSERT, REMOVE, ARRIVAL = "#2da44e", "#cf222e", "#0969da"
BURST = ((0, "A", 1.0), (0, "B", 2.0), (5, "A", 3.0), (4_000, "C", 4.0))


def test_all_lanes_with_one_mark_per_event_and_row() -> None:
    spec = drawn("select irstream * from Tick#time(2 sec)", *BURST)
    assert lane_names(spec) == ["window", "arrivals", "insert stream", "remove stream"]
    assert [(row["time"], row["until"]) for row in bars(spec)] == [(0, 2_000), (0, 2_000), (5, 2_005), (4_000, 4_000)]
    assert labels(spec, ARRIVAL) == ["A 1.0", "B 2.0", "A 3.0", "C 4.0"]
    assert len(points(spec, INSERT)) == 4
    assert [row["time"] for row in points(spec, REMOVE)] == [2_000, 2_000, 2_005]
    assert spec["title"]["text"] == "s" and "Tick#time(2 sec)" in spec["title"]["subtitle"][0]


def test_marks_of_one_millisecond_lie_below_each_other() -> None:
    spec = drawn("select * from Tick#keepall", *[(0, "A", float(i)) for i in range(5)], end=1_000)
    heights = [row["y"] for row in points(spec, ARRIVAL)]
    assert len(set(heights)) == 5 and heights == sorted(heights)


def test_marks_that_are_far_from_each_other_share_a_level() -> None:
    spec = drawn("select * from Tick#keepall", *[(1_000 * i, "A", float(i)) for i in range(5)])
    assert len({row["y"] for row in points(spec, ARRIVAL)}) == 1


def test_a_batch_is_light_while_it_is_collected_and_joined_in_its_delivery() -> None:
    spec = drawn("select irstream * from Tick#length_batch(2)", *BURST, (4_500, "A", 5.0))
    phases = [(row["time"], row["until"], row["opacity"]) for row in bars(spec)]
    assert phases == [
        (0, 4_000, 0.85), (0, 4_000, 0.85), (5, 4_000, 0.3), (4_000, 4_500, 0.85), (4_000, 4_500, 0.85),
        (4_500, 4_500, 0.3),
    ]  # fmt: skip
    stems = [row for _, rows in layers(spec, "rule") for row in rows if "y2" in row]
    assert len(stems) == 3, "two insert deliveries and one remove delivery of two rows"
    assert "faint: collected, not in the window yet" in spec["title"]["subtitle"]


def test_unbound_statements_have_no_window_lane() -> None:
    spec = drawn("select symbol from Tick(price > 1)", *BURST)
    assert lane_names(spec) == ["arrivals", "insert stream", "remove stream"]
    assert bars(spec) == []


def test_what_an_rstream_delivers_stands_in_the_remove_stream() -> None:
    spec = drawn("select rstream * from Tick#length(1)", *BURST)
    assert points(spec, INSERT) == [] and len(points(spec, REMOVE)) == 3


def test_groups_have_colours_and_a_legend() -> None:
    spec = drawn("select * from Tick#groupwin(symbol)#length(1)", *BURST)
    ((layer, rows),) = layers(spec, "rect")
    assert [row["group"] for row in rows] == ["A", "B", "A", "C"]
    assert layer["encoding"]["color"]["scale"]["domain"] == ["A", "B", "C"]
    assert layer["encoding"]["color"]["legend"]["title"] == "symbol"


def test_the_axis_is_utc_for_dates_and_times_since_0() -> None:
    ((small, _),) = layers(drawn("select * from Tick#length(1)", *BURST), "rect")
    x = small["encoding"]["x"]
    assert x["type"] == "temporal" and x["scale"]["type"] == "utc" and x["axis"]["format"] == "%H:%M:%S"
    ((dated, _),) = layers(drawn("select * from Tick#length(1)", *BURST, start=EPOCH), "rect")
    assert dated["encoding"]["x"]["type"] == "temporal" and dated["encoding"]["x"]["scale"]["type"] == "utc"
    low, high = domain(drawn("select * from Tick#length(1)", *BURST, start=EPOCH))
    assert low < EPOCH and high > EPOCH + 4_000


def test_bars_that_began_before_the_plot_say_so() -> None:
    spec = drawn("select * from Tick#keepall", *BURST, events=1)
    shapes = [layer["mark"]["shape"] for layer, _ in layers(spec, "point") if "shape" in layer["mark"]]
    assert shapes == ["triangle-right", "triangle-left"]
    assert min(row["time"] for row in bars(spec)) == domain(spec)[0]


def test_large_deliveries_are_summed_up_and_crowds_lose_their_labels() -> None:
    spec = drawn("select * from Tick#length_batch(30)", *[(0, "A", float(i)) for i in range(30)], events=30)
    assert len(points(spec, INSERT)) == MOST_ROWS and labels(spec, INSERT)[-1] == "… 23 more"
    assert MOST_LEVELS < len(points(spec, ARRIVAL)) == 30 and labels(spec, ARRIVAL) == []


def test_many_bars_are_thin_and_have_no_labels() -> None:
    ticks = [(i, "A", float(i)) for i in range(90)]
    few, many = (drawn("select * from Tick#keepall", *ticks[:n], events=n) for n in (9, 90))
    assert few["height"] < many["height"] < 10 * few["height"]
    beside = [
        sum(len(rows) for layer, rows in layers(spec, "text") if layer["mark"]["align"] == "right")
        for spec in (few, many)
    ]
    assert beside == [4 + 9, 4], "names of lanes, and of few bars"


def test_tooltips_tell_everything_and_names_of_properties_are_no_fields() -> None:
    cep = Workbench()
    cep.run("create schema Odd(`a.b` string, label string, time long); @name('s') select * from Odd#length(1)")
    cep.send("Odd", {"a.b": "x", "label": "<b>", "time": 5})
    spec = marble_chart(cep.marble("s")).to_dict()
    layer = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "rect")
    titles = {tip["title"]: tip["field"] for tip in layer["encoding"]["tooltip"]}
    assert list(titles) == ["arrived", "entered", "left", "a.b", "label", "time"]
    row = layer["data"]["values"][0]
    assert (row[titles["a.b"]], row[titles["label"]], row[titles["time"]]) == ("x", "<b>", "5")


def test_it_fits_repeats_and_asks_nobody() -> None:
    epl = "select irstream symbol, sum(price) as total from Tick#time(2 sec) group by symbol"
    first, second = (drawn(epl, *BURST, start=EPOCH) for _ in range(2))
    assert first == second
    assert first["width"] == WIDTH <= 600
    assert [word for word in json.dumps(first).split('"') if word.startswith("http")] == [SCHEMA]


def test_a_statement_without_events_has_empty_lanes() -> None:
    spec = drawn("select * from Tick#length(1)")
    assert lane_names(spec) == ["window", "arrivals", "insert stream", "remove stream"]
    assert bars(spec) == []


def test_it_becomes_a_picture() -> None:
    pytest.importorskip("vl_convert")
    cep = Workbench()
    cep.run("create schema Tick(symbol string, price double); @name('s') select * from Tick#length(1)")
    cep.send("Tick", symbol="A", price=1)
    made = marble_chart(cep.marble("s"))._repr_mimebundle_(None, None)
    bundle = made[0] if isinstance(made, tuple) else made
    assert bundle["image/png"].startswith("iVBOR")


def test_a_legend_of_many_groups_fits() -> None:
    names = [f"CUSTOMER {number}" for number in range(30)]
    events = [(n, name, 1.0) for n, name in enumerate(names)]
    spec = drawn("select * from Tick#groupwin(symbol)#length(2)", *events, events=30)
    encodings = [layer["encoding"] for layer, _ in layers(spec, "rect")]
    widest = 26 + max(map(_width, names))
    for encoding in encodings:
        legend = encoding["color"]["legend"]
        assert 1 <= legend["columns"] <= 560 // widest and legend["labelLimit"] < 560
        assert encoding["stroke"]["legend"] == legend


def test_labels_of_wide_letters_lie_apart() -> None:
    assert _width("WM") > _width("ab") < _width("\u6771\u4eac")
    spec = drawn("select * from Tick#length(9)", *[(150 * n, "WWWWWWWW", 1.0) for n in range(8)], end=2_000)
    low, high = domain(spec)
    by_level: dict[float, list[float]] = {}
    for layer, rows in layers(spec, "text"):
        for row in rows if layer["mark"]["align"] == "left" else ():
            by_level.setdefault(row["y"], []).append(560 * (row["time"] - low) / (high - low))
    gaps = [later - earlier for xs in by_level.values() for earlier, later in pairwise(sorted(xs))]
    assert all(gap >= 8 * 7.8 for gap in gaps)
