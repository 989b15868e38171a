"""A statement in a context does in every partition what it does alone on the events of that partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from cepbook.engine.contexts.hashing import bucket, crc32, hash_code
from cepbook.lang.types import INT, STRING
from tests.engine.histories import SELECTS, Event, Run, comparable, histories
from tests.random_cases import in_part, several

pytestmark = pytest.mark.histories

OWN = [
    "select x, prior(1, d) as p from A",
    "select g, sum(x) as s from A group by g output last every 2 events",
    "select x from A output all every 1 sec",
    "select a.x as ax, b.x as bx from pattern [every a=A(x > 0) -> b=A(g = a.g)]",
]
Rows = list[tuple[int, str, Any]]
Life = tuple[int, int]  # positions of the first event of a partition, and of the one that ends it (or the end)


def rows_of(deltas: Sequence[Any]) -> Rows:
    return [(t, flag, row) for t, ins, rem in deltas for flag, rows in (("+", ins), ("-", rem)) for row in rows or ()]


def by_partition(deltas: Sequence[Any]) -> dict[int, Rows]:
    """Rows by partition, in order, whatever delivery they came in; the id is the column `pid`."""
    found: dict[int, Rows] = defaultdict(list)
    for time, flag, row in rows_of(deltas):
        found[row["pid"][1]].append((time, flag, {name: v for name, v in row.items() if name != "pid"}))
    return dict(found)


def alone(select: str, events: Sequence[Event], belongs: Callable[[Event], bool], life: Life) -> Rows:
    """What the statement delivers for the events of one partition, while the clock moves with all events.

    The event that ends a partition moves the clock and is not seen.
    """
    run = Run(f"@name('s') {select}", start=events[life[0]].time)
    for position, event in enumerate(events[life[0] : life[1] + 1], life[0]):
        seen = belongs(event) and position < life[1]
        run.send([event if seen else Event(event.time, "B", {})])
    return rows_of(run.deliveries["s"])


def check(context: str, select: str, events: list[Event], lives: list[tuple[Callable[[Event], bool], Life]]) -> None:
    """Compare the context with `lives`, (what belongs to a partition, its life), by id."""
    head, tail = select.split(" from ", 1)
    run = Run(f"create context P {context};@name('s') context P {head}, context.id as pid from {tail}")
    run.send(events)
    found = by_partition(run.deliveries["s"])
    for id_, (belongs, life) in enumerate(lives):
        assert found.pop(id_, []) == alone(select, events, belongs, life), id_
    assert not found


@pytest.mark.parametrize("select", [*SELECTS, *OWN])
def test_keyed_with_an_end(select: str) -> None:
    """``terminated by``: an event with x = 0 ends the partition of its key and does not count."""

    @settings(max_examples=several(6))
    @given(histories(("A",), most=30))
    @in_part
    def one(events: list[Event]) -> None:
        open_: dict[Any, tuple[int, int]] = {}
        lives: list[tuple[Callable[[Event], bool], Life]] = []
        for position, event in enumerate(events):
            key = event.values["k"]

            def belongs(e: Event, key: Any = key) -> bool:
                return bool(e.values["k"] == key)

            if key not in open_:
                open_[key] = len(lives), position
                lives.append((belongs, (position, len(events))))
            elif event.values["x"] == 0:
                id_, first = open_.pop(key)
                lives[id_] = belongs, (first, position)
        check("partition by k from A terminated by A(x = 0)", select, events, lives)

    one()


@pytest.mark.parametrize("select", [*SELECTS, *OWN])
@pytest.mark.parametrize("function", ["hash_code", "consistent_hash_crc32"])
def test_hash(function: str, select: str) -> None:
    """Partitions have ids in the order of their first event; the filter of the context hides events."""

    def number(event: Event) -> int:
        values = event.values["k"], event.values["g"]
        hashed = {"hash_code": hash_code, "consistent_hash_crc32": crc32}[function]
        return bucket(hashed((STRING, INT), values), 3)

    @settings(max_examples=several(6))
    @given(histories(("A",), most=30))
    @in_part
    def one(events: list[Event]) -> None:
        lives: dict[int, tuple[Callable[[Event], bool], Life]] = {}
        for position, event in enumerate(events):
            if event.values["x"] == 4:
                continue

            def belongs(e: Event, of: int = number(event)) -> bool:
                return number(e) == of and e.values["x"] != 4

            lives.setdefault(number(event), (belongs, (position, len(events))))
        context = f"coalesce by {function}(k, g) from A(x is not 4) granularity 3"
        check(context, select, events, list(lives.values()))

    one()


@pytest.mark.parametrize("select", [*SELECTS, *OWN])
def test_category(select: str) -> None:
    """Categories overlap, and live from the beginning; a condition that is null does not hold."""

    def holds(event: Event, number: int) -> bool:
        x, g = event.values["x"], event.values["g"]
        return bool([x is not None and x > 1, x is not None and x <= 1, g == 1][number])

    @settings(max_examples=several(6))
    @given(histories(("A",), most=30))
    @in_part
    def one(events: list[Event]) -> None:
        events = [Event(0, "B", {}), *events]  # from the deployment on
        lives: list[tuple[Callable[[Event], bool], Life]] = []
        for number in range(3):

            def belongs(e: Event, number: int = number) -> bool:
                return e.type == "A" and holds(e, number)

            lives.append((belongs, (0, len(events))))
        check("group x > 1 as many, group x <= 1 as few, group g = 1 as one from A", select, events, lives)

    one()


@pytest.mark.parametrize(
    ("condition", "counts"),
    [
        ("", lambda seen, event: True),
        ("(k = context.a.k)", lambda seen, event: seen[0] is not None and event.values["k"] == seen[0]),
        ("(context.a.k = k, x is null)", lambda seen, event: None not in seen and _is(event, k=seen[0], x=None)),
    ],
)
@pytest.mark.parametrize("end", ["B(k = a.k)", "pattern [B(k = a.k)]", "pattern [B(k = a.k) or B(k = a.k, x > 0)]"])
def test_overlapping_partitions_count_from_their_initiation(
    end: str, condition: str, counts: Callable[[list[Any], Event], bool]
) -> None:
    """Initiated by A(x > 0), terminated by B of the same key: who lives, and how many A each has seen."""

    @settings(max_examples=several(12))
    @given(histories(("A", "B"), most=40))
    @in_part
    def one(events: list[Event]) -> None:
        run = Run(
            f"create context P initiated by A(x > 0) as a terminated by {end};"
            f"@name('s') context P select context.a.k as k, count(*) as c from A{condition};"
            f"@priority(1) @name('t') context P select context.a.k as k, count(*) as c from A{condition}"
        )
        run.send(events)
        expected = _living(events, counts)
        assert comparable(run.runtime.iterate_partitions("s")) == comparable(expected)
        assert comparable(run.runtime.iterate_partitions("t")) == comparable(expected)

    one()


def _is(event: Event, **values: Any) -> bool:
    return all(event.values[name] == value for name, value in values.items())


def _living(events: list[Event], counts: Callable[[list[Any], Event], bool]) -> list[Any]:
    """The partitions that live in the end, and what each has counted."""
    live: dict[int, list[Any]] = {}
    ids = 0
    for event in events:
        key = event.values["k"]
        if event.type == "B":
            live = {id_: seen for id_, seen in live.items() if key is None or seen[0] != key}
            continue
        if (event.values["x"] or 0) > 0:
            live[ids] = [key, 0]
            ids += 1
        for seen in live.values():
            seen[1] += counts(seen, event)
    return [(id_, [{"k": key, "c": count}]) for id_, (key, count) in live.items()]
