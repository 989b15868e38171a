"""Apama's queries against a naive simulation: random queries, networks and histories."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from cepbook.dialects.registry import translate
from cepbook.engine.config import Config
from cepbook.engine.runtime import Runtime
from cepbook.lang.explain.nearest_epl import nearest_epl
from cepbook.lang.syntax.source_text import SourceText
from tests.dialects.apama_reference import Lot, Network, Query, Window, mean
from tests.engine.invariants import invariant_violations
from tests.random_cases import part, seeds, several

pytestmark = pytest.mark.histories

SCHEMA = "create schema A(s string, p double, n long); create schema B(s string, p double, n long);"
EVENT = (
    "event R { float total; integer many; float avg; float lo; float old; float recent; float third; integer kinds; }"
)
SELECT = "sum(x.p), count(), mean(x.p), min(x.p), first(x.p), last(x.p), nth(x.p, 2), countUnique(x.n)"
GAPS = (0, 0, 0, 1, 250, 499, 500, 501, 750, 999, 1000, 1001, 1500, 2000, 3100)


def or_nan(values: list[float], place: int) -> float:
    return values[place] if -len(values) <= place < len(values) else math.nan


def summary(items: list[tuple[Any, ...]], key: Any = None) -> tuple[Any, ...]:
    """What `SELECT` gives."""
    prices = [values[0]["p"] for values in items]
    return (
        sum(prices),
        len(items),
        mean(prices),
        min(prices, default=math.nan),
        or_nan(prices, 0),
        or_nan(prices, -1),
        or_nan(prices, 2),
        len({values[0]["n"] for values in items}),
    )


def random_window(rng: random.Random, item: str, *, unbounded: bool = True) -> tuple[str, Window]:
    """The text of a window, and its reference."""
    kind = rng.randrange(10)
    if kind == 0:
        return "", Lot()
    if kind == 1 and unbounded:
        return "retain all", Window(everything=True)
    text, found = "", Window()
    size, seconds, period = rng.randint(1, 4), rng.choice((0.5, 1.0, 1.5, 3.0)), rng.choice((0.5, 1.0, 2.0))
    if kind < 5:
        found.size = size
        text = f"retain {size}"
        if rng.random() < 0.5:
            found.gate = rng.randint(1, 4)
            text += f" every {found.gate}"
    else:
        found.duration = int(seconds * 1000)
        text = f"within {seconds}"
        if rng.random() < 0.5:
            found.period = int(period * 1000)
            text += f" every {period}"
        if rng.random() < 0.5:
            found.size = size
            text += f" retain {size}"
    if rng.random() < 0.3:
        found.keys = lambda value: value["s"]
        text = f"partition by {item}.s {text}"
    if rng.random() < 0.3:
        found.unique = lambda value: value["n"]
        text += f" with unique {item}.n"
    return text, found


def single(rng: random.Random, source: str, at: Any) -> tuple[str, Query]:
    """A query over one stream, and its reference."""
    text, window = random_window(rng, "x")
    words, query = [f"from x in {source} {text}"], Query([(at, window)], lambda x: (x["p"],))
    if rng.random() < 0.4:
        words.append("where x.p > 2.0")
        query.where = lambda x: x["p"] > 2.0
    kind = rng.randrange(4)
    if kind == 0:
        removable = not isinstance(window, Lot) and not window.everything and rng.random() < 0.6
        query.rstream = removable
        words.append(f"select {'rstream ' if removable else ''}x.p")
        return " ".join(words), query
    query.aggregated, query.rows = True, summary
    if kind > 1:
        words.append("group by x.s")
        query.group = lambda x: x["s"]
    if rng.random() < 0.3:
        words.append("having count() > 1")
        query.having = lambda row: row[1] > 1
    words.append(f"select R({SELECT})")
    return " ".join(words), query


def joined(rng: random.Random, sources: tuple[str, str], at: tuple[Any, Any]) -> tuple[str, Query]:
    """A join, and its reference."""
    (left, p), (right, q) = (random_window(rng, item, unbounded=False) for item in "xy")
    if isinstance(p, Lot) and isinstance(q, Lot):
        left, p = "retain 2", Window(size=2)
    query = Query([(at[0], p), (at[1], q)], lambda x, y: (x["p"] * 10 + y["p"],))
    second = f"from y in {sources[1]} {right}"
    if rng.random() < 0.5:
        second = f"join y in {sources[1]} {right} on x.s equals y.s"
        query.where = lambda x, y: x["s"] == y["s"]
    words = f"from x in {sources[0]} {left} {second}"
    kind = rng.randrange(3)
    if kind == 0:
        return f"{words} select x.p * 10.0 + y.p", query
    if kind == 1 and not (isinstance(p, Lot) or isinstance(q, Lot)):
        query.rstream = True
        return f"{words} select rstream x.p * 10.0 + y.p", query
    query.aggregated, query.rows = True, pairs
    if rng.random() < 0.5:
        words += " group by y.n"
        query.group = lambda x, y: y["n"]
    event = "event J { float total; integer many; float old; float recent; }"
    return f"{event} {words} select J(sum(x.p * y.p), count(), first(y.p), last(x.p * 10.0 + y.p))", query


def pairs(items: list[tuple[Any, ...]], key: Any = None) -> tuple[Any, ...]:
    """What a join with aggregates gives."""
    ends = [y["p"] for _, y in items], [x["p"] * 10 + y["p"] for x, y in items]
    return sum(x["p"] * y["p"] for x, y in items), len(items), or_nan(ends[0], 0), or_nan(ends[1], -1)


def events(item: dict[str, Any]) -> dict[str, Any]:
    return item


def network(rng: random.Random) -> tuple[str, Network]:
    """A text and its simulation: one query, a chain, a join, a diamond."""
    kind = rng.randrange(6)
    if kind < 2:
        text, query = single(rng, "all A()", "A")
        return f"{EVENT} {text}", Network([query])
    if kind == 2:
        text, query = joined(rng, ("all A()", rng.choice(("all B()", "all A()"))), ("A", ""))
        query.inputs[1] = ("B" if "all B()" in text else "A", query.inputs[1][1])
        return text, Network([query])
    first, one = random_window(rng, "e")
    base = Query([("A", one)], events)
    lots = f"stream<A> lots := from e in all A() {first} select e;"
    if kind == 3:
        text, query = single(rng, "lots", 0)
        return f"{EVENT} {lots} {text}", Network([base, query])
    if kind == 4:
        text, query = joined(rng, ("lots", "all A()"), (0, "A"))
    else:
        text, query = joined(rng, ("lots", "lots"), (0, 0))
    return f"{lots} {text}", Network([base, query])


def history(rng: random.Random) -> Iterator[tuple[int, list[tuple[str, dict[str, Any]]]]]:
    """Times of the clock with events that arrive together there; prices are infinite in some."""
    now = 0
    prices = [1.0, 2.0, 3.0, math.inf, -math.inf] if rng.random() < 0.2 else [float(n) for n in range(7)]
    for _ in range(rng.randint(5, 40)):
        now += rng.choice(GAPS)
        together = rng.choice((0, 1, 1, 1, 1, 2, 3))
        made = [
            (rng.choice("AAB"), {"s": rng.choice("xyz"), "p": rng.choice(prices), "n": rng.randint(0, 2)})
            for _ in range(together)
        ]
        yield now, made


def same(a: Any, b: Any) -> bool:
    """Equal, NaN included."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) or (a != a and b != b)


