"""``%view``: the live widget of a statement, and ``%view --chart``: its numbers over time."""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.editor.offers import Offer
from cepbook.magics.shell.host import MagicCommand, NotebookHost, statement_names
from cepbook.magics.shell.options import MagicOptions, number, single_name, strip_comment
from cepbook.widgets.charts.chart_frames import KINDS
from cepbook.widgets.charts.chart_view import chart
from cepbook.widgets.live_view.statement_view import view

OPTIONS = (
    MagicOptions("%view")
    .add("names", nargs="*", help="the statement")
    .add("--chart", action="store_true", help="its numbers over time, as a chart that follows")
    .add("--y", nargs="+", default=[], help="the columns to draw")
    .add("--by", help="the column whose values are series of their own")
    .add("--kind", help=", ".join(KINDS))
    .add("--range", nargs=2, type=number, help="the least and greatest value of the axis")
    .add("--threshold", nargs="+", type=number, default=[], help="values to draw a line at")
)
CHART = "%view --chart NAME [--y COLUMN …] [--by COLUMN] [--kind KIND] [--range LOW HIGH] [--threshold VALUE …]"


def run_line(host: NotebookHost, line: str) -> object:
    """Show the statement's streams, window, partitions and partial matches, live.

    ``--chart`` shows the numbers of its insert stream over time instead, and so does each option of the chart.
    """
    options = OPTIONS.parse(strip_comment(line))
    name = single_name("%view", options.names, "statement", host.statements_with_rows())
    if not (options.chart or options.y or options.by or options.kind or options.range or options.threshold):
        return view(host.workbench, name)
    values = None if options.range is None else (options.range[0], options.range[1])
    drawn = {"kind": options.kind or "line", "values": values, "thresholds": options.threshold}
    host.show(chart(host.workbench, name, y=options.y, by=options.by, **drawn))
    return None


def complete(host: NotebookHost, words: list[str]) -> Iterator[Offer]:
    """Complete the name of a statement, its columns behind ``--y`` and ``--by``, and kinds of charts."""
    option = next((word for word in reversed(words) if word.startswith("--")), None)
    names = [word for word in words if word in host.workbench.runtime.statements]
    if words and words[-1] == "--kind":
        yield from ((kind, "keyword") for kind in KINDS)
    elif names and (option == "--y" or words[-1] == "--by"):
        columns = host.workbench.runtime.statement(names[0]).output_type.properties
        yield from ((column, "property") for column in columns if column not in words)
    elif not names:
        yield from statement_names(host, [])
    yield from ((name, "keyword") for name in OPTIONS.names if name not in words)


COMMAND = MagicCommand(
    "view",
    "Show a statement live: its streams, its window, its context partitions, and what its pattern waits for. "
    "Its rows are searched, sorted and exported; Columns has a condition for each column, such as > 100.",
    ("%view NAME", CHART),
    line=run_line,
    says={CHART: f"The chart of its numbers over time, which follows. A KIND is {', '.join(KINDS)}."},
    complete=complete,
)
