"""Values whose own methods raise, and values nested very deep: at every entry they become plain values or an error
of cepbook, and whatever shows, explains, saves or writes them works afterwards.

`CEPBOOK_VALUES=all` takes every method of every class at every entry; otherwise a sample. `CEPBOOK_SHARD=3/100` takes
each hundredth of them.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import make_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.engine.expressions.plain_values import MAX_DEPTH
from cepbook.errors import CepbookError
from cepbook.widgets import view
from tests.random_cases import SHARD

ALL = os.environ.get("CEPBOOK_VALUES") == "all"
SAMPLE = 4
METHODS = (
    "__hash__ __eq__ __ne__ __lt__ __gt__ __le__ __ge__ __str__ __repr__ __format__ __bool__ __len__ __iter__ __int__ "
    "__float__ __index__ __add__ __contains__ __getitem__ __reduce__ __reduce_ex__ __getattribute__ __class__ items"
).split()
MODULE = """create schema Piece(name string, of object);
create schema E(s string, i int, l long, d double, b bigdecimal, o object, m map, t timestamp, a string[], n Piece);
create variable string vs; create variable long vl; create variable double vd; create variable object vo;
create table T(s string primary key, total sum(double));
into table T select sum(d) as total from E group by s;
create window Rows#keepall as (s string, i int, o object);
insert into Rows select s, i, o from E;
@name('all') select * from E#length(5);
@name('groups') select s, i, o, count(*) as n, max(d) as top, last(t) as t from E#length(3) group by s, i, o;
@name('sorted') select s, i from E#sort(3, s, i desc);
@name('unique') select s, d from E#unique(s, d);
@name('vars') select s || vs as text, i + vl as total, vd * 2 as twice, vo as vo from E;
@name('pattern') select x.s as s from pattern [every x=E -> y=E(s = x.s and o = x.o)];
create context Keys partition by s, i, o from E;
@name('parts') context Keys select s, sum(l) as total from E"""


class Refusal(Exception):
    """What the methods of hostile values raise."""


def hostile(value: Any, *names: str) -> Any:
    """An equal value of a subclass in which methods raise. Hashing works while dicts are being made of it."""

    def refuse(self: Any, *args: Any, **options: Any) -> Any:
        raise Refusal(f"of {type(value).__name__}")

    kind: Any = type(value)
    members = {name: property(refuse) if name == "__class__" else refuse for name in names}
    cls: Any = type(f"Bad{kind.__name__}", (kind,), members)
    if kind is datetime:
        return cls(value.year, value.month, value.day, value.hour, tzinfo=value.tzinfo)
    if kind is date:
        return cls(value.year, value.month, value.day)
    if kind is time:
        return cls(value.hour, value.minute)
    return cls(days=value.days) if kind is timedelta else cls(value)


VALUES = (
    "abc", 7, 2.5, Decimal("1.5"), b"x", datetime(2024, 1, 2, 3), date(2024, 1, 2), time(1, 2), timedelta(days=1),
    ["x", "y"], ("x", "y"), {"name": "x"},
)  # fmt: skip
DEEP_ARRAY: list[Any] = ["x"]
DEEP_DICT: dict[str, Any] = {"name": "x"}
for _ in range(900):
    DEEP_ARRAY, DEEP_DICT = [DEEP_ARRAY], {"name": "x", "of": DEEP_DICT}
CYCLE: list[Any] = []
CYCLE.append(CYCLE)
PROPERTIES = {  # by class, those that the value fits
    str: "sodt", int: "ildbo", float: "dbo", Decimal: "bo", datetime: "tlo", date: "tlo", list: "ao", tuple: "ao",
    dict: "mno",
}  # fmt: skip


Entry = Callable[[Workbench, str, Any], object]


def workbench() -> Workbench:
    cep = Workbench()
    cep.run(MODULE)
    cep.send("E", s="abc", i=7, l=7, d=2.5, o="abc")
    return cep


def event(name: str, value: Any) -> dict[str, Any]:
    return {"s": "abc", "i": 7, "l": 7, "d": 2.5, "o": "abc", name: value}


def live(column: str) -> Entry:
    async def run(cep: Workbench, item: dict[str, Any]) -> None:
        running = cep.live({"E": [item, {"s": "good", "ts": 4_000_000_000_000}]}, time="ts")
        await running
        assert "good" in [row["s"] for row in cep.runtime.iterate("all")]  # a bad item costs no good one

    def act(cep: Workbench, name: str, value: Any) -> None:
        asyncio.run(run(cep, {**event(name, value), "ts": 1000, **({column: value} if column else {})}))

    return act


def send(cep: Workbench, name: str, value: Any) -> None:
    cep.send("E", **event(name, value))


def send_dict(cep: Workbench, name: str, value: Any) -> None:
    cep.send("E", event(name, value))


def send_nested(cep: Workbench, name: str, value: Any) -> None:
    cep.send("E", o=[value, {"x": (value,)}], n={"of": value})


def send_object(cep: Workbench, name: str, value: Any) -> None:
    properties = event(name, value)
    cep.send("E", make_dataclass("D", properties)(**properties))


def send_together(cep: Workbench, name: str, value: Any) -> None:
    cep.send_together(("E", event(name, value)), ("E", event(name, value)))


def replay_dicts(cep: Workbench, name: str, value: Any) -> None:
    cep.replay([{**event(name, value), "ts": 1000}] * 2, type="E", time="ts").run()


def replay_by_time(cep: Workbench, name: str, value: Any) -> None:
    cep.replay([{"s": "x", "ts": value}], type="E", time="ts").run()


def replay_frame(count: int, column: str = "") -> Entry:
    return lambda cep, name, value: cep.replay(frame(column or name, value, count), type="E", time="ts").run()


def variable(cep: Workbench, name: str, value: Any) -> None:
    cep.set({"s": "vs", "i": "vl", "d": "vd"}.get(name, "vo"), value)


def parameter(cep: Workbench, name: str, value: Any) -> None:
    cep.run(f"@name('p') select * from E({name} = :p)", parameters={"p": value})


def query(cep: Workbench, name: str, value: Any) -> None:
    cep.query("select s, :p as p from Rows where o = :p", parameters={"p": value})


def rows(cep: Workbench, name: str, value: Any) -> None:
    cep.replace_rows("Rows", [{"s": "x", "i": 1, "o": value}])


def define(cep: Workbench, name: str, value: Any) -> None:
    cep.define("F", frame(name, value))


def advance(cep: Workbench, name: str, value: Any) -> None:
    cep.advance(value)


def functions(cep: Workbench, name: str, value: Any) -> None:
    cep.register_function("result", lambda: value)
    cep.register_function("listed", lambda: [{"x": value}], returns="map[]")
    cep.run("""@name('results') select result() as r, count(*) as n from E#keepall group by result();
    @name('lists') select listed() as t, count(*) as n from E#keepall group by listed()""")
    cep.send("E", s="x")


