"""Arrays that follow the partial matches of a pattern give the rows, the order and the state of state nodes."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from cepbook.engine.patterns import statement_pattern
from cepbook.engine.runtime import Config, Runtime
from cepbook.engine.vectorized import chain_matches
from cepbook.engine.vectorized.array_columns import ArrayColumns, ComputedColumn
from cepbook.engine.vectorized.column_batch import ColumnBatch
from tests.engine.histories import (
    GAPS,
    SCHEMA,
    ArrayRun,
    Event,
    Run,
    array_of,
    run_both,
    slices,
    take_all_batches_by_arrays,
)
from tests.engine.histories import KEYS as TEXTS
from tests.engine.sinks import Deltas

CONDITIONS = ("", "x > 0", "x < 1", "g = 1", "k = 'a'", "x = 7", "k in ('a', 'b')", "x > 0, g < 2")
EQUALITIES = ("", "k = a.k", "g = a.g", "k = a.k, g = a.g", "n = a.n", "x = a.g", "n = a.x, k = a.k")
INTS = (0, 1, 2, 7, -1, 2**31 - 1)
LONGS = (0, 1, 2, 7, 2**40, 2**62)
COMPARISONS = (
    "x > a.x", "d >= a.d", "a.x > x", "d < a.d * 2.0, x > a.x", "d + 0.5 > a.d - a.x", "x between 0 and 3",
    "(x > a.x or d > a.d)", "(x = a.x or d < a.d and x > 0)",
)  # fmt: skip
DOUBLES = (None, 0.5, 1.0, -2.0, 7.25, -0.0, math.inf)
PERIODS = ("1 sec", "7 msec", "250 msec", "3.5 sec")
SELECTS = (
    "a.x as ax, a.k as ak, z.x as zx from pattern [{}]",
    "* from pattern [{}]",
    "count(*) as c, a.g as g from pattern [{}] group by a.g",
    "irstream a.x as ax, sum(a.x) as s from pattern [{}]#length(2)",
)
TIMED_SELECTS = (
    "irstream a.n as n from pattern [{}]#time(1 sec)",
    "count(*) as c from pattern [{}]#time(3.5 sec)",
    "a.x as ax from pattern [{}] output last every 1 sec",
)


class Chains:
    """Counts the batches that arrays have followed."""

    followed = 0


@pytest.fixture(autouse=True)
def _arrays_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    take_all_batches_by_arrays(monkeypatch)
    follow = statement_pattern.StatementPattern.follow

    def counted(*arguments: Any) -> Any:
        stimuli = follow(*arguments)
        Chains.followed += stimuli is not None
        return stimuli

    monkeypatch.setattr(statement_pattern.StatementPattern, "follow", counted)
    Chains.followed = 0


def random_pattern(random: Random) -> str:
    """A chain of which the last event, if it is not that of a timer, is z."""
    others = random.choice(((), (("B", ("", "x > 0", "k = 'a'"), ("k = a.k", "x = a.x", "k = a.k, x = a.g")),) * 3))

    def atom(tag: str) -> str:
        type_, own, keys = random.choice((("A", CONDITIONS, EQUALITIES), ("A", CONDITIONS, EQUALITIES), *others))
        more = random.choice(COMPARISONS) if type_ == "A" and random.random() < 0.4 else ""
        conditions = ", ".join(filter(None, (random.choice(own), random.choice(keys), more)))
        return f"{tag}{type_}({conditions})" if conditions else f"{tag}{type_}"

    def step(tag: str) -> str:
        waiting = f"timer:interval({random.choice(PERIODS)})" if random.random() < 0.3 else atom(tag)
        operands = [waiting, *(f"not {atom('')}" for _ in range(random.choice((0, 0, 1, 1, 2))))]
        random.shuffle(operands)
        joined = f"({' and '.join(operands)})" if len(operands) > 1 else operands[0]
        return f"({joined} where timer:within({random.choice(PERIODS)}))" if random.random() < 0.4 else joined

    condition = random.choice(CONDITIONS)
    steps = [step(tag) for tag in random.choice((("z=",), ("z=",), ("b=", "z="), ("b=", "c=", "z=")))]
    if len(steps) > 1 and random.random() < 0.3:
        steps = [*steps[:-2], f"(({' -> '.join(steps[-2:])}) where timer:within({random.choice(PERIODS)}))"]
    pattern = " -> ".join([f"every a=A({condition})" if condition else "every a=A", *steps])
    return pattern if "z=" in pattern else pattern.replace("every a=A", "every z=A", 1).replace("a.", "z.")


def random_statement(random: Random) -> str:
    pattern = random_pattern(random)
    select = random.choice((*SELECTS, *TIMED_SELECTS))
    if "every z=" in pattern:
        select = select.replace("a.", "z.")
    elif "z=" not in pattern:
        select = select.replace(", z.x as zx", "")
    reader = "; select ax from S" if random.random() < 0.2 and "ax" in select and "irstream" not in select else ""
    return f"{'insert into S ' if reader else ''}select {select.format(pattern)}{reader}"


def random_history(random: Random) -> list[Event]:
    time, events = random.choice((0, 5000)), []
    for _ in range(random.randint(0, 60)):
        time += random.choice(GAPS)
        values = {"k": random.choice(TEXTS), "x": random.choice(INTS)}
        more = {"n": random.choice(LONGS), "g": random.randint(0, 2), "d": random.choice(DOUBLES), "f": 1.0}
        events.append(Event(time, *random.choice((("A", values | more), ("A", values | more), ("B", values)))))
    return events


@pytest.mark.parametrize("seed", range(6))
def test_batches_are_as_events_one_by_one(seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        epl, events = random_statement(random), random_history(random)
        cuts = [random.randint(1, 60) for _ in range(random.randint(0, 4))]
        compare(epl, events, cuts, random.randint(0, 2), stepping=random.random() < 0.8)
    assert Chains.followed > 15


def compare(epl: str, events: list[Event], cuts: list[int], read: int, *, stepping: bool) -> None:
    """Run events one by one and by arrays (see `run_both`)."""
    one_by_one, run = Run(epl), ArrayRun(epl)
    run_both(one_by_one, run, events, cuts, stepping=stepping, read=read)
    for later in (0, 1000, 10_000):
        for either in (run, one_by_one):
            either.runtime.advance(either.runtime.now + later)
        assert run.deliveries == one_by_one.deliveries, (epl, events, cuts)
        assert run.readings() == one_by_one.readings(), (epl, events, cuts)


FORMS = {
    "every a=A(x > 1) -> b=A(k = a.k, x < 1)": "followed",
    "every a=A -> b=B(k = a.k, x = 2) -> c=C(k = b.k, x = a.g)": "followed",
    "every a=A -> (timer:interval(5 sec) and not A(k = a.k))": "followed",
    "every a=A -> ((b=A(k = a.k) -> c=A(k = a.k)) where timer:within(1 min))": "followed",
    "a=A -> b=A": "it is not of the form `every a=A -> …`",
    "every (a=A -> b=A)": "it is not of the form `every a=A -> …`",
    "every a=A": "it is not of the form `every a=A -> …`",
    "every a=A -> every b=A": "arrays cannot follow an operator in its pattern",
    "every a=A -> b=A(x > a.x) -> c=A(d < a.d * 2.0, k = b.k)": "followed",
    "every a=A -> (b=B(k = a.k, x > a.x) and not C(x < a.x))": "followed",
    "every a=A -> (b=A(x > a.x) and not A(k = a.k))": "arrays cannot follow a range beside an absence in its pattern",
    "every a=A -> b=A(n > a.n)": "arrays cannot follow a condition in its pattern",
    "every a=A -> b=A(x != a.x)": "arrays cannot follow a condition in its pattern",
    "every a=A -> b=A(k like a.k)": "arrays cannot follow a condition in its pattern",
    "every a=A -> b=A(x + 1 > 2)": "arrays cannot follow a condition in its pattern",
    "every a=A -> b=A(d = a.d)": "arrays cannot follow an equality in its pattern",
    "every a=A -> b=A(x + 1 = a.x)": "arrays cannot follow an equality in its pattern",
    "every a=A -> (b=A and c=B)": "arrays cannot follow an operator in its pattern",
    "every a=A -> (b=A or c=B)": "arrays cannot follow an operator in its pattern",
    "every a=A -> (b=A and not (c=B -> d=C))": "arrays cannot follow an operator in its pattern",
    "every a=A -> timer:interval(1 sec) -> b=A": "arrays cannot follow a timer beside other steps in its pattern",
    "every a=A -> timer:interval(a.x)": "arrays cannot follow a period that is not constant in its pattern",
    "every a=A -> (b=A where timer:withinmax(1 sec, 2))": "arrays cannot follow an operator in its pattern",
}


@pytest.mark.parametrize("pattern", FORMS)
def test_each_pattern_has_a_form_or_a_reason(pattern: str) -> None:
    (statement,) = Run(f"select * from pattern [{pattern}]").runtime.statements.values()
    form = statement.pattern_alone.chain
    assert (form if isinstance(form, str) else "followed") == FORMS[pattern]


@pytest.mark.parametrize(
    "epl",
    [
        "create context K partition by k from A; context K select * from pattern [every a=A -> b=A]",
        "select (select count(*) from B#keepall) as n from pattern [every a=A -> b=A(k = a.k)]",
        "select * from pattern [every a=A -> b=A] as p unidirectional, B#keepall as b",
    ],
)
def test_a_pattern_beside_other_inputs_or_in_a_context_gets_its_events_one_by_one(epl: str) -> None:
    *_, statement = Run(epl).runtime.statements.values()
    assert statement.pattern_alone is None


EVENTS = [
    Event(10 * at, "A", {"k": "abc"[at % 3], "g": at % 2, "x": at % 5, "n": at, "d": 0.5, "f": 1.0}) for at in range(60)
]
FOLLOWED = [f"select * from pattern [{pattern}]" for pattern, form in FORMS.items() if form == "followed"]


@pytest.mark.parametrize("epl", FOLLOWED)
def test_a_snapshot_between_two_batches_continues(epl: str) -> None:
    run, sent = ArrayRun(epl), Run(epl)
    run.replay(EVENTS[:30], [], stepping=True)
    saved = run.runtime.snapshot()
    sent.send(EVENTS, stepping=True)
    restored = ArrayRun(epl)
    restored.runtime = Runtime.restored(saved, {})
    (name,) = restored.recorders
    restored.runtime.statement(name).add_sink(restored.recorders[name])
    for either in (run, restored):
        either.replay(EVENTS[30:], [], stepping=True)
        assert either.readings() == sent.readings()
    assert run.deliveries == sent.deliveries
    assert restored.deliveries[name] == [delivery for delivery in sent.deliveries[name] if delivery[0] >= 300]
    assert Chains.followed == 3


@pytest.mark.parametrize("epl", FOLLOWED)
def test_a_limit_of_partial_matches_is_kept(epl: str) -> None:
    config = Config(pattern_limit=4)
    run, sent = ArrayRun(epl, config=config), Run(epl, config=config)
    for either in (run, sent):
        either.runtime.add_error_listener(lambda _: None)
    run.replay(EVENTS, [20, 40], stepping=True)
    sent.send(EVENTS, stepping=True)
    assert run.deliveries == sent.deliveries
    assert run.readings() == sent.readings()
    assert not Chains.followed


@pytest.mark.parametrize("epl", FOLLOWED)
def test_a_clock_that_leaps_passes_deadlines_by_as_events_do(epl: str) -> None:
    run, sent = ArrayRun(epl), Run(epl)
    run.replay(EVENTS, [], stepping=False)
    sent.send(EVENTS, stepping=False)
    assert run.deliveries == sent.deliveries
    assert Chains.followed == ("timer" not in epl)


def test_a_failing_select_is_reported_for_its_match_alone() -> None:
    epl = "@name('s') select inverse(b.n) as n from pattern [every a=A(x = 1) -> b=A(k = a.k)]"
    outcomes = []
    for replayed in (True, False):
        errors: list[str] = []
        deltas = Deltas()
        runtime = Runtime(functions={"inverse": lambda n: 1 // (n - 14)})
        runtime.add_error_listener(lambda error, errors=errors: errors.append(str(error)))
        runtime.deploy(SCHEMA + epl)
        runtime.statement("s").add_sink(deltas)
        if replayed:
            batch = runtime.batch(["A"])
            batch.run(slices(EVENTS, 0, batch.columns, arrays_only=True), range(600))
        else:
            for event in EVENTS:
                runtime.advance(event.time)
                runtime.send(event.type, dict(event.values))
        outcomes.append(([(delta.time, delta.insert) for delta in deltas], errors))
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0][1]) == 1
    assert Chains.followed == 1


@pytest.mark.parametrize("odd", [{"d": math.nan}, {"d": 1}, {"n": None}, {"n": 2**70}, {"k": None}, {"x": None}])
@pytest.mark.parametrize("equality", ["k = a.k", "n = a.n", "x = a.x, k = a.k"])
def test_events_with_odd_values_may_wait_for_a_batch(odd: dict[str, Any], equality: str) -> None:
    epl = f"select a.n as n, b.n as m from pattern [every a=A(g = 1) -> b=A({equality}, d <= a.d, x >= a.x)]"
    events = [event._replace(values=event.values | odd) for event in EVENTS[:6]] + EVENTS[6:]
    run, sent = ArrayRun(epl), Run(epl)
    run.send(events[:6], stepping=True)
    run.replay(events[6:], [], stepping=True)
    sent.send(events, stepping=True)
    assert repr(run.deliveries) == repr(sent.deliveries)
    assert run.readings() == sent.readings()


def test_timers_beside_those_of_a_window_run_by_state_nodes() -> None:
    epl = "select irstream a.n as n from pattern [every a=A(g = 0) -> timer:interval(100 msec)]#time(100 msec)"
    run, sent = ArrayRun(epl), Run(epl)
    run.replay(EVENTS, [], stepping=True)
    sent.send(EVENTS, stepping=True)
    assert run.deliveries == sent.deliveries


def test_older_partial_matches_may_need_the_room_that_is_left() -> None:
    absences = " and ".join(f"not A(k = a.k, g = {g})" for g in (7, 8))
    steps = f"b=A(k = a.k, g = 1) -> (c=A(k = a.k, g = 2) and {absences})"
    epl = f"select a.n as n from pattern [every a=A(g = 0) -> {steps}]"
    rows = [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("b", 1), ("c", 1), ("d", 0), ("d", 1), ("d", 2)]
    events = [Event(10 * at, "A", EVENTS[0].values | {"k": k, "g": g, "n": at}) for at, (k, g) in enumerate(rows)]
    config = Config(pattern_limit=10)
    run, sent = ArrayRun(epl, config=config), Run(epl, config=config)
    for either in (run, sent):
        either.runtime.add_error_listener(lambda _: None)
    run.replay(events[:3], [], stepping=True)
    run.replay(events[3:], [], stepping=True)
    sent.send(events, stepping=True)
    assert run.deliveries == sent.deliveries
    assert run.readings() == sent.readings()


def test_times_may_be_before_1970() -> None:
    epl = "select a.n as n from pattern [every a=A(g = 0) -> timer:interval(1 sec)]"
    run, sent = ArrayRun(epl, start=-5000), Run(epl, start=-5000)
    events = [event._replace(time=4 * event.time - 1001) for event in EVENTS]
    for either in (run, sent):
        either.runtime.advance(-1001)
    run.replay(events, [], stepping=True)
    sent.send(events, stepping=True)
    for either in (run, sent):
        either.runtime.advance(2000)
    assert run.deliveries == sent.deliveries
    assert Chains.followed == 1


def test_a_pattern_of_very_many_events_runs_by_state_nodes() -> None:
    absences = " and ".join(f"not A(x = {at})" for at in range(70))
    (statement,) = Run(f"select * from pattern [every a=A -> (b=A and {absences})]").runtime.statements.values()
    assert statement.pattern_alone.chain == "its pattern has too many events"


def test_bounds_that_most_events_miss_are_left_to_state_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_matches, "_TOGETHER", 1)
    monkeypatch.setattr(chain_matches, "_MOST_TRIES", 1)
    epl = "select a.n as n, b.n as m from pattern [every a=A -> b=A(x > a.x)]"
    run, sent = ArrayRun(epl), Run(epl)
    events = [event._replace(values=event.values | {"x": 50 - at}) for at, event in enumerate(EVENTS)]
    run.replay(events, [], stepping=True)
    sent.send(events, stepping=True)
    assert run.deliveries == sent.deliveries
    assert run.readings() == sent.readings()
    assert not Chains.followed


def test_keys_of_columns_that_are_no_arrays_are_read_as_values() -> None:
    epl = "select a.n as n, b.n as m from pattern [every a=A(g = 1) -> b=A(k = a.k)]"
    run, sent = ArrayRun(epl), Run(epl)
    batch = run.runtime.batch(["A"])
    arrays: dict[str, Any] = {name: array_of([event.values[name] for event in EVENTS]) for name in batch.columns["A"]}
    texts = np.array([event.values["k"] for event in EVENTS], object)
    arrays["k"] = ComputedColumn(lambda part: texts[part].tolist())
    times = [event.time for event in EVENTS]
    columns = ArrayColumns(arrays, arrays.__getitem__, array_of(times), slice(0, len(times)))
    batch.run([ColumnBatch("A", times, columns)], range(times[-1] + 1))
    sent.send(EVENTS, stepping=True)
    assert run.deliveries == sent.deliveries
    assert run.readings() == sent.readings()
    assert Chains.followed == 1
