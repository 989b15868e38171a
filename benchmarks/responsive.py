"""How much does looking cost? A window of 100,000 rows and 10,000 partitions, open in JupyterLab during a replay, and a
chart while single events are sent.

In one kernel and one page the same replay runs again and again, of two in a row one with the view open and one with its
output cleared, in random order; each view has a kernel and a page of its own. Ratios of the kernel's processor time and
of wall time, open / cleared, medians of the pairs; changes of the view and pictures that the browser could have drawn,
per second; the largest message. Of the chart also the time from the begin of a frame in the kernel until the page has
drawn it, and the age of the newest row then: median and greatest but for one in twenty.

    python benchmarks/responsive.py [--events 400000] [--pairs 5] [--only chart]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser import lab  # noqa: E402

SETUP = """%load_ext cepbook
import time
import numpy as np
import pandas as pd
rng = np.random.default_rng(1)
ticks = pd.DataFrame({{
    "at": np.arange({events}) * 10, "symbol": [f"S{{i:05d}}" for i in rng.integers(0, 10_000, {events})],
    "price": rng.random({events}).round(3),
}})

async def measured():
    cep.rewind()
    cpu, wall = time.process_time(), time.perf_counter()
    await cep.replay({{"Tick": ticks}}, time="at")
    print(time.process_time() - cpu, time.perf_counter() - wall)
"""
EPL = """%%epl
create schema Tick(at long, symbol string, price double);
create context PerSymbol partition by symbol from Tick;
@name('kept') select irstream symbol, price from Tick#length(100000);
@name('mean') context PerSymbol select symbol, avg(price) as mean from Tick#length(5)"""
VIEWS = {"the window": "%view kept", "the partitions": "%view mean"}
TABS = {"the window": "Window", "the partitions": "Partitions"}
CHART_SETUP = """%load_ext cepbook
import asyncio, json, time
from cepbook.widgets.charts.chart_view import ChartView

prices = [round(100 + (i * 7919 % 1000) / 10, 1) for i in range({events})]
sent, begun, build = [], [], ChartView._build

def recorded(self, number):
    begun.append((len(sent), time.time()))
    return build(self, number)

ChartView._build = recorded

async def measured():
    cep.rewind()
    sent.clear(), begun.clear()
    cpu, wall = time.process_time(), time.perf_counter()
    for i, price in enumerate(prices):
        cep.send("Tick", at=i * 10, price=price)
        sent.append(time.time())
        if i % 100 == 99:
            await asyncio.sleep({pause})
    print(time.process_time() - cpu, time.perf_counter() - wall)
"""
CHART_EPL = """%%epl
create schema Tick(at long, price double);
@name('prices') select price from Tick"""
DRAWN = """chart => {
    window.changes = 0;
    window.shown = [];
    window.watching?.disconnect();
    window.watching = new MutationObserver(() => {
        window.changes++;
        window.shown.push([parseInt(chart.querySelector('.cc-note').textContent.replaceAll(',', '')), Date.now()]);
    });
    window.watching.observe(chart.querySelector('.cc-note'), {subtree: true, childList: true, characterData: true});
}"""
RUN_CELL = """i => {
    window.cepbookPanel.content.activeCellIndex = i;
    return window.jupyterapp.commands.execute('notebook:run-cell');
}"""
WATCH = """view => {
    window.changes = 0;
    window.watching?.disconnect();
    window.watching = new MutationObserver(() => window.changes++);
    window.watching.observe(view, {subtree: true, childList: true, characterData: true});
}"""
CLEAR = "() => { window.cepbookPanel.content.widgets[2].model.outputs.clear(); }"
COUNT = "() => { window.drawn = 0; const f = () => { window.drawn++; requestAnimationFrame(f); }; f(); }"


def size_of(message: dict[str, Any]) -> int:
    """The bytes of a message of a web socket, which are told of in base 64 if they are no text."""
    return len(message["payloadData"]) * 3 // 4 if message["opcode"] == 2 else len(message["payloadData"])


def once(notebook: lab.NotebookPage) -> tuple[float, float]:
    """One replay: seconds of the kernel's processor time, and of the wall clock."""
    notebook.page.evaluate(RUN_CELL, 3)
    cpu, wall = map(float, notebook.cells()[3]["outputs"][0]["text"].split())
    return cpu, wall


def opened(notebook: lab.NotebookPage, tab: str) -> None:
    """Show the view, and what is behind `tab`; its changes are counted."""
    notebook.page.evaluate(RUN_CELL, 2)
    view = notebook.cell(2).locator(".cepbook-view")
    view.wait_for()
    view.get_by_role("tab", name=tab).click()
    view.evaluate(WATCH)


def measure(server: lab.LabServer, browser: Any, what: str, events: int, pairs: int) -> dict[str, float]:
    """Medians of `pairs` of replays, each with and without what is open."""
    cells = [SETUP.format(events=events), EPL, VIEWS[what], "await measured()"]
    lab.write_notebook(server.root / "responsive.ipynb", cells)
    found: dict[str, list[float]] = {key: [] for key in ("cpu", "wall", "frames", "drawn")}
    rng, sizes = random.Random(1), [0]
    with lab.open_notebook(browser, server, "responsive.ipynb", timeout=300) as notebook:
        page = notebook.page
        for number in range(2):
            page.evaluate(RUN_CELL, number)
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        once(notebook)
        page.evaluate(COUNT)
        session.on("Network.webSocketFrameReceived", lambda e: sizes.append(size_of(e["response"])))
        for _ in range(pairs):
            first = rng.random() < 0.5
            took: dict[bool, tuple[float, float]] = {}
            for on in (first, not first):
                if on:
                    opened(notebook, TABS[what])
                before = page.evaluate("() => window.drawn")
                took[on] = once(notebook)
                if on:
                    found["drawn"].append((page.evaluate("() => window.drawn") - before) / took[on][1])
                    found["frames"].append(page.evaluate("() => window.changes") / took[on][1])
                    page.evaluate(CLEAR)
                    page.wait_for_timeout(300)  # until the kernel has heard that nobody looks
            found["cpu"].append(took[True][0] / took[False][0])
            found["wall"].append(took[True][1] / took[False][1])
        assert notebook.errors() == []
    return {"largest": max(sizes) / 1000, **{key: statistics.median(each) for key, each in found.items()}}


