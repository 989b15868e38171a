from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pandas as pd
import pytest
import vl_convert

from cepbook import Workbench
from cepbook.charts import builders, offline_renderer
from cepbook.charts.theme import CONFIG, printed, themed
from cepbook.errors import UsageError
from cepbook.widgets import charts

pytestmark = pytest.mark.histories

START = 1_357_016_400_000


def frame(n: int = 6) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "time": START + 60_000 * np.arange(n),
            "seq": range(n),
            "kind": ["insert"] * (n - 1) + ["remove"],
            "carrier": (["UA", "AA"] * n)[:n],
            "flights": range(n),
            "delay": np.linspace(0, 1, n),
        }
    )


def workbench(columns: str = "delay, carrier") -> Workbench:
    """A workbench whose statement `late` delivered six insert rows and a remove row, one a second."""
    cep = Workbench()
    cep.run(f"create schema D(delay double, carrier string); @name('late') select irstream {columns} from D#length(5)")
    for number in range(6):
        cep.send("D", delay=10.0 * number, carrier="AB"[number % 2])
        cep.advance(by="1 sec")
    return cep


def bundle(chart: Any) -> dict[str, Any]:
    made = chart._repr_mimebundle_(None, None)
    return dict(made[0] if isinstance(made, tuple) else made)


def test_the_renderer_writes_what_jupyterlab_can_draw_offline() -> None:
    shown = bundle(charts.line(frame(), "time", "delay", "carrier", title="delays"))
    spec = shown[charts.MIME]
    assert spec["$schema"].endswith("/v5.json")
    assert "text/html" not in shown
    assert shown["text/plain"] == "line chart 'delays', x: time, y: delay, color: carrier, 6 rows"
    assert shown["image/png"].startswith("iVBOR")
    addresses = [word for word in json.dumps(spec).split('"') if word.startswith("http")]
    assert addresses == [offline_renderer.SCHEMA]


def test_the_stored_picture_is_compressed_and_complete() -> None:
    vl_convert = pytest.importorskip("vl_convert")
    spec = bundle(charts.line(frame(), "time", "delay", "carrier"))[charts.MIME]
    plain = vl_convert.vegalite_to_png(spec, vl_version="5.21", scale=1)
    small = offline_renderer._compressed_png(plain)
    assert len(small) < len(plain) / 5
    assert small[:24] == plain[:24] and small[-12:] == plain[-12:], "size and end are the same"
    assert (_colours(small) == _colours(plain)).all()
    assert offline_renderer._compressed_png(small) == small


def _colours(png: bytes) -> np.ndarray:
    """The red, green, blue and alpha of all pixels of a picture as vl_convert or cepbook writes it."""
    chunks, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length) == (zlib.crc32(kind + data),)
        chunks[kind] = chunks.get(kind, b"") + data
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(height, -1)
    if chunks[b"IHDR"][9] == 6:
        assert set(lines[:, 0].tolist()) == {1}
        return np.cumsum(lines[:, 1:].reshape(height, width, 4), axis=1, dtype=np.uint8)
    assert set(lines[:, 0].tolist()) == {0}
    palette = np.frombuffer(chunks[b"PLTE"], dtype=np.uint8).reshape(-1, 3)
    alpha = np.frombuffer(chunks[b"tRNS"], dtype=np.uint8)
    return np.column_stack([palette, alpha])[lines[:, 1:]]


def test_a_picture_of_many_colours_or_another_form_stays_as_it_is() -> None:
    rows = np.random.default_rng(0).integers(0, 256, (40, 1 + 4 * 40), dtype=np.uint8)
    rows[:, 0] = 1
    form = struct.pack(">IIBBBBB", 40, 40, 8, 6, 0, 0, 0)
    for header, pixels in ((form, rows), (form, rows * 0), (form[:9] + b"\x02" + form[10:], rows)):
        *_, (kind, data) = offline_renderer._palette_chunks(header, [], pixels.tobytes())
        assert kind == b"IDAT" and zlib.decompress(data) == pixels.tobytes()


def test_the_same_chart_twice_is_the_same_bundle() -> None:
    first, second = (bundle(charts.line(frame(), "time", "delay")) for _ in range(2))
    assert first[charts.MIME] == second[charts.MIME] and first["text/plain"] == second["text/plain"]


def test_engine_time_becomes_a_time_axis_that_shows_utc_everywhere() -> None:
    spec = bundle(charts.line(frame(), "time", "delay"))[charts.MIME]
    assert spec["encoding"]["x"]["type"] == "temporal"
    (rows,) = spec["datasets"].values()
    assert rows[0]["time"] == "2013-01-01T05:00:00"  # no zone: Vega would move it into the reader's


