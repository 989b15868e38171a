"""Why a row was delivered where the clock leapt over outputs and expiries: with what was held when it was due."""

from __future__ import annotations

import pytest

from cepbook import Workbench
from cepbook.session.explain.explanations import RowExplanation


def leapt(select: str, *, to: int = 10_000) -> Workbench:
    """Events at 0, 1 and 1.5 s; then one leap."""
    cep = Workbench()
    cep.run(f"create schema T(x int); @name('q') {select}")
    for time, x in ((0, 1), (1000, 2), (1500, 3)):
        cep.advance(time)
        cep.send("T", x=x)
    cep.advance(to)
    return cep


def told(found: RowExplanation) -> tuple[list[int], list[int]]:
    """The events that made it, those that were held."""
    return [piece.event["x"] for piece in found.provenance or ()], [e["x"] for w in found.windows for e in w.events]


@pytest.mark.parametrize(
    ("select", "due", "made", "held"),
    [
        ("select x from T#time(5 sec) output snapshot every 2 sec", 2000, [3], [1, 2, 3]),
        ("select sum(x) as s from T#time(5 sec) output snapshot every 2 sec", 2000, [1, 2, 3], [1, 2, 3]),
        ("select sum(x) as s from T#time_batch(2 sec)", 2000, [1, 2, 3], []),
    ],
)
def test_what_was_held_when_it_was_due(select: str, due: int, made: list[int], held: list[int]) -> None:
    found = leapt(select).why("q")
    assert (found.time, found.basis) == (10_000, "run again")
    assert told(found) == (made, held)
    assert found.cause == f"the clock, which came to 00:00:10.000 in one leap: this was due at 00:00:0{due / 1000:.3f}"


def test_a_row_that_an_output_clause_held_back() -> None:
    found = leapt("select count(*) as n, sum(x) as s from T#time(5 sec) output last every 2 sec").why("q")
    assert told(found) == ([1, 2, 3], [1, 2, 3]) and found.row == {"n": 3, "s": 6}
    assert "made at 00:00:01.500, and the output clause held it back" in found.notes[0]
    assert found.cause.endswith("this was due at 00:00:02.000")


def test_an_event_that_comes_behind_the_leap() -> None:
    """The clock goes to its time before it comes."""
    cep = Workbench()
    cep.run("create schema T(at long, x int); @name('q') select x from T#time(5 sec) output snapshot every 2 sec")
    cep.replay([{"at": 0, "x": 1}, {"at": 20_000, "x": 2}], type="T", time="at", leap=True).run()
    found = cep.why("q", row=0)
    assert told(found) == ([1], [1]) and found.cause.endswith("in one leap: this was due at 00:00:02.000")


def test_all_that_leaves_a_window_at_once_is_one_delivery_at_the_end() -> None:
    found = leapt("select count(*) as n from T#time(5 sec)").why("q")
    assert told(found) == ([], []) and found.notes == () and found.cause == "the clock, which came to 00:00:10.000"


def test_a_window_that_is_due_before_the_output_has_let_go_of_all_by_then() -> None:
    """Where the clock stops on its way the rows are others: what was held at the end is told, and said to be that."""
    found = leapt("select sum(x) as s from T#time(1800 msec) output snapshot every 2 sec").why("q")
    assert found.row == {"s": None} and told(found) == ([], [])
    assert found.notes[-1].endswith("windows are those at its end")


def test_without_a_leap_and_of_remove_rows_it_is_as_before() -> None:
    stopped = leapt("select x from T#time(5 sec) output snapshot every 2 sec", to=2000).why("q")
    assert told(stopped) == ([3], [1, 2, 3]) and stopped.cause == "the clock, which came to 00:00:02.000"
    removed = leapt("select rstream x from T#time(5 sec)").why("q", row=0)
    assert told(removed) == ([1], [1, 2, 3]) and removed.cause == "the clock, which came to 00:00:10.000"
    assert removed.notes == ()


def test_where_a_stop_on_the_way_gives_other_rows_it_is_said() -> None:
    found = leapt("select x, current_timestamp as now from T#time(5 sec) output snapshot every 2 sec").why("q")
    assert found.notes[-1].startswith("the clock leapt over several times") and told(found)[1] == []
