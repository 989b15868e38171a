"""Python functions, aggregates and windows get and return dates, times, spans and decimals as they are annotated."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from cepbook import Config, Workbench
from cepbook.errors import BindError, StatementError

SCHEMA = """
create schema E(l long, t timestamp, c calendar, z zoneddatetime, n localdatetime, d localdate, k localtime, s long,
    b bigdecimal, x double)
"""
ZONE = "Europe/Berlin"
LOCAL = dt.datetime(2024, 7, 1, 5, 30, 0, 250_000)
UTC = LOCAL.replace(tzinfo=ZoneInfo(ZONE)).astimezone(dt.UTC)
EVENT = {
    "l": UTC, "t": UTC, "c": UTC, "z": LOCAL.replace(tzinfo=ZoneInfo(ZONE)), "n": LOCAL, "d": LOCAL.date(),
    "k": LOCAL.time(), "s": dt.timedelta(minutes=90), "b": Decimal("1.50"), "x": 2.5,
}  # fmt: skip
MOMENTS = "ltczn"

# annotation: the columns of its values, and a text of the value that a function gets
KINDS: dict[Any, tuple[str, Callable[[Any], str]]] = {
    dt.datetime: (MOMENTS + "d", lambda v: f"{v:%Y-%m-%d}"),
    pd.Timestamp: (MOMENTS + "d", lambda v: f"{v.floor('D'):%Y-%m-%d}"),
    dt.date: (MOMENTS + "d", lambda v: v.isoformat()),
    dt.time: ("k", lambda v: v.isoformat()),
    dt.timedelta: ("s", lambda v: str(v.total_seconds())),
    pd.Timedelta: ("s", lambda v: str(v / pd.Timedelta("1s"))),
    Decimal: ("bx", lambda v: str(v + Decimal("0.00"))),
}
TEXTS = {"k": "05:30:00.250000", "s": "5400.0", "b": "1.50", "x": "2.50"}
FORMS = ("function", "optional", "any number", "aggregate", "class", "window", "clocked window")
WAYS = ("send", "replay", "saved", "frame of dates")
CONFIGS = {"ms": Config(time_zone=ZONE), "us": Config(time_zone=ZONE, microseconds=True)}


def register(cep: Workbench, name: str, form: str, kind: Any, column: str, got: list[type]) -> str:
    """Register the function `name`; return the EPL of a statement with the text of the value of `column` as `r`."""
    text = KINDS[kind][1]

    def seen(value: Any) -> str:
        got.append(type(value))
        return text(value)

    call = f"select {name}({column}) as r from E"
    if form == "function":

        def f(value: Any) -> str:
            return seen(value)

        f.__annotations__["value"] = kind
        cep.function(name=name)(f)
    elif form == "optional":

        def f(value: Any, more: int = 0) -> str:  # type: ignore[misc]
            return seen(value)

        f.__annotations__["value"] = kind | None
        cep.function(name=name)(f)
    elif form == "any number":

        def f(*values: Any) -> str:  # type: ignore[misc]
            return seen(values[-1])

        f.__annotations__["values"] = kind
        cep.function(name=name)(f)
        call = f"select {name}({column}, {column}) as r from E"
    elif form == "aggregate":

        def f(values: Any) -> str:  # type: ignore[misc]
            return seen(values[-1])

        f.__annotations__["values"] = list[kind]
        cep.aggregate(name=name)(f)
        call = f"select {name}({column}) as r from E#length(2)"
    elif form == "class":

        class Latest:
            def __init__(self) -> None:
                self.texts: list[str] = []

            def enter(self, value: Any) -> None:
                self.texts.append(seen(value))

            def leave(self, value: Any) -> None:
                self.texts.remove(seen(value))

            def value(self) -> str:
                return self.texts[-1]

        Latest.enter.__annotations__["value"] = kind
        cep.aggregate(name=name)(Latest)
        call = f"select {name}({column}) as r from E#length(1)"
    else:

        def f(values: Any) -> Any:  # type: ignore[misc]
            return [seen(value) == seen(values[-1]) for value in values]

        def clocked(values: Any, *, clock: Any) -> Any:
            return f(values)  # type: ignore[call-arg]

        window: Any = clocked if form == "clocked window" else f
        window.__annotations__["values"] = list[kind]
        cep.window(name=name)(window)
        call = f"select count(*) as r from E#{name}({column})"
    return f"@name('s_{name}') {call};"


def run(cep: Workbench, way: str, tmp_path: Path) -> None:
    if way == "send":
        cep.send("E", EVENT)
        cep.send("E", EVENT)
    elif way == "replay":
        cep.replay([{**EVENT, "at": UTC}] * 2, type="E", time="at").run()
    elif way == "saved":
        cep.send("E", EVENT)
        cep.save(tmp_path / "w.cep", feeds=True)
        cep.load(tmp_path / "w.cep")
        cep.send("E", EVENT)
    else:
        frame = pd.DataFrame([EVENT, EVENT])
        frame["l"] = pd.to_datetime(frame["l"])
        frame["s"] = pd.to_timedelta(frame["s"])
        cep.replay(frame, type="E", time="l").run()


SWEEP = [
    (form, kind, column) for form, (kind, (columns, _)) in itertools.product(FORMS, KINDS.items()) for column in columns
]


@pytest.mark.parametrize("unit", CONFIGS)
@pytest.mark.parametrize("way", WAYS)
def test_arguments_are_as_annotated(way: str, unit: str, tmp_path: Path) -> None:
    """7 forms × 7 annotations over 23 pairs of annotation and type, on 4 ways and 2 clocks: 1,288 statements."""
    assert len(SWEEP) * len(WAYS) * len(CONFIGS) == 1_288
    cep, got = Workbench(config=CONFIGS[unit]), [list[type]() for _ in SWEEP]
    cep.run(SCHEMA)
    cep.run("\n".join(register(cep, f"f{n}", *case, got[n]) for n, case in enumerate(SWEEP)))
    run(cep, way, tmp_path)
    for number, (form, kind, column) in enumerate(SWEEP):
        case = f"{form} of {kind.__name__} with {column}"
        assert {*got[number]} == {kind}, case
        expected = TEXTS.get(column, "2024-07-01") if "window" not in form else 2
        assert cep.changes(f"s_f{number}")["r"].tolist()[-1] == expected, case


RESULTS: list[tuple[Any, Any, Any]] = [  # annotation, result, value in EPL
    (dt.datetime, UTC, UTC),
    (dt.datetime, LOCAL, UTC),
    (dt.datetime | None, pd.NaT, None),
    (pd.Timestamp, pd.Timestamp(LOCAL), UTC),
    (pd.Timestamp, pd.Timestamp(UTC), UTC),
    (dt.datetime, pd.Timestamp(LOCAL).to_datetime64(), UTC),
    (dt.date, LOCAL.date(), dt.datetime(2024, 6, 30, 22, tzinfo=dt.UTC)),
    (dt.time, LOCAL.time(), LOCAL.time()),
    (dt.timedelta, dt.timedelta(seconds=2), 2),
    (pd.Timedelta, pd.Timedelta("2s"), 2),
    (dt.timedelta, pd.Timedelta("2s").to_timedelta64(), 2),
    (list[dt.datetime], [UTC, LOCAL, None], [UTC, UTC, None]),
    (Decimal, Decimal("1.50"), Decimal("1.50")),
    (Decimal, 2, Decimal("2")),
    ("timestamp", LOCAL, UTC),
    ("zoneddatetime", LOCAL.replace(tzinfo=ZoneInfo(ZONE)), UTC),
    ("calendar", UTC, UTC),
    ("localdatetime", LOCAL, LOCAL),
    ("localdate", LOCAL.date(), LOCAL.date()),
    ("localtime", LOCAL.time(), LOCAL.time()),
]


def plain(value: Any, second: int) -> Any:
    """Return the value in EPL of a moment: whole clock units."""
    if isinstance(value, list):
        return [plain(one, second) for one in value]
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return (value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1_000_000 // second)
    return value * second if type(value) is int and value == 2 else value


@pytest.mark.parametrize("unit", CONFIGS)
@pytest.mark.parametrize("form", ["function", "class"])
@pytest.mark.parametrize(("kind", "result", "expected"), RESULTS)
def test_results_are_as_annotated(kind: Any, result: Any, expected: Any, form: str, unit: str) -> None:
    """20 results × 2 forms × 2 clocks."""
    cep = Workbench(config=CONFIGS[unit])
    cep.run(SCHEMA)

    class Given:
        def enter(self, value: float) -> None: ...

        def value(self) -> Any:
            return result

    def constant(value: float) -> Any:
        return result

    if isinstance(kind, str):
        cep.register_function("f", constant, returns=kind)
    else:
        Given.value.__annotations__["return"] = constant.__annotations__["return"] = kind
        if form == "function":
            cep.function(name="f")(constant)
        else:
            cep.aggregate(name="f")(Given)
    cep.run("@name('s') select f(x) as r from E#keepall")
    cep.send("E", x=1.0)
    (row,) = cep.iterate("s")
    if isinstance(kind, str):
        assert plain(row["r"], 1000) == plain(expected, 1000)
    else:
        assert row["r"] == plain(expected, cep.runtime.config.second)
    frame = cep.changes("s")
    if kind in (dt.datetime, pd.Timestamp, dt.date):
        assert frame["r"].iloc[-1] == pd.Timestamp(expected), "a date again in frames"


def test_what_is_no_date_is_refused() -> None:
    cep = Workbench()
    cep.run(SCHEMA)

    @cep.function
    def f(value: dt.datetime) -> int:
        return value.hour

    @cep.function
    def g(value: int) -> dt.datetime:
        return "2024-01-01"  # type: ignore[return-value]

    with pytest.raises(BindError, match=r"must be a date \(long or timestamp, .*\), found localtime"):
        cep.run("select f(k) from E")
    with pytest.raises(BindError, match="found bigdecimal"):
        cep.run("select f(b) from E")
    cep.run("@name('s') select g(l) as r from E")
    with pytest.raises(StatementError, match="the function returned '2024-01-01', which is no long"):
        cep.send("E", l=1)


def test_nulls_and_moments_beyond_python_are_told() -> None:
    cep = Workbench()
    cep.run(SCHEMA)

    @cep.function
    def f(value: dt.datetime | None) -> str:
        return "null" if value is None else f"{value:%Y}"

    cep.run("@name('s') select f(l) as r from E")
    cep.send("E")
    assert cep.changes("s")["r"].tolist() == ["null"]
    with pytest.raises(StatementError, match="not in the years 1 to 9999"):
        cep.send("E", l=2**60)
