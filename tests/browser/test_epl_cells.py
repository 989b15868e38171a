"""EPL cells as a person types them: coloured, completed, checked and explained at once, replaced when run again."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import NotebookPage, settled, write_notebook

CELLS = [
    "%load_ext cepbook",
    "%%epl\ncreate schema Trade(symbol string, price double);\n// all of them\n@name('out') select * from Trade",
    "select = 'Python'",
    "",
    "%%epl\n@name('wrong')\nselect symbol,\n  prise from Trade",
    "",
]
WRONG, TYPED = 4, 5
# The text of every coloured piece of a cell's editor. Its colour is a generated class name, so ask for the colour.
_COLOURS = """i => Object.fromEntries(
    [...window.cepbookPanel.content.widgets[i].node.querySelectorAll('.cm-line span')]
        .map(span => [span.textContent, getComputedStyle(span).color]))"""

# Where a word of a cell is on the page: the last time that it occurs, as [x, y].
_WORD = """([i, word]) => {
    const nodes = document.createTreeWalker(
        window.cepbookPanel.content.widgets[i].node.querySelector('.cm-content'), NodeFilter.SHOW_TEXT);
    let found = null;
    for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
        if (node.data.includes(word)) found = node;
    }
    const range = document.createRange();
    range.setStart(found, found.data.lastIndexOf(word));
    range.setEnd(found, found.data.lastIndexOf(word) + word.length);
    const {x, y, width, height} = range.getBoundingClientRect();
    return [x + width / 2, y + height / 2];
}"""

_LANGUAGES = "() => window.cepbookPanel.content.widgets.map(w => w.model.getMetadata('magics_language') ?? null)"


def coloured(page: NotebookPage, index: int, words: set[str]) -> dict[str, str]:
    """The colours of a cell, once all `words` have one."""
    colours = settled(page.page, lambda: page.page.evaluate(_COLOURS, index), lambda coloured: words <= set(coloured))
    assert words <= set(colours), colours
    return colours


def check_colours(page: NotebookPage) -> None:
    page.cell(1)
    colours = coloured(page, 1, {"%%epl", "select", "schema", "// all of them", "'out'"})
    assert colours["select"] == colours["schema"] != colours["// all of them"]
    assert "select" not in page.page.evaluate(_COLOURS, 2), "a Python cell stays Python"


def check_typing(page: NotebookPage) -> None:
    """The empty cell becomes EPL while its first line is typed; the catalogue completes and explains."""
    keyboard = page.page.keyboard
    page.cell(3).locator(".cm-content").click()
    keyboard.type("%%epl")
    keyboard.press("Enter")
    keyboard.type("@name('big') select * from Tr")
    coloured(page, 3, {"%%epl", "from"})
    keyboard.press("Tab")
    page.page.locator(".jp-Completer-item", has_text="Trade").wait_for()
    keyboard.press("Enter")
    page.page.wait_for_function(
        "() => window.cepbookPanel.content.widgets[3].model.sharedModel.getSource().endsWith('from Trade')"
    )
    keyboard.press("Shift+Tab")
    expect(page.page.locator(".jp-Tooltip")).to_contain_text("event type Trade")
    keyboard.press("Escape")


def check_advice(page: NotebookPage) -> None:
    """A word that is wrong is underlined while it stands there, with what is wrong; a word is explained on its own."""
    keyboard = page.page.keyboard
    page.cell(3).locator(".cm-content").click()
    keyboard.press("Control+End")
    keyboard.type(" where prise > 1")
    mark = page.cell(3).locator(".cm-lintRange-error")
    expect(mark).to_have_text("prise")  # not of the word that is half typed
    mark.hover()
    advice = page.page.locator(".cm-tooltip-lint")
    expect(advice).to_contain_text("did you mean `price`?")
    page.page.wait_for_timeout(1500)  # longer than a question to the kernel takes
    expect(advice).to_be_visible()
    for _ in "ise > 1":
        keyboard.press("Backspace")
    keyboard.type("ice > 1")
    mark.wait_for(state="detached")
    page.cell(1).locator(".cm-line span", has_text="select").first.hover()
    help_ = page.page.locator(".cepbook-help")
    expect(help_).to_contain_text("select")
    page.page.mouse.move(0, 0)
    help_.wait_for(state="detached")
    page.page.mouse.move(*page.page.evaluate(_WORD, [1, "Trade"]))
    expect(help_).to_contain_text("event type Trade")
    help_text = help_.text_content() or ""
    assert help_text.startswith("event type Trade\n  symbol  string\n  price   double\n  created in cell [2]"), (
        help_text
    )
    page.page.mouse.move(0, 0)


def check_events(page: NotebookPage) -> None:
    """Cells of events are underlined and explained likewise."""
    page.cell(TYPED).locator(".cm-content").click()
    page.page.keyboard.type("%%events\nTrade = {symbol = 'A', prise = 1.0}")
    mark = page.cell(TYPED).locator(".cm-lintRange-error")
    expect(mark).to_have_text("prise")
    mark.hover()
    advice = page.page.locator(".cm-tooltip-lint")
    expect(advice).to_contain_text("event type `Trade` has no property `prise`")
    expect(advice).to_contain_text("did you mean `price`?")
    page.page.mouse.move(*page.page.evaluate(_WORD, [TYPED, "Trade"]))
    expect(page.page.locator(".cepbook-help")).to_contain_text("event type Trade")
    page.page.mouse.move(0, 0)
    page.page.evaluate("i => window.cepbookPanel.content.widgets[i].model.sharedModel.setSource('')", TYPED)


def check_places(page: NotebookPage) -> None:
    """An error names the line as JupyterLab counts it: that of the magic is the first."""
    output = page.cell(WRONG).locator(".jp-OutputArea")
    expect(output).to_contain_text("cell:4:3")
    expect(output).to_contain_text("4 |   prise from Trade")
    number = (
        page.cell(WRONG)
        .locator(".cm-line", has_text="prise")
        .evaluate("line => [...line.parentNode.querySelectorAll('.cm-line')].indexOf(line) + 1")
    )
    assert number == 4
    assert "Traceback" not in output.inner_text()


def check_names(page: NotebookPage) -> None:
    """Behind an alias its properties, behind # windows, which are called so; Shift-Tab explains keywords."""
    keyboard, items = page.page.keyboard, page.page.locator(".jp-Completer-item")
    page.cell(TYPED).locator(".cm-content").click()
    keyboard.type("%%epl")
    keyboard.press("Enter")
    keyboard.type("select * from Trade#")
    keyboard.press("Tab")
    expect(items.first).to_contain_text("window")
    keyboard.type("length(3) as t where t.")  # the menu closes by itself
    keyboard.press("Tab")
    expect(items).to_have_count(2)
    expect(items.first).to_contain_text("symbol")
    expect(items.first).to_contain_text("property")
    keyboard.press("Escape")
    for _ in " t.":
        keyboard.press("Backspace")
    keyboard.press("Shift+Tab")
    expect(page.page.locator(".jp-Tooltip")).to_contain_text("where")
    keyboard.press("Escape")
    page.page.evaluate("i => window.cepbookPanel.content.widgets[i].model.sharedModel.setSource('')", TYPED)


def test_epl_cells(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "epl.ipynb", CELLS)
    with open_lab("epl.ipynb") as page:
        check_colours(page)
        page.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        page.page.wait_for_function("() => window.cepbookPanel.content.widgets[2].model.executionCount !== null")
        check_typing(page)
        check_advice(page)
        check_events(page)
        check_names(page)
        page.run_cell(WRONG)
        check_places(page)
        page.page.evaluate("i => window.cepbookPanel.content.widgets[i].model.sharedModel.setSource('')", WRONG)
        page.run_all(timeout=120)
        page.run_all(timeout=120)  # every cell replaces what it deployed
        assert page.errors() == []
        languages = page.page.evaluate(_LANGUAGES)  # where nbconvert looks for it
        assert languages[:4] == [None, "epl", None, "epl"]
        assert page.cells()[3]["outputs"][0]["data"]["text/plain"].startswith("replaced big")
        assert (page.external, page.page_errors) == ([], [])
        picture = screenshot_dir / "epl_cells.png"
        page.screenshot(picture)
        assert picture.stat().st_size > 10_000
