"""Why rows were delivered, in random histories: the event that set a row off and the window then, computed again."""

from __future__ import annotations

from random import Random
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench
from tests.engine.histories import GAPS
from tests.random_cases import seeds

SCHEMA = """create schema A(id int, k string, x int, t long);
create context ByKey partition by k from A;
create context Spans start A(x=0) end after 2 sec;
"""
STATEMENTS = {  # by statement, its window: the latest events, or those of the latest milliseconds
    "select id from A#length(3)": (3, None),
    "select id, x from A#time(1 sec)": (None, 1000),
    "select id, sum(x) as s from A#time(7 msec)": (None, 7),
    "select id, k, count(*) as c from A#time(1 sec) group by k": (None, 1000),
    "select irstream id from A#time(2 sec)": (None, 2000),
}
pytestmark = pytest.mark.histories


def random_frame(random: Random, first_id: int, time: int) -> pd.DataFrame:
    rows = []
    for id_ in range(first_id, first_id + random.randint(1, 12)):
        time += random.choice(GAPS)
        rows.append({"id": id_, "k": random.choice("ab"), "x": random.randint(0, 2), "t": time})
    return pd.DataFrame(rows)


def random_workbench(random: Random, epl: str, *, leaps: float = 0.3) -> tuple[Workbench, list[tuple[int, int]]]:
    """Replay some frames, a part of them by leaps of the clock, and send events between them. Return the workbench with
    id and time of each event.
    """
    cep, events = Workbench(), list[tuple[int, int]]()
    cep.run(f"{SCHEMA} @name('out') {epl}")
    for _ in range(random.randint(1, 3)):
        now = cep.runtime.now
        frame = random_frame(random, len(events), now)
        cep.replay(frame, "A", time="t", leap=random.random() < leaps).run()
        events += zip(frame["id"].tolist(), frame["t"].tolist(), strict=True)
        for _ in range(random.choice((0, 0, 1, 2))):
            events.append((len(events), cep.runtime.now))
            cep.send("A", {"id": events[-1][0], "k": "a", "x": 1, "t": 0})
    return cep, events


def window_after(events: list[tuple[int, int]], id_: int, latest: int | None, span: int | None) -> list[int]:
    """Return the ids in the window right after the event with an id has entered."""
    now = events[id_][1]
    before = [other for other, time in events[: id_ + 1] if span is None or time > now - span]
    return before if latest is None else before[-latest:]


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("epl", STATEMENTS)
def test_the_event_and_the_window_of_each_insert_row(epl: str, seed: int) -> None:
    random = Random(seed)
    cep, events = random_workbench(random, epl)
    rows = cep.changes("out")
    answers: list[tuple[int, Any, list[int]]] = []
    for number, (kind, id_) in enumerate(zip(rows["kind"], rows["id"].tolist(), strict=True)):
        if kind == "insert":
            why = cep.why("out", row=number)
            answers.append((id_, why.stimulus and why.stimulus.event["id"], [e["id"] for e in why.windows[0].events]))
    assert answers == [(id_, id_, window_after(events, id_, *STATEMENTS[epl])) for id_, _ in events]


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("epl", STATEMENTS)
def test_the_bar_of_each_event_in_a_marble_diagram(epl: str, seed: int) -> None:
    cep, events = random_workbench(Random(seed), epl, leaps=0)
    latest, span = STATEMENTS[epl]
    expected = []
    for id_, time in events:
        if span is None:
            assert latest is not None
            left = events[id_ + latest][1] if id_ + latest < len(events) else None
        else:
            left = time + span if time + span <= cep.runtime.now else None
        expected.append((id_, time, left))
    marble = cep.marble("out", events=200)
    assert [(bar.event["id"], bar.arrived, bar.left) for bar in marble.bars] == expected


PROVENANCE = {  # by statement, the columns with the ids of the events behind a row
    "select a.id as a, b.id as b from pattern [every a=A(x=0) -> b=A(x=1, k=a.k) where timer:within(1 sec)]": "ab",
    "select a.id as a, b.id as b from pattern [every a=A(x=0) -> b=A(x=1) and not A(x=2)]": "ab",
    "select a.id as a, b.id as b from A(x=0)#time(1 sec) as a, A(x=1)#length(3) as b where a.k = b.k": "ab",
    "select a.id as a, b.id as b from A(x=0) as a unidirectional, A(x=1)#time(2 sec) as b": "ab",
    "select id as a from A#time(1 sec) output every 2 events": "a",
    "select id as a from A output every 1 sec": "a",
    "select id as a from A#time_batch(1 sec)": "a",
    "select id as a from A#length_batch(3)": "a",
    "select irstream id as a from A#time(1 sec)": "a",
    "select rstream id as a from A#length(2)": "a",
    "select id as a from A#time(1 sec)#unique(k)": "a",
    "select id as a from A#time(2 sec) order by x limit 1": "a",
    "select id as a, (select max(id) from A(x=1)#time(1 sec)) as m from A(x=0)": "a",
    "context ByKey select id as a from A#time(1 sec)": "a",
    "context ByKey select irstream id as a, x from A#length(2)": "a",
    "context ByKey select a.id as a, b.id as b from pattern [every a=A(x=0) -> b=A(x=1)]": "ab",
    "context Spans select irstream id as a from A#length(2)": "a",
    "select * from A match_recognize (measures U.id as a, V.id as b pattern (U V) define V as V.x > U.x)": "ab",
}


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("epl", PROVENANCE)
def test_the_events_behind_each_row(epl: str, seed: int) -> None:
    cep, _ = random_workbench(Random(seed), epl)
    rows = cep.changes("out")
    expected, answers = [], []
    for number, row in enumerate(rows.to_dict("records")):
        why = cep.why("out", row=number)
        expected.append([row[name] for name in PROVENANCE[epl]])
        answers.append([event.event["id"] for event in why.provenance or ()])
    assert answers == expected


OUTCOMES = [
    "select id from A(x > 0)#time(1 sec)",
    "select id from A#length(3) where x > 0",
    "select id, count(*) as c from A#time(1 sec) having count(*) > 1",
    "select id, count(*) as c from A(x < 2)#time(2 sec) group by k having count(*) = 2",
    "context ByKey select id, sum(x) as s from A#time(1 sec) having sum(x) > 1",
    "select id from A#time(1 sec) where exists (select * from A(x=0)#time(7 msec))",
    "select id from A#unique(k) where x < 2",
]


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("epl", OUTCOMES)
def test_what_became_of_each_event(epl: str, seed: int) -> None:
    cep, events = random_workbench(Random(seed), epl)
    rows = cep.changes("out")
    delivered = set(rows.loc[rows["kind"] == "insert", "id"])
    outcomes = []
    for id_, _ in events:
        (outcome,) = cep.why("out", id_ + 1).courses
        outcomes.append(outcome.outcome == "delivered" and [row["id"] for _, row in outcome.rows] == [id_])
    assert outcomes == [id_ in delivered for id_, _ in events]
