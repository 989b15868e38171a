"""A run on Spark as a side of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cepbook.spark.comparison.sides import ComparedSide
from cepbook.spark.comparison.typed_rows import (
    StatementRows,
    column_of_arrow,
    delivery_times,
    remove_mask,
    typed_column,
    value_families,
)
from cepbook.spark.execution.spark_run import SparkRun


class SparkSide(ComparedSide):
    """The rows of a finished run; every call computes what Spark does not keep."""

    def __init__(self, run: SparkRun) -> None:
        self._run = run
        self.second = run.second

    @property
    def statements(self) -> Sequence[str]:
        return list(self._run.statements)

    def rows(self, name: str, second: int) -> StatementRows:
        run = self._run
        table, column_names = run.delivered(name), run.columns(name)
        columns = {own: column_of_arrow(table.column(there)) for own, there in column_names.items()}
        for own, read in run.readers(name).items():
            columns[own] = typed_column([None if value is None else read(value) for value in columns[own].plain()])
        floats = (own for own, there in column_names.items() if str(table.schema.field(there).type) == "float")
        return StatementRows(
            delivery_times(table, second),
            remove_mask(table),
            columns,
            column_families=value_families(run.types(name)),
            float32_columns=frozenset(floats),
            order="" if run.certain else run.order,
        )

    def failures(self) -> Mapping[str, int]:
        return Counter(self._run.errors()["statement"].tolist())

    def feeders(self, name: str) -> Sequence[str]:
        return self._run.feeders.get(name, ())
