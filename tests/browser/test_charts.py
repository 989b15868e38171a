"""Charts of statements in a page: extremes, series, zoom that all charts share, tooltips, themes, width, reload."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import HEIGHT, WIDTH, settled, take_picture, write_notebook
from tests.browser.test_themes import change_theme

CELLS = [
    "%load_ext cepbook\nimport numpy as np, pandas as pd",
    "%%epl\n"
    "create schema Tick(symbol string, price double, size int);\n"
    "create context PerSymbol partition by symbol from Tick;\n"
    "@name('ticks') select * from Tick;\n"
    "@name('means') select symbol, avg(price) as mean from Tick#time_batch(10 min) group by symbol;\n"
    "@name('sizes') context PerSymbol select count(*) as sizes from Tick",
    "n = 200_000\n"
    "rng = np.random.default_rng(0)\n"
    "ticks = pd.DataFrame({'time': 1_372_550_400_000 + np.arange(n) * 100,\n"
    "    'symbol': np.array(['A', 'B', '<img src=x onerror=alert(1)>'])[np.arange(n) % 3],\n"
    "    'price': rng.normal(size=n).cumsum() / 10, 'size': np.arange(n) % 7})\n"
    "ticks.loc[[70_001, 150_001], 'price'] = [911.0, -788.0]\n"
    "replay = cep.replay(ticks, type='Tick', time='time')\nreplay",
    "%view --chart ticks --threshold 500",
    "%view --chart means --kind bar",
    "await replay",
    "%epl marble means",
    "%epl timeline PerSymbol",
]
ANY_EXTREMES = re.compile("values from -788 to 911, ")
INSIDE = """node => [...node.querySelectorAll('*')].filter(each => each.getBoundingClientRect().right >
    node.getBoundingClientRect().right + 1).map(each => each.outerHTML.slice(0, 200))"""
INKED = """node => {
    const { data } = node.getContext('2d').getImageData(0, 0, node.width, node.height);
    return data.filter((value, at) => at % 4 === 3 && value > 0).length;
}"""


def drag(chart: Locator, start: float, end: float) -> None:
    """Drag in the plot, from one share of its width to another."""
    box = chart.locator(".cc-plot").bounding_box()
    assert box is not None
    mouse, middle = chart.page.mouse, box["y"] + box["height"] / 2
    mouse.move(box["x"] + box["width"] * start, middle)
    mouse.down()
    mouse.move(box["x"] + box["width"] * end, middle, steps=5)
    mouse.up()


def test_charts_in_a_page(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "charts.ipynb", CELLS)
    with open_lab("charts.ipynb") as notebook:
        page = notebook.page
        warnings: list[str] = []
        page.on("console", lambda message: warnings.append(message.text) if message.type == "warning" else None)
        notebook.run_all()
        first, second = (notebook.cell(number).locator(".cepbook-chart") for number in (3, 4))
        notebook.cell(3).scroll_into_view_if_needed()
        expect(first.locator(".cc-note")).to_have_text("200,000 rows")
        expect(first.locator(".cc-plot")).to_have_attribute("aria-label", ANY_EXTREMES)
        expect(first.locator(".cc-legend button")).to_have_count(3)
        canvas = first.locator("canvas").first
        assert settled(page, lambda: canvas.evaluate(INKED), lambda inked: inked > 1_000) > 1_000

        whole = first.locator(".cc-range").inner_text()
        drag(first, 0.3, 0.4)
        expect(first.locator(".cc-range")).not_to_have_text(whole)
        expect(second.locator(".cc-range")).to_have_text(first.locator(".cc-range").inner_text())
        zoomed = first.locator(".cc-range").inner_text()
        drag(first, 0.5, 0.5)
        expect(first.locator(".cc-range")).to_have_text(zoomed)
        first.locator(".cc-plot").focus()
        page.keyboard.press("ArrowRight")
        expect(first.locator(".cc-tip")).to_contain_text("size")  # of the whole row
        expect(first.locator(".cc-spoken")).to_contain_text("price")
        first.get_by_role("button", name="zoom in").click()
        expect(first.locator(".cc-range")).not_to_have_text(zoomed)
        first.get_by_role("button", name="show all times").click()
        expect(first.locator(".cc-range")).to_have_text(whole)
        first.locator(".cc-legend button").nth(1).click()
        expect(first.locator(".cc-legend button").nth(1)).to_have_attribute("aria-pressed", "false")
        for width in (1500, 640):
            page.set_viewport_size({"width": width, "height": HEIGHT})
            for theme in ("JupyterLab Dark", "JupyterLab Light"):
                change_theme(notebook, theme)
                take_picture(notebook.cell(3), screenshot_dir / f"chart-{width}-{theme.split()[1].lower()}.png")
                assert settled(page, lambda: first.evaluate(INSIDE), lambda outside: not outside) == []
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        saved = next(o for o in notebook.cells()[3]["outputs"] if "text/plain" in o["data"])["data"]
        assert "911" in saved["text/plain"] and "-788" in saved["text/plain"] and "data:image/png" in saved["text/html"]
        for number in (6, 7):  # Vega says nothing of a marble diagram and a timeline
            notebook.cell(number).locator(".vega-embed svg.marks").wait_for()
        assert notebook.errors() == [] and notebook.dialogs == []
        assert (notebook.external, notebook.page_errors, warnings) == ([], [], [])
