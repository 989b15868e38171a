"""``%epl report``: statements, rows and pictures as one HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from cepbook.display import DisplayTable, format_count, format_value, table_html
from cepbook.errors import CepbookError, printable
from cepbook.lang.syntax.formatter import format_epl
from cepbook.lang.syntax.source_text import EPL, dialect_of
from cepbook.magics.epl.record import output_path, write_text
from cepbook.magics.shell.host import NotebookHost, Subcommand
from cepbook.magics.shell.options import MagicOptions
from cepbook.magics.shell.output import text
from cepbook.session import Workbench
from cepbook.session.core.saved_state import refuse_foreign
from cepbook.session.io.time_conversion import clock_text
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.charts import stream_chart
from cepbook.widgets.live_view.static_view import static_view
from cepbook.widgets.live_view.view_source import WorkbenchSource
from cepbook.widgets.marble.marble_chart import marble_chart

OPTIONS = (
    MagicOptions("%epl report")
    .add("file", help="an HTML file; a report that it holds is replaced")
    .add("names", nargs="*", default=[], help="statements; default: all selects")
    .add("--replace", action="store_true", help="also a file that holds something else than a report")
)
HEAD = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>cepbook</title>'
# The page holds tables, styles and pictures: it may load nothing and run nothing, whatever the values in it are.
POLICY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
img-src data:; base-uri 'none'; form-action 'none'">"""
STYLE = """body{font:15px/1.45 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#1f2328}
body{background:#fff}
pre{background:#f6f8fa;padding:.6em;overflow:auto}img{max-width:100%}table{border-collapse:collapse;display:block;
max-width:100%;overflow-x:auto}h1,h2,div{overflow-wrap:anywhere}
td,th{padding:.1em .6em;border-bottom:1px solid #d0d7de}h2{border-bottom:1px solid #d0d7de;margin-top:2em}"""


def report(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Write one self-contained HTML page with the text, the present rows and pictures of each statement."""
    options = OPTIONS.parse_words(arguments)
    workbench = host.workbench
    output_path(options.file, (".html", ".htm"), "reports are HTML files (.html)")
    if not options.replace:
        refuse_foreign(options.file, HEAD.encode(), "report of cepbook", "`%epl report --replace`")
    statements = workbench.runtime.statements
    for name in options.names:
        workbench.runtime.statement(name)
    names = list(dict.fromkeys(options.names)) or [name for name, s in statements.items() if s.kind == "select"]
    write_text(options.file, "".join(report_page(workbench, names)))
    return text(f"report of {format_count(len(names), 'statement')} written to {options.file}")


def report_page(workbench: Workbench, names: list[str]) -> Iterator[str]:
    """Yield the HTML of the page, piece by piece."""
    at = clock_text(workbench.runtime.now, workbench.runtime.config.second)
    yield f"{HEAD}{POLICY}<style>{STYLE}</style></head><body><h1>{format_count(len(names), 'statement')} at {at}</h1>"
    variables = workbench.variables()
    if len(variables):
        rows = tuple(tuple(format_value(value) for value in row) for row in variables.itertuples(index=False))
        table = DisplayTable(tuple(variables.columns), (False,) * len(variables.columns), rows)
        yield f"<h2>Variables</h2>{table_html(table)}"
    for name in names:
        source = workbench.runtime.statement(name).epl
        epl = format_epl(source) if dialect_of(source) == EPL else source
        yield f"<h2>{_escaped(name)}</h2><pre>{_escaped(epl)}</pre>"
        yield from filter(None, (_picture(workbench, name, kind) for kind in ("marble", "stream")))
        yield static_view(WorkbenchSource(workbench, name)).html
    yield "</body></html>\n"


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _picture(workbench: Workbench, name: str, kind: str) -> str:
    """Return a chart as an image tag, or an empty text if there is nothing to draw or nothing to draw it with."""
    try:
        chart: Any = marble_chart(workbench.marble(name)) if kind == "marble" else stream_chart(workbench, name)
        data = chart._repr_mimebundle_(None, None)
    except CepbookError:
        return ""
    png = (data[0] if isinstance(data, tuple) else data).get("image/png")
    return "" if png is None else f'<p><img alt="{kind} of {_escaped(name)}" src="data:image/png;base64,{png}"></p>'


REPORT = Subcommand(
    "report",
    report,
    {"%epl report [--replace] FILE [STATEMENT …]": "One HTML page with statements, rows and pictures."},
)
