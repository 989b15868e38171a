"""What aggregates keep: exact after long runs, right in any order of leaving; sums that do not drift as an option."""

from __future__ import annotations

import math
import random
import statistics
from collections import deque
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cepbook.engine.aggregates.accumulators import (
    AmountRate,
    ArrivalRate,
    OrdinalMap,
    SortedEvents,
    add_with_overflow,
)
from cepbook.engine.aggregates.deviations import MeanDeviation, StandardDeviation
from cepbook.engine.aggregates.power_sums import PowerSums
from cepbook.engine.config import Config
from cepbook.engine.runtime import Runtime
from tests.engine.aggregates.test_all_aggregates import FUNCTIONS, OF_THE_WINDOW, State, rounded
from tests.engine.histories import Event, Run, comparable, histories
from tests.random_cases import in_part, several

STEPS = 100_000


def walk(drawn: random.Random, spikes: bool) -> list[float]:
    """Prices that go far from where they began; some are huge."""
    price, found = 100.0, []
    for number in range(STEPS):
        price += drawn.gauss(0, 1)
        found.append(1e10 if spikes and number % 997 == 5 else price)
    return found


@pytest.mark.parametrize("spikes", [False, True])
def test_the_standard_deviation_of_a_window_that_slid_long_is_exact(spikes: bool) -> None:
    spread, window = StandardDeviation(), deque[float]()
    for number, value in enumerate(walk(random.Random(3), spikes)):
        spread.enter(value)
        window.append(value)
        if len(window) > 50:
            spread.leave(window.popleft())
        if number % 7919 == 7918:
            exact = [Fraction(v) for v in window]
            assert spread.sample() == pytest.approx(math.sqrt(statistics.variance(exact)), rel=1e-14)
            assert spread.population() == pytest.approx(math.sqrt(statistics.pvariance(exact)), rel=1e-14)


@pytest.mark.histories
@pytest.mark.parametrize("size", [1, 2, 40, 2500])
def test_mean_deviations_of_values_that_leave_anyhow(size: int) -> None:
    drawn, deviations, held = random.Random(size), MeanDeviation(), list[float]()
    choices = (lambda: drawn.gauss(100, 5), lambda: float(drawn.randint(0, 5)), lambda: 1e9 + drawn.random())
    for number in range(4 * size + 400):
        value = drawn.choice(choices)()
        deviations.enter(value)
        held.append(value)
        if len(held) > size:
            deviations.leave(held.pop(drawn.randrange(len(held))))
        if number % 97 == 0:
            exact = [Fraction(v) for v in held]
            mean = sum(exact) / len(exact)
            expected = float(sum(abs(v - mean) for v in exact) / len(exact))
            assert deviations.value() == pytest.approx(expected, rel=1e-12)
    for value in held:
        deviations.leave(value)
    assert deviations.value() is None


def test_values_that_are_no_numbers_stay_until_all_have_left() -> None:
    for odd in (math.inf, -math.inf, math.nan):
        spread, deviations = StandardDeviation(), MeanDeviation()
        for value in (1.0, odd, 3.0):
            spread.enter(value)
            deviations.enter(value)
        assert math.isnan(spread.sample() or 0) and math.isnan(deviations.value() or 0)
        for value in (odd, 3.0):
            spread.leave(value)
            deviations.leave(value)
            assert math.isnan(spread.population() or 0) and math.isnan(deviations.value() or 0)
        spread.leave(1.0)
        deviations.leave(1.0)
        assert spread.population() is None and deviations.value() is None
        for value in (3.0, 5.0):
            spread.enter(value)
            deviations.enter(value)
        assert spread.population() == 1.0 and deviations.value() == 1.0


def test_deviations_beyond_the_range_are_infinite() -> None:
    spread, deviations = StandardDeviation(), MeanDeviation()
    for value in (1.7e308, -1.7e308, 1.7e308, -1.7e308):
        spread.enter(value)
        deviations.enter(value)
    assert spread.population() == math.inf
    assert deviations.value() == math.inf


def test_what_never_entered_may_leave() -> None:
    ranked, deviations = SortedEvents(), MeanDeviation()
    ranked.enter((1,), "a", 7)
    deviations.enter(2.0)
    ranked.leave(3)
    deviations.leave(5.0)
    deviations.leave(1.0)
    assert ranked.all() == ["a"] and deviations.value() == 0.0


