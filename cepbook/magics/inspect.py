"""Shift-Tab in EPL cells: what the name at the cursor is.

ipykernel looks the word up as a Python name; in our cells the answer comes from the catalogue and the registries.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from cepbook.errors import UsageError
from cepbook.lang.aggregates import AGGREGATES
from cepbook.lang.clauses import OF_WORD
from cepbook.lang.functions import FUNCTIONS
from cepbook.lang.methods import named
from cepbook.lang.windows import WINDOWS
from cepbook.magics import complete_dialects, topics
from cepbook.magics.declared import Names
from cepbook.magics.host import Host
from cepbook.magics.scope import Scope, place

_BEFORE = re.compile(r"(?P<path>(?:[\w$]+\.)*)(?P<word>[\w$]*)\Z")
_AFTER = re.compile(r"[\w$]*")
_TIME = ", its event time"


def make_inspect(host: Host, original: Callable[..., Any]) -> Callable[..., Any]:
    """`do_inspect` of a kernel that answers for EPL and leaves Python to `original`."""

    def do_inspect(code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()) -> Any:
        if place(code, cursor_pos) is None:
            return original(code, cursor_pos, detail_level, omit_sections)
        found = describe(host, code, cursor_pos)
        data = {"text/plain": found, "text/html": f"<pre>{escape(found)}</pre>"} if found else {}
        return {"status": "ok", "found": bool(found), "data": data, "metadata": {}}

    return do_inspect


def describe(host: Host, code: str, cursor: int) -> str | None:
    """What stands at offset `cursor` of an EPL cell, as text; None when nothing is known of it."""
    at = place(code, cursor)
    if at is None:
        return None
    before, after = _BEFORE.search(at.before), _AFTER.match(at.after)
    assert before is not None and after is not None  # both patterns match the empty text
    word = before["word"] + after.group()
    if not word:
        return None
    try:
        scope = Scope(host, at)
    except UsageError as gone:
        return str(gone)
    if at.kind == "dialect":
        known = complete_dialects.doc(complete_dialects.BY_MAGIC[at.magic], word)
        if known is not None:
            return known
    found = list(_about(host, scope, before["path"].rstrip("."), word, at.before[: before.start()][-1:] == "#"))
    return "\n\n".join(found) or None


def _about(host: Host, scope: Scope, path: str, word: str, is_window: bool) -> Iterator[str]:
    if is_window:
        if word in WINDOWS:
            yield topics.window_doc(WINDOWS[word])
        return
    if path:
        holder = scope.of_path(path)
        if holder is not None and word in holder.properties:
            yield _property(word, holder.properties[word], holder.name)
        yield from (topics.function_doc(row) for name, row in FUNCTIONS.items() if name.endswith(f".{word}"))
        yield from (topics.method_doc(row) for row in named(word))
        return
    yield from Names(host, scope).about(word)
    properties = scope.properties()
    if word in properties:
        of, owner = properties[word]
        yield _property(word, of, owner) + (_TIME if scope.event_types[owner].time_property == word else "")
    yield from _documented(host, word)


def _documented(host: Host, word: str) -> Iterator[str]:
    lower = word.lower()
    if lower in OF_WORD:
        yield topics.clause_doc(OF_WORD[lower])
    if lower in AGGREGATES:
        yield topics.aggregate_doc(AGGREGATES[lower])
    yield from (topics.function_doc(row) for name, row in FUNCTIONS.items() if name.lower() == lower)
    if lower in WINDOWS and lower not in AGGREGATES:
        yield topics.window_doc(WINDOWS[lower])
    runtime = host.workbench.runtime
    if word in runtime.functions:
        doc = inspect.getdoc(runtime.functions[word])
        yield f"{word}: {runtime.catalog.functions[word]}" + (f"\n{doc}" if doc else "")


def _property(name: str, of: object, owner: str) -> str:
    return f"{name} {of}\n  property of {owner}"
