"""``%query`` and ``%%query``: a fire-and-forget query, answered as a DataFrame."""

from __future__ import annotations

import pandas as pd

from cepbook.errors import Diagnostic, UsageError
from cepbook.magics.shell.host import MagicCommand, NotebookHost
from cepbook.magics.shell.options import MagicOptions, strip_comment, variable_name

OPTIONS = MagicOptions("%%query").add(
    "--into", type=variable_name, help="put the DataFrame into this variable instead of showing it"
)


def run_line(host: NotebookHost, line: str) -> object:
    """Answer ``%query select * from Trades`` as a DataFrame."""
    epl = strip_comment(line).rstrip("; \t")
    if not epl:
        raise UsageError("%query: an EPL query is missing, as in `%query select * from Trades`")
    return _answer(host, epl)


def run_cell(host: NotebookHost, line: str, cell: str) -> object:
    """Answer the query in the cell; ``--into`` assigns the DataFrame to a variable."""
    into = OPTIONS.parse(line).into
    frame = _answer(host, cell.rstrip().rstrip(";"))
    if into is None:
        return frame
    host.assign(into, frame)
    return None


def _answer(host: NotebookHost, epl: str) -> pd.DataFrame:
    return host.workbench.query(epl, parameters=host.shell.user_ns)


def check_cell(host: NotebookHost, line: str, body: str, cell: str | None) -> tuple[Diagnostic, ...]:
    """Raise ParseError or BindError for a wrong query, UsageError for wrong options; run nothing."""
    OPTIONS.parse(line)
    host.workbench.prepare(body.rstrip().rstrip(";"))
    return ()


COMMAND = MagicCommand(
    "query",
    "Run a query once, over named windows and tables or the rows that statements show now, and get a DataFrame.",
    ("%query EPL", "%%query [--into VARIABLE]"),
    line=run_line,
    cell=run_cell,
    says={"%%query [--into VARIABLE]": "The same of a longer text; `--into` puts it into a Python variable."},
    options=OPTIONS,
    check=check_cell,
)
