"""Context partitions and partial matches as rows of a table, for live views and saved ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from cepbook.session.inspect.partials import Partial, Partials
from cepbook.session.inspect.partitions import TIMES
from cepbook.shown import text_of, time_text
from cepbook.widgets.encode import TIME, Column
from cepbook.widgets.listing import SEEN, SIZES

Row = Mapping[str, object]
_SHOWN_AS_TIMES = (*TIMES, "last event")
_INDENT = "· "


def partition_columns(partitions: Sequence[Row]) -> tuple[Column, ...]:
    """The columns of a list of partitions: ``id``, the properties, the sizes; typed by their values."""
    if not partitions:
        return (Column("id", "int"),)
    return columns_of(tuple(partitions[0]), partitions)


def line_columns(names: Iterable[str]) -> tuple[Column, ...]:
    """The columns of the tree of a nested context; of those whose values may all be null the type is known."""
    known = {"partition": "string", "last event": TIME, "per second": "double"}
    return tuple(Column(name, known.get(name, "long")) for name in names)


def columns_of(names: Sequence[str], rows: Sequence[Row], times: Collection[str] = ()) -> tuple[Column, ...]:
    """Columns typed by their values; those of `times` hold ms."""
    return tuple(Column(name, _type(name, [row.get(name) for row in rows]), name in times) for name in names)


def _type(name: str, values: Sequence[object]) -> str:
    if name.rpartition(".")[2] in _SHOWN_AS_TIMES:
        return TIME
    value = next((value for value in values if value is not None), None)
    return {bool: "boolean", int: "long", float: "double"}.get(type(value), "string")


def sizes_among(columns: Sequence[Column]) -> int:
    """How many columns at the end are sizes, or tell of events."""
    return len([column for column in columns[1:] if column.name in (*SEEN, *SIZES)])


def tree_rows(
    partitions: Sequence[Row], columns: Sequence[Column], levels: Sequence[str]
) -> tuple[list[Row], list[Column]]:
    """The partitions of a nested context as an indented list, those of outer levels once above theirs; its columns."""
    found: list[Row] = []
    sizes = [column for column in columns[1:] if column.name in SIZES]
    above: list[str] = []
    for partition in partitions:
        path = [_level_text(partition, columns, level) for level in levels]
        same = next((i for i, text in enumerate(path[:-1]) if above[i : i + 1] != [text]), len(path) - 1)
        for depth in range(same, len(path) - 1):
            found.append({"partition": _INDENT * depth + path[depth], "id": "", **{size.name: "" for size in sizes}})
        leaf = {size.name: text_of(partition.get(size.name)) for size in sizes}
        found.append({"partition": _INDENT * (len(path) - 1) + path[-1], "id": text_of(partition["id"]), **leaf})
        above = path[:-1]
    return found, [Column("partition", "string"), Column("id", "int"), *sizes]


def _level_text(partition: Row, columns: Sequence[Column], level: str) -> str:
    own = [column for column in columns if column.name.startswith(f"{level}.")]
    texts = (f"{c.name[len(level) + 1 :]} = {shown(partition.get(c.name), c.kind)}" for c in own)
    return f"{level} {', '.join(texts)}".rstrip()


def shown(value: object, kind: str, times: Collection[str] = ()) -> str:
    """A value of a column of `kind` as text; properties of events that are called as one of `times` hold ms."""
    return time_text(value) if kind == "time" and isinstance(value, int) else text_of(value, times)


def partial_rows(
    found: Partials, times: Collection[str] = ()
) -> tuple[tuple[Column, ...], list[Row], list[list[str]]]:
    """The columns and rows of partial matches, and for each row its events, a line each; of these `times` hold ms."""
    partitioned = any(each.partition is not None for each in found.rows)
    timed = any(each.until is not None for each in found.rows)
    columns = [Column("since", TIME), Column("waiting for", "string"), Column("events so far", "string")]
    if timed:
        columns.insert(2, Column("until", "string"))
    if partitioned:
        columns.insert(1, Column("partition", "int"))
    rows = [_partial_row(each, times) for each in found.rows]
    lines = [event_lines(each.events, times) for each in found.rows]
    return tuple(columns), rows, lines


def _partial_row(partial: Partial, times: Collection[str]) -> Row:
    return {
        "since": partial.since,
        "partition": partial.partition,
        "waiting for": partial.waiting_for,
        "until": "" if partial.until is None else time_text(partial.until),
        "events so far": ", ".join(f"{tag}={text_of(event, times)}" for tag, event in partial.events.items()),
    }


def event_lines(match: Mapping[str, object], times: Collection[str] = ()) -> list[str]:
    """The tagged events of a match, a line each: ``a = {id=1}``, of a repeated tag ``b[0] = {id=2}``.

    What is called as one of `times` holds ms.
    """
    lines = []
    for tag, value in match.items():
        if isinstance(value, list):
            lines += [f"{tag}[{i}] = {text_of(event, times)}" for i, event in enumerate(value)]
        elif value is not None:
            lines.append(f"{tag} = {text_of(value, times)}")
    return lines
