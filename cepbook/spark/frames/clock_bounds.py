"""SQL that checks event times against the bounds of the clock, and the messages of its errors."""

from __future__ import annotations

import re

from cepbook.spark.task.stream_columns import CLOCK_END, Sql, clock_range_message, sql_literal


def bounded_event_time(time: Sql, type_name: str, start: int, second: int) -> Sql:
    """Return the event time, null where it is missing; Spark raises an error below the clock's `start` or beyond its
    end.

    The message holds times in units of the clock, because Spark would take long to plan their formatting.
    `format_clock_error` replaces them with dates on the driver.
    """
    unit = "ms" if second == 1000 else "us"
    has = f"cepbook.errors.EventError: an event of {type_name} has the time".replace("%", "%%")
    but = f"but the clock goes from {start} {unit} to {CLOCK_END} {unit}"
    failure = f"raise_error(format_string({sql_literal(f'{has} %s {unit}, {but}%n')}, {time}))"
    return f"CASE WHEN ({time}) NOT BETWEEN {start} AND {CLOCK_END} THEN CAST({failure} AS BIGINT) ELSE {time} END"


def format_clock_error(message: str) -> str:
    """Replace the times in an error of `bounded_event_time` by dates, as `clock_range_message` writes them."""

    def told(match: re.Match[str]) -> str:
        return clock_range_message(match[1], int(match[2]), int(match[4]), 1000 if match[3] == "ms" else 1_000_000)

    return re.sub(r"an event of (.+) has the time (-?\d+) (ms|us), but the clock goes from (-?\d+) .*", told, message)


def missing_value_error(value_name: str, type_name: str) -> Sql:
    """Return SQL that raises an error: an event of the type lacks a value that each must have.

    The message ends its line, because Spark appends a text of its own.
    """
    message = f"cepbook.errors.EventError: the {value_name} of an event of {type_name} is missing\n"
    return f"CAST(raise_error({sql_literal(message)}) AS BIGINT)"
