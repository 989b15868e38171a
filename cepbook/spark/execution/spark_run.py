"""The result of a run on Spark: a DataFrame per statement, and how each statement ran."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from cepbook.display import DisplayTable, captioned_html, format_count
from cepbook.errors import ErrorPolicy, ReplayError, StatementError, UsageError
from cepbook.lang.types import Type
from cepbook.lazy_imports import PandasFrame
from cepbook.spark.execution.spark_actions import run_action
from cepbook.spark.frames.job_output import JobOutput, OutputFactory, constant_output
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.frames.tagged_stream import TaggedStream, union
from cepbook.spark.plan.placement import Placement
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.stream_columns import DELIVERY_COLUMN_NAMES, VISIBLE_COLUMNS, Sql, sql_literal
from cepbook.spark.task.type_mapping import ValueConverter, quote_identifier, unique_names, value_reader

_DELIVERY_ORDER = ("time", "sequence", "trigger", "delivery", "kind")
_FAILURE = ["statement", "time", "sequence", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The inputs and options of `cepbook.spark.run` and `stream`, under their names there."""

    frames: Mapping[str, Any]
    time: str | Mapping[str, str] | None = None
    sequence: str | Mapping[str, str] | None = None
    statements: Sequence[str] | None = None
    start: int | None = None
    until: int | None = None
    session: SparkSession | None = None
    leap: bool = False
    errors: ErrorPolicy = "raise"


class OutputPlace(NamedTuple):
    """The place of the rows of a statement: the number of the job, of the output in that job, and the columns."""

    job: int
    output: int
    columns: tuple[str, ...]


