"""The notation of the online notebook, and cells that mix it with trace lines."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cepbook.testing.cell_reader import CellStep, EventsError, read_cell
from cepbook.testing.notation import NotationError, parse_clock, parse_event
from cepbook.testing.trace import Advance, Iterate, Send, StatementDelivery


def event(text: str) -> tuple[str, dict[str, object]]:
    name, found, end = parse_event(text)
    assert end == len(text.rstrip())
    return name, found


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_values() -> None:
    text = """Tick = {s = 'a\\'b', d="x", i=-12, l = 5L, f=1.5f, e=1e3, dot=.5, yes=true, no = FALSE, nothing=null}"""
    assert event(text) == (
        "Tick",
        {"s": "a'b", "d": "x", "i": -12, "l": 5, "f": 1.5, "e": 1000.0, "dot": 0.5, "yes": True, "no": False}
        | {"nothing": None},
    )


def test_nested_maps_and_arrays_over_several_lines() -> None:
    text = (
        "Order={id = 1, // the first\n  lines=[{sku='a', n=2}, {sku='b', n=1}],\n"
        "  tags={'x', 'y'}, pos={x=1, y=[1,2]}, none={}}"
    )
    assert event(text) == (
        "Order",
        {"id": 1, "lines": [{"sku": "a", "n": 2}, {"sku": "b", "n": 1}], "tags": ["x", "y"]}
        | {"pos": {"x": 1, "y": [1, 2]}, "none": {}},
    )


def test_a_comment_sign_inside_a_string_is_text() -> None:
    assert event("Tick={s='a // b /* c */'}") == ("Tick", {"s": "a // b /* c */"})


@pytest.mark.parametrize(
    ("text", "message", "pointed"),
    [
        ("Tick = {p = eval('1+1')}", "eval(…) is not run: values in a cell are constants", "eval"),
        (
            "Tick = {p = Math.max(1, 2)}",
            "a call such as Math.max(…) is not run: values in a cell are constants",
            "Math.max",
        ),
        ("Tick = {p = IBM}", "`IBM` is no value", "IBM"),
        ("Tick = {p = 'IBM}", "the closing quote is missing", "'"),
        ("Tick = {p = 1", "the closing brace is missing", ""),
        ("Tick = {p = 1, p = 2}", "the property `p` occurs twice", "p"),
        ("Tick = {p = 1 q = 2}", "expected `,` or the closing brace, found `q`", "q"),
        ("Tick = {1, 2}", "the properties of an event are written name = value", "{1, 2}"),
        ("Tick = {p = }", "expected a value", "}"),
        ("Tick = {p = 12abc}", "expected a value", "1"),
    ],
)
def test_malformed_events(text: str, message: str, pointed: str) -> None:
    with pytest.raises(NotationError) as caught:
        parse_event(text)
    assert (caught.value.message, text[caught.value.start : caught.value.end]) == (message, pointed)


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ('t = "2024-01-01 08:00:00.000"', 0, ms("2024-01-01T08:00")),
        ("t='2024-01-01T08:00:00.5'", 0, ms("2024-01-01T08:00:00.5")),
        ("t = 1500", 0, 1500),
        ("t = t.plus(10 seconds)", 500, 10_500),
        ("t=t.plus( 1 hour 30 min 5 msec )", 0, 5_400_005),
        ("t = t.plus(0.5 seconds)", 0, 500),
        ("t = t.plus(1 month)", ms("2024-01-31"), ms("2024-02-29")),
        ("t = t.plus(1 year 2 days)", ms("2024-02-29"), ms("2025-03-02")),
        ("t = t.plus(9000 years)", 0, 284012611200000),
    ],
)
def test_time(text: str, now: int, expected: int) -> None:
    assert parse_clock(text, 0, now) == (expected, len(text))


@pytest.mark.parametrize(
    "text",
    ['t = "yesterday"', "t = t.plus(10 parsecs)", "t = t.plus(10)", "t = t.plus(", "t = t.plus()", "t = true", "t ="],
)
def test_malformed_time(text: str) -> None:
    with pytest.raises(NotationError):
        parse_clock(text, 0, 0)


def stimuli(parts: tuple[CellStep, ...]) -> list[object]:
    return [part.step.stimulus for part in parts]


CELL = """// a comment
t = 1000
# another one
Tick = {symbol = 'A',
        price = 10.0}    // why
    out + symbol="A" price=10.0
        - symbol="Z" price=1.0
    = n=1
/* two
   lines */
Tick symbol="B" price=20.0

t = t.plus(1 sec);
@3500 stepping
iterate out
    = (none)
"""


def test_a_mixed_cell() -> None:
    parts = read_cell(CELL, 0)
    assert stimuli(parts) == [
        Advance(1000, False),
        Send("Tick", {"symbol": "A", "price": 10.0}),
        Send("Tick", {"symbol": "B", "price": 20.0}),
        Advance(2000, False),
        Advance(3500, True),
        Iterate("out"),
    ]
    assert parts[1].step.reactions[0] == StatementDelivery(
        "out", ({"symbol": "A", "price": 10.0},), ({"symbol": "Z", "price": 1.0},)
    )
    assert [len(part.step.reactions) for part in parts] == [0, 2, 0, 0, 0, 1]
    assert [part.step.line for part in parts] == [2, 4, 11, 13, 14, 15]


def test_all_mistakes_are_reported_at_once_with_their_lines() -> None:
    cell = "Tick = {p = IBM}\n@soon\nTick = {p = 1}\n    out * p=1\n\nTick p='x'\n"
    with pytest.raises(EventsError) as caught:
        read_cell(cell, 0)
    shown = str(caught.value)
    assert [f"cell:{n + 1}:" in shown for n in range(1, 7)] == [True, True, False, True, False, True], shown
    assert "2 | Tick = {p = IBM}\n  |             ^^^" in shown


def test_an_open_brace_is_one_mistake() -> None:
    with pytest.raises(EventsError) as caught:
        read_cell("Tick = {p = 1,\nt = 5\nTick = {p = 2}\n", 0)
    assert len(caught.value.diagnostics) == 1


def test_an_empty_cell() -> None:
    assert read_cell("\n  \n// nothing\n", 0) == ()
