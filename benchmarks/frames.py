"""What does a frame of a live view cost the kernel? A window of 100,000 rows, 10,000 partitions, 100 x 1,000 nested.

Frames are made as for a page with 30 rows in sight, without a page. Baseline: the list of 10,000 flat partitions as it
comes. Milliseconds of processor time, median and longest of the frames, between any two of which some events are sent;
the size of a frame.

    python benchmarks/frames.py [--frames 20]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time

from cepbook import Workbench
from cepbook.widgets import StatementView
from cepbook.widgets.live_view.statement_view import view

EPL = """
create schema Tick(symbol string, venue string, trader string, price double);
create context PerSymbol partition by symbol from Tick;
create context PerTrader
  context PerVenue partition by venue from Tick,
  context Each partition by trader from Tick;
@name('kept') select irstream symbol, venue, price from Tick#length(100000);
@name('mean') context PerSymbol select symbol, avg(price) as mean from Tick#length(5);
@name('nested') context PerTrader select avg(price) as mean from Tick#length(5);
"""
ROWS = 100_000
VIEWS = {
    "partitions": ("mean", {"pane": "partitions"}),
    "partitions by arrived": ("mean", {"pane": "partitions", "by": "arrived", "down": True}),
    "partitions by symbol": ("mean", {"pane": "partitions", "by": "symbol", "down": True}),
    "partitions searched": ("mean", {"pane": "partitions", "filter": "S077"}),
    "nested": ("nested", {"pane": "partitions"}),
    "nested by arrived": ("nested", {"pane": "partitions", "by": "arrived", "down": True}),
    "nested searched": ("nested", {"pane": "partitions", "filter": "T077"}),
    "window": ("kept", {"pane": "window"}),
    "window by number": ("kept", {"pane": "window", "by": "price", "down": True}),
    "window by text": ("kept", {"pane": "window", "by": "symbol"}),
    "window searched": ("kept", {"pane": "window", "filter": "s07"}),
    "window searched, by number": ("kept", {"pane": "window", "filter": "s07", "by": "price"}),
}


class Page:
    """Asks for frames, and weighs them."""

    def __init__(self, shown: StatementView, asked: dict[str, object]) -> None:
        self.shown, self.bytes = shown, 0
        shown.send = self._weigh  # type: ignore[method-assign,assignment]
        self._say({"kind": "hello"})
        self._say({"kind": "show", "client": "c", "first": 0, "rows": 70, **asked})

    def _say(self, content: dict[str, object]) -> None:
        self.shown._on_message(self.shown, content, [])

    def _weigh(self, content: dict[str, object], buffers: list[bytes]) -> None:
        self.bytes = len(json.dumps(content, default=str)) + sum(map(len, buffers))
        assert "problem" not in content, content

    def frame(self) -> float:
        """Seconds of processor time that the next frame takes."""
        began = time.thread_time()
        self.shown._build(1)
        return time.thread_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=20)
    options = parser.parse_args()
    rng = random.Random(1)
    bench = Workbench(feed_capacity=2_000)
    bench.run(EPL)

    def ticks(places: range | list[int]) -> list[dict[str, object]]:
        return [
            {
                "time": 0,
                "symbol": f"S{place * 7919 % 10_000:05d}",
                "venue": f"V{place // 1000:02d}",
                "trader": f"T{place % 1000:03d}",
                "price": round(rng.random(), 3),
            }
            for place in places
        ]

    bench.replay(ticks(range(ROWS)), type="Tick", time="time").run()
    print("| frame of | ms | longest, ms | of the baseline | kB |")
    print("|---|--:|--:|--:|--:|")
    base = 0.0
    for what, (name, asked) in VIEWS.items():
        shown = view(bench, name)
        page = Page(shown, asked)
        took = []
        for _ in range(options.frames):
            for tick in ticks([rng.randrange(ROWS) for _ in range(20)]):
                bench.send("Tick", {name: value for name, value in tick.items() if name != "time"})
            took.append(1000 * page.frame())
        shown.close()
        middle = statistics.median(took)
        base = base or middle
        print(f"| {what} | {middle:.1f} | {max(took):.1f} | {middle / base:.1f} | {page.bytes / 1000:.0f} |")


if __name__ == "__main__":
    main()
