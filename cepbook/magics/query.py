"""``%query`` and ``%%query``: a fire-and-forget query, answered as a DataFrame."""

from __future__ import annotations

import pandas as pd

from cepbook.errors import Diagnostic, UsageError
from cepbook.magics.shell.host import MagicCommand, NotebookHost
from cepbook.magics.shell.options import MagicOptions, strip_comment, variable_name
from cepbook.magics.shell.output import text
from cepbook.session.inspect.fire_and_forget import queried_statements
from cepbook.widgets.live_view.view_source import NO_ROWS_TEXT

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
    """Answer a query. If the result is empty because a statement keeps no rows, say so."""
    workbench = host.workbench
    frame = workbench.query(epl, parameters=host.shell.user_ns)
    if frame.empty:
        for name in queried_statements(epl, workbench.runtime):
            if not workbench.keeps_rows(name):
                host.show(text(f"`{name}` {NO_ROWS_TEXT}"))
    return frame


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
