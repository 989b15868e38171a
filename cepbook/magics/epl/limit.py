"""``%epl limit``: how much each statement keeps, and the limit of that."""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.errors import UsageError
from cepbook.magics.epl.subcommand import Subcommand
from cepbook.magics.shell.host import NotebookHost, Offer
from cepbook.magics.shell.options import rows_option
from cepbook.magics.shell.output import table
from cepbook.widgets.base.static_picture import StaticPicture


def limit(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Set how much each statement may keep; list what each keeps."""
    if len(arguments) > 1:
        raise UsageError("%epl limit takes a number, or `none`, as in `%epl limit 1000000`")
    workbench = host.workbench
    if arguments:
        workbench.state_limit = rows_option(arguments[0], "the limit of a statement", "none")
    sizes = workbench.state_sizes()
    rows = [(name, *(f"{count:,}" for count in counts)) for name, *counts in sizes.itertuples(index=False)]
    most = workbench.state_limit
    title = "no limit of what a statement keeps" if most is None else f"a statement keeps at most {most:,}"
    notes = ["the limit applies to the sum of a row of this table; while a sum exceeds it, events are refused"]
    return table(title, [*sizes], rows, right=[*sizes][1:], notes=notes if most is not None else ())


def _complete(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    if not arguments:
        yield "none", "keyword"


LIMIT = Subcommand(
    "limit",
    limit,
    {"%epl limit [ROWS|none]": "How many rows, groups, partial matches and partitions each statement may keep."},
    _complete,
)
