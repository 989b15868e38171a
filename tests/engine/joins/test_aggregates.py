"""Random joins with aggregates, groups and output clauses against lists of pairs; sent, and replayed in arrays.

An event of an outer join may lose pairs that never entered, if it had another partner then. Such histories are left
out: their counts are below zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import pytest

from cepbook.engine.runtime import Runtime
from tests.engine.histories import Event, feed, record
from tests.random_cases import seeds

SCHEMA = "create schema A(n int, k string, x int); create schema B(n int, k string, x int);"
WINDOWS = ("keepall", "length(2)", "length(4)", "time(2 sec)", "unique(k)", "lastevent")
KINDS = {
    "total": "count(*) as c, sum(b.x) as s",
    "groups": "a.k as k, count(*) as c, sum(b.x) as s",
    "rows": "a.k as k, a.n as i, b.n as j, count(*) as c, sum(b.x) as s",
}
OUTPUTS = ("", "", "every 2 events", "every 700 msec", "all every 1 sec", "last every 1 sec", "snapshot every 3 events")
Row = tuple[Any, ...]
Side = dict[str, Any] | None
Pair = tuple[Side, Side]
Delivery = tuple[int, list[str], list[str]]


class Join(NamedTuple):
    kind: str
    operator: str  # inner, left outer, right outer, full outer
    windows: tuple[str, str]
    also: bool  # a second condition
    having: bool
    selector: str
    output: str

    @property
    def epl(self) -> str:
        a, b = self.windows
        text = f"select {self.selector} {KINDS[self.kind]} from A#{a} as a {self.operator} join B#{b} as b on a.k = b.k"
        text += " and a.x < b.x" * self.also + " group by a.k" * (self.kind != "total")
        text += " having count(*) > 1" * self.having
        return f"@name('q') {text} output {self.output}" if self.output else f"@name('q') {text}"

    def pairs(self, a: dict[str, Any], b: dict[str, Any]) -> bool:
        """The keys of an outer join may be null together."""
        if a["k"] != b["k"] or (a["k"] is None and self.operator == "inner"):
            return False
        return not self.also or (None not in (a["x"], b["x"]) and a["x"] < b["x"])


def drawn(draw: Random) -> Join:
    kind, output = draw.choice([*KINDS]), draw.choice(OUTPUTS)
    output = "" if kind == "rows" and output[:3] in ("all", "las") else output
    operator = draw.choice(("inner", "inner", "left outer", "right outer", "full outer"))
    windows = draw.choice(WINDOWS), draw.choice(WINDOWS)
    selector = draw.choice(("istream", "irstream", "rstream"))
    if output.startswith("snapshot"):
        selector = "istream"
    return Join(kind, operator, windows, draw.random() < 0.3, draw.random() < 0.3, selector, output)


class Window:
    def __init__(self, text: str) -> None:
        self.text = text
        self.events: list[dict[str, Any]] = []

    def insert(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the events that leave."""
        kept = [*self.events, event]
        if self.text.startswith("length"):
            kept = kept[-int(self.text[7]) :]
        elif self.text == "unique(k)":
            kept = [e for e in self.events if e["k"] != event["k"]] + [event]
        elif self.text == "lastevent":
            kept = [event]
        return self.replace(kept)

    def replace(self, kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
        left = [e for e in self.events if e not in kept]
        self.events = kept
        return left

    @property
    def due(self) -> int | None:
        return self.events[0]["t"] + 2000 if self.text.startswith("time") and self.events else None

    def expire(self, now: int) -> list[dict[str, Any]]:
        return self.replace([e for e in self.events if e["t"] + 2000 > now])


class Model:
    """All pairs that entered and did not leave, and the rows that wait for an output."""

    def __init__(self, join: Join) -> None:
        self.join = join
        self.now = 0
        self.windows = Window(join.windows[0]), Window(join.windows[1])
        self.pairs: list[Pair] = []
        self.inserted: list[Row] = []
        self.removed: list[Row] = []
        self.touched: dict[Any, Row | None] = {}  # by group the row before the interval
        self.known: dict[Any, None] = {}
        self.moved = self.below_zero = False
        self.counts = [0, 0]
        self.due: int | None = None
        self.deliveries: list[Delivery] = []

    def key(self, pair: Pair) -> Any:
        return None if self.join.kind == "total" or pair[0] is None else pair[0]["k"]

    def row(self, key: Any, pair: Pair | None = None) -> list[Row]:
        """The present row of a group, or of a pair; none if having rejects it."""
        own = [other for other in self.pairs if self.key(other) == key]
        values = [b["x"] for _, b in own if b is not None and b["x"] is not None]
        aggregates = (len(own), sum(values) if values else None)
        if self.join.having and len(own) < 2:
            return []
        if pair is not None:
            return [(key, *(None if side is None else side["n"] for side in pair), *aggregates)]
        return [aggregates if self.join.kind == "total" else (key, *aggregates)]

    def pairs_of(self, stream: int, events: Sequence[dict[str, Any]]) -> list[Pair]:
        outer = ("left", "right")[stream] in self.join.operator or "full" in self.join.operator
        found: list[Pair] = []
        for event in events:
            both: list[Pair] = [((event, e), (e, event))[stream] for e in self.windows[1 - stream].events]
            both = [(a, b) for a, b in both if a and b and self.join.pairs(a, b)]
            found += both or ([((event, None), (None, event))[stream]] if outer else [])
        return found

    def change(self, stream: int, entered: Sequence[dict[str, Any]], left: Sequence[dict[str, Any]]) -> None:
        new, old = self.pairs_of(stream, entered), self.pairs_of(stream, left)
        if not new and not old:
            return
        keys = list(dict.fromkeys(map(self.key, new + old)))
        before = {key: self.row(key) for key in keys}
        self.pairs += new
        for pair in old:
            self.below_zero = self.below_zero or pair not in self.pairs
            self.pairs = [other for other in self.pairs if other != pair]
        if self.join.kind == "rows":
            inserted = [row for pair in new for row in self.row(self.key(pair), pair)]
            removed = [row for pair in old for row in self.row(self.key(pair), pair)]
        else:
            inserted = [row for key in keys for row in self.row(key)]
            removed = [row for key in keys for row in before[key]]
        self.inserted += inserted
        self.removed += removed
        for key in keys:
            former = (before[key] or [None])[0]
            if self.join.kind == "total" and self.touched.get(key) is None:  # the first one that passes
                self.touched[key] = former
            self.touched.setdefault(key, former)
        self.known.update(dict.fromkeys(keys))
        self.moved = True
        self.collected(len(new), len(old))

    def collected(self, entered: int, left: int) -> None:
        output = self.join.output
        if output.endswith("events"):
            self.counts = [self.counts[0] + entered, self.counts[1] + left]
            if max(self.counts) >= int(output.split()[-2]):
                self.counts = [0, 0]
                self.deliver()
        elif not output:
            self.deliver()
        elif self.due is None:
            self.due = self.now + self.period

    @property
    def period(self) -> int:
        return 700 if "msec" in self.join.output else 1000

    def deliver(self) -> None:
        inserted, removed, touched = self.inserted, self.removed, self.touched
        which, kind = self.join.output[:4], self.join.kind
        if which == "snap":
            outer = [pair for pair in self.pairs_of(1, self.windows[1].events) if pair[0] is None]
            pairs = self.pairs_of(0, self.windows[0].events) + outer
            keys = [None] if kind == "total" else list(dict.fromkeys(map(self.key, pairs)))
            inserted = [row for key in keys for row in self.row(key)]
            if kind == "rows":
                inserted = [row for pair in pairs for row in self.row(self.key(pair), pair)]
        elif kind == "total" and not self.moved:
            inserted = removed = self.row(None)
        elif which == "last" or (which == "all " and kind == "groups"):
            groups = self.known if which == "all " else touched
            inserted = [row for key in groups for row in self.row(key)]
            former = [[touched[key]] if key in touched else self.row(key) for key in groups]
            removed = [row for rows in former for row in rows if row is not None]
        if self.join.selector == "rstream":
            inserted, removed = removed, []
        elif self.join.selector == "istream":
            removed = []
        if inserted or removed:
            self.deliveries.append((self.now, *comparable(inserted, removed)))
        self.inserted, self.removed, self.touched, self.moved = [], [], {}, False

    def advance(self, now: int) -> None:
        """Rows are delivered before events of the same instant leave (recorded for joins)."""
        while True:
            dues = [(window.due, 1, stream) for stream, window in enumerate(self.windows) if window.due is not None]
            dues += [] if self.due is None else [(self.due, 0, 0)]
            dues = [due for due in dues if due[0] <= now]
            if not dues:
                break
            self.now, leaving, stream = min(dues)
            if leaving:
                self.change(stream, [], self.windows[stream].expire(self.now))
            else:
                self.due = self.now + self.period
                self.deliver()
        self.now = now

    def send(self, event: Event) -> None:
        self.advance(event.time)
        stream = "AB".index(event.type)
        values = {**event.values, "t": event.time}
        self.change(stream, [values], self.windows[stream].insert(values))


def comparable(*sides: Sequence[Row]) -> tuple[list[str], list[str]]:
    inserted, removed = (sorted(map(repr, side)) for side in sides)
    return inserted, removed


def history(draw: Random) -> list[Event]:
    """The times of the two types differ: what leaves both windows at one instant is another matter."""
    time, events = 0, []
    gaps, keys = draw.choice(((0, 300, 1000), (0, 500, 2500), (0, 100))), draw.choice((("a", "b"), ("a", "b", None)))
    for number in range(draw.choice((10, 30))):
        kind = draw.choice("AB")
        time = (time // 100 + draw.choice(gaps) // 100) * 100 + (50 if kind == "B" else 0)
        time = max(time, events[-1].time + 50 if events and events[-1].time > time else time)
        events.append(Event(time, kind, {"n": number, "k": draw.choice(keys), "x": draw.choice((None, 0, 1, 2, 3))}))
    return events


def delivered(join: Join, events: list[Event], end: int, *, replayed: bool) -> list[Delivery]:
    runtime = Runtime()
    runtime.deploy(SCHEMA + join.epl)
    recorded = record(runtime, "q")
    feed(runtime, "AB", events, replayed=replayed)
    runtime.advance(end, stepping=True)
    deliveries = [(time, *comparable(*sides)) for time, *sides in recorded]
    return [delivery for delivery in deliveries if delivery[1] or delivery[2]]


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(120))
def test_aggregates_of_a_join(seed: int) -> None:
    draw = Random(seed)
    join, events = drawn(draw), history(draw)
    end = events[-1].time + draw.choice((0, 1000, 6000))
    sent = delivered(join, events, end, replayed=False)
    assert delivered(join, events, end, replayed=True) == sent, join.epl
    model = Model(join)
    for event in events:
        model.send(event)
    model.advance(end)
    if model.below_zero:
        assert "outer" in join.operator
    else:
        assert sent == model.deliveries, join.epl
