"""Views of much: a thousand partitions, a tree of ten thousand and a large window searched and sorted, rows of
aggregates beside the events of their window, the events behind the last row of a pattern in sight."""

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
    "create context PerSymbol partition by symbol from Tick;\n"
    "@name('mean') context PerSymbol select symbol, avg(price) as mean from Tick#length(5);\n"
    "@name('rise') select b.price as top from pattern [every a=Tick(symbol='S001') -> b=Tick(symbol='S001')]",
    "%view mean",
    "%view rise",
    "ticks = [{'time': i * 50, 'symbol': f'S{i * i % 997:03d}', 'price': float(i)} for i in range(20_000)]\n"
    "cep.replay(ticks, type='Tick', time='time').run()",
]
_LAST_VISIBLE = """table => {
    const lines = [...table.querySelectorAll('.cv-detail')].filter(row => !row.hidden);
    const [inside, line] = [table.getBoundingClientRect(), lines.at(-1).getBoundingClientRect()];
    return lines.length === 2 && line.bottom <= inside.bottom && line.top >= inside.top;
}"""


def test_a_thousand_partitions(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "large.ipynb", CELLS)
    with open_lab("large.ipynb") as notebook:
        page = notebook.page
        notebook.run_cell(*range(4))
        mean, rise = (notebook.cell(number).locator(".cepbook-view") for number in (2, 3))
        mean.wait_for()
        mean.get_by_role("tab", name="Partitions").click()
        expect(mean).to_contain_text("No partition exists yet.")  # told by the kernel, which counts from here on
        expect(mean.get_by_role("columnheader", name="arrived")).to_have_count(0)
        rise.get_by_role("tab", name="Waiting").click()
        expect(rise.locator(".cv-footer")).to_contain_text("partial match")  # events are recorded from here on
        rise.get_by_role("tab", name="Stream").click()
        notebook.run_cell(4)

        listed = mean.get_by_role("tabpanel", name="Partitions")
        rows = listed.locator(".cv-row").filter(visible=True)
        expect(mean.locator(".cv-footer")).to_contain_text("499 partitions")
        for _ in range(2):
            listed.get_by_role("button", name="arrived").click()
        expect(listed.get_by_role("columnheader", name="arrived")).to_have_attribute("aria-sort", "descending")
        expect(rows.first).to_contain_text("00:16:")
        headings = listed.get_by_role("columnheader").all_inner_texts()
        assert [heading.split(" ▼")[0] for heading in headings] == [
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
            take_picture(notebook.cell(2), screenshot_dir / f"large-{theme.split()[1].lower()}.png")

        last = rise.locator(".cv-insert").filter(visible=True).last
        last.click()
        table = rise.get_by_role("tabpanel", name="Stream").locator(".cv-scroll")
        expect(rise.locator(".cv-detail").filter(visible=True)).to_have_count(2)
        assert settled(page, lambda: table.evaluate(_LAST_VISIBLE), bool)
        assert notebook.errors() == []
        assert (notebook.external, notebook.page_errors) == ([], [])


NESTED = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Tick(venue string, trader string, price double);\n"
    "create context Traders context PerVenue partition by venue from Tick,\n"
    "  context Each partition by trader from Tick;\n"
    "@name('each') context Traders select avg(price) as mean from Tick#length(5);\n"
    "@name('kept') select venue, trader, price from Tick#length(100000)",
    "%view each",
    "%view kept",
    "ticks = [{'time': i, 'venue': f'V{i // 100 % 100:02d}', 'trader': f'T{i % 100:02d}',"
    " 'price': i * 7919 % 99991 / 10} for i in range(100_000)]\n"
    "cep.replay(ticks, type='Tick', time='time').run()",
    "for _ in range(5): cep.send('Tick', venue='V42', trader='T07', price=1e6)",
]


