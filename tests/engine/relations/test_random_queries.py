"""Fire-and-forget queries, on-select and subqueries with random clauses, against lists of rows."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from tests.engine.joins import test_histories as joins
from tests.engine.relations.random_queries import Event, Query, Rows, Terms, compared
from tests.random_cases import seeds

pytestmark = pytest.mark.histories

SCHEMA = "".join(f"create schema {name}(k string, x int, i int);" for name in "EFG")
INDEXES = ("", "", "create index I on A(k);", "create index I on A(x btree);", "create index I on A(k, x);")


def event(draw: Random, number: int) -> Event:
    return {"k": draw.choice(("a", "b", None)), "x": draw.choice((None, 0, 1, 2)), "i": number}


def joined(draw: Random, stores: dict[str, list[Event]]) -> tuple[str, list[str], Rows, list[str]]:
    """A from-clause over some of the stores, its aliases and rows, and the conditions of its where-clause."""
    if draw.random() < 0.4:
        store = draw.choice("ABC")
        return f"{store} as s0", ["s0"], [(e,) for e in stores[store]], []
    join = joins.drawn(draw)
    while len(join.types) > 3 or join.is_refused:
        join = joins.drawn(draw)
    join = replace(join, windows=("keepall",) * len(join.types), unidirectional=None)
    contents = [stores[of] for of in join.types]
    source, _, where = join.text.partition(" from ")[2].replace("#keepall", "").partition(" where ")
    rows = join.rows(contents, contents)
    return source, [f"s{n}" for n in range(len(join.types))], rows, [where] if where else []


@pytest.mark.parametrize("seed", seeds(40))
def test_fire_and_forget(seed: int) -> None:
    """Over two named windows and a table, joined in all ways."""
    draw, runtime = Random(seed), Runtime()
    stores: dict[str, list[Event]] = {"A": [], "B": [], "C": []}
    table = "create table B(i int primary key, k string, x int);"
    runtime.deploy(f"{SCHEMA}create window A#keepall as E;{table}create window C#length(4) as E;{draw.choice(INDEXES)}")
    for number in range(draw.choice((6, 9))):
        name, row = draw.choice("ABC"), event(draw, number)
        k, x = ("null" if value is None else repr(value) for value in (row["k"], row["x"]))
        runtime.query(f"insert into {name}(k, x, i) values ({k}, {x}, {number})")
        stores[name] = [*stores[name], row][-4 if name == "C" else 0 :]
    for _ in range(8):
        source, aliases, rows, where = joined(draw, stores)
        terms = Terms(draw, aliases, {name: lambda name=name: stores[name] for name in stores})
        if draw.random() < 0.6:
            condition = terms.condition()
            where.append(condition.text)
            rows = [row for row in rows if condition.of(row) is True]
        query = Query(draw, terms)
        tests = f" where {' and '.join(f'({text})' for text in where)}" if where else ""
        text = f"select {query.columns} from {source}{tests}{query.clauses}"
        query.check(runtime.query(text), rows, text)


@pytest.mark.parametrize("seed", seeds(60))
def test_on_select(seed: int) -> None:
    """Over a named window or a table, which the statement may empty."""
    draw, runtime, now = Random(seed), Runtime(), 0
    window = draw.choice(("#keepall", "#length(4)", "#time(2 sec)", ""))
    stored: list[Event] = []
    others: list[Event] = []
    terms = Terms(draw, ["w", "e"], {"V": lambda: others})
    ties = [(f"w.{name} {op} e.{name}", name, op) for name, op in (("k", "="), ("x", ">="), ("x", "="))]
    tie = draw.choice((None, *ties))
    condition = terms.condition()
    query, deletes = Query(draw, terms), draw.random() < 0.4
    tests = f" where {'' if tie is None else f'{tie[0]} and '}({condition.text})"
    text = f"on F as e select {'and delete ' * deletes}{query.columns} from A as w{tests}{query.clauses}"
    create = f"create window A{window} as E;" if window else "create table A(i int primary key, k string, x int);"
    runtime.deploy(f"{SCHEMA}{create}create window V#keepall as G; insert into V select * from G;")
    runtime.deploy(f"insert into A select * from E;{draw.choice(INDEXES)}@name('q') {text}")
    found: list[Any] = []
    runtime.statement("q").add_listener(lambda delta: found.extend(delta.insert))
    for number in range(25):
        now += draw.choice((0, 0, 300, 1000))
        runtime.advance(now)
        of, row = draw.choice("EEEFFG"), event(draw, number)
        runtime.send(of, dict(row))
        stored = [e for e in stored if not window.startswith("#time") or e["t"] + 2000 > now]
        if of == "E":
            stored = [*stored, {**row, "t": now}][-4 if window == "#length(4)" else 0 :]
        elif of == "G":
            others.append(row)
        else:
            pairs: Rows = [(e, row) for e in stored if tie is None or compared(tie[2], e[tie[1]], row[tie[1]]) is True]
            pairs = [pair for pair in pairs if condition.of(pair) is True]
            query.check(found, pairs, text)
            found.clear()
            stored = [e for e in stored if not deletes or all(e is not pair[0] for pair in pairs)]
        assert sorted(e["i"] for e in runtime.query("select i from A")) == sorted(e["i"] for e in stored), text


WINDOWS = ("length(3)", "time(2 sec)", "keepall", "unique(k)", "lastevent", "firstunique(k)", "firstlength(2)")


class Window:
    def __init__(self, text: str) -> None:
        self.text = text
        self.events: list[Event] = []

    def change(self, now: int, entering: Event | None) -> None:
        known_keys = [e["k"] for e in self.events]
        if entering is not None and self.text == "unique(k)":
            self.events = [e for e in self.events if e["k"] != entering["k"]]
        if entering is not None and not (self.text == "firstunique(k)" and entering["k"] in known_keys):
            self.events = [*self.events, {**entering, "t": now}]
        if self.text == "firstlength(2)":
            self.events = self.events[:2]
        size = {"length(3)": 3, "lastevent": 1}.get(self.text, 0)
        self.events = [e for e in self.events[-size:] if self.text != "time(2 sec)" or e["t"] + 2000 > now]


@pytest.mark.parametrize("seed", seeds(60))
def test_subqueries_over_windows(seed: int) -> None:
    """Of other streams, of the statement's own, and of a named window."""
    draw, runtime, now = Random(seed), Runtime(), 0
    windows = {of: Window(draw.choice(WINDOWS)) for of in "EFG"}
    windows["G"] = Window(draw.choice(("keepall", "length(3)", "unique(k)")))
    names = {f"{of}#{windows[of].text}": windows[of] for of in "EF"} | {"N": windows["G"]}
    terms = Terms(draw, ["a"], {name: lambda window=window: window.events for name, window in names.items()})
    columns, condition = [terms.answer(), terms.asked(), terms.answer()], terms.condition()
    listed = ", ".join(f"{term.text} as c{n}" for n, term in enumerate(columns))
    text = f"select a.i as i, {listed} from E as a where {condition.text}"
    runtime.deploy(f"{SCHEMA}create window N#{windows['G'].text} as G; insert into N select * from G;")
    runtime.deploy(f"@name('s') {text}")
    found: list[Any] = []
    runtime.statement("s").add_listener(lambda delta: found.extend(delta.insert))
    for number in range(30):
        now += draw.choice((0, 0, 300, 1000, 2500))
        runtime.advance(now)
        of, row = draw.choice("EEEFFG"), event(draw, number)
        for name, window in windows.items():
            window.change(now, row if name == of else None)
        runtime.send(of, dict(row))
        passes = of == "E" and condition.of((row,)) is True
        made = [(number, *(term.of((row,)) for term in columns))] if passes else []
        assert [tuple(r.values()) for r in found] == made, f"{text}\n{number}: {of} {row}"
        found.clear()