ENTRIES: dict[str, Entry] = {
    "send": send, "send a dict": send_dict, "send nested": send_nested, "send an object": send_object,
    "send together": send_together, "replay": replay_dicts, "replay by time": replay_by_time, "frame": replay_frame(2),
    "frame by time": replay_frame(2, "ts"), "frame in batches": replay_frame(9000), "live": live(""),
    "live by time": live("ts"), "variable": variable, "parameter": parameter, "query": query, "rows": rows,
    "define": define, "advance": advance, "functions": functions,
}  # fmt: skip


def frame(name: str, value: Any, count: int = 2) -> pd.DataFrame:
    values = {**dict.fromkeys("sildbomtan"), **event("s", "abc"), "ts": list(range(1000, 1000 + count))}
    return pd.DataFrame({**values, name: pd.Series([value] * count, dtype=object)})


def consumers(cep: Workbench, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    saved = folder / "saved.cep"
    for name in cep.runtime.statements:
        yield f"iterate {name}", lambda name=name: cep.runtime.iterate(name)
        yield f"changes {name}", lambda name=name: cep.changes(name)
        yield f"state {name}", lambda name=name: cep.runtime.state(name)
        yield f"view {name}", lambda name=name: view(cep, name)
        yield f"why {name}", lambda name=name: cep.why(name)
        yield f"shown {name}", lambda name=name: repr(cep.changes(name))
        for form in ("csv", "jsonl", "parquet"):
            path = folder / f"{name}.{form}"
            yield f"export {form} {name}", lambda name=name, path=path: cep.export(name, path, changes=True)
    yield "query", lambda: cep.query("select * from Rows")
    yield "save", lambda: cep.save(saved)
    yield "load", lambda: cep._restored(saved.read_bytes())


def outcome(act: Callable[[], object]) -> str:
    """`fine`, `error` for an error of cepbook; anything else is raised."""
    try:
        act()
    except CepbookError as error:
        assert "Traceback" not in str(error)
        return "error"
    return "fine"


def check(entry: str, name: str, value: Any, counts: dict[str, int], folder: Path | None) -> None:
    cep = workbench()
    result = outcome(lambda: ENTRIES[entry](cep, name, value))
    counts[result] = counts.get(result, 0) + 1
    outcome(lambda: cep.send("E", s="abc", i=7, l=7, d=2.5, o="abc"))
    for _, act in consumers(cep, folder) if folder is not None else ():
        counts["consumed"] = counts.get("consumed", 0) + (outcome(act) == "fine")


@pytest.mark.histories
@pytest.mark.parametrize("entry", ENTRIES)
def test_methods_that_raise(entry: str, tmp_path: Path) -> None:
    draw, counts = random.Random(entry), dict[str, int]()
    methods = [*((method,) for method in METHODS), tuple(METHODS)]
    cases = [
        (value, names, name) for value in VALUES for names in methods for name in PROPERTIES.get(type(value), "so")
    ]
    for value, names, name in cases[SHARD] if ALL else draw.sample(cases, SAMPLE):
        check(entry, name, hostile(value, *names), counts, tmp_path if draw.random() < 0.1 else None)
    print(entry, counts)
    assert counts.get("fine", 0) > 0


DEEP = {"array": DEEP_ARRAY, "dict": DEEP_DICT, "cycle": CYCLE}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("name", DEEP)
def test_values_nested_900_deep_are_refused(entry: str, name: str) -> None:
    for property_name in ("o", "n") if name == "dict" else ("o",):
        cep = workbench()
        if entry.startswith("live"):
            ENTRIES[entry](cep, property_name, DEEP[name])
            assert len(cep.runtime.iterate("all")) == 2
            continue
        with pytest.raises(CepbookError) as refused:
            ENTRIES[entry](cep, property_name, DEEP[name])
        assert f"{MAX_DEPTH} levels deep" in str(refused.value) or "time" in entry or entry == "advance"


@pytest.mark.histories
def test_values_nested_as_deep_as_allowed_are_shown_explained_and_saved(tmp_path: Path) -> None:
    array, nested = "x", {"name": "x"}
    for _ in range(MAX_DEPTH - 1):
        array, nested = [array], {"name": "x", "of": nested}  # type: ignore[assignment]
    cep = workbench()
    cep.send("E", s="abc", i=7, o=array, m=nested, n=nested)
    for _, act in consumers(cep, tmp_path):
        outcome(act)
    for name in ("groups", "sorted", "all"):
        cep.why(name)
        view(cep, name).freeze()
