"""Times that leave the workbench: every exit has dates, in the clock's unit and zone, or numbers on request."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook import Config
from cepbook.errors import UsageError
from cepbook.session import Workbench
from cepbook.spark.comparison.comparison_report import compare

ROWS = pd.DataFrame(
    {
        "ts": pd.to_datetime(
            ["2024-03-01 09:00", "2024-03-01 09:05", "2024-03-01 09:07:00.250"], format="ISO8601"
        ).as_unit("us"),
        "due": pd.to_datetime(["2024-03-01 10:00", None, "2024-03-01 11:00"]),
        "key": ["a", "b", "a"],
        "size": [1, 2, 3],
    }
)
MODULE = """
create context PerKey partition by key from E;
create context Spell start E end after 1 day;
create window Kept#keepall as E;
create table Latest(key string primary key, at timestamp);
@name('fill') insert into Kept select * from E;
@name('copy') insert into Copies(moment, key) select due, key from E;
@name('out') select ts, due, key, current_timestamp as now, due - ts as wait, ts + 0 as sum from E#keepall;
@name('derived') select moment from Copies#keepall;
@name('picked') select key, min(ts) as first, max(due) as last, prev(1, ts) as before, coalesce(due, ts) as either,
    case when size > 1 then ts else due end as chosen from E#keepall group by key;
