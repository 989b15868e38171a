"""Kernels give the rows, the order and the state that events give one by one, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepbook.engine.vectorized import kernel_library, vectorized_statement
from tests.engine.histories import GAPS, KEYS, Event, Run, comparable

WINDOWS = ("", "#length(1)", "#length(3)", "#time(1 sec)", "#time(7 msec)", "#groupwin(k)#length(2)", "#keepall")
VALUES = (
    "x", "d", "k", "n", "count(*) as c", "count(d) as cd", "count(x) as cx",
    "sum(x) as sx", "sum(d) as sd", "sum(n) as sn", "avg(x) as ax", "avg(d) as ad", "avg(n) as an",
    "min(x) as lx", "max(d) as gd", "min(d) as ld", "max(n) as gn", "prev(1, d) as pd", "prev(2, k) as pk",
    "d * 2 as d2", "x - avg(d) as xd", "d / d as dd", "d / (x * 1.0) as dx", "(d + 0.1) * sum(x) as ds",
)  # fmt: skip
FILTERS = ("", "(x > 0)", "(k = 'a')", "(k = 'a' or d > 0)")
INTS = (0, 1, -1, 2**31 - 1, -(2**31), 7)
LONGS = (0, 1, -5, 2**40, -(2**40), 2**53, 2**62)
DOUBLES = (None, 0.0, -0.0, 0.1, 0.2, 1e308, -1e308, 5e-324, math.inf, -math.inf, 3.5)


@pytest.fixture(autouse=True)
def _kernels_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_library.kernels(wait=True) is not None, kernel_library.missing_reason()
    monkeypatch.setattr(vectorized_statement, "LEAST", 1)


@st.composite
def statements(draw: st.DrawFn) -> str:
    columns = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=5, unique=True))
    grouped = draw(st.booleans())
    columns += ["k as key"] * grouped
    windows = WINDOWS if not any("prev" in column for column in columns) else WINDOWS[1:]
    source = f"A{draw(st.sampled_from(FILTERS))}{draw(st.sampled_from(windows))}"
    return f"select {', '.join(columns)} from {source}{' group by k' * grouped}"


@st.composite
def histories(draw: st.DrawFn, most: int = 60) -> list[Event]:
    time, events = draw(st.sampled_from((0, 5000))), []
    for drawn in draw(st.lists(st.binary(min_size=5, max_size=5), max_size=most)):
        gap, k, x, n, d = drawn
        time += GAPS[gap % len(GAPS)]
        values = {"k": KEYS[k % 4], "g": 0, "x": INTS[x % len(INTS)], "n": LONGS[n % len(LONGS)], "f": 1.0}
        events.append(Event(time, "A", values | {"d": DOUBLES[d % len(DOUBLES)]}))
    return events


def kernels_used(run: Run) -> int:
    """The number of statements that kernels have run."""
    return sum("vectorized" in statement.__dict__ for statement in run.runtime.statements.values())


@given(statements(), histories(), st.lists(st.integers(1, 60), max_size=4), st.booleans(), st.integers(0, 2))
def test_batches_are_as_events_one_by_one(
    epl: str, events: list[Event], cuts: list[int], stepping: bool, read: int
) -> None:
    one_by_one, run = Run(epl), Run(epl)
    bounds = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    for number, (low, high) in enumerate(pairwise(bounds)):
        part = events[low:high]
        one_by_one.send(part, stepping=stepping)
        if read == 2 and number % 2:
            run.send(part, stepping=stepping)
        else:
            run.replay(part, [], stepping=stepping)
        if read:
            assert run.readings() == one_by_one.readings()
    assert run.deliveries == one_by_one.deliveries
    assert run.readings() == one_by_one.readings()
    assert exact_state(run) == exact_state(one_by_one)
    later = events[-1].time + 10_000 if events else 0
    for either in (run, one_by_one):
        either.runtime.advance(later)
    assert run.deliveries == one_by_one.deliveries
    assert exact_state(run) == exact_state(one_by_one)


def exact_state(run: Run) -> list[Any]:
    """Cells, groups in their order, items and due times; equal for equal state only."""
    found = []
    for statement in run.runtime.statements.values():
        state = statement.state
        view = state.view
        views: Sequence[Any] = [view, *getattr(view, "by_key", {}).values()]
        items = [comparable(list(each.contents())) for each in views]
        groups = None if state.groups is None else [comparable(pair) for pair in state.groups.items()]
        keys = comparable(list(getattr(view, "by_key", ())))
        dues = [each.due for each in views]
        found.append((items, groups, comparable(state.cells), state.ordinal, keys, dues))
    return found
