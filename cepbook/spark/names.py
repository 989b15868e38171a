"""The columns of the tagged stream that the tasks read (`inputs`), and of what they deliver (`delivered`).

Light: Spark's workers load it, and who only plans, without Spark and Arrow.
"""

from __future__ import annotations

import re

TAG, TIME, SEQ = "tag", "time", "seq"
TASK = "task"  # who gets the event, where they are divided
TICK = -1  # the tag of a row that is no event: the clock stops here
STOPS = "stops"  # of such a row: the times at which the clock stops from there on, see `stops`
FURTHEST = 2**53  # where the clock ends, see `cepbook.session.values.clock`
CLOCK, EVENT = "clock", "event"  # what sets a delivery off
META = (
    ("statement", "string"),
    ("time", "bigint"),
    ("sequence", "bigint"),
    ("trigger", "string"),
    ("delivery", "bigint"),
    ("kind", "string"),
    ("row", "bigint"),
    ("error", "string"),
)
"""What is told of a delivered row, with the types of Spark's DDL."""
ABOUT = tuple(name for name, _ in META)
SHOWN = ("statement", "time", "sequence", "trigger", "delivery", "kind")
"""What of `META` the columns of a statement's DataFrame tell, before its own."""
BRIEF = (
    ("what", "int"),
    ("time", "bigint"),
    ("sequence", "bigint"),
    ("delivery", "int"),
    ("row", "int"),
    ("error", "string"),
)
"""`META` as it travels from the tasks to Spark: `what` is four times the number of the statement, plus 1 for what is
due to an event, plus 2 for remove rows."""


def text(value: str) -> str:
    """`value` as a literal of Spark SQL, however the session's parser reads quotes and escapes."""
    if re.fullmatch(r"[\w .,:;=%()`<>-]*", value, re.ASCII):
        return f"'{value}'"
    return f"CAST(X'{value.encode().hex()}' AS STRING)"
