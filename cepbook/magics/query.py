"""``%query`` and ``%%query``: a fire-and-forget query, answered as a DataFrame."""

from __future__ import annotations

import pandas as pd

from cepbook.errors import UsageError
from cepbook.magics.host import Command, Host
from cepbook.magics.options import Options, clean, variable_name
from cepbook.magics.show import text
from cepbook.session.inspect.query import tables_of
from cepbook.widgets.source import NO_ROWS

OPTIONS = Options("%%query").add(
    "--into", type=variable_name, help="put the DataFrame into this variable instead of showing it"
)


def run_line(host: Host, line: str) -> object:
    """``%query select * from Trades`` gives a DataFrame; ``df = %query …`` keeps it."""
    epl = clean(line).rstrip("; \t")
    if not epl:
        raise UsageError("%query: an EPL query is missing, as in `%query select * from Trades`")
    return _answer(host, epl)


def run_cell(host: Host, line: str, cell: str) -> object:
    """``%%query [--into df]`` with the query in the cell."""
    into = OPTIONS.parse(line).into
    found = _answer(host, cell.rstrip().rstrip(";"))
    if into is None:
        return found
    host.assign(into, found)
    return None


def _answer(host: Host, epl: str) -> pd.DataFrame:
    """The answer; when it is empty because a statement keeps no rows, that is shown, too."""
    workbench = host.workbench
    found = workbench.query(epl, parameters=host.shell.user_ns)
    if found.empty:
        for name in tables_of(epl, workbench.runtime):
            if not workbench.keeps_rows(name):
                host.show(text(f"`{name}` {NO_ROWS}"))
    return found


COMMAND = Command(
    "query",
    "Run a query once, over named windows and tables or the rows that statements show now, and get a DataFrame.",
    ("%query EPL", "%%query [--into VARIABLE]"),
    line=run_line,
    cell=run_cell,
    says={"%%query [--into VARIABLE]": "The same of a longer text; `--into` puts it into a Python variable."},
)
