"""How late is an event at 20,000 a second, with three live views open, and what stops the engine for long?

A cell of a notebook sends ticks to four statements: a filter, groups over ten seconds, a context of 1,000 partitions, a
pattern. A window of 10 seconds, the partitions and a stream are open in JupyterLab. Every millisecond the events that
are due are sent; the latency of an event is the time from the moment when it is due until `send` has returned, so an
event that waits for the one before it, for a frame of a view or for the collector of cycles is late. Baseline: the same
loop without statements and views, which tells how late the loop itself wakes up.

Microseconds: median, 99 and 99.9 per cent, the longest one; of the collections of garbage the number and the longest
one by generation; objects that the collector sees and resident memory after each tenth of the time.

    python benchmarks/latency.py [--minutes 10] [--rate 20000]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.responsive import RUN_CELL, browsing  # noqa: E402
from tests.browser import lab  # noqa: E402

SETUP = """%load_ext cepbook
import array, asyncio, gc, json, random, time
import psutil

draw = random.Random(1)
ticks = [
    {{"symbol": f"S{{draw.randrange(1000)}}", "price": round(draw.random() * 100, 2), "volume": draw.randrange(100)}}
    for _ in range(100_000)
]
RATE, SECONDS = {rate}, {seconds}

async def measured(send, seconds):
    now, late, levels, pauses, begun = time.perf_counter, array.array("d"), [], [[], [], []], [0.0]

    def collecting(phase, info):
        if phase == "start":
            begun[0] = now()
        else:
            pauses[info["generation"]].append((now() - begun[0]) * 1e6)

    gc.collect()
    gc.callbacks.append(collecting)
    count, sent, begin, cpu = int(RATE * seconds), 0, now(), time.process_time()
    while sent < count:
        due = min(count, int((now() - begin) * RATE))
        while sent < due:
            send("Tick", ticks[sent % len(ticks)])
            late.append((now() - begin) * 1e6 - sent * 1e6 / RATE)
            sent += 1
        if len(levels) < 10 * sent // count:
            levels.append((len(gc.get_objects()), psutil.Process().memory_info().rss >> 20))
        await asyncio.sleep(0.001)
    wall, cpu = now() - begin, time.process_time() - cpu
    gc.callbacks.remove(collecting)
    order = sorted(late)
    return {{
        "latency": [order[int(share * (count - 1))] for share in (0.5, 0.99, 0.999, 1)],
        "pauses": [(len(times), max(times, default=0)) for times in pauses],
        "levels": levels, "cpu": cpu / wall,
    }}
"""
EPL = """%%epl
create schema Tick(symbol string, price double, volume int);
create context PerSymbol partition by symbol from Tick;
@name('high') select symbol, price from Tick(price > 99);
@name('groups')
select symbol, sum(volume) as v, avg(price) as p from Tick#time(10 sec) group by symbol output last every 1 sec;
@name('mean') context PerSymbol select symbol, avg(price) as mean from Tick#length(5);
@name('fall')
select a.symbol as symbol
from pattern[every a=Tick(price > 95) -> b=Tick(symbol = a.symbol, price < 5) where timer:within(10 sec)]"""
VIEWS = {"%view groups": "Window", "%view mean": "Partitions", "%view fall": "Stream"}
CLOCK = "%clock live"
ALONE = "print(json.dumps(await measured(lambda name, event: None, min(SECONDS, 60))))"
WITH_ALL = "print(json.dumps(await measured(cep.send, SECONDS)))"


def measure(server: lab.LabServer, browser: Any, minutes: float, rate: int) -> dict[str, dict[str, Any]]:
    """Return the figures of the loop alone, and of the loop with statements and views."""
    cells = [SETUP.format(rate=rate, seconds=60 * minutes), ALONE, EPL, CLOCK, *VIEWS, WITH_ALL]
    lab.write_notebook(server.root / "latency.ipynb", cells)
    results = {}
    with lab.open_notebook(browser, server, "latency.ipynb", timeout=60 * minutes + 300) as notebook:
        for number, cell in enumerate(cells):
            notebook.page.evaluate(RUN_CELL, number)
            if cell in VIEWS:
                notebook.cell(number).get_by_role("tab", name=VIEWS[cell]).click()
            if cell in (ALONE, WITH_ALL):
                results[cell] = json.loads(notebook.cells()[number]["outputs"][0]["text"])
        assert (notebook.errors(), notebook.page_errors) == ([], [])
    return {"the loop alone": results[ALONE], "four statements, three views": results[WITH_ALL]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=int, default=20_000)
    options = parser.parse_args()
    with browsing() as (server, browser):
        results = measure(server, browser, options.minutes, options.rate)
    print("| latency, µs | p50 | p99 | p99.9 | longest | of a core |")
    print("|---|--:|--:|--:|--:|--:|")
    for what, figures in results.items():
        print(f"| {what} | " + " | ".join(f"{time:,.0f}" for time in figures["latency"]) + f" | {figures['cpu']:.0%} |")
    for what, figures in results.items():
        print(f"\n{what}:")
        for generation, (count, longest) in enumerate(figures["pauses"]):
            print(f"  {count:,} collections of generation {generation}, the longest {longest:,.0f} µs")
        objects, memory = zip(*figures["levels"], strict=True)
        print(f"  objects after each tenth: {', '.join(f'{n:,}' for n in objects)}")
        print(f"  resident MB after each tenth: {', '.join(map(str, memory))}")


if __name__ == "__main__":
    main()
