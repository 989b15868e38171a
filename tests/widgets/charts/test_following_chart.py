"""A chart that follows its statement, and the past that somebody looks at."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cepbook.errors import UsageError
from cepbook.session import Workbench
from cepbook.widgets.charts import MIME, following_chart
from cepbook.widgets.charts.following_chart import FollowingChart
from tests.widgets.fakes import FakeHandle

TICKS = [{"time": 100 * i, "symbol": "AB"[i % 2], "price": float(i)} for i in range(100)]


def bench() -> Workbench:
    cep = Workbench()
    cep.run("create schema Tick(symbol string, price double); @name('high') select * from Tick(price >= 20)")
    return cep


def points(handle: FakeHandle) -> int:
    """How many points the last chart has."""
    spec: dict[str, Any] = handle.shown[-1][MIME]
    (data,) = spec["datasets"].values()
    return len(data)


def test_the_chart_shows_the_instant_that_is_looked_at() -> None:
    cep = bench()
    replay = cep.replay(TICKS, type="Tick", time="time", keep=20)
    replay.run()
    handle = FakeHandle()
    FollowingChart(cep, "high").show(handle.display)
    assert points(handle) == 80
    cep.glance.show(4_950, replay.at(4_950))
    assert points(handle) == 30
    cep.glance.leave()
    assert points(handle) == 80


def test_the_chart_follows_while_events_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following_chart, "INTERVAL", 0.01)
    monkeypatch.setattr(following_chart, "SHARE", 0)

    async def run() -> None:
        cep, handle = bench(), FakeHandle()
        FollowingChart(cep, "high").show(handle.display)
        assert points(handle) == 0
        for start in (0, 50):
            for tick in TICKS[start : start + 50]:
                cep.send("Tick", symbol=tick["symbol"], price=tick["price"])
            for _ in range(200):
                await asyncio.sleep(0.01)
                if points(handle) == start + 30:
                    break
            assert points(handle) == start + 30
        replay = cep.replay(
            [{"time": 10 + i, "symbol": "A", "price": 50.0} for i in range(9)], type="Tick", time="time", keep=1
        )
        await replay
        for time, expected in ((12, 83), (14, 85)):
            cep.glance.show(time, replay.at(time))
            await asyncio.sleep(0.2)
            assert points(handle) == expected
        cep.glance.leave()
        cep.drop("high")
        await asyncio.sleep(0.05)
        assert points(handle) in (85, 89), "the last picture stays"

    asyncio.run(run())


def test_what_cannot_be_drawn_is_refused() -> None:
    cep = bench()
    cep.run("@name('words') select symbol from Tick")
    with pytest.raises(UsageError, match="numeric"):
        FollowingChart(cep, "words")
    with pytest.raises(UsageError, match="hig"):
        FollowingChart(cep, "hig")
