"""Output clauses with having, where, order by and limit, in contexts, with conditions and crontabs.

In random histories the deliveries are computed again from the events. `output first` is in `test_output`.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from cepbook.engine.runtime import Runtime
from tests.engine.histories import Event, feed, record
from tests.random_cases import seeds

Values = dict[str, Any]
Row = tuple[Any, ...]
Rows = list[Row]
Keyed = list[tuple[Any, Row | None]]  # the row is None if having rejects it
Delivery = tuple[int, Rows, Rows]
COLUMNS = {
    "events": "n, k, x",
    "events and aggregates": "n, k, sum(x) as s, count(*) as c",
    "aggregates": "sum(x) as s, count(*) as c",
    "groups": "k, sum(x) as s, count(*) as c",
    "events of groups": "n, k, sum(x) as s, count(*) as c",
}
ORDERS = {
    "events": " order by x desc, n",
    "events and aggregates": " order by n desc",
    "groups": " order by s desc, k",
}
CONTEXTS = {
    "": "",
    "keyed": "create context K partition by k from A;",
    "overlapping": "create context K initiated by S terminated after 3 sec;",
}
RATES = {
    "count": ("every 1 events", "every 2 events", "every 3 events"),
    "time": ("every 700 msec", "every 1500 msec"),
    "crontab": ("at (*, *, *, *, *, */2)",),
    "condition": ("when count_insert >= 2", "when count_remove >= 2", "when count_insert_total > 4"),
}


class Statement(NamedTuple):
    context: str
    kind: str
    selector: str
    window: str
    where: bool
    having: bool
    which: str
    rate: str
    text_of_rate: str
    ordered: bool
    limited: bool

    @property
    def grouped(self) -> bool:
        return "groups" in self.kind

    @property
    def epl(self) -> str:
        having = "x > 0" if self.kind == "events" else "sum(x) > 2"
        text = f"select {self.selector} {COLUMNS[self.kind]} from A{self.window}" + " where x != 2" * self.where
        text += " group by k" * self.grouped + f" having {having}" * self.having
        text += f" output {self.which} {self.text_of_rate}" + ORDERS.get(self.kind, "") * self.ordered
        text += " limit 2" * self.limited
        return f"{CONTEXTS[self.context]} @name('q') {'context K ' if self.context else ''}{text}"

    def shown(self, rows: Rows) -> Rows:
        """The rows of a delivery in their order."""
        if not self.ordered:
            return rows
        if self.kind == "events":
            rows = sorted(rows, key=lambda row: (descending(row[2]), row[0]))
        elif self.kind == "groups":
            rows = sorted(rows, key=lambda row: (descending(row[1]), row[0]))
        else:
            rows = sorted(rows, reverse=True)
        return rows[:2] if self.limited else rows


def descending(value: int | None) -> tuple[bool, int]:
    """Null is less than all numbers."""
    return (value is None, -(value or 0))


def drawn(draw: Random) -> Statement:
    kind, context, rate = draw.choice([*COLUMNS]), draw.choice([*CONTEXTS]), draw.choice([*RATES])
    which = draw.choice(("", "all", "last", "snapshot"))
    selector = "istream" if which == "snapshot" else draw.choice(("istream", "irstream", "rstream"))
    window = draw.choice(("#keepall", "#length(1)", "#length(3)", "#time(2 sec)"))
    ordered = kind in ORDERS and draw.random() < 0.5 and not context
    return Statement(
        context,
        kind,
        selector,
        window,
        draw.random() < 0.3,
        draw.random() < 0.4,
        which,
        rate,
        draw.choice(RATES[rate]),
        ordered,
        ordered and draw.random() < 0.5,
    )


class Partition:
    """The statement within one context partition, which ends before `end`."""

    def __init__(self, statement: Statement, end: int | None = None) -> None:
        self.statement = statement
        self.end = end
        self.window: list[Values] = []
        self.inserted: Rows = []
        self.removed: Rows = []
        self.former: dict[Any, Row | None] = {}  # by touched group the row before the interval
        self.last: dict[Any, Values] = {}  # by group the last event
        self.shown: set[Any] = set()  # groups with a row of `all`
        self.moved = False
        self.counts, self.total = [0, 0], 0
        self.due: int | None = None

    def key(self, event: Values) -> Any:
        return event["k"] if self.statement.grouped else None

    @property
    def events(self) -> list[Values]:
        """The events of the window that pass the where clause."""
        return [e for e in self.window if not self.statement.where or e["x"] not in (None, 2)]

    def row(self, key: Any, event: Values | None = None) -> Row | None:
        statement = self.statement
        own = [e for e in self.events if self.key(e) == key]
        values = [e["x"] for e in own if e["x"] is not None]
        total = sum(values) if values else None
        tested = event["x"] if event and statement.kind == "events" else total
        if statement.having and not (tested or 0) > (0 if statement.kind == "events" else 2):
            return None
        if event is not None:
            return (event["n"], event["k"], *([event["x"]] if statement.kind == "events" else [total, len(own)]))
        return (key, total, len(own)) if statement.grouped else (total, len(own))

    def change(self, now: int, entered: list[Values], left: list[Values]) -> Iterator[Delivery]:
        """Move events, of which the window knows already, and deliver what is due."""
        statement, after = self.statement, self.window
        if statement.where:
            entered, left = ([e for e in events if e["x"] not in (None, 2)] for events in (entered, left))
        if not entered and not left:
            return
        keys = list(dict.fromkeys(map(self.key, entered + left)))
        self.window = [e for e in after if e not in entered] + left
        before = {key: self.row(key) for key in keys}
        self.window = after
        if statement.kind in ("groups", "aggregates"):
            new: Keyed = [(key, self.row(key)) for key in keys]
            old: Keyed = [(key, before[key]) for key in keys]
        else:
            new = [(self.key(e), self.row(self.key(e), e)) for e in entered]
            old = [(self.key(e), self.row(self.key(e), e)) for e in left]
        self.collect(entered, left, new, old)
        if self.fires(now, len(entered), len(left)):
            yield self.delivery(now)

    def collect(self, entered: list[Values], left: list[Values], new: Keyed, old: Keyed) -> None:
        kind, which = self.statement.kind, self.statement.which
        for key, row in old:
            if self.former.get(key) is None and (key not in self.former or kind == "aggregates"):
                self.former[key] = row
        self.moved = True
        self.last.update({self.key(e): e for e in entered})
        if which == "last" and kind == "events of groups":
            self.inserted = [*dict([(row[1], row) for row in self.inserted] + live(new)).values()]
            self.removed = [*dict([(row[1], row) for row in self.removed] + live(old)).values()]
            return
        self.inserted += [row for _, row in live(new)]
        self.removed += [row for _, row in live(old)]
        if which == "last" and kind != "groups":
            self.inserted, self.removed = self.inserted[-1:], self.removed[-1:]
        if kind == "events of groups":
            self.shown.update(e["k"] for e in entered + left)
            repeated = dict.fromkeys(e["k"] for e in left) if which == "all" else {}
            self.inserted += [row for key in repeated if (row := self.row(key, self.last[key]))]

    def fires(self, now: int, entered: int, left: int) -> bool:
        statement = self.statement
        self.counts, self.total = [self.counts[0] + entered, self.counts[1] + left], self.total + entered
        match statement.rate:
            case "count":
                fires = max(self.counts) >= int(statement.text_of_rate.split()[1])
            case "condition":
                inserted, removed = self.counts
                values = {"count_insert": inserted, "count_remove": removed, "count_insert_total": self.total}
                name, relation, number = statement.text_of_rate.split()[1:]
                fires = values[name] >= int(number) + (relation == ">")
            case _:
                self.due = self.due or self.next_due(now)
                fires = False
        if fires:
            self.counts = [0, 0]
        return fires

    def next_due(self, now: int) -> int:
        if self.statement.rate == "time":
            return now + int(self.statement.text_of_rate.split()[1])
        return now // 2000 * 2000 + 2000 + now % 1000  # the milliseconds stay

    def delivery(self, now: int) -> Delivery:
        statement, new, old = self.statement, self.inserted, self.removed
        groups = {self.key(e): None for e in self.events}
        if statement.which == "snapshot":
            rows = {"groups": [self.row(key) for key in groups], "aggregates": [self.row(None)]}
            each = [self.row(self.key(e), e) for e in self.events]
            new, old = [row for row in rows.get(statement.kind, each) if row], []
        elif statement.kind == "aggregates" and not self.moved:
            new = old = present(self.row(None))
        elif statement.kind == "aggregates" and statement.which == "last":
            new, old = present(self.row(None)), present(self.former[None])
        elif statement.kind == "groups" and statement.which:
            known = self.last if statement.which == "all" else self.former
            new = [row for key in known for row in present(self.row(key))]
            old = [row for key in known for row in present(self.former[key] if key in self.former else self.row(key))]
        elif statement.kind == "events of groups" and statement.which == "all":
            idle = [self.row(key, event) for key, event in self.last.items() if key not in self.shown]
            new = new + [row for row in idle if row]
        self.inserted, self.removed, self.former, self.shown, self.moved = [], [], {}, set(), False
        new, old = (old, []) if statement.selector == "rstream" else (new, old)
        return now, statement.shown(new), [] if statement.selector == "istream" else statement.shown(old)

    def advance(self, now: int) -> Iterator[Delivery]:
        """Events leave before the output of the same instant."""
        while True:
            leaving = self.window[0]["t"] + 2000 if self.statement.window == "#time(2 sec)" and self.window else None
            dues = [due for due in (leaving, self.due) if due is not None and due <= now]
            if not dues or (self.end is not None and min(dues) >= self.end):
                return
            due = min(dues)
            if due == leaving:
                left = [e for e in self.window if e["t"] + 2000 <= due]
                self.window = self.window[len(left) :]
                yield from self.change(due, [], left)
            else:
                self.due = self.next_due(due)
                yield self.delivery(due)

    def send(self, event: Values) -> Iterator[Delivery]:
        if self.end is None or event["t"] < self.end:
            length = self.statement.window[8] if "length" in self.statement.window else "100"
            kept = [*self.window, event]
            self.window = kept[-int(length) :]
            yield from self.change(event["t"], [event], kept[: -int(length)])


def live(rows: Keyed) -> list[tuple[Any, Row]]:
    return [(key, row) for key, row in rows if row is not None]


def present(row: Row | None) -> Rows:
    return [] if row is None else [row]


def expected(statement: Statement, events: list[Event], end: int) -> list[Delivery]:
    partitions: dict[Any, Partition] = {} if statement.context else {None: Partition(statement)}
    found: list[Delivery] = []
    for number, event in enumerate(events):
        for partition in partitions.values():
            found += partition.advance(event.time)
        values = {**event.values, "t": event.time}
        if event.type == "S":
            if statement.context == "overlapping":
                partitions[number] = Partition(statement, event.time + 3000)
            continue
        if statement.context == "keyed":
            partitions.setdefault(values["k"], Partition(statement))
        for key, partition in partitions.items():
            if statement.context != "keyed" or key == values["k"]:
                found += partition.send(values)
    for partition in partitions.values():
        found += partition.advance(end)
    return of_instants(statement, found)


def of_instants(statement: Statement, deliveries: list[Delivery]) -> list[Delivery]:
    """What several partitions deliver at one instant is one delivery, or are several: here one."""
    found: dict[int, tuple[Rows, Rows]] = {}
    for time, new, old in deliveries:
        rows = found.setdefault(time, ([], []))
        rows[0].extend(new)
        rows[1].extend(old)
    if not statement.ordered:
        found = {time: (sorted(new, key=repr), sorted(old, key=repr)) for time, (new, old) in found.items()}
    return [(time, new, old) for time, (new, old) in sorted(found.items()) if new or old]


def delivered(statement: Statement, events: list[Event], end: int, *, replayed: bool) -> list[Delivery]:
    runtime = Runtime()
    runtime.deploy(f"create schema A(n int, k string, x int); create schema S(id int); {statement.epl}")
    recorded = record(runtime, "q")
    feed(runtime, "AS", events, replayed=replayed)
    runtime.advance(end, stepping=True)
    return of_instants(statement, recorded)


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(120))
def test_deliveries_of_clauses_together(seed: int) -> None:
    draw = Random(seed)
    statement = drawn(draw)
    time, events = 0, []
    gaps = draw.choice(((0, 0, 300, 1000), (0, 500, 2500), (1000,), (0, 100)))
    for number in range(draw.choice((12, 30))):
        time += draw.choice(gaps)
        values = {"n": number, "k": draw.choice("ab"), "x": draw.choice((None, 0, 1, 2, 3, 4))}
        events.append(draw.choice((Event(time, "A", values),) * 6 + (Event(time, "S", {"id": number}),)))
    end = time + draw.choice((0, 1000, 6000))
    wanted = expected(statement, events, end)
    for replayed in (False, True):
        assert delivered(statement, events, end, replayed=replayed) == wanted, (statement.epl, replayed)
