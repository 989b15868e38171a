"""Joins with patterns against nested loops: an event, and all matches that it completes, enter before rows are made.

What enters and leaves each window is taken from a statement over that window alone. What enters and leaves at once
finds the contents of the others and is found by nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from tests.engine.joins.test_histories import SCHEMA, history
from tests.engine.snapshot.saving import again
from tests.random_cases import seeds

WINDOWS = "keepall length(2) length(3) time(1) time(2) lastevent length_batch(2) firstlength(2)".split()
PATTERNS = (
    "every a=A -> b=B", "every a=A -> b=B(k = a.k)", "every (a=A and b=B)", "every a=A -> every b=B",
    "every a=A -> b=A", "every (a=A or b=C)", "every a=A -> (b=B and not C)",
)  # fmt: skip
Event = dict[str, Any]
Row = tuple[Event | None, ...]
Ids = tuple[int | None, ...]


@dataclass(frozen=True)
class Tag:
    """An event of a joined row: of a stream, or with a name of a match."""

    stream: int
    name: str | None

    @property
    def text(self) -> str:
        return f"s{self.stream}" + (f".{self.name}" if self.name else "")

    def of(self, row: Row, column: str) -> Any:
        event = row[self.stream]
        if event is not None and self.name is not None:
            event = event.get(self.name)
        return None if event is None else event[column]


@dataclass(frozen=True)
class Join:
    streams: tuple[str, ...]
    tags: tuple[Tag, ...]
    kind: str
    condition: tuple[str, Callable[[Row], bool]] | None
    unidirectional: int | None

    @property
    def text(self) -> str:
        mark = {self.unidirectional: " unidirectional"}
        streams = [f"{text} as s{n}{mark.get(n, '')}" for n, text in enumerate(self.streams)]
        condition = None if self.condition is None else self.condition[0]
        columns = ", ".join(f"{tag.text}.i as c{n}" for n, tag in enumerate(self.tags))
        if self.kind == "comma":
            where = f" where {condition}" if condition else ""
            return f"select irstream {columns} from {', '.join(streams)}{where}"
        outer = self.kind if self.kind == "inner" else f"{self.kind} outer"
        return f"select irstream {columns} from {streams[0]} {outer} join {streams[1]} on {condition}"

    def rows(self, contents: Sequence[Sequence[Event]]) -> list[Row]:
        test = self.condition[1] if self.condition is not None else lambda row: True
        rows: list[Row] = [row for row in product(*contents) if test(row)]
        if self.kind in ("left", "full"):
            rows += [(e, None) for e in contents[0] if not any(test((e, f)) for f in contents[1])]
        if self.kind in ("right", "full"):
            rows += [(None, f) for f in contents[1] if not any(test((e, f)) for e in contents[0])]
        return rows

    def with_some(self, contents: list[list[Event]], moved: Sequence[list[Event]]) -> Counter[Ids]:
        found = Counter[Ids]()
        starts = range(len(contents)) if self.unidirectional is None else [self.unidirectional]
        present = [row for row in self.rows(contents) if any(row[n] in moved[n] for n in starts)]
        for n in starts:
            own = [event for event in moved[n] if event not in contents[n]]
            present += [row for row in self.rows([*contents[:n], own, *contents[n + 1 :]]) if own and row[n] in own]
        found.update(tuple(tag.of(row, "i") for tag in self.tags) for row in present)
        return found


def drawn(draw: Random) -> Join:
    count = draw.choice((2, 2, 3))
    patterns = draw.sample(range(count), draw.choice((1, 1, 2)))
    unidirectional = draw.choice((None, None, *range(count)))
    windows = ["" if n == unidirectional else f"#{draw.choice(WINDOWS)}" for n in range(count)]
    sources = [f"pattern [{draw.choice(PATTERNS)}]" if n in patterns else draw.choice("ABC") for n in range(count)]
    tags = tuple(Tag(n, name) for n in range(count) for name in (("a", "b") if n in patterns else (None,)))
    kind = draw.choice(("comma", "comma", "inner", "left", "right", "full")) if count == 2 else "comma"
    condition = None
    if kind != "comma" or draw.random() < 0.7:
        pair = (0, 1) if kind != "comma" else draw.sample(range(count), 2)
        one, two = (draw.choice([tag for tag in tags if tag.stream == n]) for n in pair)
        name, nulls = draw.choice("kx"), kind not in ("comma", "inner")  # null keys meet in outer joins

        def test(row: Row) -> bool:
            left, right = one.of(row, name), two.of(row, name)
            return None not in row and left == right and (nulls or left is not None)

        condition = f"{one.text}.{name} = {two.text}.{name}", test
    streams = tuple(source + window for source, window in zip(sources, windows, strict=True))
    return Join(streams, tags, kind, condition, unidirectional)


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(40))
def test_against_nested_loops(seed: int) -> None:
    draw = Random(seed)
    join, runtime, alone = drawn(draw), Runtime(), Runtime()
    runtime.deploy(f"{SCHEMA} @name('join') {join.text}")
    contents: list[list[Event]] = [[] for _ in join.streams]
    moved: list[tuple[list[Event], list[Event]]] = [([], []) for _ in join.streams]
    got: tuple[Counter[Ids], Counter[Ids]] = Counter(), Counter()
    deliveries = 0

    def delivered(delta: Any) -> None:
        nonlocal deliveries
        deliveries += 1
        for side, rows in zip(got, (delta.insert, delta.remove), strict=True):
            side.update(tuple(row.values()) for row in rows or ())

    alone.deploy(SCHEMA)
    for n, text in enumerate(join.streams):
        alone.deploy(f"@name('w{n}') select irstream * from {text}")

        def changed(delta: Any, own: tuple[list[Event], list[Event]] = moved[n]) -> None:
            for side, rows in zip(own, (delta.insert, delta.remove), strict=True):
                side.extend(dict(row) for row in rows or ())

        alone.statement(f"w{n}").add_listener(changed)
    runtime.statement("join").add_listener(delivered)

    def check(stimulus: object) -> None:
        nonlocal deliveries
        expected = Counter[Ids](), Counter[Ids]()
        if join.unidirectional is None:
            expected = Counter[Ids](), join.with_some(contents, [left for _, left in moved])
        for n, (entered, left) in enumerate(moved):
            contents[n] = [event for event in [*contents[n], *entered] if event not in left]
        expected = join.with_some(contents, [entered for entered, _ in moved]), expected[1]
        assert got == expected, (join.text, stimulus)
        assert deliveries <= 1
        for n, sides in enumerate((*moved, got)):
            for side in sides:
                side.clear()
            if n == join.unidirectional:
                contents[n] = []
        deliveries = 0

    cut = draw.randrange(30)
    for number, (time, of, event) in enumerate(history(draw, 30)):
        while runtime.now < time:
            step = min(runtime.next_due or time, alone.next_due or time, time)
            for each in (runtime, alone):
                each.advance(step)
            check(step)
        for each in (runtime, alone):
            each.send(of, dict(event))
        check((number, of, event))
        if number == cut:
            runtime = again(runtime)
            runtime.statement("join").add_listener(delivered)


@pytest.mark.parametrize("context", ["", "context C "])
def test_totals_are_those_of_all_matches_of_an_event(context: str) -> None:
    runtime, found = Runtime(), list[Any]()
    pattern = "pattern [every a=A -> b=B(k = a.k)]"
    runtime.deploy(f"{SCHEMA} create context C partition by k from A, k from B, k from C;")
    runtime.deploy(f"@name('s') {context}select p.a.i as i, count(*) as n from {pattern}#keepall as p, C#keepall as c")
    runtime.deploy(f"@name('u') {context}select sum(p.a.i) as n from {pattern} as p unidirectional, C#keepall as c")
    for name in ("s", "u"):
        runtime.statement(name).add_listener(lambda delta: found.append([tuple(row.values()) for row in delta.insert]))
    for number, of in enumerate("CAAAB"):
        runtime.send(of, {"k": "a", "x": 0, "i": number})
    assert found == [[(1, 3), (2, 3), (3, 3)], [(6,)]]
