"""``%epl limit``: how much each statement keeps, and the limit of that."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cepbook.editor.offers import Offer
from cepbook.magics.shell.host import NotebookHost, Subcommand
from cepbook.magics.shell.options import rows_option
from cepbook.magics.shell.output import table
from cepbook.widgets.base.static_picture import StaticPicture


def limit(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Set how much each statement may keep; list what each keeps."""
    workbench, text = host.workbench, " ".join(arguments)
    if arguments:
        in_bytes = re.match(r"[\d.]+ ?[a-zA-Z]", text) is not None
        workbench.state_limit = text if in_bytes else rows_option(text, "the limit of a statement", "none")
    sizes = workbench.state_sizes()
    rows = [(name, *(f"{count:,}" for count in counts)) for name, *counts in sizes.itertuples(index=False)]
    most = workbench.state_limit
    if most is None:
        title, notes = "no limit of what a statement keeps", []
    else:
        title = f"a statement keeps at most {most if type(most) is str else f'{most:,}'}"
        what = "the bytes, which are estimated" if type(most) is str else "the sum of a row of this table without bytes"
        notes = [f"the limit applies to {what}; while a statement exceeds it, events are refused"]
    return table(title, [*sizes], rows, right=[*sizes][1:], notes=notes)


def _complete(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    if not arguments:
        yield "none", "keyword"


LIMIT = Subcommand(
    "limit",
    limit,
    {"%epl limit [ROWS|SIZE|none]": "How many rows, groups and partial matches (or bytes) each statement may keep."},
    _complete,
)
