"""Sketches against the values themselves: their error, what leaves, the order of values, and saving."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from cepbook.engine.aggregates.distinct_sketch import STANDARD_ERROR, DistinctSketch, _tau
from cepbook.engine.aggregates.quantile_sketch import RELATIVE_ERROR, QuantileSketch
from cepbook.engine.delivery.delta import Delta
from cepbook.engine.runtime import Runtime

PERCENTS = (0, 0.1, 1, 25, 50, 75, 95, 99, 99.9, 100)
DRAWS: dict[str, Callable[[Random], float]] = {
    "log-normal": lambda r: r.lognormvariate(3, 2),
    "normal, both signs": lambda r: r.gauss(0, 100),
    "whole numbers": lambda r: float(r.randrange(-20, 20)),
    "heavy tail": lambda r: r.paretovariate(0.3),
    "all magnitudes": lambda r: r.choice((-1, 1)) * math.ldexp(1 + r.random(), r.randrange(-1022, 1023)),
}


def fields(sketch: Any) -> dict[str, Any]:
    return {name: getattr(sketch, name) for name in type(sketch).__slots__}


def history(sketch: Any, values: list[Any], random: Random, size: int) -> list[Any]:
    """Let values enter, and others leave in any order so that at most `size` stay; return those."""
    held: list[Any] = []
    for value in values:
        sketch.enter(value)
        held.append(value)
        if len(held) > size:
            sketch.leave(held.pop(random.randrange(len(held))))
    return held


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("size", [1, 7, 1000, 20_000])
def test_percentiles_are_within_their_error(draw: Callable[[Random], float], size: int) -> None:
    random, sketch = Random(size), QuantileSketch()
    held = sorted(history(sketch, [draw(random) for _ in range(max(100, 2 * size))], random, size))
    assert len(held) == size
    for percent in PERCENTS:
        exact = held[math.floor((size - 1) * percent / 100)]
        value = sketch.value(percent)
        assert value is not None and abs(value - exact) <= RELATIVE_ERROR * 1.000001 * abs(exact), percent


def test_percentiles_of_numbers_that_are_none() -> None:
    sketch = QuantileSketch()
    assert sketch.value(50) is None
    for value in (math.inf, math.nan, -math.inf, 0.0, -0.0):
        sketch.enter(value)
    values = [sketch.value(percent) for percent in (0, 25, 50, 75)]
    assert values == [-math.inf, 0.0, 0.0, math.inf]
    assert math.isnan(sketch.value(100) or 0)
    for value in (math.inf, math.nan, -math.inf, 0.0, 0.0):
        sketch.leave(value)
    assert fields(sketch) == fields(QuantileSketch())
    sketch.enter(sys.float_info.max)
    assert sketch.value(50) == pytest.approx(sys.float_info.max, rel=RELATIVE_ERROR)
    with pytest.raises(ValueError, match="between 0 and 100, found 101"):
        sketch.value(101)


@pytest.mark.parametrize("count", [10, 100, 1000, 5000, 10_000, 30_000])
def test_numbers_of_distinct_values_are_within_their_error(count: int) -> None:
    """Sixteen independent sets of values: the mean error is that of an estimate without bias, the spread as stated."""
    errors = []
    for seed in range(16):
        sketch = DistinctSketch()
        for number in range(count):
            sketch.enter(f"{seed}-{number}")
        errors.append(sketch.value() / count - 1)
    assert abs(statistics.fmean(errors)) < 3 * STANDARD_ERROR / math.sqrt(16)
    assert max(map(abs, errors)) < 4 * STANDARD_ERROR
    assert math.sqrt(statistics.fmean(e * e for e in errors)) < 1.6 * STANDARD_ERROR


@pytest.mark.parametrize("make", [QuantileSketch, DistinctSketch])
def test_a_sketch_is_a_function_of_what_it_holds(make: type) -> None:
    """Values that came and went leave no trace, and the order of the others makes no difference."""
    random, sketch, other = Random(3), make(), make()
    held = history(sketch, [random.gauss(0, 1000) for _ in range(6000)], random, 2000)
    for value in sorted(held):
        other.enter(value)
    assert fields(sketch) == fields(other)
    for value in held:
        sketch.leave(value)
    assert fields(sketch) == fields(make())


def test_equal_numbers_are_one_value() -> None:
    sketch = DistinctSketch()
    for value in (1, 1.0, "1", "1.0", True, 10**30, 1e30, None, float("nan")):
        sketch.enter(value)
    assert sketch.value() == 8  # 10 ** 30 is not 1e30
    sketch.leave("never entered")
    assert sketch.value() == 8


def test_saved_sketches_continue_exactly() -> None:
    random = Random(11)
    runtime = Runtime()
    runtime.deploy(
        "create schema E(k string, x double);"
        "@name('out') select k, percentile_approx(x, 90) as p, approx_count_distinct(x) as n"
        " from E#length(300) group by k"
    )
    rows: list[Any] = []
    runtime.statement("out").add_listener(lambda delta: rows.append(delta.insert))
    restored_rows: list[Any] = []

    def note(delta: Delta) -> None:
        restored_rows.append(delta.insert)

    other: Runtime | None = None
    for number in range(1500):
        event = {"k": random.choice("ab"), "x": round(random.lognormvariate(2, 1), 1)}
        if number == 700:
            other = Runtime.restored(runtime.snapshot(), {})
            other.statement("out").add_listener(note)
        runtime.send("E", event)
        if other is not None:
            other.send("E", event)
    assert restored_rows == rows[700:]


@pytest.mark.parametrize("share", [0.001, 0.25, 0.5, 0.999])
def test_the_part_of_full_registers_is_the_sum_of_its_series(share: float) -> None:
    terms = [(1 - share**2.0**-k) ** 2 * 2.0**-k for k in range(1, 60)]
    assert _tau(share) == pytest.approx((1 - share - sum(terms)) / 3)
    assert _tau(0) == _tau(1) == 0
