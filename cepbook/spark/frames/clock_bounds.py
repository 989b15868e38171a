"""SQL that checks the times of events against the bounds of the clock, and the messages of its errors."""

from __future__ import annotations

import re

from cepbook.spark.task.stream_columns import CLOCK_END, Sql, clock_range_message, sql_literal


def bounded_event_time(time: Sql, type_name: str, start: int, second: int) -> Sql:
    """The times of events of a type, null where they are missing; an error if one is before the clock's `start` or
    beyond its end.

    It has them in units of the clock: `format_clock_error` makes times of them, which Spark would have to plan at
    length.
    """
    unit = "ms" if second == 1000 else "us"
    has = f"cepbook.errors.EventError: an event of {type_name} has the time".replace("%", "%%")
    but = f"but the clock goes from {start} {unit} to {CLOCK_END} {unit}"
    failure = f"raise_error(format_string({sql_literal(f'{has} %s {unit}, {but}%n')}, {time}))"
    return f"CASE WHEN ({time}) NOT BETWEEN {start} AND {CLOCK_END} THEN CAST({failure} AS BIGINT) ELSE {time} END"


def format_clock_error(message: str) -> str:
    """The message of an error of `bounded_event_time` as `clock_range_message` has it."""

    def told(found: re.Match[str]) -> str:
        return clock_range_message(found[1], int(found[2]), int(found[4]), 1000 if found[3] == "ms" else 1_000_000)

    return re.sub(r"an event of (.+) has the time (-?\d+) (ms|us), but the clock goes from (-?\d+) .*", told, message)


def missing_value_error(what: str, type_name: str) -> Sql:
    """The error that an event of a type lacks what each has (a line, as Spark goes on behind)."""
    message = f"cepbook.errors.EventError: the {what} of an event of {type_name} is missing\n"
    return f"CAST(raise_error({sql_literal(message)}) AS BIGINT)"
