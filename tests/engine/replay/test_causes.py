"""A sink that wants to know what the deliveries of a slice are due to, beside one that does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cepbook import Workbench
from cepbook.engine.delivery.delta import CAUSE_FACTOR, CauseKey, DeliveryCauses, Record, Row
from cepbook.engine.delivery.delta import InsertColumns as Columns
from cepbook.engine.vectorized.column_batch import ColumnBatch


class Plain:
    def __init__(self) -> None:
        self.width = 0
        self.flat: list[Any] = []

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row]) -> None:
        self.width = 2 + (1 if columns is None else len(columns))

    def one(self, record: Record) -> None:
        self.flat += record

    def extend(self, flat: list[Any]) -> None:
        self.flat += flat


class Tracing(Plain):
    """Rows as those of `Plain`, and (place, phase) of each delivery's cause."""

    def __init__(self) -> None:
        super().__init__()
        self.causes: list[CauseKey] = []

    def traced(self, flat: list[Any], causes: DeliveryCauses) -> None:
        marks = flat[:: self.width]
        self.causes += [causes[mark // CAUSE_FACTOR] for mark in marks if not mark % 2]
        assert all(mark < CAUSE_FACTOR for mark in marks if mark % 2)
        self.flat += flat
        self.flat[-len(flat) :: self.width] = [mark % CAUSE_FACTOR for mark in marks]

    def traced_columns(self, plain: Columns, numbers: Sequence[int], causes: DeliveryCauses) -> None:
        self.causes += [causes[number] for number in numbers]
        self.flat += plain.flat


SLICE = ColumnBatch("A", [10, 10, 30, 2000], {"k": ["a", "b", "a", "a"], "x": [1, 2, 3, 4]})


@pytest.mark.parametrize(
    ("epl", "causes"),
    [
        ("@name('s') select k, x from A(k = 'a')", [(0, 1), (2, 1), (3, 1)]),
        ("@name('s') select irstream x from A#length(2)", [(0, 1), (1, 1), (2, 1), (3, 1)]),
        ("@name('s') select irstream x from A#time(1 sec)", [(0, 1), (1, 1), (2, 1), (3, 0), (3, 1)]),
        ("@name('s') select sum(x) as s from A#length_batch(2)", [(1, 1), (3, 1)]),
        ("insert into B select x from A(x > 1); @name('s') select x from B", [(1, 1), (2, 1), (3, 1)]),
        ("insert rstream into B select rstream x from A#time(1 sec); @name('s') select x from B", [(3, 0)] * 3),
        ("@name('s') select a.x as x from pattern [every a=A(k = 'a') -> A(x = 4)]", [(3, 1)]),
        ("create context C partition by k from A; @name('s') context C select x from A", [(i, 1) for i in range(4)]),
        ("@name('s') insert rstream into B select irstream x from A#length(1)", [(0, 1), (1, 1), (2, 1), (3, 1)]),
    ],
)  # fmt: skip
def test_what_deliveries_of_a_slice_are_due_to(epl: str, causes: list[tuple[int, int]]) -> None:
    flats = []
    for tracing in (True, False):
        cep = Workbench()
        cep.run(f"create schema A(k string, x int); {epl}")
        statement = cep.runtime.statements["s"]
        plain, traced = Plain(), Tracing()
        statement.add_sink(plain)
        if tracing:
            statement.add_sink(traced)
        cep.runtime.batch(["A"]).run([SLICE])
        flats.append(plain.flat)
        if tracing:
            assert [key[:2] for key in traced.causes] == causes
            assert traced.flat == plain.flat
    assert flats[0] == flats[1] != []
