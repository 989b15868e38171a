"""Partial matches in random histories, computed again from the events, also at earlier moments of a replay."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench
from tests.engine.histories import GAPS
from tests.random_cases import seeds

Event = dict[str, Any]
Partial = tuple[str, int, int | None, dict[str, Any]]  # what it waits for, since, until, ids by tag
pytestmark = pytest.mark.histories


def followed(events: list[Event], now: int, within: int | None = None, interval: int | None = None) -> list[Partial]:
    """An event with x=0, then one with x=1 and the same key within a time; or no such event for an interval."""
    waiting: list[Event] = []
    ends = within or interval
    for event in [*events, None]:
        time = now if event is None else event["t"]
        waiting = [a for a in waiting if ends is None or time < a["t"] + ends]
        if event is not None:
            waiting = [a for a in waiting if not (event["x"] == 1 and event["k"] == a["k"])]
            waiting += [event] * (event["x"] == 0)
    partials: list[Partial] = [("a", 0, None, {})]
    for a in waiting:
        partials.append(("b", a["t"], None if within is None else a["t"] + within, {"a": a["id"]}))
        if interval is not None:
            partials.append(("timer", a["t"], a["t"] + interval, {"a": a["id"]}))
    return partials


def three(events: list[Event], now: int) -> list[Partial]:
    partials: list[Partial] = []
    for event in events:
        if event["x"] == 2:
            partials = [p for p in partials if p[0] != "c"]
        elif event["x"] == 1:
            partials = [("c", event["t"], None, {**p[3], "b": event["id"]}) if p[0] == "b" else p for p in partials]
        else:
            partials.append(("b", event["t"], None, {"a": event["id"]}))
    return [("a", 0, None, {}), *partials]


def thrice(events: list[Event], now: int) -> list[Partial]:
    ids = [event["id"] for event in events if event["x"] > 0]
    since = max([0, *(event["t"] for event in events if event["x"] > 0)])
    rest = ids[len(ids) // 3 * 3 :]
    return [("a", since, None, {"a": rest} if rest else {})]


def until_zero(events: list[Event], now: int) -> list[Partial]:
    ids: list[int] = []
    since = {"a": 0, "b": 0}
    for event in events:
        ids = [] if event["x"] == 0 else [*ids, event["id"]]
        since = {"a": event["t"], "b": event["t"] if event["x"] == 0 else since["b"]}
    return [(tag, since[tag], None, {"a": ids} if ids else {}) for tag in "ab"]


def twice_within(events: list[Event], now: int) -> list[Partial]:
    partials: list[Partial] = []
    for event in [*events, None]:
        time = now if event is None else event["t"]
        partials = [p for p in partials if p[2] is None or time < p[2]]
        if event is None:
            continue
        if event["x"] == 0:
            partials.append(("b", time, time + 2000, {"a": event["id"]}))
        else:
            partials = [("b", time, p[2], {**p[3], "b": [event["id"]]}) for p in partials if "b" not in p[3]]
    return [("a", 0, None, {}), *partials]


def pairs(events: list[Event], now: int) -> list[Partial]:
    """In a repeat of a sequence, the events of finished repeats, or the one event of the present repeat."""
    former: dict[str, list[int]] = {"a": [], "b": []}
    begun: list[Event] = []
    since = 0
    for event in events:
        if event["x"] == len(begun):
            begun, since = [*begun, event], event["t"]
        if len(begun) == 2:
            former = {"a": [begun[0]["id"]], "b": [begun[1]["id"]]} if not former["a"] else {"a": [], "b": []}
            begun = []
    ids: dict[str, Any] = {name: of for name, of in former.items() if of}
    return [("b", since, None, {**ids, "a": begun[0]["id"]}) if begun else ("a", since, None, ids)]


def sides(events: list[Event], number: int) -> list[Partial]:
    """`and` of `number` events with x=0 and of one with x=1: a side that has matched is seen where the other waits."""
    most = {"a": number, "b": 1}
    ids: dict[str, list[int]] = {"a": [], "b": []}
    since = {"a": 0, "b": 0}
    for event in events:
        side = "ab"[event["x"]] if event["x"] < 2 else ""
        if side and len(ids[side]) < most[side]:
            ids[side].append(event["id"])
            since[side] = event["t"]
        if all(len(ids[name]) == most[name] for name in "ab"):
            ids, since = {"a": [], "b": []}, {"a": event["t"], "b": event["t"]}
    partials: list[Partial] = []
    for name in "ab":
        if len(ids[name]) < most[name]:
            matched = {tag: of for tag, of in ids.items() if of and (tag == name or len(of) == most[tag])}
            seen = {tag: of if most[tag] > 1 else of[0] for tag, of in matched.items()}
            partials.append((name, since[name], None, seen))
    return partials


def every_side(events: list[Event], now: int) -> list[Partial]:
    """`every` at one side: it goes on to wait after the other has matched, which has a list if there are several."""
    a, b = ([event for event in events if event["x"] == x] for x in (0, 1))
    partials: list[Partial] = [("a", 0, None, {"b": b[0]["id"]} if b else {})]
    if not b:
        ids = [event["id"] for event in a]
        partials.append(("b", 0, None, {"a": ids if len(ids) > 1 else ids[0]} if ids else {}))
    return partials


PATTERNS: dict[str, Callable[[list[Event], int], list[Partial]]] = {
    "every a=A(x=0) -> b=A(x=1, k=a.k)": followed,
    "every a=A(x=0) -> (b=A(x=1, k=a.k) where timer:within(1 sec))": lambda e, now: followed(e, now, within=1000),
    "every a=A(x=0) -> (timer:interval(1 sec) and not b=A(x=1, k=a.k))": lambda e, now: followed(e, now, interval=1000),
    "every a=A(x=0) -> b=A(x=1) -> c=A(x=2)": three,
    "every [3] a=A(x>0)": thrice,
    "every (a=A(x>0) until b=A(x=0))": until_zero,
    "every a=A(x=0) -> (([2] b=A(x>0)) where timer:within(2 sec))": twice_within,
    "every [2] (a=A(x=0) -> b=A(x=1))": pairs,
    "every (a=A(x=0) and b=A(x=1))": lambda e, now: sides(e, 1),
    "every (([2] a=A(x=0)) and b=A(x=1))": lambda e, now: sides(e, 2),
    "every a=A(x=0) and b=A(x=1)": every_side,
}


def partials_of(cep: Workbench) -> list[Partial]:
    rows: list[Partial] = []
    for row in cep.partials("out", times="ms").to_dict("records"):
        since, until, events = row["since"], row["until"], {}
        for tag in "abc":
            matched = row.get(tag)
            if isinstance(matched, list | dict):
                events[tag] = [e["id"] for e in matched] if isinstance(matched, list) else matched["id"]
        waits = row["waiting_for"]
        rows.append(("timer" if "timer" in waits else waits[0], since, None if pd.isna(until) else until, events))
    return sorted(rows, key=repr)


@pytest.mark.parametrize("seed", seeds(10))
@pytest.mark.parametrize("pattern", PATTERNS)
def test_partial_matches(pattern: str, seed: int) -> None:
    random = Random(seed)
    cep = Workbench()
    cep.run(f"create schema A(id int, k string, x int, t long); @name('out') select * from pattern [{pattern}]")
    events: list[Event] = []
    for _ in range(2):
        time, first = cep.runtime.now, len(events)
        for _ in range(random.randint(1, 10)):
            time += random.choice(GAPS)
            events.append({"id": len(events), "k": random.choice("ab"), "x": random.choice((0, 0, 1, 2)), "t": time})
        replay = cep.replay(pd.DataFrame(events[first:]), "A", time="t", leap=random.random() < 0.3, keep=True)
        replay.run()
    now = cep.runtime.now
    moment = random.randint(events[first]["t"], now)
    expected = PATTERNS[pattern]
    before = [event for event in events if event["t"] <= moment]
    assert partials_of(cep) == sorted(expected(events, now), key=repr)
    assert partials_of(replay.at(moment)) == sorted(expected(before, moment), key=repr)
