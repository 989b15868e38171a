"""EPL as it is written: files with their errors, help, names and layout; skeletons and the button in cells."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import NotebookPage, settled, write_notebook
from tests.browser.test_themes import change_theme

CELLS = [
    "%load_ext cepbook",
    "%%epl\ncreate schema Trade(symbol string, price double)",
    "%%epl --quiet\n@name('long') select   symbol, avg(price)  as mean from Trade(price>3)#length(10) group by symbol "
    "having count(*)>1",
    "",
    "x = 1",
]
FILE = """create schema Quote(symbol string, price double);
@name('file')
select symbol,price from Quote(price>100)#time(10 sec) where symbol like 'A%' and price < 1000;
"""
_OPEN = """async path => {
    const widget = await window.jupyterapp.commands.execute('docmanager:open', {path, factory: 'Editor'});
    await widget.context.ready;
    widget.addClass('epl-file');
    window.eplFile = widget;
}"""
_SOURCE = "i => window.cepbookPanel.content.widgets[i].model.sharedModel.getSource()"


def type_at_end(notebook: NotebookPage, editor: Locator, text: str) -> None:
    editor.locator(".cm-content").click()
    notebook.page.keyboard.press("Control+End")
    for number, line in enumerate(text.split("\n")):
        if number:
            notebook.page.keyboard.press("Enter")
        notebook.page.keyboard.type(line)


def check_cells(notebook: NotebookPage) -> None:
    """A skeleton where a statement begins; the button lays a cell out anew, and says what it does not touch."""
    page = notebook.page
    type_at_end(notebook, notebook.cell(3), "%%epl\n")
    page.keyboard.press("Tab")  # on an empty line
    page.locator(".jp-Completer-item", has_text="create schema: an event type").wait_for()
    page.keyboard.press("Escape")
    type_at_end(notebook, notebook.cell(3), "select: a p")
    for _ in ": a p":
        page.keyboard.press("Backspace")
    page.keyboard.press("Tab")
    offered = page.locator(".jp-Completer-item", has_text="an event that does not come")
    offered.wait_for()
    offered.click()
    source = settled(page, lambda: page.evaluate(_SOURCE, 3), lambda text: "not Other" in text)
    assert "timer:interval(1 min) and not Other" in source
    notebook.cell(2).locator(".cm-content").click()
    button = page.locator(".jp-NotebookPanel-toolbar").get_by_role("button", name="Lay the EPL")
    button.click()
    expect(notebook.cell(2).locator(".cm-line").nth(3)).to_have_text("from Trade(price > 3)#length(10)")
    assert page.evaluate(_SOURCE, 2).startswith("%%epl --quiet\n@name('long')\nselect symbol, avg(price) as mean\n")
    page.keyboard.press("Control+z")
    notebook.cell(4).locator(".cm-content").click()
    page.keyboard.press("Alt+Shift+F")
    page.get_by_text("only EPL is formatted").wait_for()


def check_file(notebook: NotebookPage, pictures: Path) -> None:
    page = notebook.page
    page.evaluate(_OPEN, "module.epl")
    file = page.locator(".epl-file")
    expect(file.locator(".cm-line span", has_text="select").first).to_be_visible()
    type_at_end(notebook, file, "@name('other') select prise from Quote")
    mark = file.locator(".cm-lintRange-error")
    mark.wait_for()
    expect(mark).to_have_text("prise")
    mark.hover()
    expect(page.locator(".cm-tooltip-lint")).to_contain_text("did you mean `price`?")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        change_theme(notebook, theme)
        page.screenshot(path=pictures / f"file-{theme.split()[1].lower()}.png")
    page.mouse.move(0, 0)
    type_at_end(notebook, file, "")  # a change of the theme may take the focus
    for _ in "prise from Quote":
        page.keyboard.press("Backspace")
    type_at_end(notebook, file, "price from Tra")  # a name of the notebook's kernel
    page.keyboard.press("Tab")
    page.locator(".jp-Completer-item", has_text="Trade").first.wait_for()
    page.keyboard.press("Enter")
    expect(file.locator(".cm-line").last).to_have_text("@name('other') select price from Trade")
    mark.wait_for(state="detached")
    file.locator(".cm-line span", has_text="like").first.hover()
    expect(page.locator(".cepbook-help")).to_contain_text("like")
    page.mouse.move(0, 0)
    file.get_by_role("button", name="Lay the EPL").click()
    expect(file.locator(".cm-line").nth(3)).to_have_text("from Quote(price > 100)#time(10 sec)")
    page.set_viewport_size({"width": 640, "height": 700})
    page.screenshot(path=pictures / "file-640.png")


def test_cells_and_files(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "writing.ipynb", CELLS)
    (lab_root / "module.epl").write_text(FILE, encoding="utf-8")
    with open_lab("writing.ipynb") as notebook:
        notebook.run_cell(*range(2))
        check_cells(notebook)
        check_file(notebook, screenshot_dir)
        assert (notebook.external, notebook.page_errors) == ([], [])
