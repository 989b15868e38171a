"""The matcher by itself: what waits, what is freed, limits, failures. What patterns mean is settled in tests/corpus."""

from __future__ import annotations

import sys
from itertools import count
from random import Random

import pytest

from cepbook.engine.patterns.observers import ObserverSpec, TimePointObserver
from cepbook.engine.patterns.pattern_timers import PatternTimers
from cepbook.engine.patterns.state_node import TimerNode
from cepbook.engine.time.clock import NEVER
from tests.engine.patterns.matching import Run


def test_partial_matches_tell_what_they_wait_for() -> None:
    run = Run("every a=A -> (b=B(id = a.id, x > 3) where timer:within(10 sec))", now=100)
    run.send("A", "k", 1)
    run.to(300)
    run.send("A", "m", 1)
    assert run.waits() == [
        ("a=A", 100, None, ""),
        ("b=B(id = a.id, x > 3)", 100, 10_100, "k"),
        ("b=B(id = a.id, x > 3)", 300, 10_300, "m"),
    ]
    assert run.matcher.size == 3
    assert run.send("B", "k", 9) == ["k k"]
    assert [wait[3] for wait in run.waits()] == ["", "m"]
    assert run.matcher.partials(1) == [{"waiting_for": "a=A", "since": 100, "until": None, "events": {}}]


def test_observers_tell_their_time() -> None:
    run = Run("every a=A -> (timer:interval(5 sec) and not B)")
    run.send("A", "k")
    assert run.waits()[1:] == [("B", 0, None, "k"), ("timer:interval(5 sec)", 0, 5000, "k")]
    assert run.matcher.due == 5000
    run.send("B")
    assert run.matcher.due == NEVER
    assert run.to(5000) == []


def test_stop_frees_everything_and_start_begins_afresh() -> None:
    run = Run("every a=A -> b=B(id = a.id) where timer:within(1 min)")
    for i in range(10):
        run.send("A", str(i))
    assert run.matcher.size == 11
    run.matcher.stop()
    assert (run.matcher.size, run.matcher.due, run.waits()) == (0, NEVER, [])
    assert not any(atoms.index for atoms in run.matcher.atoms)
    assert run.matcher.start(50) == []
    assert run.waits() == [("a=A", 50, None, "")]
    assert run.send("B", "1") == []


def test_a_pattern_without_every_ends() -> None:
    run = Run("a=A -> b=B")
    run.send("A", "1")
    assert not run.matcher.ended
    assert run.send("B", "2") == ["1 2"]
    assert run.matcher.ended and run.matcher.size == 0
    hopeless = Run("a=A and not B")
    hopeless.send("B")
    assert hopeless.matcher.ended


def test_what_matches_at_once_is_returned_by_start() -> None:
    run = Run("timer:interval(0) -> a=A")
    assert run.at_once == []
    assert run.send("A", "1") == ["1"]
    assert Run("timer:interval(0)").at_once == [""]


@pytest.mark.parametrize(
    "text",
    [
        "every timer:interval(0)",
        "every (every timer:interval(0))",
        "timer:interval(0) until b=B",
        "a=A until timer:interval(0)",
        "[5000] timer:interval(0)",
        "every (a=A where timer:within(0))",
        "every (timer:interval(0) and not B)",
        "every ([3] timer:interval(0) until b=B)",
    ],
)
def test_what_is_true_or_false_at_once_has_an_end(text: str) -> None:
    run = Run(text)
    run.send("A", "1")
    run.send("B", "2")
    run.to(1000)


def test_recursion_does_not_grow_with_matches() -> None:
    run = Run("every a=A -> every b=B(id = a.id) -> c=C")
    for _ in range(3000):
        run.send("A", "k")
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        assert run.send("B", "k") == []
        assert len(run.send("C", "c")) == 3000
    finally:
        sys.setrecursionlimit(before)


def test_the_limit_drops_further_starts_and_tells_of_it() -> None:
    run = Run("every a=A -> b=B", limit=4)
    for i in range(10):
        run.send("A", str(i))
    assert run.matcher.size == 4 and run.times_crowded > 0
    assert run.send("B", "b") == ["0 b", "1 b", "2 b"]
    assert run.send("A", "10") == []
    assert run.send("B", "c") == ["10 c"]


def test_the_limit_holds_for_every_every_and_for_kept_sides() -> None:
    run = Run("every (every a=A)", limit=20)
    for _ in range(12):
        run.send("A", "1")
    assert run.matcher.size <= 20
    both = Run("every a=A and every b=B", limit=10)
    for i in range(30):
        both.send("A", str(i))
    assert both.matcher.size <= 11
    assert len(both.send("B", "b")) <= 11


def test_one_side_of_and_keeps_nothing_that_nobody_needs() -> None:
    run = Run("every a=A and not B")
    for i in range(100):
        assert run.send("A", str(i)) == [str(i)]
    assert run.matcher.size == 2