def test_a_tree_of_ten_thousand_partitions_and_a_large_window_in_order(
    open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path
) -> None:
    write_notebook(lab_root / "nested.ipynb", NESTED)
    with open_lab("nested.ipynb") as notebook:
        page = notebook.page
        notebook.run_cell(*range(4))
        tree, retained = (notebook.cell(number).locator(".cepbook-view") for number in (2, 3))
        tree.wait_for()
        tree.get_by_role("tab", name="Partitions").click()
        retained.get_by_role("tab", name="Window").click()
        expect(tree).to_contain_text("No partition exists yet.")
        notebook.run_cell(4)
        notebook.run_cell(5)

        listed = tree.get_by_role("tabpanel", name="Partitions")
        rows = listed.locator("[role=row][aria-level]").filter(visible=True)
        footer = tree.locator(".cv-footer")
        expect(footer).to_contain_text("100 PerVenue · 10,000 Each", timeout=30_000)
        expect(rows.first).to_contain_text("PerVenue venue = V00")
        expect(rows.first).to_have_attribute("aria-expanded", "false")
        grid = listed.get_by_role("treegrid")
        expect(grid).to_have_attribute("aria-rowcount", "101")

        for _ in range(2):
            listed.get_by_role("button", name="arrived").click()
        expect(listed.get_by_role("columnheader", name="arrived")).to_have_attribute("aria-sort", "descending")
        expect(rows.first).to_contain_text("PerVenue venue = V42")
        expect(rows.first).to_contain_text("1005")
        rows.first.click()
        expect(rows.first).to_have_attribute("aria-expanded", "true")
        expect(rows.nth(1)).to_contain_text("Each trader = T07")
        expect(rows.nth(1)).to_have_attribute("aria-level", "2")
        expect(rows.nth(1)).to_have_attribute("aria-setsize", "100")
        expect(grid).to_have_attribute("aria-rowcount", "201")
        grid.evaluate("node => { node.scrollTop = 22 * 101; }")
        expect(rows.filter(has_text="PerVenue venue").first).to_be_visible()  # what was not sent is asked for
        grid.evaluate("node => { node.scrollTop = 0; }")

        tree.locator(".cv-filter").fill("t07 v4")
        expect(footer).to_contain_text("10 of 10,000 partitions")
        expect(grid).to_have_attribute("aria-rowcount", "21")
        expect(rows.nth(0)).to_contain_text("PerVenue venue = V42")
        expect(rows.nth(1)).to_contain_text("Each trader = T07")

        retained.get_by_role("tabpanel", name="Window").get_by_role("button", name="price").click()
        window = retained.get_by_role("tabpanel", name="Window").locator(".cv-body .cv-row").filter(visible=True)
        expect(window.first).to_contain_text("0.0")
        retained.get_by_role("tabpanel", name="Window").get_by_role("button", name="price").click()
        expect(window.first).to_contain_text("1000000.0")
        expect(retained.locator(".cv-footer")).to_have_text("100,000 rows")
        retained.locator(".cv-filter").fill("v42 t07")
        expect(retained.locator(".cv-footer")).to_contain_text("15 of 100,000 rows")

        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(notebook, theme)
            for width in (640, 1500):
                page.set_viewport_size({"width": width, "height": 900})
                expect(rows.nth(1)).to_contain_text("Each trader = T07")
                for cell, name in ((2, "tree"), (3, "sorted")):
                    path = screenshot_dir / f"large-{name}-{theme.split()[1].lower()}-{width}.png"
                    take_picture(notebook.cell(cell), path)
        page.set_viewport_size({"width": 1500, "height": 900})
        tree.locator(".cv-filter").fill("")
        expect(footer).to_contain_text("100 PerVenue · 10,000 Each")
        rows.nth(1).click()  # a context partition: its rows
        expect(tree.locator(".cv-chosen")).to_have_text("Each trader = T07 ×")
        expect(tree.get_by_role("tab", name="Result")).to_have_attribute("aria-selected", "true")
        assert notebook.errors() == []
        assert (notebook.external, notebook.page_errors) == ([], [])
