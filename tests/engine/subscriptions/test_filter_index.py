"""The filter index finds the statements whose filter holds: those that asking each would find, in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cepbook.engine.runtime import Runtime
from tests.engine.histories import Row
from tests.random_cases import in_part, several

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
    """The index is built anew when statements are dropped or added, also between two events of one type."""
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