def test_rates() -> None:
    arrivals, flow = ArrivalRate(2000, 1000), AmountRate()
    rates = []
    for now in (0, 500, 1000, 1999, 2000, 2499, 9000):
        arrivals.enter(now)
        rates.append(arrivals.rate())
    assert rates == [None, None, None, None, 2.0, 2.5, 0.5]
    flow.enter(1000, 2)
    flow.enter(3000, None)
    assert flow.rate(1000) is None
    flow.leave(1000, 2)
    assert flow.rate(1000) == 0.0
    flow.enter(1000, -3)
    assert flow.rate(1000) == -math.inf


@pytest.mark.parametrize("window", ["#length(40)", "#unique(k)", "#length(40)#time(1 hour)"])
def test_compensated_sums_do_not_drift(window: str) -> None:
    drawn = random.Random(1)
    events = [
        {"k": str(drawn.randrange(40)), "d": drawn.choice((0.1, 0.3, 7e-9, spike)), "f": drawn.random()}
        for spike in [1e16, -1e15] * 1000 + [0.7] * 1000
    ]
    found = {}
    for compensated in (False, True):
        runtime = Runtime(Config(compensated_sums=compensated))
        runtime.deploy("create schema E(k string, d double, f float)")
        runtime.deploy(f"@name('held') select k, d, f from E{window};")
        runtime.deploy(f"@name('s') select sum(d) as s, avg(d) as a, sum(distinct d) as u, sum(f) as f from E{window}")
        for event in events:
            runtime.send("E", event)
        held = runtime.iterate("held")
        found[compensated] = runtime.iterate("s")[0]
    values = [row["d"] for row in held]
    assert found[True]["s"] == pytest.approx(math.fsum(values), rel=1e-14)
    assert found[False]["s"] != pytest.approx(math.fsum(values), rel=1e-2)
    assert found[True]["a"] == pytest.approx(math.fsum(values) / len(values), rel=1e-14)
    assert found[True]["u"] == pytest.approx(math.fsum(set(values)), rel=1e-14)
    assert found[True]["f"] == pytest.approx(math.fsum(row["f"] for row in held), rel=1e-7)


def _sum(values: list[float]) -> float:
    """The sum by the rules of Java, but with one rounding at the end."""
    odd = [value for value in values if value - value != 0.0]
    if odd:
        return sum(odd)
    exact = sum(map(Fraction, values))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@pytest.mark.parametrize("window", ["#length(3)", "#unique(k)", "#length(3)#time(1 hour)"])
def test_compensated_sums_recover_from_what_is_not_finite(window: str) -> None:
    drawn = random.Random(7)
    runtime = Runtime(Config(compensated_sums=True))
    runtime.deploy("create schema E(k string, d double)")
    runtime.deploy(f"@name('held') select d from E{window};")
    runtime.deploy(f"@name('s') select sum(d) as s, avg(d) as a from E{window}")
    odd = (math.inf, -math.inf, math.nan, 1e308, -1e308, 1.7e308, -1.7e308, 0.1, 0.3, 1.0)
    for _ in range(400):
        runtime.send("E", {"k": drawn.choice("abc"), "d": drawn.choice(odd)})
        values = [row["d"] for row in runtime.iterate("held")]
        found = runtime.iterate("s")[0]
        assert found["s"] == pytest.approx(_sum(values), rel=1e-12, nan_ok=True)
        assert found["a"] == pytest.approx(_sum(values) / len(values), rel=1e-12, nan_ok=True)


def test_plain_sums_stay_infinite_until_the_window_is_empty() -> None:
    runtime = Runtime(Config())
    runtime.deploy("create schema E(d double)")
    runtime.deploy("@name('s') select sum(d) as s, avg(d) as a from E#time(2)")
    for time, value in enumerate((1e308, 1e308, 1.0, 2.0)):
        runtime.advance(time * 1000)
        runtime.send("E", {"d": value})
    assert runtime.iterate("s") == [{"s": math.inf, "a": math.inf}]
    runtime.advance(9_000)
    runtime.send("E", {"d": 2.0})
    assert runtime.iterate("s") == [{"s": 2.0, "a": 2.0}]


# ---------------------------------------------------------------- windows that drop events in orders of their own
VIEWS = (
    "#sort(3, x desc)",
    "#rank(k, 2, d desc)",
    "#time_order(n, 1 sec)",
    "#timetolive(n + 2000)",
    "#length(4)#time(1 sec)",
    "#unique(k)#unique(g) retain-union",
    "#unique(k)#length(2) retain-intersection",
    "#firstunique(k)",
    "#groupwin(k)#sort(2, x)",
    "#expr(current_count <= 3)",
    "#ext_timed(n, 2 sec)",
    "#groupwin(k)#length(2)#merge(k)",
)
OF_CONTENTS = {
    text: function
    for text, function in (FUNCTIONS | OF_THE_WINDOW).items()
    if not any(word in text for word in ("ever", "rate", "leaving", "(n)"))
}


