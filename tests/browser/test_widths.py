"""The notebooks on a page of 1,440 pixels with the file browser open: no line of code and no output is cut.

On a page of 700 pixels no output is cut; lines of code are scrolled there.
"""

from __future__ import annotations

import json

import pytest

from tests.browser.conftest import ROOT, OpenNotebook
from tests.browser.lab import HEIGHT, NotebookPage

WIDTH = 1440
# One with every kind of output, and those with the widest tables; tests/test_notebooks.py measures the lines of all.
NARROW = 700
NOTEBOOKS = ["01_first_stream", "08_card_fraud", "10_glucose"]
_FILE_BROWSER = "() => window.jupyterapp.commands.execute('filebrowser:activate')"
# Cells are laid out when they come into view. `over` has the pixels by which something is wider than its place.
_OVERFLOWS = """async () => {
    const notebook = window.cepbookPanel.content, over = [];
    for (const [index, cell] of notebook.widgets.entries()) {
        await notebook.scrollToItem(index, 'smart');
        await new Promise(requestAnimationFrame);
        const parts = '.cm-scroller, .jp-OutputArea-output, .jp-RenderedMarkdown, .jp-OutputArea-output pre';
        for (const node of cell.node.querySelectorAll(parts)) {
            const pixels = node.scrollWidth - node.clientWidth;
            if (pixels > 1 && node.clientWidth > 0) over.push([index, node.className, pixels]);
        }
    }
    return over;
}"""


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_line_is_cut_beside_the_file_browser(open_lab: OpenNotebook, name: str) -> None:
    path = ROOT / "notebooks" / f"{name}.ipynb"
    ids = [cell["id"] for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    with open_lab(f"notebooks/{path.name}") as page:
        assert overflows(page, ids) == []


def overflows(page: NotebookPage, ids: list[str]) -> list[str]:
    """The parts of cells that are cut, as `cell-id: class of the part, pixels`."""
    page.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    page.page.evaluate(_FILE_BROWSER)
    page.page.locator(".jp-FileBrowser").wait_for(state="visible")
    return [f"{ids[index]}: {name}, {pixels} pixels" for index, name, pixels in page.page.evaluate(_OVERFLOWS)]


def test_no_output_is_cut_on_a_narrow_page(open_lab: OpenNotebook) -> None:
    with open_lab("notebooks/03_contexts.ipynb") as page:
        page.page.set_viewport_size({"width": NARROW, "height": HEIGHT})
        assert [element for element in page.page.evaluate(_OVERFLOWS) if "cm-scroller" not in element[1]] == []
