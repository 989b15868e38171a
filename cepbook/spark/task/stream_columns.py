"""Columns of the tagged stream that tasks read, and of the rows that they deliver.

Light: Spark's workers and the planning of statements load this module, without Spark and Arrow.
"""

from __future__ import annotations

import re

from cepbook.display import format_time

Sql = str  # an expression of Spark SQL
TAG, TIME, SEQ = "tag", "time", "seq"
TASK = "task"  # the number of the task that gets the event
TICK = -1  # the tag of a row that is a clock tick, not an event
TICKS = "stops"  # of such a row: a block of ticks from its time on, see `clock_ticks`
CLOCK_END = 2**53  # where the clock ends, see `cepbook.session.io.time_conversion`
CLOCK, EVENT = "clock", "event"  # what sets a delivery off
DELIVERY_COLUMNS = (
    ("statement", "string"),
    ("time", "bigint"),
    ("sequence", "bigint"),
    ("trigger", "string"),
    ("delivery", "bigint"),
    ("kind", "string"),
    ("row", "bigint"),
    ("error", "string"),
)
"""The metadata of a delivered row, with the types of Spark's DDL."""
DELIVERY_COLUMN_NAMES = tuple(name for name, _ in DELIVERY_COLUMNS)
VISIBLE_COLUMNS = ("statement", "time", "sequence", "trigger", "delivery", "kind")
"""The metadata that a statement's DataFrame has before the statement's own columns."""
COMPACT_COLUMNS = (
    ("what", "int"),
    ("time", "bigint"),
    ("sequence", "bigint"),
    ("delivery", "int"),
    ("row", "int"),
    ("error", "string"),
)
"""`DELIVERY_COLUMNS` as it travels from the tasks to Spark: `what` is four times the number of the statement, plus 1
for what is
due to an event, plus 2 for remove rows."""


def sql_literal(value: str) -> str:
    """Return `value` as a literal of Spark SQL that no setting of quotes and escapes changes."""
    if re.fullmatch(r"[\w .,:;=%()`<>-]*", value, re.ASCII):
        return f"'{value}'"
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def clock_range_message(type_name: str, time: int, start: int, second: int) -> str:
    """Return the message about an event whose time is before the clock's `start`, or beyond its end."""
    if not -CLOCK_END <= time <= CLOCK_END:
        unit = "ms" if second == 1000 else "us"
        return f"an event of {type_name} has the time {time} {unit}, which is beyond the clock"
    at, begin = (format_time(instant, millis=True, second=second) for instant in (time, start))
    return f"an event of {type_name} has the time {at}, but the clock starts at {begin}"


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

    def reworded(match: re.Match[str]) -> str:
        return clock_range_message(match[1], int(match[2]), int(match[4]), 1000 if match[3] == "ms" else 1_000_000)

    pattern = r"an event of (.+) has the time (-?\d+) (ms|us), but the clock goes from (-?\d+) .*"
    return re.sub(pattern, reworded, message)


def missing_value_error(value_name: str, type_name: str) -> Sql:
    """Return SQL that raises an error: an event of the type lacks a value that each must have.

    The message ends its line, because Spark appends a text of its own.
    """
    message = f"cepbook.errors.EventError: the {value_name} of an event of {type_name} is missing\n"
    return f"CAST(raise_error({sql_literal(message)}) AS BIGINT)"
