"""``%epl partitions`` and ``%epl end``: the partitions of contexts."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pandas as pd

from cepbook.display import format_count
from cepbook.editor.offers import Offer
from cepbook.errors import UsageError
from cepbook.magics.shell.host import NotebookHost, Subcommand, context_names
from cepbook.magics.shell.options import single_name
from cepbook.magics.shell.output import table, text
from cepbook.session.inspect.partition_table import SIZES, key_names
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.event_validation import is_missing
from cepbook.session.io.output.time_types import clock_numbers
from cepbook.widgets.base.column_encoding import ViewColumn
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.live_view.partition_rows import partition_columns, value_label

MAX_PARTITIONS_OFFERED = 200


def list_partitions(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """List the live partitions of a context with their properties and sizes; without a name, list all contexts."""
    if not arguments:
        return list_contexts(host)
    workbench = host.workbench
    context = single_name("%epl partitions", arguments, "context", list(workbench.runtime.catalog.contexts))
    frame = workbench.partitions(context, times=clock_numbers(workbench.runtime.config))
    users = [s.name for s in workbench.runtime.statements.values() if s.steps.context == context]
    used = f"used by {', '.join(users)}" if users else "no statement uses it"
    title = f"{context}: {format_count(len(frame), 'partition')}, {used}"
    # the last columns, because built-in properties of the same name would come first
    statements, *sizes = frame.columns[-1 - len(SIZES) :]
    empty = [size for size in sizes if frame[size].isna().all()]
    names = key_names(workbench.runtime, context)
    rows = records(frame.drop(columns=[statements, *empty]).rename(columns=names))
    columns = partition_columns(rows) if rows else ()
    times = TimeColumns(workbench.runtime, ms=True).of_context(context)
    cells = [[cell_text(row.get(column.name), column, times) for column in columns] for row in rows]
    right = [column.name for column in columns if column.kind in ("int", "float")]
    return table(title, [column.name for column in columns], cells, right=right)


def list_contexts(host: NotebookHost) -> StaticPicture:
    """List all contexts with kind, event types, statements and number of live partitions."""
    runtime = host.workbench.runtime
    rows = []
    for name, context in runtime.catalog.contexts.items():
        users = [s.name for s in runtime.statements.values() if s.steps.context == name]
        live = len(runtime.context(name).partitions)
        rows.append((name, context.kind, ", ".join(context.event_types), ", ".join(users), str(live)))
    headings = ("context", "kind", "reads", "statements", "partitions")
    return table("" if rows else "no contexts", headings, rows, right=("partitions",))


def end_partitions(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """End partitions by their ids; none of them if an id is unknown."""
    name, *ids = arguments or [""]
    if not name or not ids:
        raise UsageError("%epl end takes a context and the ids of partitions, as in `%epl end PerSymbol 3`")
    live = {str(partition["id"]) for partition in host.workbench.runtime.partitions(name)}
    for partition_id in ids:
        if partition_id not in live:
            hint = f"\n  hint: `%epl partitions {name}` shows them"
            raise UsageError(f"context `{name}` has no live partition `{partition_id}`{hint}")
    for partition_id in dict.fromkeys(ids):
        host.workbench.end_partition(name, int(partition_id))
    return text(f"ended {', '.join(dict.fromkeys(ids))} of {name}")


def records(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Return the rows of a frame as dicts, with None for missing values."""
    rows = frame.to_dict("records")
    return [{str(name): None if is_missing(value) else value for name, value in row.items()} for row in rows]


def cell_text(value: object, column: ViewColumn, times: Collection[str] = ()) -> str:
    """Format one cell; None is empty."""
    return "" if value is None else value_label(value, column.kind, times)


def _complete_end(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    yield from context_names(host, arguments)
    runtime = host.workbench.runtime
    if arguments and arguments[0] in runtime.catalog.contexts:
        for partition in runtime.partitions(arguments[0])[:MAX_PARTITIONS_OFFERED]:
            yield str(partition["id"]), "variable"


PARTITIONS = Subcommand(
    "partitions",
    list_partitions,
    {"%epl partitions [CONTEXT]": "The contexts, or the partitions of one that live now."},
    context_names,
)
END = Subcommand("end", end_partitions, {"%epl end CONTEXT ID …": "End partitions by hand."}, _complete_end)
