"""``%view``: the live widget of a statement."""

from __future__ import annotations

from cepbook.errors import UsageError
from cepbook.magics.host import Command, Host
from cepbook.magics.options import clean, words
from cepbook.widgets.view import view


def run_line(host: Host, line: str) -> object:
    """``%view NAME`` shows the statement's stream, window, partitions and partial matches while events arrive."""
    names = words(clean(line), "%view")
    if len(names) != 1:
        raise UsageError("%view takes the name of one statement, as in `%view delays`")
    return view(host.workbench, names[0])


COMMAND = Command(
    "view",
    "Show a statement live: its streams, its window, its context partitions, and what its pattern waits for.",
    ("%view NAME",),
    line=run_line,
)
