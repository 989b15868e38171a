"""Help on the word at the cursor, from the catalog and the registries."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator

from cepbook.editor import dialect_completion, word_docs
from cepbook.editor.cursor import CursorPosition, NamesInScope
from cepbook.engine.runtime import Runtime
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.clauses import CLAUSE_OF_KEYWORD
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.registry.methods import methods_named
from cepbook.lang.registry.windows import WINDOWS

DescribeName = Callable[[NamesInScope, str], Iterator[str]]
_BEFORE = re.compile(r"(?P<path>(?:[\w$]+\.)*)(?P<word>[\w$]*)\Z")
_AFTER = re.compile(r"[\w$]*")
_TIME = ", its event time"


def word_help(runtime: Runtime, at: CursorPosition, describe_name: DescribeName) -> str | None:
    """Describe the word at the cursor; None if nothing is known about it.

    ``describe_name(scope, word)`` yields a text for each thing of the catalog that is called so.
    """
    before, after = _BEFORE.search(at.before), _AFTER.match(at.after)
    assert before is not None and after is not None  # both patterns match the empty text
    word = before["word"] + after.group()
    if not word:
        return None
    if at.kind == "dialect":
        known = dialect_completion.keyword_doc(dialect_completion.BY_MAGIC[at.magic], word)
        if known is not None:
            return known
    scope, path = NamesInScope(runtime, at), before["path"].rstrip(".")
    is_window = at.before[: before.start()][-1:] == "#"
    return "\n\n".join(_about(runtime, scope, path, word, is_window, describe_name)) or None


def _about(
    runtime: Runtime, scope: NamesInScope, path: str, word: str, is_window: bool, describe_name: DescribeName
) -> Iterator[str]:
    if is_window:
        if word in WINDOWS:
            yield word_docs.window_doc(WINDOWS[word])
        return
    if path:
        holder = scope.of_path(path)
        if holder is not None and word in holder.properties:
            yield _property(word, holder.properties[word], holder.name)
        yield from (word_docs.function_doc(row) for name, row in FUNCTIONS.items() if name.endswith(f".{word}"))
        yield from (word_docs.method_doc(row) for row in methods_named(word))
        return
    yield from describe_name(scope, word)
    properties = scope.properties()
    if word in properties:
        of, owner = properties[word]
        yield _property(word, of, owner) + (_TIME if scope.event_types[owner].time_property == word else "")
    yield from _documented(runtime, word)


def _documented(runtime: Runtime, word: str) -> Iterator[str]:
    lower = word.lower()
    if lower in CLAUSE_OF_KEYWORD:
        yield word_docs.clause_doc(CLAUSE_OF_KEYWORD[lower])
    if lower in AGGREGATES:
        yield word_docs.aggregate_doc(AGGREGATES[lower])
    yield from (word_docs.function_doc(row) for name, row in FUNCTIONS.items() if name.lower() == lower)
    if lower in WINDOWS and lower not in AGGREGATES:
        yield word_docs.window_doc(WINDOWS[lower])
    if word in runtime.functions:
        doc = inspect.getdoc(runtime.functions[word])
        yield f"{word}: {runtime.catalog.functions[word]}" + (f"\n{doc}" if doc else "")


def _property(name: str, of: object, owner: str) -> str:
    return f"{name} {of}\n  property of {owner}"
