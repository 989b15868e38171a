"""``%epl capacity``: how many rows of each statement are kept, and how far back the other records reach."""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.editor.offers import Offer
from cepbook.errors import UsageError
from cepbook.feeds import SPILL_LIMIT
from cepbook.magics.shell.host import NotebookHost, Subcommand
from cepbook.magics.shell.options import feed_rows_option
from cepbook.magics.shell.output import table
from cepbook.session.history.event_log import KEPT
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.live_view.statement_view import VIEW_ROWS

HORIZONS = (
    f"earlier rows are in files of at most {SPILL_LIMIT >> 20} MB per statement; `cep.changes` reads both",
    f"a view has the latest {VIEW_ROWS:,} rows",
    f"why, marble diagrams and `%epl tune` know the latest {KEPT:,} events of each type, and the snapshots of a replay",
)


def capacity(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Set how many of the latest rows of each statement are kept in memory; list what is kept."""
    if len(arguments) > 1:
        raise UsageError("%epl capacity takes a number of rows, or `all`, as in `%epl capacity 1000000`")
    workbench = host.workbench
    if arguments:
        workbench.feed_capacity = feed_rows_option(arguments[0])
    feeds = [(name, workbench.feed(name)) for name in host.statements_with_rows()]
    rows = [
        (name, *(f"{n:,}" for n in (feed.total_insert + feed.total_remove, feed.rows, feed.lost)))
        for name, feed in feeds
    ]
    most = workbench.feed_capacity
    title = f"{'all' if most is None else f'the latest {most:,}'} rows of each statement are in memory"
    numbers = ("delivered", "in memory", "lost")
    return table(title, ("statement", *numbers), rows, right=numbers, notes=HORIZONS)


def _complete(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    if not arguments:
        yield "all", "keyword"


CAPACITY = Subcommand(
    "capacity",
    capacity,
    {"%epl capacity [ROWS|all]": "How many of the latest rows of each statement are in memory."},
    _complete,
)
