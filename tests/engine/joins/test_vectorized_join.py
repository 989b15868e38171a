"""Joins over arrays give the rows, the order and the state of events one by one."""

from __future__ import annotations

import math
import re
from functools import partial
from random import Random
from typing import Any

import pytest

from cepbook.engine.vectorized import stream_rows, vectorized_join, vectorized_streams
from cepbook.engine.vectorized.row_store import coded
from tests.engine.histories import (
    GAPS,
    KEYS,
    ArrayRun,
    Event,
    Run,
    compare_over_arrays,
    compare_random_batches,
    take_all_batches_by_arrays,
    window_state,
)
from tests.random_cases import seeds

WINDOWS = ("#length(1)", "#length(2)", "#length(5)", "#keepall", "#time(1 sec)", "#time(2 sec)")
FILTERS = ("", "", "(x > 0)", "(x <= 1)", "(k = 'a')", "(k in ('a', 'b'), x < 2)", "(x between 0 and 2)")
KEYS_OF_PAIRS = ("a.k = b.k", "a.x = b.x", "a.k = b.k and a.x = b.x", "b.x = a.x", "a.k = b.k and b.k = a.k")
CONDITIONS = ("", "", " and a.x > b.x", " and (a.x >= b.x or b.x = 1)", " and a.x + 0.5 < b.x * 2.0")
COLUMNS = ("a.x as p, b.x as q", "a.k as p", "b.k as p, a.x as q, a.x as r", "a.x * 1.5 as p, b.k as q")
OF_A = (" and a.d > b.x", " and a.g = b.x", " and a.d * 2.0 - b.x >= 1.0")
MORE_OF_A = ("a.d as p, b.x as q", "a.g as p, a.n as q, b.k as r", "a.d / 2.0 as p, b.x as q")
INTS = (0, 1, 2, 3)
DOUBLES = (None, 0.5, 1.0, -2.0, 7.25, -0.0, math.inf)


class Joined:
    """Counts the batches that arrays have joined."""

    batches = rows = 0


@pytest.fixture(autouse=True)
def _arrays_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    take_all_batches_by_arrays(monkeypatch)
    run = vectorized_join.VectorizedJoin.run

    def counted(*arguments: Any) -> Any:
        output = run(*arguments)
        if output is not None:
            Joined.batches += 1
            Joined.rows += len(output[1])
        return output

    monkeypatch.setattr(vectorized_join.VectorizedJoin, "run", counted)
    Joined.batches = Joined.rows = 0


def random_statement(random: Random) -> str:
    types = random.choice((("A", "A"), ("A", "B"), ("B", "B"), ("B", "A"), ("A", "C"), ("A", "Sub"), ("Sub", "B")))
    filters = [random.choice(FILTERS) for _ in types]
    windows = [random.choice(WINDOWS) for _ in types]
    marks = [""] * 2
    if random.random() < 0.25:
        marks[random.randint(0, 1)] = " unidirectional"
        windows[marks.index(" unidirectional")] = ""
    conditions, columns = CONDITIONS, COLUMNS
    if types[0] in ("A", "Sub"):
        conditions, columns = (*CONDITIONS, *OF_A), (*COLUMNS, *MORE_OF_A)
    tie = random.choice(KEYS_OF_PAIRS)
    for number, window in enumerate(windows):
        if window and " and " not in tie and random.random() < 0.3:
            windows[number] = f"#unique({tie[2]})"
    parts = [f"{t}{f}{w} as {n}{m}" for t, f, w, n, m in zip(types, filters, windows, "ab", marks, strict=True)]
    where = tie + random.choice(conditions)
    text = f"{', '.join(parts)} where {where}"
    if random.random() < 0.4:
        kind = random.choice(("inner", "left outer", "right outer", "full outer"))
        text = f"{parts[0]} {kind} join {parts[1]} on {where}"
        if "unidirectional" not in text and random.random() < 0.5:
            text += " where a.x < 3"
    insert, having = random.choice((("", ""), ("", " having a.x > 0"), ("insert into O ", "")))
    after = "; @name('o') select * from O" if insert else ""
    return f"@name('s') {insert}select {random.choice(columns)} from {text}{having}{after}"


