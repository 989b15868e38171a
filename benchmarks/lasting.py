"""Does anything grow while a notebook is at work for long? Replay after replay, with everything open that can be.

A window of 100,000 rows, 10,000 partitions, a stream, the panel, the map and the bar under the replay are open in
JupyterLab while the cell with the replay is run again and again. Every ten seconds the resident memory of the kernel,
and of the page the used heap and the number of nodes (after its garbage was collected). The verdict is what each of
them grows by with a replay in the second half of the time (the straight line that fits best). Baseline: their level.

    python benchmarks/lasting.py [--minutes 10] [--events 200000]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.responsive import EPL, RUN_CELL, SETUP, browsing  # noqa: E402
from tests.browser import lab  # noqa: E402

CELLS = ["%view kept", "%view mean", "%view kept", "%cep", "%epl map", "import os; print(os.getpid())"]
REPLAY = 'cep.rewind()\nreplay = cep.replay({"Tick": ticks}, time="at")\nreplay'
TABS = {2: "Window", 3: "Partitions"}
AGAIN = f"""async i => {{
    window.replays = 0;
    const run = {RUN_CELL};
    const ended = () => /finished/.test(window.cepbookPanel.content.widgets[i].node.innerText);
    const again = async () => {{
        while (!window.ended) {{
            await run(i);
            for (let n = 0; n < 300 && !window.ended && !ended(); n++) await new Promise(r => setTimeout(r, 100));
            window.replays += 1;
        }}
    }};
    again();
}}"""
APART = 10  # seconds between two looks
FLAT = 0.05  # what may be added in the second half of the time


def resident_mb(pid: int) -> float:
    """The resident set of a process in MB (Linux)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def page_now(session: Any) -> tuple[float, int]:
    """The used heap of the page in MB, and how many nodes it has."""
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"] / 2**20
    return heap, session.send("Memory.getDOMCounters")["nodes"]


def measure(server: lab.LabServer, browser: Any, minutes: float, events: int) -> list[tuple[float, ...]]:
    """Seconds, replays, MB of the kernel, MB and nodes of the page, again and again."""
    lab.write_notebook(server.root / "lasting.ipynb", [SETUP.format(events=events), EPL, *CELLS, REPLAY])
    found: list[tuple[float, ...]] = []
    with lab.open_notebook(browser, server, "lasting.ipynb", timeout=300) as notebook:
        page = notebook.page
        for number in range(2 + len(CELLS)):
            page.evaluate(RUN_CELL, number)
        for number, name in TABS.items():
            notebook.cell(number).get_by_role("tab", name=name).click()
        pid = int(notebook.cells()[1 + len(CELLS)]["outputs"][0]["text"])
        session = page.context.new_cdp_session(page)
        page.evaluate(AGAIN, 2 + len(CELLS))
        began = time.monotonic()
        while time.monotonic() - began < 60 * minutes:
            page.wait_for_timeout(APART * 1000)
            now = time.monotonic() - began
            found.append((now, page.evaluate("() => window.replays"), resident_mb(pid), *page_now(session)))
            seconds, replays, kernel, heap, nodes = found[-1]
            print(f"{seconds:5.0f} s {replays:4} replays, kernel {kernel:4.0f} MB, page {heap:3.0f} MB, {nodes} nodes")
            sys.stdout.flush()
        page.evaluate("() => { window.ended = true; }")
        assert (notebook.errors(), notebook.page_errors) == ([], [])
    return found


def slope(found: list[tuple[float, ...]], place: int) -> float:
    """What a figure grows by with each replay: the straight line that fits best."""
    replays = [each[1] for each in found]
    return statistics.linear_regression(replays, [each[place] for each in found]).slope if len({*replays}) > 1 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--events", type=int, default=200_000)
    options = parser.parse_args()
    with browsing() as (server, browser):
        found = measure(server, browser, options.minutes, options.events)
    half = found[len(found) // 2 :]
    replays = half[-1][1] - half[0][1]
    for place, what in ((2, "MB of the kernel"), (3, "MB of the page"), (4, "nodes of the page")):
        level, grows = statistics.median(each[place] for each in half), slope(half, place)
        added = grows * replays / level
        verdict = "flat" if added < FLAT else "grows"
        print(
            f"{what}: {level:,.0f}; {grows:+.3f} with each of the last {replays:.0f} replays, {added:+.1%}: {verdict}"
        )


if __name__ == "__main__":
    main()
