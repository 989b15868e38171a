"""Why of rows from any instant of a replay: cause, group, partition, events and windows, against the sent events."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.session.explain.explanations import RowExplanation

COUNT, ROWS = 9_000, 12
MODULE = """
create context PerKey partition by k from T;
@name('mean') select k, avg(v) as mean from T#time(10 min) group by k;
@name('last three') context PerKey select k, sum(v) as total from T#length(3);
@name('raw') select irstream k, v from T#time(5 min);
@name('batch') select k, count(*) as n from T#time_batch(1 hour) group by k;
@name('pairs') select a.v as high, b.v as low from pattern [every a=T(v > 900) -> b=T(k = a.k and v < 100)];
"""
MINUTE = 60_000


@pytest.fixture(scope="module")
def session() -> tuple[Workbench, pd.DataFrame]:
    """A replay of four days, of which the event log has the last."""
    rng = random.Random(5)
    times = sorted(rng.sample(range(4 * 24 * 60 * MINUTE), COUNT))
    events = pd.DataFrame({"at": times, "k": [rng.choice("ABC") for _ in times], "v": range(COUNT)})
    events["v"] = events["v"] * 7_919 % 1_000
    workbench = Workbench(start=0)
    workbench.run("create schema T(at long, k string, v int) starttimestamp at;" + MODULE)
    workbench.replay(events, "T", time="at", keep="3 hours").run()
    return workbench, events


def drawn(workbench: Workbench, name: str) -> list[tuple[int, dict[str, Any]]]:
    """Rows of all instants, with their numbers."""
    rows = workbench.changes(name, times="ms")
    numbers = random.Random(name).sample(range(len(rows)), ROWS)
    return [(number, rows.iloc[number].to_dict()) for number in sorted(numbers)]


def values(explanation: RowExplanation) -> list[int]:
    return [event["v"] for event in explanation.windows[0].events]


def caused_by_event(explanation: RowExplanation, events: pd.DataFrame, time: int) -> bool:
    """Check the cause: the event of this time, or the clock if there is none."""
    came = events[events["at"] == time].to_dict("records")
    assert (explanation.stimulus and explanation.stimulus.event) == (came[0] if came else None)
    assert explanation.cause.startswith("an event of type T" if came else "the clock, which came to")
    return bool(came)


def test_windows_of_time_and_their_groups(session: tuple[Workbench, pd.DataFrame]) -> None:
    workbench, events = session
    causes = set()
    for number, row in drawn(workbench, "mean"):
        why = workbench.why("mean", row=number)
        then = events[(events["at"] > row["time"] - 10 * MINUTE) & (events["at"] <= row["time"])]
        group = then[then["k"] == row["k"]]
        assert (why.windows[0].total, values(why)) == (len(then), list(then["v"])[-len(values(why)) :])
        assert why.group == {"k": row["k"]} and why.provenance is not None
        assert [piece.event["v"] for piece in why.provenance] == list(group["v"])
        assert row["mean"] == pytest.approx(group["v"].mean(), nan_ok=True)
        causes.add(caused_by_event(why, events, row["time"]))
        assert why.notes == ()
    assert causes == {True, False}


def test_context_partitions(session: tuple[Workbench, pd.DataFrame]) -> None:
    workbench, events = session
    for number, row in drawn(workbench, "last three"):
        why = workbench.why("last three", row=number)
        own = events[(events["at"] <= row["time"]) & (events["k"] == row["k"])].tail(3)
        assert values(why) == list(own["v"]) and sum(values(why)) == row["total"]
        known = workbench.partitions("PerKey").set_index("key1")["id"]
        assert why.partition == {"id": known[row["k"]], "k": row["k"]}
        assert caused_by_event(why, events, row["time"])


def test_rows_that_leave(session: tuple[Workbench, pd.DataFrame]) -> None:
    workbench, events = session
    kinds = set()
    for number, row in drawn(workbench, "raw"):
        why = workbench.why("raw", row=number)
        removed = row["kind"] == "remove"
        until = events["at"] < row["time"] if removed else events["at"] <= row["time"]
        then = events[until & (events["at"] >= row["time"] - 5 * MINUTE + (not removed))]
        assert values(why) == list(then["v"])
        kinds.add((row["kind"], caused_by_event(why, events, row["time"])))
    assert {kind for kind, _ in kinds} == {"insert", "remove"}


def test_batches(session: tuple[Workbench, pd.DataFrame]) -> None:
    workbench, events = session
    for number, row in drawn(workbench, "batch"):
        why = workbench.why("batch", row=number)
        batch = events[(events["at"] > row["time"] - 60 * MINUTE) & (events["at"] <= row["time"])]
        assert why.provenance is not None and why.group == {"k": row["k"]}
        group = batch[batch["k"] == row["k"]]
        assert row["n"] == len(group) == why.provenance_total, (row, why)
        assert not caused_by_event(why, events, row["time"])


def test_matches_of_patterns(session: tuple[Workbench, pd.DataFrame]) -> None:
    workbench, events = session
    for number, row in drawn(workbench, "pairs"):
        why = workbench.why("pairs", row=number)
        assert why.provenance is not None
        assert [piece.event["v"] for piece in why.provenance] == [row["high"], row["low"]]
        assert caused_by_event(why, events, row["time"])