def check(seed: int) -> None:
    rng = random.Random(seed)
    text, simulated = network(rng)
    if "event J" in text:  # a declaration comes first
        at = text.index("event J")
        end = text.index("}", at) + 1
        text = text[at:end] + " " + text[:at] + text[end:]
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(SourceText(text, "apama", {"name": "out"}))
    got: list[tuple[int, list[Any]]] = []

    def note(delta: Any) -> None:
        assert delta.remove is None
        got.append((delta.time, [tuple(row.values()) for row in delta.insert]))

    runtime.statement("out").add_listener(note)
    steps = list(history(rng))
    cut = rng.randrange(len(steps))
    for number, (now, made) in enumerate(steps):
        if number == cut and seed % 3 == 0:
            runtime = Runtime.restored(runtime.snapshot(), {})
            runtime.statement("out").add_listener(note)
        runtime.advance(now)
        simulated.advance(now)
        if len(made) == 1 and rng.random() < 0.5:
            runtime.send(*made[0])
        elif made:
            runtime.send_together(made)
        if made:
            simulated.send(made)
        assert same(got, simulated.queries[-1].out), (seed, text, got, simulated.queries[-1].out)
        assert not invariant_violations(runtime)
    runtime.advance(now + 20_000)
    simulated.advance(now + 20_000)
    assert same(got, simulated.queries[-1].out), (seed, text, json.dumps(steps))


@pytest.mark.parametrize("block", range(several(200) // 100))
def test_queries_are_as_simulated(block: int) -> None:
    for seed in part(range(block * 100, block * 100 + 100)):
        check(seed)


# ---------------------------------------------------------------- the nearest EPL
WINDOWS_OF_BOTH = (
    "retain 3",
    "within 1.5",
    "within 1.5 retain 2",
    "partition by x.s retain 2",
    "partition by x.s within 1.0 retain 2",
    "retain 3 every 2",
    "within 1.5 every 1.0",
    "within 1.0 every 2.0 retain 2",
    "partition by x.s retain 4 every 2",
    "retain 4 with unique x.n",
    "within 2.0 with unique x.n",
    "retain all",
)
SELECTS_OF_BOTH = (
    "select x.p",
    "where x.p > 2.0 select x.n",
    "select rstream x.p",
    "select sum(x.n)",
    "where x.p > 2.0 select count()",
    "group by x.s select sum(x.p)",
    "having count() > 1 select mean(x.p)",
)


@pytest.mark.parametrize("window", WINDOWS_OF_BOTH)
def test_nearest_epl_gives_the_same(window: str) -> None:
    """Of events that come one by one, with a clock that stops whenever something is due."""
    for select in SELECTS_OF_BOTH:
        if window == "retain all" and "rstream" in select:
            continue
        text = SourceText(f"from x in all A() {window} {select}", "apama", {"name": "out"})
        apama, epl = Runtime(), Runtime(config=Config(compensated_sums=True))
        for runtime in (apama, epl):
            runtime.deploy(SCHEMA)
        apama.deploy(text)
        epl.deploy(nearest_epl(translate(text, epl.catalog)))
        outs: list[list[Any]] = [[], []]
        for runtime, out in zip((apama, epl), outs, strict=True):
            runtime.statement("out").add_listener(out.append)
        for seed in seeds(4):
            rng = random.Random(f"{select} {seed}")
            begin = max(apama.now, epl.now)
            for now, made in history(rng):
                for runtime in (apama, epl):
                    runtime.advance(begin + now, stepping=True)
                for each in made:
                    apama.send(*each)
                    epl.send(*each)
                compared = [_comparable(out) for out in outs]
                assert same(*compared), (str(text), seed, compared)
                for out in outs:
                    out.clear()


def _comparable(deliveries: list[Any]) -> list[Any]:
    """Times and rows; null is what Apama has for an empty window. The order of groups does not count."""
    found = []
    for delta in deliveries:
        values = [row["value"] for row in delta.insert or ()]
        found.append((delta.time, sorted(("nan" if v is None or v != v else v for v in values), key=str)))
    return found
