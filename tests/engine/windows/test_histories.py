"""The engine against the naive windows: random histories of events and advances of the clock for each window.

After every step of a history the deliveries that it caused and what the iterator shows must be those of the reference;
after the whole of it the same must hold for the batch entry. A history is drawn as bytes, four per step, which is quick
to draw and shrinks to few and simple steps. `CEPBOOK_HISTORIES` is the number of histories for each window.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cepbook.engine.delivery.delta import Rows
from cepbook.engine.runtime import Runtime
from cepbook.lang.plan.nodes import ModulePlan
from cepbook.lang.registry.windows import WINDOWS
from tests.engine import histories
from tests.engine.histories import slices
from tests.engine.sinks import Deltas
from tests.engine.windows.references import Change, Event, ExpressionWindow, Skipped
from tests.engine.windows.texts import build, names_of
from tests.random_cases import in_part, several

pytestmark = pytest.mark.histories

HISTORIES_OF_WINDOW = several(100)  # 1,000 after a change of windows
SCHEMA = "create schema E(id int, k string, x int, y int, w int, ts long); create schema Ctl(n int);"
VARIABLE = "create variable int SIZE = 3; on Ctl set SIZE = n;"
GAPS = (0, 0, 1, 200, 499, 500, 501, 999, 1000, 1001, 1700, 2000, 3000, 7300)
LAGS = (0, 0, 0, -1, -200, -500, -999, -1000, -1001, -1700, -4000, 1, 500, 1000, 1001, 2500)
KEYS = ("a", "b", "c", None)
NUMBERS = (None, -1, 0, 1, 2, 3, 4, 5)


class Advance(NamedTuple):
    """The clock goes to `time` ms in one step, which may be the present one."""

    time: int


class Arrival(NamedTuple):
    """An event arrives at `time`, which is the present one."""

    time: int
    type: str
    values: dict[str, Any]


Step = Advance | Arrival


def history(drawn: bytes) -> list[Step]:
    """Steps out of bytes. The first says how many of the rest count, four to a step."""
    now, steps = 0, list[Step]()
    for at in range(1, 1 + 4 * (5 + drawn[0] % 21), 4):
        kind, a, b, c = drawn[at : at + 4]
        if kind < 100:
            now += GAPS[a % len(GAPS)]
            steps.append(Advance(now))
        elif kind < 112:
            steps.append(Arrival(now, "Ctl", {"n": a % 5}))
        else:
            ts = None if b >= 248 else now + LAGS[b % len(LAGS)]
            numbers = {"x": NUMBERS[c % 8], "y": c // 8 % 4, "w": c // 32 % 4}
            steps.append(Arrival(now, "E", {"id": len(steps), "k": KEYS[a % 4], **numbers, "ts": ts}))
    return steps


BYTES, PER_EXAMPLE = 101, 4
HISTORIES = st.binary(min_size=BYTES * PER_EXAMPLE, max_size=BYTES * PER_EXAMPLE).map(
    lambda drawn: [history(drawn[at : at + BYTES]) for at in range(0, len(drawn), BYTES)]
)


def at_random(number: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The same `number` histories in each run; several make an example, because drawing costs as much as running."""
    return settings(
        max_examples=number // PER_EXAMPLE,
        derandomize=True,
        deadline=None,
        database=None,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


@dataclass(frozen=True, slots=True)
class Subject:
    """A window chain under test.

    `forced`: empty deliveries count. `open_order`: nothing is said about the order of what is removed and retained
    ("hash order", or several windows at once). `columns`: what is selected and compared. `variable`: the condition
    reads SIZE, which the histories set.
    """

    chain: str
    columns: str = "id"
    forced: bool = False
    open_order: bool = False
    variable: bool = False

    @property
    def histories(self) -> int:
        """The number of histories: fewer where several windows are together, in sum as many for the rarest of them."""
        names, most = names_of(self.chain), HISTORIES_OF_WINDOW
        return most if len(names - {"groupwin"}) <= 1 else max(most // 5, most // min(CHAINS[name] for name in names))


LINEST = (
    "slope, YIntercept, XAverage, XStandardDeviationPop, XStandardDeviationSample, XSum, XVariance, YAverage, "
    "YStandardDeviationPop, YStandardDeviationSample, YSum, YVariance, dataPoints, n, sumX, sumXSq, sumXY, sumY, sumYSq"
)
UNI = "datapoints, total, stddev, stddevpa, variance, average"
SUBJECTS = (
    # the data windows
    Subject("#length(3)"),
    Subject("#length_batch(3)"),
    Subject("#time(1 sec)"),
    Subject("#time(0 sec)"),
    Subject("#ext_timed(ts, 1 sec)"),
    Subject("#time_batch(1 sec)"),
    Subject("#time_batch(1 sec, 300L)"),
    Subject("#time_batch(1 sec, 'FORCE_UPDATE')", forced=True),
    Subject("#time_batch(1 sec, 5300L, 'FORCE_UPDATE')", forced=True),
    Subject("#time_batch(1 sec, 300L, 'START_EAGER')", forced=True),
    Subject("#ext_timed_batch(ts, 1 sec)"),
    Subject("#ext_timed_batch(ts, 1 sec, 5300L)"),
    Subject("#time_length_batch(1 sec, 3)"),
    Subject("#time_length_batch(1 sec, 3, 'FORCE_UPDATE')", forced=True),
    Subject("#time_length_batch(1 sec, 3, 'START_EAGER')", forced=True),
    Subject("#time_accum(1 sec)"),
    Subject("#keepall"),
    Subject("#firstlength(3)"),
    Subject("#firsttime(3 sec)"),
    Subject("#expr(current_count <= 2)"),
    Subject("#expr(expired_count >= 1 or current_count <= 3)"),
    Subject("#expr(expired_count + current_count <= 3)"),
    Subject("#expr(oldest_timestamp > newest_timestamp - 2000)"),
    Subject("#expr(x > 1 or current_count < 3)"),
    Subject("#expr(newest_event.x >= x)"),
    Subject("#expr(newest_event.k = oldest_event.k)"),
    Subject("#expr(sum(x) < 5)"),
    Subject("#expr(current_count <= SIZE)", variable=True),
    Subject("#expr_batch(current_count >= 3)"),
    Subject("#expr_batch(newest_timestamp - oldest_timestamp > 1000)"),
    Subject("#expr_batch(x = 1)"),
    Subject("#expr_batch(x = 1, false)"),
    Subject("#expr_batch(newest_event.k != oldest_event.k, false)"),
    Subject("#expr_batch(sum(x) > 5)"),
    Subject("#expr_batch(sum(x) > 5, false)"),
    Subject("#expr_batch(current_count >= SIZE)", variable=True),
    Subject("#unique(k)", open_order=True),
    Subject("#unique(k, y)", open_order=True),
    Subject("#groupwin(k)#length(2)"),
    Subject("#groupwin(k)#time(1 sec)"),
    Subject("#groupwin(k)#time_accum(1 sec)"),
    Subject("#groupwin(k)#length_batch(2)"),
    Subject("#groupwin(k)#time_batch(1 sec)"),
    Subject("#groupwin(k)#time_length_batch(1 sec, 2)"),
    Subject("#groupwin(k)#sort(2, x)"),
    Subject("#groupwin(k, y)#firstlength(1)"),
    Subject("#groupwin(k)#expr(sum(x) < 5)"),
    Subject("#groupwin(k)#expr_batch(x = 1, false)"),
    Subject("#groupwin(y)#time_order(ts, 1 sec)"),
    Subject("#groupwin(y)#ext_timed(ts, 1 sec)"),
    Subject("#lastevent"),
    Subject("#firstevent"),
    Subject("#firstunique(k)", open_order=True),
    Subject("#sort(3, x)"),
    Subject("#sort(3, x desc, y)"),
    Subject("#rank(k, 2, x desc)"),
    Subject("#rank(k, y, 3, x, w desc)"),
    Subject("#time_order(ts, 1 sec)"),
    Subject("#timetolive(ts)"),
    Subject("#gated_time(1.5 sec, 1 sec)"),
    Subject("#gated_time(1 sec, 2 sec)"),
    Subject("#gated_time(3 sec, 1 sec, 2)"),
    Subject("#groupwin(k)#gated_time(1.5 sec, 0.5 sec, 2)", open_order=True),
    Subject("#session(1 sec)"),
    Subject("#groupwin(k)#session(1 sec)", open_order=True),
    Subject("#session(1 sec)#unique(k)"),
    Subject("#tumbling(1 sec)"),
    Subject("#tumbling(1 sec, 300L)"),
    Subject("#groupwin(k)#tumbling(1 sec)"),
    Subject("#hopping(3 sec, 1 sec)"),
    Subject("#hopping(1 sec, 2 sec, 300L)"),
    Subject("#groupwin(k)#hopping(1.5 sec, 0.5 sec)", open_order=True),
    Subject("#gated_length(3, 2)"),
    Subject("#gated_length(2, 3)"),
    Subject("#groupwin(k)#gated_length(4, 2)"),
    Subject("#random(3)"),
    Subject("#groupwin(k)#random(2, 7L)", open_order=True),
    Subject("#length(4)#newest(k)"),
    Subject("#time(1 sec)#newest(k)", open_order=True),
    Subject("#time(1 sec)#length(3)#newest(y)", open_order=True),
    Subject("#gated_time(1.5 sec, 1 sec)#newest(k)", open_order=True),
    Subject("#groupwin(k)#length(3)#newest(y)", open_order=True),
    Subject("#lot"),
    # several windows at once
    Subject("#length(3)#time(1 sec)", open_order=True),
    Subject("#unique(k)#length(3)", open_order=True),
    Subject("#sort(2, x desc)#time(1 sec)", open_order=True),
    Subject("#firstlength(2)#time(1 sec)", open_order=True),
    Subject("#time(1 sec)#firstunique(k)", open_order=True),
    Subject("#unique(k)#sort(2, x)#time_accum(1 sec)", open_order=True),
    Subject("#length_batch(3)#unique(k)"),
    Subject("#time_batch(1 sec)#unique(k)"),
    Subject("#time_batch(1 sec)#length(2)"),
    Subject("#groupwin(k)#length(3)#time(1 sec)", open_order=True),
    Subject("#length(2)#time(1 sec) retain-union", open_order=True),
    Subject("#unique(k)#length(2) retain-union", open_order=True),
    Subject("#unique(k)#sort(1, x desc)#length(1) retain-union", open_order=True),
    Subject("#lastevent#time(1 sec) retain-union", open_order=True),
    Subject("#groupwin(k)#length(1)#unique(x) retain-union", open_order=True),
    Subject("#expr(current_count <= 2)#unique(k)", open_order=True),
    Subject("#sort(2, x)#time(1 sec) retain-union", open_order=True),
    Subject("#length_batch(4)#length(2)"),
    # what alone has code of its own, as one of several
    Subject("#length(3)#keepall", open_order=True),
    Subject("#time(1 sec)#keepall", open_order=True),
    Subject("#unique(k)#keepall", open_order=True),
    Subject("#length_batch(3)#keepall"),
    Subject("#time_batch(1 sec)#keepall"),
    # the 5 derived-value windows
    Subject("#size", "size"),
    Subject("#size(x * 2, k)", "size, `x*2`, k"),
    Subject("#length(2)#size(id)", "size, id"),
    Subject("#time(1 sec)#size(id, k)", "size, id, k"),
    Subject("#length_batch(3)#size(id)", "size, id"),
    Subject("#groupwin(k)#time(1 sec)#size", "size, k"),
    Subject("#uni(x)", UNI),
    Subject("#length(4)#uni(x)", UNI),
    Subject("#time(1 sec)#uni(x, id)", UNI + ", id"),
    Subject("#time_batch(1 sec)#uni(x, id)", UNI + ", id"),
    Subject("#groupwin(k)#length(2)#uni(x)", UNI + ", k"),
    Subject("#length(3)#time(1 sec)#uni(x, id)", "datapoints, average, id"),
    Subject("#unique(k)#uni(x, id)", "datapoints, total, variance, id"),
    Subject("#linest(y, w)", "slope, YIntercept, n"),
    Subject("#length(4)#linest(y, w)", LINEST),
    Subject("#time(1 sec)#linest(y, w, id)", "slope, YIntercept, XVariance, sumXY, id"),
    Subject("#length(4)#correl(y, w)", "correlation"),
    Subject("#time(2 sec)#correl(y, w, id, k)", "correlation, id, k"),
    Subject("#unique(k)#weighted_avg(y, w)", "average"),
    Subject("#weighted_avg(y, w)", "average"),
    Subject("#time(1 sec)#weighted_avg(y, w, id)", "average, id"),
    Subject("#groupwin(k)#length(2)#weighted_avg(y, w)", "average, k"),
    Subject("#groupwin(k)#length(2)#weighted_avg(y, w)#merge(k)", "average, k"),
    Subject("#groupwin(k)#length(2)#merge(k)#weighted_avg(y, w)", "average"),
)
CHAINS = Counter(name for subject in SUBJECTS for name in names_of(subject.chain))  # in how many each window is


@cache
def plan_of(subject: Subject) -> ModulePlan:
    variable = VARIABLE if subject.variable else ""
    return Runtime().compile(f"{SCHEMA}{variable}@name('s') select irstream {subject.columns} from E{subject.chain}")


class Engine:
    """A runtime with the statement of a subject."""

    def __init__(self, subject: Subject) -> None:
        self.heard = Deltas()
        self.runtime = Runtime()
        self.runtime.add_error_listener(lambda error: None)  # an event whose timestamp is null is skipped
        self.runtime.deploy(plan_of(subject))
        self.runtime.statement("s").add_sink(self.heard)

    def restart(self) -> Engine:
        """The same with a new state, at time 0; much cheaper than generating the code again."""
        statement = self.runtime.statement("s")
        statement.stop()
        self.runtime.advance(0)
        if "SIZE" in self.runtime.variables:
            self.runtime.set_variable("SIZE", 3)
        self.heard.clear()
        statement.start(None)
        return self


class Trial:
    """The engine and the reference, side by side. What both did since the last comparison waits in two lists."""

    def __init__(self, subject: Subject, engine: Engine) -> None:
        self.subject, self.runtime, self.heard = subject, engine.runtime, engine.heard
        self.exact = subject.columns == "id"
        self.names = tuple(c.strip(" `") for c in subject.columns.split(","))
        self.window = build(subject.chain, **({"SIZE": 3} if subject.variable else {}))
        self.expected: list[Any] = []

    def expect(self, step: Step) -> None:
        """Take the reference through a step."""
        change: Change | None = None
        if isinstance(step, Advance):
            change = self.window.advance(step.time)
        elif step.type == "E":
            with suppress(Skipped):
                change = self.window.arrive(Event(step.values), step.time)
        elif isinstance(self.window, ExpressionWindow) and self.subject.variable:
            self.window.set("SIZE", step.values["n"])
        if change is not None and (change.insert or change.remove or self.subject.forced):
            self.expected.append((step.time, self.events(change.insert), self.events(change.remove, open_order=True)))

    def run(self, step: Step) -> None:
        """Take the engine through a step."""
        if isinstance(step, Advance):
            self.runtime.advance(step.time)
        else:
            self.runtime.send(step.type, dict(step.values))

    def replay(self, arrivals: Sequence[Arrival]) -> None:
        """Take the engine through the batch entry, in two slices."""
        batch = self.runtime.batch(["E", "Ctl"] if self.subject.variable else ["E"])
        half = len(arrivals) // 2
        for rank, part in ((0, arrivals[:half]), (half, arrivals[half:])):
            batch.run(slices([histories.Event(*a) for a in part], rank, batch.columns))

    def compare(self) -> None:
        """The deliveries since the last time, and the contents."""
        deltas = [
            (time, self.rows(insert), self.rows(remove, open_order=True))
            for time, insert, remove in self.heard
            if insert or remove or self.subject.forced
        ]
        assert self.same(deltas, self.expected), (deltas, self.expected)
        held, shown = self.events(self.window.contents(), open_order=True), self.rows(self.runtime.iterate("s"), True)
        assert self.same(shown, held), (shown, held)
        self.heard.clear()
        self.expected.clear()

    def same(self, left: Any, right: Any) -> bool:
        return bool(left == right) if self.exact else left == right or alike(left, right)

    def events(self, events: Sequence[Event], open_order: bool = False) -> list[Any]:
        return self.rows([e.values for e in events], open_order)

    def rows(self, rows: Rows, open_order: bool = False) -> list[Any]:
        found = [tuple([row[name] for name in self.names]) for row in rows or ()]
        if not self.exact:
            found = [(*row, *map(type, row)) for row in found]  # 1 is not 1.0
        return sorted(found) if open_order and self.subject.open_order else found


def alike(left: Any, right: Any) -> bool:
    """Equality with a tolerance for doubles, for which NaN is equal to NaN."""
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(alike, left, right))
    if isinstance(left, float) and isinstance(right, float):
        both = math.isnan(left), math.isnan(right)
        return all(both) or (not any(both) and math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9))
    return bool(left == right)


