"""The panel in a cell and in the left sidebar, by mouse and by keyboard, narrow and wide; and why, by a click."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import NotebookPage, settled, take_picture, write_notebook
from tests.browser.test_saved_views import _REOPEN, SAVED
from tests.browser.test_themes import change_theme

HOSTILE = "<img src=x onerror=alert(1)>"
CELLS = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Tick(symbol string, price double, note string);\n"
    "create variable double threshold = 5;\n"
    "create context PerSymbol partition by symbol from Tick;\n"
    "create window Newest#unique(symbol) as Tick;\n"
    "insert into Newest select * from Tick;\n"
    "@name('high') select symbol, price from Tick(price > threshold)#length(3);\n"
    "@name('mean') context PerSymbol select symbol, avg(price) as mean from Tick#length(5);\n"
    f"@name('{HOSTILE}') select note from Tick;\n"
    "@name('wrong') select cast(note, int) as n from Tick(price > 18)",
    "%cep",
    "%view high",
    "for i in range(20):\n    try:\n"
    "        cep.send('Tick', symbol='AB'[i % 2], price=float(i), note='<b>' + 'n' * i)\n"
    "    except Exception:\n        pass\n    cep.advance(by='1 sec')",
]


FITS = "node => node.scrollWidth <= node.clientWidth"


def item(panel: Locator, name: str) -> Locator:
    return panel.get_by_role("treeitem").filter(has=panel.page.get_by_text(name, exact=True))


def check_details(panel: Locator, name: str) -> Locator:
    """A click opens the details of a statement."""
    item(panel, name).click()
    detail = panel.locator(".cc-detail")
    expect(detail).to_contain_text("last delivery")
    return detail


def check_keyboard(notebook: NotebookPage, panel: Locator) -> None:
    """Search, arrows, Enter; a variable is set, and a wrong value is told of beside the field."""
    keyboard = notebook.page.keyboard
    search = panel.locator(".cc-search")
    search.focus()
    keyboard.type("thres")
    expect(panel.locator(".cc-item")).to_have_count(1)
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    field = panel.locator(".cc-value")
    field.wait_for()
    keyboard.press("ArrowRight")
    expect(field).to_be_focused()
    keyboard.press("Control+A")
    keyboard.type("high")
    keyboard.press("Enter")
    wrong = panel.locator(".cc-form .cc-problem")
    expect(wrong).to_have_text("`high` is no value of type double")
    keyboard.press("Control+A")
    keyboard.type("12.5")
    keyboard.press("Enter")
    expect(wrong).to_be_hidden()
    expect(item(panel, "threshold").locator(".cc-figure")).to_have_text("12.5")
    keyboard.press("Escape")
    expect(panel.locator(".cc-detail")).to_have_count(0)
    search.fill("")


def check_why(notebook: NotebookPage, pictures: Path) -> None:
    """A click on a row of the stream, and Enter, say why it was delivered."""
    view = notebook.cell(3).locator(".cepbook-view")
    view.locator(".cv-scroll[aria-label^=stream] .cv-row:not([hidden])").last.click()
    why = view.locator(".cv-why")
    expect(why).to_contain_text("why high delivered + at 00:00:19.000")
    expect(why).to_contain_text("symbol=B  price=19.0")
    assert why.locator("b, img").count() == 0
    take_picture(notebook.cell(3), pictures / "why-row.png")
    notebook.page.keyboard.press("Escape")
    expect(why).to_be_hidden()
    notebook.page.keyboard.press("ArrowUp")
    notebook.page.keyboard.press("Enter")
    expect(why).to_contain_text("at 00:00:18.000")
    why.locator("button").click()


def check_sidebar(notebook: NotebookPage, pictures: Path) -> None:
    """The same panel in the sidebar, at a width of about 260 px; its clock and its errors; a view opens in a cell."""
    page = notebook.page
    page.evaluate("() => window.jupyterapp.commands.execute('cepbook:show-panel')")
    panel = page.locator("#cepbook-panel .cepbook-panel")
    expect(item(panel, "mean").locator(".cc-figure")).to_have_text("20")
    detail = check_details(panel, "mean")
    assert settled(page, lambda: panel.evaluate(FITS), bool)
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        change_theme(notebook, theme)
        take_picture(panel, pictures / f"panel-side-{theme.split()[1].lower()}.png")
    page.screenshot(path=pictures / "panel-side-page.png")
    rows = page.locator(".jp-Notebook .cepbook-view .cv-scroll[aria-label^=stream] .cv-row:not([hidden])")
    expect(rows.nth(10), "rows were lost while the cell was out of sight for a moment").to_be_attached()
    page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    expect(page.locator("#cepbook-panel .cepbook-panel")).to_have_count(0)  # nothing is read for it
    page.evaluate("() => window.jupyterapp.commands.execute('cepbook:show-panel')")
    expect(panel.locator(".cc-detail")).to_contain_text("last delivery")
    before = panel.locator(".cc-clock").inner_text()
    panel.get_by_role("button", name="+1 s").click()
    expect(panel.locator(".cc-clock")).not_to_have_text(before)
    item(panel, "wrong").last.click()
    expect(detail).to_contain_text("failed")
    panel.get_by_role("button", name="Clear").click()
    expect(panel.locator(".cc-failed")).to_have_count(0)
    check_details(panel, "high").get_by_role("button", name="Live view").click()
    expect(page.locator(".jp-Notebook .cepbook-view")).to_have_count(2)
    assert any(cell["source"] == "%view high" for cell in notebook.cells()[4:] + notebook.cells()[:3])


def test_the_panel(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "panel.ipynb", CELLS)
    with open_lab("panel.ipynb") as notebook:
        page = notebook.page
        page.evaluate("() => window.jupyterapp.commands.execute('cepbook:show-panel')")
        expect(page.locator("#cepbook-panel")).to_contain_text("has no cepbook")
        page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        notebook.run_cell(*range(5))
        panel = notebook.cell(2).locator(".cepbook-panel")
        expect(item(panel, "high").locator(".cc-figure")).to_have_text("14")
        expect(item(panel, HOSTILE)).to_have_count(1)
        check_details(panel, "high")
        assert panel.locator("img, b").count() == 0
        for width in (1500, 640):
            page.set_viewport_size({"width": width, "height": 1000})
            for theme in ("JupyterLab Dark", "JupyterLab Light"):
                change_theme(notebook, theme)
                take_picture(notebook.cell(2), screenshot_dir / f"panel-{width}-{theme.split()[1].lower()}.png")
            assert settled(page, lambda: panel.evaluate(FITS), bool), width
        page.set_viewport_size({"width": 1400, "height": 1000})
        item(panel, "high").first.click()
        check_keyboard(notebook, panel)
        check_why(notebook, screenshot_dir)
        check_sidebar(notebook, screenshot_dir)
        assert notebook.errors() == [] and notebook.dialogs == []
        page.evaluate("() => window.cepbookPanel.sessionContext.session.kernel.restart()")
        expect(page.locator("#cepbook-panel")).to_contain_text("has no cepbook")
        expect(page.locator("#cepbook-panel .cepbook-panel")).to_have_count(0)
        notebook.cell(2).locator(".cepbook-saved").wait_for()
        page.evaluate(_REOPEN, "panel.ipynb")
        picture = notebook.cell(2).locator(".jp-OutputArea-output").last
        expect(picture).to_have_text(re.compile(rf"^\s*{SAVED}"))
        expect(picture).to_contain_text("threshold")
        assert (notebook.external, notebook.page_errors) == ([], [])
