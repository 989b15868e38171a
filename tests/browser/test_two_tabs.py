"""A notebook that is open in two tabs is changed only in the tab that ran the cell."""

from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import NotebookPage, write_notebook
from tests.browser.test_shown_and_saved import _SAVE, enter

CELLS = [
    "%load_ext cepbook",
    "%%epl\ncreate schema Tick(price double);\n@name('out') select price from Tick#length(3)",
    "%view out",
    "cep.replay([{'time': 1000 * i, 'price': float(i)} for i in range(700)], type='Tick', time='time').run();",
]
_DIRTY = "() => window.cepbookPanel.context.model.dirty"
_PICTURE = """rows => JSON.stringify(
    window.cepbookPanel.content.model.cells.get(2).outputs.get(0).toJSON().data['text/html'] ?? '').includes(rows)"""


def test_an_updated_view_changes_the_notebook_in_one_tab(open_lab: OpenNotebook, lab_root: Path) -> None:
    write_notebook(lab_root / "tabs.ipynb", CELLS)
    with open_lab("tabs.ipynb") as first:
        first.run_cell(0, 1, 2)
        first.page.evaluate(_SAVE)
        second = NotebookPage(first.page.context.new_page())
        second.page.goto(first.page.url.split("/lab")[0] + "/lab/workspaces/second?reset")
        enter(second.page, "tabs.ipynb")
        first.run_cell(3)
        second.page.wait_for_function(_PICTURE, arg="700 insert rows", polling=100)
        assert first.page.evaluate(_DIRTY) and not second.page.evaluate(_DIRTY)
