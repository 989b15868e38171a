"""Timelines as charts: valid, deterministic, without the user's text as code."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.session.history.partition_lifetimes import PartitionLifetime
from cepbook.session.inspect.timeline import Timeline
from cepbook.widgets.charts.timeline_chart import LABELLED, timeline_chart

pytestmark = pytest.mark.histories

EVIL = "'] + alert(1) + ['"


def timeline(lives: list[PartitionLifetime], *, levels: tuple[str, ...] = (), end: int = 5000) -> Timeline:
    counts = tuple((life.born, number) for number, life in enumerate(lives, 1))
    live = sum(life.died is None for life in lives)
    start = lives[0].born if lives else end
    return Timeline("C", "create context C", start, end, tuple(lives), counts, live, len(lives), levels)


def bars(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return list(spec["vconcat"][0]["data"]["values"])  # the layers share it


def test_a_bar_from_birth_to_death_or_to_the_present() -> None:
    lives = [
        PartitionLifetime(0, {"id": 0, "key1": "A", "name": "C"}, 0, 2000),
        PartitionLifetime(1, {"id": 1, "key1": "B", "name": "C"}, 1000),
    ]
    spec = timeline_chart(timeline(lives)).to_dict()
    rows = bars(spec)
    assert [(r["label"], r["born"], r["until"], r["lives"]) for r in rows] == [
        ("#0 A", 0, 2000, False), ("#1 B", 1000, 5000, True),
    ]  # fmt: skip
    assert [(r["birth"], r["death"], r["properties"]) for r in rows] == [
        ("00:00:00.000", "00:00:02.000", "key1=A"), ("00:00:01.000", "lives", "key1=B"),
    ]  # fmt: skip
    assert spec["vconcat"][1]["data"]["values"] == [
        {"born": 0, "live": 1}, {"born": 1000, "live": 2}, {"born": 5000, "live": 1},
    ]  # fmt: skip
    assert spec["description"] == "timeline of C: 2 partitions, 1 live, 00:00:00.000 to 00:00:05.000"


def test_partitions_of_the_same_name_are_told_apart() -> None:
    lives = [PartitionLifetime(0, {"key1": "A"}, 100 * n, 100 * n + 50) for n in range(3)]
    assert [row["label"] for row in bars(timeline_chart(timeline(lives)).to_dict())] == ["#0 A", "#0 A (2)", "#0 A (3)"]


def test_nested_contexts_are_coloured_by_their_outermost_level() -> None:
    start = 19_000 * 86_400_000
    levels = [{"Office": {"name": "Office", "startTime": start + n}, "Each": {"id": n, "key1": "x"}} for n in range(2)]
    spec = timeline_chart(
        timeline([PartitionLifetime(n, p, start + n) for n, p in enumerate(levels)], levels=("Office", "Each"))
    ).to_dict()
    color = spec["vconcat"][0]["layer"][0]["encoding"]["color"]
    assert (color["field"], color["title"]) == ("outer", "Office")
    assert bars(spec)[0]["outer"] == "Office startTime=2022-01-08 00:00:00"
    assert bars(spec)[0]["birth"] == "2022-01-08 00:00:00"
    assert spec["vconcat"][1]["layer"][0]["encoding"]["x"]["scale"]["type"] == "utc"


def test_many_partitions_have_thin_bars_without_labels() -> None:
    few, many = (
        timeline_chart(timeline([PartitionLifetime(n, {"key1": n}, n) for n in range(count)])).to_dict()
        for count in (LABELLED, LABELLED + 1)
    )
    assert few["vconcat"][0]["layer"][0]["encoding"]["y"]["axis"]["labels"]
    assert not many["vconcat"][0]["layer"][0]["encoding"]["y"]["axis"]["labels"]
    assert many["vconcat"][0]["height"]["step"] < few["vconcat"][0]["height"]["step"]


def test_the_users_text_is_data_only() -> None:
    spec = timeline_chart(timeline([PartitionLifetime(0, {"key1": EVIL}, 0)])).to_dict()
    assert bars(spec)[0]["label"] == f"#0 {EVIL}"
    for layer in spec["vconcat"][0]["layer"]:
        for transform in layer.get("transform", ()):
            assert EVIL not in str(transform)


def test_without_partitions_the_chart_is_empty() -> None:
    assert bars(timeline_chart(timeline([])).to_dict()) == []