def random_history(random: Random, epl: str) -> list[Event]:
    """Events of the types that a statement reads, some of a subtype."""
    types = [name for name in ("A", "B", "C", "Sub") if re.search(rf"\b{name}\b", epl)]
    types += ["Sub"] * ("A" in types and random.random() < 0.1)
    time, events, odd = random.choice((0, 5000)), list[Event](), random.random() < 0.1
    for _ in range(random.randint(0, 70)):
        time += random.choice(GAPS)
        values: dict[str, Any] = {"k": random.choice(KEYS), "x": random.choice((*INTS, None))}
        name = random.choice(types)
        if name in ("A", "Sub"):
            values |= {"g": random.randint(0, 2), "n": 2**40 + random.randint(0, 2), "f": 1.0}
            values["d"] = random.choice((*DOUBLES, math.nan) if odd else DOUBLES)
        if name == "Sub":
            values["z"] = 0
        if name == "C":
            values["c"] = random.randint(0, 2)
        events.append(Event(time, name, values))
    return events


def exact_state(run: Run) -> list[Any]:
    """The windows, relations with their indexes, ordinals and due times of the streams."""
    statement = run.runtime.statements["s"]
    view = statement.state.view
    state: list[Any] = [view.due, statement.timed.due, statement.timed.missing(run.runtime.now)]
    return state + [window_state(own, relation) for own, relation in zip(view.states, view.relations, strict=True)]


compare = partial(compare_over_arrays, exact_state)


@pytest.mark.parametrize("seed", seeds(8))
def test_batches_are_as_events_one_by_one(seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        epl = random_statement(random)
        events = random_history(random, epl)
        compare_random_batches(random, exact_state, epl, events)
    assert Joined.batches > 40
    assert Joined.rows > 100


OTHER_KEY = "the key of `unique` is not the one that is looked up"
FORMS = {
    "a.x as p from A#length(2) as a, B#keepall as b where a.k = b.k": "arrays",
    "a.x as p from A as a unidirectional, B#time(1 sec) as b where a.k = b.k and a.x > b.x": "arrays",
    "irstream a.x as p from A#length(2) as a, B#keepall as b where a.k = b.k": (
        "not every pair of events is delivered at once as one insert row"
    ),
    "a.x as p from A#length(2) as a, B#keepall as b where a.k = b.k order by a.x": (
        "not every pair of events is delivered at once as one insert row"
    ),
    "a.x as p from A#length(2) as a, B#keepall as b": (
        "no texts, whole numbers or booleans of the two streams must be equal"
    ),
    "a.x as p from A#length(2) as a, B#keepall as b, B#length(3) as c where a.k = b.k and b.k = c.k": (
        "it joins more than two streams, or is in a context"
    ),
    "a.x as p from A#length(2) as a, B#unique(k) as b where a.k = b.k": "arrays",
    "a.x as p from A#length(2) as a, B#unique(x) as b where a.k = b.k": OTHER_KEY,
    "a.x as p from A#length(2) as a, B#unique(k, k) as b where a.k = b.k": OTHER_KEY,
    "a.x as p from A#time(10000000000000000 sec) as a, B#length(2) as b where a.k = b.k": "`time` has no kernel",
    "a.x as p from A#length(2) as a, B#lastevent as b where a.k = b.k": "`lastevent` has no kernel",
    "a.f as p from A#length(2) as a, B#keepall as b where a.k = b.k": (
        "it reads values that are no numbers, booleans or strings"
    ),
    "a.x as p from A(x % 2 = 0)#length(2) as a, B#keepall as b where a.k = b.k": (
        "a filter is none that columns evaluate"
    ),
    "a.x as p from A#length(2) as a, B#keepall as b where a.k = b.k and a.n > b.x": (
        "a.n > b.x is not computed over arrays"
    ),
}


@pytest.mark.parametrize("text", FORMS)
def test_each_join_has_a_form_or_a_reason(text: str) -> None:
    form = Run(f"@name('s') select {text}").runtime.statements["s"].program.kernel_form()
    assert (form if isinstance(form, str) else "arrays") == FORMS[text]


def event(at: int, name: str, k: str | None, x: int) -> Event:
    more = {"g": 0, "n": 0, "d": 0.0, "f": 0.0} if name == "A" else {}
    return Event(at, name, {"k": k, "x": x, **more})


def test_too_many_pairs_are_left_to_the_row_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorized_streams, "_PAIRS", 5)
    epl = "@name('s') select a.x as p, b.x as q from A#keepall as a, B#keepall as b where a.k = b.k"
    events = [event(at, "AB"[at % 2], "a", at) for at in range(40)]
    compare(epl, events, [6], stepping=False, read=0)
    assert Joined.batches == 1


