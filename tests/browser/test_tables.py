"""Tables in a narrow JupyterLab: every column can be read without scrolling sideways, and code is set as code."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import write_notebook
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
]
_WIDER = "node => node.scrollWidth - node.clientWidth"


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_tables_fit_a_narrow_page(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path, theme: str) -> None:
    write_notebook(lab_root / "why.ipynb", CELLS)
    with open_lab("why.ipynb") as page:
        page.page.set_viewport_size({"width": 640, "height": 1000})
        change_theme(page, theme)
        page.run_all()
        assert page.errors() == []
        for number in range(2, 8):
            shown = page.cell(number).locator(".jp-OutputArea-output").first
            page.cell(number).screenshot(path=screenshot_dir / f"why-{number}-{theme.split()[1].lower()}.png")
            expect(shown.get_by_role("columnheader").last).to_be_in_viewport(ratio=1)
            assert shown.evaluate(_WIDER) <= 0, number
        first = page.cell(3)
        expect(first.locator("td code", has_text="Payment(amount < 2)")).to_be_visible()
        assert "`" not in first.locator("table").last.inner_text()
        assert "note=`x`" in page.cell(7).locator("table").last.inner_text()  # a value is shown as it is
        assert (page.external, page.page_errors) == ([], [])
