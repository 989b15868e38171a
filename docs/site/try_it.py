"""A link below each block of EPL that opens it in the playground, where it deploys by itself.

A block needs the event types, windows, tables and contexts of the blocks before it: all `create` statements of the
page, in order, come first. A block that refers to a DataFrame, or to a mistake that the page shows, has no link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from docutils import nodes
from sphinx.application import Sphinx

from cepbook import Workbench
from cepbook.errors import CepbookError
from cepbook.lang.registry.windows import EXAMPLE_SCHEMA

PLAYGROUND = "playground/index.html"
CELL = re.compile(r"^%%epl.*\n")
CREATES = re.compile(r"^\s*(?:@\w+(?:\([^)]*\))?\s*)*create\s", re.IGNORECASE)


def modules(texts: list[str]) -> Iterator[str | None]:
    """Yield for each block of a page the module that contains it, or None if there is none that deploys."""
    before: list[str] = []
    for text in texts:
        own = CELL.sub("", text).strip()
        created = [entry for entry in before if entry not in own]
        for head in ([], created, [EXAMPLE_SCHEMA]):
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


def add_links(app: Sphinx, doctree: nodes.document, name: str) -> None:
    """Add the links to a page."""
    if app.builder.format != "html":
        return
    blocks: list[Any] = [block for block in doctree.findall(nodes.literal_block) if block.get("language") == "epl"]
    up = "../" * name.count("/")
    for block, module in zip(blocks, modules([block.astext() for block in blocks]), strict=True):
        if module is not None:
            address = f"{up}{PLAYGROUND}#module={quote(module, safe='')}"
            link = f'<p class="try-it"><a href="{address}">Try it</a></p>'
            block.parent.insert(block.parent.index(block) + 1, nodes.raw("", link, format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", add_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
