"""A link below each block of EPL that opens it in the playground, where it deploys by itself.

A block needs the event types, windows, tables and contexts of the blocks before it: all `create` statements of the
page, in order, come first, or only those of event types where these suffice. A block that refers to a DataFrame, or to
a mistake that the page shows, has no link.

The link brings a scenario, too. It is recorded while the Python between this block and the next one sends its events.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from docutils import nodes
from sphinx.application import Sphinx

from cepbook import Workbench
from cepbook.errors import CepbookError
from cepbook.lang.registry.windows import EXAMPLE_SCHEMA
from cepbook.testing.workbench_scenario import scenario_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import reference

PLAYGROUND = "playground/index.html"
CELL = re.compile(r"^%%epl.*\n")
CREATES = re.compile(r"^\s*(?:@\w+(?:\([^)]*\))?\s*)*create\s", re.IGNORECASE)
TRACE = re.compile(r"^```trace\n(.*?)^```", re.DOTALL | re.MULTILINE)
OUTSIDE = re.compile(r"cep\.(save|load|sink|journal|recover|live|replay|export)|open\(|await ")
# Pages whose examples have no Python: the events of the pictures, and some events of the two types of the clauses.
EVENTS = {
    "reference/windows": "\n".join(
        f"cep.advance({second * 1000}, stepping=True)\n"
        f"cep.send('Tick', symbol={symbol!r}, price={price}, volume={volume}, ts={second * 1000})"
        for second, symbol, price, volume in reference.EVENTS
    )
    + f"\ncep.advance({reference.UNTIL * 1000}, stepping=True)",
    "reference/clauses": "for second, id, price in ((1, 'x', 4.0), (2, 'y', 7.0), (3, 'x', 12.0), (5, 'y', 3.0)):\n"
    "    cep.advance(second * 1000, stepping=True)\n"
    "    cep.send('A', id=id, price=price)\n"
    "    cep.send('B', id=id, price=price + 1)\n"
    "cep.advance(70_000, stepping=True)",
}


def modules(texts: list[str]) -> Iterator[str | None]:
    """Yield for each block of a page the module that contains it, or None if there is none that deploys."""
    before: list[str] = []
    for text in texts:
        own = CELL.sub("", text).strip()
        if own.startswith("select"):  # reactions have the name of their statement
            own = f"@name('example')\n{own}"
        created = [entry for entry in before if entry not in own]
        schemas = [entry for entry in created if "create schema" in entry]
        for head in ([], schemas, created, [EXAMPLE_SCHEMA]):
            module = ";\n".join(part.rstrip().rstrip(";") for part in [*head, own])
            if deploys(module):
                yield module
                break
        else:
            yield None
        before += [part.strip() for part in own.split(";") if CREATES.match(part)]


def deploys(module: str) -> bool:
    """Return whether a module can be deployed in an empty workbench."""
    try:
        Workbench().run(module)
    except CepbookError:
        return False
    return True


def scenario(module: str, code: str) -> str:
    """Return what *code* sends to a module and how it reacts, as a scenario; empty if the code needs anything else."""
    if "cep.send" not in code or OUTSIDE.search(code):
        return ""
    cep = Workbench()
    cep.run(module)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, {"cep": cep})
        trace = TRACE.search(scenario_of(cep, "recorded").text)
    except Exception:  # noqa: BLE001 - the code belongs to a page, which has files, frames or errors of its own
        return ""
    return trace[1] if trace else ""


def add_links(app: Sphinx, doctree: nodes.document, name: str) -> None:
    """Add the links to a page."""
    if app.builder.format != "html":
        return
    blocks: list[Any] = list(doctree.findall(nodes.literal_block))
    places = [at for at, block in enumerate(blocks) if block.get("language") == "epl"]
    up = "../" * name.count("/")
    texts = [blocks[at].astext() for at in places]
    for at, end, module in zip(places, [*places, len(blocks)][1:], modules(texts), strict=True):
        if module is not None:
            between = [block.astext() for block in blocks[at:end] if block.get("language") == "python"]
            events = scenario(module, EVENTS.get(name) or "\n".join(between))
            address = f"{up}{PLAYGROUND}#module={quote(module, safe='')}"
            address += f"&amp;scenario={quote(events, safe='')}" if events else ""
            link = f'<p class="try-it"><a href="{address}">Try it</a></p>'
            blocks[at].parent.insert(blocks[at].parent.index(blocks[at]) + 1, nodes.raw("", link, format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", add_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
