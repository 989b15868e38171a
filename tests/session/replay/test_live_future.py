"""Live events with a time in the future: one wrong date makes no later event late if `ahead` is given, and is told."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cepbook import Config, Workbench
from cepbook.errors import UsageError

PRESENT = 1_700_000_000_000  # ms


def bench(second: int = 1000) -> Workbench:
    cep = Workbench(config=Config(microseconds=second != 1000))
    cep.define("E", {"ts": int, "n": int}, time="ts")
    cep.run("@name('all') select n from E; @name('late') select event.n as n from LateEvent")
    return cep


def run(cep: Workbench, rows: list[dict[str, Any]], **options: Any) -> Any:
    async def source() -> AsyncIterator[object]:
        for row in rows:
            yield row

    async def scenario() -> Any:
        return await cep.live({"E": source()}, time="ts", now=lambda: PRESENT * 1_000_000, **options)

    return asyncio.run(asyncio.wait_for(scenario(), 60))


def numbers(cep: Workbench, name: str) -> list[int]:
    return [int(n) for n in cep.changes(name)["n"]]


@pytest.mark.parametrize("second", [1000, 1_000_000])
def test_an_event_is_rejected_from_one_unit_after_the_limit_on(second: int, tmp_path: Path) -> None:
    cep, unit = bench(second), second // 1000
    now, hour = PRESENT * unit, 3600 * second
    times = [now - 5, now + hour, now + hour + 1, 4_102_444_800_000 * unit, now + hour]
    rejected = tmp_path / "rejected.jsonl"
    rows = [{"ts": time, "n": n} for n, time in enumerate(times)]
    live = run(cep, rows, ahead="1 hour", rejected=rejected)
    assert numbers(cep, "all") == [0, 1, 4]
    assert live.late.total() == 0 and live.malformed["E"] == 2
    entries = [json.loads(line) for line in rejected.read_text().splitlines()]
    assert [entry["item"]["n"] for entry in entries] == [2, 3]
    assert all(entry["reason"].endswith("is later than the present by more than `ahead`") for entry in entries)


@pytest.mark.parametrize("lateness", [None, "2 sec"])
def test_random_clocks_of_devices(lateness: str | None) -> None:
    draw = random.Random(8)
    times = [PRESENT + draw.choice([0, 0, 0, 500, 86_400_000, 10**12]) + 10 * n for n in range(300)]
    cep = bench()
    run(cep, [{"ts": time, "n": n} for n, time in enumerate(times)], ahead="1 min", lateness=lateness)
    sound = [n for n, time in enumerate(times) if time <= PRESENT + 60_000]
    assert sorted(numbers(cep, "all") + numbers(cep, "late")) == sound
    assert (numbers(cep, "late") == []) == (lateness is not None)


def test_without_a_limit_the_answer_says_why_all_are_late() -> None:
    cep = bench()
    live = run(cep, [{"ts": 253_370_764_800_000, "n": 0}, {"ts": PRESENT, "n": 1}])
    assert numbers(cep, "late") == [1]
    assert live.troubles == [
        "the clock is at 9999-01-01 00:00:00, in the future: an event had that time, and earlier ones are late; "
        '`%epl rewind` begins anew, and live(…, ahead="1 hour") rejects such events'
    ]
    assert live.troubles[0] in repr(live)


def test_a_clock_that_is_right_gives_no_such_answer() -> None:
    cep = bench()
    live = run(cep, [{"ts": PRESENT, "n": 0}, {"ts": PRESENT - 1, "n": 1}])
    assert live.late["E"] == 1 and live.troubles == []


def test_a_limit_needs_a_column_and_a_period() -> None:
    async def started(**options: Any) -> None:
        bench().live({"E": []}, **options)

    with pytest.raises(UsageError, match="`ahead` needs the column of the event time"):
        asyncio.run(started(ahead="1 hour"))
    with pytest.raises(UsageError, match="`ahead` is a time period such as '5 sec', not datetime"):
        asyncio.run(started(time="ts", ahead=timedelta(hours=-1)))
    with pytest.raises(UsageError, match="`lateness` is a time period"):
        asyncio.run(started(time="ts", lateness=timedelta(hours=-1)))
