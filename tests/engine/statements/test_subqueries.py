"""Subqueries: sent, replayed, saved and loaded are one; lookups against looking at everything."""

from __future__ import annotations

import random
from itertools import groupby
from operator import itemgetter
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from tests.engine.sinks import Deltas

SCHEMAS = """
create schema Room(room string, beds int);
create schema Guest(name string, room string, age int);
create context ByRoom partition by room from Room, room from Guest;
create window Held#length(6) as Room;
insert into Held select * from Room;
"""

STATEMENTS = {
    "scalar": "select name, (select beds from Room#length(3) as r where r.room = g.room) as x from Guest as g",
    "range": "select name, (select count(*) from Room#length(5) as r where r.beds < g.age) as x from Guest as g",
    "sum": "select name, (select sum(beds) from Room#time(4 sec)) as x from Guest",
    "grouped": "select name, age in (select sum(beds) from Room#length(4) group by room) as x from Guest",
    "own": "select name, (select max(age) from Guest#length(3)) as x from Guest",
    "filter": "select name from Guest(age > (select max(age) from Guest#length(3)))",
    "batch": "select name, (select window(beds) from Room#length_batch(3)) as x from Guest",
    "context": "context ByRoom select name, (select sum(beds) from Room#time(4 sec)) as x from Guest",
    "pattern": "select g.name as x from pattern [every g=Guest(age > (select min(beds) from Room#length(2)))]",
    "held": "select name, (select count(*) from Held as h where h.room = g.room) as x from Guest as g",
    "output": "select name, (select last(beds) from Room#keepall) as x from Guest#keepall output snapshot every 3 sec",
    "join": "select name, beds from Guest#length(2) as g, Room#lastevent as r"
    " where exists (select * from Room#length(3) as o where o.room = g.room)",
    "aggregated": "select irstream room, sum(age) as s, (select count(*) from Room#length(4)) as x"
    " from Guest#time(3 sec) group by room",
}


def _events(seed: int, count: int = 60) -> list[tuple[int, str, dict[str, Any]]]:
    chance = random.Random(seed)
    time, found = 0, []
    for number in range(count):
        time += chance.choice((0, 0, 400, 1000, 2500))
        room = chance.choice(("a", "b", None))
        amount = chance.choice((None, 0, 1, 2, 3, 5))
        if chance.random() < 0.5:
            found.append((time, "Room", {"room": room, "beds": amount}))
        else:
            found.append((time, "Guest", {"name": f"g{number}", "room": room, "age": amount}))
    return found


def _deployed(epl: str) -> Runtime:
    runtime = Runtime()
    runtime.deploy(SCHEMAS)
    runtime.deploy(f"@name('s') {epl}")
    return runtime


def _listening(runtime: Runtime, found: list[Any]) -> None:
    runtime.statement("s").add_listener(lambda delta: found.append((delta.time, delta.insert, delta.remove)))


def _send(runtime: Runtime, events: list[tuple[int, str, dict[str, Any]]]) -> None:
    for time, name, event in events:
        runtime.advance(max(time, runtime.now))
        runtime.send(name, dict(event))


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_saved_runtime_goes_on_as_it_would_have(name: str) -> None:
    events = _events(len(name))
    whole: list[Any] = []
    runtime = _deployed(STATEMENTS[name])
    _listening(runtime, whole)
    _send(runtime, events)
    runtime.advance(runtime.now + 10_000)
    parts: list[Any] = []
    first = _deployed(STATEMENTS[name])
    _listening(first, parts)
    _send(first, events[:30])
    second = Runtime.restored(first.snapshot(), {})
    _listening(second, parts)
    _send(second, events[30:])
    second.advance(second.now + 10_000)
    assert parts == whole
    assert whole


@pytest.mark.parametrize("listened", [False, True])
@pytest.mark.parametrize("name", STATEMENTS)
def test_replayed_as_sent(name: str, listened: bool) -> None:
    """Slices of the one or the other type; statements that nobody calls for run through them, but for contexts."""
    events = _events(len(name) + 100)
    sent, replayed = Deltas(), Deltas()
    runtime, again = _deployed(STATEMENTS[name]), _deployed(STATEMENTS[name])
    for one, deltas in ((runtime, sent), (again, replayed)):
        one.statement("s").add_sink(deltas)
    if listened:
        again.statement("s").add_listener(lambda delta: None)
    _send(runtime, events)
    batch = again.batch(["Room", "Guest"])
    assert ("s" in batch.reasons, "s" in batch.merged) == (listened, name == "held" and not listened)
    for type_name, run in groupby(events, key=itemgetter(1)):
        times, _, rows = zip(*run, strict=True)
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        batch.run([ColumnBatch(type_name, list(times), columns)])
    assert replayed == sent
    assert sent


