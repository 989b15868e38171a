"""Charts and marble diagrams in both themes of JupyterLab: readable, and following when the theme is switched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import NotebookPage, take_picture

MIME = "application/vnd.vegalite.v5+json"
READABLE = 4.0  # contrast of text, after WCAG; 4.5 is its bar for small text, of which JupyterLab's own falls short
# Contrast of each text of the chart with what lies behind the cell.
_CONTRASTS = """chart => {
    const light = css => {
        const part = css.match(/[\\d.]+/g).map(Number).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
    };
    let behind = chart, paper = 'rgba(0, 0, 0, 0)';
    while (behind && /, 0\\)$|transparent/.test(paper)) {
        paper = getComputedStyle(behind).backgroundColor;
        behind = behind.parentElement;
    }
    return [...chart.querySelectorAll('svg text')].filter(t => t.textContent.trim()).map(t => {
        const [a, b] = [light(getComputedStyle(t).fill), light(paper)].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05);
    });
}"""


def change_theme(page: NotebookPage, theme: str) -> None:
    page.page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    light = "true" if "Light" in theme else "false"
    page.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{light}'", polling=100)
    page.page.wait_for_timeout(500)


@pytest.mark.parametrize("notebook", ["02_windows", "05_joins_and_stores"])
def test_saved_charts_can_be_read_in_both_themes(open_lab: OpenNotebook, screenshot_dir: Path, notebook: str) -> None:
    with open_lab(f"notebooks/{notebook}.ipynb") as page:
        index = page.with_output(MIME)[0]
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(page, theme)
            chart = page.cell(index).locator(".vega-embed").first
            chart.locator("svg.marks text").first.wait_for()
            contrasts = chart.evaluate(_CONTRASTS)
            assert len(contrasts) >= 5 and min(contrasts) >= READABLE, (theme, min(contrasts))
            take_picture(page.cell(index), screenshot_dir / f"{notebook}-{theme.rpartition(' ')[2].lower()}.png")
        assert page.external == []
