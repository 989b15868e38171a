"""The notebooks on a page of 1,440 pixels with the file browser open: no line of code and no output is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser.conftest import ROOT, OpenNotebook
from tests.browser.lab import HEIGHT, NotebookPage

WIDTH = 1440
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_no_line_is_cut_beside_the_file_browser(open_lab: OpenNotebook, path: Any) -> None:
    ids = [cell["id"] for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    with open_lab(f"notebooks/{path.name}") as page:
        assert overflows(page, ids) == []


def overflows(page: NotebookPage, ids: list[str]) -> list[str]:
    """The parts of cells that are cut, as `cell-id: class of the part, pixels`."""
    page.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    page.page.evaluate(_FILE_BROWSER)
    page.page.locator(".jp-FileBrowser").wait_for(state="visible")
    return [f"{ids[index]}: {name}, {pixels} pixels" for index, name, pixels in page.page.evaluate(_OVERFLOWS)]
