"""Dicts and lists of dicts, to any depth, become nested event types: sources × ways."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.errors import EventError, UsageError

AT = datetime(2024, 3, 1, 9, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {
        "ts": 1,
        "a": {"b": {"c": {"d": 1, "w": "x"}}},
        "items": [{"sku": "p", "n": 2, "tags": [{"k": "y"}, {"k": "z"}]}, {"sku": "q", "n": 3, "tags": []}],
    },
    {"ts": 2, "a": {"b": {"c": {"d": 2}, "more": 1.5}}, "items": []},
    {"ts": 3, "a": None, "items": None},
]
EPL = """
@name('path') select a.b.c.d as d, a.b.c.w as w, a.b.more as m, items[0].sku as sku, items[0].tags[1].k as k from E;
@name('items') select sku, n from E[items];
@name('tags') select k from E[items][tags];
@name('sum') select items.sumOf(i => i.n) as n from E;
"""
EXPECTED: dict[str, list[dict[str, Any]]] = {
    "path": [
        {"d": 1, "w": "x", "m": None, "sku": "p", "k": "z"},
        {"d": 2, "w": None, "m": 1.5, "sku": None, "k": None},
        {"d": None, "w": None, "m": None, "sku": None, "k": None},
    ],
    "items": [{"sku": "p", "n": 2}, {"sku": "q", "n": 3}],
    "tags": [{"k": "y"}, {"k": "z"}],
    "sum": [{"n": 5}, {"n": None}, {"n": None}],
}


def jsonl(folder: Path, name: str = "e.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def parquet(folder: Path) -> Path:
    pd.DataFrame(ROWS).to_parquet(folder / "e.parquet")
    return folder / "e.parquet"


def arrow(_: Path) -> Any:
    import pyarrow

    return pyarrow.Table.from_pylist(ROWS)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "list": lambda _: ROWS,
    "tuple": lambda _: tuple(ROWS),
    "frame": lambda _: pd.DataFrame(ROWS),
    "JSON lines": jsonl,
    "text of a path": lambda folder: str(jsonl(folder, "e.ndjson")),
    "Parquet": parquet,
    "Arrow": arrow,
}


def live(cep: Workbench, source: Any, folder: Path) -> None:
    async def run() -> None:
        await cep.live({"E": ROWS}, time="ts")

    asyncio.run(run())


def sent(cep: Workbench, source: Any, folder: Path) -> None:
    for row in ROWS:
        cep.send("E", row)


def saved(cep: Workbench, source: Any, folder: Path) -> None:
    cep.save(folder / "w.cep")
    cep.load(folder / "w.cep")
    sent(cep, source, folder)


WAYS: dict[str, Callable[[Workbench, Any, Path], object]] = {
    "replay": lambda cep, source, _: cep.replay(source, "E").run(),
    "replay of dicts": lambda cep, *_: cep.replay(iter(ROWS), "E").run(),
    "send": sent,
    "live": live,
    "save and load": saved,
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("way", WAYS)
def test_nested_values_are_events(source: str, way: str, tmp_path: Path) -> None:
    """7 sources × 5 ways × 4 statements."""
    cep, events = Workbench(), SOURCES[source](tmp_path)
    cep.define("E", events, time="ts")
    cep.run(EPL)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in EXPECTED}
    for name, taken in rows.items():
        cep.on(name, lambda delta, taken=taken: taken.extend(delta.insert))  # type: ignore[misc]
    WAYS[way](cep, events, tmp_path)
    assert rows == EXPECTED
    types = cep.runtime.catalog.event_types
    assert {"E", "E_a", "E_a_b", "E_a_b_c", "E_items", "E_items_tags"} <= set(types)
    assert str(types["E"].properties["items"]) == "E_items[]"


@pytest.mark.parametrize("depth", [1, 2, 5, 20])
def test_any_depth(depth: int) -> None:
    value: Any = 7
    for level in reversed(range(depth)):
        value = {f"p{level}": value} if level % 2 else {f"p{level}": [value]}
    path = ".".join(f"p{level}" if level % 2 else f"p{level}[0]" for level in range(depth))
    cep = Workbench()
    cep.define("E", [{"v": value}])
    cep.run(f"@name('s') select v.{path} as x from E")
    cep.send("E", v=value)
    assert cep.changes("s")["x"].tolist() == [7]


def test_too_deep_is_told() -> None:
    value: Any = 7
    for _ in range(2_000):
        value = {"p": value}
    with pytest.raises(UsageError, match="column `v`: a value is nested more than 64 levels deep"):
        Workbench().define("E", [{"v": value}])


def test_dates_lists_of_lists_and_maps() -> None:
    cep = Workbench()
    cep.define("E", [{"v": {"at": AT}, "grid": [[{"n": 1}], [{"n": 2}, {"n": 3}]], "map": {1: "x"}, "none": {}}])
    types = cep.runtime.catalog.event_types
    kinds = {name: str(of) for name, of in types["E"].properties.items()}
    assert kinds == {"v": "E_v", "grid": "E_grid[][]", "map": "map", "none": "map"}
    cep.run("@name('s') select v.at as at, grid[1][1].n as n, map as m from E")
    cep.send("E", v={"at": AT}, grid=[[], [{"n": 2}, {"n": 3}]], map={1: "x"})
    (row,) = cep.changes("s").to_dict("records")
    assert (row["at"], row["n"], row["m"]) == (pd.Timestamp(AT).tz_convert(None), 3, {1: "x"})


def test_a_name_that_no_dict_had_is_refused_with_its_path() -> None:
    cep = Workbench()
    cep.define("E", ROWS, time="ts")
    with pytest.raises(EventError, match=r"property `a` .*`E_a`: property `b` .*`E_a_b` has no property `mor`"):
        cep.send("E", a={"b": {"mor": 1}})
    with pytest.raises(EventError, match=r"`items` of event type `E` .*`n` of event type `E_items` is long, not 'x'"):
        cep.send("E", items=[{"n": "x"}])


def test_the_same_again_changes_nothing() -> None:
    cep = Workbench()
    first = cep.define("E", ROWS, time="ts")
    cep.run(EPL)
    assert cep.define("E", ROWS, time="ts") == first
    with pytest.raises(UsageError, match="column `v` has no EPL type"):
        cep.define("F", [{"v": {"x": 1}}, {"v": "text"}])
    with pytest.raises(UsageError, match="column `x` has no EPL type"):
        cep.define("F", [{"v": {"x": 1}}, {"v": {"x": "text"}}])


@dataclasses.dataclass
class Part:
    name: str
    parts: list[Part] | None = None


def test_dataclasses_nest_as_dicts_do() -> None:
    cep = Workbench()
    cep.define("E", {"part": Part})
    cep.run("@name('s') select part.parts[0].parts[0].name as n from E")
    cep.send("E", part={"name": "a", "parts": [{"name": "b", "parts": [{"name": "c"}]}]})
    assert cep.changes("s")["n"].tolist() == ["c"]
