"""Every aggregation function against a recomputation from the events in the window, and from all that ever entered."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings

from tests.engine.cycles.naive import aggregate
from tests.engine.histories import Event, Run, comparable, histories
from tests.engine.reference import Change, Groups, Length, changes, mean, total
from tests.engine.windows.test_windows import WINDOWS
from tests.random_cases import in_part, several


@dataclass
class State:
    """The events of a window in the order of entry, and those that ever entered and left."""

    held: list[Event] = field(default_factory=list)
    entered: list[Event] = field(default_factory=list)
    left: list[Event] = field(default_factory=list)
    times: list[int] = field(default_factory=list)  # of entry
    now: int = 0

    def after(self, change: Change) -> State:
        gone = {id(e) for e in change.old}
        held = [e for e in (*self.held, *change.new) if id(e) not in gone]
        times = [*self.times, *(change.time for _ in change.new)]
        return State(held, [*self.entered, *change.new], [*self.left, *change.old], times, change.time)


def values(events: Iterable[Event], name: str) -> list[Any]:
    return [v for e in events if (v := e.values[name]) is not None]


def where(events: Iterable[Event], test: Callable[[Any], bool], name: str = "g") -> list[Event]:
    return [e for e in events if e.values[name] is not None and test(e.values[name])]


def median(found: list[Any]) -> float | None:
    return float(statistics.median(found)) if found else None


def stddev(found: list[Any]) -> float | None:
    return statistics.stdev(map(float, found)) if len(found) > 1 else None


def stddevpop(found: list[Any]) -> float | None:
    return statistics.pstdev(map(float, found)) if found else None


def avedev(found: list[Any]) -> float | None:
    if not found:
        return None
    mean = sum(found) / len(found)
    return sum(abs(v - mean) for v in found) / len(found)


def power(name: str, found: list[Any]) -> float | None:
    """One of running queries', whose variance of a single value is 0."""
    numbers = [float(value) for value in found]
    return None if not numbers or (name == "variance" and len(numbers) < 2) else aggregate(name, numbers)  # type: ignore[no-any-return]


def at(found: list[Any], index: int) -> Any:
    return found[index] if -len(found) <= index < len(found) else None


def low(name: str) -> Callable[[Event], Any]:
    """A sort key, null lowest."""
    return lambda e: (e.values[name] is not None, e.values[name] or 0)


def high(name: str) -> Callable[[Event], Any]:
    """The same, descending."""
    return lambda e: (e.values[name] is None, -(e.values[name] or 0))


def both(first: Callable[[Event], Any], second: Callable[[Event], Any]) -> Callable[[Event], Any]:
    return lambda e: (first(e), second(e))


def whole(event: Event | None) -> Any:
    return None if event is None else event.values


def by(choose: Callable[..., Event], events: list[Event], key: Callable[[Event], Any]) -> Any:
    return whole(choose(events, key=key) if events else None)


def rate_by_time(state: State) -> float | None:
    gone = [t for t in state.times if t + 1000 <= state.times[-1]]  # the interval ends with the latest arrival
    return float(len(state.times) - len(gone)) if gone else None


def rate_by_stamp(state: State, amount: str | None) -> float | None:
    stamped, gone = ([e for e in part if e.values["n"] is not None] for part in (state.entered, state.left))
    if not gone:
        return None
    total = sum((e.values[amount] or 0) if amount else 1 for e in state.held if e.values["n"] is not None)
    span = stamped[-1].values["n"] - gone[-1].values["n"]
    if span:
        return total * 1000 / span
    return float("nan") if not total else float("inf") if total > 0 else float("-inf")


