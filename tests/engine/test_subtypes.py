"""Events of subtypes are themselves wherever they are looked at as wholes: sent one by one or replayed."""

from __future__ import annotations

import pytest

from tests.engine.histories import Event, Run

# of these types `A` is above `Sub`, which adds `z`
EVENTS = [
    Event(0, "A", {"k": "a", "g": 0, "x": 1, "n": 1, "d": 1.0, "f": 0.5}),
    Event(1, "Sub", {"k": "b", "g": 0, "x": 2, "n": 2, "d": 2.0, "f": 0.5, "z": 3}),
    Event(2, "Sub", {"k": "a", "g": 1, "x": 3, "n": 3, "d": 3.0, "f": 0.5, "z": 4}),
    Event(2, "B", {"k": "a", "x": 3}),
    Event(4, "Sub", {"k": "b", "g": 1, "x": 4, "n": 4, "d": 3.0, "f": 0.5, "z": None}),
]
FORMS = [
    "select * from A",
    "select irstream * from A#length(2)",
    "select irstream * from A#time_batch(2 msec)",
    "select irstream * from A#unique(k)",
    "select * from A output every 2 events",
    "select e.*, 1 as one from A as e",
    "select e from A(x > 1) as e",
    "select window(*) as w, maxby(x) as m from A#length(2)",
    "select prev(1, e) as p from A#length(3) as e",
    "select a from A match_recognize (measures R as a pattern (R) define R as R.x > 1)",
    "select a, b from pattern [every a=A -> b=A]",
    "select a, b from A#lastevent as a, B#lastevent as b",
    "select (select * from A#lastevent) as a from B",
    "select z? as z from A",
    "select z? as z, count(*) as c from A group by z?",
    "select x from A(z? = 3)",
    "select x from A where exists(z?)",
    "select irstream x from A#unique(z?)",
    "insert into D select * from A; @name('s') select d, d.z? as z from D as d",
    "create context K partition by k from A; @name('s') context K select *, count(*) as c from A",
    "create context K partition by k from A(z? > 2); @name('s') context K select x from A",
    "create context K coalesce by hash_code(k) from A granularity 2; @name('s') context K select * from A",
    "create context K initiated by A as a; @name('s') context K select context.a as a from B",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("types", ["A Sub B", "Sub B", "Sub"])
def test_replayed_as_sent(form: str, types: str) -> None:
    epl = form if "@name" in form else f"@name('s') {form}"
    events = [event for event in EVENTS if event.type in types.split()]
    for cuts in ([], [2]):
        sent, replayed = Run(epl), Run(epl)
        sent.send(events)
        replayed.replay(events, cuts)
        assert replayed.deliveries == sent.deliveries
        assert replayed.readings() == sent.readings()


def test_rows_have_what_a_subtype_adds() -> None:
    run = Run("@name('s') select * from A; @name('t') select x, z? as z from A")
    run.replay(EVENTS, [])
    assert [delta.insert[0].get("z", "none") for delta in run.recorders["s"]] == ["none", 3, 4, None]
    assert [delta.insert for delta in run.recorders["t"]] == [
        [{"x": 1, "z": None}],
        [{"x": 2, "z": 3}],
        [{"x": 3, "z": 4}],
        [{"x": 4, "z": None}],
    ]