class SparkRun:
    """The rows that statements deliver over the frames of a run, computed when they are asked for.

    A job that serves several statements keeps what it computed; a job for a single statement computes anew each time
    (see `persist` of `cepbook.spark.run`). Each row of a statement's DataFrame has

    - ``statement``, and ``time``: the clock at delivery (ms);
    - ``sequence``: the position in the total order of the event that was replayed. ``trigger`` says whether the row
      is due to an event (``"event"``) or to the clock (``"clock"``). A row that is due to the clock has the position
      -1. With `leap` it has the position of the event that the clock leaps to. The final advance to `until` has the
      position after the last event;
    - ``delivery``: the number of the statement's delivery within that stimulus, from 0 (counted in each task);
    - ``kind``: ``"insert"`` or ``"remove"``;
    - the statement's columns. A name that repeats one of those above, in any case, gets a ``_``.

    `coverage` says by statement how it ran and why, `order` how events of one time were ordered. If `certain` is False,
    two runs may order such events differently. `request` has the inputs of a batch; it is None for a stream.
    """

    def __init__(
        self,
        session: SparkSession,
        jobs: Sequence[tuple[TaskProgram, OutputFactory]],
        coverage: Mapping[str, Placement],
        events: TaggedStream,
        *,
        persist: bool | None = None,
        request: RunRequest | None = None,
        feeders: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.session = session
        self.request = request
        self.feeders = feeders or {}
        self.coverage = coverage
        self.order = events.order
        self.certain = events.certain
        self._persisted: list[DataFrame] = []
        jobs_kept = []
        for program, factory in jobs:
            if persist or (persist is None and len(program.outputs) > 1):
                output = factory(DELIVERY_COLUMN_NAMES)
                self._persisted.append(output.rows.frame.persist())
                factory = constant_output(replace(output, rows=SqlQuery(self._persisted[-1])))
            jobs_kept.append((program, factory))
        self._jobs = tuple(jobs_kept)
        self._failures: dict[int, pa.Table] = {}
        self._places: dict[str, OutputPlace] = {}
        for job, (program, _) in enumerate(self._jobs):
            for number, (name, event_type) in enumerate(program.outputs):
                self._places[name] = OutputPlace(job, number, tuple(event_type.properties))
        self._reporting = _reporting([program for program, _ in self._jobs])
        self.statements = tuple(name for name in coverage if name in self._places)

    @property
    def second(self) -> int:
        """The number of clock units in a second."""
        return self._jobs[0][0].config.second

    @property
    def frames(self) -> Mapping[str, DataFrame]:
        """The DataFrame of each statement, by name."""
        return {name: self.frame(name) for name in self.statements}

    def columns(self, name: str, about: Sequence[str] = VISIBLE_COLUMNS) -> dict[str, str]:
        """Return the statement's columns: EPL name -> name in the DataFrame, which also has the columns `about` the
        rows.
        """
        names = self._find(name).columns
        return dict(zip(names, unique_names(names, about), strict=True))

    def types(self, name: str) -> dict[str, Type]:
        """Return the EPL types of the statement's columns, by EPL name."""
        place = self._find(name)
        return dict(self._program(place).outputs[place.output][1].properties)

    def fingerprint(self, name: str) -> str:
        """Return the fingerprint of the state of a statement of a stream."""
        return self._program(self._find(name)).fingerprint

    def readers(self, name: str) -> dict[str, ValueConverter]:
        """Return by EPL name the functions that restore values which Spark holds in another form."""
        nested = self._program(self._find(name)).nested
        readers = ((column, value_reader(of, nested)) for column, of in self.types(name).items())
        return {column: read for column, read in readers if read is not None}

    def frame(
        self, name: str, observed: str | Observation | None = None, *, about: Sequence[str] = VISIBLE_COLUMNS
    ) -> DataFrame:
        """Return the rows of one statement, in no particular order (sort by time, sequence, trigger, delivery).

        `about` names the metadata columns before the statement's own. ``about=()`` selects the statement's columns
        alone, which costs the least. Errors: UsageError for any other name.

        If a statement of a batch, or one that feeds it, failed on an event, reading the frame is an error of Spark that
        names the failure, unless the run has ``errors="keep"`` or failures are counted.

        With `observed` Spark counts while it computes, as metrics of that name: rows, failures, the first failure, and
        its time (ms). Failures of statements that only feed others are counted with one of those.
        """
        check_about_columns(about)
        job, number, _ = self._find(name)  # of the output in the job
        output = self._output(job, about if observed is None else (*about, "time"))
        if observed is not None:
            others = () if number else set(self._jobs[job][0].upstream).intersection(self._reporting[job])
            mine = " OR ".join(f"{output.about['statement']} = {sql_literal(feeder)}" for feeder in (name, *others))
            error = F.expr(f"CASE WHEN {mine} THEN {output.about['error']} END")
            at = F.when(error.isNotNull(), F.expr(output.about["time"]))
            counts = F.count_if(F.expr(output.only(name))).alias("rows"), F.count(error).alias("failures")
            first = F.min_by(error, at).alias("first"), F.min(at).alias("at")
            output = replace(output, rows=SqlQuery(output.rows.frame.observe(observed, *counts, *first)))
        names = self.columns(name, about).values()
        required = () if observed is not None else self._required(name)
        if output.alone and not about and output.values[number] == [quote_identifier(column) for column in names]:
            return output.rows.frame
        columns = zip(output.values[number], names, strict=True)
        return (
            output.rows_of(name, required)
            .select(*_metadata(output, about), *(f"{v} AS {quote_identifier(c)}" for v, c in columns))
            .frame
        )

    def union(self) -> DataFrame:
        """Return the rows of all statements; their own columns are one JSON text ``columns``."""
        parts = []
        for name in self.statements:
            job, number, names = self._find(name)
            output = self._output(job, VISIBLE_COLUMNS)
            values = zip(output.values[number], unique_names(names, ()), strict=True)
            row = F.to_json(F.struct(*(F.expr(v).alias(c) for v, c in values)), {"ignoreNullFields": "false"})
            about = (F.expr(output.about[name_]).alias(name_) for name_ in VISIBLE_COLUMNS)
            parts.append(output.rows_of(name, self._required(name)).frame.select(*about, row.alias("columns")))
        return union(parts)

    def failures(self) -> DataFrame:
        """Return a DataFrame of failures: of statements, of what feeds them, and late events.

        The columns are statement, time, sequence and error. `errors` collects them.
        """
        frames = []
        for job, names in enumerate(self._reporting):
            mine = F.col("statement").isin(names)
            frames.append(_failure_frame(self._output(job, _FAILURE)).where(mine))
        return union(frames)

    def to_arrow(self, name: str) -> pa.Table:
        """Return the rows of one statement in the order of delivery. Null and NaN are kept apart.

        Raises ReplayError, with the rows as its `result`, if the statement or one that feeds it failed on events,
        unless the run has ``errors="keep"``.
        """
        table = self.delivered(name)
        self._check_failures(name, table)
        return table

    def delivered(self, name: str) -> pa.Table:
        """Return the rows of `to_arrow`, whatever failed."""
        job = self._find(name).job
        self._check_finite()
        rows, row, error = self._rows(name, failures=job not in self._failures)
        table = run_action(rows.toArrow, self.session)
        if job not in self._failures:  # they came along, so that nothing is computed twice for them
            failed = pc.is_valid(table.column(error))
            self._failures[job] = table.filter(failed).select([*_FAILURE[:-1], error]).rename_columns(_FAILURE)
            table = table.filter(pc.invert(failed))
        table = table.sort_by([(column, "ascending") for column in (*_DELIVERY_ORDER, row)])
        return table.drop_columns([row, error])

    def to_pandas(self, name: str) -> PandasFrame:
        """Return the rows of `to_arrow` as a pandas DataFrame, which shows null numbers as NaN.

        A column of whole numbers with nulls has the type ``Int64`` if fractions would round one of them (beyond 2^53).
        Errors: as `to_arrow`, with the DataFrame as `result`.
        """
        table = self.delivered(name)
        frame: PandasFrame = table.to_pandas()
        for column in table.column_names:
            if _rounded_as_double(table.column(column)):
                frame[column] = table.column(column).to_pandas(types_mapper=lambda _: pd.Int64Dtype())
        self._check_failures(name, frame)
        return frame

    def errors(self) -> PandasFrame:
        """Return failures of statements at run time, and of what feeds them: statement, time, sequence, error."""
        self._check_finite()
        tables = []
        for job, names in enumerate(self._reporting):
            if job not in self._failures:
                self._failures[job] = run_action(_failure_frame(self._output(job, _FAILURE)).toArrow, self.session)
            tables.append(_failures_of(names, self._failures[job]))
        table = pa.concat_tables(tables, promote_options="default")
        errors: PandasFrame = table.sort_by([("time", "ascending"), ("sequence", "ascending")]).to_pandas()
        return errors

    def close(self) -> None:
        """Release the memory that Spark holds for the rows; they are computed again when asked for."""
        for frame in self._persisted:
            frame.unpersist()

    def __repr__(self) -> str:
        lines = [f"{name}: {p.path} ({p.reason})" for name, p in self.coverage.items()]
        return "\n".join(["SparkRun", *(f"  {line}" for line in lines), f"  {self.order}"])

    def _repr_html_(self) -> str:
        rows = tuple((name, p.path, p.reason) for name, p in self.coverage.items())
        return captioned_html("", DisplayTable(("statement", "on Spark", "because"), (False,) * 3, rows), (self.order,))

    def _check_finite(self) -> None:
        """Raise `UsageError` for the rows of a stream, which can only be written as they arrive."""
        if self.request is None:
            raise UsageError(
                "a stream has no end\n"
                "  hint: write them with `frame(name).writeStream` (failures: `failures()`), and read what was written"
            )

    def _required(self, name: str) -> tuple[str, ...]:
        """Return the names of the statements that must not fail for the rows of `name` to be read."""
        keep = self.request is None or self.request.errors == "keep"
        return () if keep else (name, *self.feeders.get(name, ()))

    def _check_failures(self, name: str, result: object) -> None:
        """Raise ReplayError with `result` if the statement, or one that feeds it, failed on an event."""
        failed = _failures_of(self._required(name), self._failures[self._find(name).job])
        if not len(failed):
            return
        earliest = failed.sort_by([("time", "ascending"), ("sequence", "ascending")]).slice(0, 1).to_pylist()[0]
        statement, first = earliest["statement"], earliest["error"]
        message = (
            f"{format_count(len(failed), 'statement error')} in the run of `{name}`\n{first}\n"
            '  hint: `SparkRun.errors()` lists the errors; `spark(…, errors="keep")` does not raise'
        )
        raise ReplayError(StatementError(statement, first, None, Exception(first)), message, result)

    def _output(self, job: int, about: Collection[str]) -> JobOutput:
        return self._jobs[job][1](about)

    def _program(self, place: OutputPlace) -> TaskProgram:
        return self._jobs[place.job][0]

    def _find(self, name: str) -> OutputPlace:
        """Raises UsageError for a name that no statement of the run has."""
        if name not in self._places:
            raise UsageError(f"the run has no statement {name}; it has {', '.join(self.statements)}")
        return self._places[name]

    def _rows(self, name: str, failures: bool) -> tuple[DataFrame, str, str]:
        """Return the rows of a statement, on request with the failures of all statements of its job.

        Also return the names of the columns with a row's position in its delivery and with the text of a failure.
        """
        job, number, _ = self._find(name)
        output = self._output(job, DELIVERY_COLUMN_NAMES)
        names = list(self.columns(name).values())
        row, error = unique_names(("row", "error"), (*VISIBLE_COLUMNS, *names))
        about = (
            *_metadata(output, VISIBLE_COLUMNS),
            f"{output.about['row']} AS {row}",
            f"{output.about['error']} AS {error}",
        )
        values = (f"{v} AS {quote_identifier(c)}" for v, c in zip(output.values[number], names, strict=True))
        rows = output.rows_of(name)
        if failures and output.failing:
            rows = output.rows.where(f"({output.only(name)}) OR {output.about['error']} IS NOT NULL")
        return rows.select(*about, *values).frame, row, error


def check_about_columns(about: Sequence[str]) -> None:
    """Raise `UsageError` for names that are no metadata of rows."""
    names = (about,) if isinstance(about, str) else tuple(about)
    wrong = next((name for name in names if name not in VISIBLE_COLUMNS or names.count(name) > 1), None)
    if wrong is not None:
        twice = wrong in VISIBLE_COLUMNS
        problem = f"repeats {wrong!r}" if twice else f"there is no metadata column {wrong!r}"
        raise UsageError(
            f"about={about!r}: {problem}\n  hint: use {', '.join(VISIBLE_COLUMNS)}, each at most once; () selects none"
        )
    if isinstance(about, str):
        raise UsageError(f"`about` is a list of names, not {about!r}\n  hint: about=({about!r},)")


def _rounded_as_double(column: pa.ChunkedArray) -> bool:
    """Return True for whole numbers with nulls of which a double cannot hold all."""
    if not pa.types.is_integer(column.type) or not column.null_count:
        return False
    bounds = pc.min_max(column).as_py()
    return any(value is not None and abs(value) > 2**53 for value in bounds.values())


def _metadata(output: JobOutput, columns: Sequence[str]) -> list[Sql]:
    return [f"{output.about[column]} AS {column}" for column in columns]


def _failure_frame(output: JobOutput) -> DataFrame:
    return output.rows.where(f"{output.about['error']} IS NOT NULL").select(*_metadata(output, _FAILURE)).frame


def _failures_of(statements: Sequence[str], failures: pa.Table) -> pa.Table:
    return failures.filter(pc.is_in(failures.column("statement"), pa.array(statements, pa.string())))


def _reporting(programs: Sequence[TaskProgram]) -> list[list[str]]:
    """Return by job the statements whose failures it reports: its own, and feeders that no job before it reports.

    Every job has the failures of all statements that feed it, so that its rows are not read without these.
    """
    reported = {name for program in programs for name, _ in program.outputs}
    by_job = []
    for program in programs:
        feeders = [name for name in program.upstream if name not in reported]
        reported.update(feeders)
        by_job.append([*(name for name, _ in program.outputs), *feeders])
    return by_job
