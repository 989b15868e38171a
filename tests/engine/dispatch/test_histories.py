"""Modules of statements that feed each other against a queue: inserts, splits, contained events, variables, a named
window, a table, `@Priority` and `@Drop`.

An event is decided by all filters, then processed by the statements in order. What these insert waits: rows of the
window before events. Filters, and where-clauses that are filters, see the variables as they were before the event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from tests.engine.histories import Event, slices
from tests.engine.sinks import Deltas
from tests.random_cases import seeds

STREAMS = ("E", "S1", "S2", "S3", "S4")
SCHEMA = (
    "create schema I(n int); create schema E(x int, i int, items I[]); create variable int V = 0;"
    + "".join(f"create schema {name}(x int, i int);" for name in STREAMS[1:])
    + "create window W#keepall as (x int, i int); create table T(i int primary key, x int);"
)
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b, ">=": lambda a, b: a >= b, "=": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip
Row = dict[str, Any]
Value = Callable[["Queue", Row], Any]


@dataclass
class Queue:
    """What the statements share, and the events that wait."""

    v: int = 0
    v_before: int = 0
    window: list[Row] = field(default_factory=list)
    table: dict[int, Any] = field(default_factory=dict)
    events: deque[tuple[str, Row]] = field(default_factory=deque)
    rows: deque[Row] = field(default_factory=deque)
    delivered: list[tuple[Any, ...]] = field(default_factory=list)

    def insert(self, target: str, row: Row) -> None:
        if target == "W":
            self.rows.append(row)
        else:
            self.events.append((target, row))


@dataclass
class Statement:
    reads: str
    order: tuple[int, bool, int]  # smaller ones first: priority, @Drop, position
    run: Callable[[Queue, Row], bool]  # whether it takes the event


class Modules:
    """Draws modules."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.text: list[str] = []
        self.statements: list[Statement] = []
        self.drops, self.priorities = draw.choice((0.0, 0.0, 0.3)), draw.choice((0.0, 0.4))
        kinds = "select insert insert insert split split set contained merge on_select window window".split()
        for kind in draw.choices(kinds, k=draw.choice((4, 7, 10))):
            self.add(kind, 0 if kind == "contained" else draw.choice((0, 0, 1, 1, 2, 3)))
        for number in (1, 2, 3, 4):
            self.add("select", number)
        self.add("window", 0, reads="W")

    def condition(self, alias: str = "", *, early: bool = False, stores: bool = True) -> tuple[str, Value]:
        draw, op, c = self.draw, self.draw.choice([*COMPARISONS]), self.draw.randrange(6)
        test, kind = COMPARISONS[op], self.draw.choice("xxivwt" if stores else "xxiv")
        if kind == "x":
            return f"{alias}x {op} {c}", lambda _, e: e["x"] is not None and test(e["x"], c)
        if kind == "i":
            return f"{alias}i % 3 {op} {c % 3}", lambda _, e: test(e["i"] % 3, c % 3)
        if kind == "v":
            return f"V {op} {alias}x", lambda q, e: e["x"] is not None and test(q.v_before if early else q.v, e["x"])
        store, size = draw.choice((("W", lambda q: len(q.window)), ("T", lambda q: len(q.table))))
        return f"(select count(*) from {store}) {op} {c}", lambda q, _: test(size(q), c)

    def value(self, alias: str = "") -> tuple[str, Value]:
        kind = self.draw.choice(("x", "sum", "V", "window", "table"))
        if kind == "x":
            return f"{alias}x", lambda _, e: e["x"]
        if kind == "sum":
            return f"{alias}x + 1", lambda _, e: None if e["x"] is None else e["x"] + 1
        if kind == "V":
            return "V", lambda q, _: q.v
        if kind == "window":
            known = lambda q: [row["x"] for row in q.window if row["x"] is not None]  # noqa: E731
            return "(select max(w.x) from W as w)", lambda q, _: max(known(q), default=None)
        return "cast((select count(*) from T), int)", lambda q, _: len(q.table)

    def add(self, kind: str, level: int, reads: str | None = None) -> None:
        draw, position, source = self.draw, len(self.text), reads or STREAMS[level]
        drops = kind in ("select", "insert") and draw.random() < self.drops
        priority = draw.choice((-1, 1, 2)) if draw.random() < self.priorities else 0
        annotations = f"@name('s{position}') " + "@Drop " * drops + f"@Priority({priority}) " * bool(priority)
        priority = priority or int(drops)
        condition = self.condition(early=True, stores=False) if draw.random() < 0.4 else None
        accepts = (lambda q, e: True) if condition is None or source == "W" else condition[1]
        filtered = source if condition is None or source == "W" else f"{source}({condition[0]})"
        target = draw.choice(STREAMS[level + 1 :]) if kind != "select" and level < 4 else None
        if kind == "window":
            target = draw.choice((None, "S4")) if reads else "W"
        body, act = getattr(self, f"_{kind}")(f"s{position}", filtered, target, level)
        self.text.append(annotations + body)

        def run(queue: Queue, event: Row) -> bool:
            return bool(accepts(queue, event)) and act(queue, event)

        self.statements.append(Statement(source, (-priority, not drops, position), run))

    def _select(self, name: str, source: str, target: str | None, level: int) -> tuple[str, Value]:
        value, where = self.value(), self.condition(early=True) if self.draw.random() < 0.3 else None

        def act(queue: Queue, event: Row) -> bool:
            if where is not None and not where[1](queue, event):
                return False
            row = {"x": value[1](queue, event), "i": event["i"]}
            if target is not None:
                queue.insert(target, row)
            queue.delivered.append((name, row["x"], row["i"]))
            return True

        into, tests = f"insert into {target} " if target else "", f" where {where[0]}" if where else ""
        return f"{into}select {value[0]} as x, i from {source}{tests};", act

    _insert = _window = _select

    def _set(self, name: str, source: str, target: str | None, level: int) -> tuple[str, Value]:
        value = self.value("s.")

        def act(queue: Queue, event: Row) -> bool:
            queue.v = (value[1](queue, event) or 0) + 1
            queue.delivered.append((name, queue.v))
            return True

        return f"on {source} as s set V = coalesce({value[0]}, 0) + 1;", act

    def _merge(self, name: str, source: str, target: str | None, level: int) -> tuple[str, Value]:
        value = self.value("s.")

        def act(queue: Queue, event: Row) -> bool:
            queue.table[event["i"]] = value[1](queue, event)
            return True

        matched = f"when matched then update set x = {value[0]}"
        inserted = f"when not matched then insert select s.i as i, {value[0]} as x"
        return f"on {source} as s merge T as t where t.i = s.i {matched} {inserted};", act

    def _on_select(self, name: str, source: str, target: str | None, level: int) -> tuple[str, Value]:
        def act(queue: Queue, event: Row) -> bool:
            for i, x in queue.table.items():
                if i >= event["i"] - 2:
                    if target is not None:
                        queue.insert(target, {"x": x, "i": event["i"]})
                    queue.delivered.append((name, x, event["i"]))
            return True

        into = f"insert into {target} " if target else ""
        return f"on {source} as s {into}select t.x as x, s.i as i from T as t where t.i >= s.i - 2;", act

    def _items(self) -> tuple[str, str, Callable[[Row], list[Row]]]:
        """Conditions within the brackets and behind them, and the rows of the contained events that meet both."""
        least, most = self.draw.choice((None, *range(4))), self.draw.choice((None, *range(5)))

        def rows(event: Row) -> list[Row]:
            numbers = [item["n"] for item in event["items"] or ()]
            numbers = [n for n in numbers if (least is None or n > least) and (most is None or n < most)]
            return [{"x": n, "i": event["i"]} for n in numbers]

        return "" if least is None else f" where q.n > {least}", "" if most is None else f" where n < {most}", rows

    def _contained(self, name: str, source: str, target: str | None, level: int) -> tuple[str, Value]:
        inner, outer, rows = self._items()

        def act(queue: Queue, event: Row) -> bool:
            for row in rows(event):
                queue.insert(str(target), row)
                queue.delivered.append((name, row["x"], row["i"]))
            return True

        items = f"[select e.i as i, q.n as n from items as q{inner}]"
        return f"insert into {target} select n as x, i from {source}{items} as e{outer};", act

    def _split(self, name: str, source: str, target: str | None, level: int) -> tuple[str, Value]:
        draw, texts, every = self.draw, list[str](), self.draw.random() < 0.5
        branches: list[tuple[str, Callable[[Queue, Row], list[Row]]]] = []
        for _ in range(draw.choice((1, 2, 3))):
            to = draw.choice(STREAMS[level + 1 :])
            if not level and draw.random() < 0.4:
                inner, outer, rows = self._items()
                items = f"[select s.i as i, q.n as n from items as q{inner}]"
                texts.append(f"insert into {to} select n as x, i from {items}{outer}")
                branches.append((to, lambda _, event, rows=rows: rows(event)[: None if every else 1]))
                continue
            to = draw.choice((to, to, "W"))
            value = self.value("s.")
            where = self.condition("s.") if draw.random() < 0.7 else ("1 = 1", lambda q, e: True)
            texts.append(f"insert into {to} select {value[0]} as x, s.i as i where {where[0]}")

            def taken(queue: Queue, event: Row, value: Value = value[1], where: Value = where[1]) -> list[Row]:
                return [{"x": value(queue, event), "i": event["i"]}] if where(queue, event) else []

            branches.append((to, taken))

        def act(queue: Queue, event: Row) -> bool:
            some = False
            for to, rows in branches:
                made = rows(queue, event)
                some = some or bool(made)
                for row in made:
                    queue.insert(to, row)
                if made and not every:
                    break
            if not some:
                queue.delivered.append((name, "none", event["i"]))
            return True

        return f"on {source} as s {' '.join(texts)} output {'all' if every else 'first'};", act

    def process(self, queue: Queue, event: Row) -> list[tuple[Any, ...]]:
        """Return what is delivered because of an event, in order."""
        queue.events.append(("E", event))
        queue.delivered = []
        while queue.rows or queue.events:
            of, row = ("W", queue.rows.popleft()) if queue.rows else queue.events.popleft()
            if of == "W":
                queue.window.append(row)
            queue.v_before = queue.v
            for statement in sorted(self.statements, key=lambda statement: statement.order):
                if statement.reads == of and statement.run(queue, row) and not statement.order[1]:
                    break
        return queue.delivered


