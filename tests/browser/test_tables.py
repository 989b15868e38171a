"""Tables in a narrow JupyterLab: every column can be read without scrolling sideways, and code is set as code."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import take_picture, write_notebook
from tests.browser.test_themes import change_theme

CELLS = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Payment(card string, city string, amount double, note string);\n"
    "create context PerCard partition by card from Payment;\n"
    "@name('probing') context PerCard select big.amount as amount from pattern [every (\n"
    "  Payment(amount < 2) -> Payment(amount < 2) -> big=Payment(amount > 300) where timer:within(1 hour))];\n"
    "@name('large') context PerCard select amount, note from Payment(amount > 500);\n"
    "@name('odd') select card from Payment where note is null",
    "%%events\n"
    "Payment = {card='a', city='Rome', amount=1.0, note='`x`'}\n"
    "Payment = {card='a', city='Rome', amount=7.45, note='`x`'}\n"
    "Payment = {card='a', city='Rome', amount=700.0, note='`x`'}",
    "%epl why probing --event 2",
    "%epl partials probing",
    "%%scenario\nPayment = {card='ann', city='Rome', amount=1.0, note='one of them'}\nt = t.plus(3 minutes)\n"
    "Payment = {card='ann', city='Rome', amount=900.0, note='another'}",
    "%epl why --event 1",
    "%epl why --event 3",
    "%%epl --quiet\n"
    "create schema Flight(carrier string, dest string, flight int, mean_delay double);\n"
    "create context EachCarrierOfTheYear partition by carrier from Flight;\n"
    "@name('latest') select irstream * from Flight#length(2);\n"
    "@name('total') context EachCarrierOfTheYear select carrier, sum(mean_delay) as total_mean_delay from Flight",
    "%%events --only latest,total\n"
    't = "2024-03-04 08:00:00.000"\n'
    "Flight = {carrier='B6', dest='ROC', flight=486, mean_delay=47.0}\n"
    "Flight = {carrier='DL', dest='SJU', flight=412, mean_delay=19.0}\n"
    "Flight = {carrier='B6', dest='SJU', flight=1503, mean_delay=-4.0}",
    "%epl partitions",
    "%view latest",
    "%view total",
]
EVENTS, CONTEXTS, LATEST, TOTAL = range(9, 13)
_WIDER = "node => node.scrollWidth - node.clientWidth"


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_tables_fit_a_narrow_page(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path, theme: str) -> None:
    write_notebook(lab_root / "why.ipynb", CELLS)
    with open_lab("why.ipynb") as page:
        page.page.set_viewport_size({"width": 640, "height": 1000})
        change_theme(page, theme)
        page.run_all()
        assert page.errors() == []
        for number in (*range(2, 8), EVENTS, CONTEXTS):
            output = page.cell(number).locator(".jp-OutputArea-output").first
            take_picture(page.cell(number), screenshot_dir / f"why-{number}-{theme.split()[1].lower()}.png")
            expect(output.get_by_role("columnheader").last).to_be_in_viewport(ratio=1)
            assert output.evaluate(_WIDER) <= 0, number
        for number, tab in ((LATEST, "Stream"), (LATEST, "Window"), (TOTAL, "Stream"), (TOTAL, "Partitions")):
            view = page.cell(number).locator(".cepbook-view")
            view.get_by_role("tab", name=tab).click()
            pane = view.get_by_role("tabpanel", name=tab).locator(".cv-scroll")
            expect(pane.locator(".cv-row").first).to_be_visible()
            assert pane.evaluate(_WIDER) <= 0, (number, tab)
            take_picture(page.cell(number), screenshot_dir / f"narrow-{number}-{tab}-{theme.split()[1].lower()}.png")
        footer = page.cell(TOTAL).locator(".cv-footer")
        expect(footer).to_contain_text("arrivals are counted from 2024-03-04 08:00:00 on")
        first = page.cell(3)
        expect(first.locator("td code", has_text="Payment(amount < 2)")).to_be_visible()
        assert "`" not in first.locator("table").last.inner_text()
        assert "note=`x`" in page.cell(7).locator("table").last.inner_text()  # a value is shown as it is
        assert (page.external, page.page_errors) == ([], [])
