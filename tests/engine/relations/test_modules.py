"""Random modules of stores, of joins and subqueries in keyed contexts: sent = replayed = saved and loaded midway."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from tests.engine.histories import GAPS, KEYS, Event, Recorder, Run
from tests.random_cases import part, several

pytestmark = pytest.mark.histories

MANY = several(15)
WINDOWS = ("length(2)", "keepall", "time(1 sec)", "lastevent", "unique(x)", "length_batch(2)", "time_batch(1 sec)")
KINDS = ("full outer", "left outer", "right outer", "inner")
CONDITIONS = ("a.x = b.x", "a.x > b.x", "a.k = b.k and a.x <= b.x", "a.x is b.x", "a.x in (b.x, 1)")
PARTITIONS = (
    "partition by k from A, k from B",
    "partition by k from A(x > 0), k from B",
    "partition by k and x from A, k and x from B",
    "partition by k from B, k from A",
)
SHOWN = (
    "a.x as x, b.x as y",
    "a.k as k, a.x + b.x as z",
    "count(*) as c",
    "a.k as k, sum(b.x) as s",
    "a.x as x, b as b",
)
OUTPUTS = ("", "", "", " output every 2 events", " output last every 1 sec", " order by 1 limit 2")


def divided(draw: Random, i: int) -> str:
    """Statements in a keyed context."""

    def window() -> str:
        return draw.choice(WINDOWS)

    def joined() -> str:
        shown = draw.choice(SHOWN)
        group = " group by a.k" if "sum(" in shown else ""
        output = draw.choice(OUTPUTS).replace("by 1", "by a.x")
        if "limit" in output and "count" in shown:
            output = ""
        stream = draw.choice(("", "", "irstream "))
        if draw.random() < 0.4:
            where = draw.choice(("", f" where {draw.choice(CONDITIONS)}"))
            other = draw.choice(("B", "B", "A"))
            return f"select {stream}{shown} from A#{window()} as a, {other}#{window()} as b{where}{group}{output}"
        kind, on = draw.choice(KINDS), draw.choice(CONDITIONS[:1])
        return f"select {stream}{shown} from A#{window()} as a {kind} join B#{window()} as b on {on}{group}{output}"

    def sought() -> str:
        inner = draw.choice(("sum(x)", "max(x)", "count(*)", "first(x)"))
        where = draw.choice(("", " where b.x = a.x", " where b.x >= a.x"))
        held = draw.choice(("", "#length(2)", "#time(1 sec)"))
        found = f"(select {inner} from {draw.choice('AB')}#{window()} as b{where})"
        return f"select a.x as x, {found} as v from A{held} as a"

    lines = [f"create context K{i} {draw.choice(PARTITIONS)}"]
    for n in range(draw.choice((1, 1, 2))):
        text = draw.choice((joined, joined, sought))()
        into = f"insert into D{i}{n} " if draw.random() < 0.3 and " as b" not in text.partition(" from ")[0] else ""
        lines.append(f"@name('k{i}{n}') context K{i} {into}{text}")
        if into:
            lines.append(f"@name('d{i}{n}') select irstream * from D{i}{n}#length(3)")
    return ";".join(lines)


def stored(draw: Random, i: int) -> str:
    """A named window and a table, which some change and others look at."""
    held = draw.choice(("keepall", "length(3)", "time(1 sec)", "unique(k)", "lastevent"))
    lines = [
        f"create window W{i}#{held} as (k string, x int)",
        f"insert into W{i} select k, x from A",
        f"create table T{i}(k string primary key, x int)",
        f"on A(k is not null) as a merge T{i} as t where t.k = a.k when matched then update set x = a.x"
        " when not matched then insert select k, x",
    ]
    more = (
        f"on B as b delete from W{i} as w where w.x = b.x",
        f"on B(x > 1) as b update W{i} as w set x = b.x where w.k = b.k",
        f"@name('o{i}') on B as b select w.k as k, w.x as x from W{i} as w where w.x > b.x",
        f"@name('p{i}') select b.x as y, t.x as x from B as b unidirectional, T{i} as t where t.k = b.k",
        f"@name('q{i}') select x, (select sum(x) from W{i} as w where w.k = b.k) as s from B as b",
        f"@name('r{i}') select x, (select max(x) from T{i}) as m, (select count(*) from W{i}) as c from B",
        f"@name('s{i}') select irstream w.x as x, b.x as y from W{i} as w, B#length(2) as b where w.k = b.k",
        f"@name('t{i}') select irstream k, sum(x) as s from W{i} group by k",
        f"@name('u{i}') select a.k as k, w.x as x from A#lastevent as a left outer join W{i} as w on a.k = w.k",
    )
    return ";".join((*lines, *draw.sample(more, draw.choice((2, 3, 4)))))


def drawn(seed: int) -> tuple[str, list[Event], Random]:
    draw = Random(seed)
    parts = [divided, stored] if draw.random() < 0.3 else [draw.choice((divided, stored))]
    epl = ";".join(part(draw, i) for i, part in enumerate(parts))
    time, events = 0, list[Event]()
    for _ in range(draw.randint(10, 50)):
        time += draw.choice(GAPS[:-2])
        name = draw.choice(("A", "A", "B", "B", "Sub"))
        values: dict[str, Any] = {"k": draw.choice(KEYS), "x": draw.choice((None, 0, 1, 2, 3))}
        if name != "B":
            values |= {"g": 0, "n": 1, "d": 1.5, "f": 0.5}
        events.append(Event(time, name, values | ({"z": 1} if name == "Sub" else {})))
    return epl, events, draw


def loaded(run: Run) -> Run:
    """The same, saved and loaded; what was recorded goes on."""
    found = Run.__new__(Run)
    found.runtime = Runtime.restored(run.runtime.snapshot(), {})
    found.recorders = run.recorders
    for name, recorder in run.recorders.items():
        again = Recorder()
        again += recorder
        found.recorders = {**found.recorders, name: again}
        found.runtime.statement(name).add_sink(again)
    return found


def same_whichever_way(epl: str, events: list[Event], draw: Random) -> None:
    """Sent one by one, replayed in slices cut anywhere, and saved and loaded in the middle of such a replay."""
    sent, replayed, parted = Run(epl), Run(epl), Run(epl)
    cuts = sorted(draw.sample(range(len(events)), draw.randint(0, 3)))
    middle = draw.randrange(len(events))
    sent.send(events)
    replayed.replay(events, cuts)
    parted.replay(events[:middle], cuts)
    parted = loaded(parted)
    parted.replay(events[middle:], cuts)
    for until in (0, 1000, 4000):
        for each in (sent, replayed, parted):
            each.runtime.advance(sent.runtime.now + until if each is sent else sent.runtime.now)
        assert replayed.deliveries == sent.deliveries, epl
        assert parted.deliveries == sent.deliveries, epl
        assert replayed.readings() == sent.readings() == parted.readings(), epl


@pytest.mark.parametrize("seed", part(range(MANY)))
def test_sent_replayed_and_loaded(seed: int) -> None:
    same_whichever_way(*drawn(seed))


def test_statements_of_contexts_run_through_slices() -> None:
    """What is drawn for contexts is not merged, and a good part of it delivers."""
    delivered = 0
    for seed in range(40):
        draw = Random(seed)
        run = Run(divided(draw, 0))
        assert (run.runtime.batch(["A", "B"]).merged, run.runtime.batch(["A", "B"]).reasons) == ({}, {})
        run.send(drawn(seed)[1])
        delivered += any(run.deliveries.values())
    assert delivered > 30
