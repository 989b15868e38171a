"""Numbers as the language defines them: Java's widths, promotion, overflow, division; months of the calendar."""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cepbook.engine.expressions import primitives
from cepbook.engine.runtime import Config, Runtime
from cepbook.engine.time.calendar_periods import add_months
from cepbook.lang import types as t
from tests.engine.histories import comparable

WIDTH = {"int": 32, "long": 64}
EDGES = [0, 1, -1, 2, 7, -7, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 10**6]


def whole(bits: int) -> st.SearchStrategy[int]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return st.one_of(st.sampled_from([e for e in EDGES if low <= e <= high]), st.integers(low, high))


def single(value: float) -> float:
    """`value` as a 32-bit float, by way of its bytes."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def cut(value: int, bits: int) -> int:
    """The low `bits` bits of `value`, two's complement."""
    return int.from_bytes((value & ((1 << bits) - 1)).to_bytes(bits // 8, "little"), "little", signed=True)


def java(op: str, kinds: tuple[str, str], a: Any, b: Any) -> Any:
    """``a op b`` in Java, but ``/`` of whole numbers gives a double; null with a null operand."""
    if a is None or b is None:
        return None
    integral = all(kind in WIDTH for kind in kinds)
    if op == "/":
        a, b = float(a), float(b)
        if b == 0:
            return math.nan if a == 0 else math.copysign(math.inf, a)
        quotient = a / b
        return single(quotient) if set(kinds) == {"float"} else quotient
    if integral:
        bits = max(WIDTH[kind] for kind in kinds)
        if op == "%":
            return None if b == 0 else cut(int(math.fmod(a, b)) if bits == 32 else a - b * _trunc(a, b), bits)
        return cut({"+": a + b, "-": a - b, "*": a * b}[op], bits)
    found = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: float(a) * b}[op]()
    return single(found) if "float" in kinds and "double" not in kinds else float(found)


def _trunc(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.fixture(scope="module")
def calculator() -> Runtime:
    """A statement with every operator over int, long and double."""
    runtime = Runtime()
    runtime.deploy("create schema E(i int, j int, m long, n long, d double, e double)")
    columns = [
        f"{a} {op} {b} as {a}{b}{number}"
        for a, b in (("i", "j"), ("i", "n"), ("m", "n"), ("i", "d"), ("m", "e"), ("d", "e"))
        for number, op in enumerate("+-*/%")
        if not (op == "%" and {a, b} & {"d", "e"})
    ]
    runtime.deploy(f"@name('s') select {', '.join(columns)} from E")
    runtime.add_error_listener(lambda error: None)
    return runtime


KIND = {"i": "int", "j": "int", "m": "long", "n": "long", "d": "double", "e": "double"}
DOUBLES = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 0.5, -1.5, 1e10]), st.floats(-1e6, 1e6))


@settings(max_examples=200)
@given(
    st.fixed_dictionaries(
        {
            "i": st.one_of(st.none(), whole(32)),
            "j": st.one_of(st.none(), whole(32).filter(bool)),
            "m": st.one_of(st.none(), whole(64)),
            "n": st.one_of(st.none(), whole(64).filter(bool)),
            "d": DOUBLES,
            "e": DOUBLES,
        }
    )
)
@example({"i": -(2**31), "j": -1, "m": -(2**63), "n": -1, "d": 1.0, "e": 0.0})
def test_operators(calculator: Runtime, event: dict[str, Any]) -> None:
    rows: list[Any] = []
    listener = rows.append
    calculator.statement("s").add_listener(listener)
    calculator.send("E", event)
    calculator.statement("s").remove_listener(listener)
    (row,) = rows[0].insert
    for column, found in row.items():
        a, b, op = column[0], column[1], "+-*/%"[int(column[2])]
        expected = java(op, (KIND[a], KIND[b]), event[a], event[b])
        assert comparable(found) == comparable(expected), f"{event[a]} {op} {event[b]}"


@settings(max_examples=100)
@given(st.lists(st.one_of(st.none(), whole(32)), max_size=8))
def test_int_sums_wrap_and_long_sums_do_not(values: list[int | None]) -> None:
    runtime = Runtime()
    runtime.deploy(
        "create schema E(i int);@name('s') select sum(i) as s, sum(cast(i, long)) as l, avg(i) as a from E#keepall"
    )
    for value in values:
        runtime.send("E", {"i": value})
    present = [v for v in values if v is not None]
    wrapped = cut(sum(present), 32) if present else None
    (row,) = runtime.iterate("s")
    assert row["s"] == wrapped
    assert row["l"] == (sum(present) if present else None)
    assert row["a"] == (None if wrapped is None else wrapped / len(present)), "avg divides the wrapped sum"


