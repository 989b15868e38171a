"""Live views of a table, of a large named window, and of a join whose rows open to the events that made them."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import take_picture, write_notebook
from tests.browser.test_themes import change_theme

CELLS = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Sale(item string, shop string, amount double, at long) starttimestamp at;\n"
    "create schema Price(item string, price double);\n"
    "create table Totals(item string primary key, n count(*), total sum(double));\n"
    "into table Totals select count(*) as n, sum(amount) as total from Sale group by item;\n"
    "create window Sales#keepall as Sale;\n"
    "insert into Sales select * from Sale;\n"
    "@name('priced') select s.item as item, s.amount * p.price as worth, s.at as sold\n"
    "from Sale as s unidirectional, Price#unique(item) as p where s.item = p.item",
    'cep.send("Price", item="tea", price=2.0)\n'
    "for i in range(1500):\n"
    '    item = ["jam", "oil"][i % 2] if i != 3 else "rare"\n'
    '    cep.send("Sale", item=item, shop=f"shop {i % 7}", amount=float(i), at=1357034400000 + 60_000 * i)',
    "%view Totals",
    "%view Sales",
    "%view priced",
    'cep.send("Sale", item="tea", shop="shop 1", amount=5.0, at=1357034400000)',
    "%epl list",
]


def test_views_of_stores_and_of_a_join(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "stores.ipynb", CELLS)
    with open_lab("stores.ipynb") as notebook:
        notebook.run_cell(*range(6))
        totals, sales, priced = (notebook.cell(number).locator(".cepbook-view") for number in (3, 4, 5))
        priced.wait_for()

        rows = totals.get_by_role("tabpanel", name="Rows").locator(".cv-row").filter(visible=True)  # there at once
        expect(rows).to_have_count(3)
        expect(rows.first).to_contain_text("oil")
        assert totals.get_by_role("tab").all_inner_texts() == ["Rows"]  # a table has no stream, nor counters of it
        expect(totals.locator(".cv-chip").filter(visible=True)).to_have_count(0)

        sales.get_by_role("tab", name="Window").click()
        expect(sales.locator(".cv-footer")).to_contain_text("1,500 rows · the last 1,000 are shown")
        sales.locator(".cv-filter").fill("rare")
        matching = sales.get_by_role("tabpanel", name="Window").locator(".cv-row").filter(visible=True)
        expect(matching).to_have_count(1)
        expect(sales.locator(".cv-footer")).to_contain_text("1 of 1,500 rows")
        when = matching.locator(".cv-cell", has_text="2013-01-01 10:03:00")  # as all times are shown
        expect(when).to_have_attribute("title", "1357034580000")
        sales.locator(".cv-filter").fill("01-01 10:07:00")  # and found as it is shown
        expect(matching).to_have_count(1)
        expect(matching).to_contain_text("2013-01-01 10:07:00")

        notebook.run_cell(6)
        inserted = priced.get_by_role("tabpanel", name="Stream").locator(".cv-insert").filter(visible=True)
        expect(inserted).to_have_count(1)
        inserted.click()
        details = priced.get_by_role("tabpanel", name="Stream").locator(".cv-detail").filter(visible=True)
        expect(details).to_have_count(2)
        expect(details.nth(0)).to_contain_text("at=2013-01-01 10:00:00")
        expect(details.nth(1)).to_contain_text("price=2.0")
        expect(priced.get_by_role("tab", name="Waiting")).to_have_count(0)

        totals.scroll_into_view_if_needed()
        expect(rows).to_have_count(4)  # the table has a row more, although it delivers nothing
        notebook.run_cell(7)
        notebook.cell(7).get_by_text("named windows and tables").wait_for()
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(notebook, theme)
            for number, name in ((3, "table"), (4, "window"), (5, "join"), (7, "list")):
                take_picture(notebook.cell(number), screenshot_dir / f"stores-{name}-{theme.split()[1].lower()}.png")
        assert notebook.errors() == []
        assert (notebook.external, notebook.page_errors) == ([], [])