def test_dates_on_an_axis_are_written_as_everywhere() -> None:
    hours = pd.DataFrame({"at": pd.date_range("2013-09-02 18:00", periods=9, freq="h"), "n": range(9)})
    form = charts.line(hours, "at", "n").to_dict()["encoding"]["x"]["axis"]["format"]
    assert (form["hours"], form["seconds"], form["date"], form["month"]) == ("%H:%M", "%H:%M:%S", "%m-%d", "%Y-%m")
    assert not any(twelve in part for part in form.values() for twelve in ("%I", "%p"))


def test_time_near_zero_stays_a_number() -> None:
    early = frame().assign(time=range(6))
    assert bundle(charts.line(early, "time", "delay"))[charts.MIME]["encoding"]["x"]["type"] == "quantitative"


def test_several_columns_become_several_lines() -> None:
    spec = bundle(charts.line(frame(), "time", ["delay", "flights"]))[charts.MIME]
    assert spec["encoding"]["color"]["field"] == "series"
    with pytest.raises(UsageError, match="not both"):
        charts.line(frame(), "time", ["delay", "flights"], "carrier")


def test_many_rows_are_thinned_per_series_and_it_is_said() -> None:
    many = frame(20_000)
    many.loc[[777, 9_001], "delay"] = [911.0, -788.0]
    spec = bundle(charts.line(many, "time", "delay", "carrier"))[charts.MIME]
    (rows,) = spec["datasets"].values()
    assert len(rows) <= builders.POINTS
    assert {row["carrier"] for row in rows} == {"UA", "AA"}
    assert [best(row["delay"] for row in rows) for best in (min, max)] == [-788.0, 911.0]
    assert spec["title"]["subtitle"] == f"{len(rows):,} of 20,000 rows, with all extremes"


@pytest.mark.parametrize(
    ("x", "y", "names"),
    [
        ("time", ["value", "series"], ["time", "value", "series"]),
        ("value", ["time", "series"], ["value", "value_", "series"]),
        ("series", ["value", "series"], ["series", "value", "series_"]),
        ("time", "time", ["time"]),
        ("time", ["value", "value"], ["time", "value"]),
    ],
)
def test_a_column_may_have_any_name_and_be_drawn_twice(x: str, y: str | list[str], names: list[str]) -> None:
    rows = pd.DataFrame({"time": [1, 2], "value": [3.0, 4.0], "series": [5, 6]})
    spec = bundle(charts.line(rows, x, y))[charts.MIME]
    (points,) = spec["datasets"].values()
    assert [list(point) for point in points] == [names] * len(points)
    assert len(points) == (4 if len(names) == 3 else 2)


def test_the_lines_may_be_those_of_the_values_that_are_drawn() -> None:
    spec = bundle(charts.line(frame(), "time", "delay", "delay"))[charts.MIME]
    assert [spec["encoding"][axis]["field"] for axis in ("y", "color")] == ["delay", "delay"]


def test_a_column_of_nulls_is_no_time() -> None:
    nulls = pd.DataFrame({"time": pd.array([None, None], dtype="Int64"), "delay": [1.0, 2.0]})
    assert bundle(charts.line(nulls, "time", "delay"))[charts.MIME]["encoding"]["x"]["type"] == "quantitative"


def test_a_line_chart_needs_a_column() -> None:
    with pytest.raises(UsageError, match="needs a column in y"):
        charts.line(frame(), "time", [])


def test_a_chart_of_too_many_lines_says_so() -> None:
    many = frame(20_000)
    many["carrier"] = np.arange(20_000) % 5_000
    with pytest.raises(UsageError, match="`carrier` has 5,000 values: of so many rows a line chart draws 1,250 lines"):
        charts.line(many, "time", "delay", "carrier")


def test_a_clock_beyond_the_year_2262_is_drawn() -> None:
    late = frame().assign(time=np.array(["2500-01-01"] * 6, "datetime64[ms]"))
    assert bundle(charts.line(late, "time", "delay", clock=True))[charts.MIME]["encoding"]["x"]["type"] == "temporal"


def test_a_missing_column_is_named() -> None:
    with pytest.raises(UsageError, match="no column dlay; it has: time, seq, kind"):
        charts.line(frame(), "time", "dlay")


def test_names_with_special_characters_are_fields_and_not_paths() -> None:
    odd = frame().rename(columns={"delay": "a.b[0]:Q"})
    assert bundle(charts.line(odd, "time", "a.b[0]:Q"))[charts.MIME]["encoding"]["y"]["field"] == r"a\.b\[0\]:Q"


def test_a_clock_that_began_at_0_shows_hours_and_no_date() -> None:
    early = frame().assign(time=lambda rows: rows["time"] - rows["time"].min())
    spec = bundle(charts.stream_chart(workbench(), "late"))[charts.MIME]
    x = spec["encoding"]["x"]
    assert x["type"] == "temporal" and x["axis"] == {"format": "%H:%M:%S"}
    assert spec["encoding"]["tooltip"][0]["format"] == "%H:%M:%S.%L"
    numbers = bundle(charts.line(early, "time", "delay"))[charts.MIME]["encoding"]["x"]
    assert numbers["type"] == "quantitative"  # of a frame nobody knows what its small numbers count


