"""match_recognize: how many matches may be open, what they wait for, which rows made one, steps that can be read."""

from __future__ import annotations

import time

import pytest

from cepbook import Workbench
from cepbook.engine.config import Config
from cepbook.engine.runtime import Runtime
from cepbook.errors import BindError, StatementError, UsageError
from cepbook.lang.plan.row_pattern import RowRepeat, RowSequence, RowVariable, compile_automaton
from cepbook.lang.types import INT
from cepbook.session.inspect.compiler_stages import explain_stage

SCHEMA = "create schema R(k string, n int);"


def started(epl: str, config: Config = Config()) -> Runtime:
    runtime = Runtime(config)
    runtime.deploy(f"{SCHEMA} @name('s') {epl}")
    return runtime


def test_more_open_matches_than_there_may_be_are_an_error_and_given_up() -> None:
    epl = """select * from R match_recognize (measures A.n as a after match skip to next row pattern (A B* C)
             define A as A.n > 0, B as B.n > 0, C as C.n < 0)"""
    runtime = started(epl, Config(recognize_limit=50))
    for _ in range(50):
        runtime.send("R", {"k": "x", "n": 1})
    with pytest.raises(StatementError, match="more than 50 matches are open at once") as caught:
        runtime.send("R", {"k": "x", "n": 1})
    assert "match_recognize" in str(caught.value)  # it points at the clause
    found = runtime.state("s")[0]["partials"]
    assert found == {"total": 0, "rows": []}
    runtime.send("R", {"k": "x", "n": 1})  # and goes on
    assert runtime.state("s")[0]["partials"]["total"] == 1


def test_nested_loops_do_not_hang() -> None:
    epl = """select * from R match_recognize (measures count(A.n) as c, B.n as b pattern (((A+)+)* B)
             define A as A.n > 0, B as B.n < 0)"""
    runtime = started(epl)
    begin = time.process_time()
    for _ in range(2_000):
        runtime.send("R", {"k": "x", "n": 1})
    assert runtime.state("s")[0]["partials"]["total"] == 1
    assert time.process_time() - begin < 20


def test_ways_that_all_count_meet_the_limit_in_short_time() -> None:
    epl = """select * from R match_recognize (measures count(A.n) as a, count(B.n) as b all matches
             pattern (S (A | B)+ C) define S as S.n = 0, A as A.n > 0, B as B.n > 0, C as C.n < 0)"""
    runtime = started(epl, Config(recognize_limit=5_000))
    runtime.send("R", {"k": "x", "n": 0})
    begin = time.process_time()
    with pytest.raises(StatementError, match="more than 5,000 matches"):
        for _ in range(100):
            runtime.send("R", {"k": "x", "n": 1})
    assert time.process_time() - begin < 10


def test_open_matches_of_different_beginnings_are_one_where_only_the_earliest_counts() -> None:
    epl = "select * from R match_recognize (measures B.n as b pattern (A+ B) define A as A.n > 0, B as B.n < 0)"
    runtime = started(epl)
    for _ in range(1_000):
        runtime.send("R", {"k": "x", "n": 1})
    assert runtime.state("s")[0]["partials"]["total"] == 1


@pytest.mark.parametrize("window", ["", "#keepall"])
@pytest.mark.parametrize("interval", ["1 day", "1 day or terminated"])
def test_matches_within_a_complete_one_are_not_kept_while_it_waits(window: str, interval: str) -> None:
    runtime = started(f"""select * from R{window} match_recognize (measures A.n as a, count(B.n) as b pattern (A B*)
        interval {interval} define B as B.n > 0)""")
    sizes = []
    for n in [1] * 600 + [0] + [1] * 600:
        runtime.send("R", {"k": "x", "n": n})
        sizes.append(runtime.state("s")[0]["partials"]["total"])
    assert max(sizes) <= 2


def test_what_a_match_waits_for() -> None:
    cep = Workbench()
    cep.run(
        SCHEMA + " @name('s') select * from R match_recognize (partition by k measures A.n as a"
        " pattern (A B+ (C | D)) interval 10 seconds define A as A.n = 0, B as B.n > prev(B.n), D as D.n < A.n)"
    )
    for n in (0, 1, 2):
        cep.runtime.send("R", {"k": "x", "n": n})
    found = cep.partials("s")
    assert list(found.columns) == ["waiting_for", "since", "until", "A", "B", "C", "D"]
    assert found["waiting_for"].tolist() == ["B where n > prev(1, n) | C | D where n < A.n"]
    assert found["B"].tolist() == [[{"k": "x", "n": 1}, {"k": "x", "n": 2}]]
    with pytest.raises(UsageError, match="waits for nothing"):
        cep.run("@name('plain') select * from R")
        cep.partials("plain")


def test_which_rows_made_a_match() -> None:
    runtime = started(
        "select * from R match_recognize (measures A.n as a pattern (A B{2} C?) define A as A.n = 0, B as B.n > 0)"
    )
    found: list[object] = []
    runtime.statement("s").add_match_listener(found.append)
    for n in (0, 1, 2):
        runtime.send("R", {"k": "x", "n": n})
    runtime.statement("s").remove_match_listener(found.append)
    for n in (0, 1, 2):
        runtime.send("R", {"k": "x", "n": n})
    assert found == [{"A": {"k": "x", "n": 0}, "B": [{"k": "x", "n": 1}, {"k": "x", "n": 2}], "C": None}]


