"""Every widget in both themes of JupyterLab, checked by axe-core: no serious finding, at first and with parts open."""

from __future__ import annotations

from pathlib import Path

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import take_picture, write_notebook
from tests.browser.test_themes import change_theme

CELLS = [
    "%load_ext cepbook\nimport pandas as pd",
    "%%epl\n"
    "create schema Tick(symbol string, price double);\n"
    "create variable double threshold = 50;\n"
    "create context PerSymbol partition by symbol from Tick;\n"
    "create window Newest#unique(symbol) as Tick;\n"
    "insert into Newest select * from Tick;\n"
    "@name('high') select symbol, price from Tick(price > threshold)#length(20);\n"
    "@name('means') context PerSymbol select symbol, avg(price) as mean from Tick#length(5)",
    "ticks = pd.DataFrame({'time': 1_700_000_000_000 + pd.RangeIndex(2_000) * 1000,\n"
    "    'symbol': ['ACME', 'BETA'] * 1000, 'price': [float(i * 7 % 101) for i in range(2_000)]})\n"
    "replay = cep.replay(ticks, type='Tick', time='time')\nreplay",
    "await replay",
    "%view high",
    "%view --chart high --threshold 50",
    "%epl map",
    "%cep",
    "%epl marble means",
    "%epl tune high",
    "%epl why high",
    "%epl timeline PerSymbol",
    "live = cep.live({'Tick': iter([{'time': 1_700_009_000_000, 'symbol': 'ACME', 'price': 99.0}, {'price': 'x'}])},\n"
    "    time='time')\nlive",
]
WIDGETS = {"replay bar": 2, "view": 4, "chart": 5, "map": 6, "panel": 7, "marble": 8, "tuner": 9, "why": 10,
           "timeline": 11, "live bar": 12}  # fmt: skip
# vega-embed names the menu of a picture on the element around the one that axe looks at.
FINDINGS = """async node => {
    const places = {include: node, exclude: '.vega-embed > details'};
    const { violations } = await axe.run(places, {resultTypes: ['violations']});
    return violations.filter(finding => ['serious', 'critical'].includes(finding.impact)).flatMap(
        finding => finding.nodes.map(node => `${finding.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
}"""


def output(cell: Locator) -> Locator:
    return cell.locator(".jp-OutputArea-output").last


def open_details(cells: dict[str, Locator]) -> None:
    """Open what a click opens: columns of the view, a row's reasons, an item of the panel, the rejected items."""
    cells["view"].get_by_role("button", name="Columns").click()
    cells["view"].locator(".cv-row").first.click()
    cells["panel"].get_by_role("treeitem").filter(has_text="high").first.click()
    for summary in cells["live bar"].locator("summary:visible").all():
        summary.click()


def test_no_widget_has_a_serious_finding(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "accessibility.ipynb", CELLS)
    with open_lab("accessibility.ipynb") as notebook:
        notebook.run_all()
        page = notebook.page
        page.evaluate(AXE_SCRIPT)
        cells = {name: notebook.cell(index) for name, index in WIDGETS.items()}
        findings: dict[tuple[str, str, str], list[str]] = {}
        for state in ("closed", "open"):
            if state == "open":
                open_details(cells)
            for theme in ("JupyterLab Dark", "JupyterLab Light"):
                change_theme(notebook, theme)
                for name, cell in cells.items():
                    cell.scroll_into_view_if_needed()
                    expect(output(cell)).to_be_visible()
                    findings[name, theme, state] = output(cell).evaluate(FINDINGS)
                    take_picture(cell, screenshot_dir / f"{name}, {theme}, {state}.png")
        lines = [f"{' · '.join(place)}: {line}" for place, serious in findings.items() for line in serious]
        assert not lines, "\n".join(lines)
        assert len(findings) == 4 * len(WIDGETS)
        assert (notebook.external, notebook.page_errors) == ([], [])
