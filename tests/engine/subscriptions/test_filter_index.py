"""The filter index finds the statements whose filter holds: those that asking each would find, in the same order."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cepbook.engine.runtime import Runtime
from cepbook.errors import StatementError
from tests.engine.histories import Row
from tests.random_cases import in_part, seeds, several

SCHEMA = "create schema E(k string, g int, x int, n long, d double, b boolean)"
Condition = tuple[str, Callable[[Row], bool | None]]


def null_if(*names: str) -> Callable[[Callable[[Row], bool]], Callable[[Row], bool | None]]:
    """A condition is null when a property that it reads is null."""
    return lambda test: lambda e: None if any(e.get(n) is None for n in names) else test(e)


@st.composite
def comparisons(draw: st.DrawFn) -> Condition:
    name = draw(st.sampled_from(["g", "x", "n", "d"]))
    op = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
    halves = [st.integers(-2, 6).map(lambda i: i / 2)] if name == "d" else []  # no filter compares with a wider type
    value = draw(st.one_of(st.integers(-1, 3), *halves))
    test = {
        "=": lambda v: v == value,
        "!=": lambda v: v != value,
        "<": lambda v: v < value,
        "<=": lambda v: v <= value,
        ">": lambda v: v > value,
        ">=": lambda v: v >= value,
    }[op]
    if draw(st.booleans()):
        mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
        return f"{value} {mirrored} {name}", null_if(name)(lambda e: test(e[name]))
    return f"{name} {op} {value}", null_if(name)(lambda e: test(e[name]))


@st.composite
def lists_and_ranges(draw: st.DrawFn) -> Condition:
    name, low, high = draw(st.sampled_from(["g", "x", "n", "d"])), draw(st.integers(-1, 2)), draw(st.integers(0, 3))
    form = draw(st.sampled_from(["in", "not in", "between", "[:]", "(:)", "[:)"]))
    if form in ("in", "not in"):
        found = [low, high, low]
        return f"{name} {form} ({', '.join(map(str, found))})", null_if(name)(
            lambda e: (e[name] in found) == (form == "in")
        )
    if form == "between":
        return (
            f"{name} between {low} and {high}",
            lambda e: e.get(name) is not None and min(low, high) <= e[name] <= max(low, high),
        )
    first, last = min(low, high), max(low, high)  # bounds may be swapped; the opening bracket is the smaller one's
    return (
        f"{name} in {form[0]}{low}:{high}{form[-1]}",
        lambda e: (
            e.get(name) is not None
            and (first < e[name] or (form[0] == "[" and first == e[name]))
            and (e[name] < last or (form[-1] == "]" and last == e[name]))
        ),
    )


TEXTS: list[Condition] = [
    ("k = 'a'", null_if("k")(lambda e: e["k"] == "a")),
    ("k != 'a'", null_if("k")(lambda e: e["k"] != "a")),
    ("k in ('a', 'b')", null_if("k")(lambda e: e["k"] in ("a", "b"))),
    ("k is null", lambda e: e.get("k") is None),
    ("x is not null", lambda e: e.get("x") is not None),
    ("k is 'b'", lambda e: e.get("k") == "b"),
    ("k > 'a'", null_if("k")(lambda e: e["k"] > "a")),
    ("k like '%b%'", null_if("k")(lambda e: "b" in e["k"])),
    ("b", null_if("b")(lambda e: e["b"])),
    ("b = true", null_if("b")(lambda e: e["b"])),
    ("not b", null_if("b")(lambda e: not e["b"])),
    ("g = x", null_if("g", "x")(lambda e: e["g"] == e["x"])),
    ("g + x > 2", null_if("g", "x")(lambda e: e["g"] + e["x"] > 2)),
]
SIMPLE = st.one_of(comparisons(), lists_and_ranges(), st.sampled_from(TEXTS))


@st.composite
def compounds(draw: st.DrawFn) -> Condition:
    text, test = draw(SIMPLE)
    for _ in range(draw(st.integers(0, 2))):
        other, also = draw(SIMPLE)
        form = draw(st.sampled_from(["and", "or", "and not"]))
        if form == "or":
            text, test = f"({text} or {other})", _either(test, also)
        elif form == "and not":
            text, test = f"{text} and not ({other})", _both(test, _no(also))
        else:
            text, test = f"{text} and {other}", _both(test, also)
    return text, test


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    """One or two compound conditions; a comma between conditions is an ``and``."""
    text, test = draw(compounds())
    if draw(st.booleans()):
        other, also = draw(compounds())
        return f"{text}, {other}", _both(test, also)
    return text, test


def _either(a: Callable[[Row], bool | None], b: Callable[[Row], bool | None]) -> Callable[[Row], bool | None]:
    return lambda e: True if a(e) or b(e) else None if a(e) is None or b(e) is None else False


def _both(a: Callable[[Row], bool | None], b: Callable[[Row], bool | None]) -> Callable[[Row], bool | None]:
    return lambda e: False if a(e) is False or b(e) is False else None if a(e) is None or b(e) is None else True


def _no(a: Callable[[Row], bool | None]) -> Callable[[Row], bool | None]:
    return lambda e: None if (found := a(e)) is None else not found


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "k": optional(st.sampled_from(["a", "b", "c", "ab"])),
        "g": optional(st.integers(-1, 3)),
        "x": optional(st.integers(-1, 3)),
        "n": optional(st.sampled_from([-1, 0, 1, 2, 3, 2**40])),
        "d": optional(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("nan")])),
        "b": optional(st.booleans()),
    },
)


@settings(max_examples=several(60))
@given(st.lists(conditions(), min_size=1, max_size=14), st.lists(EVENTS, min_size=1, max_size=15))
@in_part
def test_index_finds_what_asking_each_finds(filters: list[Condition], events: list[Row]) -> None:
    runtime, seen = Runtime(), list[str]()
    runtime.deploy(SCHEMA)
    for number, (text, _) in enumerate(filters):
        runtime.deploy(f"@name('s{number}') select * from E({text})")
        runtime.statement(f"s{number}").add_listener(lambda delta, name=f"s{number}": seen.append(name))
    for event in events:
        seen.clear()
        runtime.send("E", event)
        asked = [f"s{i}" for i, (_, test) in enumerate(filters) if test(event)]
        assert seen == asked, (event, [text for text, _ in filters])


def test_statements_that_come_and_go() -> None:
    """Statements are dropped and added between two events of one type."""
    runtime, seen = Runtime(), list[str]()
    runtime.deploy(SCHEMA)
    for number in range(20):
        runtime.deploy(f"@name('s{number}') select * from E(g = {number % 5})", deployment_id=f"d{number}")
        runtime.statement(f"s{number}").add_listener(lambda delta, name=f"s{number}": seen.append(name))
    runtime.send("E", {"g": 3})
    assert seen == ["s3", "s8", "s13", "s18"]
    seen.clear()
    runtime.undeploy("d8")
    runtime.deploy("@name('late') select * from E(g in (3, 4))")
    runtime.statement("late").add_listener(lambda delta: seen.append("late"))
    runtime.send("E", {"g": 3})
    assert seen == ["s3", "s13", "s18", "late"]


def test_a_value_without_a_hash_equals_none_of_the_constants_and_fails_nowhere() -> None:
    runtime, seen = Runtime(), list[str]()
    runtime.deploy(SCHEMA)
    for number in range(6):
        runtime.deploy(f"@name('s{number}') select * from E(k = '{number}')")
        runtime.statement(f"s{number}").add_listener(lambda delta, name=f"s{number}": seen.append(name))
    for value in ("3", ["3"], "4"):
        runtime.send("E", {"k": value})
    assert seen == ["s3", "s4"]


def test_a_few_conditions_that_could_be_looked_up_among_many_statements() -> None:
    runtime, seen = Runtime(), list[str]()
    runtime.deploy(SCHEMA)
    filters = ["g = 1", "x > 2", "k like 'a%'", "g + x = 4", "g = 2", "x + 1 = 3", "b is null", "d < 0", "g != x"]
    for number, text in enumerate(filters):
        runtime.deploy(f"@name('s{number}') select * from E({text})")
        runtime.statement(f"s{number}").add_listener(lambda delta, name=f"s{number}": seen.append(name))
    runtime.send("E", {"g": 1, "x": 3, "k": "ab"})
    assert seen == ["s0", "s1", "s2", "s3", "s6", "s8"]


RULES = [
    "select * from E(g = {0})",
    "select * from E(g = {0}, x > {1})",
    "select * from E(g in ({0}, {1}), k = 'a')",
    "select * from E(x > {0})",
    "select * from E(x >= {0} and x < {1})",
    "select * from E(d between {0} and {1}, n = {1})",
    "select * from E(k like '%b%')",
    "select * from E",
    "select count(*) as c from E(n = {0})#length(3)",
    "select a.x as x, b.n as n from pattern [every a=E(g = {0}) -> b=E(x > {1})]",
    "@Priority({0}) select * from E(g = {1})",
    "@Drop @Priority(0) select * from E(g = {0}, x = {1}, n = 2)",
]


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(12))
def test_random_statements_that_come_and_go_between_events(seed: int) -> None:
    """Each delivers what it delivers to a runtime of its own, and they deliver in their order."""
    rng = random.Random(seed)
    rules = rng.sample(RULES[:-1], rng.randrange(1, 6)) + RULES[-1:] * (seed % 4 == 3)
    together, alone, seen = Runtime(), dict[str, Runtime](), list[tuple[str, object]]()
    expected: list[tuple[str, object]] = []
    together.deploy(SCHEMA)
    for step in range(150):
        action = rng.random()
        if action < 0.35:
            name = f"s{step}"
            epl = f"@name('{name}') {rng.choice(rules).format(rng.randrange(4), rng.randrange(4))}"
            alone[name] = Runtime()
            alone[name].deploy(SCHEMA)
            for runtime, rows in ((together, seen), (alone[name], expected)):
                runtime.deploy(epl, deployment_id=name)
                runtime.statement(name).add_listener(
                    lambda delta, name=name, rows=rows: rows.append((name, delta.insert))
                )
        elif action < 0.5 and alone:
            name = rng.choice([*alone])
            together.undeploy(name)
            del alone[name]
        else:
            numbers = {key: rng.choice([0, 1, 2, 3, None]) for key in ("g", "x", "n", "d")}
            event = {**numbers, "k": rng.choice(["a", "b", "ab", None])}
            if rng.random() < 0.02:
                event["x"] = "a text"  # compares with no bound
            seen.clear()
            expected.clear()
            failures = len(together.errors)
            for runtime in (together, *in_order(alone)):
                with suppress(StatementError):
                    runtime.send("E", event)
                drops = runtime is not together and any(s.drops for s in runtime.statements.values())
                if drops and expected and expected[-1][0] in runtime.statements:
                    break  # the others do not see the event
            assert seen == expected, (event, step)
            assert (len(together.errors) > failures) <= (event["x"] == "a text")
    for name in alone:
        together.undeploy(name)
    index = together.routes._type_index("E").index
    assert index.root.empty
    assert len(index) == 0


def in_order(alone: dict[str, Runtime]) -> list[Runtime]:
    """The runtimes of single statements in the order in which their statements get an event."""
    return sorted(alone.values(), key=lambda runtime: (-priority(runtime), list(alone.values()).index(runtime)))


def priority(runtime: Runtime) -> float:
    (statement,) = runtime.statements.values()
    return -statement.order[0] + 0.5 * statement.drops  # before those of the same priority
