"""`Workbench.replay_again` rewinds, and replays what was replayed; `Replay.run_until` stops behind what fired."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from cepbook import Workbench
from cepbook.errors import UsageError
from cepbook.session import Replay

TICKS = [{"time": 100 * i, "symbol": "AB"[i % 2], "price": float(i)} for i in range(100)]
DAYS = [TICKS[:50], TICKS[50:]]


def bench(epl: str = "@name('high') select * from Tick(price > 90)") -> Workbench:
    cep = Workbench()
    cep.run("create schema Tick(symbol string, price double)")
    cep.run(epl, cell="high")
    return cep


def replayed(cep: Workbench, *parts: list[dict[str, object]]) -> list[Replay[Workbench]]:
    replays = []
    for frame in parts:
        replays.append(cep.replay(frame, type="Tick", time="time", keep=10))
        replays[-1].run()
    return replays


@pytest.mark.parametrize("parts", [[TICKS], DAYS])
def test_a_changed_statement_gets_the_events_that_are_past(parts: list[list[dict[str, object]]]) -> None:
    cep = bench()
    replays = replayed(cep, *parts)
    assert cep.events_before("high") == 0
    cep.run("@name('high') select * from Tick(price > 95)", cell="high")
    assert cep.events_before("high") == 100 and cep.feed("high").deliveries == 0
    assert cep.not_repeatable == ""
    result = asyncio.run(cep.replay_again())
    assert (result.state, result.clock, cep.feed("high").deliveries) == ("finished", 9900, 4)
    assert cep.events_before("high") == 0
    assert all(replay.successor is not None and replay.successor.state == "finished" for replay in replays)
    asyncio.run(cep.replay_again())  # and again
    assert cep.feed("high").deliveries == 4


def test_one_event_after_the_deployment_is_enough() -> None:
    cep = bench()
    replayed(cep, TICKS)
    cep.run("@name('other') select * from Tick(price > 95)")
    cep.send("Tick", symbol="A", price=1.0)
    assert cep.events_before("other") == 0


def test_of_a_replay_that_was_stopped_as_many_events_come() -> None:
    cep = bench()
    replay = cep.replay(TICKS, type="Tick", time="time", paused=True)
    replay.step(95)
    assert cep.not_repeatable == "a replay is paused"
    replay.stop()
    result = asyncio.run(cep.replay_again())
    assert (result.events, cep.feed("high").deliveries) == (95, 4)


def test_the_reason_is_told_where_nothing_can_be_repeated() -> None:
    cep = bench()
    with pytest.raises(UsageError, match="nothing was replayed"):
        asyncio.run(cep.replay_again())
    cep.replay(iter(TICKS), type="Tick", time="time").run()
    with pytest.raises(UsageError, match="can be read only once"):
        asyncio.run(cep.replay_again())
    assert cep.feed("high").deliveries == 9  # nothing was rewound
    cep.rewind()
    cep.replay(DAYS[0], type="Tick", time="time").run()  # nobody keeps it
    replayed(cep, DAYS[1])
    gc.collect()
    with pytest.raises(UsageError, match="not known any more"):
        asyncio.run(cep.replay_again())


def until(cep: Workbench, name: str, ticks: Iterator[dict[str, object]], **options: object) -> tuple[int, int]:
    """Run until the statement delivers; the number of events and the clock."""
    replay = cep.replay({"Tick": ticks}, time="time", **options)  # type: ignore[arg-type]
    feed = cep.feed(name)
    replay.run_until(lambda: feed.deliveries > 0, statement=name)
    replay.run()
    assert replay.state == "paused" and feed.deliveries == 1
    events, clock = replay.progress.events, cep.runtime.now
    assert sum(row["n"] for row in cep.changes("all").to_dict("records")[-1:]) == events
    replay.run_until(lambda: feed.deliveries > 1, statement=name)
    replay.run()
    replay.resume()
    replay.run()
    assert (replay.progress.events, cep.event_counts()["Tick"]) == (100, 100)
    return events, clock


EPL = (
    "@name('all') select count(*) as n from Tick; @name('fires') select * from Tick(price = 42);"
    "@name('timer') select count(*) as n from pattern [a=Tick(price = 42) -> timer:interval(250 msec)]"
)


@pytest.mark.parametrize("options", [{}, {"leap": True}, {"late": "drop"}, {"speed": 1e9}, {"keep": 7}])
def test_run_until_stops_behind_the_event(options: dict[str, object]) -> None:
    assert until(bench(EPL), "fires", iter(TICKS), **options) == (43, 4200)


def test_run_until_stops_at_the_due_time() -> None:
    assert until(bench(EPL), "timer", iter(TICKS)) == (45, 4450)


def test_run_until_with_a_journal(tmp_path: object) -> None:
    cep = bench(EPL)
    cep.journal(f"{tmp_path}/journal")
    assert until(cep, "fires", iter(TICKS)) == (43, 4200)
