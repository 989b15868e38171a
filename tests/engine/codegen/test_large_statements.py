"""Statements that programs write: deep nesting, long sums, thousands of columns."""

import pytest

from cepbook.engine.config import Config
from cepbook.engine.runtime import Runtime


def _code(epl: str) -> str:
    runtime = Runtime(Config())
    runtime.deploy(f"create schema E(a int, b long, f float, d double);\n@name('s') {epl}")
    return runtime.statements["s"].program.text


def _nested(function: str, depth: int) -> str:
    text = "a"
    for _ in range(depth):
        text = f"{function}({text}, a)"
    return text


@pytest.mark.parametrize("function", ["coalesce", "max", "min"])
def test_nested_calls_are_written_once(function: str) -> None:
    lengths = [len(_code(f"select {_nested(function, depth)} as c from E")) for depth in (8, 16, 32)]
    assert lengths[2] - lengths[1] < 3 * (lengths[1] - lengths[0])


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("+".join(["a"] * 1000), 7000),
        ("+".join(["a"] * 1000) + "+b", 7100),
        ("a" + "-a" * 100, -693),
        ("a" + "*a" * 99, (7**100 + 2**31) % 2**32 - 2**31),
        ("d" + "+d" * 99, 50.0),
        ("f" + "*2-f" * 40, -38.5),
        ("a&a" + "&a" * 50, 7),
        (" || ".join(["cast(a, string)"] * 300), "7" * 300),
    ],
)
def test_long_chains_of_operators(expression: str, value: object) -> None:
    runtime = Runtime(Config())
    runtime.deploy(f"create schema E(a int, b long, f float, d double);\n@name('s') select {expression} as c from E")
    seen: list[object] = []
    runtime.statements["s"].add_listener(lambda delta: seen.extend(row["c"] for row in delta.insert))
    runtime.send("E", {"a": 7, "b": 100, "f": 0.5, "d": 0.5})
    runtime.send("E", {"a": None, "b": 100, "f": None, "d": None})
    assert seen == [value, None]


def test_a_select_list_of_many_sums_costs_as_much_per_column_as_a_short_one() -> None:
    import sys

    def calls(columns: int) -> int:
        count = 0

        def tick(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += 1

        sums = ", ".join(f"sum(a + {k}) as c{k}" for k in range(columns))
        sys.setprofile(tick)
        try:
            _code(f"select {sums} from E")
        finally:
            sys.setprofile(None)
        return count

    few, many = calls(50), calls(400)
    assert many < 8 * few
