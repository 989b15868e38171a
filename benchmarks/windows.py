"""What does an event cost in each data window, and what does a retained event weigh, at 10^2, 10^4 and 10^6 of them?

Baseline: the same window at 10^2 retained events, in the same run; bare deque, dict and sorted list, by hand, at the
same sizes; and ``length``. The bar, from 10^2 to 10^6: at most 2 times the cost, or what the bare container of the same
accesses pays (a million events do not fit into a cache: a random key is several misses, and the search for a place in
the order some ten).

    python benchmarks/windows.py [--sizes 100,10000,1000000] [--events 60000] [--rounds 5] [--only length,sort]

A statement ``select irstream id, price from Tick#…`` is filled, then measured: CPU time of `send` for events one ms
apart into a sink that only counts; the fill and the making of the events are not included. The figure is the median of
the rounds. Windows that release all at once are measured over whole periods (fill and release). Those that only ever
take events (``keepall``, ``first…``) are made anew for each round, and measured while they grow by a half.
What follows the clock pays for a timer and a delivery of its own per event, as nothing else happens in the millisecond.

Bytes are what `tracemalloc` counts while the window is filled, by retained event: its item, what indexes the item, and
the values that both keep alive (here an int and a float, where a key or a timestamp is kept another int). The event
itself is not kept. They are measured at up to 20,000 events.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from sortedcontainers import SortedList

from cepbook.engine.delivery.delta import Record, Row, Rows
from cepbook.engine.runtime import Runtime

SCHEMA = """create schema Tick(
    at long, id int, k int, g int, own int, price double, stamp long, later long, score double)"""
MOST_WEIGHED = 20_000
Event = dict[str, Any]
Send = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Case:
    """The views of a window that holds about ``{n}`` events, and what the statement selects.

    A window that `releases` drops all of them at once, at the latest after a `pause` of so many ms; one that `grows`
    never drops any. `by_hand` takes its events without an engine.
    """

    views: str
    select: str = "id, price"
    behaves: Literal["slides", "grows", "releases"] = "slides"
    pause: int = 0
    by_hand: Callable[[int], Send] | None = None


class Counter:
    """A sink that counts deliveries and keeps none."""

    deliveries = 0

    def push(self, time: int, insert: Rows, remove: Rows) -> None:
        self.deliveries += 1

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row]) -> None:
        self.width = 2 + (1 if columns is None else len(columns))

    def one(self, record: Record) -> None:
        self.deliveries += 1

    def extend(self, flat: list[Any]) -> None:
        self.deliveries += sum(not mark % 2 for mark in flat[:: self.width])


def bare_deque(size: int) -> Send:
    """What ``length`` does."""
    window: deque[tuple[int, float]] = deque()
    push = Counter().push

    def send(event: Event) -> None:
        window.append((event["id"], event["price"]))
        remove = None
        if len(window) > size:
            number, price = window.popleft()
            remove = [{"id": number, "price": price}]
        push(event["at"], [{"id": event["id"], "price": event["price"]}], remove)

    return send


def bare_dict(size: int) -> Send:
    """What ``unique`` does."""
    window: dict[int, tuple[int, float]] = {}
    push = Counter().push

    def send(event: Event) -> None:
        former = window.pop(event["k"], None)
        window[event["k"]] = event["id"], event["price"]
        remove = None
        if former is not None:
            number, price = former
            remove = [{"id": number, "price": price}]
        push(event["at"], [{"id": event["id"], "price": event["price"]}], remove)

    return send


def bare_sorted_list(size: int) -> Send:
    """What ``sort`` does; entries begin with a tuple, as sort keys that may be null do."""
    window: SortedList[tuple[tuple[int, float], int, int, float]] = SortedList()
    push = Counter().push

    def send(event: Event) -> None:
        window.add(((-1, -event["score"]), -event["id"], event["id"], event["price"]))
        remove = None
        if len(window) > size:
            _, _, number, price = window.pop()
            remove = [{"id": number, "price": price}]
        push(event["at"], [{"id": event["id"], "price": event["price"]}], remove)

    return send


CASES = {
    "by hand: deque": Case("", by_hand=bare_deque),
    "by hand: dict by random key": Case("", by_hand=bare_dict),
    "by hand: sorted list": Case("", by_hand=bare_sorted_list),
    "length": Case("#length({n})"),
    "time": Case("#time({n} msec)"),
    "ext_timed": Case("#ext_timed(at, {n} msec)"),
    "expr": Case("#expr(current_count <= {n})"),
    "unique": Case("#unique(k)"),
    "lastevent": Case("#lastevent"),
    "groupwin": Case("#groupwin(g)#length(10)"),
    "groupwin, time": Case("#groupwin(g)#time({n} msec)"),
    "groupwin, merge": Case("#groupwin(g)#length(10)#merge(g)"),
    "keepall": Case("#keepall", behaves="grows"),
    "firstlength": Case("#firstlength({n} * 2)", behaves="grows"),
    "firsttime": Case("#firsttime(1 hour)", behaves="grows"),
    "firstunique": Case("#firstunique(own)", behaves="grows"),
    "firstevent": Case("#firstevent"),
    "length_batch": Case("#length_batch({n})", behaves="releases"),
    "time_batch": Case("#time_batch({n} msec)", behaves="releases"),
    "ext_timed_batch": Case("#ext_timed_batch(at, {n} msec)", behaves="releases"),
    "time_length_batch": Case("#time_length_batch(1 hour, {n})", behaves="releases"),
    "expr_batch": Case("#expr_batch(current_count >= {n})", behaves="releases"),
    "time_accum": Case("#time_accum(10 msec)", behaves="releases", pause=20),
    "sort": Case("#sort({n}, score desc)"),
    "rank": Case("#rank(k, {n}, score desc)"),
    "time_order": Case("#time_order(stamp, {n} msec)"),
    "timetolive": Case("#timetolive(later)"),
    "size": Case("#time({n} msec)#size", "size"),
    "uni": Case("#length({n})#uni(price)", "average"),
    "linest": Case("#length({n})#linest(id, price)", "slope"),
    "correl": Case("#length({n})#correl(id, price)", "correlation"),
    "weighted_avg": Case("#length({n})#weighted_avg(price, id)", "average"),
    "intersection": Case("#length({n})#time({n} msec)"),
    "intersection of unequals": Case("#length({n})#unique(k)"),
    "union": Case("#length({n})#time({n} msec) retain-union"),
    "intersection with a batch": Case("#length_batch({n})#unique(own)", behaves="releases"),
}


def ticks(size: int, pause: int) -> Iterator[Event]:
    """Events without end, one ms apart; with `pause` ms in addition after each `size` of them.

    `k` is one of `size` keys, at random after each was there once; `g` of a tenth as many, `own` of none else.
    Timestamps lie within `size` ms of `at`, and scores rise so that an event belongs anywhere among the last ones.
    """
    random_number = random.Random(7).random
    at = i = 0
    while True:
        key = i if i < size else int(random_number() * size)
        spread = random_number()
        yield {
            "at": at,
            "id": i,
            "k": key,
            "g": key // 10,
            "own": i,
            "price": spread * 100,
            "stamp": at - int(spread * size / 2),
            "later": at + 1 + int(spread * size * 2),
            "score": i + spread * size,
        }
        i += 1
        at += 1 if i % size else 1 + pause


class Running:
    """A statement over the window `case` of `size` events, and the events that are sent to it."""

    def __init__(self, case: Case, size: int) -> None:
        self.size = size
        self.events = ticks(size, case.pause)
        self.runtime = Runtime()
        if case.by_hand is not None:
            self.send = case.by_hand(size)
            return
        views = case.views.format(n=size)
        deployed = self.runtime.deploy(f"{SCHEMA}; @name('out') select irstream {case.select} from Tick{views}")
        deployed.statements[0].add_sink(Counter())
        self.send = self.runtime.sender("Tick", time="at")

    def feed(self, count: int) -> float:
        """Send `count` events; returns the CPU seconds that this took, without what it takes to make them."""
        taken = 0.0
        while count > 0:
            events = list(islice(self.events, min(count, 20_000)))
            count -= len(events)
            send, start = self.send, time.process_time()
            for event in events:
                send(event)
            taken += time.process_time() - start
        return taken

    @property
    def retained(self) -> int:
        """How many events the window holds now."""
        return int(self.runtime.state("out")[0]["retained"]) if self.runtime.statements else self.size


def cost(case: Case, size: int, events: int, rounds: int) -> float:
    """CPU nanoseconds per event, the median of `rounds` with at least `events` in each."""
    if case.behaves == "grows":
        return statistics.median(_growing(case, size, events) for _ in range(rounds))
    running = Running(case, size)
    number = events
    if case.behaves == "releases":  # whole periods
        number = size * max(1, round(events / size))
        rounds = max(2, min(rounds, events * 10 // number))
    running.feed(size if case.behaves == "releases" else 2 * size)  # until as many leave as come
    gc.collect()
    return statistics.median(running.feed(number) / number * 1e9 for _ in range(rounds))


def _growing(case: Case, size: int, events: int) -> float:
    """As `cost`, of windows that grow from `size` events by a half, as often as it takes."""
    taken, number = 0.0, min(events, size // 2)
    times = max(1, min(50, events // number))
    for _ in range(times):
        running = Running(case, size)
        running.feed(size)
        taken += running.feed(number)
    return taken / number / times * 1e9


def weight(case: Case, size: int) -> float:
    """Bytes per retained event, by `tracemalloc`."""
    running = Running(case, size)
    running.feed(1)
    gc.collect()
    tracemalloc.start()
    running.feed(2 * size if case.behaves == "slides" else size)
    if case.behaves == "releases":  # half of them wait, the former ones are to leave
        running.feed(size // 2)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held / max(1, running.retained)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,10000,1000000")
    parser.add_argument("--events", type=int, default=60_000, help="per round, at least")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=";".join(CASES), help="names of windows, separated by ;")
    chosen = parser.parse_args()
    sizes = [int(size) for size in chosen.sizes.split(",")]
    smallest = sizes[0]
    baseline = cost(CASES["length"], smallest, chosen.events, chosen.rounds)
    print(f"CPU ns per event, medians of {chosen.rounds} rounds; length({smallest}): {baseline:,.0f}")
    heads = [f"{size:,}" for size in sizes] + [f"{size:,} / {smallest:,}" for size in sizes[1:]]
    print("| window | " + " | ".join([*heads, f"/ length({smallest})", "bytes"]) + " |")
    print("|---|" + "--:|" * (len(heads) + 2))
    for name in chosen.only.split(";"):
        case = CASES[name]
        taken = [cost(case, size, chosen.events, chosen.rounds) for size in sizes]
        ratios = [one / taken[0] for one in taken[1:]] + [taken[0] / baseline]
        figures = [f"{one:,.0f}" for one in taken] + [f"{ratio:.2f}" for ratio in ratios]
        print(f"| {name} | {' | '.join(figures)} | {weight(case, min(sizes[-1], MOST_WEIGHED)):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
