"""Updates of views change a notebook in one tab: in the one that ran cells, else in the one that was opened first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import NotebookPage, write_notebook
from tests.browser.test_shown_and_saved import _SAVE, enter, reload

CELLS = [
    "%load_ext cepbook",
    "%%epl\ncreate schema Tick(price double);\n@name('out') select price from Tick#length(3)",
    "%view out",
    "cep.replay([{'time': 1000 * i, 'price': float(i)} for i in range(700)], type='Tick', time='time').run();",
]
_DIRTY = "() => window.cepbookPanel.context.model.dirty"
_PICTURE = """rows => JSON.stringify(
    window.cepbookPanel.content.model.cells.get(2).outputs.get(0)?.toJSON().data['text/html'] ?? '').includes(rows)"""


@contextmanager
def viewing(open_lab: OpenNotebook, path: Path) -> Iterator[NotebookPage]:
    """The notebook in a tab, with the view open and saved."""
    write_notebook(path, CELLS)
    with open_lab(path.name) as tab:
        tab.run_cell(0, 1, 2)
        tab.page.evaluate(_SAVE)
        yield tab


@contextmanager
def second_tab(first: NotebookPage, path: str) -> Iterator[NotebookPage]:
    """The notebook in a workspace of its own. None is reset: JupyterLab may load the page once more for that."""
    second = NotebookPage(first.page.context.new_page())
    try:
        second.page.goto(f"{first.page.url.split('/lab')[0]}/lab/workspaces/second-{path.removesuffix('.ipynb')}")
        enter(second.page, path)
        yield second
    finally:
        second.page.close()  # other tests use the context, too


def test_an_updated_view_changes_the_notebook_in_one_tab(open_lab: OpenNotebook, lab_root: Path) -> None:
    with viewing(open_lab, lab_root / "tabs.ipynb") as first, second_tab(first, "tabs.ipynb") as second:
        first.run_cell(3)
        second.page.wait_for_function(_PICTURE, arg="700 insert rows", polling=100)
        first.page.wait_for_function(_DIRTY, polling=100)
        assert not second.page.evaluate(_DIRTY)


# as a live source does: no cell of the page runs
_SENDS = """code => window.cepbookPanel.sessionContext.session.kernel.requestExecute({code}).done.then(() => null)"""


def test_a_reloaded_tab_saves_the_pictures_of_its_views(open_lab: OpenNotebook, lab_root: Path) -> None:
    with viewing(open_lab, lab_root / "reloaded.ipynb") as tab:
        reload(tab, "reloaded.ipynb")
        tab.page.evaluate(_SENDS, CELLS[3])
        tab.page.wait_for_function(_PICTURE, arg="700 insert rows", polling=100)
        tab.page.wait_for_function(_DIRTY, polling=100)
        tab.page.evaluate(_SAVE)
        assert "700 insert rows" in (lab_root / "reloaded.ipynb").read_text(encoding="utf-8")


_IS_FIRST = """async () => (await navigator.locks.query()).held.some(({ name }) => name.endsWith(':first'))"""
# as a page does when it has loaded a notebook; locks decide which page saves
_UPDATES = """async () => {
    const { sessionContext } = window.cepbookPanel;
    await new Promise(resolve => {
        sessionContext.iopubMessage.connect((_, { header }) => header.msg_type === 'update_display_data' && resolve());
        sessionContext.session.kernel.createComm('cepbook.outputs').open();
    });
    await navigator.locks.query();
}"""


def test_a_reloaded_tab_whose_pictures_are_the_saved_ones_is_not_changed(
    open_lab: OpenNotebook, lab_root: Path
) -> None:
    with viewing(open_lab, lab_root / "same.ipynb") as tab:
        tab.run_cell(3)
        tab.page.wait_for_function(_PICTURE, arg="700 insert rows", polling=100)
        tab.page.evaluate(_SAVE)
        reload(tab, "same.ipynb")
        tab.page.wait_for_function(_IS_FIRST, polling=100)
        tab.page.evaluate(_UPDATES)
        assert not tab.page.evaluate(_DIRTY)


def test_of_two_tabs_in_which_nothing_ran_the_one_opened_first_saves(open_lab: OpenNotebook, lab_root: Path) -> None:
    with viewing(open_lab, lab_root / "both.ipynb") as first:
        reload(first, "both.ipynb")
        with second_tab(first, "both.ipynb") as second:
            second.page.evaluate(_SENDS, CELLS[3])
            for tab in (first, second):
                tab.page.wait_for_function(_PICTURE, arg="700 insert rows", polling=100)
            first.page.wait_for_function(_DIRTY, polling=100)
            assert not second.page.evaluate(_DIRTY)
            first.page.evaluate("() => window.cepbookPanel.dispose()")
            second.page.evaluate(_SENDS, CELLS[3].replace("1000 * i", "10**6 + 1000 * i").replace("700", "900"))
            second.page.wait_for_function(_DIRTY, polling=100)
