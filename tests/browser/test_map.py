"""`%epl map`: the flow of data as a live picture; a click, or Enter, opens a view; saved it is the picture itself."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import write_notebook
from tests.browser.test_large_views import RUN_CELL
from tests.browser.test_themes import change_theme

CELLS = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Tick(symbol string, price double);\n"
    "create window Newest#unique(symbol) as Tick;\n"
    "insert into Newest select * from Tick;\n"
    "@name('high') insert into High select symbol from Tick(price > 10);\n"
    "@name('<img src=x onerror=alert(1)>') select count(*) as n from High#time(1 min)",
    "%epl map",
    "for i in range(20):\n    cep.send('Tick', symbol='AB'[i % 2], price=float(i))",
]


def test_the_map(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "map.ipynb", CELLS)
    with open_lab("map.ipynb") as notebook:
        page = notebook.page
        dialogs: list[str] = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        for number in range(4):
            page.evaluate(RUN_CELL, number)
        picture = notebook.cell(2).locator(".cepbook-flow")
        high = picture.locator("[data-node='statement high']")
        expect(high).to_contain_text("20 events", timeout=10_000)
        expect(picture.locator("[data-node='store Newest']")).to_contain_text("holds 2")
        assert picture.locator("img").count() == 0
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(notebook, theme)
            notebook.cell(2).screenshot(path=screenshot_dir / f"map-{theme.split()[1].lower()}.png")
        high.focus()
        page.keyboard.press("Enter")
        expect(picture.locator(".cepbook-view .cv-name")).to_have_text("high")
        expect(picture.locator(".cepbook-view .cv-plus .cv-count")).to_have_text("9")
        picture.locator("[data-node='store Newest']").click()
        expect(picture.locator(".cepbook-view .cv-name")).to_have_text("Newest")
        saved = notebook.cells()[2]["outputs"][0]["data"]
        assert "<svg" in saved["text/html"] and "holds 2" in saved["text/html"]
        assert notebook.errors() == [] and dialogs == []
        assert (notebook.external, notebook.page_errors) == ([], [])
