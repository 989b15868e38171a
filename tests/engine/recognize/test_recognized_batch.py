"""Arrays that find the matches of `match_recognize` give the rows, the order and the state of rows one by one."""

from __future__ import annotations

import math
from functools import partial
from random import Random
from typing import Any

import pytest

from cepbook.engine.config import Config
from cepbook.engine.recognize import recognized_batch
from cepbook.engine.replay import statement_pass
from cepbook.engine.vectorized import kernel_library, partitioned_rows, row_matches
from cepbook.errors import StatementError
from tests.engine.histories import (
    GAPS,
    KEYS,
    ArrayRun,
    Event,
    Run,
    comparable,
    compare_over_arrays,
    compare_random_batches,
    take_all_batches_by_arrays,
)

PATTERNS = (
    "X Y", "X Y Z", "X Y+ Z", "X Y* Z", "X Y? Z", "X Y{2,} Z", "X{2} Y", "(X Y)+ Z", "X (Y|Z)", "X (Y|Z) X", "X+",
    "X*? Y", "X+? Y Z*", "(X|Y)+ Z", "match_recognize_permute(X, Y, Z)", "X Y Y", "X (Y Z)* Y", "X", "X Y{1,3}? Z",
)  # fmt: skip
CONDITIONS = (
    "{0}.x > 0", "{0}.x < 1", "{0}.x = 7", "{0}.x > prev({0}.x)", "{0}.x <= prev({0}.x)", "{0}.d > prev({0}.d, 2)",
    "{0}.k = 'a'", "{0}.k in ('a', 'b') and {0}.x > 0", "{0}.x > 0 and ({0}.d > 0.5 or {0}.x > prev({0}.x))",
    "{0}.d - prev({0}.d) > 0.5", "{0}.d * 2.0 >= {0}.x", "prev({0}.x) = 7", "{0}.x between 0 and 2", "{0}.g = 1",
)  # fmt: skip
OF_ONE = ("{0}.x", "{0}.k", "{0}.d", "{0}.g")  # of the only row of a variable
OF_SEVERAL = (
    "first({0}.d)", "last({0}.x)", "last({0}.k)", "first({0}.x)", "count({0}.d)", "sum({0}.x)", "avg({0}.d)",
    "count(distinct {0}.x)", "max({0}.d)", "window({0}.x)", "stddev({0}.d)",
)  # fmt: skip
FROM_ROWS = ("{0}.countOf()", "sum({0}.x * 2)", "{0}.x + {0}.x")  # not computed by arrays
SELECTS = (
    "select * from A match", "select * from A match", "select * from A(x > -1) match", "select m1, m0 from A match",
    "select m0 as r from A match", "select * from A match where x > -1", "select count(*) as c from A match",
    "select * from A match output every 2 events", "select * from A match output last every 1 sec",
    "select irstream * from A match", "select distinct m0 from A match",
    "insert into O select * from A match; @name('o') select * from O",
    "insert into O select m1 as v from A match; @name('o') select irstream v from O#length(2)",
)  # fmt: skip
INTS = (0, 1, 2, 7, -1)
DOUBLES = (None, 0.5, 1.0, -2.0, 7.25, -0.0, math.inf)


@pytest.fixture(autouse=True)
def _arrays_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    take_all_batches_by_arrays(monkeypatch)
    monkeypatch.setattr(partitioned_rows, "LEAST_ROWS", 0)
    monkeypatch.setattr(statement_pass, "recognized_batch", _counted(recognized_batch.recognized_batch))
    Recognized.batches = Recognized.columns = 0


class Recognized:
    """Counts the batches whose matches arrays have found, and those whose measures are columns."""

    batches = columns = 0


def _counted(recognize: Any) -> Any:
    def counted(*arguments: Any) -> Any:
        recognized = recognize(*arguments)
        if recognized is not None:
            Recognized.batches += 1
            measures = recognized.measures

            def counted_measures(names: Any) -> Any:
                columns = measures(names)
                Recognized.columns += columns is not None
                return columns

            recognized.measures = counted_measures
        return recognized

    return counted


def random_statement(random: Random) -> str:
    """A statement whose conditions read no rows of the match."""
    pattern = random.choice(PATTERNS)
    spelled = pattern.replace("match_recognize_permute", "")
    names = [name for name in "XYZ" if name in spelled]
    several = [name for name in names if spelled.count(name) > 1 or spelled.partition(name)[2][:1] in ("+", "*", "{")]
    if ")+" in spelled or ")*" in spelled:
        several += spelled.partition("(")[2].partition(")")[0]
    measures = []
    for number in range(2):
        name = random.choice(names)
        kinds = OF_SEVERAL if name in several else OF_ONE
        kinds = (FROM_ROWS[:2] if name in several else FROM_ROWS[2:]) if random.random() < 0.15 else kinds
        measures.append(f"{random.choice(kinds).format(name)} as m{number}")
    defined = [f"{name} as {random.choice(CONDITIONS).format(name)}" for name in names if random.random() < 0.75]
    keys = random.choice(("", "partition by k ", "partition by g ", "partition by k, g ", "partition by x "))
    clause = f" match_recognize ({keys}measures {', '.join(measures)} pattern ({pattern})"
    clause += f" define {', '.join(defined)})" if defined else ")"
    return f"@name('s') {random.choice(SELECTS).replace(' match', clause, 1)}"


