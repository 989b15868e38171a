"""Output of statements that Spark runs itself: a filter and columns."""

from __future__ import annotations

from cepbook.spark.frames.job_output import JobOutput
from cepbook.spark.frames.sql_conditions import condition_sql, filter_conditions
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.stream_columns import EVENT, SEQ, TIME, Sql, bounded_event_time, sql_literal

_NO_TEXT = "CAST(NULL AS STRING)"


def native_filter_output(program: TaskProgram, events: SqlQuery) -> JobOutput:
    """Return the output of a program with one native statement, from its tagged events."""
    ((_, type_name, properties, columns),) = program.inputs
    ((name, output),) = program.outputs
    statement = next(s for step in program.steps for s in step.module.statements if s.name == name)
    assert statement.projection is not None
    column_of = dict(zip(properties, columns, strict=True))
    for condition in filter_conditions(statement):
        events = events.where(condition_sql(condition, column_of))
    at, kind, error = bounded_event_time(TIME, type_name, program.start, program.config.second), "'insert'", _NO_TEXT
    streaming = events.source.isStreaming
    if streaming:  # which goes on without the event
        at = f"coalesce({at}, {program.start})"
        left_out = sql_literal(f"an event of {type_name} was left out: the time is missing")
        error = f"CASE WHEN {TIME} IS NULL THEN {left_out} END"
        kind = f"CASE WHEN {TIME} IS NULL THEN 'error' ELSE {kind} END"
    source_columns = {c.name: c.value.property_name for c in statement.projection.columns}
    about = delivery_metadata(name, time=at, kind=kind, error=error)
    return JobOutput(events, about, [[column_of[source_columns[p]] for p in output.properties]], failing=streaming)


def delivery_metadata(statement: str, **values: Sql) -> dict[str, Sql]:
    """Return the SQL of `DELIVERY_COLUMNS` for rows that are each the whole delivery of an event; `values` replace
    some.
    """
    metadata = {
        "statement": sql_literal(statement),
        "time": TIME,
        "sequence": SEQ,
        "trigger": f"'{EVENT}'",
        "delivery": "0L",
    }
    return metadata | {"kind": "'insert'", "row": "0L", "error": _NO_TEXT} | values
