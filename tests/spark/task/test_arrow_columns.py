"""The columns of a task's events tell what Python tells, or nothing; and values are made of those alone that pass."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepbook.engine.runtime import Runtime
from cepbook.engine.subscriptions.filter_index import IndexCondition
from cepbook.engine.vectorized.array_columns import ArrayColumn, RowSelection
from cepbook.lang.types import BOOLEAN, CHAR, DOUBLE, FLOAT, INT, LONG, STRING, Type
from cepbook.spark.execution.execution import single_statement_program
from cepbook.spark.task import arrow_columns
from cepbook.spark.task.stream_columns import SEQ, TAG, TIME
from cepbook.spark.task.task_runner import task_function
from cepbook.spark.task.type_mapping import from_array

OPERATORS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
whole = st.integers(-3, 3) | st.sampled_from([2**31 - 1, -(2**31)])
large = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1])
single = st.floats(width=32) | st.sampled_from([0.5, -0.0, math.inf])
texts = st.sampled_from(["a", "b", "", "c"])
KINDS: Sequence[tuple[Type, pa.DataType, st.SearchStrategy[Any]]] = (
    (INT, pa.int32(), whole),
    (LONG, pa.int64(), whole | large),
    (FLOAT, pa.float32(), single),
    (DOUBLE, pa.float64(), st.floats() | single),
    (BOOLEAN, pa.bool_(), st.booleans()),
    (STRING, pa.string(), texts),
    (CHAR, pa.string(), texts.filter(bool)),
)
constants = whole | large | single | st.floats() | st.booleans() | texts | st.sampled_from([0.1, 10**30])
# few of many, as well: they are coded then
columns = st.sampled_from(KINDS).flatmap(
    lambda kind: st.tuples(
        st.just(kind), st.lists(st.none() | kind[2], min_size=1, max_size=12), st.sampled_from([1, 5])
    )
)


@given(columns, st.sampled_from([*OPERATORS]), st.lists(constants, min_size=1, max_size=2), st.data())
def test_what_a_column_tells_is_what_python_tells(
    given_: tuple[Any, list[Any], int], op: str, wanted: list[Any], data: st.DataObject
) -> None:
    (of, arrow, _), values, times = given_
    array = pa.array(values * times, arrow)
    expected = from_array(array, of, {})
    column = arrow_columns.engine_column(array, of, {})
    condition = IndexCondition("x", op, tuple(wanted[:1] if op != "=" else wanted))
    places = data.draw(st.lists(st.integers(0, len(array) - 1), unique=True).map(sorted))
    for part, own in (
        (slice(0, len(array)), expected),
        (slice(1, None), expected[1:]),
        (np.array(places, int), [expected[at] for at in places]),
    ):
        found = column.take(part)
        assert list(map(repr, found)) == list(map(repr, own))  # the same kinds, NaN and -0.0 among them
        told = column.meets(part, condition)
        if told is not None:
            meets = (v is not None and any(OPERATORS[op](v, each) for each in condition.values) for v in own)
            assert told.tolist() == [*meets]


SCHEMA = "create schema Tick(ts long, symbol string, price double, volume int, note string);"
PASSING = (
    "select note, price from Tick(price > 95)",
    "select a.note as n, b.volume as v from pattern [every a=Tick(price > 95) -> b=Tick(volume = 3)]",
    "select symbol, count(*) as n from Tick(price > 95, symbol = 'S1')#length(3) group by symbol",
)


@pytest.mark.parametrize("epl", PASSING)
def test_values_are_made_of_events_that_pass(epl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime()
    runtime.deploy(f"{SCHEMA} @name('q') {epl}")
    program = single_statement_program(runtime, "q")[0]
    rng = np.random.default_rng(3)
    values = {
        "ts": pa.array(range(2000)),
        "symbol": pa.array([f"S{i % 4}" for i in range(2000)]),
        "price": pa.array(np.round(rng.random(2000) * 100, 1)),
        "volume": pa.array(rng.integers(0, 200, 2000).astype("int32"), mask=rng.random(2000) < 0.1),
        "note": pa.array([None if i % 9 == 0 else f"note {i}" for i in range(2000)]),
    }
    ((tag, _, properties, read),) = program.inputs
    about = {TIME: values["ts"], SEQ: values["ts"], TAG: pa.array([tag] * 2000, pa.int32())}
    given_ = {column: values[p] for p, column in zip(properties, read, strict=True)}
    batch = pa.RecordBatch.from_pydict(about | given_)
    made: list[int] = []

    class Watched:
        def __init__(self, column: ArrayColumn) -> None:
            self.column = column
            self.meets = column.meets

        def take(self, part: RowSelection) -> list[Any]:
            found = self.column.take(part)
            made.append(len(found))
            return found

    column_of = arrow_columns.engine_column
    monkeypatch.setattr(arrow_columns, "engine_column", lambda *given_: Watched(column_of(*given_)))
    delivered = [row for out in task_function(program)([batch]) for row in out.to_pylist()]
    expected = []
    runtime.statement("q").add_listener(lambda delta: expected.extend((delta.time, row) for row in delta.insert or ()))
    for row in pa.table(values).to_pylist():
        runtime.advance(row["ts"])
        runtime.send("Tick", row)
    assert [(row["time"], [*row["s0"].values()]) for row in delivered] == [
        (at, [*row.values()]) for at, row in expected
    ]
    assert len(expected) > 10
    assert made and max(made) < 200, made
