"""A live view is always one of: live, or a saved picture that says so; never an error, nor buttons that do nothing."""

from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import NotebookPage, write_notebook

CELLS = [
    "%load_ext cepbook",
    "%%epl\ncreate schema Trade(symbol string, price double);\n@name('out') select * from Trade",
    'cep.send("Trade", symbol="ACME", price=10.5)\n%view out',
]
SAVED = "saved picture; run the cell for a live view"
_REOPEN = """async path => {
    const app = window.jupyterapp;
    await window.cepbookPanel.context.save();
    await window.cepbookPanel.sessionContext.shutdown();
    window.cepbookPanel.dispose();
    const panel = await app.commands.execute('docmanager:open', {path, factory: 'Notebook'});
    await panel.context.ready;
    await panel.sessionContext.ready;
    window.cepbookPanel = panel;
}"""


def view(page: NotebookPage) -> str:
    return page.cell(2).locator(".jp-OutputArea-output").last.inner_text()


def check_saved(page: NotebookPage) -> None:
    page.cell(2).locator(".cepbook-saved").wait_for()
    shown = view(page)
    assert shown.startswith(SAVED) and "ACME" in shown and "model not found" not in shown.lower()
    assert page.cell(2).locator(".cepbook-view").count() == 0
    assert not page.page.evaluate("() => window.cepbookPanel.context.model.dirty")


def test_a_view_without_its_kernel_is_a_picture(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "saved.ipynb", CELLS)
    with open_lab("saved.ipynb") as page:
        page.run_all(timeout=120)
        page.cell(2).locator(".cepbook-view").wait_for()
        page.page.evaluate(_REOPEN, "saved.ipynb")  # trusted: it was run here
        assert page.page.evaluate("() => window.cepbookPanel.content.model.cells.get(2).trusted")
        check_saved(page)
        page.cell(2).screenshot(path=screenshot_dir / "saved-view.png")
        page.run_all(timeout=120)
        page.cell(2).locator(".cepbook-view").wait_for()
        assert page.cell(2).locator(".cepbook-saved").count() == 0
        page.page.evaluate("() => window.cepbookPanel.context.save()")
        page.page.evaluate("() => window.cepbookPanel.sessionContext.session.kernel.restart()")
        check_saved(page)
        assert page.page_errors == [] and page.external == []
