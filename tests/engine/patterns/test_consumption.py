"""Patterns with `@consume` against waiting objects: of the atoms that match, those of the highest level take the event.

A node starts, matches any number of times, and ends with its last match. The nodes of a partition stand in a list in
the order in which they began to wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from tests.engine.sinks import Deltas
from tests.random_cases import seeds

SCHEMA = "create schema A(k string, x int, n int); create schema B(k string, x int, n int);"
Event = dict[str, Any]
Tags = dict[str, Event]
Matched = Callable[[Tags, bool], None]  # (tags, whether it is the last match)
Start = Callable[["Partition", Tags, Matched], Callable[[], None]]  # returns the function that stops the node


class TooMany(Exception):
    """The pattern has more partial matches than are worth a look."""


class Waiter:
    def __init__(self, level: int, takes: Callable[[str, Event], bool], take: Callable[[Event], None]) -> None:
        self.level, self.takes, self.take, self.waits = level, takes, take, True

    def stop(self) -> None:
        self.waits = False


class Partition:
    def __init__(self, start: Start) -> None:
        self.waiters: list[Waiter] = []
        self.matches: list[Tags] = []
        self.stop = start(self, {}, self.matched)

    def matched(self, tags: Tags, last: bool) -> None:
        self.matches.append(tags)
        if last:
            self.stop()

    def send(self, of: str, event: Event) -> list[Tags]:
        self.matches = []
        hits = [waiter for waiter in self.waiters if waiter.waits and waiter.takes(of, event)]
        for waiter in hits:
            if waiter.waits and waiter.level == max(hit.level for hit in hits):
                waiter.take(event)
        self.waiters = [waiter for waiter in self.waiters if waiter.waits]
        if len(self.waiters) > 200 or len(self.matches) > 200:
            raise TooMany
        return self.matches


def atom(tag: str, of: str, level: int, tests: list[Callable[[Tags, Event], bool]], keeps: bool) -> Start:
    """`keeps`: it stands below `every`, and goes on to wait."""

    def start(partition: Partition, tags: Tags, matched: Matched) -> Callable[[], None]:
        def take(event: Event) -> None:
            waiter.waits = keeps
            matched({**tags, tag: event}, not keeps)

        waiter = Waiter(level, lambda type_, event: type_ == of and all(test(tags, event) for test in tests), take)
        partition.waiters.append(waiter)
        return waiter.stop

    return start


def every(below: Start) -> Start:
    def start(partition: Partition, tags: Tags, matched: Matched) -> Callable[[], None]:
        stops: list[Callable[[], None]] = []

        def again() -> None:
            stops.append(below(partition, tags, lambda more, _: (again(), matched(more, False))[1]))

        again()
        return lambda: [stop() for stop in stops] and None

    return start


def then(left: Start, right: Start) -> Start:
    def start(partition: Partition, tags: Tags, matched: Matched) -> Callable[[], None]:
        stops: list[Callable[[], None]] = []
        live = {0}

        def first(more: Tags, last: bool) -> None:
            live.add(own := max(live, default=0) + 1)
            if last:
                live.discard(0)

            def second(whole: Tags, ended: bool) -> None:
                if ended:
                    live.discard(own)
                matched(whole, not live)

            stops.append(right(partition, more, second))

        stops.append(left(partition, tags, first))
        return lambda: [stop() for stop in stops] and None

    return start


def either(left: Start, right: Start) -> Start:
    def start(partition: Partition, tags: Tags, matched: Matched) -> Callable[[], None]:
        stops: list[Callable[[], None]] = []

        def one(more: Tags, last: bool) -> None:
            if last:
                stop()
            matched(more, last)

        def stop() -> None:
            for each in stops:
                each()

        stops += [below(partition, tags, one) for below in (left, right)]
        return stop

    return start


def both(left: Start, right: Start) -> Start:
    def start(partition: Partition, tags: Tags, matched: Matched) -> Callable[[], None]:
        sides: tuple[list[Tags], list[Tags]] = [], []
        ended = [False, False]

        def one(at: int) -> Matched:
            def match(more: Tags, last: bool) -> None:
                ended[at] |= last
                sides[at].append(more)
                others = sides[1 - at].copy()
                for number, other in enumerate(others, 1):
                    matched({**other, **more}, all(ended) and number == len(others))

            return match

        stops = [below(partition, tags, one(at)) for at, below in enumerate((left, right))]
        return lambda: [stop() for stop in stops] and None

    return start


class Patterns:
    def __init__(self, draw: Random) -> None:
        self.draw, self.count = draw, 0

    def atom(self, known: list[str], *, keeps: bool) -> tuple[str, Start, list[str]]:
        draw, words, tests = self.draw, list[str](), list[Callable[[Tags, Event], bool]]()
        self.count += 1
        tag, of, level = f"t{self.count}", draw.choice("AAAB"), draw.choice((0, 0, 1, 1, 2, 3))
        if draw.random() < 0.35:
            words.append("x > 0")
            tests.append(lambda _, event: (event["x"] or 0) > 0)
        if known and draw.random() < 0.5:
            other = draw.choice(known)
            words.append(f"k = {other}.k")
            tests.append(lambda tags, event: event["k"] is not None and event["k"] == tags[other]["k"])
        condition = f"({' and '.join(words)})" if words else ""
        consumed = f" @consume({level})" if level > 1 else " @consume" * level
        return f"{tag}={of}{condition}{consumed}", atom(tag, of, level, tests, keeps), [tag]

    def node(self, depth: int, known: list[str]) -> tuple[str, Start, list[str]]:
        """A pattern as text and as what starts it, with the tags that later parts may read."""
        kind = self.draw.choice("every every -> -> and or or".split()) if depth else "atom"
        if kind == "atom" or (kind == "every" and self.draw.random() < 0.5):
            text, start, tags = self.atom(known, keeps=kind == "every")
            return (text if kind == "atom" else f"(every {text})"), start, tags
        left, one, tags = self.node(max(depth - 1, kind == "every"), known)
        if kind == "every":
            return f"(every {left})", every(one), tags
        right, two, more = self.node(depth - 1, known + tags if kind == "->" else known)
        start = {"->": then, "and": both, "or": either}[kind](one, two)
        return f"({left} {kind} {right})", start, [] if kind == "or" else tags + more


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(150))
def test_the_highest_level_takes_an_event(seed: int) -> None:
    draw, time, keyed = Random(seed), 0, seed % 4 == 0
    patterns = Patterns(draw)
    pattern, start, _ = patterns.node(draw.choice((1, 2, 3)), [])
    tags = [f"t{number}" for number in range(1, patterns.count + 1)]
    columns, context = ", ".join(f"{tag}.n as {tag}" for tag in tags), "context C " * keyed
    runtime, deltas = Runtime(), Deltas()
    runtime.deploy(f"{SCHEMA} create context C partition by k from A, k from B;")
    runtime.deploy(f"@name('s') {context}select {columns} from pattern [{pattern}]")
    runtime.statement("s").add_sink(deltas)
    partitions = {} if keyed else {"": Partition(start)}
    for number in range(14):
        time += draw.choice((0, 0, 1000))
        values = {"k": draw.choice(("a", "b", None)), "x": draw.choice((None, 0, 1))}
        of, event = draw.choice("AAAB"), {**values, "n": number}
        key = event["k"] if keyed else ""
        if key not in partitions:
            partitions[key] = Partition(start)
        try:
            matches = partitions[key].send(of, event)
        except TooMany:
            return
        deltas.clear()
        runtime.advance(time)
        runtime.send(of, dict(event))
        found = Counter(tuple(row.values()) for delta in deltas for row in delta.insert or ())
        expected = Counter(tuple(match[tag]["n"] if tag in match else None for tag in tags) for match in matches)
        assert found == expected, (pattern, number, of, event)
