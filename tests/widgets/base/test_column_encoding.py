from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pytest

from cepbook.display import decimal_places, format_time, format_value
from cepbook.widgets.base.column_encoding import BinaryBuffers, ViewColumn, encode_rows, encode_values
from tests.widgets.fakes import decoded


def decode(column: dict[str, Any], buffers: BinaryBuffers) -> list[Any]:
    """What travels, as the page has it."""
    return decoded(json.loads(json.dumps(column)), buffers.parts)


@pytest.mark.parametrize(
    ("values", "kind", "shown"),
    [
        ([1, 2, 3], "int", [1, 2, 3]),
        ([-70_000, 2**31], "int", [-70_000, 2**31]),
        ([1, None, 3], "num", [1, None, 3]),
        ([1.5, None, 2], "num", [1.5, None, 2.0]),
        ([True, None, False], "bool", [True, None, False]),
        (["a", "b", "a", None], "text", ["a", "b", "a", None]),
        ([None, None], "text", [None, None]),
        ([], "text", []),
        ([2**60, 1], "text", ["1152921504606846976", "1"]),
        ([-(2**53), 2**53], "num", [-(2.0**53), 2.0**53]),
        (["a", 1, True, 2.5], "text", ["a", "1", "true", "2.5"]),
        ([Decimal("1.10")], "text", ["1.10"]),
        ([dt.datetime(2013, 1, 1, 5)], "text", ["2013-01-01 05:00:00"]),
        ([{"a": 1, "b": [1.0, None]}], "text", ["{a=1, b=[1.0, null]}"]),
    ],
)
def test_a_column_arrives_as_it_left(values: list[object], kind: str, shown: list[object]) -> None:
    buffers = BinaryBuffers()
    column = encode_values(values, buffers)
    assert column["k"] == kind
    assert decode(column, buffers) == shown


def test_nan_is_a_value_and_not_null() -> None:
    buffers = BinaryBuffers()
    decoded = decode(encode_values([math.nan, None, math.inf], buffers), buffers)
    assert isinstance(decoded[0], float) and math.isnan(decoded[0])
    assert decoded[1:] == [None, math.inf]


def test_each_string_travels_once() -> None:
    buffers = BinaryBuffers()
    column = encode_values(["JFK", "EWR"] * 1000, buffers)
    assert column["d"] == ["JFK", "EWR"]
    assert len(buffers.parts[0]) == 2000


def test_a_lone_surrogate_and_a_huge_text_can_travel() -> None:
    buffers = BinaryBuffers()
    column = encode_values(["\ud800x", "y" * 10_000], buffers)
    texts = decode(column, buffers)
    assert json.dumps(texts, ensure_ascii=False).encode() and str(texts[0]).endswith("x")
    assert len(str(texts[1])) == 300 and str(texts[1]).endswith("…")


def test_a_property_that_a_row_lacks_is_null() -> None:
    buffers = BinaryBuffers()
    columns = [ViewColumn("a", "int"), ViewColumn("b", "string")]
    a, b = encode_rows([{"a": 1}, {"b": "x"}], columns, buffers)
    assert decode(a, buffers) == [1, None]  # type: ignore[arg-type]
    assert decode(b, buffers) == [None, "x"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("type_name", "kind"),
    [
        ("long", "int"),
        ("double", "float"),
        ("bigdecimal", "float"),
        ("boolean", "bool"),
        ("string", "text"),
        ("int[]", "text"),
    ],
)
def test_kind_of_a_column(type_name: str, kind: str) -> None:
    assert ViewColumn("c", type_name).kind == kind


def test_text_of_objects_has_no_address() -> None:
    assert format_value(object()) == "<object>"


@pytest.mark.parametrize(
    ("values", "decimals"), [([1.5, 2.25, None], 2), ([1.0], 1), ([1 / 3], 4), ([], 1), ([math.nan], 1)]
)
def test_decimals(values: list[object], decimals: int) -> None:
    assert decimal_places(values) == decimals


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "00:00:00.000"),
        (1500, "00:00:01.500"),
        (90_061_001, "1d 01:01:01.001"),
        (-1500, "-00:00:01.500"),
        (1_357_016_400_000, "2013-01-01 05:00:00"),
        (1_357_016_400_007, "2013-01-01 05:00:00.007"),
        (2**62, f"{2**62} ms"),
    ],
)
def test_engine_time(ms: int, text: str) -> None:
    assert format_time(ms) == text