def random_history(random: Random) -> list[Event]:
    time, events, odd = random.choice((0, 5000)), list[Event](), random.random() < 0.2
    for _ in range(random.randint(0, 60)):
        time += random.choice(GAPS)
        d = random.choice((*DOUBLES, math.nan) if odd else DOUBLES)
        values = {"k": random.choice(KEYS), "x": random.choice(INTS), "n": 2**40, "f": 1.0}
        events.append(Event(time, "A", values | {"g": random.randint(0, 2), "d": d}))
    return events


@pytest.mark.parametrize("seed", range(8))
def test_batches_are_as_events_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    kernels = kernel_library.kernels(wait=True) if seed % 2 else None
    monkeypatch.setattr(row_matches, "kernels", lambda _: kernels)
    for _ in range(60):
        epl, events = random_statement(random), random_history(random)
        compare_random_batches(random, exact_state, epl, events, cut=60, steps=0.5)
    assert Recognized.batches > 60
    assert Recognized.columns > 20


def exact_state(run: Run) -> list[Any]:
    """The partitions in their order, with their open matches, and the counters."""
    statement = run.runtime.statements["s"]
    view, state = statement.state.view.then, statement.state
    partitions = []
    for key, partition in view.partitions.items():
        matches = [partition.closed(match, view.form.variables) for match in partition.open]
        rows = [(*match[:3], view.form.named(match[3]), *match[4:]) for match in matches]
        partitions.append((comparable(key), comparable(rows), comparable(partition.before)))
    return [partitions, view.size, view.serial, state.ordinal]


compare = partial(compare_over_arrays, exact_state)


FORMS = {
    "measures X.x as a pattern (X Y) define Y as Y.x > prev(Y.x)": "arrays",
    "partition by k, g measures X.x as a pattern (X Y) define Y as Y.k = 'a' and Y.d > 0.5": "arrays",
    "measures X.x as a pattern (X Y) define Y as Y.x > X.x": "the condition of Y reads other rows of the match",
    "measures X.x as a pattern (X Y) define Y as Y.n > prev(Y.n)": "the condition of Y is none that arrays evaluate",
    "measures X.x as a pattern (X Y) define Y as Y.x % 2 = 0": "the condition of Y is none that arrays evaluate",
    "measures X.x as a after match skip to next row pattern (X Y)": (
        "rows leave, or more is reported than the earliest match at once"
    ),
    "partition by d measures X.x as a pattern (X Y)": (
        "not all keys of its partitions are texts, whole numbers or booleans"
    ),
    f"measures A0.x as a pattern ({' '.join(f'A{number}' for number in range(9))})": "it has too many variables",
}


@pytest.mark.parametrize("clause", FORMS)
def test_each_clause_has_a_form_or_a_reason(clause: str) -> None:
    run = Run(f"@name('s') select * from A match_recognize ({clause})")
    form = run.runtime.statements["s"].program.recognize.arrays()
    assert (form if isinstance(form, str) else "arrays") == FORMS[clause]


@pytest.mark.parametrize(
    ("epl", "columns"),
    [
        ("select * from A match", ("a", "b")),
        ("select b as c, a from A match", ("b", "a")),
        ("select *, a as c from A match", None),
        ("select a + 1 as c from A match", None),
        ("select irstream a from A match", None),
        ("select distinct a from A match", None),
        ("select a from A match output last every 1 sec", None),
        ("select a from A match order by b", None),
        ("select count(*) as c from A match", None),
    ],
)
def test_measures_are_columns_where_each_match_is_a_row(epl: str, columns: tuple[str, ...] | None) -> None:
    clause = "match_recognize (measures X.x as a, Y.x as b pattern (X Y))"
    run = Run(f"@name('s') {epl.replace('match', clause, 1)}")
    assert run.runtime.statements["s"].program.match_columns == columns


def test_long_matches_and_matches_over_several_batches() -> None:
    epl = "@name('s') select * from A match_recognize (measures X.x as a, first(Y.x) as b, last(Y.x) as c, Z.x as d "
    epl += "pattern (X Y+ Z) define Y as Y.x > prev(Y.x), Z as Z.x < prev(Z.x))"
    events = [Event(at, "A", {"k": "a", "g": 0, "x": at % 97, "n": 0, "d": 0.0, "f": 0.0}) for at in range(500)]
    compare(epl, events, [150, 160, 333], stepping=False, read=1)


