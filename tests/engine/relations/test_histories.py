"""Random modules of a store, on-triggers, subqueries and queries against lists that are looked through.

Each runs four times: event by event, saved and loaded in the middle, with indexes that other readers want, and as a
replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from cepbook.engine.delivery.delta import Delta
from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from tests.engine.relations.naive import (
    CONDITIONS,
    SUBQUERIES,
    TRIGGERS,
    ByKey,
    Condition,
    Keepall,
    Last,
    Row,
    Trigger,
    Unique,
    event,
)
from tests.random_cases import part, several

SCHEMA = "".join(f"create schema {name}(k string, x int, i int);" for name in "ABC")
TABLE = """
create table W(k string primary key, x int, i int);
on A(k is not null) as e merge W as w where w.k = e.k
    when not matched then insert select k, x, i when matched then update set x = e.x, i = e.i;
"""
MANY = several(30)
LENGTH = 50


@dataclass(frozen=True)
class Module:
    """What was drawn: a kind of store, triggers, and for events ``C`` subqueries, each with its condition; joins.

    `passing` are those of an event that passes by, `joins` those of the last two events ``C``.
    """

    store: type[Keepall]
    triggers: tuple[tuple[Trigger, Condition], ...]
    subqueries: tuple[tuple[str, Callable[[list[Row], Row], Any], Condition | None, str], ...]
    passing: tuple[Condition, ...]
    joins: tuple[Condition, ...]

    @property
    def text(self) -> str:
        lines = [SCHEMA]
        if self.store is ByKey:
            lines.append(TABLE)
        else:
            lines.append(f"create window W#{self.store.window} as A; insert into W select * from A;")
        for number, (trigger, condition) in enumerate(self.triggers):
            text = trigger.text.format(store="W", c=condition.text)
            if self.skips_null(trigger):
                text = text.replace("on B as e", "on B(k is not null) as e")
            lines.append(f"@name('t{number}') {text};")
        for number, (text, _, condition, over) in enumerate(self.subqueries):
            where = "" if condition is None else f" where {condition.text}"
            lines.append(
                f"@name('q{number}') select e.i as i, {text.format(store=over, where=where)} as v from C as e;"
            )
        for number, condition in enumerate(self.passing):
            lines.append(f"@name('p{number}') select e.i as j, w.i as i from C as e unidirectional, W as w")
            lines.append(f"where {condition.text};")
        for number, condition in enumerate(self.joins):
            lines.append(
                f"@name('j{number}') select irstream w.i as i, w.x as x, e.i as j from W as w, C#length(2) as e"
            )
            lines.append(f"where {condition.text};")
        return "\n".join(lines)

    def skips_null(self, trigger: Trigger) -> bool:
        """Whether events without a key do not set it off: what a table would insert has a key."""
        return self.store is ByKey and "merge" in trigger.text


def drawn(draw: Random) -> Module:
    store = draw.choice([Keepall, Last, Unique, ByKey, ByKey])
    of_store = [t for t in TRIGGERS if store is not ByKey or "select and delete" not in t.text]
    keyed = [c for c in CONDITIONS if store is not ByKey or c.text == "w.k = e.k"]
    triggers = []
    for trigger in draw.sample(of_store, draw.choice([1, 1, 2])):
        merges = "merge" in trigger.text  # what is inserted must not have the key of another row
        triggers.append((trigger, draw.choice(keyed if merges else CONDITIONS)))
    subqueries = []
    for _ in range(draw.choice([1, 2, 3])):
        text, give = draw.choice(SUBQUERIES)
        condition = draw.choice([None, *CONDITIONS])
        subqueries.append((text, give, condition, draw.choice(["W", "W", "W", "A#length(3)", "A#keepall"])))
    passing = tuple(draw.choice(CONDITIONS) for _ in range(draw.choice([0, 1])))
    joins = tuple(draw.choice(CONDITIONS) for _ in range(draw.choice([0, 1, 2]) if store is Keepall else 0))
    return Module(store, tuple(triggers), tuple(subqueries), passing, joins)


class Naive:
    """The module, run by hand."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.store = module.store()
        self.last: list[Row] = []
        self.windows: dict[str, Keepall] = {"A#keepall": Keepall(), "A#length(3)": Keepall()}

    def send(self, of: str, e: Row) -> dict[str, list[Row]]:
        """What the statements deliver; what leaves a join is marked."""
        found: dict[str, list[Row]] = {}
        before = self.pairs()
        if of == "A":
            self.store.insert(dict(e))
            before = self._moved(before, found)
            for window in self.windows.values():
                window.rows.append(dict(e))
            del self.windows["A#length(3)"].rows[:-3]
        if of == "B":
            for number, (trigger, condition) in enumerate(self.module.triggers):
                if e["k"] is None and self.module.skips_null(trigger):
                    continue
                rows = [row for row in self.store.rows if condition.test(row, e)]
                selected = trigger.act(self.store, rows, e)
                if selected:
                    found[f"t{number}"] = selected
                before = self._moved(before, found)
        if of == "C":
            for number, (_, give, condition, over) in enumerate(self.module.subqueries):
                rows = self.store.rows if over == "W" else self.windows[over].rows
                if condition is not None:
                    test = condition.of_subquery or condition.test
                    rows = [row for row in rows if test(row, e)]
                found[f"q{number}"] = [{"i": e["i"], "v": give(rows, e)}]
            for number, condition in enumerate(self.module.passing):
                pairs = [{"j": e["i"], "i": row["i"]} for row in self.store.rows if condition.test(row, e)]
                if pairs:
                    found[f"p{number}"] = pairs
            self.last = [*self.last[-1:], e]
            self._moved(before, found)
        return found

    def pairs(self) -> list[dict[tuple[int, int], tuple[Row, Row]]]:
        """Of each join what goes together, by identity."""
        return [
            {(id(w), e["i"]): (w, e) for w in self.store.rows for e in self.last if condition.test(w, e)}
            for condition in self.module.joins
        ]

    def _moved(self, before: list[Any], found: dict[str, list[Row]]) -> list[Any]:
        """Note what entered and left joins since `before`; what there is now."""
        after = self.pairs()
        for number, (one, two) in enumerate(zip(before, after, strict=True)):
            rows = [(two[key], {}) for key in two.keys() - one.keys()]
            rows += [(one[key], {"gone": True}) for key in one.keys() - two.keys()]
            if rows:
                made = [{"i": w["i"], "x": w["x"], "j": e["i"], **mark} for (w, e), mark in rows]
                found.setdefault(f"j{number}", []).extend(made)
        return after

    def query(self, text: str) -> list[Row]:
        """The answer to a query of `QUERIES`."""
        return [{"i": row["i"]} for row in self.store.rows if QUERIES[text](row)]


