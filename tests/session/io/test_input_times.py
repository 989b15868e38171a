"""One place decides what a time is: forms of times × ways into the workbench."""

from __future__ import annotations

import asyncio
import io
import json
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest

from cepbook import Config
from cepbook.cli import main
from cepbook.errors import CepbookError, EventError, UsageError
from cepbook.session import Workbench
from cepbook.session.io import chunked_files
from cepbook.session.io.time_conversion import CutTimesWarning

BERLIN = "Europe/Berlin"
MOMENTS = [datetime(2024, 3, 1, 9, tzinfo=UTC), datetime(2024, 3, 1, 9, 5, tzinfo=UTC)]
LOCAL = [moment.astimezone(ZoneInfo(BERLIN)).replace(tzinfo=None) for moment in MOMENTS]
MS = [int(moment.timestamp() * 1000) for moment in MOMENTS]

Way = Callable[[list[Any], Config], list[int]]
SELECT = "@name('out') select ts, v from E#keepall"


def result(cep: Workbench) -> list[int]:
    frame = cep.to_frame("out", times="us" if cep.runtime.config.microseconds else "ms")
    assert str(cep.runtime.catalog.event_types["E"].properties["ts"]) == "long"
    assert cep.changes("out")["time"].tolist() == cep.changes("out")["ts"].tolist()  # the clock follows
    return [int(ts) for ts in frame["ts"]]


def bench(config: Config, define: object) -> Workbench:
    cep = Workbench(config=config)
    cep.define("E", define, time="ts")
    cep.run(SELECT)
    return cep


def frame_of(values: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"ts": values, "v": range(len(values))})


def replayed_frame(values: list[Any], config: Config) -> list[int]:
    cep = bench(config, frame_of(values))
    cep.replay(frame_of(values), "E").run()
    return result(cep)


def replayed_frame_of_declared_type(values: list[Any], config: Config) -> list[int]:
    cep = Workbench(config=config)
    cep.run(f"create schema E(ts long, v int); {SELECT}")
    cep.replay(frame_of(values), "E", time="ts").run()
    return [int(ts) for ts in cep.to_frame("out")["ts"]]


def replayed_category(values: list[Any], config: Config) -> list[int]:
    cep = bench(config, frame_of(values))
    cep.replay(frame_of(values).astype({"ts": "category"}), "E").run()
    return result(cep)


def replayed_dicts(values: list[Any], config: Config) -> list[int]:
    cep = bench(config, frame_of(values))
    cep.replay([{"ts": value, "v": n} for n, value in enumerate(values)], "E").run()
    return result(cep)


def replayed_file(values: list[Any], config: Config, kind: str) -> list[int]:
    path = Path(f"events.{kind}")
    if kind == "parquet":
        frame_of(values).to_parquet(path)
    elif kind == "csv":
        frame_of(values).to_csv(path, index=False)
    else:
        texts = [value if isinstance(value, int) else str(value) for value in values]
        path.write_text("".join(json.dumps({"ts": text, "v": n}) + "\n" for n, text in enumerate(texts)))
    cep = bench(config, frame_of(values))
    cep.replay(path, "E").run()
    return result(cep)


def live(values: list[Any], config: Config) -> list[int]:
    cep = bench(config, frame_of(values))

    async def source() -> AsyncIterator[dict[str, Any]]:
        for n, value in enumerate(values):
            yield {"ts": value, "v": n}

    async def run() -> None:
        running = cep.live({"E": source()}, time="ts")
        await running
        if running.rejected:
            raise EventError(str(running.rejected[0][1]))

    asyncio.run(run())
    return result(cep)


def sent(values: list[Any], config: Config) -> list[int]:
    cep = bench(config, frame_of(values))
    for n, value in enumerate(values):
        cep.send("E", ts=value, v=n)
    return [int(ts) for ts in cep.to_frame("out", times="us" if config.microseconds else "ms")["ts"]]


