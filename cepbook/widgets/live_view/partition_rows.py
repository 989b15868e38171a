"""Context partitions and partial matches as table rows, for live views and static pictures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from cepbook.display import format_time, format_value
from cepbook.session.inspect.partial_matches import PartialMatch, PartialMatches
from cepbook.session.inspect.partition_table import TIMES
from cepbook.widgets.base.column_encoding import TIME_TYPE, ViewColumn
from cepbook.widgets.live_view.partition_sheet import EVENT_COLUMNS, SIZE_COLUMNS

Row = Mapping[str, object]
_INDENT = "· "


def partition_columns(partitions: Sequence[Row]) -> tuple[ViewColumn, ...]:
    """Return the columns of a list of partitions: ``id``, the properties, the sizes; typed by their values."""
    if not partitions:
        return (ViewColumn("id", "int"),)
    return tuple(_figure(column.name) or column for column in columns_of(tuple(partitions[0]), partitions))


def line_columns(names: Iterable[str]) -> tuple[ViewColumn, ...]:
    """Return the columns of the tree of a nested context."""
    return tuple(_figure(name) or ViewColumn(name, "string" if name == "partition" else "long") for name in names)


def _figure(name: str) -> ViewColumn | None:
    """Return the column about events of this name, or None; all its values may be null."""
    column = EVENT_COLUMNS.get(name)
    return None if column is None else ViewColumn(name, column.type, title=column.title)


def columns_of(names: Sequence[str], rows: Sequence[Row], times: Collection[str] = ()) -> tuple[ViewColumn, ...]:
    """Return columns typed by their values; those of `times` hold ms."""
    return tuple(ViewColumn(name, _value_type(name, [row.get(name) for row in rows]), name in times) for name in names)


def _value_type(name: str, values: Sequence[object]) -> str:
    if name.rpartition(".")[2] in TIMES:
        return TIME_TYPE
    value = next((value for value in values if value is not None), None)
    return {bool: "boolean", int: "long", float: "double"}.get(type(value), "string")


def size_column_count(columns: Sequence[ViewColumn]) -> int:
    """Return the number of columns at the end that are sizes, or describe events."""
    return len([column for column in columns[1:] if column.name in (*EVENT_COLUMNS, *SIZE_COLUMNS)])


def tree_rows(
    partitions: Sequence[Row], columns: Sequence[ViewColumn], levels: Sequence[str]
) -> tuple[list[Row], list[ViewColumn]]:
    """Return the partitions of a nested context as an indented list with a row per outer node, and its columns."""
    rows: list[Row] = []
    sizes = [column for column in columns[1:] if column.name in SIZE_COLUMNS]
    above: list[str] = []
    for partition in partitions:
        path = [_level_label(partition, columns, level) for level in levels]
        same = next((i for i, text in enumerate(path[:-1]) if above[i : i + 1] != [text]), len(path) - 1)
        for depth in range(same, len(path) - 1):
            rows.append({"partition": _INDENT * depth + path[depth], "id": "", **{size.name: "" for size in sizes}})
        leaf = {size.name: format_value(partition.get(size.name)) for size in sizes}
        rows.append({"partition": _INDENT * (len(path) - 1) + path[-1], "id": format_value(partition["id"]), **leaf})
        above = path[:-1]
    return rows, [ViewColumn("partition", "string"), ViewColumn("id", "int"), *sizes]


def _level_label(partition: Row, columns: Sequence[ViewColumn], level: str) -> str:
    level_columns = [column for column in columns if column.name.startswith(f"{level}.")]
    texts = (f"{c.name[len(level) + 1 :]} = {value_label(partition.get(c.name), c.kind)}" for c in level_columns)
    return f"{level} {', '.join(texts)}".rstrip()


def value_label(value: object, kind: str, times: Collection[str] = ()) -> str:
    """Return a value of a column of `kind` as text; properties of events that are named in `times` hold ms."""
    return format_time(value) if kind == "time" and isinstance(value, int) else format_value(value, times)


def partial_rows(
    partials: PartialMatches, times: Collection[str] = ()
) -> tuple[tuple[ViewColumn, ...], list[Row], list[list[str]]]:
    """Return columns and rows of partial matches, and by row the lines of its events; properties in `times` hold ms."""
    partitioned = any(partial.partition is not None for partial in partials.rows)
    timed = any(partial.until is not None for partial in partials.rows)
    columns = [
        ViewColumn("since", TIME_TYPE),
        ViewColumn("waiting for", "string"),
        ViewColumn("events so far", "string"),
    ]
    if timed:
        columns.insert(2, ViewColumn("until", "string"))
    if partitioned:
        columns.insert(1, ViewColumn("partition", "int"))
    rows = [_partial_row(partial, times) for partial in partials.rows]
    lines = [match_lines(partial.events, times) for partial in partials.rows]
    return tuple(columns), rows, lines


def _partial_row(partial: PartialMatch, times: Collection[str]) -> Row:
    return {
        "since": partial.since,
        "partition": partial.partition,
        "waiting for": partial.waiting_for,
        "until": "" if partial.until is None else format_time(partial.until),
        "events so far": ", ".join(f"{tag}={format_value(event, times)}" for tag, event in partial.events.items()),
    }


def match_lines(match: Mapping[str, object], times: Collection[str] = ()) -> list[str]:
    """Return the tagged events of a match, a line each: ``a = {id=1}``, of a repeated tag ``b[0] = {id=2}``.

    Properties that are named in `times` hold ms.
    """
    lines = []
    for tag, value in match.items():
        if isinstance(value, list):
            lines += [f"{tag}[{i}] = {format_value(event, times)}" for i, event in enumerate(value)]
        elif value is not None:
            lines.append(f"{tag} = {format_value(value, times)}")
    return lines


def bar_column(columns: Sequence[ViewColumn], by: str | None) -> int | None:
    """Return the position of the column drawn as bars: the sort column of partitions, if it counts something."""
    names = [column.name for column in columns]
    counts = {*SIZE_COLUMNS, *(name for name, column in EVENT_COLUMNS.items() if column.type != TIME_TYPE)}
    candidates = (by, "events", "waiting", "arrived", "groups")
    return next((names.index(name) for name in candidates if name in names and name in counts), None)
