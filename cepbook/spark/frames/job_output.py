"""What a job on Spark delivers, until somebody asks for some of it: rows, and how these tell what `DELIVERY_COLUMNS`
names.

Who asks gets a selection of what he asks for and nothing between, because Spark plans step by step: for small frames
that is most of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.stream_columns import DELIVERY_COLUMNS, Sql, sql_literal


@dataclass(frozen=True, slots=True)
class JobOutput:
    """`rows` of statements, and failures of these and of what feeds them. `about` says for each column of
    `DELIVERY_COLUMNS` what
    it is of such a row, `values` for each statement what its columns are. One that cannot be `failing` has rows of one
    statement alone; with `alone` they have nothing but its columns, under their names or what `values` says.
    """

    rows: SqlQuery
    about: Mapping[str, Sql]
    values: Sequence[Sequence[Sql]]
    failing: bool = True
    alone: bool = False

    def only(self, name: str) -> Sql:
        """What is true of the rows of the statement `name`, and of no other and no failure."""
        if not self.failing:
            return "TRUE"
        fine = f"{self.about['error']} IS NULL"
        return fine if len(self.values) == 1 else f"{self.about['statement']} = {sql_literal(name)} AND {fine}"

    def rows_of(self, name: str) -> SqlQuery:
        """These rows."""
        return self.rows.where(self.only(name)) if self.failing else self.rows


OutputFactory = Callable[[Collection[str]], JobOutput]
"""Gives what a job delivers, to who says which names of `DELIVERY_COLUMNS` he asks for."""


def constant_output(output: JobOutput) -> OutputFactory:
    """This output, whatever is asked for."""
    return lambda about: output


def task_output(rows: SqlQuery, program: TaskProgram, about: Mapping[str, Sql] | None = None) -> JobOutput:
    """The output of tasks, with a struct for each statement (`hosted.output_schema`), and `DELIVERY_COLUMNS` unless
    `about` says
    what there is in its place.
    """
    values = [[f"s{number}.c{i}" for i in range(len(of.properties))] for number, (_, of) in enumerate(program.outputs)]
    return JobOutput(rows, about or {column: column for column, _ in DELIVERY_COLUMNS}, values)
