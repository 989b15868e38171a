"""The gallery of windows: a marble diagram is drawn by the running kernel, offline. nbval runs all of its cells."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from cepbook.lang.registry.windows import WINDOWS
from tests.browser.conftest import OpenNotebook

NOTEBOOK = "notebooks/02_windows.ipynb"
CHART = "application/vnd.vegalite.v5+json"
_CLEAR = "() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')"
_RUN_ABOVE = """i => {
    window.cepbookPanel.content.activeCellIndex = i;
    return window.jupyterapp.commands.execute('notebook:run-all-above');
}"""


def test_windows_notebook(open_lab: OpenNotebook, screenshot_dir: Path) -> None:
    with open_lab(NOTEBOOK) as page:
        cells = page.cells()
        charts = page.with_output(CHART)
        written = "\n".join(cell["source"] for cell in cells if cell["type"] == "code")
        assert [name for name in WINDOWS if f"#{name}" not in written] == []
        assert len(charts) >= len(WINDOWS) - 1, "merge needs groupwin; each other window has a diagram of its own"
        assert page.errors() == []

        first = charts[0]
        page.page.evaluate(_CLEAR)
        assert page.with_output(CHART) == []
        page.page.evaluate(_RUN_ABOVE, first + 1)
        drawn = page.cell(first).locator("canvas, svg.marks").first
        drawn.wait_for(state="visible")
        box = drawn.bounding_box()
        assert box is not None and min(box["width"], box["height"]) > 300
        header = page.cell(first).get_by_role("columnheader", name="insert stream", include_hidden=True)
        expect(header).to_be_hidden()  # the table is folded
        page.cell(first).get_by_text("as a table").click()
        expect(header).to_be_visible()
        page.page.screenshot(path=screenshot_dir / "02_windows.png")
        assert page.with_output(CHART) == [first]
        assert page.errors() == []
        assert (page.external, page.page_errors) == ([], [])