@name('typed') select cast(ts, long).toDate() as moment, key from E#keepall;
@name('pair') select a.ts as a, b.due as b from pattern[every a=E -> b=E where timer:within(1 hour)];
@name('keyed') context PerKey select max(ts) as latest from E#keepall;
@name('spell') context Spell select count(*) as n from E;
"""
DATED = {
    "out": {"ts", "due", "now"},
    "derived": {"moment"},
    "picked": {"first", "last", "before", "either", "chosen"},
    "typed": {"moment"},
    "pair": {"a", "b"},
    "keyed": {"latest"},
    "fill": {"ts", "due"},
    "Kept": {"ts", "due"},
}
CONFIGS = {
    "datetime64[ms]": Config(),
    "datetime64[ms, Europe/Berlin]": Config(time_zone="Europe/Berlin"),
    "datetime64[us]": Config(microseconds=True),
}


def bench(config: Config | None = None) -> Workbench:
    cep = Workbench(config=config)
    cep.define("E", ROWS, time="ts")
    cep.run(MODULE)
    cep.replay(ROWS, "E").run()
    return cep


def dated(frame: pd.DataFrame, dtype: str) -> set[str]:
    """The columns of a frame that are dates of this dtype; no other columns are dates."""
    columns = {str(name) for name, of in frame.dtypes.items() if of.kind == "M"}
    assert {str(frame[name].dtype) for name in columns} <= {dtype, dtype.replace("us", "ms")}
    return columns


@pytest.mark.parametrize("dtype", CONFIGS)
@pytest.mark.filterwarnings("ignore:.*keeps no rows")
def test_every_frame_has_dates_for_every_time(dtype: str) -> None:
    cep = bench(CONFIGS[dtype])
    for name, columns in DATED.items():
        assert dated(cep.changes(name), dtype) == {"time", *columns}, name
        assert dated(cep.to_frame(name), dtype) == columns, name
    assert dated(cep.query("select ts, due as d, size from Kept"), dtype) == {"ts", "d"}
    assert dated(cep.query("select now, wait from out where key = 'a'"), dtype) == {"now"}
    assert dated(cep.answer("select due from E"), dtype) == {"time", "due"}
    assert dated(cep.partitions("Spell"), dtype) == {"startTime", "endTime"}
    assert dated(cep.partials("pair"), dtype) == {"since", "until"}
    assert dated(cep.timeline("PerKey").to_frame(), dtype) == {"born", "died"}
    assert dated(cep.marble("out").to_frame(), dtype) == {"arrived", "entered", "left"}


@pytest.mark.parametrize("dtype", CONFIGS)
def test_dates_are_the_moments_that_came_in(dtype: str) -> None:
    cep = bench(CONFIGS[dtype])
    frame = cep.changes("out")
    for column, came in (("ts", ROWS["ts"]), ("time", ROWS["ts"]), ("due", ROWS["due"])):
        utc = frame[column] if frame[column].dt.tz is None else frame[column].dt.tz_convert(None)
        local = came if CONFIGS[dtype].time_zone == "UTC" else came.dt.tz_localize("Europe/Berlin").dt.tz_convert(None)
        assert utc.astype("datetime64[ns]").tolist() == local.astype("datetime64[ns]").tolist(), column


@pytest.mark.parametrize("dtype", CONFIGS)
def test_numbers_on_request(dtype: str) -> None:
    cep, unit = bench(CONFIGS[dtype]), "us" if "us" in dtype else "ms"
    frames = [cep.changes("out", times=unit), cep.to_frame("picked", times=unit), cep.partitions("Spell", times=unit)]
    frames.append(cep.partials("pair", times=unit))
    assert not any(of.kind == "M" for frame in frames for of in frame.dtypes)
    assert frames[0]["time"].tolist() == frames[0]["ts"].tolist()
    other = "ms" if unit == "us" else "us"
    for method, name in (
        (cep.changes, "out"),
        (cep.to_frame, "out"),
        (cep.partials, "pair"),
        (cep.partitions, "Spell"),
    ):
        for wrong in (other, "ns", ""):
            with pytest.raises(UsageError, match=f'`times` is "datetime" or "{unit}"'):
                method(name, times=wrong)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "sqlite"])
@pytest.mark.parametrize("way", ["sink", "export", "export changes"])
def test_files_have_the_dates_of_the_frames(config: Config, kind: str, way: str, tmp_path: Path) -> None:
    cep = Workbench(config=config)
    cep.define("E", ROWS, time="ts")
    cep.run("@name('out') select ts, due, key from E#keepall")
    path = tmp_path / f"out.{kind}"
    sink = cep.sink("out", path) if way == "sink" else None
    cep.replay(ROWS, "E").run()
    if sink is not None:
        sink.close()
    else:
        assert cep.export("out", path, changes=way == "export changes") == 3
    came = read(path).apply(
        lambda column: pd.to_datetime(column, utc=True).dt.tz_convert(None).astype("datetime64[us]")
    )
    frame = cep.to_frame("out") if way == "export" else cep.changes("out")
    for name in came.columns:
        expected = frame[name].dt.tz_convert(None) if frame[name].dt.tz is not None else frame[name]
        assert came[name].tolist() == expected.astype("datetime64[us]").tolist(), name
    if kind == "parquet":
        assert pd.read_parquet(path)["ts"].dtype == frame["ts"].dtype


def read(path: Path) -> pd.DataFrame:
    columns = ["time", "ts", "due"]
    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
    elif path.suffix == ".sqlite":
        with sqlite3.connect(path) as base:
            frame = pd.read_sql("select * from out", base)
    elif path.suffix == ".csv":
        frame = pd.read_csv(path)
    else:
        frame = pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
    return frame[[name for name in columns if name in frame.columns]]


def test_times_beyond_the_years_of_datetime_are_not_lost(tmp_path: Path) -> None:
    cep = Workbench()
    cep.define("E", {"ts": datetime, "n": int}, time="ts")
    cep.run("@name('out') select ts, n from E#keepall")
    for number, at in enumerate((-1, 0, 253_402_300_800_000, 2**53, -(2**53))):
        cep.send("E", ts=at, n=number)
    frame = cep.to_frame("out")
    assert str(frame["ts"].dtype) == "datetime64[ms]"
    assert frame["ts"].astype("int64").tolist() == [-1, 0, 253_402_300_800_000, 2**53, -(2**53)]
    for kind in ("csv", "jsonl", "parquet"):
        assert cep.export("out", tmp_path / f"out.{kind}") == 5
    assert (tmp_path / "out.csv").read_text().splitlines()[3:] == [
        "253402300800000,2",
        "9007199254740992,3",
        "-9007199254740992,4",
    ]


def test_values_of_the_types_of_dates() -> None:
    cep = Workbench(config=Config(time_zone="Europe/Berlin"))
    cep.run("create schema E(t timestamp, l localdatetime, h localtime); @name('out') select * from E#keepall")
    moments = [datetime(2024, 3, 1, 9, tzinfo=UTC), datetime(2024, 3, 1, 9, 0, 0, 1, tzinfo=UTC), None]
    for moment in moments:
        cep.send("E", t=moment, l=None if moment is None else moment.replace(tzinfo=None), h=time(9))
        frame = cep.changes("out")
        fine = "us" if len(frame) > 1 else "ms"  # nothing is cut
        assert str(frame["t"].dtype) == f"datetime64[{fine}, Europe/Berlin]"
        assert str(frame["l"].dtype) == f"datetime64[{fine}]"
    assert frame["t"].tolist()[:2] == moments[:2] and frame["h"].tolist() == [time(9)] * 3
    assert cep.changes("out", as_="arrow").column("t").to_pylist()[:2] == moments[:2]


def test_a_statement_that_only_computes_has_numbers() -> None:
    assert {str(bench().changes("out")[name].dtype) for name in ("wait", "sum")} == {"Int64"}


def test_frames_are_compared_with_numbers_and_dates() -> None:
    cep = bench()
    numbers: dict[str, Any] = {"out": cep.changes("out", times="ms")}
    dates: dict[str, Any] = {"out": cep.changes("out")}
    for here, there in ((numbers, dates), (dates, numbers), (cep, dates), (cep, numbers), (dates, dates)):
        assert compare(here, there, statements=["out"]).verdict == "equal"
    moved = {"out": dates["out"].assign(due=dates["out"]["due"] + pd.Timedelta("1h"))}
    assert compare(numbers, moved).verdict == "different"


def test_what_is_saved_still_knows_its_times(tmp_path: Path) -> None:
    cep = bench()
    cep.save(tmp_path / "cep.bin", feeds=True)
    other = Workbench()
    other.load(tmp_path / "cep.bin")
    pd.testing.assert_frame_equal(other.changes("out"), cep.changes("out"))
    pd.testing.assert_frame_equal(other.to_frame("picked"), cep.to_frame("picked"))
