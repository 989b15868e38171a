"""Help at the cursor (Shift-Tab) in EPL cells.

ipykernel looks a word up as a Python name. In EPL cells the answer comes from the catalog and the registries.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from cepbook.errors import UsageError
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.clauses import CLAUSE_OF_KEYWORD
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.registry.methods import methods_named
from cepbook.lang.registry.windows import WINDOWS
from cepbook.magics.editor import dialect_completion
from cepbook.magics.editor.catalog_names import CatalogNames
from cepbook.magics.editor.cursor import NamesInScope, cursor_position
from cepbook.magics.epl import help
from cepbook.magics.shell.host import NotebookHost

_BEFORE = re.compile(r"(?P<path>(?:[\w$]+\.)*)(?P<word>[\w$]*)\Z")
_AFTER = re.compile(r"[\w$]*")
_TIME = ", its event time"


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
    before, after = _BEFORE.search(at.before), _AFTER.match(at.after)
    assert before is not None and after is not None  # both patterns match the empty text
    word = before["word"] + after.group()
    if not word:
        return None
    try:
        scope = NamesInScope(host, at)
    except UsageError as gone:
        return str(gone)
    if at.kind == "dialect":
        known = dialect_completion.keyword_doc(dialect_completion.BY_MAGIC[at.magic], word)
        if known is not None:
            return known
    descriptions = list(_about(host, scope, before["path"].rstrip("."), word, at.before[: before.start()][-1:] == "#"))
    return "\n\n".join(descriptions) or None


def _about(host: NotebookHost, scope: NamesInScope, path: str, word: str, is_window: bool) -> Iterator[str]:
    if is_window:
        if word in WINDOWS:
            yield help.window_doc(WINDOWS[word])
        return
    if path:
        holder = scope.of_path(path)
        if holder is not None and word in holder.properties:
            yield _property(word, holder.properties[word], holder.name)
        yield from (help.function_doc(row) for name, row in FUNCTIONS.items() if name.endswith(f".{word}"))
        yield from (help.method_doc(row) for row in methods_named(word))
        return
    yield from CatalogNames(host, scope).about(word)
    properties = scope.properties()
    if word in properties:
        of, owner = properties[word]
        yield _property(word, of, owner) + (_TIME if scope.event_types[owner].time_property == word else "")
    yield from _documented(host, word)


def _documented(host: NotebookHost, word: str) -> Iterator[str]:
    lower = word.lower()
    if lower in CLAUSE_OF_KEYWORD:
        yield help.clause_doc(CLAUSE_OF_KEYWORD[lower])
    if lower in AGGREGATES:
        yield help.aggregate_doc(AGGREGATES[lower])
    yield from (help.function_doc(row) for name, row in FUNCTIONS.items() if name.lower() == lower)
    if lower in WINDOWS and lower not in AGGREGATES:
        yield help.window_doc(WINDOWS[lower])
    runtime = host.workbench.runtime
    if word in runtime.functions:
        doc = inspect.getdoc(runtime.functions[word])
        yield f"{word}: {runtime.catalog.functions[word]}" + (f"\n{doc}" if doc else "")


def _property(name: str, of: object, owner: str) -> str:
    return f"{name} {of}\n  property of {owner}"
