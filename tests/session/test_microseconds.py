"""A workbench whose clock counts microseconds: dates, periods, texts and replays are in its unit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from cepbook.display import format_time
from cepbook.engine.config import Config
from cepbook.errors import EventError
from cepbook.magics.shell.output import clock_text
from cepbook.session import Workbench
from cepbook.testing.notation import parse_clock
from cepbook.widgets.live_view.view_source import WorkbenchSource

SECOND = 1_000_000
EPL = """
create schema E(x int, at long);
@name('held') select irstream x from E#time(3 sec);
@name('ext') select irstream x from E#ext_timed(at, 3 sec);
"""


def workbench(**options: object) -> Workbench:
    cep = Workbench(config=Config(microseconds=True), **options)  # type: ignore[arg-type]
    cep.run(EPL)
    return cep


@pytest.mark.parametrize("by", ["4 sec", "4000 msec", "4000000 usec", timedelta(seconds=4)])
def test_advance_by_a_period(by: str | timedelta) -> None:
    cep = workbench()
    cep.send("E", x=1, at=0)
    cep.advance(by="2999 msec")
    assert len(cep.iterate("held")) == 1
    clock = cep.advance(to=by) if isinstance(by, timedelta) else cep.advance(by=by)
    assert cep.iterate("held") == []
    assert int(clock) == 6_999_000 and clock.ms == 6_999
    assert repr(clock) == "00:00:06.999 (6999000 µs)"
    assert clock.datetime == datetime(1970, 1, 1, 0, 0, 6, 999_000, tzinfo=UTC)


def test_dates_are_in_microseconds() -> None:
    cep = workbench(start="2024-01-01T00:00:00.000001")
    assert repr(cep.clock) == "2024-01-01 00:00:00.000001 (1704067200000001 µs)"
    cep.advance("2024-01-01T00:00:02")
    cep.send("E", x=1, at=datetime(2024, 1, 1, 0, 0, 2))
    cep.send("E", x=2, at=datetime(2024, 1, 1, 0, 0, 5))
    assert [row["x"] for row in cep.iterate("ext")] == [2]
    with pytest.raises(EventError, match=r"cannot go back from .* µs"):
        cep.advance("2024-01-01")
    assert "clock 2024-01-01 00:00:02" in repr(cep)


@pytest.mark.parametrize("whole", [True, False], ids=["frame", "rows"])
def test_replays_expire_what_is_due(whole: bool) -> None:
    cep = workbench()
    at = pd.to_datetime(["2024-01-01T00:00:00", "2024-01-01T00:00:01.5", "2024-01-01T00:00:04"], format="ISO8601")
    frame = pd.DataFrame({"x": [1, 2, 3], "at": at})
    rows = [{"x": x, "at": time.to_pydatetime()} for x, time in zip(frame["x"], at, strict=True)]
    result = cep.replay(frame if whole else rows, type="E", time="at", until="2024-01-01T00:00:05").run()
    assert [row["x"] for row in cep.iterate("held")] == [3]
    assert [row["x"] for row in cep.iterate("ext")] == [2, 3]
    assert "clock 2024-01-01 00:00:05" in repr(result)
    assert WorkbenchSource(cep, "held").clock() == 1_704_067_205_000
    with pytest.raises(EventError, match="is before the clock, 1704067205000000 µs"):
        cep.replay(frame, type="E", time="at")


def test_texts_of_magics_and_views() -> None:
    assert clock_text(5 * SECOND, SECOND) == "00:00:05.000 (5000000 µs)"
    assert format_time(5 * SECOND + 12, second=SECOND) == "00:00:05.000012"
    assert format_time(1_704_067_205_000_001, second=SECOND) == "2024-01-01 00:00:05.000001"
    for text, time in (
        ("t = t.plus(1 min 2 usec)", 60 * SECOND + 2),
        ("t = t.plus(1 month)", 31 * 86_400 * SECOND),
        ('t = "1970-01-01 00:00:01.000003"', SECOND + 3),
        ("t = 7", 7),
    ):
        assert parse_clock(text, 0, 0, SECOND) == (time, len(text))