def test_ever_more_states_are_left_to_the_row_engine() -> None:
    clause = "measures X.x as a, last(Y.x) as b pattern (X Y{1,40} Z) define X as X.x > 0, Z as Z.g = 9"
    random = Random(7)
    values = [{"x": random.choice(INTS), "g": 9 * (at % 83 == 82)} for at in range(900)]
    events = [Event(at, "A", {"k": "a", "n": 0, "d": 0.0, "f": 0.0} | own) for at, own in enumerate(values)]
    run = compare(f"@name('s') select * from A match_recognize ({clause})", events, [300, 600], stepping=False, read=1)
    assert run.deliveries["s"]
    assert Recognized.batches < 3


def outcome(run: Run, parts: list[list[Event]]) -> tuple[Any, Any, int]:
    """Deliveries, exact state and the number of failures of parts that are sent or replayed."""
    failures: list[BaseException] = []
    for part in parts:
        for events in [part] if isinstance(run, ArrayRun) else [[event] for event in part]:
            try:
                run.replay(events, []) if isinstance(run, ArrayRun) else run.send(events)
            except StatementError as failure:
                failures += failure.__cause__.exceptions if isinstance(failure.__cause__, ExceptionGroup) else [failure]
    return run.deliveries, exact_state(run), len(failures)


@pytest.mark.parametrize("columns", ["*", "a"])
@pytest.mark.parametrize("text_at", [3, 9])  # in a match over two batches, and in one within a batch
def test_a_match_whose_measure_fails_has_no_row(columns: str, text_at: int) -> None:
    epl = f"create schema O(x int, o object); @name('s') select {columns} from O match_recognize (measures X.x as a, "
    epl += "max(Y.o) as m pattern (X Y+ Z) define Z as Z.x = 0)"
    events = [Event(at, "O", {"x": (at + 1) % 6, "o": "q" if at == text_at else at}) for at in range(24)]
    parts = [events[:4], events[4:20], events[20:]]
    by_rows, by_arrays = outcome(Run(epl), parts), outcome(ArrayRun(epl), parts)
    assert by_arrays[:2] == by_rows[:2]
    assert by_arrays[2] == by_rows[2] == 1
    assert len(by_rows[0]["s"]) == 3


def test_a_condition_that_fails_for_the_first_row_of_a_batch_ends_the_open_matches() -> None:
    epl = "@name('s') select * from A match_recognize (measures X.x as a, Y.x as b pattern (X Y) define Y as "
    epl += "Y.x > prev(Y.x))"
    values = {"k": "a", "g": 0, "n": 0, "d": 0.0, "f": 0.0}
    events = [Event(at, "A", values | {"x": "q" if at == 3 else at}) for at in range(12)]
    runs = Run(epl), ArrayRun(epl)
    for run in runs:
        run.send(events[:3])
        with pytest.raises(StatementError):
            run.send(events[3:4])
    assert outcome(runs[0], [events[4:]]) == outcome(runs[1], [events[4:]])


def test_whole_numbers_that_a_float_would_round_are_compared_exactly() -> None:
    epl = "@name('s') select * from A match_recognize (measures X.x as a, Y.x as b pattern (X Y) define Y as "
    epl += "Y.x > prev(Y.x))"
    events = [Event(at, "A", {"k": "a", "g": 0, "x": 2**53 + at, "n": 0, "d": 0.0, "f": 0.0}) for at in range(20)]
    assert len(compare(epl, events, [], stepping=False, read=0).deliveries["s"]) == 10


def test_a_whole_number_is_compared_with_a_fraction() -> None:
    epl = "@name('s') select * from A match_recognize (measures X.x as a pattern (X Y) define Y as Y.x > 2.5)"
    events = [Event(at, "A", {"k": "a", "g": 0, "x": at % 5, "n": 0, "d": 0.0, "f": 0.0}) for at in range(20)]
    compare(epl, events, [], stepping=False, read=0)
    assert Recognized.batches == 1


def test_many_partitions_of_few_rows_are_left_to_the_row_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned_rows, "LEAST_ROWS", 8)
    epl = "@name('s') select * from A match_recognize (partition by x measures X.x as a pattern (X Y))"
    events = [Event(at, "A", {"k": "a", "g": 0, "x": at % 10, "n": 0, "d": 0.0, "f": 0.0}) for at in range(160)]
    compare(epl, events, [79], stepping=False, read=0)
    assert Recognized.batches == 1


def test_more_open_matches_than_allowed_are_left_to_the_row_engine() -> None:
    clause = "partition by x measures X.x as a pattern (X Y) define Y as Y.g = 9"
    epl = f"@name('s') select * from A match_recognize ({clause})"
    events = [Event(at, "A", {"k": "a", "g": 0, "x": at, "n": 0, "d": 0.0, "f": 0.0}) for at in range(50)]
    runs = [kind(epl, config=Config(recognize_limit=20)) for kind in (Run, ArrayRun)]
    failures = []
    for run in runs:
        with pytest.raises(StatementError) as failure:
            run.replay(events, []) if isinstance(run, ArrayRun) else run.send(events)
        failures.append(str(failure.value))
    assert "more than 20 matches" in failures[0]
    assert Recognized.batches == 0