@pytest.mark.parametrize("window", VIEWS)
def test_windows_with_an_order_of_their_own(window: str) -> None:
    """Aggregates are those of what the iterator shows, taken in the order of arrival."""

    @settings(max_examples=several(4))
    @given(histories(("A",), most=20))
    @in_part
    def check(events: list[Event]) -> None:
        shown = ", ".join(f"{text} as c{i}" for i, text in enumerate(OF_CONTENTS))
        run = Run(
            f"create variable int at = 2; @name('held') select * from A{window};"
            f" @name('s') select {shown} from A{window}",
            watched=False,
        )
        for number, event in enumerate(events):
            if event.time > run.runtime.now:
                run.runtime.advance(event.time)
            late = {None: 0}.get(event.values["x"], 300 * (event.values["x"] or 0))
            run.runtime.send("A", event.values | {"n": event.time - late, "f": float(number)})
            held = sorted(run.runtime.iterate("held"), key=lambda row: row["f"])
            state = State([Event(0, "A", row) for row in held])
            expected: dict[str, Any] = {f"c{i}": function(state) for i, function in enumerate(OF_CONTENTS.values())}
            assert rounded(run.runtime.iterate("s")) == rounded([expected])

    check()


@pytest.mark.parametrize("window", ["", "#length(3)", "#unique(k)", "#length_batch(3)"])
def test_nan_is_the_highest_number(window: str) -> None:
    """And nobody's for ever: it leaves with its event."""

    @settings(max_examples=several(7))
    @given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([None, 1.0, 2.0, 3.0, math.nan])), max_size=25))
    @in_part
    def check(drawn: list[tuple[int, float | None]]) -> None:
        runtime = Runtime()
        runtime.deploy("create schema E(k int, d double)")
        runtime.deploy(f"@name('s') select irstream min(d) as low, max(d) as high, median(d) as middle from E{window}")
        found: list[Any] = []
        runtime.statement("s").add_listener(lambda delta: found.append(delta.insert[0]))
        held: list[tuple[int, float | None]] = []
        for k, d in drawn:
            if window == "#unique(k)":
                held = [e for e in held if e[0] != k]
            elif window == "#length_batch(3)" and len(held) == 3:
                held = []
            held = [*held, (k, d)][-3 if window == "#length(3)" else 0 :]
            runtime.send("E", {"k": k, "d": d})
            if window == "#length_batch(3)" and len(held) < 3:
                continue
            values = sorted((d for _, d in held if d is not None), key=lambda d: (d != d, d))
            half = len(values) // 2
            middle = None if not values else sum(values[half - 1 + len(values) % 2 : half + 1]) / (2 - len(values) % 2)
            expected = [values[0], values[-1], middle] if values else [None, None, None]
            assert comparable(list(found[-1].values())) == comparable(expected)

    check()


def test_a_sum_beyond_the_range_keeps_what_rounding_loses() -> None:
    total, lost, spilled, exact = 0.0, 0.0, [0, 0, 0, 0], Fraction(0)
    for value, sign in ((1.7e308, 1), (1.3e308, 1), (1.0 / 3, 1), (-9.1e307, 1), (1e292, 1), (1.3e308, -1), (1e-3, 1)):
        total, lost = add_with_overflow(total, lost, value, sign, spilled)
        exact += sign * Fraction(value)
        *others, halves = spilled
        assert others == [0, 0, 0]
        kept = Fraction(total) + Fraction(lost) + halves * Fraction(2) ** 1023
        assert abs(kept - exact) <= Fraction(math.ulp(lost))


def test_values_stay_in_the_order_of_their_ordinals() -> None:
    values = OrdinalMap()
    for ordinal, value in ((5, "e"), (2, "b"), (9, "i"), (2, "B")):
        values[ordinal] = value
    assert list(values.values()) == ["B", "e", "i"]
    assert values.pop(7, "none") == "none" and values.pop(5) == "e"
    assert list(values.values()) == ["B", "i"] and len(values) == 2


@pytest.mark.parametrize(("what", "expected"), [("variance", math.nan), ("avg", math.inf), ("sumsq", math.nan)])
def test_sums_of_powers_with_an_infinite_value(what: str, expected: float) -> None:
    """An infinite value has no distance to the mean; when it has left, the sums are as if it had never come."""
    sums = PowerSums(what)
    for value in (1.0, 3.0):
        sums.enter(value)
    before = sums.value()
    sums.enter(math.inf)
    assert repr(sums.value()) == repr(expected)
    sums.leave(math.inf)
    assert sums.value() == before
