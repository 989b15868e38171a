"""Event types from DataFrames, dataclasses, TypedDicts and dicts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypedDict

import numpy as np
import pandas as pd
import pytest

from cepbook.errors import UsageError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import BOOLEAN, DOUBLE, INT, LONG, OBJECT, STRING, array_of, event_of
from cepbook.session.io.schema_inference import frame_properties, infer_event_types


def kinds(frame: pd.DataFrame) -> dict[str, str]:
    return {name: str(of) for name, of in frame_properties(frame).items()}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([1], "int8"), "byte"),
        (np.array([1], "int16"), "short"),
        (np.array([1], "int32"), "int"),
        (np.array([1], "int64"), "long"),
        (np.array([1], "uint8"), "short"),
        (np.array([1], "uint16"), "int"),
        (np.array([1], "uint32"), "long"),
        (np.array([1], "uint64"), "biginteger"),
        (pd.array([1, None], "Int32"), "int"),
        (np.array([1.0], "float32"), "float"),
        (np.array([1.0]), "double"),
        (pd.array([1.5, None], "Float64"), "double"),
        ([True, False], "boolean"),
        (pd.array([True, None], "boolean"), "boolean"),
        (["a", None], "string"),
        (pd.array(["a", None], "string"), "string"),
        (pd.Series(["a", None], dtype=object), "string"),
        (pd.Categorical(["a", "b", None]), "string"),
        (pd.Categorical([1, 2]), "long"),
        (pd.to_datetime(["2020-01-01"]), "long"),
        (pd.to_datetime(["2020-01-01"]).as_unit("us"), "long"),
        (pd.to_datetime(["2020-01-01"]).tz_localize("America/New_York"), "long"),
        (pd.to_timedelta(["1s"]), "long"),
        ([date(2020, 1, 1), None], "long"),
        (pd.Series([1, None], dtype=object), "long"),
        (pd.Series([2**70], dtype=object), "biginteger"),
        (pd.Series([True, None], dtype=object), "boolean"),
        ([Decimal("1.5")], "bigdecimal"),
        ([{"a": 1}, None], "_x"),
        ([{1: 1}, {}, None], "map"),
        ([[1, 2], [3]], "long[]"),
        ([["a"], []], "string[]"),
        ([None, None], "object"),
        (pd.array([1], "int64[pyarrow]"), "long"),
        (pd.array([1.5], "double[pyarrow]"), "double"),
        (pd.array(["x"], "string[pyarrow]"), "string"),
        (pd.array([True], "bool[pyarrow]"), "boolean"),
        (pd.array([datetime(2020, 1, 1)], "timestamp[ms][pyarrow]"), "long"),
        (pd.array([date(2020, 1, 1)], "date32[pyarrow]"), "long"),
    ],
    ids=str,
)
def test_dtype_to_epl(values: Any, expected: str) -> None:
    assert kinds(pd.DataFrame({"x": values})) == {"x": expected}


def test_columns_keep_order_and_odd_names() -> None:
    frame = pd.DataFrame({"b": [1], "air time": [2.0], "select": ["x"]})
    assert list(frame_properties(frame)) == ["b", "air time", "select"]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "column `a` twice"),
        (pd.DataFrame([[1, 2]]), "column 0 is not named by a text"),
        (pd.DataFrame({"ok": [1], "z": [1 + 2j]}), "column `z` has no EPL type: dtype complex128"),
        (pd.DataFrame({"z": pd.Series(["a", 1], dtype=object)}), "column `z` has no EPL type: .* int, str"),
        (pd.DataFrame({"z": pd.interval_range(0, 1)}), "column `z` has no EPL type"),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), "several levels"),
        (pd.DataFrame(), "has no columns"),
    ],
)
def test_frames_that_have_no_event_type(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        frame_properties(frame)


@dataclass
class Place:
    name: str
    altitude: float | None


@dataclass
class Reading:
    sensor: str
    at: datetime
    gap: timedelta
    place: Place
    values: list[float]
    anything: Any
    counts: list[int] | None = None


class Trade(TypedDict):
    symbol: str
    price: float
    size: int
    good: bool


def test_dataclass_defines_its_nested_types_first() -> None:
    place, reading = infer_event_types("Reading", Reading, {}, time="at")
    assert place == EventType("Place", {"name": STRING, "altitude": DOUBLE})
    assert reading.properties == {
        "sensor": STRING, "at": LONG, "gap": LONG, "place": event_of("Place"), "values": array_of(DOUBLE),
        "anything": OBJECT, "counts": array_of(LONG),
    }  # fmt: skip
    assert reading.time_property == "at"


def test_typed_dict() -> None:
    (trade,) = infer_event_types("Trade", Trade, {})
    assert trade.properties == {"symbol": STRING, "price": DOUBLE, "size": LONG, "good": BOOLEAN}


def test_dict_of_types_and_texts_with_inheritance() -> None:
    known = {"Base": EventType("Base", {"id": LONG}, ("Root",))}
    source = {"a": "int", "b": "double[]", "c": str, "d": "Base", "e": np.int32}
    (inferred,) = infer_event_types("Derived", source, known, inherits=["Base"])
    assert inferred.properties == {
        "id": LONG, "a": INT, "b": array_of(DOUBLE), "c": STRING, "d": event_of("Base"), "e": INT,
    }  # fmt: skip
    assert inferred.supertypes == ("Base", "Root")


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ({"a": "strin"}, {}, "(?s)no type `strin`.*did you mean `string`"),
        ({"a": int | str}, {}, "`T.a`: .* has no EPL type"),
        ({"a": ["int"]}, {}, "`T.a`: .* has no EPL type"),
        ({"a": bytes}, {}, "`T.a`: bytes has no EPL type"),
        ({"a": int}, {"time": "at"}, "no property `at` for its time"),
        ({"a": "boolean"}, {"time": "a"}, "`a` of `T` is boolean; a time is"),
        ({"a": int}, {"inherits": ["Nowhere"]}, "no event type `Nowhere` to inherit"),
        (42, {}, "cannot be made from int"),
    ],
)
def test_sources_that_define_nothing(source: object, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        infer_event_types("T", source, {}, **options)


def test_an_inherited_property_keeps_its_type() -> None:
    known = {"Base": EventType("Base", {"a": LONG}), "Other": EventType("Other", {"a": STRING})}
    (same,) = infer_event_types("Sub", {"a": "long", "b": "int"}, known, inherits=("Base",))
    assert same.properties == {"a": LONG, "b": INT}
    assert repr(same) == "<event type Sub(a long, b int) inherits Base>"
    with pytest.raises(UsageError, match="property `a` of `Sub` is string, and long in `Base`"):
        infer_event_types("Sub", {"a": "string"}, known, inherits=("Base",))
    with pytest.raises(UsageError, match="property `a` of `Sub` is long, and string in `Other`"):
        infer_event_types("Sub", {"b": "int"}, known, inherits=("Base", "Other"))
