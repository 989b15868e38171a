"""Output clauses against what the same statement delivers without one, and at the end of a context partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cepbook.engine.runtime import Runtime
from tests.engine.histories import Event, Run, comparable, histories
from tests.random_cases import in_part, several

KINDS = {
    "unaggregated": "k, x",
    "aggregated": "x, sum(x) as s, count(*) as c",
    "fully_aggregated": "sum(x) as s, count(*) as c",
    "fully_aggregated_grouped": "k, sum(x) as s",
    "aggregated_grouped": "k, x, sum(x) as s",
}
WINDOWS = ["", "#keepall", "#length(3)", "#time(2 sec)", "#length_batch(2)", "#unique(g)", "#time_batch(1 sec)"]
WHICH = ["", "all", "first", "last", "snapshot"]
PERIOD = 1500

Rows = list[Any]


class Step(NamedTuple):
    """An event or an advance: what it did to the window, what the free statement made, what the limited delivered."""

    time: int
    timer: bool
    entered: Rows
    left: Rows
    ins: Rows
    rem: Rows
    delivered: list[tuple[int, Any, Any]]
    contents: Rows  # the iterator of the limited statement
    groups: dict[Any, Any]  # present row of each group that there ever was


def steps(kind: str, window: str, clause: str, events: list[Event], rest: int) -> Iterator[Step]:
    """Runs the limited statement beside one without output clause, one for its groups and one for the window itself.
    The clock stops at each due time: in a leap an interval ends before what the window lets go of later.
    """
    by = " group by k" if kind.endswith("grouped") else ""
    run = Run(
        f"@name('raw') select irstream k, x from A{window};"
        f"@name('free') select irstream {KINDS[kind]} from A{window}{by};"
        f"@name('groups') select irstream k, sum(x) as s from A{window} group by k;"
        f"@name('limited') select irstream {KINDS[kind]} from A{window}{by} output {clause}"
    )
    groups: dict[Any, Any] = {}
    done = dict.fromkeys(run.recorders, 0)

    def step(timer: bool) -> Step:
        new = {name: run.deliveries[name][done[name] :] for name in done}
        done.update({name: len(run.deliveries[name]) for name in done})

        def side(name: str, at: int) -> Rows:
            return [row for delta in new[name] for row in delta[at] or []]

        groups.update({row["k"]: row for row in side("groups", 1)})
        return Step(
            run.runtime.now,
            timer,
            side("raw", 1),
            side("raw", 2),
            side("free", 1),
            side("free", 2),
            new["limited"],
            comparable(run.runtime.iterate("limited")),
            dict(groups),
        )

    def stops(end: int) -> Iterator[int]:
        while run.runtime.now < run.runtime.clock.due < end:
            yield run.runtime.clock.due
        yield end

    def advance(end: int) -> Iterator[Step]:
        for stop in stops(end):
            run.runtime.advance(stop)
            yield step(True)

    for event in events:
        if event.time > run.runtime.now:
            yield from advance(event.time)
        run.send([event])
        yield step(False)
    for _ in range(3):
        yield from advance(run.runtime.now + rest)


@dataclass
class Model:
    """What should be delivered, said as plainly as possible. `number` of events, or None: every `PERIOD`."""

    kind: str
    window: str
    which: str
    number: int | None
    origin: int | None = None
    due: int | None = None
    count: list[int] = field(default_factory=lambda: [0, 0])
    ins: Rows = field(default_factory=list)
    rem: Rows = field(default_factory=list)
    moved: bool = False
    touched: list[Any] = field(default_factory=list)
    known: dict[Any, Any] = field(default_factory=dict)  # key -> the last event of the group, for rows per event
    order: list[Any] = field(default_factory=list)
    present: Any = None
    silent: dict[Any, Any] = field(default_factory=dict)

    def __call__(self, step: Step) -> list[tuple[int, Any, Any]]:
        """The deliveries that `step` should cause."""
        made = [step.ins, step.rem] if step.entered or step.left or step.ins else [[], []]
        if step.entered or step.left:
            if self.which == "first":
                return self.first(step)
            self.collect(step)
        elif self.which == "first":
            return []
        found: list[tuple[Rows, Rows]] = []
        forced = False
        if self.number is not None and (made[0] or made[1] or step.entered or step.left):
            self.count[0] += len(step.entered)
            self.count[1] += len(step.left)
            if max(self.count) >= self.number:
                self.count = [0, 0]
                found.append(self.rows(step))
        if self.number is None:
            if self.due is not None and step.timer and step.time >= self.due:
                assert self.origin is not None
                self.due = self.origin + ((step.time - self.origin) // PERIOD + 1) * PERIOD
                found.append(self.rows(step))
                forced = True
            elif self.due is None and (step.entered or step.left):
                self.origin, self.due = step.time, step.time + PERIOD
        if not found or not (forced or found[0][0] or found[0][1]):
            return []
        return [(step.time, found[0][0] or None, found[0][1] or None)]

    def collect(self, step: Step) -> None:
        if not self.moved:
            self.former = step.rem[:1]
        self.moved = True
        self.ins += step.ins
        self.rem += step.rem
        self.touched += [row["k"] for row in (*step.entered, *step.left)]
        if self.kind == "fully_aggregated":
            self.present = step.ins[-1]
        if self.kind == "fully_aggregated_grouped":
            self.known.update(dict.fromkeys(row["k"] for row in step.ins))
        elif self.kind == "aggregated_grouped":
            self.known.update({row["k"]: row for row in step.ins})
            for key, row in {row["k"]: row for row in step.rem if self.which == "all"}.items():
                self.ins.append({**self.known.setdefault(key, row), "s": row["s"]})  # a group that lost events, once

    def rows(self, step: Step) -> tuple[Rows, Rows]:
        ins, rem, moved = self.ins, self.rem, self.moved
        self.ins, self.rem, self.moved = [], [], False
        if self.which == "snapshot":
            unbound_groups = not self.window and self.kind == "fully_aggregated_grouped"
            return (list(step.groups.values()) if unbound_groups else step.contents), []
        if self.kind == "fully_aggregated":
            if not moved:
                return [self.present], [self.present]
            return ([self.present], self.former) if self.which == "last" else (ins, rem)
        if self.kind == "fully_aggregated_grouped" and self.which:
            before = {row["k"]: row for row in reversed(rem)}
            now = {key: step.groups[key] for key in (self.known if self.which == "all" else {r["k"]: 0 for r in ins})}
            return list(now.values()), [before.get(key, row) for key, row in now.items()]
        if self.kind == "aggregated_grouped" and self.which:
            if self.which == "last":
                return list({r["k"]: r for r in ins}.values()), list({r["k"]: r for r in rem}.values())
            arrived = {r["k"] for r in ins}
            idle = [{**row, "s": step.groups[key]["s"]} for key, row in self.known.items() if key not in arrived]
            return ins + idle, rem
        return (ins[-1:], rem[-1:]) if self.which == "last" else (ins, rem)

    # ------------------------------------------------------------ first
    def first(self, step: Step) -> list[tuple[int, Any, Any]]:
        if self.origin is None:
            self.origin = step.time
        if not self.kind.endswith("grouped"):
            passed = self.opens(None, step.time, len(step.entered), len(step.left))
            if not passed or not (step.ins or step.rem):
                return []
            self.shut(None, step.time, [len(step.entered), len(step.left)])
            return [(step.time, step.ins or None, step.rem or None)]
        sides: list[Rows] = [[], []]
        passed_keys: set[Any] = set()
        of_groups: dict[Any, Any] = {}
        for side, (moved, rows) in enumerate(((step.entered, step.ins), (step.left, step.rem))):
            for event, row in zip(moved, rows if self.kind == "aggregated_grouped" else moved, strict=True):
                if self.opens(event["k"], step.time, 1 - side, side):
                    self.shut(event["k"], step.time)
                    passed_keys.add(event["k"])
                    of_groups[event["k"]] = row
        if self.kind != "aggregated_grouped":
            sides = [[row for row in rows if row["k"] in passed_keys] for rows in (step.ins, step.rem)]
        else:
            sides = [list(of_groups.values()), []]  # what leaves comes in, too
        return [(step.time, sides[0] or None, sides[1] or None)] if sides[0] or sides[1] else []

    def opens(self, key: Any, time: int, entered: int, left: int) -> bool:
        silence = self.silent.get(key)
        if silence is None:
            return True
        if self.number is None:
            return bool(time > silence if "batch" in self.window else time >= silence)
        before = max(silence)
        silence[0] += entered
        silence[1] += left
        if not self.kind.endswith("grouped"):  # what comes with the n-th event does not pass
            return bool(before >= self.number)
        return bool(max(silence) >= self.number)

    def shut(self, key: Any, time: int, counted: Sequence[int] = (0, 0)) -> None:
        if self.number is not None:
            self.silent[key] = list(counted)
        elif self.kind.endswith("grouped") or "batch" in self.window:
            self.silent[key] = time + PERIOD
        else:
            assert self.origin is not None
            self.silent[key] = self.origin + ((time - self.origin) // PERIOD + 1) * PERIOD


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_delivered_of_an_interval(kind: str, which: str) -> None:
    @settings(max_examples=several(13))
    @given(
        histories(("A",), most=25),
        st.sampled_from(WINDOWS),
        st.sampled_from([1, 2, 3, 5, None]),
        st.sampled_from([1000, 4000]),
    )
    @in_part
    def check(events: list[Event], window: str, number: int | None, rest: int) -> None:
        rate = f"{PERIOD} msec" if number is None else f"{number} events"
        model = Model(kind, window, which, number)
        for step in steps(kind, window, f"{which} every {rate}", events, rest):
            assert step.delivered == model(step), (window, rate)

    check()


@settings(max_examples=several(8))
@given(histories(("A",), most=25), st.sampled_from(WINDOWS), st.integers(0, 6), st.sampled_from([*KINDS]))
@in_part
def test_after_drops_the_first_events(events: list[Event], window: str, number: int, kind: str) -> None:
    count = 0
    for step in steps(kind, window, f"after {number} events", events, 1000):
        count += len(step.entered)
        free = [(step.time, step.ins or None, step.rem or None)] if step.ins or step.rem else []
        assert step.delivered == (free if count > number else [])


@settings(max_examples=several(8))
@given(histories(("A",), most=25), st.sampled_from(WINDOWS), st.sampled_from([1, 999, 1000, 3500]))
@in_part
def test_after_drops_the_first_period(events: list[Event], window: str, period: int) -> None:
    for step in steps("unaggregated", window, f"after {period} msec", events, 1000):
        free = [(step.time, step.ins or None, step.rem or None)] if step.ins or step.rem else []
        assert step.delivered == (free if step.time >= period else [])


# ---------------------------------------------------------------- the end of a context partition
def ends(select: str) -> Callable[[int, list[tuple[str, int]]], Any]:
    """Runs `select` in a keyed context; the result sends the events of one partition, and ends it."""
    runtime = Runtime()
    runtime.deploy(
        "create schema D(p int, id string, v int); create context C partition by p from D;"
        f"@name('s') context C {select}"
    )
    statement = runtime.statement("s")
    seen: list[Any] = []
    statement.add_listener(lambda delta: seen.append((delta.insert, delta.remove)))

    def part(number: int, events: list[tuple[str, int]]) -> Any:
        seen.clear()
        for id_, v in events:
            runtime.send("D", {"p": number, "id": id_, "v": v})
        runtime.advance(runtime.now + 1000)
        found = statement.ended(statement.states()[-1][1], runtime.now)
        return [*seen, None if found is None else tuple(statement.outlet.layout.delta(runtime.now, *found))[1:]]

    return part


FIRST, SECOND = [("a", 1), ("b", 2), ("a", 3)], [("c", 4), ("c", 5)]


@pytest.mark.parametrize(
    ("select", "first", "second"),
    [
        # recorded: output_when_terminated_plain, output_all_…, output_last_…, output_snapshot_…, …_order_by
        ("select id, v from D output when terminated", ["a 1", "b 2", "a 3"], ["c 4", "c 5"]),
        ("select id, sum(v) as t from D group by id output all when terminated", ["a 4", "b 2"], ["c 9"]),
        ("select sum(v) as t from D output all when terminated", ["1", "3", "6"], ["4", "9"]),
        ("select id, v from D output last when terminated", ["a 3"], ["c 5"]),
        ("select id, sum(v) as t from D group by id output last when terminated", ["a 4", "b 2"], ["c 9"]),
        ("select sum(v) as t from D output last when terminated", ["6"], ["9"]),
        ("select id, sum(v) as t from D output last when terminated", ["a 6"], ["c 9"]),
        (
            "select id, v from D#keepall output snapshot when terminated order by v desc",
            ["a 3", "b 2", "a 1"],
            ["c 5", "c 4"],
        ),
        ("select id, sum(v) as t from D group by id output snapshot when terminated", ["a 4", "b 2"], ["c 9"]),
        ("select sum(v) as t from D output snapshot when terminated", ["6"], ["9"]),
        ("select id, v from D output snapshot when terminated", [], []),
        ("select id, v from D#length(2) output snapshot when terminated", ["b 2", "a 3"], ["c 4", "c 5"]),
        ("select id, v from D output all when terminated order by v desc", ["a 3", "b 2", "a 1"], ["c 5", "c 4"]),
        (
            "select id, v from D#keepall output snapshot when terminated order by v desc limit 2",
            ["a 3", "b 2"],
            ["c 5", "c 4"],
        ),
        # keyed_start_end_time_props: the clock is read at the end
        (
            "select context.key1 as k, current_timestamp as t from D output all when terminated",
            ["0 1000", "0 1000", "0 1000"],
            ["1 2000", "1 2000"],
        ),
    ],
)
def test_what_the_end_of_a_partition_delivers(select: str, first: list[str], second: list[str]) -> None:
    part = ends(select)
    for number, events, expected in ((0, FIRST, first), (1, SECOND, second)):
        *before, found = part(number, events)
        assert before == []
        rows = [] if found is None or found[0] is None else found[0]
        assert [" ".join(str(value) for value in row.values()) for row in rows] == expected


def test_first_is_delivered_at_once_and_nothing_at_the_end() -> None:
    part = ends("select id, v from D output first when terminated")
    assert part(0, FIRST) == [([{"id": "a", "v": 1}], None), None]


def test_what_is_left_behind_a_rate() -> None:
    part = ends("select id from D output every 2 events and when terminated")
    assert part(0, FIRST) == [([{"id": "a"}, {"id": "b"}], None), ([{"id": "a"}], None)]
    part = ends("select id from D output after 1 events all every 2 events and when terminated")
    assert part(0, FIRST) == [([{"id": "a"}, {"id": "b"}, {"id": "a"}], None), None]


def test_the_former_row_is_that_before_the_partition() -> None:
    part = ends("select irstream sum(v) as t from D output last when terminated")
    assert part(0, FIRST) == [([{"t": 6}], [{"t": None}])]


def test_the_condition_of_the_end_sees_counters_and_context() -> None:
    part = ends("select id from D output when terminated and count_insert >= 3 and context.key1 = 0")
    assert part(0, FIRST)[-1] == ([{"id": "a"}, {"id": "b"}, {"id": "a"}], None)
    assert part(1, FIRST)[-1] is None


def test_assignments_of_the_end_are_executed_in_any_case() -> None:
    runtime = Runtime()
    runtime.deploy(
        "create schema D(p int, v int); create context C partition by p from D; create variable int n = 0;"
        "@name('s') context C select v from D output when terminated and count_insert > 5 then set n = n + count_insert"
    )
    for v in range(3):
        runtime.send("D", {"p": 0, "v": v})
    statement = runtime.statement("s")
    assert statement.ended(statement.states()[0][1], 0) is None
    assert runtime.get_variable("n") == 3


# ---------------------------------------------------------------- failures at run time
@pytest.mark.parametrize(
    ("declared", "clause", "value", "message"),
    [
        ("int V = 1", "every V sec", 0, "the output rate is not above 0"),
        ("int V = 1", "every V sec", None, "the output rate is null"),
        ("int V = 1", "at (V, *, *, *, *)", 60, "the minutes of a crontab are 0 to 59, found 60"),
        ("int V = 1", "at (*, V:20, *, *, *)", None, "the hours of a crontab are 0 to 23, found null, 20"),
    ],
)
def test_bad_values_of_variables_are_failures_of_the_statement(
    declared: str, clause: str, value: int | None, message: str
) -> None:
    run = Run(f"create variable {declared}; @name('s') select x from A output {clause}; @name('t') select x from A")
    errors: list[Any] = []
    run.runtime.add_error_listener(errors.append)
    run.runtime.set_variable("V", value)
    run.send([Event(5, "A", {"x": 1})])
    assert [(e.statement, message in str(e), "output" in str(e)) for e in errors] == [("s", True, True)]
    assert run.deliveries["t"] == [(5, comparable([{"x": 1}]), None)], "other statements go on"


def test_a_condition_that_fails_when_a_variable_changes() -> None:
    def check(value: int) -> bool:
        if value < 0:
            raise ArithmeticError("negative")
        return value > 5

    runtime = Runtime()
    runtime.register_function("check", check)
    errors: list[Any] = []
    runtime.add_error_listener(errors.append)
    runtime.deploy("create schema A(x int); create variable int V = 0; @name('s') select x from A output when check(V)")
    runtime.set_variable("V", -1)
    assert runtime.get_variable("V") == -1
    assert ["negative" in str(e) for e in errors] == [True]


def test_variables_no_longer_reach_a_statement_that_is_gone() -> None:
    runtime = Runtime()
    runtime.deploy("create schema A(x int); create variable boolean GO = false", deployment_id="first")
    runtime.deploy("@name('s') select x from A output when GO", deployment_id="second")
    runtime.send("A", {"x": 1})
    runtime.undeploy("second")
    runtime.set_variable("GO", True)
    assert runtime.next_due is None or runtime.next_due > runtime.now
    assert runtime.variables["GO"].listeners == []
