"""Subqueries that arrays look up give the rows, the order and the state of events one by one."""

from __future__ import annotations

import math
import re
from functools import partial
from random import Random
from typing import Any

import pytest

from cepbook.engine.runtime import Config
from cepbook.engine.vectorized import kernel_library, stream_rows, vectorized_enrichment, vectorized_streams
from tests.engine.histories import (
    GAPS,
    KEYS,
    ArrayRun,
    Event,
    Run,
    compare_over_arrays,
    compare_random_batches,
    compare_runs,
    take_all_batches_by_arrays,
    window_state,
)
from tests.random_cases import seeds

WINDOWS = ("#length(1)", "#length(3)", "#length(6)", "#keepall", "#time(1 sec)", "#time(3 sec)")
FILTERS = ("", "", "(x > 0)", "(k in ('a', 'b'))", "(x between 0 and 2)")
KEYS_OF_ROWS = ("w.k = t.k", "w.x = t.x", "w.k = t.k and w.x = t.x", "t.x = w.x and t.k = w.k", "w.g = t.x")
CONDITIONS = ("", "", " and w.d > t.x", " and w.x <= t.x", " and (w.d < 1.0 or t.x = 2)", " and w.g = 1")
VALUES = (
    *("max(w.d)", "min(w.d)", "sum(w.d)", "avg(w.d)", "count(w.d)", "max(w.d) - min(w.d)", "sum(w.d) / count(*)"),
    *("max(w.x)", "min(w.n)", "sum(w.x)", "sum(w.n)", "avg(w.x)", "avg(w.n)", "count(*)", "w.d", "w.x", "w.k", "w.n"),
)
TESTS = (
    *("exists {}", "not exists {}", "exists {}", "not exists {}", "{} > 1", "{} <= t.x", "t.x in {}"),
    "({} > 0 or t.x = 1)",
)


class Enriched:
    """Counts the batches whose subqueries arrays have looked up."""

    batches = rows = 0


@pytest.fixture(autouse=True)
def _arrays_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_library.kernels(wait=True) is not None, kernel_library.missing_reason()
    take_all_batches_by_arrays(monkeypatch)
    run = vectorized_enrichment.VectorizedEnrichment.run

    def counted(*arguments: Any) -> Any:
        output = run(*arguments)
        if output is not None:
            Enriched.batches += 1
            Enriched.rows += len(output[1])
        return output

    monkeypatch.setattr(vectorized_enrichment.VectorizedEnrichment, "run", counted)
    Enriched.batches = Enriched.rows = 0


def subquery(random: Random, value: str, tie: str | None = None) -> str:
    """A subquery over events of type A or of a subtype."""
    tie = tie or random.choice(KEYS_OF_ROWS)
    window = random.choice(WINDOWS)
    if " and " not in tie and random.random() < 0.3:
        window = f"#unique({re.sub('[wt] *[.]', '', tie.split(' = ')[tie.startswith('t')])})"
    source = f"{random.choice(('A', 'A', 'A', 'Sub'))}{random.choice(FILTERS)}{window} as w"
    return f"(select {value} from {source} where {tie}{random.choice(CONDITIONS)})"


def random_statement(random: Random) -> str:
    outer, tested = random.choice(("A", "B", "B", "Sub")), random.random() < 0.4
    columns = [f"t.{name} as {name}" for name in random.sample(("k", "x"), random.randint(0, 2))]
    number = random.choice((not tested, 1, 1, 2))
    columns += [f"{subquery(random, random.choice(VALUES))} as q{n}" for n in range(number)]
    if random.random() < 0.2:
        columns.append(f"t.x * 1.5 - {subquery(random, random.choice(VALUES[:4]))} as change")
    text = f"select {', '.join(columns or ['t.x as x'])} from {outer}{random.choice(FILTERS)} as t"
    if tested:
        test = random.choice(TESTS)
        value = {"t.x in {}": "w.x", "{} <= t.x": "max(w.d)"}.get(test, "count(*)")
        if "exists" in test:
            value = random.choice(("*", "*", "w.d", "distinct w.x", "count(*)", "max(w.d)"))
        text += f" {random.choice(('where', 'having'))} {test.format(subquery(random, value))}"
    if random.random() < 0.2:
        return f"@name('s') insert into O {text}; @name('o') select * from O"
    return f"@name('s') {text}"


