"""``%epl record`` and ``%epl report``: what happened as a scenario file, and as a page with pictures."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cepbook.display import DisplayTable, format_count, format_value, table_html
from cepbook.errors import CepbookError, UsageError, printable
from cepbook.lang.syntax.formatter import format_epl
from cepbook.lang.syntax.source_text import EPL, dialect_of
from cepbook.magics.shell.host import NotebookHost
from cepbook.magics.shell.options import MagicOptions
from cepbook.magics.shell.output import text
from cepbook.session import Workbench
from cepbook.session.core.saved_state import read_file, refuse_foreign, write_file
from cepbook.session.io.time_conversion import format_clock_time
from cepbook.testing.workbench_scenario import scenario_of
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.charts import stream_chart
from cepbook.widgets.live_view.static_view import static_view
from cepbook.widgets.live_view.view_source import WorkbenchSource
from cepbook.widgets.marble.marble_chart import marble_chart

RECORD_OPTIONS = (
    MagicOptions("%epl record")
    .add("file", help="a Markdown file; a case is added to it where it is there already")
    .add("--title", default="recorded", help="heading of the case")
)
REPORT_OPTIONS = (
    MagicOptions("%epl report")
    .add("file", help="an HTML file; a report that it holds is replaced")
    .add("names", nargs="*", default=[], help="statements; default: all selects")
    .add("--replace", action="store_true", help="also a file that holds something else than a report")
)
HEAD = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>cepbook</title>'
STYLE = """body{font:15px/1.45 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#1f2328}
body{background:#fff}
pre{background:#f6f8fa;padding:.6em;overflow:auto}img{max-width:100%}table{border-collapse:collapse;display:block;
max-width:100%;overflow-x:auto}h1,h2,div{overflow-wrap:anywhere}
td,th{padding:.1em .6em;border-bottom:1px solid #d0d7de}h2{border-bottom:1px solid #d0d7de;margin-top:2em}"""


def record(host: NotebookHost, rest: list[str]) -> object:
    """What happened since the beginning as a case of a scenario file, which passes (`cepbook test`)."""
    options = RECORD_OPTIONS.parse_words(rest)
    return add_case(options.file, host.workbench, options.title)


def add_case(file: str, workbench: Workbench, title: str) -> StaticPicture:
    """What happened in a workbench, added to the scenario file. Raises UsageError when that cannot be."""
    before = cases_of(file)
    case = scenario_of(workbench, title)
    _write(file, f"{before}\n\n{case.text}" if before else case.text)
    told = f"recorded {title} in {file}"
    if case.otherwise:
        names = ", ".join(f"`{name}`" for name in case.otherwise)
        told += f"\nnot as it was: {names} delivered other rows: what was dropped or deployed anew is not recorded"
    return text(told)


def cases_of(file: str) -> str:
    """What the scenario file holds before a case is added. Raises UsageError where none can be added."""
    path = _target(file, (".md",), "scenario files are Markdown files (.md)")
    if not path.exists():
        return ""
    try:
        return read_file(path).decode("utf-8").rstrip("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file!r} is no UTF-8 text: byte {error.start} is {error.object[error.start]:#x}") from None


def _target(file: str, suffixes: tuple[str, ...], what: str) -> Path:
    """The file to be written, as far as its name tells: refused before the work is done."""
    path = Path(file).expanduser()
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{what}, not `{file}`")
    if "\0" in file or not path.parent.is_dir():
        raise UsageError(f"{file!r} cannot be written: there is no folder {str(path.parent)!r}")
    return path


def report(host: NotebookHost, rest: list[str]) -> object:
    """The statements with their text, present rows and pictures, as one HTML file that needs nothing else."""
    options = REPORT_OPTIONS.parse_words(rest)
    workbench = host.workbench
    _target(options.file, (".html", ".htm"), "reports are HTML files (.html)")
    if not options.replace:
        refuse_foreign(options.file, HEAD.encode(), "report of cepbook", "`%epl report --replace`")
    statements = workbench.runtime.statements
    for name in options.names:
        workbench.runtime.statement(name)
    names = list(dict.fromkeys(options.names)) or [name for name, s in statements.items() if s.kind == "select"]
    _write(options.file, "".join(report_page(workbench, names)))
    return text(f"report of {format_count(len(names), 'statement')} written to {options.file}")


def report_page(workbench: Workbench, names: list[str]) -> Iterator[str]:
    """The pieces of the page."""
    at = format_clock_time(workbench.runtime.now, workbench.runtime.config.second)
    yield f"{HEAD}<style>{STYLE}</style></head><body><h1>{format_count(len(names), 'statement')} at {at}</h1>"
    variables = workbench.variables()
    if len(variables):
        rows = tuple(tuple(format_value(value) for value in row) for row in variables.itertuples(index=False))
        table = DisplayTable(tuple(variables.columns), (False,) * len(variables.columns), rows)
        yield f"<h2>Variables</h2>{table_html(table)}"
    for name in names:
        source = workbench.runtime.statement(name).epl
        shown = format_epl(source) if dialect_of(source) == EPL else source
        yield f"<h2>{_escaped(name)}</h2><pre>{_escaped(shown)}</pre>"
        yield from filter(None, (_picture(workbench, name, kind) for kind in ("marble", "stream")))
        yield static_view(WorkbenchSource(workbench, name)).html
    yield "</body></html>\n"


def _escaped(shown: str) -> str:
    return html.escape(printable(shown))


def _picture(workbench: Workbench, name: str, kind: str) -> str:
    """A chart as a picture in the page; empty where there is nothing to draw, or nothing to draw it with."""
    try:
        chart: Any = marble_chart(workbench.marble(name)) if kind == "marble" else stream_chart(workbench, name)
        data = chart._repr_mimebundle_(None, None)
    except CepbookError:
        return ""
    found = data[0] if isinstance(data, tuple) else data
    png = found.get("image/png")
    return "" if png is None else f'<p><img alt="{kind} of {_escaped(name)}" src="data:image/png;base64,{png}"></p>'


def _write(file: str, content: str) -> None:
    try:
        write_file(file, content.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise UsageError(f"{file!r} cannot be written: {error.object[error.start]!r} is half a character") from None
