"""Help at the cursor (Shift-Tab) in EPL cells.

ipykernel looks a word up as a Python name. In EPL cells the answer comes from the catalog and the registries.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from cepbook.editor.cursor import cursor_position
from cepbook.editor.word_help import word_help
from cepbook.errors import UsageError
from cepbook.magics.editor.catalog_names import CatalogNames
from cepbook.magics.shell.host import NotebookHost


def make_inspect(host: NotebookHost, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `do_inspect` for kernels that answers for EPL and leaves Python to `original`."""

    def do_inspect(code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()) -> Any:
        if cursor_position(code, cursor_pos) is None:
            return original(code, cursor_pos, detail_level, omit_sections)
        description = describe(host, code, cursor_pos)
        data = {"text/plain": description, "text/html": f"<pre>{escape(description)}</pre>"} if description else {}
        return {"status": "ok", "found": bool(description), "data": data, "metadata": {}}

    return do_inspect


def describe(host: NotebookHost, code: str, cursor: int) -> str | None:
    """Describe the name at offset `cursor` of an EPL cell; None if nothing is known about it."""
    at = cursor_position(code, cursor)
    if at is None:
        return None
    try:
        return word_help(host.workbench.runtime, at, lambda scope, word: CatalogNames(host, scope).about(word))
    except UsageError as gone:
        return str(gone)
