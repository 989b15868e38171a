"""The output of a Spark job, before a caller asks for columns: rows, and SQL for the metadata of each row.

A caller gets a single selection of the columns that it asks for. Spark plans step by step, and for small frames
planning is most of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.stream_columns import DELIVERY_COLUMNS, Sql, sql_literal

_HINT = '\n  hint: errors="keep" returns the other rows, and SparkRun.errors() lists the failures'


@dataclass(frozen=True, slots=True)
class JobOutput:
    """Rows of statements, and failures of these and of the statements that feed them.

    `about` has by name of `DELIVERY_COLUMNS` the SQL for a row, `values` by statement the SQL of its columns. An output
    that cannot be `failing` has rows of one statement only; one that is `alone` has only its columns, named as `values`
    says.
    """

    rows: SqlQuery
    about: Mapping[str, Sql]
    values: Sequence[Sequence[Sql]]
    failing: bool = True
    alone: bool = False

    def only(self, name: str) -> Sql:
        """Return the condition for rows of the statement `name`: no other statement and no failure."""
        if not self.failing:
            return "TRUE"
        fine = f"{self.about['error']} IS NULL"
        return fine if len(self.values) == 1 else f"{self.about['statement']} = {sql_literal(name)} AND {fine}"

    def rows_of(self, name: str, required: Collection[str] = ()) -> SqlQuery:
        """Return the rows of the statement `name`. To read them is an error if one of the `required` statements failed
        on an event.
        """
        if not self.failing:
            return self.rows
        only, error, statement = self.only(name), self.about["error"], self.about["statement"]
        if not required:
            return self.rows.where(only)
        names = ", ".join(map(sql_literal, required))
        text = f"concat({error}, {sql_literal(_HINT)})"
        return self.rows.where(
            f"CASE WHEN {error} IS NOT NULL AND {statement} IN ({names}) THEN CAST(raise_error({text}) AS BOOLEAN) "
            f"ELSE {only} END"
        )


OutputFactory = Callable[[Collection[str]], JobOutput]
"""Makes the output of a job for a caller that needs the `DELIVERY_COLUMNS` of these names."""


def constant_output(output: JobOutput) -> OutputFactory:
    """Return a factory that gives this output, whatever a caller asks for."""
    return lambda about: output


def task_output(rows: SqlQuery, program: TaskProgram, about: Mapping[str, Sql] | None = None) -> JobOutput:
    """Return the output of tasks: a struct per statement (`output_schema`), and `DELIVERY_COLUMNS` or what `about`
    gives.
    """
    values = [[f"s{number}.c{i}" for i in range(len(of.properties))] for number, (_, of) in enumerate(program.outputs)]
    return JobOutput(rows, about or {column: column for column, _ in DELIVERY_COLUMNS}, values)
