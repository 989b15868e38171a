"""Events that are exported, replayed from the file and exported again are the same, whatever their values."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cepbook import Workbench
from cepbook.errors import EventError
from tests.random_cases import seeds

SCHEMA = """create schema A(t long, i int, g long, f double, s string, b boolean, d bigdecimal, n biginteger);
@name('q') select * from A;"""
TEXTS = ["a", "", 'naïve "q"', "x,y", "line\nbreak", "cr\r\nlf", " pad ", "NA", "null", "nan", "0012", "1e5", "true",
         "日本", "\t", "#c", '"', '""', "\\n", "a\rb", "\u2028", "inf"]  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "i": [None, 0, -(2**31), 2**31 - 1],
    "g": [None, 0, 2**63 - 1, -(2**63), 2**53 + 1],
    "f": [None, 0.0, 0.1, 1e300, 5e-324, math.inf, -math.inf, 1 / 3],
    "s": [None, *TEXTS],
    "b": [None, True, False],
    "d": [None, Decimal("1.50"), Decimal("12345678901234567890.12345"), Decimal("-0.1"), Decimal(0)],
    "n": [None, 0, 2**70, -(2**80)],
}
FORMATS = ("csv", "jsonl", "parquet")
Row = dict[str, Any]


def workbench() -> tuple[Workbench, list[Row]]:
    cep, rows = Workbench(), list[Row]()
    cep.run(SCHEMA)
    cep.on("q", lambda delta: rows.extend(delta.insert))
    return cep, rows


def exact(rows: list[Row]) -> list[dict[str, tuple[type, Any]]]:
    return [{name: (type(value), value) for name, value in row.items()} for row in rows]


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(40))
def test_from_file_to_file(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    cep, sent = workbench()
    for time in sorted(random.randrange(5) * 500 for _ in range(random.choice((1, 3, 20)))):
        cep.advance(time)
        cep.send("A", {"t": time} | {name: random.choice(values) for name, values in VALUES.items()})
    for first in FORMATS:
        cep.export("q", tmp_path / f"first.{first}", changes=True, times="ms")
        again, rows = workbench()
        again.replay(tmp_path / f"first.{first}", "A", time="t").run()
        assert exact(rows) == exact(sent), first
        second = random.choice(FORMATS)
        again.export("q", tmp_path / f"second.{second}", changes=True, times="ms")
        last, rows = workbench()
        last.replay(tmp_path / f"second.{second}", "A", time="t").run()
        assert exact(rows) == exact(sent), (first, second)


@pytest.mark.parametrize("format_", FORMATS)
def test_nan_of_a_sink_is_null_as_at_any_border(format_: str, tmp_path: Path) -> None:
    cep = Workbench()
    cep.run("create schema B(t long, x double); @name('r') select t, x / x as f from B")
    for x in (0.0, 1.0):
        cep.send("B", t=0, x=x)
    assert [math.isnan(value) for value in cep.changes("r")["f"]] == [True, False]
    path = tmp_path / f"nan.{format_}"
    cep.export("r", path, changes=True)
    reader = Workbench()
    reader.run("create schema C(t long, f double); @name('c') select f is null as missing, f from C")
    rows = list[Row]()
    reader.on("c", lambda delta: rows.extend(delta.insert))
    reader.replay(path, "C", time="t").run()
    assert rows == [{"missing": True, "f": None}, {"missing": False, "f": 1.0}]


@pytest.mark.parametrize(
    ("of", "text"), [("bigdecimal", "1_0"), ("bigdecimal", "x"), ("biginteger", "1.5"), ("double", "1")]
)
def test_other_texts_are_no_numbers(of: str, text: str) -> None:
    cep = Workbench()
    cep.run(f"create schema N(v {of})")
    with pytest.raises(EventError, match=f"is {of}"):
        cep.send("N", v=text)