def test_no_window_is_missing() -> None:
    assert CHAINS.keys() == WINDOWS.keys()
    for name in WINDOWS:
        assert sum(each.histories for each in SUBJECTS if name in names_of(each.chain)) >= HISTORIES_OF_WINDOW, name


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.chain)
def test_deliveries_and_contents(subject: Subject) -> None:
    engine = Engine(subject)

    @at_random(subject.histories)
    @given(HISTORIES)
    @in_part
    def check(drawn: list[list[Step]]) -> None:
        for steps in drawn:
            trial = Trial(subject, engine.restart())
            trial.compare()
            for step in steps:
                trial.expect(step)
                trial.run(step)
                trial.compare()

    check()


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.chain)
def test_batch_entry(subject: Subject) -> None:
    @at_random(subject.histories // 5)
    @given(HISTORIES)
    @in_part
    def check(drawn: list[list[Step]]) -> None:
        engine = Engine(subject)
        for steps in drawn:
            replay(Trial(subject, engine.restart()), steps)

    check()


def replay(trial: Trial, steps: list[Step]) -> None:
    """Only the arrivals; the clock goes to their times, and in the end a little further."""
    arrivals = [s for s in steps if isinstance(s, Arrival) and (s.type == "E" or trial.subject.variable)]
    now = 0
    for arrival in arrivals:
        if arrival.time > now:
            now = arrival.time
            trial.expect(Advance(now))
        trial.expect(arrival)
    trial.replay(arrivals)
    trial.compare()
    end = Advance(now + 1500)
    trial.expect(end)
    trial.run(end)
    trial.compare()
