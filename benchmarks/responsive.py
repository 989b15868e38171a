"""How much does looking cost? A window of 100,000 rows and 10,000 partitions, open in JupyterLab during a replay.

The same replay runs with no view, with the window open, with the partitions open, in turn, several times. Ratios of the
kernel's processor time and of wall time against no view; frames that the views were sent and pictures that the browser
could have drawn, per second; the largest message.

    python benchmarks/responsive.py [--events 400000] [--rounds 3]
"""

from __future__ import annotations

import argparse
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
VIEWS = {"no view": "pass", "the window": "%view kept", "the partitions": "%view mean"}
TABS = {"the window": "Window", "the partitions": "Partitions"}
RUN_CELL = """i => {
    window.cepbookPanel.content.activeCellIndex = i;
    return window.jupyterapp.commands.execute('notebook:run-cell');
}"""
COUNT = "() => { window.drawn = 0; const f = () => { window.drawn++; requestAnimationFrame(f); }; f(); }"


def size_of(message: dict[str, Any]) -> int:
    """The bytes of a message of a web socket, which are told of in base 64 if they are no text."""
    return len(message["payloadData"]) * 3 // 4 if message["opcode"] == 2 else len(message["payloadData"])


def measure(server: lab.LabServer, browser: Any, what: str, events: int) -> dict[str, float]:
    """One replay in a fresh kernel, with what is open."""
    cells = [SETUP.format(events=events), EPL, VIEWS[what], "await measured()"]
    lab.write_notebook(server.root / "responsive.ipynb", cells)
    with lab.open_notebook(browser, server, "responsive.ipynb", timeout=300) as notebook:
        page = notebook.page
        for number in range(3):
            page.evaluate(RUN_CELL, number)
        if what in TABS:
            view = notebook.cell(2).locator(".cepbook-view")
            view.wait_for()
            view.get_by_role("tab", name=TABS[what]).click()
            view.evaluate("v => { window.changes = 0; new MutationObserver(() => window.changes++)"
                          ".observe(v, {subtree: true, childList: true, characterData: true}); }")  # fmt: skip
        page.evaluate("() => { window.largest = 0; }")
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        sizes = [0]
        session.on("Network.webSocketFrameReceived", lambda e: sizes.append(size_of(e["response"])))
        page.evaluate(COUNT)
        page.evaluate(RUN_CELL, 3)
        assert notebook.errors() == []
        cpu, wall = map(float, notebook.cells()[3]["outputs"][0]["text"].split())
        drawn = page.evaluate("() => window.drawn")
        changes = page.evaluate("() => window.changes ?? 0")
    return {"cpu": cpu, "wall": wall, "frames": changes / wall, "drawn": drawn / wall, "largest": max(sizes) / 1000}


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
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {what: [] for what in VIEWS}
    with browsing() as (server, browser):
        for _ in range(options.rounds):
            for what in VIEWS:
                found[what].append(measure(server, browser, what, options.events))
    print("| open | kernel CPU | wall | changes of the view /s | pictures /s | largest message, kB |")
    print("|---|--:|--:|--:|--:|--:|")
    base = {key: statistics.median(each[key] for each in found["no view"]) for key in ("cpu", "wall")}
    for what, rounds in found.items():
        middle = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        print(
            f"| {what} | {middle['cpu'] / base['cpu']:.2f} | {middle['wall'] / base['wall']:.2f} | "
            f"{middle['frames']:.0f} | {middle['drawn']:.0f} | {middle['largest']:.0f} |"
        )


if __name__ == "__main__":
    main()