def random_history(random: Random, epl: str) -> list[Event]:
    """Events of the types that a statement reads."""
    types = [name for name in ("A", "B", "Sub") if re.search(rf"\b{name}\b", epl)]
    time, events, wild = random.choice((0, 5000)), list[Event](), random.random() < 0.1
    for _ in range(random.randint(0, 70)):
        time += random.choice(GAPS)
        values: dict[str, Any] = {"k": random.choice(KEYS), "x": random.choice((None, 0, 1, 2))}
        name = random.choice(types)
        if name != "B":
            values |= {"g": random.randint(0, 2), "n": random.choice((2**52 if wild else 7, 3, None)), "f": 1.0}
            values["d"] = random.choice((None, 0.5, 0.1, -2.0, 7.25, -0.0, 0.0, math.nan if wild else math.inf))
        if name == "Sub":
            values["z"] = 0
        events.append(Event(time, name, values))
    return events


def exact_state(run: Run) -> list[Any]:
    """Windows, relations with their indexes, ordinals and due times of the subqueries."""
    statement = run.runtime.statements["s"]
    state: list[Any] = [statement.state.ordinal, statement.timed.due, statement.timed.missing(run.runtime.now)]
    return state + [window_state(own, own.relation) for own in statement.state.subqueries]


compare = partial(compare_over_arrays, exact_state)


@pytest.mark.parametrize("seed", seeds(8))
def test_batches_are_as_events_one_by_one(seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        epl = random_statement(random)
        events = random_history(random, epl)
        compare_random_batches(random, exact_state, epl, events)
    assert Enriched.batches > 20
    assert Enriched.rows > 100


OF_STORE = "a subquery reads a named window or table"
OF_AGGREGATES = "a condition on aggregates of a subquery is not computed over arrays"
NO_KEY = "no texts, whole numbers or booleans of the event and of the rows of a subquery must be equal"
NOT_ONE_ROW = "not every event is delivered at once as one insert row"
CLAUSE = "a subquery has a clause that is not computed over arrays"
FORMS = {
    "select (select max(d) from A#length(3) as w where w.k = t.k) as q from B as t": "arrays",
    "select x from B as t where exists (select * from A#time(1 sec) as w where w.k = t.k)": "arrays",
    "select x from B as t where k in (select k from A#keepall)": "arrays",
    "select x from B as t where k not in (select k from A#keepall)": (
        "an expression with a subquery is not computed over arrays"
    ),
    "select x from B as t where exists (select count(*) from A#keepall as w where w.k = t.k)": OF_AGGREGATES,
    "select x from B as t where x > all (select max(x) from A#keepall as w where w.k = t.k)": OF_AGGREGATES,
    "select x from B as t where exists (select distinct d from A#keepall as w where w.k = t.k)": "arrays",
    "select (select max(d) from A#length(3)) as q from B as t": "a subquery reads nothing of the event",
    "select (select d from W where k = t.k) as q from B as t": OF_STORE,
    "select (select max(d) from A#length(3) as w where w.d > t.x) as q from B as t": NO_KEY,
    "select (select max(d) from A#length(3) as w where w.d = t.x) as q from B as t": NO_KEY,
    "select (select max(d) from A#length(3) as w where w.k = t.k || 'b') as q from B as t": NO_KEY,
    "select (select max(d) from A#unique(x) as w where w.k = t.k) as q from B as t": (
        "the key of `unique` is not the one that is looked up"
    ),
    "select (select d, x from A#length(3) as w where w.k = t.k) as q from B as t": (
        "a subquery returns several values, or is compared in a way that arrays do not compute"
    ),
    "select (select distinct d from A#length(3) as w where w.k = t.k) as q from B as t": CLAUSE,
    "select (select max(d) from A#length(3) as w where w.k = t.k having max(d) > 1) as q from B as t": CLAUSE,
    "select x from B((select max(d) from A#length(3) as w where w.k = B.k) > 1)": "a filter reads a subquery",
    "select irstream (select max(d) from A#length(3) as w where w.k = t.k) as q from B#length(2) as t": NOT_ONE_ROW,
    "select *, (select max(d) from A#length(3) as w where w.k = t.k) as q from B as t": NOT_ONE_ROW,
    "select x from B as t where exists (select * from A#time(1 sec) as w where w.k = t.k) output last every 2 events": (
        NOT_ONE_ROW
    ),
}


@pytest.mark.parametrize("text", FORMS)
def test_each_statement_has_a_form_or_a_reason(text: str) -> None:
    run = Run(f"create window W#keepall as A; @name('s') {text}")
    form = run.runtime.statements["s"].program.kernel_form()
    assert (form if isinstance(form, str) else "arrays") == FORMS[text]


BEST = "@name('s') select (select max(d) from A#time(1 sec) as w where w.k = t.k) as q from B as t"


def events_of(count: int, gap: int = 100) -> list[Event]:
    """Two events of type B after one of type A."""
    events = []
    for at in range(count):
        values: dict[str, Any] = {"k": "abc"[at % 5 % 3], "x": at}
        if at % 3 == 0:
            values |= {"g": 0, "n": 0, "f": 0.0, "d": at / 2}
        events.append(Event(at * gap, "B" if at % 3 else "A", values))
    return events


def test_a_sum_that_may_not_be_exact_is_left_to_the_row_engine() -> None:
    epl = "@name('s') select (select sum(w.n) from A#keepall as w where w.k = t.k) as q from B as t"
    events = [e._replace(values=e.values | {"n": 2**52}) if e.type == "A" else e for e in events_of(30)]
    compare(epl, events, [4], stepping=False, read=1)
    assert Enriched.batches == 1


def test_without_kernels_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorized_enrichment, "kernels", lambda count: None)
    run = compare(BEST, events_of(60), [20, 40], stepping=True, read=1)
    assert Enriched.batches == 0
    vectorized = run.runtime.statements["s"].vectorized
    assert [stream.count for stream in vectorized._streams] == [0, 0]
    exists = "@name('s') select x from B as t where exists (select * from A#keepall as w where w.k = t.k)"
    compare(exists, events_of(60), [20, 40], stepping=True, read=1)
    assert Enriched.batches == 3


