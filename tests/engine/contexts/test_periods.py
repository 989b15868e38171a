"""Replays of contexts with one period after the other are as events one by one."""

from __future__ import annotations

import re
from random import Random

import pytest

from cepbook.engine.contexts.partition import PartitionCounts
from cepbook.engine.replay import batch_replayer, loop_costs, period_loop
from tests.engine.histories import GAPS, KEYS, ArrayRun, Event, Run, comparable, run_both, take_all_batches_by_arrays
from tests.random_cases import seeds

BEGINS = (
    *("A(x > 2)", "A(x > 1) as s", "B", "A(k = 'a', x > 0)", "A(x + 0 > 1)", "Sub", "@now", "(*, *, *, *, *, */7)"),
    *("after 2 sec", "A", "pattern [A -> B]"),
)
ENDS = (
    *("A(x < 0)", "B(x > 1) as e", "A(x > 2)", "after 3 sec", "after 500 msec", "(*, *, *, *, *, */5)", "B"),
    *("A(x = 1)", "Sub(x > 0)", "pattern [B -> timer:interval(1 sec)]"),
)
SELECTS = (
    "select x, k from A",
    "select irstream x, count(*) as c from A(x > 0)#length(2)",
    "select k, count(*) as c, sum(x) as s from A group by k output snapshot when terminated",
    "select k, sum(x) as s from A group by k output all when terminated",
    "select sum(x) as s, context.startTime as t from A",
    "select context.id as i, x from B",
    "select irstream x from A#time(1 sec)",
    "select k, count(*) as c from A#time(2 sec) group by k output last every 1 sec",
    "select count(*) as c from A#time_batch(1 sec)",
    "select x from A output first every 2 events",
    "select a.x as p, b.x as q from pattern [every a=A(x > 0) -> b=B where timer:within(2 sec)]",
    "select a.x as p, b.x as q from A#length(3) as a, B#keepall as b where a.k = b.k",
    "select x, (select max(x) from A#length(3) as w where w.k = t.k) as m from B as t",
    "insert into O select x, k from A(x > 0)",
    "insert into O select x, k from A#length(2)",
    "select prev(1, x) as p, x from A#groupwin(k)#length(2)",
)


class Stretches:
    """Counts the stretches that took the statement pass."""

    passes = 0