@pytest.mark.parametrize(
    ("a", "b", "quotient", "rest"),
    [(7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (-7, -2, 3, -1), (0, 5, 0, 0), (2**62 + 1, 2, 2**61, 1)],
)
def test_integer_division_truncates_and_the_remainder_has_the_sign_of_the_dividend(
    a: int, b: int, quotient: int, rest: int
) -> None:
    assert primitives.integer_divide(a, b) == quotient
    assert primitives.remainder(a, b) == rest


def test_the_smallest_value_is_its_own_opposite() -> None:
    runtime = Runtime()
    runtime.deploy(
        "create schema E(i int, m long, d double);@name('s') select -i as a, -m as b, -d as c from E#keepall"
    )
    runtime.send("E", {"i": -(2**31), "m": -(2**63), "d": 0.5})
    runtime.send("E", {"i": 5, "m": None, "d": -0.5})
    assert runtime.iterate("s") == [{"a": -(2**31), "b": -(2**63), "c": -0.5}, {"a": -5, "b": None, "c": 0.5}]


def test_integer_division_overflows_like_the_operands() -> None:
    """The one quotient that does not fit: the smallest value by -1 is the smallest value again."""
    runtime = Runtime(Config(integer_division=True))
    runtime.deploy("create schema E(i int, m long);@name('s') select i / -1 as a, m / -1 as b from E#keepall")
    runtime.send("E", {"i": -(2**31), "m": -(2**63)})
    assert runtime.iterate("s") == [{"a": -(2**31), "b": -(2**63)}]


@pytest.mark.parametrize(
    ("value", "bits", "wrapped"),
    [(127, 8, 127), (128, 8, -128), (-129, 8, 127), (2**31, 32, -(2**31)), (2**64 + 5, 64, 5), (40000, 16, -25536)],
)
def test_wrap(value: int, bits: int, wrapped: int) -> None:
    assert primitives.wrap(value, bits) == wrapped == cut(value, bits)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (-2.5e-10, "-2.5E-10"),
        (9999999.0, "9999999.0"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
        (-0.0, "-0.0"),
    ],
)
def test_doubles_print_as_in_java(value: float, shown: str) -> None:
    assert primitives.java_text(value) == shown


@pytest.mark.parametrize(
    ("value", "to", "found"),
    [
        ("12", t.INT, 12),
        (" 12 ", t.LONG, 12),
        ("1.5", t.DOUBLE, 1.5),
        (3.99, t.INT, 3),
        (-3.99, t.LONG, -3),
        (1e20, t.INT, 2**31 - 1),
        (-1e20, t.LONG, -(2**63)),
        (math.nan, t.INT, 0),
        (300, t.BYTE, 44),
        (2**31, t.INT, -(2**31)),
        (1, t.DOUBLE, 1.0),
        (0.1, t.FLOAT, single(0.1)),
        (True, t.STRING, "true"),
        (5.0, t.STRING, "5.0"),
        ("TRUE", t.BOOLEAN, True),
        (None, t.INT, None),
    ],
)
def test_cast(value: object, to: t.Type, found: object) -> None:
    assert comparable(primitives.convert(value, to)) == comparable(found)


@pytest.mark.parametrize("value", ["x", "1.5", ""])
def test_cast_of_what_is_no_whole_number_fails(value: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number"):
        primitives.convert(value, t.INT)


@pytest.mark.parametrize(
    ("start", "months", "end"),
    [
        ("2023-01-31", 1, "2023-02-28"),
        ("2024-01-31", 1, "2024-02-29"),
        ("2024-02-29", 12, "2025-02-28"),
        ("2024-03-31", -1, "2024-02-29"),
        ("2023-12-15", 1, "2024-01-15"),
        ("2024-01-15", -1, "2023-12-15"),
        ("1900-01-31", 1, "1900-02-28"),
        ("2000-01-31", 1, "2000-02-29"),
        ("1969-12-31", 2, "1970-02-28"),
    ],
)
def test_months_are_calendar_months(start: str, months: int, end: str) -> None:
    assert add_months(ms(start), months) == ms(end)
    assert add_months(ms(start) + 3_723_004, months) == ms(end) + 3_723_004, "the time of day stays"


@settings(max_examples=100)
@given(st.integers(-60_000_000_000_000, 250_000_000_000_000), st.integers(-1200, 1200))
def test_months_and_back_lose_at_most_the_clamped_days(time: int, months: int) -> None:
    there = add_months(time, months)
    back = add_months(there, -months)
    assert 0 <= time - back <= 3 * 86_400_000


def ms(date: str) -> int:
    return int(datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp()) * 1000
