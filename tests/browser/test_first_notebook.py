"""The first notebook as a newcomer sees it: all cells run, the live view has rows, the chart is drawn, all offline."""

from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import OpenNotebook

NOTEBOOK = "notebooks/01_first_stream.ipynb"
CHART_TYPES = ("application/vnd.vegalite.v5+json", "application/vnd.vegalite.v6+json")


def test_first_notebook(open_lab: OpenNotebook, screenshot_dir: Path) -> None:
    with open_lab(NOTEBOOK) as page:
        page.run_all(timeout=600)
        page.screenshot(screenshot_dir / "01_first_stream.png")
        assert page.errors() == []

        cells = page.cells()
        mime_types = [{kind for output in cell["outputs"] for kind in output.get("data", {})} for cell in cells]
        views = [i for i, cell in enumerate(cells) if "%view" in cell["source"] and cell["type"] == "code"]
        assert views, "the notebook shows no live view"
        view = page.cell(views[0]).locator(".cepbook-view").first
        view.wait_for(state="visible")
        assert view.locator("tbody tr, [role=row]").count() > 0, "the live view has no rows"

        charts = [i for i, kinds in enumerate(mime_types) if kinds.intersection(CHART_TYPES)]
        assert charts, "the notebook draws no chart"
        for index in charts:
            page.cell(index).locator("canvas, svg.marks").first.wait_for(state="visible")

        assert page.external == [], "the notebook must work offline"
        assert page.page_errors == []