def delays(notebook: lab.NotebookPage) -> tuple[list[float], list[float]]:
    """Milliseconds from the begin of frames until they were drawn, and from the newest row of each until then."""
    notebook.page.evaluate(RUN_CELL, 4)
    noted = json.loads(notebook.cells()[4]["outputs"][0]["text"])
    begun = {rows: times for rows, *times in noted}
    drawn = [(rows, at) for rows, at in notebook.page.evaluate("() => window.shown") if rows in begun]
    of_frames, of_rows = ([at - begun[rows][which] * 1000 for rows, at in drawn] for which in (0, 1))
    return of_frames, of_rows


def measure_chart(server: lab.LabServer, browser: Any, events: int, pairs: int, pause: float) -> dict[str, Any]:
    """Medians of `pairs` of loops that send `events`, and rest after a hundred, with and without an open chart."""
    cells = [CHART_SETUP.format(events=events, pause=pause), CHART_EPL, "%view --chart prices", "await measured()"]
    cells.append("print(json.dumps([(rows, begin, sent[rows - 1]) for rows, begin in begun if rows]))")
    lab.write_notebook(server.root / "chart.ipynb", cells)
    rng, of_frames, of_rows = random.Random(1), list[float](), list[float]()
    ratios: dict[str, list[float]] = {key: [] for key in ("cpu", "core", "wall", "frames")}
    with lab.open_notebook(browser, server, "chart.ipynb", timeout=300) as notebook:
        page = notebook.page
        for number in range(2):
            page.evaluate(RUN_CELL, number)
        once(notebook)
        for _ in range(pairs):
            first = rng.random() < 0.5
            took: dict[bool, tuple[float, float]] = {}
            for on in (first, not first):
                if on:
                    page.evaluate(RUN_CELL, 2)
                    chart = notebook.cell(2).locator(".cepbook-chart")
                    chart.wait_for()
                    page.wait_for_timeout(300)
                    chart.evaluate(DRAWN)
                took[on] = once(notebook)
                if on:
                    page.wait_for_timeout(300)
                    ratios["frames"].append(page.evaluate("() => window.changes") / took[on][1])
                    for known, more in zip((of_frames, of_rows), delays(notebook), strict=True):
                        known += more
                    page.evaluate(CLEAR)
                    page.wait_for_timeout(300)
            ratios["cpu"].append(took[True][0] / took[False][0])
            ratios["core"].append((took[True][0] - took[False][0]) / took[True][1])
            ratios["wall"].append(took[True][1] / took[False][1])
        assert notebook.errors() == []
    medians = {key: statistics.median(each) for key, each in ratios.items()}
    return {
        **medians,
        "of_frames": statistics.quantiles(of_frames, n=20),
        "of_rows": statistics.quantiles(of_rows, n=20),
    }


@contextmanager
def browsing() -> Iterator[tuple[lab.LabServer, Any]]:
    """A server with nothing in it, and a browser."""
    executable = lab.find_chromium()
    if executable is None:
        raise SystemExit("no Chromium or Chrome found; install one or set CEPBOOK_CHROMIUM to its path")
    with TemporaryDirectory() as folder:
        root, home = Path(folder) / "root", Path(folder) / "home"
        root.mkdir()
        with lab.lab_server(root, home) as server, lab.chromium(executable) as browser:
            yield server, browser


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", choices=[*VIEWS, "chart"])
    options = parser.parse_args()
    with browsing() as (server, browser):
        views = [what for what in VIEWS if options.only in (None, what)]
        if views:
            print("| open | kernel CPU | wall | changes of the view /s | pictures /s | largest message, kB |")
            print("|---|--:|--:|--:|--:|--:|")
        for what in views:
            middle = measure(server, browser, what, options.events, options.pairs)
            print(
                f"| {what} | {middle['cpu']:.2f} | {middle['wall']:.2f} | "
                f"{middle['frames']:.0f} | {middle['drawn']:.0f} | {middle['largest']:.0f} |"
            )
        if options.only in (None, "chart"):
            print(
                "| chart, events | kernel CPU | of a core | wall | drawn /s | frame to drawn, ms | row to drawn, ms |"
            )
            print("|---|--:|--:|--:|--:|--:|--:|")
            for what, pause, events in (
                ("sent in a loop", 0, options.events),
                ("sent 100 at a time", 0.01, options.events // 4),
            ):
                of = measure_chart(server, browser, events, options.pairs, pause)
                figures = " | ".join(f"{of[key][9]:.0f}, {of[key][18]:.0f}" for key in ("of_frames", "of_rows"))
                ratios = f"{of['cpu']:.2f} | {of['core']:.1%} | {of['wall']:.2f}"
                print(f"| {what} | {ratios} | {of['frames']:.0f} | {figures} |")


if __name__ == "__main__":
    main()