def test_windows_far_larger_than_a_batch_are_left_to_the_row_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorized_streams, "_RETAINED", 2)
    epl = "@name('s') select a.x as p, b.x as q from A#keepall as a, B#keepall as b where a.k = b.k"
    events = [event(at, "AB"[at % 2], "abc"[at % 3], at) for at in range(40)]
    compare(epl, events, [20, 25], stepping=False, read=0)
    assert Joined.batches == 2


def test_codes_of_texts_begin_anew_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorized_streams, "MOST_CODES", 3)
    epl = "@name('s') select a.k as p, b.x as q from A#length(2) as a, B#length(2) as b where a.k = b.k"
    events = [event(at, "AB"[at % 2], str(at // 4), at) for at in range(120)]
    run = compare(epl, events, list(range(10, 120, 10)), stepping=False, read=0)
    assert Joined.batches == 12
    assert all(coded(stream.rows) < 20 for stream in run.runtime.statements["s"].vectorized._streams)


@pytest.mark.parametrize("place", ["_output", "_times", "expire", "adopt", "read"])
def test_a_failure_leaves_everything_as_it_was(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    epl = "@name('s') select a.x as p, b.x as q from A#time(1 sec) as a, B#unique(k) as b where a.k = b.k"
    events = [event(at * 100, "AB"[at % 2], "ab"[at % 3 % 2], at) for at in range(75)]
    owner = vectorized_join.VectorizedJoin if place.startswith("_") else stream_rows.StreamRows
    function, calls = getattr(owner, place), iter(range(100))

    def failing(*arguments: Any) -> Any:
        if next(calls) in (1, 3, 6):  # of the second stream in the first and in a later batch
            raise MemoryError
        return function(*arguments)

    monkeypatch.setattr(owner, place, failing)
    compare(epl, events, [15, 30, 45, 60], stepping=True, read=1)
    assert 2 <= Joined.batches <= 3


def test_an_interrupt_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    epl = "@name('s') select a.x as p, b.x as q from A#length(2) as a, B#unique(k) as b where a.k = b.k"
    events = [event(at, "AB"[at % 2], "ab"[at % 3 % 2], at) for at in range(30)]
    one_by_one, run = Run(epl), ArrayRun(epl)
    one_by_one.send(events[:10])
    run.replay(events[:10], [])
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(stream_rows.StreamRows, "expire", raising(KeyboardInterrupt))
        run.replay(events[10:20], [])
    assert exact_state(run) == exact_state(one_by_one)


def raising(failure: type[BaseException]) -> Any:
    def fail(*_: Any) -> None:
        raise failure

    return fail


def test_a_stream_without_events_for_long_is_loaded_again() -> None:
    epl = "@name('s') select a.x as p, b.x as q from A#length(2) as a, B#keepall as b where a.k = b.k"
    events = [event(at, "B", "abc"[at % 3], at) for at in range(20)]
    events += [event(at, "A", "abc"[at % 3], at) for at in range(20, 100)]
    compare(epl, events, list(range(20, 100, 10)), stepping=False, read=1)
    assert Joined.batches > 5


def test_texts_of_a_large_table_get_codes_when_they_occur() -> None:
    epl = "@name('s') select a.k as p, b.k as q, b.x as r from A#length(2) as a, B#length(2) as b where a.x = b.x"
    events = [event(at, "AB"[at % 2], f"k{at}", at // 2 % 3) for at in range(200)]
    compare(epl, events, list(range(10, 200, 10)), stepping=False, read=0)
    assert Joined.batches == 20


def test_a_clock_that_leaps_counts_late_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    epl = "@name('s') select a.x as p, b.x as q from A#time(1 sec) as a, B#length(3) as b where a.k = b.k"
    events = [event(at * 900, "AB"[at % 2], "a", at) for at in range(20)]
    compare(epl, events, [], stepping=False, read=1)
    assert Joined.batches == 0
    compare(epl, events, [], stepping=True, read=1)
    assert Joined.batches == 1
