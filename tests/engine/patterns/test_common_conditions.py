"""The filter index finds a pattern by the conditions that all its atoms of a type have in common."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.subscriptions import filter_index
from cepbook.lang.explain.expressions import show_expr

SCHEMA = "create schema E(k int, v int); create schema F(k int, v int);"
FORMS = (
    "every a=E(k = {0}, v < 2) -> b=E(k = {0}, v > 2)",
    "every (a=E(k = {0}) -> b=E(v > 1, k = {0}) and not E(k = {0}, v = 0))",
    "every a=E(k = {0}) -> (b=E(k = {0}, v > a.v) or b=F(k = {0}))",
    "every a=E(k = {0}, v = 1) -> (timer:interval(2 sec) and not b=E(k = {0}, v = 3))",
    "every [2] a=E(k = {0}) until b=E(k = {0}, v = 3)",
    "every a=E(k = {0}) -> b=E(k = a.k)",
)


@pytest.mark.parametrize(
    ("pattern", "common"),
    [
        ("a=E(k = 3, v > 1) -> b=E(v > 2, k = 3)", "k = 3"),
        ("a=E(k = 3, v > 1) -> b=E(v > 1, k = 3)", "k = 3 and v > 1"),
        ("a=E(k = 3) -> b=E(k = 4)", None),
        ("a=E(k = 3) -> b=E(k = a.k, v > 1)", None),
        ("a=E(k = 3) -> b=F(k = 4)", "k = 3"),
        ("a=E(k = 3) -> b=E", None),
    ],
)
def test_the_condition_is_what_atoms_have_in_common(pattern: str, common: str | None) -> None:
    runtime = Runtime()
    runtime.deploy(f"{SCHEMA} @name('s') select 1 as n from pattern [{pattern}]")
    condition = runtime.statement("s").condition("E")
    assert (None if condition is None else show_expr(condition).replace("(", "").replace(")", "")) == common


def deliveries(seed: int) -> list[Any]:
    rng, rows = Random(seed), list[Any]()
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    for number in range(12):
        pattern = rng.choice(FORMS).format(number % 4)
        runtime.deploy(f"@name('s{number}') select * from pattern [{pattern}]")
        runtime.statement(f"s{number}").add_listener(lambda delta, name=number: rows.append((name, delta.insert)))
    for _ in range(120):
        runtime.advance(runtime.now + rng.choice((0, 500, 1000)))
        runtime.send(rng.choice("EEEF"), {"k": rng.randrange(6), "v": rng.randrange(5)})
    return rows


@pytest.mark.parametrize("seed", range(12))
def test_patterns_deliver_the_same_with_and_without_the_index(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    indexed = deliveries(seed)
    monkeypatch.setattr(filter_index, "MAX_UNINDEXED", 1000)
    assert indexed == deliveries(seed)
    assert indexed
