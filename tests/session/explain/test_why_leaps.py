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


def numbers(fired: RowExplanation) -> tuple[list[int], list[int]]:
    """The numbers of the events of its provenance, and of those in windows."""
    return [piece.event["x"] for piece in fired.provenance or ()], [e["x"] for w in fired.windows for e in w.events]


@pytest.mark.parametrize(
    ("select", "due", "provenance", "retained"),
    [
        ("select x from T#time(5 sec) output snapshot every 2 sec", 2000, [3], [1, 2, 3]),
        ("select sum(x) as s from T#time(5 sec) output snapshot every 2 sec", 2000, [1, 2, 3], [1, 2, 3]),
        ("select sum(x) as s from T#time_batch(2 sec)", 2000, [1, 2, 3], []),
    ],
)
def test_what_was_held_when_it_was_due(select: str, due: int, provenance: list[int], retained: list[int]) -> None:
    fired = leapt(select).why("q")
    assert (fired.time, fired.basis) == (10_000, "run again")
    assert numbers(fired) == (provenance, retained)
    assert fired.cause == f"the clock, which came to 00:00:10.000 in one leap: this was due at 00:00:0{due / 1000:.3f}"


def test_a_row_that_an_output_clause_held_back() -> None:
    fired = leapt("select count(*) as n, sum(x) as s from T#time(5 sec) output last every 2 sec").why("q")
    assert numbers(fired) == ([1, 2, 3], [1, 2, 3]) and fired.row == {"n": 3, "s": 6}
    assert "made at 00:00:01.500, and the output clause held it back" in fired.notes[0]
    assert fired.cause.endswith("this was due at 00:00:02.000")


def test_an_event_that_comes_behind_the_leap() -> None:
    """The clock goes to its time before it comes."""
    cep = Workbench()
    cep.run("create schema T(at long, x int); @name('q') select x from T#time(5 sec) output snapshot every 2 sec")
    cep.replay([{"at": 0, "x": 1}, {"at": 20_000, "x": 2}], type="T", time="at", leap=True).run()
    fired = cep.why("q", row=0)
    assert numbers(fired) == ([1], [1]) and fired.cause.endswith("in one leap: this was due at 00:00:02.000")


def test_all_that_leaves_a_window_at_once_is_one_delivery_at_the_end() -> None:
    fired = leapt("select count(*) as n from T#time(5 sec)").why("q")
    assert numbers(fired) == ([], []) and fired.notes == () and fired.cause == "the clock, which came to 00:00:10.000"


def test_a_window_that_is_due_before_the_output_has_let_go_of_all_by_then() -> None:
    """Where the clock stops on its way the rows are others: what was held at the end is told, and said to be that."""
    fired = leapt("select sum(x) as s from T#time(1800 msec) output snapshot every 2 sec").why("q")
    assert fired.row == {"s": None} and numbers(fired) == ([], [])
    assert fired.notes[-1].endswith("windows are those at its end")


def test_without_a_leap_and_of_remove_rows_it_is_as_before() -> None:
    stopped = leapt("select x from T#time(5 sec) output snapshot every 2 sec", to=2000).why("q")
    assert numbers(stopped) == ([3], [1, 2, 3]) and stopped.cause == "the clock, which came to 00:00:02.000"
    removed = leapt("select rstream x from T#time(5 sec)").why("q", row=0)
    assert numbers(removed) == ([1], [1, 2, 3]) and removed.cause == "the clock, which came to 00:00:10.000"
    assert removed.notes == ()


def test_where_a_stop_on_the_way_gives_other_rows_it_is_said() -> None:
    fired = leapt("select x, current_timestamp as now from T#time(5 sec) output snapshot every 2 sec").why("q")
    assert fired.notes[-1].startswith("the clock leapt over several times") and numbers(fired)[1] == []