def test_a_partition_that_waits_for_nothing_is_forgotten() -> None:
    runtime = started(
        "select * from R match_recognize (partition by k measures A.n as a pattern (A B) define A as A.n = 0)"
    )
    for key in range(1_000):
        runtime.send("R", {"k": str(key), "n": 1})
    assert not runtime.statement("s").state.view.then.partitions


def test_a_failing_condition_is_told_of_and_costs_the_open_matches_of_its_partition() -> None:
    runtime = Runtime()
    runtime.register_function("bad", lambda n: 1 // n, returns=INT)
    runtime.deploy(
        SCHEMA + "@name('s') select * from R match_recognize (partition by k measures A.n as a, B.n as b"
        " pattern (A B) define B as bad(B.n) >= 0)"
    )
    for key in "xy":
        runtime.send("R", {"k": key, "n": 1})
    with pytest.raises(StatementError, match="division"):
        runtime.send("R", {"k": "x", "n": 0})
    assert runtime.state("s")[0]["partials"]["total"] == 1


def test_iterating_changes_nothing() -> None:
    runtime = started(
        "select prior(1, a) as p, a from R#keepall match_recognize (measures A.n as a pattern (A B) interval 5 seconds)"
    )
    for n in range(4):
        runtime.send("R", {"k": "x", "n": n})
        before = runtime.snapshot()
        first = runtime.iterate("s")
        assert runtime.iterate("s") == first
        assert runtime.snapshot() == before


@pytest.mark.parametrize("window", ["keepall", "length(9)"])
def test_the_iterator_reads_as_many_rows_before_as_there_are(window: str) -> None:
    """`define` reads three rows back, and only two precede the third row."""
    runtime = started(
        f"select * from R#{window} match_recognize (measures A.n as a, B.n as b pattern (A B)"
        " define B as prev(B.n, 2) = 1 or prev(B.n, 3) = 1)"
    )
    for n in (1, 2, 3):
        runtime.send("R", {"k": "x", "n": n})
    assert runtime.iterate("s") == [{"a": 2, "b": 3}]


def test_the_iterator_opens_no_more_matches_than_there_may_be() -> None:
    runtime = started(
        "select * from R#length(9) match_recognize (measures A[0].n as a, B[0].n as b all matches pattern ((A | B)*))",
        Config(recognize_limit=100),
    )
    runtime.add_error_listener(lambda error: None)
    for n in range(7):
        runtime.send("R", {"k": "x", "n": n})
    with pytest.raises(StatementError, match="more than 100 matches are open"):
        runtime.iterate("s")


@pytest.mark.parametrize(
    "clauses",
    [
        "measures A.n as a pattern (A) define A as checked(A.n) > 0",
        "partition by checked(n) measures A.n as a pattern (A)",
        "measures checked(A.n) as a pattern (A)",
    ],
)
def test_an_iterator_that_fails_raises_and_leaves_nothing_behind(clauses: str) -> None:
    """The failures of the iterator were recorded as those of the statement, and the next event raised one."""
    runtime, bad = Runtime(), set[int]()

    def checked(n: int) -> int:
        if n in bad:
            raise ValueError(n)
        return n

    runtime.register_function("checked", checked)
    runtime.deploy(f"{SCHEMA} @name('s') select * from R#keepall match_recognize ({clauses})")
    for n in (1, 2, 3):
        runtime.send("R", {"k": "x", "n": n})
    before = runtime.snapshot()
    bad.add(2)
    with pytest.raises(StatementError, match="ValueError"):
        runtime.iterate("s")
    assert not runtime.errors
    assert runtime.snapshot() == before
    bad.clear()
    runtime.send("R", {"k": "x", "n": 4})


def test_steps_and_plan_show_the_clause() -> None:
    cep = Workbench()
    cep.run(
        SCHEMA + " @name('s') select * from R#length(5) match_recognize (partition by k measures last(B.n) as l"
        " all matches after match skip to next row pattern (A (B | C){2,3} D*?) interval 1 min or terminated"
        " define B as B.n > A.n) where n > 0"
    )
    shown = {stage: explain_stage(cep.runtime, "s", stage) for stage in ("plan", "steps", "python", "coverage")}
    clause = "recognize (A (B | C){2,3} D*?) to next row, all matches"
    assert clause in shown["plan"]
    assert clause in shown["steps"]
    assert "B where n > A.n" in shown["steps"]
    assert "def defined1(e, h, m, S, now):" in shown["python"]


def test_the_automaton_has_no_empty_steps() -> None:
    loop = RowRepeat(RowRepeat(RowRepeat(RowVariable(0), 0, 1), 0, None), 1, None)
    found = compile_automaton(RowSequence((loop, RowVariable(1))))
    assert found.variables == (0, 1)
    assert sorted(found.follow[0]) == [0, 1]
    assert found.follow[1] == (-1,)


def test_a_pattern_that_takes_no_row_is_refused() -> None:
    with pytest.raises(BindError, match="too large"):
        started("select * from R match_recognize (measures first(A.n) as a pattern ((A{100}){100}))")