WAYS: dict[str, Way] = {
    "frame": replayed_frame,
    "declared": replayed_frame_of_declared_type,
    "category": replayed_category,
    "dicts": replayed_dicts,
    "parquet": lambda values, config: replayed_file(values, config, "parquet"),
    "csv": lambda values, config: replayed_file(values, config, "csv"),
    "jsonl": lambda values, config: replayed_file(values, config, "jsonl"),
    "live": live,
    "send": sent,
}
FORMS: dict[str, list[Any]] = {
    "numbers": MS,
    "aware": MOMENTS,
    "naive": LOCAL,
    "pandas": list(map(pd.Timestamp, LOCAL)),
    "text with a zone": [moment.isoformat() for moment in MOMENTS],
    "text without": [moment.isoformat(sep=" ") for moment in LOCAL],
    "text of both kinds": [MOMENTS[0].isoformat(), LOCAL[1].isoformat()],
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
def test_every_form_is_the_same_moment_on_every_way(way: str, form: str) -> None:
    assert WAYS[way](FORMS[form], Config(time_zone=BERLIN)) == MS


@pytest.mark.parametrize("way", WAYS)
def test_without_a_zone_dates_are_utc(way: str) -> None:
    naive = [moment.replace(tzinfo=None) for moment in MOMENTS]
    for values in (naive, [moment.isoformat() for moment in naive]):
        assert WAYS[way](values, Config()) == MS


def test_days_are_days_of_the_zone() -> None:
    midnight = int(datetime(2024, 3, 1, tzinfo=ZoneInfo(BERLIN)).timestamp() * 1000)
    config = Config(time_zone=BERLIN)
    for way in ("frame", "dicts", "live", "send"):
        assert WAYS[way]([date(2024, 3, 1)], config) == [midnight]
    cep = Workbench(config=config, start="2024-03-01")
    assert cep.clock.units == midnight and cep.advance(date(2024, 3, 2)).units == midnight + 86_400_000


def test_times_that_clocks_skip_or_show_twice() -> None:
    """The first of two, and 02:30 is 03:30 where clocks go from 02:00 to 03:00, as single values and as columns."""
    local = [datetime(2024, 3, 31, 2, 30), datetime(2024, 10, 27, 2, 30), datetime(2024, 10, 27, 3, 30)]
    right = [datetime(2024, 3, 31, 1, 30, tzinfo=UTC), datetime(2024, 10, 27, 0, 30, tzinfo=UTC)]
    right.append(datetime(2024, 10, 27, 2, 30, tzinfo=UTC))
    for way in ("frame", "dicts", "send", "parquet", "csv", "live"):
        for values in (local, [value.isoformat() for value in local]):
            assert WAYS[way](values, Config(time_zone=BERLIN)) == [int(at.timestamp() * 1000) for at in right], way


@contextmanager
def raises_with(*words: str) -> Iterator[None]:
    with pytest.raises(CepbookError) as error:
        yield
    text = str(error.value)
    assert all(word in text for word in words), text


@pytest.mark.parametrize("way", [way for way in WAYS if way != "send"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("micro", [False, True])
def test_numbers_in_another_unit_are_noticed(way: str, unit: str, micro: bool) -> None:
    """By definition or replay, with the line that converts them."""
    factor = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[unit]
    values = [ms // 1000 * factor for ms in MS]
    config = Config(microseconds=micro)
    if unit == ("us" if micro else "ms"):
        assert WAYS[way](values, config) == values
        return
    with raises_with("can only be a time in", "2024-03-01 09:00:00", f'pd.to_datetime(frame["ts"], unit="{unit}")'):
        WAYS[way](values, config)


def test_what_a_hint_says_works() -> None:
    frame = frame_of([ms // 1000 for ms in MS])
    with raises_with('frame["ts"] = pd.to_datetime(frame["ts"], unit="s")'):
        Workbench().define("E", frame, time="ts")
    frame["ts"] = pd.to_datetime(frame["ts"], unit="s")
    cep = bench(Config(), frame)
    cep.replay(frame, "E").run()
    assert result(cep) == MS
    small = frame_of([ms // 1000 for ms in MS])
    small["ts"] = pd.to_datetime(small["ts"], unit="ms")  # numbers that are ms after all
    cep = bench(Config(), small)
    cep.replay(small, "E").run()
    assert result(cep) == [ms // 1000 for ms in MS]


def test_a_clock_that_counts_in_small_numbers_goes_on() -> None:
    cep = bench(Config(), {"ts": int, "v": int})
    cep.replay(frame_of([0, 86_400_000]), "E").run()
    later = frame_of([700_000_000, 800_000_000])
    for source in (later, later.to_dict("records")):
        cep.rewind()
        cep.replay(frame_of([0, 86_400_000]), "E").run()
        cep.replay(source, "E").run()
        assert len(cep.to_frame("out")) == 4


@pytest.mark.parametrize("values", [[1709283600.25], [1709283600.0]])
def test_seconds_with_a_fraction(values: list[float]) -> None:
    with raises_with('unit="s"'):
        Workbench().define("E", frame_of(values), time="ts")
    cep = Workbench()
    cep.run(f"create schema E(ts long, v int); {SELECT}")
    with raises_with('unit="s"'):
        cep.replay(frame_of(values), "E", time="ts")


@pytest.mark.parametrize("way", [way for way in WAYS if way != "send"])
@pytest.mark.parametrize("when", [datetime(1969, 7, 20), datetime(1900, 1, 1), "1969-07-20"])
def test_before_1970_the_message_names_start(way: str, when: object) -> None:
    if way == "live":
        return  # such items are late
    text = str(when)[:10]
    with raises_with(f'Workbench(start="{text}")', "--start"):
        WAYS[way]([when], Config())
    cep = Workbench(start=text)
    cep.define("E", frame_of([when]), time="ts")
    cep.run(SELECT)
    cep.replay(frame_of([when]), "E").run()
    assert cep.to_frame("out")["ts"].tolist() == [pd.Timestamp(text)]


FINE = datetime(2024, 3, 1, 9, 0, 0, 123_456)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", [False, True])
def test_what_is_finer_than_the_clock_is_told(way: str, text: bool) -> None:
    values = [FINE.isoformat() if text else FINE]
    with pytest.warns(CutTimesWarning, match=r"cut to whole milliseconds(.|\n)*Config\(microseconds=True\)"):
        assert WAYS[way](values, Config()) == [MS[0] + 123]
    if way != "declared":
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert WAYS[way](values, Config(microseconds=True)) == [MS[0] * 1000 + 123_456]


@pytest.mark.parametrize("values", [["soon"], ["01.03.2024 09:00"], ["2024-03-01", "later"]])
def test_a_text_that_is_no_date(values: list[str]) -> None:
    for way in ("frame", "declared", "csv"):
        with raises_with("is not an ISO 8601 date and time", "pd.to_datetime"):
            WAYS[way](values, Config())
    for kind in ("dicts", "live", "send"):
        with raises_with("ISO 8601"):
            WAYS[kind]([MOMENTS[0].isoformat(), *values], Config())


@pytest.mark.parametrize("name", [None, "at", "ts"])
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_an_index_of_dates_is_taken(name: str | None, zone: str | None) -> None:
    index = pd.DatetimeIndex(LOCAL, name=name)
    index = index if zone is None else index.tz_localize(BERLIN).tz_convert(zone)
    frame = pd.DataFrame({"v": [1, 2]}, index=index)
    called = name or "time"
    cep = Workbench(config=Config(time_zone=BERLIN))
    defined = cep.define("E", frame)
    assert list(defined.properties) == [called, "v"] and defined.time_property == called
    cep.run("@name('out') select * from E#keepall")
    cep.replay(frame, "E").run()
    assert cep.to_frame("out", times="ms")[called].tolist() == MS
    declared = Workbench(config=Config(time_zone=BERLIN))
    declared.run("create schema E(at long, v int) starttimestamp at; @name('out') select * from E#keepall")
    if name in (None, "at"):
        declared.replay(frame, "E").run()
        assert declared.to_frame("out", times="ms")["at"].tolist() == MS
    untimed = Workbench(config=Config(time_zone=BERLIN))
    untimed.run("create schema E(v int); @name('out') select v, current_timestamp as now from E#keepall")
    untimed.replay(frame, "E").run()
    assert untimed.changes("out", times="ms")["time"].tolist() == MS


@pytest.mark.parametrize("name", [None, "at"])
@pytest.mark.parametrize("zone", [None, "America/New_York"])
@pytest.mark.parametrize("large", [False, True])
def test_an_index_of_dates_in_an_arrow_table_or_parquet_file_is_taken(
    name: str | None, zone: str | None, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = pd.DatetimeIndex(MOMENTS).tz_convert(zone)
    frame = pd.DataFrame({"v": [1, 2]}, index=index.rename(name))
    frame.to_parquet("e.parquet")
    monkeypatch.setattr(chunked_files, "LARGE", 1 if large else 10)
    for source in (pa.Table.from_pandas(frame), "e.parquet", Path("e.parquet")):
        for replayed in (source, frame):
            cep = Workbench()
            assert cep.define("E", source).time_property == (name or "time")
            cep.run(f"@name('out') select {name or 'time'} as ts, v from E#keepall")
            cep.replay(replayed, "E").run()
            assert cep.to_frame("out", times="ms")["ts"].tolist() == MS


def test_an_index_is_left_alone_where_a_column_is_the_time() -> None:
    frame = pd.DataFrame({"ts": LOCAL, "v": 1}, index=pd.DatetimeIndex(LOCAL, name="other"))
    assert list(Workbench().define("E", frame, time="ts").properties) == ["ts", "v"]
    plain = pd.DataFrame({"ts": LOCAL, "v": 1}, index=["a", "b"])
    assert list(Workbench().define("E", plain, time="ts").properties) == ["ts", "v"]
    with pytest.raises(UsageError, match="no property `at`"):
        Workbench().define("E", plain, time="at")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_command_line(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    frame = frame_of([moment.isoformat() for moment in MOMENTS])
    if kind == "parquet":
        frame.to_parquet("e.parquet")
    elif kind == "csv":
        frame.to_csv("e.csv", index=False)
    else:
        frame.to_json("e.jsonl", orient="records", lines=True)
    Path("m.epl").write_text("@name('out') select ts, ts - 1000 as before from E#time(2 min)")
    words = ["run", "m.epl", "--in", f"E=e.{kind}", "--time", "ts", "--out", "out=-", "--quiet"]
    assert main(words) == 0
    rows = [json.loads(line) for line in io.StringIO(capsys.readouterr().out)]
    assert [row["ts"] for row in rows] == [row["time"] for row in rows]
    assert [datetime.fromisoformat(row["ts"]) for row in rows] == MOMENTS
    assert [row["before"] for row in rows] == [ms - 1000 for ms in MS]


@pytest.mark.parametrize("words", [[], ["--microseconds"]])
def test_the_zone_of_the_command_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Naive times of a file, `--start` and `--until` are local times of `--time-zone`."""
    frame_of([*LOCAL, LOCAL[1].replace(hour=23)]).to_csv("e.csv", index=False)
    Path("m.epl").write_text("@name('out') select ts from E")
    plain = ["run", "m.epl", "--in", "E=e.csv", "--time", "ts", "--out", "out=-", "--quiet", *words]
    run = [*plain, "--time-zone", BERLIN]
    assert main([*run, "--start", "2024-03-01 10:00", "--until", "2024-03-01 10:05"]) == 0
    rows = [json.loads(line) for line in io.StringIO(capsys.readouterr().out)]
    assert [datetime.fromisoformat(row["ts"]) for row in rows] == MOMENTS
    assert all(row["ts"].endswith("+01:00") for row in rows)
    assert main([*run, "--times", "us" if words else "ms"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["ts"] == first["time"] == MS[0] * (1000 if words else 1)
    assert main([*plain, "--time-zone", "Berlin/Europe"]) != 0
    assert "Berlin/Europe" in capsys.readouterr().err


def test_dates_that_are_no_event_time_come_back_as_dates() -> None:
    frame = frame_of(LOCAL).assign(due=[LOCAL[1], None])
    cep = Workbench(config=Config(time_zone=BERLIN))
    cep.define("E", frame, time="ts")
    cep.run("@name('out') select due from E#keepall")
    cep.replay(frame, "E").run()
    cep.send("E", ts=LOCAL[1], due=LOCAL[1].isoformat())
    dates = cep.to_frame("out")["due"]
    assert dates.tolist()[0] == pd.Timestamp(MOMENTS[1]) and dates.isna().tolist() == [False, True, False]
    assert dates.tolist()[2] == dates.tolist()[0]
