"""Completion and help in cells of other dialects: their keywords, event types, and the properties of items."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cepbook.dialects.dialect import Dialect
from cepbook.dialects.registry import DIALECTS
from cepbook.editor.cursor import NamesInScope

BY_MAGIC: dict[str, Dialect] = {row.magic: row for row in DIALECTS.values() if row.magic not in ("", "epl")}

_PATH = re.compile(r"(?P<alias>[\w$]+)\.\Z")
_ITEM = re.compile(r"\b(?:from|join)\s+(?P<alias>[\w$]+)\s+in\s+(?:all\s+)?(?P<type>[\w$]+)")
_PARTITION = re.compile(
    r"(?<![\w$])(?P<type>[\w$]+)\s*\((?=[^()]*partition)[^()]*+\)(?:\s*(?:to\s*)?\([^()]*\))*\s*(?:as\s+)?(?P<alias>\w+)"
)
_NAMED = re.compile(r"\bstream\s*<[^<>]*>\s*(?P<name>[\w$]+)")
_BEFORE_TYPE = re.compile(r"\b(?:all|in)\s+\Z")


def dialect_offers(dialect: Dialect, scope: NamesInScope, cell: str, typed: str) -> Iterator[tuple[str, str]]:
    """Yield the completions and their kinds; `typed` is the text before the word at the cursor."""
    path = _PATH.search(typed)
    types = {match["alias"]: match["type"] for rule in (_ITEM, _PARTITION) for match in rule.finditer(cell)}
    if path is not None:
        event_type = scope.event_types.get(types.get(path["alias"], ""))
        yield from ((name, "property") for name in (event_type.properties if event_type is not None else ()))
        return
    yield from ((match["name"], "variable") for match in _NAMED.finditer(cell))
    if not _BEFORE_TYPE.search(typed):
        yield from ((alias, "variable") for alias in types)
        known = [scope.event_types[name] for name in dict.fromkeys(types.values()) if name in scope.event_types]
        yield from ((name, "property") for event_type in known for name in event_type.properties)
        yield from ((word, "keyword") for word in dialect.keywords)
    yield from ((name, "class") for name in scope.event_types)


def keyword_doc(dialect: Dialect, word: str) -> str | None:
    """Return the documentation of a keyword of the dialect, or None."""
    doc = dialect.keywords.get(word, dialect.keywords.get(word.lower()))
    return None if doc is None else f"{word}: {dialect.title}\n  {doc}"
