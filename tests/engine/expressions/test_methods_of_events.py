"""Methods of collections of events, wherever these come from, against plain Python on random histories with nulls."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.registry.methods import METHODS as ROWS

pytestmark = pytest.mark.histories

Events = list[dict[str, Any]]
SCHEMA = "create schema E(n int, v int, g string); create schema P(es E[]);"
COUNT = 5
ROUNDS = 120


def above(e: dict[str, Any], least: int = 1) -> bool | None:
    return None if e["v"] is None else e["v"] > least


def leading(es: Events) -> Events:
    return es[: next((i for i, e in enumerate(es) if above(e) is False), len(es))]


def known(es: Events) -> list[int]:
    return [e["v"] for e in es if e["v"] is not None]


def first_of(es: Events, best: Callable[[list[int]], int]) -> Any:
    return next((e for e in es if known(es) and e["v"] == best(known(es))), None)


def by_value(es: Events, *, reverse: bool = False) -> Events:
    return sorted(es, key=lambda e: (e["v"] is not None, e["v"] or 0), reverse=reverse)


def once(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def frequent(values: list[Any], best: Callable[..., Any]) -> Any:
    return best(once(values), key=values.count)


def groups(es: Events) -> dict[Any, Events]:
    return {g: [e for e in es if e["g"] == g] for g in once([e["g"] for e in es])}


METHODS: dict[str, Callable[[Events], Any]] = {
    "aggregate(10, (r, x) => r + x.n)": lambda es: 10 + sum(e["n"] for e in es),
    "aggregate('', (r, x, j) => r || x.g || cast(j, string))": lambda es: "".join(
        f"{e['g']}{j}" for j, e in enumerate(es)
    ),
    "aggregate(0, (r, x, j, s) => r + x.n * s - j)": lambda es: sum(e["n"] * len(es) - j for j, e in enumerate(es)),
    "allOf(x => x.v > 1)": lambda es: all(above(e) for e in es),
    "allOf((x, j) => x.n > j)": lambda es: all(e["n"] > j for j, e in enumerate(es)),
    "allOf((x, j, s) => x.n < s)": lambda es: all(e["n"] < len(es) for e in es),
    "anyOf(x => x.v > 1)": lambda es: any(above(e) for e in es),
    "anyOf((x, j) => x.v = j)": lambda es: any(e["v"] == j for j, e in enumerate(es)),
    "anyOf((x, j, s) => x.v = s - j)": lambda es: any(e["v"] == len(es) - j for j, e in enumerate(es)),
    "arrayOf(x => x.v)": lambda es: [e["v"] for e in es],
    "arrayOf((x, j) => x.n + j)": lambda es: [e["n"] + j for j, e in enumerate(es)],
    "arrayOf((x, j, s) => x.n + j * s)": lambda es: [e["n"] + j * len(es) for j, e in enumerate(es)],
    "average(x => x.v)": lambda es: sum(known(es)) / len(known(es)) if known(es) else None,
    "average((x, j, s) => x.n + j + s)": lambda es: sum(e["n"] + j + len(es) for j, e in enumerate(es)) / len(es),
    "countOf()": len,
    "countOf(x => x.v > 1)": lambda es: sum(above(e) is not False for e in es),
    "countOf((x, j) => x.n > j)": lambda es: sum(e["n"] > j for j, e in enumerate(es)),
    "distinctOf(x => x.v)": lambda es: [next(e for e in es if e["v"] == v) for v in once([e["v"] for e in es])],
    "distinctOf((x, j) => j % 2)": lambda es: es[:2],
    "firstOf()": lambda es: es[0],
    "firstOf(x => x.v > 1).n": lambda es: next((e["n"] for e in es if above(e) is not False), None),
    "firstOf((x, j) => j > 1)": lambda es: es[2],
    "groupBy(x => x.g)": groups,
    "groupBy(x => x.g, x => x.n)": lambda es: {g: [e["n"] for e in some] for g, some in groups(es).items()},
    "groupBy((x, j) => j % 2, (x, j) => x.n + j)": lambda es: {
        k: [e["n"] + j for j, e in enumerate(es) if j % 2 == k] for k in (0, 1)
    },
    "lastOf()": lambda es: es[-1],
    "lastOf(x => x.v > 1).n": lambda es: next((e["n"] for e in reversed(es) if above(e) is not False), None),
    "lastOf((x, j, s) => j < s - 1)": lambda es: es[-2],
    "leastFrequent(x => x.g)": lambda es: frequent([e["g"] for e in es], min),
    "mostFrequent(x => x.v)": lambda es: frequent([e["v"] for e in es], max),
    "mostFrequent((x, j) => x.n - j)": lambda es: frequent([e["n"] - j for j, e in enumerate(es)], max),
    "max(x => x.v)": lambda es: max(known(es), default=None),
    "min(x => x.v)": lambda es: min(known(es), default=None),
    "min((x, j) => x.n - 2 * j)": lambda es: min(e["n"] - 2 * j for j, e in enumerate(es)),
    "maxBy(x => x.v)": lambda es: first_of(es, max),
    "minBy(x => x.v)": lambda es: first_of(es, min),
    "orderBy(x => x.v)": by_value,
    "orderByDesc(x => x.v)": lambda es: by_value(es, reverse=True),
    "orderBy((x, j) => 0 - j)": lambda es: es[::-1],
    "reverse()": lambda es: es[::-1],
    "selectFrom(x => x.v)": known,
    "selectFrom(x => new {v2 = x.n * 2, g = x.g})": lambda es: [{"v2": e["n"] * 2, "g": e["g"]} for e in es],
    "selectFrom((x, j, s) => x.n * j + s)": lambda es: [e["n"] * j + len(es) for j, e in enumerate(es)],
    "sumOf(x => x.v)": lambda es: sum(known(es)) if known(es) else None,
    "sumOf((x, j) => x.n * j)": lambda es: sum(e["n"] * j for j, e in enumerate(es)),
    "take(2)": lambda es: es[:2],
    "takeLast(3)": lambda es: es[-3:],
    "takeWhile(x => x.v > 1)": leading,
    "takeWhile((x, j) => j < 2)": lambda es: es[:2],
    "takeWhileLast(x => x.v > 1)": lambda es: leading(es[::-1])[::-1],
    "takeWhileLast((x, j, s) => j < s - 1)": lambda es: es[1:],
    "toMap(x => x.n, x => x.v)": lambda es: {e["n"]: e["v"] for e in es},
    "toMap((x, j) => j, (x, j, s) => x.n + s)": lambda es: {j: e["n"] + len(es) for j, e in enumerate(es)},
    "where(x => x.v > 1)": lambda es: [e for e in es if above(e) is not False],
    "where((x, j) => j != 1)": lambda es: [e for j, e in enumerate(es) if j != 1],
    "where((x, j, s) => j > s - 3)": lambda es: es[-2:],
    # chained and nested
    "where(x => x.v is not null).orderByDesc(x => x.v).take(2).selectFrom(x => x.n)": lambda es: [
        e["n"] for e in by_value([e for e in es if e["v"] is not None], reverse=True)[:2]
    ],
    "selectFrom(x => x.v).where(y => y > 1).sumOf()": lambda es: (
        sum(v for v in known(es) if v > 1) if any(v > 1 for v in known(es)) else None
    ),
    "reverse().takeWhile(x => x.v > 1).countOf()": lambda es: len(leading(es[::-1])),
    "selectFrom(x => x.n).union({99}).except({0, 1}).intersect({2, 3, 99})": lambda es: [
        n for n in [*(e["n"] for e in es), 99] if n in (2, 3, 99)
    ],
    "selectFrom(x => x.n).sequenceEqual({0, 1, 2, 3, 4})": lambda es: [e["n"] for e in es] == [0, 1, 2, 3, 4],
    "where(x => {1, 2, 3}.anyOf(y => y = x.v)).countOf()": lambda es: sum(e["v"] in (1, 2, 3) for e in es),
}
# from events in order to the statement; whether the newest comes first; and whether a P asks
SOURCES: dict[str, tuple[str, str, bool, bool]] = {
    "column": ("es", "from P", False, True),
    "window": ("window(e.*)", f"from E#length({COUNT}) as e", False, False),
    "keepall, grouped": ("window(*)", f"from E#length({COUNT}) group by 1 + 0", False, False),
    "sorted": ("sorted(n)", f"from E#length({COUNT})", False, False),
    "prevwindow": ("prevwindow(e)", f"from E#length({COUNT}) as e", True, False),
    "subquery": (f"(select * from E#length({COUNT}))", "from P", False, True),
    "named window": ("(select * from W)", "from P", False, True),
    "tags": ("e", f"from pattern [every [{COUNT}] e=E]", False, False),
    "until": ("e", "from pattern [every (e=E until P)]", False, True),
    "match": ("A", "match_recognize", False, False),
}


@pytest.mark.parametrize("source", SOURCES)
def test_methods_are_those_of_python(source: str) -> None:
    collection, clause, newest_first, asked = SOURCES[source]
    draw, runtime, rows = Random(source), Runtime(), list[Any]()
    columns = ", ".join(f"{collection}.{method} as c{number}" for number, method in enumerate(METHODS))
    select = f"select {columns} {clause}"
    if source == "match":
        select = f"select * from E match_recognize (measures {columns} pattern (A{{{COUNT}}}))"
    runtime.deploy(f"{SCHEMA} create window W#length({COUNT}) as E; insert into W select * from E;"
                   f"@name('s') {select}")  # fmt: skip
    runtime.statement("s").add_listener(lambda delta: rows.extend(delta.insert or ()))
    for _ in range(ROUNDS):
        numbers = [*range(COUNT)]
        events: Events = [
            {"n": n, "v": draw.choice((None, 0, 1, 2, 3)), "g": draw.choice("ab")}  # values twice, and null
            for n in numbers
        ]
        rows.clear()
        for event in events:
            runtime.send("E", dict(event))
        if asked:
            runtime.send("P", {"es": [dict(event) for event in events]})
        expected = events[::-1] if newest_first else events
        for (method, reference), found in zip(METHODS.items(), rows[-1].values(), strict=True):
            wanted = reference(expected)
            same = math.isclose(found, wanted) if isinstance(wanted, float) else found == wanted
            assert same, f"{collection}.{method} of {expected}: {found}, not {wanted}"


def test_all_methods_are_tried() -> None:
    tried = " ".join(METHODS)
    names = [row.short for row in ROWS.values() if row.name.startswith("array.")]
    assert len(names) > 30
    assert {name for name in names if f"{name}(" not in tried} == {"size", "get"}
