"""The notebook on contexts, run by its kernel: timelines are drawn offline, a live view shows what a pattern awaits."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook

NOTEBOOK = "notebooks/03_contexts.ipynb"
CHART = "application/vnd.vegalite.v5+json"


def test_contexts_notebook(open_lab: OpenNotebook, screenshot_dir: Path) -> None:
    with open_lab(NOTEBOOK) as page:
        timelines = [index for index, cell in enumerate(page.cells()) if cell["source"].startswith("%epl timeline")]
        page.run_all()
        assert page.errors() == []
        assert page.with_output(CHART) == timelines != []
        for index in timelines:
            drawn = page.cell(index).locator("canvas, svg.marks").first
            drawn.wait_for(state="visible")
            box = drawn.bounding_box()
            assert box is not None and box["width"] > 300 and box["height"] > 100

        view = page.cell(page.index("%view stuck"))
        view.get_by_role("tab", name="Waiting").click()
        expect(view.get_by_text("timer:interval(4 min)").first).to_be_visible()
        page.page.screenshot(path=screenshot_dir / "03_contexts.png")
        assert (page.external, page.page_errors) == ([], [])