def test_guards_that_ended_early_leave_no_timers() -> None:
    run = Run("every a=A -> b=B(id = a.id) where timer:within(1 hour)")
    for i in range(5000):
        run.send("A", str(i))
        run.send("B", str(i))
    assert len(run.matcher.timers._times) < 200
    assert run.matcher.size == 1


def test_alarms_against_a_table() -> None:
    random = Random(5)
    armed_timers, table, serials = PatternTimers(), dict[int, TimerNode](), count(1)
    for _ in range(5000):
        if random.random() < 0.5:
            timer = TimePointObserver(ObserverSpec("", lambda *_: None), None, None, 0)  # type: ignore[arg-type]
            timer.serial, timer.due = next(serials), random.randrange(30)
            armed_timers.add(timer)
            table[timer.serial] = timer
        elif table and random.random() < 0.9:
            timer = table.pop(random.choice(list(table)))
            armed_timers.drop(timer)
            armed_timers.drop(timer)  # says nothing if it is not there
        else:
            upto = random.randrange(30)
            armed_timers.skip_due(upto)
            table = {serial: timer for serial, timer in table.items() if timer.due > upto}
        assert armed_timers.due == min((timer.due for timer in table.values()), default=NEVER)
        if table:
            assert list(armed_timers.first()) == [timer for timer in table.values() if timer.due == armed_timers.due]


def test_guards_that_end_at_one_instant_stand_under_one_time() -> None:
    run = Run("every a=A -> b=B(id = a.id) where timer:within(1 hour)")
    for i in range(10_000):
        run.send("A", str(i))
    assert len(run.matcher.timers._times) == 1
    assert run.to(3_600_000) == []
    assert (run.matcher.size, run.matcher.due) == (1, NEVER)


def test_timers_of_one_instant_stop_each_other_in_order_of_start() -> None:
    run = Run("every a=A -> (timer:interval(1 sec) or timer:interval(1 sec)) -> b=B")
    for i in range(3):
        run.send("A", str(i))
    assert run.to(1000) == []
    assert run.send("B", "b") == ["0 b", "1 b", "2 b"]


def test_a_failing_filter_is_told_and_the_other_atoms_see_the_event() -> None:
    run = Run("every a=A(cast(id, int) > 0) or every b=A(x > 0)")
    assert run.send("A", "no number", 1) == ["- no number"]
    assert len(run.failures) == 1
    assert run.send("A", "7", 1) == ["7 -", "- 7"]


def test_a_failing_correlation_is_told_once_for_each_waiter() -> None:
    run = Run("every a=A -> b=B(x > 0, cast(a.id, int) + x > 5)")
    run.send("A", "oops")
    run.send("A", "9")
    assert run.send("B", "b", 1) == ["9 b"]
    assert len(run.failures) == 1


def test_a_failing_key_makes_no_waiter_that_can_match() -> None:
    run = Run("every a=A -> b=B(x = cast(a.id, int))")
    run.send("A", "oops")
    run.send("A", "9")
    assert run.send("B", "b", 9) == ["9 b"]
    assert len(run.failures) == 1


def test_a_period_that_is_null_is_a_failure_and_not_true() -> None:
    run = Run("every a=A -> timer:interval(a.x seconds)")
    run.send("A", "1")
    assert [str(failure) for failure in run.failures] == ["a time period is null"]
    run.send("A", "2", 1)
    assert run.to(5000) == ["2"]


def test_filters_of_atoms_that_do_not_wait_are_not_evaluated() -> None:
    run = Run("a=A -> b=B(cast(id, int) > 0)")
    run.send("B", "no number")
    assert run.failures == []


def test_waiting_atoms_are_found_by_key() -> None:
    run = Run("every a=A -> b=B(id = a.id)")
    for i in range(1000):
        run.send("A", str(i))
    atoms = run.matcher.atoms[1]
    assert len(atoms.find({"id": "7", "x": None}, run.matcher)) == 1
    assert len(atoms.index.table) == 1000  # type: ignore[union-attr]


def test_discarding_goes_into_all_operators() -> None:
    run = Run("every (a=A and b=B) or every c=C", annotations="@DiscardPartialsOnMatch")
    run.send("A", "a1")
    assert run.send("C", "c1") == ["- - c1"]
    assert run.send("B", "b1") == ["a1 b1 -"]
    repeat = Run("every [3] a=A or every c=A(x > 5)", annotations="@DiscardPartialsOnMatch")
    assert repeat.send("A", "a1", 1) == []
    assert repeat.send("A", "a2", 9) == ["a2 -"]  # it is discarded from the round that had begun
    assert [repeat.send("A", f"a{i}", 1) for i in (3, 4, 5)] == [[], [], ["- [a3,a4,a5]"]]
