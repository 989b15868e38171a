"""Views of much: a thousand partitions searched and sorted, rows of aggregates beside the events of their window, the
events behind the last row of a pattern in sight."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import write_notebook
from tests.browser.test_themes import change_theme

CELLS = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Tick(symbol string, price double);\n"
    "create context PerSymbol partition by symbol from Tick;\n"
    "@name('mean') context PerSymbol select symbol, avg(price) as mean from Tick#length(5);\n"
    "@name('rise') select b.price as top from pattern [every a=Tick(symbol='S001') -> b=Tick(symbol='S001')]",
    "%view mean",
    "%view rise",
    "ticks = [{'time': i * 50, 'symbol': f'S{i * i % 997:03d}', 'price': float(i)} for i in range(20_000)]\n"
    "cep.replay(ticks, type='Tick', time='time').run()",
]
RUN_CELL = """i => {
    window.cepbookPanel.content.activeCellIndex = i;
    return window.jupyterapp.commands.execute('notebook:run-cell');
}"""
_LAST_VISIBLE = """table => {
    const lines = [...table.querySelectorAll('.cv-detail')].filter(row => !row.hidden);
    const [inside, line] = [table.getBoundingClientRect(), lines.at(-1).getBoundingClientRect()];
    return lines.length === 2 && line.bottom <= inside.bottom && line.top >= inside.top;
}"""


def test_a_thousand_partitions(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "large.ipynb", CELLS)
    with open_lab("large.ipynb") as notebook:
        page = notebook.page
        for number in range(4):
            page.evaluate(RUN_CELL, number)
        mean, rise = (notebook.cell(number).locator(".cepbook-view") for number in (2, 3))
        mean.wait_for()
        mean.get_by_role("tab", name="Partitions").click()
        expect(mean.get_by_role("columnheader", name="arrived")).to_have_count(0)  # nothing exists yet
        page.evaluate(RUN_CELL, 4)

        listed = mean.get_by_role("tabpanel", name="Partitions")
        rows = listed.locator(".cv-row").filter(visible=True)
        expect(mean.locator(".cv-footer")).to_contain_text("499 partitions", timeout=15_000)
        for _ in range(2):
            listed.get_by_role("button", name="arrived").click()
        expect(listed.get_by_role("columnheader", name="arrived")).to_have_attribute("aria-sort", "descending")
        expect(rows.first).to_contain_text("00:16:")
        headings = listed.get_by_role("columnheader").all_inner_texts()
        assert [each.split(" ▼")[0] for each in headings] == [
            "id", "symbol", "last event", "arrived", "per second", "events"]  # fmt: skip
        mean.locator(".cv-filter").fill("s000")
        expect(rows).to_have_count(1)
        expect(mean.locator(".cv-footer")).to_contain_text("1 of 499 partitions")
        expect(rows.first).to_contain_text("21")  # i is a multiple of 997 so often
        rows.first.click()
        expect(mean.locator(".cv-chosen")).to_have_text("symbol = S000 ×")
        expect(mean.get_by_role("tab", name="Result")).to_have_attribute("aria-selected", "true")
        mean.get_by_role("tab", name="Window").click()
        expect(mean.locator(".cv-footer")).to_contain_text("5 events")
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(notebook, theme)
            notebook.cell(2).screenshot(path=screenshot_dir / f"large-{theme.split()[1].lower()}.png")

        last = rise.locator(".cv-insert").filter(visible=True).last
        last.click()
        table = rise.get_by_role("tabpanel", name="Stream").locator(".cv-scroll")
        expect(rise.locator(".cv-detail").filter(visible=True)).to_have_count(2)
        page.wait_for_timeout(300)
        assert table.evaluate(_LAST_VISIBLE)
        assert notebook.errors() == []
        assert (notebook.external, notebook.page_errors) == ([], [])
