"""The control of live sources in JupyterLab: both themes, wide and narrow, its buttons, and the saved notebook."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import settled, take_picture, write_notebook
from tests.browser.test_saved_views import _WITHOUT_KERNEL
from tests.browser.test_themes import change_theme

HOSTILE = "<img src=x onerror=document.title='attacked'>"
FITS = "node => node.scrollWidth <= node.clientWidth + 1"
CELLS = [
    "%load_ext cepbook\n"
    "import asyncio\n"
    "from cepbook.session import inlets\n"
    "cep.run('''create schema Quote(at long, symbol string, price double) starttimestamp at;\n"
    "create schema Trade(at long, quantity int) starttimestamp at; @name('out') select * from Quote''')",
    "async def quotes():\n"
    "    yield inlets.Link(False)\n"
    "    for second in range(1, 100_000):\n"
    "        price = 'n/a' if second % 9 == 5 else float(second)\n"
    "        back = 9_000 if second % 7 == 3 and second > 12 else second % 3 * 1_000\n"
    "        yield {'at': 1_700_000_000_000 + 1_000 * second - back, 'symbol': 'ACME', 'price': price}\n"
    "        if second == 30:\n"
    "            yield inlets.Link(True, 'closed by the server with 1011 (internal error): deployment')\n"
    "            await asyncio.sleep(0.1)\n"
    "            yield inlets.Link(False)\n"
    "        await asyncio.sleep(0.01)\n"
    "async def orders():\n"
    f"    yield {{'at': 1_700_000_000_000, 'quantity': {HOSTILE!r}}}\n"
    f"    raise ConnectionError({HOSTILE!r})\n"
    "live = cep.live({'Quote': quotes(), 'Trade': orders()}, time='at', lateness='5 sec')\n"
    "live",
]


def test_live_sources(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "live_sources.ipynb", CELLS)
    with open_lab("live_sources.ipynb") as notebook:
        page = notebook.page
        notebook.run_all()
        control = page.locator(".cepbook-live")
        quotes, orders = control.get_by_role("row").nth(1), control.get_by_role("row").nth(2)
        expect(quotes.locator(".cp-of-reconnections .cp-value")).to_contain_text("1 (")
        expect(quotes.locator(".cp-of-late .cp-value")).not_to_have_text("")
        expect(orders.locator(".cp-of-state .cp-value")).to_have_text("failed")
        expect(orders).to_contain_text(HOSTILE)
        expect(control.locator("summary")).to_have_count(2)
        for summary in control.locator("summary").all():
            summary.click()
        expect(control.get_by_role("table", name="rejected items")).to_contain_text("is double")
        control.get_by_role("button", name="Pause").click()
        expect(control).to_have_attribute("data-state", "paused")
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(notebook, theme)
            for width in (1400, 560):
                page.set_viewport_size({"width": width, "height": 1000})
                assert settled(page, lambda: control.evaluate(FITS), bool), (theme, width)
                take_picture(control, screenshot_dir / f"live-{theme.rpartition(' ')[2].lower()}-{width}.png")
        page.set_viewport_size({"width": 1400, "height": 1000})
        expect(control.get_by_role("table", name="sources").get_by_role("row")).to_have_count(3)
        control.get_by_role("button", name="Resume").click()
        expect(control).to_have_attribute("data-state", "running")
        control.get_by_role("button", name="Stop").click()
        expect(control).to_have_attribute("data-state", "stopped")
        expect(control.locator(".cp-troubles")).to_have_text("1 source failed")
        expect(control.get_by_role("button", name="Stop")).to_be_disabled()
        expect(control.locator("details[open]")).to_have_count(2)  # drawn anew, and open as before
        take_picture(control, screenshot_dir / "live-ended.png")
        assert notebook.errors() == []
        page.evaluate(_WITHOUT_KERNEL, "live_sources.ipynb")
        picture = notebook.cell(1).locator(".jp-OutputArea-output").first
        expect(picture).to_contain_text("lost connections")
        expect(picture).to_contain_text(HOSTILE)
        take_picture(picture, screenshot_dir / "live-saved.png")
        assert picture.locator("button, img").count() == 0 and page.title() != "attacked"
        assert notebook.external == []