FUNCTIONS: dict[str, Callable[[State], Any]] = {
    "median(d)": lambda s: median(values(s.held, "d")),
    "median(x)": lambda s: median(values(s.held, "x")),
    "median(distinct d, g = 1)": lambda s: median(list(set(values(where(s.held, (1).__eq__), "d")))),
    "stddev(d)": lambda s: stddev(values(s.held, "d")),
    "stddev(distinct x)": lambda s: stddev(list(set(values(s.held, "x")))),
    "stddev(f, filter: g > 0)": lambda s: stddev(values(where(s.held, (0).__lt__), "f")),
    "stddevpop(d)": lambda s: stddevpop(values(s.held, "d")),
    "stddevpop(n)": lambda s: stddevpop(values(s.held, "n")),
    "avedev(d)": lambda s: avedev(values(s.held, "d")),
    "avedev(x, g = 1)": lambda s: avedev(values(where(s.held, (1).__eq__), "x")),
    "variance(d)": lambda s: power("variance", values(s.held, "d")),
    "variance(distinct x, g > 0)": lambda s: power("variance", list(set(values(where(s.held, (0).__lt__), "x")))),
    "geomean(x)": lambda s: power("geomean", values(s.held, "x")),
    "sumsq(d)": lambda s: power("sumsq", values(s.held, "d")),
    "skewness(d)": lambda s: power("skewness", values(s.held, "d")),
    "kurtosis(x)": lambda s: power("kurtosis", values(s.held, "x")),
    "total(n)": lambda s: sum(values(s.held, "n")) if values(s.held, "n") else None,
    "fmin(x, g = 1)": lambda s: min(values(where(s.held, (1).__eq__), "x"), default=None),
    "fmax(d, g > 0)": lambda s: max(values(where(s.held, (0).__lt__), "d"), default=None),
    "minever(x)": lambda s: min(values(s.entered, "x"), default=None),
    "maxever(k)": lambda s: max(values(s.entered, "k"), default=None),
    "minever(d, g = 1)": lambda s: min(values(where(s.entered, (1).__eq__), "d"), default=None),
    "fminever(n, x > 0)": lambda s: min(values(where(s.entered, (0).__lt__, "x"), "n"), default=None),
    "fmaxever(x, g > 0)": lambda s: max(values(where(s.entered, (0).__lt__), "x"), default=None),
    "firstever(x)": lambda s: at(values(s.entered, "x"), 0),
    "firstever(d, g = 1)": lambda s: at(values(where(s.entered, (1).__eq__), "d"), 0),
    "lastever(x)": lambda s: at(values(s.entered, "x"), -1),
    "countever(*)": lambda s: len(s.entered),
    "countever(x)": lambda s: len(values(s.entered, "x")),
    "countever(*, filter: g = 1)": lambda s: len(where(s.entered, (1).__eq__)),
    "nth(x, 0)": lambda s: at(values(s.held, "x"), -1),
    "nth(x, 2)": lambda s: at(values(s.held, "x"), -3),
    "nth(d, 1, g > 0)": lambda s: at(values(where(s.held, (0).__lt__), "d"), -2),
    "maxbyever(x)": lambda s: by(max, s.entered, low("x")),
    "minbyever(x, d desc)": lambda s: by(min, s.entered, both(low("x"), high("d"))),
    "maxbyever(d, filter: g = 1)": lambda s: by(max, where(s.entered, (1).__eq__), low("d")),
    "rate(1)": rate_by_time,
    "leaving()": lambda s: bool(s.left),
}
# for which an unbound stream counts all events, or which it does not allow
OF_THE_WINDOW: dict[str, Callable[[State], Any]] = {
    "window(x)": lambda s: [e.values["x"] for e in s.held] or None,
    "window(k, g > 0)": lambda s: [e.values["k"] for e in where(s.held, (0).__lt__)] or None,
    "window(*)": lambda s: [e.values for e in s.held] or None,
    "first(*)": lambda s: whole(at(s.held, 0)),
    "last(*, 1)": lambda s: whole(at(s.held, -2)),
    "last(d, at)": lambda s: at([e.values["d"] for e in s.held], -3),
    "sorted(x, d desc)": lambda s: [e.values for e in sorted(s.held, key=both(low("x"), high("d")))] or None,
    "sorted(d desc, filter: g = 1)": lambda s: (
        [e.values for e in sorted(where(s.held, (1).__eq__), key=high("d"))] or None
    ),
    "maxby(x)": lambda s: by(max, s.held, low("x")),
    "maxby(d, x desc)": lambda s: by(max, s.held, both(low("d"), high("x"))),
    "minby(x)": lambda s: by(min, s.held, low("x")),
    "minby(d desc)": lambda s: by(min, s.held, high("d")),
    "rate(n)": lambda s: rate_by_stamp(s, None),
    "rate(n, x)": lambda s: rate_by_stamp(s, "x"),
    "rate(n, d)": lambda s: rate_by_stamp(s, "d"),
}
OVER = ["", *(w for w in WINDOWS if "groupwin" not in w or "batch" not in w)]


