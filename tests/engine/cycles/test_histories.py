"""Random running queries over random histories, against naive ones: the same lots, rows in the same order.

Sent, cut and saved and loaded at random places, and without listeners in between: all the same.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.syntax.source_text import SourceText
from tests.engine.cycles.naive import Query, same
from tests.random_cases import part, several

pytestmark = pytest.mark.histories

HISTORIES = several(50)
AGGREGATES = "avg count geomean kurtosis max median min skewness stddev sum sumsq variance".split()


def window(draw: random.Random, columns: list[str], fill: bool) -> tuple[str, dict[str, Any]]:
    kind = draw.choice(["sliding", "time", "max", "tumbling", "random", "highest", "lowest", "group"])
    n = draw.randint(1, 4)
    numbers = [c for c in columns if c != "k"]
    if kind == "sliding":
        return f"last {n}", {"kind": "sliding", "n": n, "fill": fill}
    if kind == "time":
        return f"last {n * 5} milliseconds", {"kind": "time", "n": n * 5}
    if kind == "max":
        return f"last {n * 5} milliseconds max 2", {"kind": "time", "n": n * 5, "max": 2}
    if kind == "tumbling":
        return f"latest {n}", {"kind": "tumbling", "n": n}
    if kind == "random":
        return f"random {n}", {"kind": "random", "n": n, "fill": fill}
    by = draw.choice(numbers)
    word = "highest" if kind == "group" else kind
    made = {"kind": word, "n": n, "by": by}
    if kind == "group":
        return f"highest {n} using {by} with update group {columns[0]}", {**made, "group": (columns[0],)}
    return f"{word} {n} using {by}", made


def stage(draw: random.Random, columns: list[str], first: bool, fill: bool) -> tuple[str, dict[str, Any], list[str]]:
    keys = ["k"] if "k" in columns and draw.random() < 0.5 else []
    text, spec = window(draw, columns, fill)
    parts = [f"partition by {', '.join(keys)}" if keys else "partition", "store", text]
    aggregates: list[tuple[str, str, str, bool]] = []
    pinned = False
    output = columns
    numbers = [c for c in columns if c != "k"]
    if draw.random() < 0.4:
        pinned = draw.random() < 0.4
        for number in range(draw.randint(1, 3)):
            name = draw.choice(AGGREGATES)
            aggregates.append((name, draw.choice(numbers), f"a{number}", draw.random() < 0.25))
        shown = [f"{n}({c}){' entrance only' if e else ''} as {a}" for n, c, a, e in aggregates]
        parts.append(f"with {'pinned ' if pinned else ''}{', '.join(shown)}")
        output = [*keys, *(a for _, _, a, _ in aggregates)]
    takes, where = None, lambda row: True
    column, least = draw.choice(numbers), draw.randint(0, 3)
    tested = draw.random() < 0.4
    if tested:
        where = lambda row: row[column] is not None and row[column] > least  # noqa: E731
    if first and tested:
        parts.append(f"where {column} > {least}")
    if not first:
        takes = draw.choice(["new", "new", "dead"])
        parts.append(f"where $row_status is {takes}" + (f" and {column} > {least}" if tested else ""))
    made = {"keys": keys, "window": spec, "pinned": pinned, "aggregates": aggregates, "takes": takes, "where": where}
    return f"({' '.join(parts)})", made, output


def drawn(draw: random.Random) -> tuple[SourceText, Query]:
    fill, columns = draw.random() < 0.4, ["id", "k", "v"]
    texts, specs = [], []
    for place in range(draw.choice([1, 1, 2, 3])):
        text, spec, columns = stage(draw, columns, place == 0, fill)
        texts.append(text)
        specs.append(spec)
    status = draw.choice(["new", "dead", "not dead", ""])
    where = f" where w.$row_status is {status}" if status else ""
    weight = draw.choice([1.0, 1.0, 0.5, 0.34])
    every = draw.choice([None, None, None, 3])
    settings: dict[str, Any] = {"name": "q", "weights": {"s": weight}, "seed": draw.randint(0, 9)}
    settings["sliding"] = "fill" if fill else "one"
    if every is not None:
        settings["schedule"] = {"policy": "fixed", "every_ms": every}
    query = f"select * from s {' to '.join(texts)} as w{where}"
    return SourceText(query, "streamcruncher", settings), Query(specs, status, settings["seed"], weight, every)


def history(draw: random.Random) -> list[Any]:
    """Numbers are advances of the clock, lists events that arrive together."""
    steps: list[Any] = []
    for number in range(draw.randint(1, 25)):
        if draw.random() < 0.35:
            steps.append(draw.randint(1, 9))
            continue
        many = draw.choice([1, 1, 1, 2, 4])
        steps.append(
            [
                {"id": number * 10 + i, "k": draw.choice("ab"), "v": draw.choice([None, *map(float, range(6))])}
                for i in range(many)
            ]
        )
    return steps


def lots_of(text: SourceText, steps: list[Any], cuts: random.Random | None) -> list[list[Any]]:
    runtime = Runtime()
    runtime.deploy("create schema s(id long, k string, v double)")
    runtime.deploy(text)
    found: list[list[Any]] = []
    runtime.statement("q").add_listener(lambda delta: found.append(list(delta.insert or ())))
    for step in steps:
        if cuts is not None and cuts.random() < 0.4:
            runtime = Runtime.restored(runtime.snapshot(), {})
            runtime.statement("q").add_listener(lambda delta: found.append(list(delta.insert or ())))
        if isinstance(step, int):
            runtime.advance(runtime.now + step)
        else:
            runtime.send_together(("s", dict(event)) for event in step)
    return found


def check(seed: int) -> None:
    draw = random.Random(seed)
    text, naive = drawn(draw)
    steps = history(draw)
    for step in steps:
        if isinstance(step, int):
            naive.advance(naive.now + step)
        else:
            naive.together(step)
    for cuts in (None, draw):
        found = lots_of(text, steps, cuts)
        assert len(found) == len(naive.lots), (seed, str(text), text.settings, steps, found, naive.lots)
        for lot, wanted in zip(found, naive.lots, strict=True):
            assert len(lot) == len(wanted), (seed, str(text), text.settings, lot, wanted)
            assert all(map(same, lot, wanted)), (seed, str(text), text.settings, lot, wanted)


@pytest.mark.parametrize("seed", range(60))
def test_few_histories(seed: int) -> None:
    check(seed)


@pytest.mark.histories
def test_many_histories() -> None:
    for seed in part(range(1000, 1000 + HISTORIES)):
        check(seed)
