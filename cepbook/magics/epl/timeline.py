"""``%epl timeline``: when the partitions of a context began and ended."""

from __future__ import annotations

from cepbook.magics.epl.partitions import cell_text, records
from cepbook.magics.shell.host import NotebookHost, Subcommand, context_names
from cepbook.magics.shell.options import MagicOptions, single_name, whole_number
from cepbook.magics.shell.output import table
from cepbook.widgets.base.column_encoding import TIME_TYPE, ViewColumn
from cepbook.widgets.live_view.partition_rows import partition_columns

DEFAULT_PARTITIONS = 50

OPTIONS = (
    MagicOptions("%epl timeline")
    .add("names", nargs="*", help="the context")
    .add(
        "--partitions",
        type=whole_number,
        default=DEFAULT_PARTITIONS,
        help=f"how many of its last partitions are drawn; default: {DEFAULT_PARTITIONS}",
    )
    .add("--rows", action="store_true", help="list them below the chart")
)


def draw_timeline(host: NotebookHost, arguments: list[str]) -> object:
    """Draw the last partitions of a context as bars from begin to end; with ``--rows`` list them below the chart."""
    options = OPTIONS.parse_words(arguments)
    context = single_name("%epl timeline", options.names, "context", list(host.workbench.runtime.catalog.contexts))
    timeline = host.workbench.timeline(context, partitions=options.partitions)
    if not options.rows:
        return timeline
    host.show(timeline)
    rows = records(timeline.to_frame(dates=False))
    if not rows:
        return table("no partitions yet", (), ())
    columns = [ViewColumn(c.name, TIME_TYPE) if c.name in ("born", "died") else c for c in partition_columns(rows)]
    cells = [[cell_text(row.get(column.name), column, timeline.times) for column in columns] for row in rows]
    return table("", [column.name for column in columns], cells, right=("id",))


TIMELINE = Subcommand(
    "timeline",
    draw_timeline,
    {"%epl timeline CONTEXT [--partitions N] [--rows]": "When partitions began and ended, drawn."},
    context_names,
)
