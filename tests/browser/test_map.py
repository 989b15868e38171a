"""`%epl map`: the flow of data as a live picture; a click, or Enter, opens a view; saved it is the picture itself."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import settled, take_picture, write_notebook
from tests.browser.test_themes import change_theme

CELLS = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Tick(symbol string, price double);\n"
    "create window Newest#unique(symbol) as Tick;\n"
    "insert into Newest select * from Tick;\n"
    "@name('high') insert into High select symbol from Tick(price > 10);\n"
    "@name('<img src=x onerror=alert(1)>') select count(*) as n from High#time(1 min);\n"
    + "".join(
        f"@name('watch_prices_of_the_symbol_number_{n}') select avg(price) as mean from Tick(price > 9)#length({n});\n"
        for n in range(1, 25)
    ),
    "%epl map",
    "for i in range(20):\n    cep.send('Tick', symbol='AB'[i % 2], price=float(i))",
    "import asyncio\nfor i in range(400_000):\n    cep.send('Tick', symbol='A', price=10.0)\n"
    "    if i % 100 == 0:\n        await asyncio.sleep(0.01)",
]
OUTSIDE = """picture => [...picture.querySelectorAll('[data-node]')].flatMap(node => {
    const edge = node.querySelector('rect').getBoundingClientRect().right;
    return [...node.querySelectorAll('text')].filter(each => each.getBoundingClientRect().right > edge - 1);
}).map(each => each.textContent)"""
SCROLLED = """cell => [...cell.querySelectorAll('.jp-OutputArea *')].filter(each =>
    each.scrollWidth > each.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(each).overflowX)
    && !each.closest('.cepbook-view')).map(each => each.className)"""
LABELS = "picture => [...picture.querySelectorAll('[data-node] [font-weight]')].map(each => each.textContent)"


def test_the_map(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "map.ipynb", CELLS)
    with open_lab("map.ipynb") as notebook:
        page = notebook.page
        notebook.run_cell(*range(4))
        picture = notebook.cell(2).locator(".cepbook-flow")
        high = picture.locator("[data-node='statement high']")
        expect(high).to_contain_text("20 events")
        expect(picture.locator("[data-node='store Newest']")).to_contain_text("holds 2")
        assert picture.locator("img").count() == 0
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(notebook, theme)
            take_picture(notebook.cell(2), screenshot_dir / f"map-{theme.split()[1].lower()}.png")
        high.focus()
        page.keyboard.press("Enter")
        expect(picture.locator(".cepbook-view .cv-name")).to_have_text("high")
        expect(picture.locator(".cepbook-view .cv-name")).to_be_in_viewport()  # the map is higher than the page
        expect(picture.locator(".cepbook-view .cv-plus .cv-count")).to_have_text("9")
        picture.locator("[data-node='store Newest']").click()
        expect(picture.locator(".cepbook-view .cv-name")).to_have_text("Newest")
        saved = notebook.cells()[2]["outputs"][0]["data"]
        assert "<img" in saved["text/html"] and "holds 2" in saved["text/html"]
        notebook.run_cell(4, wait=False)
        expect(picture.locator("[data-node='statement high']")).to_contain_text("/s")
        page.wait_for_timeout(3_000)  # figures grow
        assert picture.evaluate(OUTSIDE) == []
        labels = picture.evaluate(LABELS)
        assert len(labels) > 28 and len(set(labels)) == len(labels), "names that begin alike are told apart"
        for width in (640, 700, 1000, 1440, 1500):
            page.set_viewport_size({"width": width, "height": 900})
            assert settled(page, lambda: notebook.cell(2).evaluate(SCROLLED), lambda scrolled: not scrolled) == [], (
                width
            )
            take_picture(notebook.cell(2), screenshot_dir / f"map-busy-{width}.png")
        page.evaluate("() => window.cepbookPanel.sessionContext.session.kernel.interrupt()")
        page.wait_for_function("() => window.cepbookPanel.sessionContext.session.kernel.status === 'idle'")
        assert notebook.dialogs == []
        assert (notebook.external, notebook.page_errors) == ([], [])
