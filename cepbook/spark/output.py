"""What a job on Spark delivers, until somebody asks for some of it: rows, and how these tell what `META` names.

Who asks gets a selection of what he asks for and nothing between, because Spark plans step by step: for small frames
that is most of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cepbook.spark.names import META, text

if TYPE_CHECKING:
    from cepbook.spark.casts import Sql
    from cepbook.spark.derived import Derived
    from cepbook.spark.hosted import Program


@dataclass(frozen=True, slots=True)
class Output:
    """`rows` of statements, and failures of these and of what feeds them. `about` says for each column of `META` what
    it is of such a row, `values` for each statement what its columns are. One that cannot be `failing` has rows of one
    statement alone; with `alone` they have nothing but its columns, under their names or what `values` says.
    """

    rows: Derived
    about: Mapping[str, Sql]
    values: Sequence[Sequence[Sql]]
    failing: bool = True
    alone: bool = False

    def only(self, name: str) -> Sql:
        """What is true of the rows of the statement `name`, and of no other and no failure."""
        if not self.failing:
            return "TRUE"
        fine = f"{self.about['error']} IS NULL"
        return fine if len(self.values) == 1 else f"{self.about['statement']} = {text(name)} AND {fine}"

    def rows_of(self, name: str) -> Derived:
        """These rows."""
        return self.rows.where(self.only(name)) if self.failing else self.rows


Asked = Callable[[Collection[str]], Output]
"""Gives what a job delivers, to who says which names of `META` he asks for."""


def always(output: Output) -> Asked:
    """This output, whatever is asked for."""
    return lambda about: output


def told(rows: Derived, program: Program, about: Mapping[str, Sql] | None = None) -> Output:
    """The output of tasks, with a struct for each statement (`hosted.output_schema`), and `META` unless `about` says
    what there is in its place.
    """
    values = [[f"s{number}.c{i}" for i in range(len(of.properties))] for number, (_, of) in enumerate(program.outputs)]
    return Output(rows, about or {column: column for column, _ in META}, values)
