"""``%view``: the live widget of a statement."""

from __future__ import annotations

from cepbook.magics.shell.host import MagicCommand, NotebookHost, statement_names
from cepbook.magics.shell.options import MagicOptions, single_name, strip_comment
from cepbook.widgets.charts.following_chart import FollowingChart
from cepbook.widgets.live_view.statement_view import view

OPTIONS = (
    MagicOptions("%view")
    .add("names", nargs="*", help="the statement")
    .add("--chart", action="store_true", help="its numbers over time, as a chart that follows")
)


def run_line(host: NotebookHost, line: str) -> object:
    """Show the statement's streams, window, partitions and partial matches, live.

    ``--chart`` shows the numbers of its insert stream over time instead.
    """
    options = OPTIONS.parse(strip_comment(line))
    name = single_name("%view", options.names, "statement", host.statements_with_rows())
    if not options.chart:
        return view(host.workbench, name)
    host.show(FollowingChart(host.workbench, name))
    return None


COMMAND = MagicCommand(
    "view",
    "Show a statement live: its streams, its window, its context partitions, and what its pattern waits for.",
    ("%view NAME", "%view --chart NAME"),
    line=run_line,
    says={"%view --chart NAME": "The chart of its rows over time, which follows."},
    complete=statement_names,
)
