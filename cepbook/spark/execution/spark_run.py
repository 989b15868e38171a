"""What a run on Spark gives: a DataFrame for each statement, and how each statement was run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from cepbook.display import DisplayTable, captioned_html
from cepbook.errors import UsageError
from cepbook.lang.types import Type
from cepbook.spark.execution.spark_actions import run_action
from cepbook.spark.frames.job_output import JobOutput, OutputFactory, constant_output
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.frames.tagged_stream import union
from cepbook.spark.lazy_types import PandasFrame
from cepbook.spark.plan.placement import Placement
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.stream_columns import DELIVERY_COLUMN_NAMES, VISIBLE_COLUMNS, Sql, sql_literal
from cepbook.spark.task.type_mapping import ValueConverter, quote_identifier, unique_names, value_reader

_ORDER = ("sequence", "trigger", "delivery", "kind")
_FAILURE = ["statement", "time", "sequence", "error"]


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What a batch ran over, see `cepbook.spark.run`, and by statement the names of all that feeds it."""

    frames: Mapping[str, Any]
    time: str | Mapping[str, str] | None
    sequence: str | Mapping[str, str] | None
    until: int | None
    feeders: Mapping[str, tuple[str, ...]]


class SparkRun:
    """The rows that the statements deliver over the given frames, computed when they are asked for.

    A job that serves several statements keeps what it computed; one for a single statement computes anew each time
    (`cepbook.spark.run`, `persist`).

    Each row of a statement's DataFrame has

    - ``statement``, and ``time``: the clock at delivery (ms);
    - ``sequence``: position in the total order of the event that was being replayed; `trigger` says whether the rows
      are due to the event itself (``"event"``) or to the advance of the clock before it (``"clock"``). The advance
      to `until` is numbered behind the last event;
    - ``delivery``: number of the statement's delivery within that stimulus, from 0 (counted in each task);
    - ``kind``: ``"insert"`` or ``"remove"``;
    - the statement's columns. One that bears a name from above (or differs from another in case only) gets a ``_``.

    `coverage` says for each statement how it was run and why, `order` how events of one time were ordered; unless
    `certain` they may come otherwise another time. `given` is what a batch ran over, of streams None.
    """

    def __init__(
        self,
        session: SparkSession,
        jobs: Sequence[tuple[TaskProgram, OutputFactory]],
        coverage: Mapping[str, Placement],
        order: str,
        *,
        certain: bool = True,
        persist: bool | None = None,
        given: RunInputs | None = None,
    ) -> None:
        self.session = session
        self.given = given
        self.coverage = coverage
        self.order = order
        self.certain = certain
        self._persisted: list[DataFrame] = []
        found = []
        for program, asked in jobs:
            if persist or (persist is None and len(program.outputs) > 1):
                output = asked(DELIVERY_COLUMN_NAMES)
                self._persisted.append(output.rows.frame.persist())
                asked = constant_output(replace(output, rows=SqlQuery(self._persisted[-1])))
            found.append((program, asked))
        self._jobs = tuple(found)
        self._failures: dict[int, pa.Table] = {}
        self._found: dict[str, tuple[int, int, tuple[str, ...]]] = {}
        for job, (program, _) in enumerate(self._jobs):
            for number, (name, event_type) in enumerate(program.outputs):
                self._found[name] = (job, number, tuple(event_type.properties))
        self.statements = tuple(name for name in coverage if name in self._found)

    @property
    def second(self) -> int:
        """How many units of the clock a second has."""
        return self._jobs[0][0].config.second

    @property
    def frames(self) -> Mapping[str, DataFrame]:
        """Statement name -> its DataFrame."""
        return {name: self.frame(name) for name in self.statements}

    def columns(self, name: str, about: Sequence[str] = VISIBLE_COLUMNS) -> dict[str, str]:
        """The statement's columns: name in EPL -> name in the DataFrame, behind those that are `about` the rows."""
        own = self._find(name)[2]
        return dict(zip(own, unique_names(own, about), strict=True))

    def types(self, name: str) -> dict[str, Type]:
        """The EPL types of the statement's columns, by their names in EPL."""
        program, number = next((p, i) for p, _ in self._jobs for i, (n, _) in enumerate(p.outputs) if n == name)
        return dict(program.outputs[number][1].properties)

    def mark(self, name: str) -> str:
        """Of a stream's statement: what its state bears."""
        return next(p.mark for p, _ in self._jobs for n, _ in p.outputs if n == name)

    def readers(self, name: str) -> dict[str, ValueConverter]:
        """Of the statement's columns (by their names in EPL) whose values Spark has in another form, the way back."""
        program, number = next((p, i) for p, _ in self._jobs for i, (n, _) in enumerate(p.outputs) if n == name)
        found = ((c, value_reader(t, program.nested)) for c, t in program.outputs[number][1].properties.items())
        return {column: read for column, read in found if read is not None}

    def frame(
        self, name: str, observed: str | Observation | None = None, *, about: Sequence[str] = VISIBLE_COLUMNS
    ) -> DataFrame:
        """The rows of one statement, in no particular order (sort by sequence, trigger, delivery).

        Of what is told of each row before the statement's own columns `about` says what is wanted; with ``about=()``
        there are these alone, which costs the least. Errors: UsageError for something else.

        Who writes them may have Spark count them, and the failures, on the way: as the metrics `observed`, which are
        rows, failures, the first of these, and its time (ms). Those of what only feeds statements are among the
        failures of one of these.
        """
        check_about_columns(about)
        job, number, _ = self._find(name)
        output = self._output(job, about if observed is None else (*about, "time"))
        if observed is not None:
            others = () if number else self._jobs[job][0].others
            mine = " OR ".join(f"{output.about['statement']} = {sql_literal(each)}" for each in (name, *others))
            error = F.expr(f"CASE WHEN {mine} THEN {output.about['error']} END")
            at = F.when(error.isNotNull(), F.expr(output.about["time"]))
            counts = F.count_if(F.expr(output.only(name))).alias("rows"), F.count(error).alias("failures")
            first = F.min_by(error, at).alias("first"), F.min(at).alias("at")
            output = replace(output, rows=SqlQuery(output.rows.frame.observe(observed, *counts, *first)))
        names = self.columns(name, about).values()
        if output.alone and not about and output.values[number] == [quote_identifier(each) for each in names]:
            return output.rows.frame
        own = zip(output.values[number], names, strict=True)
        return (
            output.rows_of(name).select(*_told(output, about), *(f"{v} AS {quote_identifier(c)}" for v, c in own)).frame
        )

    def union(self) -> DataFrame:
        """The rows of all statements, their own columns as one JSON text ``columns``."""
        parts = []
        for name in self.statements:
            job, number, own = self._find(name)
            output = self._output(job, VISIBLE_COLUMNS)
            values = zip(output.values[number], unique_names(own, ()), strict=True)
            row = F.to_json(F.struct(*(F.expr(v).alias(c) for v, c in values)), {"ignoreNullFields": "false"})
            about = (F.expr(output.about[each]).alias(each) for each in VISIBLE_COLUMNS)
            parts.append(output.rows_of(name).frame.select(*about, row.alias("columns")))
        return union(parts)

    def failures(self) -> DataFrame:
        """Failures of statements at run time, of what feeds them, and events that came too late, as a DataFrame:
        statement, time, …
        """
        return union([_failed(self._output(job, _FAILURE)) for job in range(len(self._jobs))])

    def to_arrow(self, name: str) -> pa.Table:
        """The rows of one statement in the order of delivery. Null and NaN are kept apart."""
        number = self._find(name)[0]
        self._check_end()
        rows, row, error = self._rows(name, failures=number not in self._failures)
        table = run_action(rows.toArrow, self.session)
        if number not in self._failures:  # they came along, so that nothing is computed twice for them
            failed = pc.is_valid(table.column(error))
            self._failures[number] = table.filter(failed).select([*_FAILURE[:-1], error]).rename_columns(_FAILURE)
            table = table.filter(pc.invert(failed))
        table = table.sort_by([(column, "ascending") for column in (*_ORDER, row)])
        return table.drop_columns([row, error])

    def to_pandas(self, name: str) -> PandasFrame:
        """As `to_arrow`, as a pandas DataFrame (which shows null numbers as NaN)."""
        frame: PandasFrame = self.to_arrow(name).to_pandas()
        return frame

    def errors(self) -> PandasFrame:
        """Failures of statements at run time, and of what feeds them: statement, time, sequence, error.

        They end nothing, as in a notebook.
        """
        self._check_end()
        for number in range(len(self._jobs)):
            if number not in self._failures:
                failed = _failed(self._output(number, _FAILURE))
                self._failures[number] = run_action(failed.toArrow, self.session)
        table = pa.concat_tables(self._failures.values(), promote_options="default")
        found: PandasFrame = table.sort_by("sequence").to_pandas()
        return found

    def close(self) -> None:
        """Give back the memory that Spark holds for the rows; they are computed again when asked for."""
        for frame in self._persisted:
            frame.unpersist()

    def __repr__(self) -> str:
        lines = [f"{name}: {p.path} ({p.reason})" for name, p in self.coverage.items()]
        return "\n".join(["SparkRun", *(f"  {line}" for line in lines), f"  {self.order}"])

    def _repr_html_(self) -> str:
        rows = tuple((name, p.path, p.reason) for name, p in self.coverage.items())
        return captioned_html("", DisplayTable(("statement", "on Spark", "because"), (False,) * 3, rows), (self.order,))

    def _check_end(self) -> None:
        """Raise `UsageError` where rows can only be written as they come."""
        if self.given is None:
            raise UsageError(
                "the rows of a stream have no end\n"
                "  hint: write them with `frame(name).writeStream` (failures: `failures()`), and read what was written"
            )

    def _output(self, job: int, about: Collection[str]) -> JobOutput:
        """What the job of this number delivers, told what is `about` it."""
        return self._jobs[job][1](about)

    def _find(self, name: str) -> tuple[int, int, tuple[str, ...]]:
        """The number of the statement's job, that of its rows in what this delivers, and the columns."""
        if name not in self._found:
            raise UsageError(f"the run has no statement {name}; it has {', '.join(self.statements)}")
        return self._found[name]

    def _rows(self, name: str, failures: bool) -> tuple[DataFrame, str, str]:
        """The rows of a statement, on request with the failures of all statements of its job, and the names of the
        columns that hold a row's place in its delivery and the text of a failure.
        """
        job, number, _ = self._find(name)
        output = self._output(job, DELIVERY_COLUMN_NAMES)
        shown = list(self.columns(name).values())
        row, error = unique_names(("row", "error"), (*VISIBLE_COLUMNS, *shown))
        about = (
            *_told(output, VISIBLE_COLUMNS),
            f"{output.about['row']} AS {row}",
            f"{output.about['error']} AS {error}",
        )
        values = (f"{v} AS {quote_identifier(c)}" for v, c in zip(output.values[number], shown, strict=True))
        rows = output.rows_of(name)
        if failures and output.failing:
            rows = output.rows.where(f"({output.only(name)}) OR {output.about['error']} IS NOT NULL")
        return rows.select(*about, *values).frame, row, error


def check_about_columns(about: Sequence[str]) -> None:
    """Raise `UsageError` for what is not told of rows."""
    given = (about,) if isinstance(about, str) else tuple(about)
    wrong = next((each for each in given if each not in VISIBLE_COLUMNS or given.count(each) > 1), None)
    if wrong is not None:
        twice = wrong in VISIBLE_COLUMNS
        what = f"asks twice for {wrong!r}" if twice else f"{wrong!r} is not among what is told of rows"
        raise UsageError(
            f"about={about!r}: {what}\n  hint: it may name {', '.join(VISIBLE_COLUMNS)}, each once; () is none"
        )
    if isinstance(about, str):
        raise UsageError(f"`about` is a list of names, not {about!r}\n  hint: about=({about!r},)")


def _told(output: JobOutput, columns: Sequence[str]) -> list[Sql]:
    """Columns of `DELIVERY_COLUMNS`, selected."""
    return [f"{output.about[column]} AS {column}" for column in columns]


def _failed(output: JobOutput) -> DataFrame:
    """The failures among what a job delivers."""
    return output.rows.where(f"{output.about['error']} IS NOT NULL").select(*_told(output, _FAILURE)).frame