def test_lookups_against_looking_at_everything() -> None:
    """Conditions in every form, on rows with nulls."""
    forms = {
        "r.room = g.room": lambda r, g: r["room"] is not None and r["room"] == g["room"],
        "r.beds > g.age": lambda r, g: None not in (r["beds"], g["age"]) and r["beds"] > g["age"],
        "r.beds + 1 <= g.age and r.room = 'a'": lambda r, g: (
            None not in (r["beds"], g["age"]) and r["beds"] + 1 <= g["age"] and r["room"] == "a"
        ),
        "r.room is g.room": lambda r, g: r["room"] == g["room"],
        "r.room = g.room and r.beds = g.age": lambda r, g: r["room"] == g["room"] and r["beds"] == g["age"],
        "r.beds between g.age and 2": lambda r, g: (
            None not in (r["beds"], g["age"]) and min(g["age"], 2) <= r["beds"] <= max(g["age"], 2)
        ),
    }
    for condition, holds in forms.items():
        found: list[Any] = []
        runtime = _deployed(f"select (select count(*) from Room#length(5) as r where {condition}) as n from Guest as g")
        runtime.statement("s").add_listener(lambda delta, found=found: found.append(delta.insert[0]["n"]))
        rooms: list[dict[str, Any]] = []
        wanted = []
        for _, name, event in _events(7, 80):
            if name == "Room":
                rooms = [*rooms, event][-5:]
            else:
                wanted.append(sum(holds(room, event) for room in rooms))
            runtime.send(name, dict(event))
        assert found == wanted, condition


@pytest.mark.parametrize(
    "source", ["Shops", "Shops(total > 1)", "Shops where total > 1", "Held", "Sale#keepall", "One"]
)
def test_operands_and_comparisons_with_columns_of_every_kind(source: str) -> None:
    """A value of any kind compared with columns and aggregates of tables, windows and streams, against looking at all
    values.
    """
    operands = {"n": 2, "null": None, "Shops[shop].cnt": 2, "(select max(n) from Sale#keepall)": 3}
    sales = [{"shop": "a", "n": 1}, {"shop": "a", "n": 3}, {"shop": "b", "n": 1}]
    rows = {
        "Shops": [{"cnt": 2, "total": 4}, {"cnt": 1, "total": 1}],
        "One": [{"cnt": 3, "total": 5}],
        "Held": [{"cnt": s["n"], "total": s["n"]} for s in sales],
    }
    rows["Sale#keepall"] = rows["Held"]
    rows["Shops(total > 1)"] = rows["Shops where total > 1"] = rows["Shops"][:1]
    names = {"Held": ("n", "n"), "Sale#keepall": ("n", "n")}.get(source, ("cnt", "total"))
    columns = {names[0]: "cnt", f"{names[1]} + 0": "total"}
    comparisons = {
        "{0} in ({1})": lambda value, several: value in several,
        "{0} not in ({1})": lambda value, several: value not in several,
        "{0} > any ({1})": lambda value, several: any(value > other for other in several),
        "{0} <= all ({1})": lambda value, several: all(value <= other for other in several),
    }
    shown, expected = [], []
    for operand, value in operands.items():
        for column, name in columns.items():
            for text, compare in comparisons.items():
                shown.append(text.format(operand, f"select {column} from {source}"))
                expected.append(None if value is None else compare(value, [row[name] for row in rows[source]]))
    runtime = Runtime()
    runtime.deploy(
        "create schema Sale(shop string, n int); create schema Ask(shop string, n int);"
        "create table Shops(shop string primary key, cnt count(*), total sum(int));"
        "create table One(cnt count(*), total sum(int)); create window Held#keepall as Sale;"
        "into table Shops select count(*) as cnt, sum(n) as total from Sale group by shop;"
        "into table One select count(*) as cnt, sum(n) as total from Sale; insert into Held select * from Sale;"
        f"@name('s') select {', '.join(f'{e} as c{n}' for n, e in enumerate(shown))} from Ask"
    )
    deltas: list[Any] = []
    runtime.statement("s").add_listener(deltas.append)
    for sale in sales:
        runtime.send("Sale", sale)
    runtime.send("Ask", {"shop": "a", "n": 2})
    (row,) = deltas[-1].insert
    assert [(e, row[f"c{n}"]) for n, e in enumerate(shown)] == list(zip(shown, expected, strict=True))
