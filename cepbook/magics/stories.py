"""``%epl record`` and ``%epl report``: what happened as a scenario file, and as a page with pictures."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cepbook.errors import CepbookError, UsageError, printable
from cepbook.lang.formatting import formatted
from cepbook.lang.text import EPL, dialect_of
from cepbook.magics.host import Host
from cepbook.magics.options import Options
from cepbook.magics.show import text
from cepbook.session import Workbench
from cepbook.shown import Table, counted, table_html
from cepbook.testing.recording import scenario_of
from cepbook.widgets.charts import stream_chart
from cepbook.widgets.encode import text_of
from cepbook.widgets.freeze import freeze
from cepbook.widgets.marble import chart as marble_chart
from cepbook.widgets.render import Frozen
from cepbook.widgets.source import WorkbenchSource

RECORD_OPTIONS = (
    Options("%epl record")
    .add("file", help="a Markdown file; a case is added to it where it is there already")
    .add("--title", default="recorded", help="heading of the case")
)
REPORT_OPTIONS = (
    Options("%epl report")
    .add("file", help="an HTML file; it is replaced")
    .add("names", nargs="*", help="statements; default: all selects")
)
STYLE = """body{font:15px/1.45 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#1f2328}
body{background:#fff}
pre{background:#f6f8fa;padding:.6em;overflow:auto}img{max-width:100%}table{border-collapse:collapse;display:block;
max-width:100%;overflow-x:auto}h1,h2,div{overflow-wrap:anywhere}
td,th{padding:.1em .6em;border-bottom:1px solid #d0d7de}h2{border-bottom:1px solid #d0d7de;margin-top:2em}"""


def record(host: Host, rest: list[str]) -> object:
    """What happened since the beginning as a case of a scenario file, which passes (`cepbook test`)."""
    options = RECORD_OPTIONS.parse_words(rest)
    return add_case(options.file, host.workbench, options.title)


def add_case(file: str, workbench: Workbench, title: str) -> Frozen:
    """What happened in a workbench, added to the scenario file. Raises UsageError when that cannot be."""
    path = Path(file)
    if path.suffix != ".md":
        raise UsageError(f"scenario files are Markdown files (.md), not `{file}`")
    case = scenario_of(workbench, title)
    before = path.read_text(encoding="utf-8").rstrip("\n") + "\n\n" if path.exists() else ""
    _write(path, before + case)
    return text(f"recorded {title} in {file}")


def report(host: Host, rest: list[str]) -> object:
    """The statements with their text, present rows and pictures, as one HTML file that needs nothing else."""
    options = REPORT_OPTIONS.parse_words(rest)
    workbench = host.workbench
    statements = workbench.runtime.statements
    for name in options.names:
        workbench.runtime.statement(name)
    names = options.names or [name for name, s in statements.items() if s.kind == "select"]
    _write(Path(options.file), "".join(page(workbench, names)))
    return text(f"report of {counted(len(names), 'statement')} written to {options.file}")


def page(workbench: Workbench, names: list[str]) -> Iterator[str]:
    """The pieces of the page."""
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>cepbook</title><style>{STYLE}</style>'
    yield f"</head><body><h1>{_escaped(repr(workbench))}</h1>"
    variables = workbench.variables()
    if len(variables):
        rows = tuple(tuple(text_of(value) for value in row) for row in variables.itertuples(index=False))
        table = Table(tuple(variables.columns), (False,) * len(variables.columns), rows)
        yield f"<h2>Variables</h2>{table_html(table)}"
    for name in names:
        source = workbench.runtime.statement(name).epl
        shown = formatted(source) if dialect_of(source) == EPL else source
        yield f"<h2>{_escaped(name)}</h2><pre>{_escaped(shown)}</pre>"
        yield from filter(None, (_picture(workbench, name, kind) for kind in ("marble", "stream")))
        yield freeze(WorkbenchSource(workbench, name)).html
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


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be written: {error.strerror}") from None
