"""Arrays of kernels become Arrow arrays, as the lists of their values would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.errors import EventError
from cepbook.lang.types import Type
from cepbook.spark.task import delivery_columns
from cepbook.spark.task.delivery_columns import delivered_array
from cepbook.spark.task.type_mapping import to_array, type_mapping_of

SOME = np.array([False, True, False, False])
WHOLE = np.array([1, -7, 2**31 - 1, 0])
WORDS = np.array(["b", "", "ä", None], object)
FITTING = {
    "long": ArrayValues(WHOLE),
    "int": ArrayValues(WHOLE.astype(np.int32), SOME),
    "double": ArrayValues(np.array([0.1, np.nan, -0.0, np.inf]), SOME),
    "float": ArrayValues(np.array([0.1, np.nan, -0.0, 1e300])),
    "boolean": ArrayValues(SOME, ~SOME),
    "string": ArrayValues(np.array([2, -1, 0, -4]), texts=WORDS),
    "char": ArrayValues(np.array([0, 1, 2, 3], np.uint8), SOME, WORDS),
}


def of_lists(values: ArrayValues, of: str) -> pa.Array:
    return to_array(values.tolist(), type_mapping_of(Type(of), {}), "q.p")


@pytest.mark.parametrize("of", FITTING)
def test_arrays_need_no_lists(of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = of_lists(FITTING[of], of)
    monkeypatch.setattr(delivery_columns, "to_array", None)
    found = delivered_array(FITTING[of], type_mapping_of(Type(of), {}), "q.p")
    assert found.type == expected.type
    assert found.null_count == expected.null_count
    assert repr(found.to_pylist()) == repr(expected.to_pylist())  # NaN is NaN, and -0.0 not 0.0


@pytest.mark.parametrize(
    ("of", "values"),
    [
        ("int", ArrayValues(WHOLE + 2**40)),
        ("double", ArrayValues(np.array([2**53 + 1]))),
        ("boolean", ArrayValues(WHOLE)),
        ("string", ArrayValues(WHOLE)),
        ("string", ArrayValues(np.array([0, 1]), texts=np.array(["a", 3, None], object))),
        ("long", ArrayValues(np.array([2**63], np.uint64))),
    ],
)
def test_what_does_not_fit_fails_as_in_lists(of: str, values: ArrayValues) -> None:
    def message(make: Any, *more: str) -> str:
        with pytest.raises(EventError, match="does not fit the declared type") as failure:
            make(values, *more)
        return str(failure.value)

    shape = type_mapping_of(Type(of), {})
    assert message(lambda v: delivered_array(v, shape, "q.p")) == message(lambda v: of_lists(v, of))


def test_converted_types_go_by_values() -> None:
    values = ArrayValues(WHOLE, SOME)
    shape = type_mapping_of(Type("biginteger"), {})
    assert delivered_array(values, shape, "q.p").equals(to_array(values.tolist(), shape, "q.p"))
