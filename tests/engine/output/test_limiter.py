"""Limiters over a fake statement: what is delivered when, and what happens at the end of a context partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cepbook.engine.output.collectors import CollectorOptions
from cepbook.engine.output.limiter import ClauseFunctions, Limiter, LimiterSpec
from cepbook.engine.runtime import Runtime
from cepbook.engine.time.clock import NEVER
from cepbook.lang import types as t
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes

ANY = x.VariableRead(t.INT, "any")


class Sums:
    """A statement that adds up numbers, in one group or by key; its rows are texts."""

    def __init__(self) -> None:
        self.sums: dict[Any, int] = {}

    def group_rows(self, state: Any, key: Any, now: int) -> list[Any]:
        return [self.row(key)]

    def snapshot_rows(self, state: Any, now: int) -> list[Any]:
        return [self.row(key) for key in self.sums]

    def row(self, key: Any) -> str:
        return f"{key}={self.sums.get(key, 0)}" if key is not None else str(self.sums.get(key, 0))

    def add(self, number: int, key: Any = None) -> tuple[str, str]:
        """The new and the former row."""
        former = self.row(key)
        self.sums[key] = self.sums.get(key, 0) + number
        return self.row(key), former


def limiter(
    kind: nodes.QueryKind,
    output: nodes.OutputClause,
    sums: Sums | None = None,
    *,
    selector: str = "istream",
    levels: bool = False,
    **functions: Callable[..., Any],
) -> Limiter:
    form = CollectorOptions(kind, output.which, selector, levels)
    clause = ClauseFunctions(**{f"output_{name}": function for name, function in functions.items()})
    return LimiterSpec(output, form, sums or Sums(), clause).limiter(None, 0)


def one(limiter: Limiter, row: str, now: int = 0) -> list[Any] | None:
    """The insert rows that the arrival of one event makes due."""
    found = limiter.take(None, now, [row], [], 1, 0)
    return None if found is None else found[0]


# ---------------------------------------------------------------- after
def test_after_swallows_exactly_n_events() -> None:
    found = limiter("unaggregated", nodes.OutputClause(None, after=ANY), after=lambda partition, now: 2)
    assert [one(found, row) for row in "abcd"] == [None, None, ["c"], ["d"]]


def test_after_a_period_the_event_at_its_end_passes() -> None:
    found = limiter("unaggregated", nodes.OutputClause(None, after=ANY), after=lambda partition, now: (0, 1000, 1000))
    assert one(found, "a", 999) is None
    assert one(found, "b", 1000) == ["b"]
    assert one(found, "c", 500) == ["c"]


def test_a_rate_behind_after_starts_afterwards() -> None:
    output = nodes.OutputClause("time", after=ANY, rate=ANY)
    found = limiter("unaggregated", output, after=lambda p, now: 1, rate=lambda p, now: (0, 1000, 1000))
    one(found, "a", 100)
    assert found.due == NEVER
    one(found, "b", 300)
    assert found.due == 1300
    assert found.advance(None, 1300) == (["b"], [], True)


@pytest.mark.parametrize(("which", "expected"), [(None, "cd"), ("all", "abcd"), ("last", "d")])
def test_all_and_last_remember_what_after_left_out(which: Any, expected: str) -> None:
    output = nodes.OutputClause("events", which, after=ANY, rate=ANY)
    found = limiter("unaggregated", output, after=lambda p, now: 2, rate=lambda p, now: 2)
    assert [one(found, row) for row in "abcd"] == [None, None, None, list(expected)]


# ---------------------------------------------------------------- triggers
def test_a_number_of_events_may_change_or_be_null() -> None:
    number: list[int | None] = [2]
    found = limiter("unaggregated", nodes.OutputClause("events", rate=ANY), rate=lambda p, now: number[0])
    assert [one(found, row) for row in "ab"] == [None, ["a", "b"]]
    number[0] = None
    assert [one(found, row) for row in "cdef"] == [None, ["c", "d"], None, ["e", "f"]]  # the last that was known
    number[0] = 3
    assert [one(found, row) for row in "ghi"] == [None, None, list("ghi")]


def test_entering_and_leaving_events_count_apart() -> None:
    rate = x.Const(t.INT, 3)
    found = limiter("unaggregated", nodes.OutputClause("events", rate=rate), selector="irstream", rate=lambda p, now: 3)
    assert found.take(None, 0, ["a", "b"], [], 2, 0) is None
    assert found.take(None, 0, [], ["a", "b"], 0, 2) is None
    assert found.take(None, 0, [], ["c"], 0, 1) == (["a", "b"], ["a", "b", "c"])
    assert found.take(None, 0, ["d", "e"], [], 2, 0) is None


def test_a_jump_over_several_points_posts_once_and_is_back_on_the_grid() -> None:
    found = limiter("unaggregated", nodes.OutputClause("time", rate=ANY), rate=lambda p, now: (0, 1000, 1000))
    one(found, "a", 100)
    assert found.advance(None, 1099) is None
    assert found.advance(None, 4350) == (["a"], [], True)
    assert found.due == 5100


def test_months() -> None:
    day = 86_400_000
    found = limiter("unaggregated", nodes.OutputClause("time", rate=ANY), rate=lambda p, now: (1, 0, 1000))
    one(found, "a", 30 * day)  # the last of January 1970
    assert found.due == 58 * day  # of February


@pytest.mark.parametrize(
    ("length", "message"),
    [
        ((0, 0, 1000), "not above 0"),
        ((0, -5, 1000), "not above 0"),
        ((-1, 5, 1000), "not above 0"),
        ((0, None, 1000), "null"),
    ],
)
def test_a_period_that_is_not_above_zero_fails(length: tuple[int, int | None, int], message: str) -> None:
    found = limiter("unaggregated", nodes.OutputClause("time", rate=ANY), rate=lambda p, now: length)
    with pytest.raises(ValueError, match=f"the output rate is {message}"):
        one(found, "a")


def test_a_condition_sees_the_counters_and_the_then_clause_sees_them_before_they_are_reset() -> None:
    seen: list[tuple[int, int, int]] = []
    found = limiter(
        "unaggregated",
        nodes.OutputClause("when", when=ANY, then_set=(nodes.VariableAssignment("V", ANY),)),
        when=lambda c, p, now: c.count_insert >= 2,
        then=lambda c, p, now: seen.append((c.count_insert, c.count_insert_total, c.last_output_timestamp)),
    )
    assert [one(found, row, now) for now, row in enumerate("abcd", 5)] == [None, ["a", "b"], None, ["c", "d"]]
    assert seen == [(2, 2, 0), (2, 4, 6)]


def test_a_variable_posts_at_the_next_advance_and_the_then_clause_runs_at_once() -> None:
    state = {"go": False, "runs": 0}

    def then(counters: Any, partition: Any, now: int) -> None:
        state["go"] = False
        state["runs"] += 1
        found.changed(now)  # what the assignment causes

    found = limiter(
        "unaggregated",
        nodes.OutputClause("when", when=ANY, then_set=(nodes.VariableAssignment("go", ANY),)),
        when=lambda c, p, now: state["go"],
        then=then,
    )
    one(found, "a", 1)
    state["go"] = True
    found.changed(2)
    assert (state["go"], state["runs"], found.due) == (False, 1, 2)
    assert one(found, "b", 2) is None
    assert found.advance(None, 3) == (["a", "b"], [], True)
    assert (state["runs"], found.due) == (1, NEVER)


# ---------------------------------------------------------------- first
def test_first_of_a_grid() -> None:
    found = limiter("unaggregated", nodes.OutputClause("time", "first", rate=ANY), rate=lambda p, now: (0, 1000, 1000))
    times = [0, 500, 999, 1300, 1999, 2000, 2300, 10_000]
    passed = [now for now in times if one(found, "x", now)]
    assert passed == [0, 1300, 2000, 10_000]


def test_first_counts_events_that_make_no_rows() -> None:
    found = limiter("unaggregated", nodes.OutputClause("events", "first", rate=ANY), rate=lambda p, now: 2)
    rows: list[list[str]] = [[], ["b"], [], ["d"], ["e"], [], [], []]
    assert [found.take(None, 0, row, [], 1, 0) for row in rows] == [
        None,
        (["b"], []),
        None,
        (["d"], []),
        None,
        None,
        None,
        None,
    ]


def test_first_of_groups_have_silences_of_their_own() -> None:
    output = nodes.OutputClause("time", "first", rate=ANY)
    found = limiter("fully_aggregated_grouped", output, rate=lambda p, now: (0, 1000, 1000))

    def send(key: str, now: int) -> Any:
        return found.take(None, now, [(key, f"{key}{now}")], [], [key], [])

    assert send("A", 0) == (["A0"], [])
    assert send("B", 500) == (["B500"], [])
    assert send("A", 999) is None
    assert send("A", 1000) == (["A1000"], [])
    assert send("B", 1499) is None
    assert send("B", 1500) == (["B1500"], [])


def test_first_of_groups_counts_each_group() -> None:
    output = nodes.OutputClause("events", "first", rate=ANY)
    found = limiter("aggregated_grouped", output, selector="irstream", rate=lambda p, now: 2)

    def send(ins: str, rem: str = "") -> Any:
        pairs_in, pairs_out = [(k, f"+{k}") for k in ins], [(k, f"-{k}") for k in rem]
        return found.take(None, 0, pairs_in, pairs_out, list(ins), list(rem))

    assert send("A") == (["+A"], [])
    assert send("B", "A") == (["+B"], [])  # the first leaving event of A counts one
    assert send("A", "B") is None
    assert send("", "A") == ([], ["-A"])  # the second
    assert send("AAB") == (["+A"], [])  # the second A; both sides of B count one


def test_groups_whose_silence_is_over_are_forgotten() -> None:
    output = nodes.OutputClause("time", "first", rate=ANY)
    found = limiter("fully_aggregated_grouped", output, rate=lambda p, now: (0, 1000, 1000))
    for number in range(20_000):
        key = f"k{number}"
        assert found.take(None, number, [(key, key)], [], [key], []) == ([key], [])
    assert len(found._first._gates) < 3000


def test_first_when() -> None:
    output = nodes.OutputClause("when", "first", when=ANY)
    found = limiter("unaggregated", output, when=lambda c, p, now: c.count_insert >= 3)
    assert [one(found, row) for row in "abcdefg"] == [["a"], None, None, ["d"], None, None, ["g"]]
    assert found.due == NEVER


# ---------------------------------------------------------------- the end of a context partition
def ending(kind: nodes.QueryKind, which: Any, sums: Sums | None = None, **functions: Any) -> Limiter:
    return limiter(kind, nodes.OutputClause("terminated", which, and_terminated=True), sums, **functions)


@pytest.mark.parametrize(("which", "rows"), [(None, ["a", "b"]), ("all", ["a", "b"]), ("last", ["b"])])
def test_the_end_delivers_what_was_collected(which: Any, rows: list[str]) -> None:
    found = ending("unaggregated", which)
    assert [one(found, row) for row in "ab"] == [None, None]
    assert found.due == NEVER
    assert found.terminate(None, 9) == (rows, [], False)


def test_first_delivers_nothing_at_the_end() -> None:
    found = ending("unaggregated", "first")
    assert [one(found, row) for row in "ab"] == [["a"], None]
    assert found.terminate(None, 9) is None


@pytest.mark.parametrize("which", [None, "all", "last"])
def test_one_row_for_all_is_delivered_even_without_events(which: Any) -> None:
    assert ending("fully_aggregated", which).terminate(None, 9) == (["0"], [], False)


def test_a_snapshot_at_the_end_is_delivered_even_when_it_is_empty() -> None:
    assert ending("unaggregated", "snapshot").terminate(None, 9) == ([], [], True)


def test_a_condition_of_the_end_and_its_assignments() -> None:
    seen: list[int] = []
    found = ending(
        "unaggregated",
        None,
        ends=lambda c, p, now: c.count_insert >= 2,
        ended=lambda c, p, now: seen.append(c.count_insert),
    )
    one(found, "a")
    assert found.terminate(None, 9) is None
    assert seen == [1]  # also without rows
    one(found, "b")
    assert found.terminate(None, 9) == (["a", "b"], [], False)
    assert seen == [1, 2]


def test_without_when_terminated_the_end_delivers_nothing() -> None:
    found = limiter("unaggregated", nodes.OutputClause("events", rate=ANY), rate=lambda p, now: 2)
    one(found, "a")
    assert found.terminate(None, 9) is None


def test_behind_a_rate_the_end_delivers_what_is_left() -> None:
    output = nodes.OutputClause("events", rate=ANY, and_terminated=True)
    found = limiter("unaggregated", output, rate=lambda p, now: 2)
    assert [one(found, row) for row in "abc"] == [None, ["a", "b"], None]
    assert found.terminate(None, 9) == (["c"], [], False)


def test_what_after_leaves_out_is_not_delivered_at_the_end() -> None:
    output = nodes.OutputClause("events", after=ANY, rate=ANY, and_terminated=True)
    found = limiter("unaggregated", output, after=lambda p, now: 3, rate=lambda p, now: 2)
    one(found, "a")
    assert found.terminate(None, 9) is None


# ---------------------------------------------------------------- groups
def test_the_former_row_of_a_group_is_that_before_the_interval() -> None:
    sums = Sums()
    output = nodes.OutputClause("time", "all", rate=ANY)
    found = limiter("fully_aggregated_grouped", output, sums, selector="irstream", rate=lambda p, now: (0, 1000, 1000))
    for key, number in (("A", 1), ("B", 2), ("A", 4)):
        new, former = sums.add(number, key)
        found.take(None, 0, [(key, new)], [(key, former)], 1, 0)
    assert found.advance(None, 1000) == (["A=5", "B=2"], ["A=0", "B=0"], True)
    new, former = sums.add(10, "B")
    found.take(None, 1500, [("B", new)], [("B", former)], 1, 0)
    assert found.advance(None, 2000) == (["A=5", "B=12"], ["A=5", "B=2"], True)
    assert found.advance(None, 3000) == (["A=5", "B=12"], ["A=5", "B=12"], True)


def test_levels_go_from_detail_to_total() -> None:
    sums = Sums()
    output = nodes.OutputClause("events", "last", rate=ANY)
    found = limiter("fully_aggregated_grouped", output, sums, levels=True, rate=lambda p, now: 2)
    for key in ("A", "B"):
        pairs = [((level, k), sums.add(1, (level, k))[0]) for level, k in enumerate((key, None))]
        due = found.take(None, 0, pairs, [], 1, 0)
    assert due == (["(0, 'A')=1", "(0, 'B')=1", "(1, None)=2"], [])


def test_a_row_that_having_rejects_still_touches_its_group() -> None:
    sums = Sums()
    output = nodes.OutputClause("events", "last", rate=ANY)
    found = limiter("fully_aggregated_grouped", output, sums, rate=lambda p, now: 2)
    sums.add(1, "A")
    found.take(None, 0, [("A", None)], [], 1, 0)
    sums.add(1, "B")
    assert found.take(None, 0, [("B", "B=1")], [], 1, 0) == (["A=1", "B=1"], [])


def test_gates_of_groups_that_are_shut_outlast_the_many_that_are_open() -> None:
    runtime = Runtime()
    runtime.deploy(
        "create schema E(k int); @name('out') select k, count(*) as n from E group by k output first every 1 sec"
    )
    rows: list[tuple[int, int]] = []
    runtime.statement("out").add_listener(lambda delta: rows.extend((row["k"], row["n"]) for row in delta.insert))
    for key in range(2000):  # more than are kept without being looked through
        runtime.advance(key)
        runtime.send("E", {"k": key})
    assert rows == [(key, 1) for key in range(2000)]
    runtime.advance(2000)
    for key in (1500, 1999, 3000):
        runtime.send("E", {"k": key})
    assert rows[2000:] == [(3000, 1)]
    runtime.advance(2001)
    for key in (999, 1000, 1001, 1999):
        runtime.send("E", {"k": key})
    assert rows[2001:] == [(999, 2), (1000, 2), (1001, 2)]


def test_shut_gates_stay_shut_among_many_groups() -> None:
    """A gate is dropped once it is open again; the others stop the rows of their groups until their period ends."""
    runtime, rows = Runtime(), list[int]()
    runtime.deploy(
        "create schema E(k int);@name('s') select k, count(*) as n from E group by k output first every 10 sec"
    )
    runtime.statement("s").add_listener(lambda delta: rows.extend(row["k"] for row in delta.insert or ()))
    for k in range(1500):
        runtime.send("E", {"k": k})
    runtime.advance(5000)
    for k in range(1500):
        runtime.send("E", {"k": k})
    assert rows == [*range(1500)]
    runtime.advance(10_000)
    for k in range(1500, 4000):
        runtime.send("E", {"k": k})
    runtime.send("E", {"k": 7})
    assert rows == [*range(4000), 7]