@pytest.fixture(autouse=True)
def _short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    take_all_batches_by_arrays(monkeypatch)
    through = period_loop.PeriodLoop._pass

    def counted(loop: period_loop.PeriodLoop, *arguments: object) -> None:
        Stretches.passes += 1
        through(loop, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(period_loop.PeriodLoop, "_pass", counted)
    Stretches.passes = 0


def random_module(random: Random) -> str:
    """One or two contexts with one to three statements, perhaps a reader of what they insert, or a statement outside
    that inserts what begins or ends a period.
    """
    derived = ("O(x > 1)",) * 3 if random.random() < 0.2 else ()
    contexts = [f"C{n}" for n in range(random.choice((1, 1, 1, 2)))]
    begins, ends = random.choice((((*BEGINS, *derived), ENDS), (BEGINS, (*ENDS, *derived))))
    texts = [f"create context {name} start {random.choice(begins)} end {random.choice(ends)}" for name in contexts]
    for number in range(random.randint(1, 3)):
        texts.append(f"@name('s{number}') context {random.choice(contexts)} {random.choice(SELECTS)}")
    used = [name for name in contexts if f"context {name} " in " ".join(texts[len(contexts) :])]
    texts = [text for text in texts if "create" not in text or text.split()[2] in used]
    if "into O" in " ".join(texts):
        texts.append(random.choice(("@name('o') select * from O#length(3)", "@name('o') select count(*) as c from O")))
    if "O(x > 1)" in " ".join(texts):
        texts = ["create schema O(k string, x int)", *texts, "@name('i') insert into O select k, x from B"]
    elif random.random() < 0.1:
        texts.append("@name('u') select x from B")
    return "; ".join(texts)


def random_history(random: Random, epl: str) -> list[Event]:
    types = [name for name in ("A", "A", "B", "Sub") if re.search(rf"\b{name}\b", epl)] or ["A"]
    time, events, calm = 0, list[Event](), random.random() < 0.5
    for _ in range(random.randint(0, 80)):
        time += random.choice((0, 1, 7, 100) if calm else GAPS)
        name = random.choice(types)
        values = {"k": random.choice(KEYS), "x": random.choice((0, 0, 0, 1, 3) if calm else (None, -1, 0, 0, 1, 2, 3))}
        if name != "B":
            values |= {"g": random.randint(0, 2), "n": 1, "d": 0.5, "f": 1.0}
        events.append(Event(time, name, values | ({"z": 0} if name == "Sub" else {})))
    return events


def compare(epl: str, events: list[Event], cuts: list[int], *, stepping: bool, read: int, arrays: bool) -> None:
    one_by_one, run = Run(epl), (ArrayRun if arrays else Run)(epl)
    run_both(one_by_one, run, events, cuts, stepping=stepping, read=read)
    for later in (0, 700, 10_000):
        for either in (run, one_by_one):
            either.runtime.advance(either.runtime.now + later)
        assert repr(run.deliveries) == repr(one_by_one.deliveries), (epl, events, cuts, stepping)
        readings = [comparable([*either.readings().values()]) for either in (run, one_by_one)]
        assert readings[0] == readings[1], (epl, events, cuts, stepping)


@pytest.mark.parametrize("seed", seeds(6))
def test_replayed_as_sent(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    for _ in range(40):
        monkeypatch.setattr(period_loop, "_LEAST", random.choice((1, 2, 5)))
        epl = random_module(random)
        events = random_history(random, epl)
        cuts = [random.randint(1, 80) for _ in range(random.randint(0, 3))]
        stepping, read = random.random() < 0.6, random.randint(0, 2)
        compare(epl, events, cuts, stepping=stepping, read=read, arrays=random.random() < 0.8)
    assert Stretches.passes > 30


def test_an_event_behind_the_clock_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(period_loop, "_LEAST", 1)
    epl = "create context C start A(x > 2) end A(x < 0); @name('s') context C select x, current_timestamp() as t from A"
    times = (1000, 2000, 500, 600, 2500, 2600)
    more = {"k": "a", "g": 0, "n": 0, "d": 0.0, "f": 0.0}
    events = [Event(time, "A", more | {"x": 3 * (time == 1000)}) for time in times]
    compare(epl, events, [2], stepping=False, read=0, arrays=True)
    assert Stretches.passes == 2


def test_events_are_counted_in_the_partition_if_the_context_or_a_statement_in_it_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(period_loop, "_LEAST", 1)
    epl = "create context C start A(x > 2) end A(x < 0); @name('s') context C select x from A; "
    epl += "@name('u') select x from B"
    more = {"g": 0, "n": 0, "d": 0.0, "f": 0.0}
    events = [Event(at, "AB"[at % 2], {"k": "a", "x": 3} | ({} if at % 2 else more)) for at in range(20)]
    counts = []
    for run in (Run(epl), ArrayRun(epl)):
        (context,) = run.runtime.contexts.values()
        context.event_counters.append(PartitionCounts(0, ()))
        run.runtime.rewired()
        if isinstance(run, ArrayRun):
            run.replay(events, [])
        else:
            run.send(events)
        counts.append([(partition.arrived, partition.last) for partition in context.partitions.values()])
    assert counts[0] == counts[1]
    assert counts[0][0][0] == 10
    assert Stretches.passes > 0


@pytest.mark.parametrize(("rules", "passes"), [(1, True), (100, False)])
def test_stretches_go_the_way_that_costs_less(rules: int, passes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(period_loop, "_LEAST", 50)
    monkeypatch.setattr(batch_replayer, "event_loop_pays", loop_costs.event_loop_pays)
    monkeypatch.setattr(loop_costs, "PASS_STATEMENT", 52.0)  # which tests set to 0
    epl = "create context C start A(x > 2) end A(x < 0)"
    epl += "".join(f"; @name('s{n}') context C select x from A(n = {n})" for n in range(rules))
    more = {"k": "a", "g": 0, "d": 0.0, "f": 0.0}
    events = [Event(at, "A", more | {"x": 3 * (at % 100 == 0), "n": at % 7}) for at in range(300)]
    compare(epl, events, [], stepping=True, read=1, arrays=True)
    assert (Stretches.passes > 0) is passes
