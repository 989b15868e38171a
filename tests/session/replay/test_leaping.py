"""A replay that leaps moves the clock from event to event, and says how many timers fired late, and by how much."""

from __future__ import annotations

import pandas as pd
import pytest

from cepbook.session import Workbench

EPL = """
@name('minute') select count(*) as n from E#time(5 min) output snapshot every 1 min;
@name('silent') select current_timestamp as t from pattern [every (timer:interval(5 min) and not E)]
"""


def bench(start: str = "2024-01-01") -> tuple[Workbench, pd.DataFrame]:
    frame = pd.DataFrame({"ts": pd.to_datetime(["2024-01-01 00:00", "2024-01-01 00:01", "2024-01-01 00:20"]), "v": 1})
    cep = Workbench(start=start)
    cep.define("E", frame, time="ts")
    cep.run(EPL)
    return cep, frame


def test_reports_come_when_they_are_due() -> None:
    cep, frame = bench()
    result = cep.replay(frame, "E", until="2024-01-01 00:30").run()
    assert repr(result).splitlines()[0] == "3 events finished, clock 2024-01-01 00:30:00"
    assert len(cep.changes("minute")) == 30
    assert [str(t)[11:16] for t in pd.to_datetime(cep.changes("silent")["time"], unit="ms")] == [
        "00:06", "00:11", "00:16", "00:25", "00:30",
    ]  # fmt: skip


def test_with_leaps_the_summary_counts_late_timers() -> None:
    cep, frame = bench()
    result = cep.replay(frame, "E", until="2024-01-01 00:30", leap=True).run()
    head = "3 events finished, clock 2024-01-01 00:30:00, 4 timers fired late, by up to 0:18:00"
    assert repr(result).splitlines()[0] == head
    assert (len(cep.changes("minute")), len(cep.changes("silent"))) == (3, 2)


def test_both_kinds_of_loop_count_late_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for loop in (False, True):
        monkeypatch.setattr("cepbook.engine.replay.batch_replayer.event_loop_pays", lambda *_, loop=loop: loop)
        cep, frame = bench()
        results.append(repr(cep.replay(frame, "E", until="2024-01-01 00:30", leap=True).run()))
    assert results[0] == results[1]


def test_a_clock_that_nothing_has_set_leaps_to_the_first_event() -> None:
    cep, frame = bench(start="1970-01-01")
    cep.replay(frame, "E", until="2024-01-01 00:30").run()
    assert len(cep.changes("minute")) == 30, "and none for the half century before"


def test_the_former_name_is_refused() -> None:
    cep, frame = bench()
    with pytest.raises(TypeError, match=r"no argument `stepping`(.|\n)*leap"):
        cep.replay(frame, "E", stepping=True)
