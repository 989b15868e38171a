"""What magics show in JupyterLab, as a person tries it: sliders, the live clock, answers to why, scenarios, reports."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pandas as pd
from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import NotebookPage, settled, take_picture, write_notebook
from tests.browser.test_saved_views import _REOPEN
from tests.browser.test_themes import _CONTRASTS, READABLE, change_theme

CELLS = [
    "%load_ext cepbook",
    "%%epl\n"
    "create variable double threshold = 12;\n"
    "create variable boolean strict = false;\n"
    "create schema Tick(symbol string, price double);\n"
    "@name('high') select symbol, price from Tick(price > threshold);\n"
    "@name('mean') select symbol, avg(price) as mean from Tick#length(5) group by symbol;\n"
    "@name('late') select a.symbol as symbol from pattern [every a=Tick -> timer:interval(1 sec)]",
    "%%events\nTick = {symbol='A', price=10.0}\nt = t.plus(1 seconds)\nTick = {symbol='B', price=14.0}\n"
    "t = t.plus(2 seconds)\nTick = {symbol='A', price=16.0}",
    "%epl tune high",
    "%epl why high",
    "%epl why --event 1",
    "%%scenario\nTick = {symbol='C', price=13.0}\nt = t.plus(1 seconds)\nTick = {symbol='B', price=2.0}",
    '%%expect\nhigh + symbol="B" price=14.0\nhigh + symbol="A" price=16.0',
    '%%expect\nhigh + symbol="C" price=14.0',
    "%epl report report.html",
    "%view mean",
    "%clock live here",
    "%clock stop",
    "%%epl >> found\nselect symbol, price from Tick where price > 12",
    "rows = %epl select max(price) as top from Tick\nprint(found.to_dict('list'), rows.to_dict('list'))",
    "%epl record recorded.md --title tried",
]
TUNE, WHY, WHY_NOT, SCENARIO, EXPECTED, UNEXPECTED, REPORT, VIEW, LIVE, STOP, INTO, FRAME, RECORD = range(3, 16)
INSTANT = re.compile(r"\d\d:\d\d:\d\d\.\d+")
# Contrast of each text of an output with what lies behind it.
TEXTS = _CONTRASTS.replace("svg text", "td, th, div:not(:has(*)), pre").replace(".fill", ".color")

_FITS = "t => t.getBoundingClientRect().right <= t.closest('.jp-OutputArea').getBoundingClientRect().right"


def output(notebook: NotebookPage, number: int) -> Locator:
    return notebook.cell(number).locator(".jp-OutputArea-output")


def run(notebook: NotebookPage, number: int) -> Locator:
    notebook.run_cell(number)
    return output(notebook, number)


def check_tune(notebook: NotebookPage) -> None:
    """A slider, by keyboard; diagram and chart follow, and the running statement only when told so."""
    page = notebook.page
    cell = notebook.cell(TUNE)
    labels = cell.locator(".vega-embed").first.locator("svg text")
    expect(labels.filter(has_text="14.0").first).to_be_attached(timeout=30_000)
    slider = cell.locator(".noUi-handle").first
    slider.focus()
    for _ in range(60):  # to where no price is above
        page.keyboard.press("ArrowRight")
    expect(labels.filter(has_text="14.0")).to_have_count(0)
    for _ in range(120):
        page.keyboard.press("ArrowLeft")
    expect(labels.filter(has_text="10.0").first).to_be_attached()
    cell.get_by_role("button", name="Apply").click()
    expect(cell.get_by_text("assigned: ")).to_be_visible()  # behind what the slider has asked for


def check_clock(notebook: NotebookPage) -> None:
    """The clock runs by itself while it is live, and stands when it is stopped."""
    clock = notebook.cell(VIEW).locator(".cv-clock")
    before = clock.inner_text()
    expect(run(notebook, LIVE).last).to_contain_text(", live")
    notebook.cell(VIEW)
    expect(clock).not_to_have_text(before)
    notebook.page.wait_for_timeout(300)
    clock_text = run(notebook, STOP).last
    expect(clock_text).to_contain_text(INSTANT)
    stopped = clock_text.inner_text()
    assert "live" not in stopped and stopped > before
    notebook.cell(VIEW)
    now = INSTANT.findall(stopped)[0]
    expect(clock).to_have_text(now)
    notebook.page.wait_for_timeout(600)
    assert clock.inner_text() == now


def check_taking(notebook: NotebookPage, folder: Path) -> None:
    """CSV of the stream, and a copy of the groups on the clipboard."""
    page = notebook.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    view = notebook.cell(VIEW).locator(".cepbook-view")
    with page.expect_download() as download:
        view.get_by_role("button", name="CSV").click()
    download.value.save_as(folder / "mean.csv")
    with (folder / "mean.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert download.value.suggested_filename == "mean.csv" and [row["mean"] for row in rows] == ["10.0", "14.0", "13.0"]
    with page.expect_download() as download:
        view.get_by_role("button", name="Parquet").click()
    download.value.save_as(folder / "mean.parquet")
    assert list(pd.read_parquet(folder / "mean.parquet")["mean"]) == [10.0, 14.0, 13.0]
    view.get_by_role("tab", name="Groups").click()
    view.get_by_role("button", name="Copy").click()
    expect(view.locator(".cv-taken")).to_have_text("copied 2 rows")
    assert page.evaluate("() => navigator.clipboard.readText()").splitlines() == ["symbol\tmean", "A\t13.0", "B\t14.0"]


def check_frames(notebook: NotebookPage, folder: Path) -> None:
    """EPL gives frames to Python; what happened becomes a scenario file."""
    run(notebook, INTO)
    expect(run(notebook, FRAME).last).to_contain_text("'symbol': ['B', 'A'], 'price': [14.0, 16.0]}")
    expect(run(notebook, RECORD).last).to_contain_text("case `tried` recorded in recorded.md")
    assert "## tried" in (folder / "recorded.md").read_text(encoding="utf-8")


def check_report(notebook: NotebookPage, folder: Path, pictures: Path) -> None:
    """The page that a report is, on its own: pictures and tables, and nothing from elsewhere."""
    page = notebook.page.context.new_page()
    page.goto((folder / "report.html").as_uri())
    assert page.locator("img").count() >= 3 and page.get_by_text("threshold").count() >= 1
    assert page.evaluate("() => [...document.images].every(image => image.complete && image.naturalWidth > 100)")
    for width in (1500, 640):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=pictures / f"report-{width}-{scheme}.png", full_page=True)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page.close()


def check_looks(notebook: NotebookPage, pictures: Path) -> None:
    """All of it in both themes and widths: every text can be read, and nothing is wider than the page."""
    for width in (1500, 640):
        notebook.page.set_viewport_size({"width": width, "height": 1000})
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(notebook, theme)
            for number in (TUNE, WHY, WHY_NOT, SCENARIO, EXPECTED, UNEXPECTED, VIEW):
                cell = notebook.cell(number)
                take_picture(cell, pictures / f"magics-{number}-{width}-{theme.split()[1].lower()}.png")
                if number == UNEXPECTED:
                    fits = settled(notebook.page, lambda cell=cell: cell.locator("table").evaluate(_FITS), bool)
                    assert fits, (theme, width)
                if number in (WHY, WHY_NOT, SCENARIO):
                    contrasts = output(notebook, number).last.evaluate(TEXTS)
                    assert len(contrasts) >= 4 and min(contrasts) >= READABLE, (number, theme, contrasts)
    notebook.page.set_viewport_size({"width": 1400, "height": 1000})


def test_magics_in_the_browser(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path, tmp_path: Path) -> None:
    write_notebook(lab_root / "magics.ipynb", CELLS)
    with open_lab("magics.ipynb") as notebook:
        notebook.run_cell(*range(VIEW + 1))
        expect(output(notebook, WHY).last).to_contain_text("why high delivered + at 00:00:03.000")
        expect(output(notebook, WHY_NOT).last).to_contain_text("what became of Tick")
        expect(output(notebook, SCENARIO).last.locator("tr", has_text="symbol=C")).to_have_count(3)
        expect(output(notebook, EXPECTED).last).to_contain_text("2 deliveries of high as expected")
        expect(output(notebook, UNEXPECTED).last).to_contain_text("other reactions than expected")
        expect(output(notebook, REPORT).last).to_contain_text("report of 3 statements")
        check_looks(notebook, screenshot_dir)
        check_tune(notebook)
        check_taking(notebook, tmp_path)
        check_frames(notebook, lab_root)
        check_clock(notebook)
        check_report(notebook, lab_root, screenshot_dir)
        notebook.page.evaluate(_REOPEN, "magics.ipynb")
        notebook.cell(TUNE).locator(".cepbook-saved").first.wait_for()
        saved = output(notebook, TUNE)
        expect(saved.first).to_contain_text("saved picture")
        expect(saved.first).to_contain_text("controls of threshold, strict")
        expect(saved.nth(1)).to_have_text(re.compile("^tuned: threshold = 0.0"))
        take_picture(notebook.cell(TUNE), screenshot_dir / "magics-tune-saved.png")
        assert (notebook.external, notebook.page_errors) == ([], [])
