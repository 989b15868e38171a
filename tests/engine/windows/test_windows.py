"""Windows against naive ones: what enters and leaves, when, in which delivery, and what iterators show."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cepbook.engine.runtime import Runtime
from cepbook.errors import StatementError
from tests.engine.histories import Event, Run, comparable, histories
from tests.engine.reference import (
    Groups,
    KeepAll,
    Length,
    LengthBatch,
    Time,
    TimeBatch,
    Unique,
    Window,
    changes,
    contents,
)
from tests.random_cases import in_part, several


def k(event: Event) -> object:
    return event.values["k"]


WINDOWS: dict[str, Callable[[], Window]] = {
    "#keepall": KeepAll,
    "#length(3)": lambda: Length(3),
    ".win:length(1)": lambda: Length(1),
    "#time(1 sec)": lambda: Time(1000),
    "#win:time(3.5)": lambda: Time(3500),
    "#length_batch(3)": lambda: LengthBatch(3),
    "#win:length_batch(1)": lambda: LengthBatch(1),
    "#time_batch(1 sec)": lambda: TimeBatch(1000),
    ".win:time_batch(3 sec 500 msec)": lambda: TimeBatch(3500),
    "#unique(k)": lambda: Unique(k),
    "#std:unique(k, g)": lambda: Unique(lambda e: (e.values["k"], e.values["g"])),
    "#lastevent": lambda: Length(1),
    ".std:lastevent()": lambda: Length(1),
    "#groupwin(k)#keepall": lambda: Groups(k, KeepAll),
    "#groupwin(k)#length(2)": lambda: Groups(k, lambda: Length(2)),
    ".std:groupwin(k).win:time(1 sec)": lambda: Groups(k, lambda: Time(1000)),
    "#groupwin(k)#length_batch(2)": lambda: Groups(k, lambda: LengthBatch(2)),
    "#groupwin(k)#time_batch(1 sec)": lambda: Groups(k, lambda: TimeBatch(1000)),
    "#groupwin(g)#unique(k)": lambda: Groups(lambda e: e.values["g"], lambda: Unique(k)),
    "#groupwin(k, g)#lastevent": lambda: Groups(lambda e: (e.values["k"], e.values["g"]), lambda: Length(1)),
}
UNORDERED = {"#unique(k)", "#std:unique(k, g)", "#groupwin(g)#unique(k)"}  # their iteration order is open


def rows(events: list[Event]) -> list[dict[str, object]]:
    return [{"k": e.values["k"], "x": e.values["x"], "d": e.values["d"]} for e in events]


@pytest.mark.parametrize("selector", ["irstream", "istream", "rstream"])
@pytest.mark.parametrize("window", WINDOWS)
def test_deliveries(window: str, selector: str) -> None:
    @settings(max_examples=several(6))
    @given(histories(("A",)), st.sampled_from([0, 500, 1000, 9000]))
    @in_part
    def check(events: list[Event], rest: int) -> None:
        run, reference = Run(f"@name('s') select {selector} k, x, d from A{window}"), WINDOWS[window]()
        until = (events[-1].time if events else 0) + rest
        run.send(events)
        run.runtime.advance(until)
        expected = []
        for change, _ in changes(reference, events, until):
            insert, remove = rows(change.new), rows(change.old)
            if selector == "istream":
                remove = []
            elif selector == "rstream":
                insert, remove = remove, []
            if insert or remove:
                expected.append((change.time, comparable(insert or None), comparable(remove or None)))
        assert run.deliveries["s"] == expected
        shown, held = comparable(run.runtime.iterate("s")), comparable(rows(contents(reference)))
        if window in UNORDERED:
            shown, held = sorted(shown, key=repr), sorted(held, key=repr)
        assert shown == held

    check()


@pytest.mark.parametrize("window", [w for w in WINDOWS if w not in UNORDERED])
def test_where_hides_rows_and_keeps_their_places(window: str) -> None:
    """``where`` over a window rejects rows of both streams; rejected events fill and leave the window all the same."""

    @settings(max_examples=several(5))
    @given(histories(("A",)))
    @in_part
    def check(events: list[Event]) -> None:
        run, reference = Run(f"@name('s') select irstream k, x, d from A{window} where x > 0"), WINDOWS[window]()
        run.send(events)
        until = events[-1].time if events else 0
        expected = []
        for change, _ in changes(reference, events, until):
            insert, remove = (rows([e for e in part if (e.values["x"] or 0) > 0]) for part in change[1:])
            if insert or remove:
                expected.append((change.time, comparable(insert or None), comparable(remove or None)))
        assert run.deliveries["s"] == expected

    check()


def test_a_value_that_cannot_be_ordered_leaves_the_window_as_it_was() -> None:
    runtime = Runtime()
    runtime.deploy("create schema T(k string, x Object); @name('s') select * from T#rank(k, 2, x)")
    failures: list[StatementError] = []
    runtime.add_error_listener(failures.append)
    for k, x in (("a", 3), ("b", 1), ("b", "text"), ("b", 2)):
        runtime.send("T", {"k": k, "x": x})
    assert [type(failure.cause) for failure in failures] == [TypeError]
    assert runtime.iterate("s") == [{"k": "b", "x": 2}, {"k": "a", "x": 3}]