QUERIES: dict[str, Callable[[Row], bool]] = {
    "select i from W": lambda w: True,
    "select i from W where k = 'a'": lambda w: w["k"] == "a",
    "select i from W where k = 'a' and x = 1": lambda w: w["k"] == "a" and w["x"] == 1,
    "select i from W where x in (1, 2)": lambda w: w["x"] in (1, 2),
    "select i from W where x > 1": lambda w: w["x"] is not None and w["x"] > 1,
}


def shown(rows: Any) -> list[str]:
    return sorted(map(repr, rows or ()))


def told(runtime: Runtime, module: Module, got: dict[str, list[Row]]) -> None:
    """Listen to the statements of which the rows are known."""
    names = [f"q{number}" for number in range(len(module.subqueries))]
    names += [f"p{number}" for number in range(len(module.passing))]
    names += [f"j{number}" for number in range(len(module.joins))]
    names += [f"t{n}" for n, (t, _) in enumerate(module.triggers) if "select" in t.text and "merge" not in t.text]

    def listening(name: str) -> Callable[[Delta], None]:
        def listen(delta: Delta) -> None:
            rows = [*(delta.insert or ()), *({**row, "gone": True} for row in delta.remove or () if name[0] == "j")]
            got.setdefault(name, []).extend(rows)

        return listen

    for name in names:
        runtime.statement(name).add_listener(listening(name))


def history(seed: int) -> list[tuple[str, Row]]:
    draw = Random(seed + 1_000_000)
    return [event(draw, number) for number in range(LENGTH)]


@pytest.mark.histories
@pytest.mark.parametrize("seed", part(range(MANY)))
def test_stores_against_lists(seed: int) -> None:
    draw = Random(seed)
    module = drawn(draw)
    naive, runtime, got = Naive(module), Runtime(), dict[str, list[Row]]()
    runtime.deploy(module.text)
    if draw.random() < 0.3:  # others want indexes, too
        runtime.deploy("create index I on W(k, x); @name('x') on C as e select w.x from W as w where w.x > e.x")
    told(runtime, module, got)
    cut = draw.randrange(LENGTH)
    for number, (of, e) in enumerate(history(seed)):
        runtime.send(of, dict(e))
        wanted = naive.send(of, e)
        where = f"{module.text}\nstep {number}: {of} {e}"
        assert {name: shown(rows) for name, rows in got.items()} == {n: shown(rows) for n, rows in wanted.items()}, (
            where
        )
        got.clear()
        text = draw.choice(list(QUERIES))
        assert shown(runtime.query(text)) == shown(naive.query(text)), f"{where}\n{text}"
        if number == cut:
            runtime = Runtime.restored(runtime.snapshot(), {})
            told(runtime, module, got)


@pytest.mark.histories
@pytest.mark.parametrize("seed", part(range(0, MANY, 3)))
def test_a_replay_gives_what_sending_gives(seed: int) -> None:
    module, events = drawn(Random(seed)), history(seed)
    naive, runtime, got = Naive(module), Runtime(), dict[str, list[Row]]()
    runtime.deploy(module.text)
    told(runtime, module, got)
    batch = runtime.batch(["A", "B", "C"])
    begin, draw = 0, Random(seed)
    while begin < LENGTH:
        end = begin + draw.choice([1, 5, 20])
        part = list(enumerate(events))[begin:end]
        slices = []
        for of in "ABC":
            own = [(rank, e) for rank, (each, e) in part if each == of]
            columns = {name: [e[name] for _, e in own] for name in batch.columns[of]}
            slices.append(ColumnBatch(of, [rank for rank, _ in own], columns, [rank for rank, _ in own]))
        batch.run(slices)
        begin = end
    wanted: dict[str, list[Row]] = {}
    for of, e in events:
        for name, rows in naive.send(of, e).items():
            wanted.setdefault(name, []).extend(rows)
    assert {name: shown(rows) for name, rows in got.items()} == {name: shown(rows) for name, rows in wanted.items()}


def test_the_reference_knows_null() -> None:
    by_text = {condition.text: condition for condition in CONDITIONS}
    row, e = {"k": None, "x": 1, "i": 0}, {"k": None, "x": None, "i": 1}
    assert not by_text["w.k = e.k"].test(row, e) and by_text["w.k is e.k"].test(row, e)
    assert not by_text["w.x < e.x"].test(row, e)