def rounded(value: Any) -> Any:
    """`value` with ten digits, at most twelve of them decimals: the reference has 1e-17 for a skewness of 0."""
    if isinstance(value, float):
        return round(float(f"{value:.10g}"), 12) + 0.0
    if isinstance(value, dict):
        return {name: rounded(v) for name, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list | tuple) else value


def functions(window: str) -> dict[str, Callable[[State], Any]]:
    return FUNCTIONS if not window else FUNCTIONS | OF_THE_WINDOW


def row(window: str, state: State) -> dict[str, Any]:
    return {f"c{i}": function(state) for i, function in enumerate(functions(window).values())}


def selected(window: str) -> str:
    return ", ".join(f"{text} as c{i}" for i, text in enumerate(functions(window)))


@pytest.mark.parametrize("window", OVER)
def test_whole_window(window: str) -> None:
    """One row per change: insert shows the values after it, remove those before."""

    @settings(max_examples=several(4))
    @given(histories(("A",), most=25))
    @in_part
    def check(events: list[Event]) -> None:
        run = Run(f"create variable int at = 2; @name('s') select irstream {selected(window)} from A{window}")
        run.send(events)
        state, expected = State(), []
        for change, _ in changes(WINDOWS[window or "#keepall"](), events, events[-1].time if events else 0):
            before = row(window, State(state.held, state.entered, state.left, state.times, change.time))
            state = state.after(change)
            expected.append((change.time, comparable([row(window, state)]), comparable([before])))
        assert rounded(run.deliveries["s"]) == rounded(expected)

    check()


GROUPED = ["", "#keepall", "#length(3)", "#time(1 sec)", "#unique(k, g)", "#length_batch(3)", "#groupwin(g)#length(2)"]


@pytest.mark.parametrize("window", GROUPED)
def test_groups(window: str) -> None:
    """A group forgets everything, values ever as well, after the delivery in which its last event leaves."""

    @settings(max_examples=several(4))
    @given(histories(("A",), most=25))
    @in_part
    def check(events: list[Event]) -> None:
        run = Run(f"create variable int at = 2; @name('s') select k, {selected(window)} from A{window} group by k")
        run.send(events)
        naive = {
            "#unique(k, g)": WINDOWS["#std:unique(k, g)"],
            "": WINDOWS["#keepall"],
            "#groupwin(g)#length(2)": lambda: Groups(lambda e: e.values["g"], lambda: Length(2)),
        }
        window_ = naive.get(window, WINDOWS.get(window, WINDOWS["#keepall"]))()
        states: dict[Any, State] = {}
        expected = []
        for change, _ in changes(window_, events, events[-1].time if events else 0):
            touched = dict.fromkeys(e.values["k"] for e in (*change.new, *change.old))
            rows = []
            for key in touched:
                part = Change(change.time, *([e for e in es if e.values["k"] == key] for es in change[1:]))
                states[key] = states.get(key, State()).after(part)
                rows.append({"k": key, **row(window, states[key])})
                if not states[key].held:
                    states[key] = State(now=change.time)
            expected.append((change.time, sorted(map(repr, rounded(comparable(rows))))))
        found = [(time, sorted(map(repr, rounded(insert)))) for time, insert, _ in run.deliveries["s"]]
        assert found == expected

    check()


