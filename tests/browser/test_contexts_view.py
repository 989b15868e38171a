"""The live view of a pattern under a nested context: the tree of partitions, what it waits for, what made a match."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import write_notebook

CELLS = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Txn(customer string, amount double);\n"
    "create context Offices\n"
    "  context NineToFive start (0, 9, *, *, *) end (0, 17, *, *, *),\n"
    "  context PerCustomer partition by customer from Txn;\n"
    "@name('rising') context Offices select b.amount - a.amount as more\n"
    "from pattern [every a=Txn -> b=Txn(amount > a.amount) where timer:within(1 hour)]",
    "%%events\n"
    't = "2024-03-04 09:00:00.000"\n'
    'Txn customer="ann" amount=10\n'
    'Txn customer="bob" amount=20\n'
    "t = t.plus(1 min)\n"
    'Txn customer="cid" amount=30',
    "%view rising",
    'if len(cep.changes("rising")):\n'
    "    cep.rewind()\n"
    '    cep.advance("2024-03-04 09:00:00")\n'
    '    cep.send("Txn", customer="bob", amount=20.0)\n'
    'cep.send("Txn", customer="bob", amount=25.0)',
    "%epl timeline Offices",
]
CHART = "application/vnd.vegalite.v5+json"
_RUN_FROM = """i => {
    window.cepbookPanel.content.activeCellIndex = i;
    return window.jupyterapp.commands.execute('notebook:run-all-below');
}"""
_RUN_ABOVE = """i => {
    window.cepbookPanel.content.activeCellIndex = i;
    return window.jupyterapp.commands.execute('notebook:run-all-above');
}"""


def test_a_tree_of_partitions_and_what_a_pattern_waits_for(
    open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path
) -> None:
    write_notebook(lab_root / "contexts.ipynb", CELLS)
    with open_lab("contexts.ipynb") as notebook:
        page = notebook.page
        page.evaluate(_RUN_ABOVE, 4)
        view = page.locator(".cepbook-view")
        view.wait_for()

        view.get_by_role("tab", name="Partitions").click()
        tree = view.get_by_role("treegrid", name="context partitions")
        rows = tree.locator("[role=row][aria-level]").filter(visible=True)
        expect(rows).to_have_count(4)
        office = rows.first
        expect(office).to_have_attribute("aria-expanded", "true")
        expect(office).to_contain_text("NineToFive startTime = 2024-03-04 09:00:00, endTime = 2024-03-04 17:00:00")
        expect(rows.nth(3)).to_contain_text("PerCustomer customer = cid")
        expect(view.locator(".cv-footer")).to_contain_text("1 NineToFive · 3 PerCustomer")
        office.click()
        expect(rows).to_have_count(1)
        expect(office).to_have_attribute("aria-expanded", "false")
        tree.press("ArrowRight")
        expect(rows).to_have_count(4)
        notebook.cell(3)
        page.screenshot(path=screenshot_dir / "contexts_tree.png")

        rows.nth(2).click()  # bob: a statement that keeps no rows shows what it waits for
        waiting = view.get_by_role("tabpanel", name="Waiting")
        expect(view.locator(".cv-chosen")).to_have_text("PerCustomer customer = bob ×")
        waits = waiting.locator(".cv-choice").filter(visible=True)
        expect(waits).to_have_count(2)
        expect(waits.nth(1)).to_contain_text("b=Txn(amount > a.amount)")
        expect(waits.nth(1)).to_contain_text("2024-03-04 10:00:00")
        waits.nth(1).click()
        expect(waiting.locator(".cv-detail").filter(visible=True)).to_have_text("a = {customer=bob, amount=20.0}")
        page.screenshot(path=screenshot_dir / "contexts_waiting.png")

        page.evaluate(_RUN_FROM, 4)
        view.get_by_role("tab", name="Stream").click()
        match = view.get_by_role("tabpanel", name="Stream").locator(".cv-insert").filter(visible=True)
        expect(match).to_have_count(1)
        match.click()
        details = view.get_by_role("tabpanel", name="Stream").locator(".cv-detail").filter(visible=True)
        expect(details).to_have_text(["a = {customer=bob, amount=20.0}", "b = {customer=bob, amount=25.0}"])
        page.screenshot(path=screenshot_dir / "contexts_match.png")
        page.evaluate(_RUN_FROM, 4)  # the feed begins anew; what is open stays open, and is asked for again
        expect(details).to_have_text(
            [
                "Unknown: the events behind a row are recorded only while a view of the statement is open, "
                "for the latest 2,000 deliveries."
            ]
        )

        assert notebook.with_output(CHART) == [5]
        drawn = notebook.cell(5).locator("canvas, svg.marks").first
        drawn.wait_for(state="visible")
        page.screenshot(path=screenshot_dir / "contexts_timeline.png")
        assert notebook.errors() == []
        assert (notebook.external, notebook.page_errors) == ([], [])
