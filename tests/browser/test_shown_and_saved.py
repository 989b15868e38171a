"""What a page shows and what is saved agree, whatever became of the page: the sweep is a table.

Without the kernel, `test_saved_views` has it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import _OPEN, _READY, NotebookPage, write_notebook

CELLS = [
    "%load_ext cepbook",
    "%%epl\ncreate schema Tick(symbol string, price double);\n@name('out') select price from Tick#length(3)",
    "def ticks(begin, end):\n"
    "    return [{'time': 1000 * i, 'symbol': 'AB'[i % 2], 'price': float(i)} for i in range(begin, end)]\n"
    "replay = cep.replay(ticks(0, 200), type='Tick', time='time', keep='20 sec')\nreplay",
    "%view out",
    "%view --chart out",
    "%epl map",
    "%cep",
    "%epl marble out",
    "await replay;",
    "cep.replay(ticks(200, 500), type='Tick', time='time').run();",
    "cep.replay(ticks(500, 800), type='Tick', time='time').run();",
]
# By element: its cell, where its number is while it is live, and where in its text when it is a picture.
ELEMENTS = {
    "bar": (2, ".cp-count", r"([\d,]+) of [\d,]+ events"),
    "view": (3, ".cv-plus .cv-count", r"out: ([\d,]+) insert rows"),
    "chart": (4, ".cc-plot", r"([\d,]+) (?:rows|points)"),
    "map": (5, "[data-node='statement out'] [data-figures]", r"([\d,]+) events"),
    "panel": (6, ".cepbook-panel", r"select\s*([\d,]+)"),
    "marble": (7, "svg.marks", r"marble diagram of out: ([\d,]+) arrivals"),
}
LIVE, PICTURE = "live", "picture"
SWEEP = {  # by situation: how an element is shown, and the number of events that it shows, and that is saved
    "run": (LIVE, 200),
    "reload": (LIVE, 200),
    "events after a reload": (LIVE, 500),
    "reload again": (LIVE, 500),
    "events after another reload, seen in two tabs": (LIVE, 800),
    "second tab": (LIVE, 800),
    "second notebook": (LIVE, 200),
    "first notebook beside it": (LIVE, 800),
    "restart of the kernel": (PICTURE, 800),
    "reload after the restart": (PICTURE, 800),
    "closed and opened": (PICTURE, 800),
    "run again": (LIVE, 200),
}
OWN = {"bar": 200, "marble": 20}  # of its own replay, and of the last arrivals when it was drawn
# Read at once: a live element may become a picture between two questions.
_LIVE_AND_TEXT = """(node, selector) => [
    node.querySelector(selector)?.textContent ?? null,
    [node.innerText, ...[...node.querySelectorAll('img')].map(image => image.alt)].join('\\n'),
]"""
_RESTART = "() => window.cepbookPanel.sessionContext.session.kernel.restart()"
_SAVE = "() => window.cepbookPanel.context.save()"


def number(pattern: str, text: str) -> int | None:
    match = re.search(pattern, text)
    return None if match is None else int(match[1].replace(",", ""))


def element_state(notebook: NotebookPage, name: str) -> tuple[str, int | None]:
    cell, selector, pattern = ELEMENTS[name]
    output = notebook.cell(cell).locator(".jp-OutputArea").first
    live, text = output.evaluate(_LIVE_AND_TEXT, selector)
    if live is None:
        return PICTURE, number(pattern, text)
    if name in ("marble", "chart"):  # a drawing: the marble diagram is one from the start
        return LIVE, 20 if name == "marble" else number(pattern, text)
    return LIVE, number(r"([\d,]+)" if name == "view" else pattern, live)


def saved(path: Path, name: str) -> int | None:
    cell, _, pattern = ELEMENTS[name]
    outputs: list[dict[str, Any]] = json.loads(path.read_text())["cells"][cell]["outputs"]
    texts = ["".join(saved["data"].get("text/plain", "")) for saved in outputs if "data" in saved]
    return next((count for text in texts if (count := number(pattern, text)) is not None), None)


def reload(notebook: NotebookPage, path: str) -> None:
    notebook.page.reload()
    enter(notebook.page, path)


def enter(page: Page, path: str) -> None:
    page.wait_for_function("() => window.jupyterapp !== undefined", polling=100)
    page.evaluate(_OPEN, path)
    page.wait_for_function(_READY, polling=100)


def table(notebook: NotebookPage, path: Path, *, saves: bool) -> dict[str, tuple[str, int | None, int | None]]:
    if saves:  # of two tabs one: JupyterLab asks in the other whether it shall overwrite the file
        notebook.page.evaluate(_SAVE)
    return {name: (*element_state(notebook, name), saved(path, name)) for name in ELEMENTS}


def test_what_is_shown_is_what_is_saved(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    path, other = lab_root / "sweep.ipynb", lab_root / "beside.ipynb"
    for notebook_path in (path, other):
        write_notebook(notebook_path, CELLS)
    tables: dict[str, dict[str, tuple[str, int | None, int | None]]] = {}

    def look(situation: str, notebook: NotebookPage, file: Path = path) -> None:
        how, events = SWEEP[situation]
        expected = {name: (how, OWN.get(name, events), OWN.get(name, events)) for name in ELEMENTS}
        expected["marble"] = (LIVE, 20, 20)
        for _ in range(40):
            tables[situation] = table(notebook, file, saves=situation != "second tab")
            if tables[situation] == expected:
                return
            notebook.page.wait_for_timeout(250)
        notebook.page.screenshot(path=screenshot_dir / "sweep.png")
        different = {n: (tables[situation][n], expected[n]) for n in expected if tables[situation][n] != expected[n]}
        failures.append(f"{situation}: {different}")

    failures: list[str] = []
    with open_lab("sweep.ipynb") as notebook:
        page = notebook.page
        notebook.run_cell(*range(9))
        look("run", notebook)
        reload(notebook, "sweep.ipynb")
        look("reload", notebook)
        notebook.run_cell(9)
        look("events after a reload", notebook)
        reload(notebook, "sweep.ipynb")
        look("reload again", notebook)

        second = NotebookPage(page.context.new_page())
        second.page.set_default_timeout(25_000)
        second.page.goto(page.url.split("/lab")[0] + "/lab/workspaces/second?reset", wait_until="domcontentloaded")
        enter(second.page, "sweep.ipynb")
        notebook.run_cell(10)
        look("events after another reload, seen in two tabs", notebook)
        look("second tab", second)
        second.page.evaluate("() => window.cepbookPanel.dispose()")
        enter(second.page, "beside.ipynb")
        second.run_cell(*range(9))
        look("second notebook", second, other)
        second.page.evaluate("() => window.cepbookPanel.sessionContext.shutdown()")
        second.page.close()
        look("first notebook beside it", notebook)

        page.evaluate(_RESTART)
        look("restart of the kernel", notebook)
        reload(notebook, "sweep.ipynb")
        look("reload after the restart", notebook)
        page.evaluate("() => window.cepbookPanel.dispose()")
        enter(page, "sweep.ipynb")
        look("closed and opened", notebook)
        notebook.run_cell(*range(9))
        look("run again", notebook)
        assert failures == [], "\n".join(failures)
        assert notebook.page_errors == []
