"""Joins and alerts over several streams against naive ones, on random histories; sent, saved and loaded."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.syntax.source_text import SourceText
from tests.engine.cycles.naive import Row, Stage, same
from tests.engine.cycles.several import ALL, NOT_DEAD, Alert, Partition, Pattern, Query
from tests.engine.cycles.test_histories import stage
from tests.random_cases import part, several

STREAMS = ("a", "b", "c")
SCHEMAS = "; ".join(f"create schema {each}(id long, k string, v double)" for each in STREAMS)
CODES = ["a", "c"]
Case = tuple[SourceText, Query, list[Any]]


def partition(
    draw: random.Random, stream: str, coins: itertools.count[int], fill: bool, seed: int
) -> tuple[str, Partition]:
    """A chain that keeps the columns of the events."""
    texts, stages = [], []
    while not texts or (len(texts) < 2 and draw.random() < 0.25):
        text, spec, columns = stage(draw, ["id", "k", "v"], not texts, fill)
        if columns != ["id", "k", "v"]:
            continue
        chance = spec["window"]["kind"] == "random"
        stages.append(Stage(spec, random.Random(seed + next(coins)) if chance else None))
        texts.append(text)
    return f"{stream} {' to '.join(texts)}", Partition(stream, stages, draw.choice([1.0, 1.0, 0.5]))


def settings(
    draw: random.Random, partitions: Sequence[Partition], fill: bool, seed: int
) -> tuple[dict[str, Any], int | None]:
    every = draw.choice([None, None, None, 4])
    weights = {each.stream: each.weight for each in partitions}
    for each in partitions:
        each.weight = weights[each.stream]
    found: dict[str, Any] = {"name": "q", "weights": weights, "seed": seed, "sliding": "fill" if fill else "one"}
    if every is not None:
        found["schedule"] = {"policy": "fixed", "every_ms": every}
    return found, every


def history(draw: random.Random, event: Callable[[str], Row | None]) -> list[Any]:
    """Numbers are advances of the clock, lists events that arrive together."""
    steps: list[Any] = []
    for _ in range(draw.randint(5, 25)):
        if draw.random() < 0.35:
            steps.append(draw.randint(1, 9))
            continue
        streams = [draw.choice(STREAMS) for _ in range(draw.choice([1, 1, 1, 2, 4]))]
        steps.append([(stream, made) for stream in streams if (made := event(stream)) is not None])
    return steps


# ---------------------------------------------------------------- joins
def less(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a < b


def join(seed_of_case: int) -> Case:
    draw = random.Random(seed_of_case)
    fill, seed, coins = draw.random() < 0.4, draw.randint(0, 9), itertools.count()
    texts, partitions, aliases = [], [], []
    for alias, stream in zip("xyz", draw.sample(STREAMS, draw.choice([1, 2, 2])), strict=False):
        text, made = partition(draw, stream, coins, fill, seed)
        texts.append(f"{text} as {alias}")
        partitions.append(made)
        aliases.append((alias, len(partitions) - 1))
    if draw.random() < 0.3 or len(aliases) == 1:
        texts.append("self#x as s")
        aliases.append(("s", 0))
    table = draw.random() < 0.3
    texts += ["codes as t"] if table else []
    statuses = {alias: draw.choice(["new", "new", "dead", NOT_DEAD, ALL]) for alias, _ in aliases}
    conditions = [f"{alias}.$row_status is {status}" for alias, status in statuses.items() if status]
    tests: list[Callable[[dict[str, Row]], bool]] = []
    first, second = aliases[0][0], aliases[1][0]
    if draw.random() < 0.6:
        conditions.append(f"{first}.k = {second}.k")
        tests.append(lambda at: bool(at[first]["k"] == at[second]["k"]))
    if draw.random() < 0.4:
        conditions.append(f"{first}.v < {second}.v")
        tests.append(lambda at: less(at[first]["v"], at[second]["v"]))
    if table:
        conditions.append(f"t.code = {first}.k")
        tests.append(lambda at: at["t"]["code"] == at[first]["k"])
    elif draw.random() < 0.4:
        word = draw.choice(["in", "not in"])
        conditions.append(f"{second}.k {word} (select code from codes)")
        tests.append(lambda at: (at[second]["k"] in CODES) == (word == "in"))
    exists = draw.choice(["", "", "exists", "not exists"])
    if exists:
        inner = f"select u.id from self#x as u where u.$row_status is not dead and u.v > {first}.v"
        conditions.append(f"{exists} ({inner})")
        tests.append(
            lambda at: any(less(at[first]["v"], row["v"]) for row in partitions[0].held) == (exists == "exists")
        )
    extra = draw.choice(["", "", "order", "distinct", "group", "limit"])
    columns = f"{first}.id as p, {second}.id as q, {first}.v as v" + (", t.rank as r" if table else "")
    head = {"distinct": f"distinct {first}.k as p", "group": f"{first}.k as p, count(*) as n, max({second}.v) as m"}
    tail = {"order": " order by v desc, p", "group": f" group by {first}.k", "limit": " limit 2"}
    where = f" where {' and '.join(conditions)}" if conditions else ""
    query = f"select {head.get(extra, columns)} from {', '.join(texts)}{where}{tail.get(extra, '')}"

    def select(parts: Sequence[Partition]) -> list[Row]:
        sides = [parts[number].rows(statuses[alias]) for alias, number in aliases]
        sides += [[{"code": code, "rank": place} for place, code in enumerate(CODES)]] if table else []
        names = [alias for alias, _ in aliases] + ["t"] * table
        found = [dict(zip(names, rows, strict=True)) for rows in itertools.product(*sides)]
        found = [at for at in found if all(test(at) for test in tests)]
        if extra == "group":
            groups: dict[Any, list[Any]] = {}
            for at in found:
                groups.setdefault(at[first]["k"], []).append(at[second]["v"])
            return [
                {"p": key, "n": len(values), "m": max((v for v in values if v is not None), default=None)}
                for key, values in groups.items()
            ]
        if extra == "distinct":
            return [{"p": key} for key in dict.fromkeys(at[first]["k"] for at in found)]
        rows = [{"p": at[first]["id"], "q": at[second]["id"], "v": at[first]["v"]} for at in found]
        for at, row in zip(found, rows, strict=True):
            row.update({"r": at["t"]["rank"]} if table else {})
        if extra == "order":  # null is the lowest
            rows.sort(key=lambda row: (-1e9 if row["v"] is None else row["v"], -row["p"]), reverse=True)
        return rows[:2] if extra == "limit" else rows

    given, every = settings(draw, partitions, fill, seed)
    given["tables"] = {"codes": {"columns": ["code", "rank"], "rows": [[code, n] for n, code in enumerate(CODES)]}}
    numbers = itertools.count()

    def event(stream: str) -> Row:
        return {"id": next(numbers), "k": draw.choice("abc"), "v": draw.choice([None, *map(float, range(5))])}

    return SourceText(query, "streamcruncher", given), Query(partitions, select, every), history(draw, event)


# ---------------------------------------------------------------- alerts
def alert(seed_of_case: int) -> Case:
    draw = random.Random(seed_of_case)
    fill, seed, coins = draw.random() < 0.4, draw.randint(0, 9), itertools.count()
    made = [partition(draw, stream, coins, fill, seed) for stream in STREAMS[: draw.choice([2, 3, 3])]]
    partitions = [each for _, each in made]
    patterns, words = [], []
    for _ in range(draw.choice([1, 1, 2, 3])):
        sides = [draw.choice([1, 1, 0, -1]) for _ in partitions]
        if 1 not in sides:
            sides[draw.randrange(len(sides))] = 1
        wanted, unwanted = ({n for n, side in enumerate(sides) if side == sign} for sign in (1, -1))
        patterns.append(Pattern(wanted, unwanted))
        members = [("not " if side < 0 else "") + STREAMS[n] + "1" for n, side in enumerate(sides) if side]
        words.append(f"present({' and '.join(members)})")
    columns = [(n, name, f"{each.stream}_{name}") for n, each in enumerate(partitions) for name in ("id", "v")]
    shown = ", ".join(f"{STREAMS[n]}1.{name} as {alias}" for n, name, alias in columns)
    using = ", ".join(f"{text} as {each.stream}1 correlate on id" for text, each in made)
    where = draw.random() < 0.3
    query = f"select * from alert {shown} using {using} when {' or '.join(words)}" + (" where a_v > 1" if where else "")
    correlated = Alert(patterns, columns)

    def select(parts: Sequence[Partition]) -> list[Row]:
        rows = correlated.rows(parts)
        return [row for row in rows if not where or less(1, row["a_v"])]

    given, every = settings(draw, partitions, fill, seed)
    naive = Query(partitions, select, every)

    def event(stream: str) -> Row:
        return {"id": draw.randint(0, 2), "k": draw.choice("ab"), "v": draw.choice([None, *map(float, range(5))])}

    return SourceText(query, "streamcruncher", given), naive, history(draw, event)


def without_twins(steps: list[Any], naive: Query) -> list[Any]:
    """The steps without events whose id their partition has, which mean nothing; the naive query is taken through."""
    found: list[Any] = []
    streams = [each.stream for each in naive.partitions]
    for step in steps:
        if isinstance(step, int):
            found.append(step)
            naive.advance(naive.now + step)
            continue
        kept: list[tuple[str, Row]] = []
        for stream, event in step:
            known = [(other, row["id"]) for other, row in kept]
            if stream not in streams or (stream, event["id"]) in known:
                continue
            if not naive.there(streams.index(stream), event["id"]):
                kept.append((stream, event))
        found.append(kept)
        naive.together(kept)
    return found


# ---------------------------------------------------------------- both
def lots_of(text: SourceText, steps: Sequence[Any], cut: int | None) -> list[list[Any]]:
    """The lots; before the step `cut` everything is saved, and goes on in a fresh runtime."""
    runtime = Runtime()
    runtime.deploy(SCHEMAS)
    runtime.deploy(text)
    found: list[list[Any]] = []
    runtime.statement("q").add_listener(lambda delta: found.append(list(delta.insert or ())))
    for number, step in enumerate(steps):
        if number == cut:
            runtime = Runtime.restored(runtime.snapshot(), {})
            runtime.statement("q").add_listener(lambda delta: found.append(list(delta.insert or ())))
        if isinstance(step, int):
            runtime.advance(runtime.now + step)
        else:
            runtime.send_together((stream, dict(event)) for stream, event in step)
    return found


def check(make: Callable[[int], Case], seed: int) -> int:
    text, naive, steps = make(seed)
    steps = without_twins(steps, naive)
    for cut in (None, seed % len(steps)):
        found = lots_of(text, steps, cut)
        assert len(found) == len(naive.lots), (seed, str(text), text.settings, steps, found, naive.lots)
        for lot, wanted in zip(found, naive.lots, strict=True):
            assert len(lot) == len(wanted), (seed, str(text), text.settings, steps, lot, wanted)
            assert all(map(same, lot, wanted)), (seed, str(text), text.settings, steps, lot, wanted)
    return len(naive.lots)


MAKERS = [join, alert]


@pytest.mark.parametrize("make", MAKERS)
def test_few_histories(make: Callable[[int], Case]) -> None:
    assert sum(check(make, seed) for seed in range(6))


@pytest.mark.histories
@pytest.mark.parametrize("make", MAKERS)
def test_many_histories(make: Callable[[int], Case]) -> None:
    assert sum(check(make, seed) for seed in part(range(1000, 1000 + several(20)))) > 2
