"""``%query`` and ``%%query``: a fire-and-forget query, answered as a DataFrame."""

from __future__ import annotations

from cepbook.errors import UsageError
from cepbook.magics.host import Command, Host
from cepbook.magics.options import Options, clean, variable_name

OPTIONS = Options("%%query").add(
    "--into", type=variable_name, help="put the DataFrame into this variable instead of showing it"
)


def run_line(host: Host, line: str) -> object:
    """``%query select * from Trades`` gives a DataFrame; ``df = %query …`` keeps it."""
    epl = clean(line).rstrip("; \t")
    if not epl:
        raise UsageError("%query: an EPL query is missing, as in `%query select * from Trades`")
    return host.workbench.query(epl)


def run_cell(host: Host, line: str, cell: str) -> object:
    """``%%query [--into df]`` with the query in the cell."""
    into = OPTIONS.parse(line).into
    found = host.workbench.query(cell.rstrip().rstrip(";"))
    if into is None:
        return found
    host.assign(into, found)
    return None


COMMAND = Command(
    "query",
    "Run a query once, over what named windows, tables and statements hold now, and get a DataFrame.",
    ("%query EPL", "%%query [--into VARIABLE]"),
    line=run_line,
    cell=run_cell,
)