def test_too_many_pairs_are_left_to_the_row_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorized_streams, "_PAIRS", 1)
    run = compare(BEST.replace("time(1 sec)", "keepall"), events_of(60), [6, 30], stepping=False, read=1)
    assert Enriched.batches == 1
    assert [stream.count for stream in run.runtime.statements["s"].vectorized._streams] == [0, 0]


def test_a_clock_that_leaps_counts_late_timers() -> None:
    compare(BEST, events_of(30, gap=900), [], stepping=False, read=1)
    assert Enriched.batches == 0
    compare(BEST, events_of(30, gap=900), [], stepping=True, read=1)
    assert Enriched.batches == 1


def test_subqueries_that_see_events_after_the_statement_are_left_to_the_row_engine() -> None:
    config = Config(self_subselect_preeval=False)
    epl = "@name('s') select (select max(w.x) from A#length(2) as w where w.k = t.k) as q from A as t"
    one_by_one, run = Run(epl, config=config), ArrayRun(epl, config=config)
    compare_runs(one_by_one, run, events_of(30), [], exact_state, stepping=False, read=1)
    assert Enriched.batches == 0


@pytest.mark.parametrize("place", ["_output", "_looked_up", "_times", "_partners", "expire", "adopt", "read"])
def test_a_failure_leaves_everything_as_it_was(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner: Any = vectorized_enrichment.VectorizedEnrichment if place[0] == "_" else stream_rows.StreamRows
    function, calls = getattr(owner, place), iter(range(100))

    def failing(*arguments: Any) -> Any:
        if next(calls) in (1, 3, 6):  # of the subquery in the first and in a later batch
            raise MemoryError
        return function(*arguments)

    monkeypatch.setattr(owner, place, failing)
    compare(BEST, events_of(75), [15, 30, 45, 60], stepping=True, read=1)
    assert 2 <= Enriched.batches <= 3


@pytest.mark.parametrize("place", ["_read", "_times", "_output", "enter", "expire"])
@pytest.mark.parametrize("behind", [False, True])
def test_an_interrupt_leaves_everything_as_it_was(place: str, behind: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    owner: Any = vectorized_enrichment.VectorizedEnrichment if place[0] == "_" else stream_rows.StreamRows
    function = getattr(owner, place)

    def interrupted(*arguments: Any) -> Any:
        if behind:
            function(*arguments)
        raise KeyboardInterrupt

    events = events_of(30)
    one_by_one, run = Run(BEST), ArrayRun(BEST)
    one_by_one.send(events[:10], stepping=True)
    run.replay(events[:10], [], stepping=True)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(owner, place, interrupted)
        run.replay(events[10:20], [], stepping=True)
    assert exact_state(run) == exact_state(one_by_one)
