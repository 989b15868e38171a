from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from cepbook.lang.java.numbers import java_text, to_float32
from cepbook.lang.types import BIGDECIMAL, BIGINTEGER, DOUBLE, FLOAT, INT, LONG, STRING, array_of, event_of
from cepbook.testing.engines import ENGINES, compute_hash, concat_str
from cepbook.testing.values import (
    Row,
    ValueSyntaxError,
    coerce_row,
    format_row,
    format_value,
    java_row,
    parse_row,
    parse_value,
    same_row,
    same_rows,
    same_value,
)


@pytest.mark.parametrize(
    "text",
    [
        'symbol="A" price=10.0',
        "`count(*)`=1 `a b`=null",
        's.id="a" context.startevent.id=-3',
        'a={"x": [1, 2.5, null], "y": {"z": true}} b=[]',
        's="}= `" t="ü€"',
        "(no columns)",
    ],
)
def test_a_row_is_printed_as_it_was_read(text: str) -> None:
    assert format_row(parse_row(text)) == text


def test_integers_and_floating_values_are_read_apart() -> None:
    row = parse_row("a=1 b=1.0 c=1e3")
    assert [type(value) for value in row.values()] == [int, float, float]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "expected '=' after the name 'a'"),
        ("a=1 a=2", "the column 'a' occurs twice"),
        ("a=x", "not a JSON value: 'x'"),
        ("a=1b=2", "expected a blank after the value of 'a'"),
        ("count(*)=1", "expected '=' after the name 'count'"),
        ("*=1", "names stand in backticks"),
    ],
)
def test_a_malformed_row_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueSyntaxError) as caught:
        parse_row(text)
    assert message in str(caught.value)


def test_nothing_may_follow_a_value() -> None:
    with pytest.raises(ValueSyntaxError, match="unexpected text"):
        parse_value("1 2")


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1.0, 1, False),
        (1, True, False),
        (True, True, True),
        (None, None, True),
        (None, 0, False),
        ("a", "a", True),
        ("1", 1, False),
        (0.1 + 0.2, 0.3, True),
        (1.0, 1.0 + 1e-7, False),
        ("NaN", math.nan, True),
        ("Infinity", math.inf, True),
        ("Infinity", -math.inf, False),
        (1.5, Decimal("1.5"), True),
        (10, Decimal(10), True),
        ("1.5", Decimal("1.5"), True),
        ([1, 2], [1, 2], True),
        ([1, 2], (1, 2), True),
        ([1, 2], [2, 1], False),
        ({"a": 1, "b": [0.5]}, {"b": [0.5], "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": None}, True),  # a property that an event lacks is null
        ({"a": 1}, {"a": 1, "b": 0}, False),
        (1000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), True),
    ],
)
def test_same_value(expected: object, actual: object, same: bool) -> None:
    assert same_value(expected, actual) is same


def test_the_order_of_columns_does_not_matter_but_that_of_rows_does() -> None:
    assert same_row({"a": 1, "b": 2}, {"b": 2, "a": 1})
    rows, turned = [{"a": 1}, {"a": 2}, {"a": 2}], [{"a": 2}, {"a": 1}, {"a": 2}]
    assert not same_rows(rows, turned)
    assert same_rows(rows, turned, unordered=True)
    assert not same_rows(rows, [{"a": 1}, {"a": 1}, {"a": 2}], unordered=True)


def test_printing_values_that_json_does_not_know() -> None:
    values = [Decimal("1.50"), math.nan, -math.inf, datetime(2024, 3, 4, tzinfo=UTC), (1, 2)]
    assert [format_value(value) for value in values] == [
        "1.50",
        '"NaN"',
        '"-Infinity"',
        "1709510400000",
        "[1, 2]",
    ]


@pytest.mark.parametrize("text", ["1.1", "0.1", "-3.4028235e+38", "1e-45", "16777216.0", "0.0", '"NaN"', '"-Infinity"'])
def test_floats_are_held_as_singles_and_written_as_java_prints_them(text: str) -> None:
    types = {"f": FLOAT, "fs": array_of(FLOAT), "n": event_of("N"), "ns": array_of(event_of("N")), "d": DOUBLE}
    inner = {"N": {"f": FLOAT}}.get
    row = f'f={text} fs=[{text}, null] n={{"f": {text}}} ns=[{{"f": {text}}}] d=1.1'
    event = coerce_row(parse_row(row), types, inner)
    assert event["fs"][0] == to_float32(event["f"]) or math.isnan(event["f"])
    assert format_row(java_row(event, types, inner)) == row


def test_a_scenario_sees_floats_as_java_prints_them() -> None:
    engine = ENGINES["rows"](0, {})
    engine.deploy("create schema E(d double, f float); create context C partition by f from E", "types")
    engine.deploy(
        "@name('s') select *, f = d as same, f = 1.1f as literal, f + f as twice,"
        " cast(f, string) as t, f like '1.1' as l, f regexp '1[.]1' as r, cast(f, double) as wide from E#keepall",
        "s",
    )
    engine.deploy("@name('c') context C select f from E#keepall", "c")
    seen: list[Row] = []
    engine.listen("s", lambda statement, insert, remove: seen.extend(insert))
    types = engine.properties("E")
    assert types is not None
    engine.send("E", coerce_row(parse_row("d=1.1 f=1.1"), types, engine.properties))
    expected = 'd=1.1 f=1.1 same=false literal=true twice=2.2 t="1.1" l=true r=true wide=1.100000023841858'
    assert [format_row(row) for row in (*seen, *engine.iterate("s"))] == [expected] * 2
    assert [format_row(row) for row in engine.iterate("c")] == ["f=1.1"]
    assert [row["key1"] for row in engine.partitions("C")] == [1.1]


def test_coercion_to_declared_types() -> None:
    tick = {"price": DOUBLE, "symbol": STRING}
    types = {
        "d": DOUBLE,
        "n": INT,
        "dec": BIGDECIMAL,
        "big": BIGINTEGER,
        "ds": array_of(DOUBLE),
        "tick": event_of("Tick"),
        "ticks": array_of(event_of("Tick")),
        "missing": LONG,
    }
    row = parse_row('d=500 n=3 dec="1.5" big="7" ds=[1, 2.5] tick={"price": 1} ticks=[{"price": "NaN"}] extra=1')
    event = coerce_row(row, types, {"Tick": tick}.get)
    nested = event.pop("ticks")
    assert math.isnan(nested[0]["price"])
    assert repr(event) == repr(
        {
            "d": 500.0,
            "n": 3,
            "dec": Decimal("1.5"),
            "big": 7,
            "ds": [1.0, 2.5],
            "tick": {"price": 1.0, "symbol": None},
            "missing": None,
            "extra": 1,
        }
    )


def test_the_provided_functions_follow_java() -> None:
    assert compute_hash("hello") == 99162322
    assert compute_hash("polygenelubricants") == 0  # hashCode is -2147483648, the sign bit alone
    assert concat_str("x", 12.0) == "x12.0"
    assert concat_str(None, True) == "nulltrue"
    assert java_text({"id": "a", "v": 1.5}) == "{id=a, v=1.5}"
    assert [java_text(x) for x in (1e7, 12345678.9, 0.00012, -1e-5)] == ["1.0E7", "1.23456789E7", "1.2E-4", "-1.0E-5"]
