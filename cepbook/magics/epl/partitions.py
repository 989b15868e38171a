"""``%epl partitions``, ``end``, ``timeline``, ``partials``: the partitions of contexts, and what patterns wait for."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from cepbook.display import format_count
from cepbook.errors import UsageError
from cepbook.magics.shell.host import NotebookHost
from cepbook.magics.shell.options import MagicOptions, single_name, whole_number
from cepbook.magics.shell.output import table, text
from cepbook.session.inspect.partial_matches import partial_matches, pattern_tags
from cepbook.session.inspect.partition_table import SIZES, key_names
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.event_validation import is_missing
from cepbook.widgets.base.column_encoding import TIME_TYPE, ViewColumn
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.live_view.partition_rows import match_lines, partial_rows, partition_columns, value_label

MAX_PARTITIONS_DRAWN = 50

TIMELINE_OPTIONS = (
    MagicOptions("%epl timeline")
    .add("names", nargs="*", help="the context")
    .add(
        "--partitions",
        type=whole_number,
        default=MAX_PARTITIONS_DRAWN,
        help=f"how many of its last partitions are drawn; default: {MAX_PARTITIONS_DRAWN}",
    )
    .add("--rows", action="store_true", help="list them below the chart")
)
PARTIALS_OPTIONS = (
    MagicOptions("%epl partials")
    .add("names", nargs="*", help="the statement")
    .add("--partition", type=whole_number, help="the id of one context partition; default: all")
)


def list_partitions(host: NotebookHost, rest: list[str]) -> StaticPicture:
    """The live partitions of a context with their properties and sizes; without a name, all contexts."""
    if not rest:
        return list_contexts(host)
    workbench = host.workbench
    context = single_name("%epl partitions", rest, "context", list(workbench.runtime.catalog.contexts))
    frame = workbench.partitions(context)
    users = [s.name for s in workbench.runtime.statements.values() if s.steps.context == context]
    used = f"used by {', '.join(users)}" if users else "no statement uses it"
    title = f"{context}: {format_count(len(frame), 'partition')}, {used}"
    statements, *sizes = frame.columns[-1 - len(SIZES) :]  # maybe with other names: built-in properties come first
    empty = [size for size in sizes if frame[size].isna().all()]
    names = key_names(workbench.runtime, context)
    rows = _records(frame.drop(columns=[statements, *empty]).rename(columns=names))
    columns = partition_columns(rows) if rows else ()
    times = TimeColumns(workbench.runtime, ms=True).of_context(context)
    cells = [[_cell(row.get(column.name), column, times) for column in columns] for row in rows]
    right = [column.name for column in columns if column.kind in ("int", "float")]
    return table(title, [column.name for column in columns], cells, right=right)


def list_contexts(host: NotebookHost) -> StaticPicture:
    """All contexts: kind, event types, statements, how many partitions live."""
    runtime = host.workbench.runtime
    rows = []
    for name, context in runtime.catalog.contexts.items():
        users = [s.name for s in runtime.statements.values() if s.steps.context == name]
        live = len(runtime.context(name).partitions)
        rows.append((name, context.kind, ", ".join(context.event_types), ", ".join(users), str(live)))
    headings = ("context", "kind", "reads", "statements", "partitions")
    return table("" if rows else "no contexts", headings, rows, right=("partitions",))


def end_partitions(host: NotebookHost, rest: list[str]) -> StaticPicture:
    """End partitions of a context by hand."""
    name, *ids = rest or [""]
    if not name or not ids:
        raise UsageError("%epl end takes a context and the ids of partitions, as in `%epl end PerSymbol 3`")
    live = {str(partition["id"]) for partition in host.workbench.runtime.partitions(name)}
    for id_ in ids:
        if id_ not in live:
            hint = f"\n  hint: `%epl partitions {name}` shows them"
            raise UsageError(f"context `{name}` has no live partition `{id_}`{hint}")
    for id_ in dict.fromkeys(ids):
        host.workbench.end_partition(name, int(id_))
    return text(f"ended {', '.join(dict.fromkeys(ids))} of {name}")


def draw_timeline(host: NotebookHost, rest: list[str]) -> object:
    """Births and deaths of a context's partitions, as a chart."""
    options = TIMELINE_OPTIONS.parse_words(rest)
    context = single_name("%epl timeline", options.names, "context", list(host.workbench.runtime.catalog.contexts))
    timeline = host.workbench.timeline(context, partitions=options.partitions)
    if not options.rows:
        return timeline
    host.show(timeline)
    rows = _records(timeline.to_frame())
    if not rows:
        return table("no partitions yet", (), ())
    columns = [ViewColumn(c.name, TIME_TYPE) if c.name in ("born", "died") else c for c in partition_columns(rows)]
    cells = [[_cell(row.get(column.name), column, timeline.times) for column in columns] for row in rows]
    return table("", [column.name for column in columns], cells, right=("id",))


def list_partials(host: NotebookHost, rest: list[str]) -> StaticPicture:
    """What a pattern is waiting for, since when, with which events."""
    options = PARTIALS_OPTIONS.parse_words(rest)
    runtime = host.workbench.runtime
    with_pattern = [name for name in runtime.statements if pattern_tags(runtime, name) is not None]
    name = single_name("%epl partials", options.names, "statement with a pattern", with_pattern)
    found = partial_matches(runtime, name, options.partition)
    times = TimeColumns(runtime, ms=True).of_events(name)
    columns, rows, _ = partial_rows(found, times)
    # In a table that stands still there is room for the events as they are.
    events = [" ".join(match_lines(partial.events, times)) for partial in found.rows]
    cells = [
        [_cell(row.get(c.name), c) if c.name != "events so far" else line for c in columns]
        for row, line in zip(rows, events, strict=True)
    ]
    title = f"{name}: {format_count(found.total, 'partial match', 'partial matches')}"
    notes = [f"the first {len(rows)} are shown"] if found.total > len(rows) else []
    right = [column.name for column in columns if column.kind == "int"]
    return table(title, [column.name for column in columns], cells, right=right, notes=notes)


def _records(frame: pd.DataFrame) -> list[dict[str, object]]:
    """The rows of a frame, null where a value is missing."""
    return [
        {str(name): None if is_missing(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _cell(value: object, column: ViewColumn, times: Collection[str] = ()) -> str:
    return "" if value is None else value_label(value, column.kind, times)