@pytest.mark.parametrize(
    ("start", "end", "axis"),
    [
        (0, 900, {"format": "%H:%M:%S.%L"}),
        (0, 5_000, {"format": "%H:%M:%S"}),
        (3_600_000, 5 * 3_600_000, {"format": "%H:%M"}),
        (builders.DATE_THRESHOLD_MS, builders.DATE_THRESHOLD_MS + builders.DAY_MS, {"format": "%m-%d %H:%M"}),
        (builders.DATE_THRESHOLD_MS, builders.DATE_THRESHOLD_MS + 5_000, {"format": "%H:%M:%S"}),
    ],
)
def test_labels_of_an_axis(start: int, end: int, axis: dict[str, str]) -> None:
    assert charts.labels(start, end) == axis


def test_later_days_of_a_clock_that_began_at_0_are_counted() -> None:
    axis = charts.labels(0, 3 * builders.DAY_MS)
    spec = {
        "data": {"values": [{"t": 0}, {"t": 3 * builders.DAY_MS}]},
        "mark": "point",
        "encoding": {
            "x": {"field": "t", "type": "temporal", "scale": {"type": "utc"}, "axis": {**axis, "tickCount": 4}}
        },
    }
    svg = vl_convert.vegalite_to_svg(spec, vl_version="5.21")
    shown = [text for text in re.findall(r">([^<>]+)</text>", svg) if ":" in text]
    assert shown[0] == "00:00" and shown[-1] == "3d 00:00"
    assert "1d 00:00" in shown and "2d 00:00" in shown


def test_a_stream_chart_chooses_its_columns_and_leaves_out_remove_rows() -> None:
    spec = bundle(charts.stream_chart(workbench(), "late"))[charts.MIME]
    encoding = spec["encoding"]
    assert [encoding[c]["field"] for c in ("x", "y", "color")] == ["time", "delay", "carrier"]
    (rows,) = spec["datasets"].values()
    assert len(rows) == 6
    with pytest.raises(UsageError, match="statement late has no numeric column"):
        charts.stream_chart(workbench("carrier"), "late")


@pytest.mark.parametrize("wide", [True, False])
def test_a_comparison_takes_long_and_wide_reports(wide: bool) -> None:
    report = pd.DataFrame({"statement": ["a", "b"], "equal": [10, 7], "only_here": [0, 3]})
    if not wide:
        report = report.melt(id_vars="statement", var_name="verdict", value_name="rows")
    spec = bundle(charts.comparison_chart(report))[charts.MIME]
    assert spec["encoding"]["color"]["scale"]["domain"] == ["equal", "only here"]
    (rows,) = spec["datasets"].values()
    assert sum(row["rows"] for row in rows) == 20


def test_a_chart_that_cannot_become_a_picture_still_draws_in_the_browser() -> None:
    shown = charts.render({"mark": "nonsense", "encoding": {}})
    assert "image/png" not in shown and charts.MIME in shown


@pytest.mark.histories
def test_a_picture_of_text_that_xml_cannot_hold() -> None:
    """In a process of its own: the renderer would end this one."""
    pytest.importorskip("vl_convert")
    program = """
from cepbook.widgets import charts
from cepbook.charts.theme import CONFIG, printed, themed
odd = [*range(32), 127, 0x85, 0xd800, 0xdfff, 0xfffe, 0xffff, 0x1f600]
for text in ["".join(map(chr, odd)), *(f"a{chr(code)}b" for code in odd)]:
    values = [{"x": 1, "s": text}]
    color = {"field": "s", "type": "nominal"}
    spec = {"data": {"values": values}, "mark": "point", "title": text, "encoding": {"color": color}}
    assert charts.render(spec)["image/png"].startswith("iVBOR"), repr(text)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_charts_have_the_colours_of_the_page_and_pictures_greys_for_any_page() -> None:
    spec = {"mark": "point", "encoding": {}, "config": {"axis": {"gridColor": "red"}, "view": {"stroke": None}}}
    shown = themed(spec)
    assert (
        shown["config"]["axis"] == CONFIG["axis"] | {"gridColor": "red"} and shown["config"]["view"]["stroke"] is None
    )
    assert "var(--jp-" in shown["config"]["text"]["color"] and shown["usermeta"]["embedOptions"]["renderer"] == "svg"
    plain = printed(shown)
    assert "var(" not in str(plain) and plain["background"] == "transparent"
    grey = plain["config"]["text"]["color"]
    assert min(_contrast(grey, paper) for paper in ("#ffffff", "#111111")) >= 4


def _contrast(one: str, other: str) -> float:
    """After WCAG."""

    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)
