"""Partitions that begin in the middle of a slice: what starts with them starts at the time of their first event."""

from __future__ import annotations

from random import Random

import pytest

from tests.engine.histories import Run
from tests.engine.replay.test_components import history

pytestmark = pytest.mark.histories

BOTH = "create context K partition by k from A, k from B; @name('s') context K "
ONE = "create context K partition by k from A; @name('s') context K "
DERIVED = (
    "@name('m') insert into M select k, x from A(x > 0); create context K partition by k from M; @name('s') context K "
)
UNDECIDED = (  # nothing but an event or a later time makes these true or false
    "every a=A -> b=B(x > a.x)",
    "every a=A(x > 0) -> b=B where timer:within(1 sec)",
    "every (a=A -> b=B where timer:within(1 sec))",
    "every a=A(x > 1) -> (timer:interval(1 sec) and not B)",
    "every [2] a=A(x > 0)",
    "[2] a=A until b=B",
    "[1:] a=A(x > 0) until B(x = 1)",
    "every ([1:2] a=A until b=B)",
    "every (a=A(x > 0) or b=B(x < 0))",
    "every (a=A(x > 0) and not B(x > 2))",
    "not A and b=B",
    "every-distinct(a.x, 1 sec) a=A(x > 0) -> b=B",
    "every a=A while (a.x > 0)",
    "every timer:interval(1 sec)",
    "timer:at(*, *, *, *, *, */2)",
    "a=A until timer:interval(1 sec)",
    "every a=A -> b=A(x = a.x + 1) -> c=B@consume",
)
DECIDED = (  # these may be true as soon as they begin
    "timer:interval(0)",
    "every (a=A or timer:interval(0))",
    "not A and not B",
    "a=A or not B",
    "a=A where timer:within(0 sec)",
    "[0:] a=A until b=B",
    "every timer:schedule(period: 1 second)",
)
WINDOWS = (
    "time_batch(1 sec, 'START_EAGER')",
    "time_batch(1 sec, 'START_EAGER,FORCE_UPDATE')",
    "time_length_batch(1 sec, 3, 'FORCE_UPDATE,START_EAGER')",
    "firsttime(1 sec)",
    "gated_time(1.5 sec, 1 sec)",
    "time(1 sec) output after 1 sec",
    "time(1 sec) output after 2 sec every 1 sec",
    "length(2) output when count_insert > 2 and last_output_timestamp < current_timestamp - 500",
    "expr(current_timestamp - oldest_timestamp < 900)",
    "expr_batch(max(current_timestamp) - oldest_timestamp > 900)",
)
FORMS = {
    **{text: f"{BOTH}select * from pattern [{text}]" for text in UNDECIDED},
    **{f"{text} of a window": f"{ONE}select irstream k, x, count(*) as c from A#{text}" for text in WINDOWS},
    **{f"{text} of what is derived": f"{DERIVED}select irstream count(*) as c from M#{text}" for text in WINDOWS},
    "derived": f"{DERIVED}select a.x as x, b.x as y from pattern [every a=M -> timer:interval(1 sec) -> b=M]",
    "with others": BOTH + "insert into M select a.k as k, a.x as x from pattern [every a=A -> b=B(x > 0)];"
    "@name('t') context K select count(*) as c from A; @name('u') select irstream k, x from M#length(2)",
    "of a window": BOTH + "select irstream a.x as x from pattern [every a=A(x > 0) -> b=B]#time(1 sec)",
    "in a join": BOTH + "select p.a.x as x, q.x as y from pattern [every a=A(x > 0) -> b=B]#length(2) as p, "
    "A#lastevent as q where p.a.x >= q.x",
    "its own key": ONE + "select context.key1 as k, context.id as id, b.x as x from pattern "
    "[every a=A(x > 0, k = context.key1) -> b=A(x < 0)]",
    "filtered": "create context K partition by k from A(x > 0), k from B; @name('s') context K "
    "select a.x as x, b.x as y from pattern [every a=A(x > 1) -> b=B]",
    "paced": BOTH + "select a.x as x from pattern [every a=A(x > 0) -> b=B] output last every 1 sec",
    "reclaimed": "create context K partition by k from A; @Hint('reclaim_group_aged=1,reclaim_group_freq=1') "
    "@name('s') context K select irstream x, count(*) as c from A#groupwin(x)#time(3 sec) group by x",
}


@pytest.mark.parametrize("name", FORMS)
def test_replayed_as_sent(name: str) -> None:
    for seed in range(4):
        random = Random(f"{name} {seed}")
        events = history(random, 60)
        cuts = sorted(random.sample(range(len(events)), min(len(events), 2)))
        sent, replayed = Run(FORMS[name]), Run(FORMS[name])
        batch = replayed.runtime.batch(["A", "B"])
        assert not (batch.reasons or batch.merged)
        sent.send(events)
        replayed.replay(events, cuts)
        for until in (0, 1000, 4000):
            for each in (sent, replayed):
                each.runtime.advance(sent.runtime.now + until if each is sent else sent.runtime.now)
            assert replayed.deliveries == sent.deliveries
            assert replayed.readings() == sent.readings()
            assert replayed.runtime.next_due == sent.runtime.next_due


@pytest.mark.parametrize("pattern", DECIDED)
def test_what_may_be_true_at_once_comes_event_by_event(pattern: str) -> None:
    batch = Run(f"{BOTH}select * from pattern [{pattern}]").runtime.batch(["A", "B"])
    assert batch.merged == {"s": "`s` has a pattern that may match as soon as a partition begins"}


@pytest.mark.parametrize("window", ["expr(current_timestamp - oldest_timestamp < 900)", "expr_batch(max(x) * 1000 < "
                                    "current_timestamp - oldest_timestamp)"])  # fmt: skip
def test_conditions_of_windows_read_the_time_of_the_event(window: str) -> None:
    """The engine's clock stands still while a slice runs."""
    for seed in range(4):
        events = history(Random(seed), 60)
        sent, replayed = (Run(f"@name('s') select irstream k, x from A#{window}") for _ in range(2))
        sent.send(events)
        replayed.replay(events, [])
        assert replayed.deliveries == sent.deliveries


CONTEXTS = (
    "initiated after 1 sec terminated after 1500 msec",
    "start @now end after 700 msec",
    "start A end B",
    "initiated by A as a terminated after 3 sec",
    "partition by k from A",
    "coalesce by hash_code(k) from A granularity 2",
    "context L start @now end after 900 msec, context P partition by k from A",
)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("table", [True, False])
def test_a_context_goes_on_with_a_table_alone(context: str, table: bool) -> None:
    """No statement reads what begins and ends its partitions."""
    kept = "create table T(k string primary key, n int)" if table else "create window W#keepall as A"
    epl = f"create context C {context}; @name('s') context C {kept}; @name('other') select x from B"
    for seed in range(4):
        events = history(Random(f"{context} {seed}"), 40)
        sent, replayed = Run(epl), Run(epl)
        sent.send(events)
        replayed.replay(events, [len(events) // 2])
        assert replayed.runtime.partitions("C") == sent.runtime.partitions("C")
        assert replayed.deliveries == sent.deliveries
        assert replayed.readings() == sent.readings()
        assert replayed.runtime.next_due == sent.runtime.next_due