@pytest.mark.parametrize("window", ["", "#length(3)", "#time(1 sec)", "#unique(k)", "#length_batch(3)"])
def test_replay_delivers_the_same(window: str) -> None:
    @settings(max_examples=several(4))
    @given(histories(("A",), most=25))
    @in_part
    def check(events: list[Event]) -> None:
        epl = f"create variable int at = 2; @name('s') select irstream {selected(window)} from A{window}"
        one_by_one, replayed = Run(epl), Run(epl)
        one_by_one.send(events)
        replayed.replay(events, [len(events) // 2])
        assert replayed.deliveries == one_by_one.deliveries

    check()


LOCAL = {
    "sum(x, group_by: g)": lambda e, held: total(values([o for o in held if o.values["g"] == e.values["g"]], "x")),
    "count(*, group_by: (g, k))": lambda e, held: sum(
        (o.values["g"], o.values["k"]) == (e.values["g"], e.values["k"]) for o in held
    ),
    "max(d, group_by: k)": lambda e, held: max(
        values([o for o in held if o.values["k"] == e.values["k"]], "d"), default=None
    ),
    "avg(d, g = 1, group_by: k)": lambda e, held: mean(
        values([o for o in held if o.values["k"] == e.values["k"] and o.values["g"] == 1], "d")
    ),
    "median(x, group_by: ())": lambda e, held: median(values(held, "x")),
    "sum(x)": lambda e, held: total(values(held, "x")),
}


@pytest.mark.parametrize("window", ["#keepall", "#length(3)", "#time(1 sec)", "#unique(k)", "#length_batch(3)"])
@pytest.mark.parametrize("group_by", ["", "group by g"])
def test_local_groups(window: str, group_by: str) -> None:
    """A row per event, with the values of the event's local groups after the change."""

    @settings(max_examples=several(4))
    @given(histories(("A",), most=25))
    @in_part
    def check(events: list[Event]) -> None:
        shown = ", ".join(f"{text} as c{i}" for i, text in enumerate(LOCAL))
        run = Run(f"@name('s') select irstream k, n, {shown} from A{window} {group_by}")
        run.send(events)
        expected = []
        state = State()
        for change, _ in changes(WINDOWS[window](), events, events[-1].time if events else 0):
            state = state.after(change)

            def line(event: Event, held: list[Event] = state.held) -> dict[str, Any]:
                own = [o for o in held if o.values["g"] == event.values["g"]] if group_by else held
                found = {
                    f"c{i}": f(event, own if text == "sum(x)" else held) for i, (text, f) in enumerate(LOCAL.items())
                }
                return {"k": event.values["k"], "n": event.values["n"], **found}

            parts = ([comparable(line(e)) for e in part] or comparable(None) for part in change[1:])
            expected.append((change.time, *parts))
        assert rounded(run.deliveries["s"]) == rounded(expected)

    check()


@pytest.mark.parametrize("window", ["#length(3)", "#time(1 sec)", "#length_batch(3)"])
def test_local_groups_of_groups(window: str) -> None:
    """Local keys among those of the statement: a row per group, with the former values of all of them before."""

    @settings(max_examples=several(4))
    @given(histories(("A",), most=25))
    @in_part
    def check(events: list[Event]) -> None:
        shown = "count(*) as own, count(*, group_by: g) as wide, sum(x, group_by: ()) as everything"
        run = Run(f"@name('s') select irstream g, k, {shown} from A{window} group by g, k")
        run.send(events)
        expected = []
        state = State()

        def line(key: tuple[Any, Any], held: list[Event]) -> Any:
            own = sum((e.values["g"], e.values["k"]) == key for e in held)
            wide = sum(e.values["g"] == key[0] for e in held)
            return {"g": key[0], "k": key[1], "own": own, "wide": wide, "everything": total(values(held, "x"))}

        for change, _ in changes(WINDOWS[window](), events, events[-1].time if events else 0):
            touched = dict.fromkeys((e.values["g"], e.values["k"]) for e in (*change.new, *change.old))
            before = [comparable(line(key, state.held)) for key in touched]
            state = state.after(change)
            expected.append((change.time, [comparable(line(key, state.held)) for key in touched], before))
        assert run.deliveries["s"] == expected

    check()
