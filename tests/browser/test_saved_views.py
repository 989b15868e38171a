"""What is live is always one of: live, or a saved picture that says so; never an error, nor buttons that do nothing."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import NotebookPage, settled, take_picture, write_notebook
from tests.browser.test_themes import change_theme

CELLS = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Trade(symbol string, price double);\n"
    "create variable double least = 5;\n"
    "@name('out') select * from Trade(price > least)#length(3)",
    "trades = [{'time': i * 1000, 'symbol': 'ACME', 'price': float(i)} for i in range(20)]\n"
    "replay = cep.replay(trades, type='Trade', time='time', keep='2 sec')\n"
    "display(replay)\nawait replay",
    "%view out",
    "%epl map",
    "%cep",
    "%epl tune out",
    "%epl report saved.html",
    "%view --chart out",
]
SAVED = "saved picture; run the cell for a live view"
# By cell: what is there while it is live, and what its picture shows.
ELEMENTS = {
    2: (".cepbook-progress", "replay finished: 20 of 20 events, clock 00:00:19"),
    3: (".cepbook-view", "ACME"),
    4: (".cepbook-flow", "holds 3"),
    5: (".cepbook-panel", "least"),
    6: (".widget-slider", "controls of least"),
    8: (".cepbook-chart", "out: price by symbol"),
}
TEXTS = """node => [node.innerText, ...[...node.querySelectorAll('img')].map(each => each.alt)].join('\\n')"""
CONTROLS = "button, input, select, [tabindex='0'][role]"
OF_IPYWIDGETS = "Cannot read properties of null (reading 'kernel')"  # its manager where there is no kernel
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
_WITHOUT_KERNEL = _REOPEN.replace("'Notebook'", "'Notebook', kernelPreference: {shouldStart: false}")


def output(page: NotebookPage, number: int) -> Locator:
    return page.cell(number).locator(".jp-OutputArea-output").first


def check_saved(page: NotebookPage) -> None:
    """Every element is its picture, says that it is one, and has nothing to press; the notebook is as it was saved."""
    for number, (live, still) in ELEMENTS.items():
        picture = output(page, number)
        picture.locator(".cepbook-saved").wait_for()
        text = settled(page.page, lambda of=picture: of.evaluate(TEXTS), lambda text, of=still: of in text)
        assert text.startswith(SAVED) and still in text, (number, text)
        expect(page.cell(number).locator(live)).to_have_count(0)
        expect(picture.locator(CONTROLS)).to_have_count(0)
        assert "model not found" not in page.cell(number).inner_text().lower()
    assert not page.page.evaluate("() => window.cepbookPanel.context.model.dirty")


def check_live(page: NotebookPage) -> None:
    for number, (live, _) in ELEMENTS.items():
        page.cell(number).locator(live).first.wait_for()
        expect(page.cell(number).locator(".cepbook-saved")).to_have_count(0)


def check_looks(page: NotebookPage, pictures: Path) -> None:
    """In both themes, wide and narrow: nothing of a picture is cut off."""
    for width in (1500, 640):
        page.page.set_viewport_size({"width": width, "height": 1000})
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(page, theme)
            for number in ELEMENTS:
                cell = page.cell(number)
                take_picture(cell, pictures / f"saved-{number}-{width}-{theme.split()[1].lower()}.png")
                assert output(page, number).evaluate(CUT) == [], (number, width)
            for chart in page.cell(6).locator("svg.marks").all():
                assert chart.evaluate("node => node.getBoundingClientRect().right") < width
    page.page.set_viewport_size({"width": 1400, "height": 1000})


# Texts to the right of what the output shows, that cannot be scrolled to either.
CUT = """node => [...node.querySelectorAll('*')].filter(each => {
    for (let part = each; part !== node.parentElement; part = part.parentElement) {
        if (/auto|scroll/.test(getComputedStyle(part).overflowX)) return false;
    }
    return each.getBoundingClientRect().right > node.closest('.jp-OutputArea').getBoundingClientRect().right + 1;
}).map(each => each.outerHTML.slice(0, 200))"""


_STATE = "() => window.jupyterapp.commands.execute('@jupyter-widgets/jupyterlab-manager:saveWidgetState')"


def test_what_is_live_is_a_picture_without_its_kernel(
    open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path
) -> None:
    """Also with the state of its widgets saved (`test_hostile` has it without), of which JupyterLab would make views
    that are "ready · 0 events", and buttons that look alive."""
    write_notebook(lab_root / "saved.ipynb", CELLS)
    with open_lab("saved.ipynb") as page:
        page.page.evaluate(_STATE)
        try:
            page.run_all(timeout=120)
            check_live(page)
            page.page.evaluate(_WITHOUT_KERNEL, "saved.ipynb")  # trusted: it was run here
        finally:
            page.page.evaluate(_STATE)  # it is a switch
        saved = json.loads((lab_root / "saved.ipynb").read_text())["metadata"]["widgets"]
        assert len(saved["application/vnd.jupyter.widget-state+json"]["state"]) >= len(ELEMENTS)
        assert page.page.evaluate("() => window.cepbookPanel.content.model.cells.get(2).trusted")
        assert page.page.evaluate("() => !window.cepbookPanel.sessionContext.session?.kernel")
        check_saved(page)
        check_looks(page, screenshot_dir)
        assert set(page.page_errors) <= {OF_IPYWIDGETS}
        page.page_errors.clear()
        page.page.evaluate(_REOPEN, "saved.ipynb")  # with another kernel, which knows none of it
        check_saved(page)
        page.run_all(timeout=120)
        check_live(page)
        assert page.errors() == []
        page.page.evaluate("() => window.cepbookPanel.context.save()")
        page.page.evaluate("() => window.cepbookPanel.sessionContext.session.kernel.restart()")
        check_saved(page)
        expect(page.cell(7)).to_contain_text("written to saved.html")
        assert page.page_errors == [] and page.external == []
