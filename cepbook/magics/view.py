"""``%view``: the live widget of a statement."""

from __future__ import annotations

from cepbook.errors import UsageError
from cepbook.magics.host import Command, Host
from cepbook.magics.options import Options, clean
from cepbook.widgets.following import FollowingChart
from cepbook.widgets.view import view

OPTIONS = (
    Options("%view")
    .add("names", nargs="*", help="the statement")
    .add("--chart", action="store_true", help="its numbers over time, as a chart that follows")
)


def run_line(host: Host, line: str) -> object:
    """``%view NAME`` shows the statement's stream, window, partitions and partial matches while events arrive.

    ``--chart`` shows the numbers of its insert stream over time instead.
    """
    options = OPTIONS.parse(clean(line))
    if len(options.names) != 1:
        raise UsageError("%view takes the name of one statement, as in `%view delays`")
    if not options.chart:
        return view(host.workbench, options.names[0])
    host.show(FollowingChart(host.workbench, options.names[0]))
    return None


COMMAND = Command(
    "view",
    "Show a statement live: its streams, its window, its context partitions, and what its pattern waits for.",
    ("%view NAME", "%view --chart NAME"),
    line=run_line,
    says={"%view --chart NAME": "The chart of its rows over time, which follows."},
)
