"""Why an event led to nothing at statements that act on events, and behind each kind of condition."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from cepbook import Workbench
from cepbook.errors import StatementError
from tests.session.explain.test_row_provenance import bench
from tests.session.explained import drawn

KEPT = "insert into Kept select * from A;"
MERGE = """@name('q') on B as b merge T as t where t.k = b.k
    when matched and b.y > t.n then update set n = b.y
    when not matched and b.y < 6 then insert select b.k as k, b.y as n"""
CASES: list[tuple[str, str, dict[str, Any], str, str, str | None, str]] = [
    # what, statement, event, outcome, stage, text, note
    ("merge matched", MERGE, {"k": "a", "y": 1}, "fell out", "when", "b.y > t.n", ""),
    ("merge unmatched", MERGE, {"k": "z", "y": 9}, "fell out", "when", "b.y < 6", ""),
    ("merge without a branch", "@name('q') on B as b merge T as t where t.k = b.k when matched then delete",
     {"k": "z", "y": 9}, "fell out", "join", "t.k = b.k", "true of 0 of 0 rows of `T`"),
    ("on delete", KEPT + "@name('q') on B as b delete from Kept as w where w.k = b.k and w.x > b.y",
     {"k": "a", "y": 9}, "fell out", "join", "w.k = b.k and w.x > b.y", "true of 0 of 3 rows of `Kept`"),
    ("on update", KEPT + "@name('q') on B as b update Kept as w set x = 0 where w.k = b.k",
     {"k": "z", "y": 9}, "fell out", "join", "w.k = b.k", "true of 0 of 3 rows of `Kept`"),
    ("on select", KEPT + "@name('q') on B as b select w.x as x from Kept as w where w.k = b.k", {"k": "z", "y": 9},
     "fell out", "join", "w.k = b.k", "true of 0 of 3 events of `w`"),
    ("on set, filter", "@name('q') on B(y > 4) as b set level = b.y", {"k": "a", "y": 3}, "fell out", "filter",
     "y > 4", ""),
    ("on a pattern", "@name('q') on pattern [every a=A(x > 90) -> b=B] set level = b.y", {"k": "a", "y": 3},
     "fell out", "pattern", None, "it waits for a=A(x > 90)"),
    ("split", "@name('q') on B insert into C select y where y > 10 insert into D select y where y > 5",
     {"k": "a", "y": 11}, "delivered", "", None, ""),
    ("update istream", "@name('q') update istream B as b set y = 0 where b.y > 4", {"k": "a", "y": 3}, "fell out",
     "where", "b.y > 4", ""),
    ("as it was changed", "update istream B as b set y = 0; @name('q') select * from B(y > 4)", {"k": "a", "y": 9},
     "fell out", "filter", "y > 4", ""),
    ("where", "@name('q') select * from B#length(2) where y > 4", {"k": "a", "y": 3}, "kept", "where", "y > 4", ""),
    ("having", "@name('q') select sum(y) as s from B having sum(y) > 90", {"k": "a", "y": 3}, "kept", "having",
     "sum(y) > 90", ""),
    ("distinct", "@name('q') select distinct k from B#length_batch(2)", {"k": "a", "y": 3}, "fell out", "distinct",
     "select distinct", "its row, 2 of 2, equals row 1 of the same delivery, of k=a  y=2"),
    ("define", """@name('q') select * from B match_recognize (measures U.y as y pattern (S U)
        define S as S.y > 50, U as U.y > S.y)""", {"k": "a", "y": 3}, "fell out", "define", "S.y > 50",
     "no match begins: it is no `S`"),
    ("outer condition", "@name('q') select * from A#length(2) as a, B#length(2) as b where a.k = b.k and b.y > 90",
     {"k": "a", "y": 3}, "kept", "where", "b.y > 90", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("epl", "event", "outcome", "stage", "text", "note"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_each_kind_of_condition(
    epl: str, event: dict[str, Any], outcome: str, stage: str, text: str | None, note: str
) -> None:
    cep = bench(epl)
    (course,) = cep.why("q", event, type="B").courses
    fell = course.fell_at
    assert course.outcome == outcome
    assert (fell.name if fell is not None else "") == stage
    if fell is not None:
        assert (text is None or fell.text == text) and fell.note == note


def test_values_are_those_of_the_row_that_matches() -> None:
    cep = bench(MERGE)
    (course,) = cep.why("q", {"k": "a", "y": 1}, type="B").courses
    assert course.fell_at is not None and course.fell_at.values == (("b.y", 1), ("t.n", 5))


def test_a_cycle_that_has_not_been_run_and_one_that_selects_nothing() -> None:
    cep = Workbench()
    cep.run("create schema s(id long, v int)")
    text = "select id from s (partition store last 3) as w where w.$row_status is new and v > 5"
    cep.run(text, dialect="streamcruncher", name="q")
    cep.send("s", id=1, v=2)
    (course,) = cep.why("q", -1).courses
    assert (course.outcome, [stage.name for stage in course.stages]) == ("kept", ["window", "select"])
    cep.send("s", id=2, v=9)
    (course,) = cep.why("q", -1).courses
    assert course.outcome == "delivered"


def test_a_unique_index_refuses_in_the_rerun_what_it_refused() -> None:
    cep = Workbench()
    cep.run(
        "create schema A(id string, n int); create schema B(id string);"
        "create window W#keepall as A; create unique index U on W(id); insert into W select * from A;"
        "@name('q') on B as b select w.n as n from W as w"
    )
    for n in (1, 2):
        with suppress(StatementError):
            cep.send("A", id="a", n=n)
    cep.send("B", id="x")
    (course,) = cep.why("q", -1).courses
    assert [row for _, row in course.rows] == list(cep.changes("q")[["n"]].to_dict("records")) == [{"n": 1}]


@pytest.mark.histories
def test_events_of_the_corpus() -> None:
    """Each has a reason, and what is said to have delivered has, at that time."""
    asked = 0
    for case, workbench in drawn(seed=7):
        known = workbench.runtime.catalog.event_types
        happened = workbench._engine.event_log.entries_since((0, 0), set(known), known)
        count = sum(entry.type_name is not None for entry in happened)
        for number in {1, count // 2 + 1, count} if count else ():
            judged = workbench.why(None, number)
            for course in judged.courses:
                where = f"{case} {course.statement} {number}"
                assert course.outcome == "delivered" or course.stages, where
                if course.outcome == "fell out":
                    assert course.fell_at is not None, where
                    left_out = course.fell_at.name == "distinct"  # of a delivery that has the rows of others
                    assert bool(course.rows) == left_out, where
                if course.rows:
                    assert judged.event.time in list(workbench.changes(course.statement, times="ms")["time"]), where
                asked += 1
    assert asked > 60
