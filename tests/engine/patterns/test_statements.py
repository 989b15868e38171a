"""Statements over patterns: deliveries, limits, failures, replays, inspection."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cepbook.engine.delivery.delta import Delta
from cepbook.engine.runtime import Config, Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import StatementError
from tests.engine.patterns.matching import SCHEMA


def started(epl: str, config: Config = Config()) -> tuple[Runtime, list[Delta]]:
    """A runtime with `epl`, whose statement ``out`` writes into the list."""
    runtime = Runtime(config)
    runtime.deploy(f"{SCHEMA} {epl}")
    deltas: list[Delta] = []
    runtime.statement("out").add_listener(deltas.append)
    return runtime, deltas


def test_all_matches_of_an_event_are_one_delivery() -> None:
    runtime, deltas = started("@name('out') select a.id as a, count(*) as c from pattern [every a=A -> b=B]")
    for i in range(3):
        runtime.send("A", {"id": f"a{i}"})
    runtime.send("B", {"id": "b"})
    assert deltas == [Delta(0, [{"a": f"a{i}", "c": i + 1} for i in range(3)], None)]


def test_a_runaway_pattern_is_told_once_and_nothing_else_suffers() -> None:
    runtime, deltas = started(
        "@name('grows') select * from pattern [every a=A -> b=B(id = a.id)];"
        "@name('out') select count(*) as c from pattern [every a=A -> b=B(id = a.id)] where a.x > 0",
        Config(pattern_limit=50),
    )
    told: list[StatementError] = []
    runtime.add_error_listener(told.append)
    for i in range(200):
        runtime.send("A", {"id": str(i), "x": 1})
    assert [error.statement for error in told] == ["grows", "out"]
    assert "statement `grows` has 50 open partial matches" in str(told[0])
    assert "Config.pattern_limit" in str(told[0])
    runtime.send("B", {"id": "7"})
    assert deltas[-1].insert == [{"c": 1}]
    runtime.send("A", {"id": "again", "x": 1})
    runtime.send("B", {"id": "again"})
    assert deltas[-1].insert == [{"c": 2}]


def test_a_failing_filter_belongs_to_its_statement() -> None:
    runtime, deltas = started(
        "@name('bad') select * from pattern [every a=A(cast(id, int) > 0)];"
        "@name('out') select a.id as a from pattern [every a=A]"
    )
    told: list[StatementError] = []
    runtime.add_error_listener(told.append)
    runtime.send("A", {"id": "x", "x": 1})
    assert deltas == [Delta(0, [{"a": "x"}], None)]
    assert [error.statement for error in told] == ["bad"]
    assert "cast(id, int)" in str(told[0])


def test_a_failing_row_leaves_the_other_matches() -> None:
    runtime, deltas = started("@name('out') select cast(a.id, int) as a from pattern [every a=A -> b=B]")
    told: list[StatementError] = []
    runtime.add_error_listener(told.append)
    for id_ in ("1", "oops", "3"):
        runtime.send("A", {"id": id_})
    runtime.send("B", {"id": "b"})
    assert deltas == [Delta(0, [{"a": 1}, {"a": 3}], None)]
    assert len(told) == 1


def test_inspection_shows_partial_matches() -> None:
    runtime, _ = started("@name('out') select * from pattern [every a=A -> b=B where timer:within(10 sec)]")
    runtime.send("A", {"id": "k"}, at=500)
    (state,) = runtime.state("out")
    assert state["next_timer"] == 10_500
    assert state["partials"] == {
        "total": 2,
        "rows": [
            {"waiting_for": "a=A", "since": 0, "until": None, "events": {}},
            {"waiting_for": "b=B", "since": 500, "until": 10_500, "events": {"a": {"id": "k"}}},
        ],
    }


def test_undeploying_leaves_no_timer() -> None:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy("@name('out') select * from pattern [every timer:interval(1 sec)]", deployment_id="d")
    assert runtime.next_due == 1000
    runtime.undeploy("d")
    assert runtime.next_due is None


def test_events_that_no_atom_can_use_are_left_out_by_the_filter_index() -> None:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    found: list[str] = []
    for i in range(20):
        runtime.deploy(f"@name('s{i}') select a.id as a from pattern [every a=A(id = '{i}', x > 3)]")
        runtime.statement(f"s{i}").add_listener(lambda delta, i=i: found.append(f"{i}: {delta.insert}"))
    runtime.send("A", {"id": "7", "x": 1})
    runtime.send("A", {"id": "7", "x": 5})
    runtime.send("Child", {"id": "8", "x": 5})
    assert found == ["7: [{'a': '7'}]", "8: [{'a': '8'}]"]


REPLAYED = (
    "every a=A(x > 3) -> b=B(id = a.id, x < 2) where timer:within(1 sec)",
    "every a=A(x > 3) -> (timer:interval(700 msec) and not B(x = 0, id = a.id))",
    "every timer:interval(300 msec) -> a=A(x = 1)",
    "every a=A(x > 3 or x < 1)",
    "every (a=A(x = 2) until b=A(x = 4))",
    "every a=A -> b=B(x = 3)",
    "every a=A(x = 1) -> b=B(cast(id, int) > 3, x > 2)",
)


@pytest.mark.parametrize("pattern", REPLAYED)
@pytest.mark.parametrize("seed", range(6))
def test_a_replay_finds_what_sending_finds(pattern: str, seed: int) -> None:
    draw, time = Random(seed), 0
    events: list[tuple[int, str, dict[str, Any]]] = []
    for _ in range(300):
        time += draw.choice((0, 0, 1, 90, 250, 1000))
        event = {"id": draw.choice(("1", "9", "k")), "x": draw.choice((None, 0, 1, 2, 3, 4))}
        events.append((time, draw.choice("AAB"), event))
    epl = f"@name('out') select irstream *, current_timestamp as t from pattern [{pattern}]#time(400 msec)"
    sent, expected = started(epl)
    sent.add_error_listener(lambda error: None)
    for at, name, event in events:
        sent.send(name, event, at=at)
    replayed, found = started(epl)
    replayed.add_error_listener(lambda error: None)
    batch = replayed.batch(["A", "B"])
    for start in range(0, len(events), 64):
        part = [(i, *event) for i, event in enumerate(events)][start : start + 64]
        slices = []
        for name in ("A", "B"):
            rows = [(i, at, event) for i, at, type_, event in part if type_ == name]
            columns = {c: [event[c] for _, _, event in rows] for c in batch.columns[name]}
            slices.append(ColumnBatch(name, [at for _, at, _ in rows], columns, [i for i, _, _ in rows]))
        batch.run(slices)
    assert found == expected
    assert replayed.now == sent.now
    assert any(delta.insert for delta in found)


def test_what_a_match_discards_is_counted_once() -> None:
    runtime, deltas = started(
        "@name('out') select * from pattern @DiscardPartialsOnMatch [every (a=A and every b=B and every c=C)]"
    )
    for i in range(3):
        runtime.send("B", {"id": f"b{i}"})
        runtime.send("C", {"id": f"c{i}"})
    runtime.send("A", {"id": "a"})
    assert len(deltas[-1].insert or ()) == 9
    (state,) = runtime.state("out", partials=1_000)
    assert state["partials"]["total"] == len(state["partials"]["rows"]) == 30  # nothing is kept beside the atoms


def test_branches_of_or_do_not_see_the_arrays_of_each_other() -> None:
    runtime, deltas = started(
        "@name('out') select b, c from pattern [every (b=B until timer:interval(5 sec)) or every c=C]"
    )
    runtime.send("B", {"id": "b"})
    runtime.advance(5_000)
    assert [row["c"] for row in deltas[-1].insert or ()] == [None]
    runtime.send("C", {"id": "c"})
    assert [(row["b"], row["c"]["id"]) for row in deltas[-1].insert or ()] == [(None, "c")]


def test_a_contained_event_that_cannot_be_read_is_an_error_and_no_match() -> None:
    runtime, deltas = started(
        "create schema Item(amount string); create schema Basket(items Item[]);"
        "@name('out') select i from pattern [every i=Basket[items where cast(amount, int) > 0]]"
    )
    with pytest.raises(StatementError, match=r"`out` failed on an event: .* 'much' is not a whole number"):
        runtime.send("Basket", {"items": [{"amount": "much"}]})
    assert deltas == []
    runtime.send("Basket", {"items": [{"amount": "2"}]})
    assert len(deltas) == 1
