"""A CSV file as events, with a schema and a first statement that reads them.

A column is long, double or boolean if all of its values are. The first column of dates is the event time, and the
events are sorted by it. Everything else is a string. An empty value is null.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from cepbook.display import unused_name
from cepbook.errors import UsageError
from cepbook.lang.syntax.reader.lexer import RESERVED_WORDS
from cepbook.session.io.time_conversion import parse_time

MOST_ROWS = 100_000
_WHOLE = re.compile(r"[+-]?\d{1,18}\Z")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?\Z")


@dataclass(frozen=True, slots=True)
class CsvEvents:
    """The rows of a CSV file as events, in the order of their times, with a module that reads them.

    `events` are pairs of time (ms; None without a column of dates) and event. `notes` say what was left out.
    """

    event_type: str
    module: str
    events: tuple[tuple[int | None, dict[str, Any]], ...]
    notes: tuple[str, ...]

    @property
    def start(self) -> int:
        """The time of the first event; 0 without a column of dates."""
        return next((time for time, _ in self.events if time is not None), 0)


def csv_events(text: str, file_name: str) -> CsvEvents:
    """Read a CSV file. Raises UsageError for a file without rows, and for rows longer than the first line."""
    head = text[:10_000].splitlines()[:1]
    delimiter = max(",;\t", key=lambda sign: (head or [""])[0].count(sign))
    rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=delimiter))
    rows = [row for row in rows if row]
    if len(rows) < 2:
        raise UsageError("the file has no rows below its first line, which names the columns")
    names = _names(rows[0])
    longer = next((number for number, row in enumerate(rows, 1) if len(row) > len(names)), None)
    if longer is not None:
        raise UsageError(f"line {longer} of the file has more values than the first line has names")
    body = [row + [""] * (len(names) - len(row)) for row in rows[1 : MOST_ROWS + 1]]
    notes = () if len(rows) - 1 <= MOST_ROWS else (f"the first {MOST_ROWS:,} of {len(rows) - 1:,} rows were read",)
    columns = list(zip(*body, strict=True))
    kinds = [_kind(column) for column in columns]
    converted = [
        [None if value == "" else _VALUES[kind](value) for value in column]
        for kind, column in zip(kinds, columns, strict=True)
    ]
    times = next((column for kind, column in zip(kinds, converted, strict=True) if kind == "time"), None)
    events = [dict(zip(names, row, strict=True)) for row in zip(*converted, strict=True)]
    timed: list[tuple[Any, dict[str, Any]]] = list(zip(times or [None] * len(events), events, strict=True))
    if times:
        timed.sort(key=itemgetter(0))
    event_type = _type_name(file_name)
    return CsvEvents(event_type, _module(event_type, names, kinds), tuple(timed), notes)


def _names(head: Sequence[str]) -> list[str]:
    names: list[str] = []
    for number, text in enumerate(head, 1):
        name = re.sub(r"\W+", "_", text.strip()).strip("_") or f"column{number}"
        if name[0].isdigit() or name.lower() in RESERVED_WORDS:
            name = f"_{name}"
        names.append(unused_name(name, names))
    return names


def _type_name(file_name: str) -> str:
    stem = re.sub(r"\W+", " ", file_name.rpartition("/")[2].partition(".")[0])
    name = "".join(word[:1].upper() + word[1:] for word in stem.split())
    return name if name and not name[0].isdigit() else f"Row{name}"


def _kind(column: Sequence[str]) -> str:
    values = [value for value in column if value != ""]
    if not values:
        return "string"
    if all(map(_WHOLE.match, values)):
        return "long"
    if all(map(_NUMBER.match, values)):
        return "double"
    if all(value.lower() in ("true", "false") for value in values):
        return "boolean"
    if len(values) == len(column) and all(map(_DATE.match, values)):
        return "time"
    return "string"


_VALUES: dict[str, Callable[[str], Any]] = {
    "long": int,
    "double": float,
    "boolean": lambda value: value.lower() == "true",
    "time": parse_time,
    "string": str,
}


def _module(event_type: str, names: Sequence[str], kinds: Sequence[str]) -> str:
    columns = ", ".join(f"{n} {'long' if kind == 'time' else kind}" for n, kind in zip(names, kinds, strict=True))
    number = next((n for n, kind in zip(names, kinds, strict=True) if kind in ("double", "long")), None)
    group = next((n for n, kind in zip(names, kinds, strict=True) if kind == "string"), None)
    selected = [*([group] if group else []), "count(*) as events", *([f"avg({number}) as mean"] if number else [])]
    grouped = f"\ngroup by {group}" if group else ""
    return (
        f"create schema {event_type}({columns});\n\n"
        f"@name('last100')\nselect {', '.join(selected)}\nfrom {event_type}#length(100){grouped};\n"
    )
