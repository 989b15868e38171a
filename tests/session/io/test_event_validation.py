"""Events that are sent: what fits, what is null, what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from cepbook.errors import EventError
from cepbook.lang import types as t
from cepbook.lang.plan.catalog import EventType
from cepbook.session.io.event_validation import EventValidator, find_type

PLACE = EventType("Place", {"name": t.STRING, "height": t.DOUBLE})


def check(of: t.Type, value: Any) -> Any:
    kind = EventType("T", {"x": of})
    return EventValidator(kind, {"T": kind, "Place": PLACE})({"x": value})["x"]


@pytest.mark.parametrize(
    ("of", "value", "expected"),
    [
        (t.INT, 5, 5),
        (t.INT, np.int64(5), 5),
        (t.LONG, 2**63 - 1, 2**63 - 1),
        (t.BYTE, -128, -128),
        (t.DOUBLE, 5, 5.0),
        (t.DOUBLE, np.float32(0.5), 0.5),
        (t.FLOAT, 0.5, 0.5),
        (t.FLOAT, 1.1, 1.100000023841858),
        (t.FLOAT, 16_777_217, 16_777_216.0),
        (t.FLOAT, 1e300, float("inf")),
        (t.array_of(t.FLOAT), [0.1], [0.10000000149011612]),
        (t.BIGINTEGER, 2**80, 2**80),
        (t.BIGDECIMAL, Decimal("1.10"), Decimal("1.10")),
        (t.BIGDECIMAL, 1.1, Decimal("1.1")),
        (t.STRING, "a", "a"),
        (t.CHAR, "a", "a"),
        (t.BOOLEAN, np.True_, True),
        (t.LONG, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1000),
        (t.LONG, pd.Timestamp("1970-01-01 00:00:01"), 1000),
        (t.LONG, date(1970, 1, 2), 86_400_000),
        (t.LONG, timedelta(seconds=1), 1000),
        (t.TIMESTAMP, pd.Timestamp("2020-01-01"), datetime(2020, 1, 1, tzinfo=UTC)),
        (t.CALENDAR, datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)),
        (t.LOCALDATETIME, pd.Timestamp("2020-01-01"), datetime(2020, 1, 1)),
        (t.LOCALDATE, date(2020, 1, 1), date(2020, 1, 1)),
        (t.LOCALTIME, time(10, 20), time(10, 20)),
        (t.TIMESTAMP, "2020-01-01", datetime(2020, 1, 1, tzinfo=UTC)),
        (t.CALENDAR, " 2020-01-01T10:30:00Z ", datetime(2020, 1, 1, 10, 30, tzinfo=UTC)),
        (t.ZONEDDATETIME, "2020-01-01T02:00+02:00", datetime(2020, 1, 1, tzinfo=UTC)),
        (t.LOCALDATETIME, "2020-01-01T10:30", datetime(2020, 1, 1, 10, 30)),
        (t.LOCALDATE, "2020-01-01", date(2020, 1, 1)),
        (t.LOCALTIME, "10:20", time(10, 20)),
        (t.array_of(t.DOUBLE), (1, 2.5, None), [1.0, 2.5, None]),
        (t.array_of(t.INT), np.array([1, 2]), [1, 2]),
        (t.MAP, {"a": [1]}, {"a": [1]}),
        (t.OBJECT, "anything", "anything"),
        (t.event_of("Place"), {"name": "Brocken", "height": 1141}, {"name": "Brocken", "height": 1141.0}),
        (t.event_of("Place"), {"name": "Brocken"}, {"name": "Brocken", "height": None}),
    ],
)
def test_values_that_fit(of: t.Type, value: Any, expected: Any) -> None:
    fitting = check(of, value)
    assert fitting == expected
    assert type(fitting) is type(expected)


@pytest.mark.parametrize("of", [t.INT, t.DOUBLE, t.STRING, t.BOOLEAN, t.TIMESTAMP, t.array_of(t.INT), t.OBJECT])
@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA, pd.NaT, np.datetime64("NaT")])
def test_missing_values_are_null(of: t.Type, missing: object) -> None:
    assert check(of, missing) is None


@pytest.mark.parametrize(
    ("of", "value", "message"),
    [
        (t.INT, 1.0, r"property `x` of event type `T` is int, not 1.0 \(float\)"),
        (t.INT, "1", r"is int, not '1' \(str\)"),
        (t.INT, True, r"is int, not True \(bool\)"),
        (t.INT, 2**31, "is int, and 2147483648 is outside -2147483648 … 2147483647"),
        (t.LONG, 2**63, "is long, and 9223372036854775808 is outside"),
        (t.LONG, -(2**63) - 1, "is long, and .* is outside"),
        (t.DOUBLE, "x", "is double, not 'x'"),
        (t.DOUBLE, 10**400, "is double, and .* is too large"),
        (t.DOUBLE, Decimal(1), "is double, not Decimal"),
        (t.STRING, 5, r"is string, not 5 \(int\)"),
        (t.BOOLEAN, 1, "is boolean, not 1"),
        (t.CHAR, "ab", "is char"),
        (t.MAP, [1], "is map, not"),
        (t.TIMESTAMP, 5, "is timestamp, not 5"),
        (t.ZONEDDATETIME, "2020-13-01", "is zoneddatetime, and '2020-13-01' is not written as in `2024-01-02T10:30:00"),
        (t.TIMESTAMP, "soon", "is timestamp, and 'soon' is not written as in `2024-01-02T10:30:00`"),
        (t.LOCALDATETIME, "2020-01-01T00:00+01:00", "is localdatetime, not"),
        (t.LOCALDATE, "2020-01-01T10:00", "is localdate, and .* is not written as in `2024-01-02`"),
        (t.LOCALTIME, "2020-01-01", "is localtime, and .* is not written as in `10:30:00`"),
        (t.LONG, "2020-01-01", "is long, not '2020-01-01'"),
        (t.LOCALDATETIME, datetime(2020, 1, 1, tzinfo=UTC), "is localdatetime, not datetime"),
        (t.LOCALDATE, datetime(2020, 1, 1), "is localdate, not datetime"),
        (t.LOCALTIME, date(2020, 1, 1), "is localtime, not datetime.date"),
        (t.array_of(t.INT), 5, r"is int\[\], not 5"),
        (t.array_of(t.INT), [1, "a"], "is int, not 'a'"),
        (t.event_of("Place"), {"nam": "x"}, "(?s)is an event of type `Place`: .* no property `nam`.*`name`"),
        (t.event_of("Place"), 5, "is an event of type `Place`"),
        (t.STRING, 5, "not 5"),
        (t.INT, "x" * 100, r"not 'x{38}…"),
    ],
)
def test_values_that_do_not_fit(of: t.Type, value: Any, message: str) -> None:
    with pytest.raises(EventError, match=message):
        check(of, value)


@dataclass
class Reading:
    at: int
    place: Any
    note: str = "more than the type has"


class Pair(NamedTuple):
    at: int
    place: Any


def test_events_of_classes_may_have_more_attributes() -> None:
    kind = EventType("R", {"at": t.LONG, "place": t.event_of("Place")})
    conform = EventValidator(kind, {"R": kind, "Place": PLACE})
    expected = {"at": 1, "place": {"name": "x", "height": None}}
    assert conform(Reading(1, {"name": "x"})) == expected
    assert conform(Pair(1, {"name": "x"})) == expected


def test_the_event_is_copied_complete_and_in_order() -> None:
    event = {"height": 2.0}
    copy = EventValidator(PLACE, {})(event)
    assert list(copy.items()) == [("name", None), ("height", 2.0)]
    assert event == {"height": 2.0}


def test_unknown_names() -> None:
    with pytest.raises(EventError, match=r"(?s)no event type `Plac`.*did you mean `Place`"):
        find_type("Plac", {"Place": PLACE})
    with pytest.raises(EventError, match="define one with"):
        find_type("Plac", {})
    with pytest.raises(EventError, match=r"(?s)no property `Name`.*did you mean `name`"):
        EventValidator(PLACE, {})({"Name": "x"})
    with pytest.raises(EventError, match="is a dict or a dataclass, not 5"):
        EventValidator(PLACE, {})(5)
