"""Components of statements: which statements depend on each other, and what a replay may do with each of them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from cepbook.engine.delivery.delta import Delta
from cepbook.engine.replay.components import connected_components
from tests.engine.histories import GAPS, KEYS, Event, Run, comparable
from tests.random_cases import seeds

pytestmark = pytest.mark.histories

# modules of one component each; {i} keeps their names apart
POOL = (
    "@name('s{i}') select irstream k, x from A#length(3)",
    "@name('s{i}') select irstream k, sum(x) as s from A#time(1 sec) group by k order by k",
    "@name('s{i}') select irstream x from B#time_batch(500 msec)",
    "@name('s{i}') insert into M{i} select k, x from A(x > 0);@name('t{i}') insert into M{i} select k, x from B;"
    "@name('u{i}') select irstream k, x from M{i}#length(2)",
    "create context K{i} partition by k from A;@name('s{i}') context K{i} select irstream k, x from A#time(1 sec);"
    "@name('t{i}') context K{i} select k, count(*) as c from A output every 2 events",
    "@name('s{i}') select x from A output snapshot every 700 msec",
    # patterns
    "@name('s{i}') select a.x as x, b.k as k from pattern [every a=A(x > 0) -> b=B(k = a.k)]",
    "@name('s{i}') select count(*) as c from pattern [every timer:interval(700 msec)]",
    "@name('s{i}') select irstream a.x as x from"
    " pattern [every a=A(x > 0) -> B(x > a.x) where timer:within(2 sec)]#time(1 sec)",
    "@name('s{i}') insert into P{i} select a.k as k, b.x as x"
    " from pattern [every a=A -> (b=B or timer:interval(1 sec))];"
    "@name('t{i}') insert into P{i} select k, x from B(x > 0);@name('u{i}') select irstream k, x from P{i}#length(3);"
    "@name('v{i}') select k, count(*) as c from P{i}#time(1 sec) group by k order by k",
    "@name('s{i}') insert into N{i} select k, x from A(x is not null);"
    "@name('t{i}') select a.x as x, b.x as y from pattern [every a=N{i} -> (b=N{i}(x = a.x) and not B)]",
    "@name('s{i}') select a.x as x, b.x as y from pattern [a=A(x > 0) or every b=B(x < 0)] output every 1 sec",
    "@name('s{i}') select * from pattern [every [2] a=A(x > 0) until timer:interval(1 sec)]",
    "create context E{i} partition by k from A, k from B;"
    "@name('s{i}') context E{i} select a.x as x from pattern [every a=A -> b=B(x > a.x)]",
    "create context H{i} coalesce by hash_code(k) from A, hash_code(k) from B granularity 2;"
    "@name('s{i}') context H{i} select irstream k, x from A#time(1 sec);"
    "@name('t{i}') context H{i} insert into Q{i} select k, x from B;"
    "@name('u{i}') select x from Q{i} output every 2 events",
    "create context C{i} group x < 2 as lo, group x > 0 as hi from A;"
    "@name('s{i}') context C{i} insert into R{i} select context.label as l, x from A#length(2);"
    "@name('t{i}') context C{i} select irstream sum(x) as s from A#time(1 sec);"
    "@name('u{i}') select irstream l, count(*) as c from R{i}#time(1 sec) group by l order by l",
    "create context D{i} context G group x > 0 as hi, group g = 1 as one from A, context K partition by k from A;"
    "@name('s{i}') context D{i} select context.G.label as l, count(*) as c from A;"
    "@name('t{i}') context D{i} select rstream x from A#time(2 sec) output first every 2 sec",
    # contexts of conditions, variables, loops
    "create context T{i} initiated by A(x > 1) terminated after 1 sec;"
    "@name('s{i}') context T{i} select irstream x, context.id as id from B;"
    "@name('t{i}') context T{i} insert into S{i} select count(*) as c from A output last when terminated;"
    "@name('u{i}') select irstream c from S{i}#length(2)",
    "@name('w{i}') create variable int v{i} = 0;@name('s{i}') on B(x is not null) set v{i} = x;"
    "@name('t{i}') select x, v{i} as v from A",
    "@name('s{i}') insert into L{i} select k, x from A;"
    "@name('t{i}') insert into L{i} select k, x - 1 as x from L{i}(x > 0);@name('u{i}') select k, x from L{i}",
    # stores, joins, subqueries, match_recognize
    "@name('c{i}') create table Y{i}(k string primary key, n count(*), s sum(int));"
    "@name('s{i}') into table Y{i} select count(*) as n, sum(x) as s from A group by k;"
    "@name('t{i}') select k, Y{i}[k].n as n, Y{i}[k].s as s from B",
    "@name('c{i}') create window W{i}#keepall as (k string, n int);"
    "@name('s{i}') on A as a merge W{i} as w where a.k = w.k when matched then update set n = w.n + 1 "
    "when not matched then insert select k, 1 as n;"
    "@name('t{i}') select irstream k, n from W{i};@name('u{i}') select b.x as x, w.n as n "
    "from B as b unidirectional, W{i} as w where b.k = w.k;"
    "@name('v{i}') select x, (select max(n) from W{i}) as m from B",
    "@name('s{i}') select irstream a.x as x, b.x as y "
    "from A#length(3) as a full outer join B#time(1 sec) as b on a.k = b.k",
    "@name('s{i}') select x, (select sum(x) from B#length(2) as b where b.k = a.k) as s from A as a",
    "@name('s{i}') insert into J{i} select a.k as k, b.x as x from A#length(3) as a, B#lastevent as b where a.k = b.k;"
    "@name('t{i}') insert into J{i} select k, (select max(x) from A#length(2)) as x from B(x > 0);"
    "@name('u{i}') insert into J{i} select k, x from A(x > 1);@name('v{i}') select irstream k, x from J{i}#length(4);"
    "@name('w{i}') select j.x as x, b.x as y from J{i}#time(1 sec) as j left outer join B#length(2) as b on j.k = b.k",
    "@name('s{i}') select a.x as x, p.b.x as y from A#length(2) as a, "
    "pattern [every b=B(x > 0) -> timer:interval(1 sec)]#lastevent as p where a.k = p.b.k",
    "@name('s{i}') select a.k as k, x, (select count(*) from A#time(2 sec) as o where o.k = a.k) as n "
    "from A#time(1 sec) as a output last every 2 sec",
    "@name('s{i}') select one.x as x, two.x as y from A#length(2) as one, A#length(3) as two where one.k = two.k",
    "@name('c{i}') create table Z{i}(k string primary key, n count(*), f max(int));"
    "@name('s{i}') into table Z{i} select count(*) as n, max(x) as f from A#length(4) group by k",
    "@name('c{i}') create table X{i}(k string primary key, n int);"
    "@name('s{i}') on A(k is not null) as a merge X{i} as w where a.k = w.k when matched then update set n = w.n + 1 "
    "when not matched then insert select k, 1 as n",
    "@name('c{i}') create table V{i}(k string primary key, n int);@name('d{i}') create window U{i}#keepall as V{i};"
    "@name('s{i}') select x, V{i}[k].n as n, (select count(*) from U{i}) as c from A;"
    "@name('t{i}') select x, n from B as b unidirectional, V{i} as v where v.k = b.k",
    "@name('s{i}') select * from A match_recognize (partition by k measures p.x as x, q.x as y pattern (p q) "
    "define q as q.x > p.x)",
)
Log = list[tuple[str, Any]]


def history(random: Random, most: int = 40) -> list[Event]:
    time, found = 0, []
    for _ in range(random.randint(0, most)):
        time += random.choice(GAPS)
        name = random.choice("AB")
        values: dict[str, Any] = {"k": random.choice(KEYS), "x": random.choice((None, -1, 0, 1, 2, 3))}
        if name == "A":
            values |= {"g": random.randint(0, 2), "n": 1, "d": 1.5, "f": 0.5}
        found.append(Event(time, name, values))
    return found


def listen(run: Run, names: list[str]) -> dict[str, Log]:
    """What plain listeners of some statements are told, and what they find in their own statement then."""
    logs: dict[str, Log] = {}
    for name in names:
        log: Log = []
        run.runtime.statement(name).add_listener(lambda delta, log=log: log.append(comparable(delta)))
        logs[name] = log
    return logs


@pytest.mark.parametrize("seed", seeds(30))
def test_modules_of_several_components(seed: int) -> None:
    """Sent event by event or replayed: every statement delivers the same, a listener is told the same."""
    random = Random(seed)
    chosen = random.sample(POOL, random.randint(2, 5))
    epl = ";".join(text.format(i=i) for i, text in enumerate(chosen))
    events = history(random)
    cuts = sorted(random.sample(range(len(events)), min(len(events), random.randint(0, 3))))
    sent, replayed, alone = Run(epl), Run(epl), [Run(text.format(i=i)) for i, text in enumerate(chosen)]
    names = [name for name in sent.recorders if random.random() < 0.15]
    logs = listen(sent, names), listen(replayed, names)
    sent.send(events)
    replayed.replay(events, cuts)
    for each in alone:
        each.replay(events, cuts)
    for until in (0, 1000, 4000):
        for each in (sent, replayed, *alone):
            each.runtime.advance(sent.runtime.now + until if each is sent else sent.runtime.now)
        assert replayed.deliveries == sent.deliveries
        assert logs[0] == logs[1]
        assert replayed.readings() == sent.readings()
        assert replayed.runtime.next_due == sent.runtime.next_due
        for each in alone:
            assert each.deliveries == {name: sent.deliveries[name] for name in each.deliveries}


# ---------------------------------------------------------------- what connects
@pytest.mark.parametrize(
    ("epl", "expected"),
    [
        ("@name('s') select x from A; @name('t') select x from A", "s t"),
        ("@name('s') insert into M select x from A; @name('t') select x from M; @name('u') select x from B", "st u"),
        ("@name('s') insert into M select x from A; @name('t') insert into M select x from B", "s t"),
        ("@name('s') insert into M select x from A; @name('t') select a.x as x from pattern [a=B -> b=M]", "st"),
        (
            "@name('s') insert into Sub select * from Sub; @name('t') select x from A; @name('u') select x from B",
            "st u",
        ),
        (
            "create context P partition by k from A; @name('s') context P select x from A;"
            "@name('t') context P select k from A; @name('u') select x from A",
            "st u",
        ),
        (
            "@name('s') insert into M select x from A; create context T initiated by M terminated after 1 sec;"
            "@name('t') context T select x from B; @name('u') select x from B",
            "st u",
        ),
        (
            "@name('v') create variable int m = 0; @name('s') on A set m = x; @name('t') select m from B;"
            "@name('u') select x from B",
            "vst u",
        ),
        ("@name('v') create variable int m = 0; @name('s') select m from A; @name('t') select m from A", "v s t"),
        (
            "create variable int m = 1;"
            "create context T initiated by pattern [every timer:interval(m)] terminated after 1 sec;"
            "@name('s') on A set m = x; @name('t') context T select x from B",
            "st",
        ),
        (
            "create variable int m = 0; @name('s') select x from A output when m > 2;"
            "@name('t') select x from B output when count_insert > 2 then set m = 1",
            "st",
        ),
        ("@name('s') @Drop select x from A; @name('t') select z from Sub; @name('u') select x from B", "st u"),
    ],
)
def test_what_connects_statements(epl: str, expected: str) -> None:
    runtime = Run(epl).runtime
    plans = [plan for deployment in runtime.deployments.values() for plan in deployment.plan.statements]
    found = connected_components(plans, runtime.catalog)
    named = ("".join(name for name in names if len(name) == 1) for names in found)
    assert [names for names in named if names] == expected.split()


def test_reasons_are_those_of_components() -> None:
    run = Run(
        "@name('s') select x from A; @name('p') select a.x as x from pattern [every a=A -> b=B];"
        "@name('t') insert into M select x from A; @name('u') select x from M;"
        "create context T initiated by A terminated after 1 sec; @name('c') context T select x from B"
    )
    batch = run.runtime.batch(["A", "B"])
    context = "context `T` has conditions that begin and end partitions between the events"
    assert (batch.reasons, batch.merged) == ({}, {"c": context})
    run.runtime.statement("u").add_listener(lambda delta: None)
    listener = "`u` has a listener that is called one delivery at a time"
    assert batch.reasons == {"t": listener, "u": listener, "c": context}


# ---------------------------------------------------------------- a listener that calls the engine
CALLED = (
    "@name('s') select x from A(x > 1); create schema Alarm(n int); @name('a') select irstream n from Alarm#length(2);"
    "@name('t') select irstream count(*) as c from A#time(1 sec);"
    "@name('u') select irstream sum(x) as s from B#length(3);"
    "@name('p') select a.n as n, b.x as x from pattern [every a=Alarm -> b=B];"
    "create variable int level = 0; @name('v') select x, level from A"
)


def _sends(run: Run, count: int) -> None:
    run.runtime.send("Alarm", {"n": count})


def _assigns(run: Run, count: int) -> None:
    run.runtime.set_variable("level", count)


def _looks(run: Run, count: int) -> None:
    run.runtime.send("Alarm", {"n": run.runtime.iterate("t")[0]["c"]})


def _deploys(run: Run, count: int) -> None:
    if count == 2:
        run.runtime.deploy("@name('new') insert into Alarm select x as n from A; @name('w') select x from B")


def _drops(run: Run, count: int) -> None:
    if count == 2:
        run.runtime.deploy("@name('new') insert into Alarm select x as n from A", deployment_id="new")
    if count == 4:
        run.runtime.undeploy("new")


@pytest.mark.parametrize("act", [_sends, _assigns, _looks, _deploys, _drops])
@pytest.mark.parametrize("seed", range(6))
def test_a_listener_that_calls_the_engine(act: Callable[[Run, int], None], seed: int) -> None:
    """It finds the others as they were before the event, and what it does is done between the events."""
    events = history(Random(seed), 60)
    cuts = [7, 20, 33]
    runs = Run(CALLED), Run(CALLED)
    for run in runs:
        count = [0]

        def told(delta: Delta, run: Run = run, count: list[int] = count) -> None:
            count[0] += 1
            act(run, count[0])

        run.runtime.statement("s").add_listener(told)
    sent, replayed = runs
    sent.send(events)
    replayed.replay(events, cuts)
    assert replayed.deliveries == sent.deliveries
    assert replayed.readings() == sent.readings()
    assert replayed.runtime.next_due == sent.runtime.next_due