def shown(name: str, text: str, row: Row) -> tuple[Any, ...]:
    """A delivered row as the queue notes it; a split delivers the events that no branch takes."""
    if " output " in text:
        event = row.get("s", row)
        return name, "none", event["i"]
    return (name, *row.values())


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(60))
def test_modules_against_a_queue(seed: int) -> None:
    draw, queue, runtime, delivered = Random(seed), Queue(), Runtime(), list[Any]()
    modules = Modules(draw)
    epl = "\n".join([SCHEMA, *modules.text])
    runtime.deploy(epl)
    texts = {f"s{number}": text for number, text in enumerate(modules.text) if " merge " not in text}
    for name, text in texts.items():
        add = lambda delta, name=name, text=text: delivered.extend(shown(name, text, r) for r in delta.insert or ())  # noqa: E731
        runtime.statement(name).add_listener(add)
    events, everything = list[Event](), list[Any]()
    for number in range(12):
        items = [{"n": draw.randrange(6)} for _ in range(draw.randrange(4))]
        event = {"x": draw.choice((None, *range(6))), "i": number, "items": draw.choice((None, items, items))}
        events.append(Event(number, "E", event))
        delivered.clear()
        runtime.advance(number)
        runtime.send("E", dict(event))
        expected = modules.process(queue, event)
        assert delivered == expected, (modules.text, event)
        everything += expected
    replayed, sinks = Runtime(), {name: Deltas() for name in texts}
    replayed.deploy(epl)
    for name, sink in sinks.items():
        replayed.statement(name).add_sink(sink)
    batch = replayed.batch(["E"])
    batch.run(slices(events, 0, batch.columns))
    for name, sink in sinks.items():
        found = [shown(name, texts[name], row) for delta in sink for row in delta.insert or ()]
        assert found == [row for row in everything if row[0] == name], (modules.text, name)
