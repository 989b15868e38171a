"""Completion in EPL cells: event types, properties, windows, functions, statement names, keywords.

A matcher of IPython's completer (API version 2). In our cells it suppresses all others, so that Python names do not
show up in EPL; everywhere else it stays silent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from cepbook.errors import UsageError
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.foreign_words import FOREIGN_WORDS, ForeignKind
from cepbook.lang.registry.functions import CONSTANTS, FUNCTIONS
from cepbook.lang.registry.methods import METHODS
from cepbook.lang.registry.methods import method_names_of as methods_of
from cepbook.lang.registry.methods.method_row import ReceiverKind
from cepbook.lang.registry.templates import STATEMENT_WORDS
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax.reader.lexer import TIME_UNITS
from cepbook.magics.editor.cursor import CursorPosition, NamesInScope, cursor_position, grammar_keywords, inside_text
from cepbook.magics.editor.dialect_completion import BY_MAGIC, dialect_offers
from cepbook.magics.shell.host import NotebookHost, Offer

_TIMED: tuple[ReceiverKind, ...] = ("date",)  # what the methods of events with timestamps are called on

_FRAGMENT = re.compile(r"[\w$]*\Z")
_WORD = re.compile(r"\S*\Z")
_WINDOW = re.compile(r"#\s*(?:(?P<namespace>\w+):)?\Z|\.(?P<dotted>win|std|ext|stat):\Z")
_PATH = re.compile(r"(?P<path>[\w$]+(?:\.[\w$]+)*)\.\Z")
_TYPE = re.compile(r"\b(?:from|into|join|inherits|copyfrom|istream|update|->|every)\s+\Z|\bon\s+\Z", re.IGNORECASE)
_ANOTHER_TYPE = re.compile(r"\b(?:from|inherits|copyfrom)\b[^()]*,\s*\Z", re.IGNORECASE)
_CLAUSE = re.compile(r"\b(?:where|having|group|order|output|select|limit)\b", re.IGNORECASE)
_CONTEXT = re.compile(r"\A\s*(?:@\w+(?:\([^)]*\))?\s*)*context\s+\Z", re.IGNORECASE)
_BEFORE_STATEMENT = re.compile(r"\s+|//[^\n]*(?:\n|\Z)|/\*.*?\*/|@\w+(?:\([^)]*\))?", re.DOTALL)
_SELECTING = re.compile(r"\bselect\b[^;]*\Z", re.IGNORECASE)
_AMOUNT = re.compile(
    r"(?:[(,]|\bevery|\bafter|\b(?:sec|min|hours?|days?|minutes?|seconds?))\s*\d+(?:\.\d+)?\s+\Z", re.IGNORECASE
)
_EVERY = re.compile(r"\b(?:every|after)\s+\d+\s+\Z", re.IGNORECASE)
_USUAL_UNITS = ("sec", "min", "hours", "days", "msec")
_COMPARED = re.compile(
    r"(?P<path>[\w$]+(?:\.[\w$]+)*)\s*(?:=|!=|<>|\bis|\blike|\bin\s*\((?:[^()]*,)?)\s*['\"](?P<begun>[^'\"]*)\Z",
    re.IGNORECASE,
)
_TYPED = re.compile(r"(?P<type>[\w.$]+)(?:\s*=\s*\{|\s)")


def make_matcher(host: NotebookHost) -> Callable[[CompletionContext], Any]:
    """The matcher for the workbench of `host`."""

    def matcher(context: CompletionContext) -> Any:
        lines = context.full_text.split("\n")
        cursor = sum(len(line) + 1 for line in lines[: context.cursor_line]) + context.cursor_position
        return complete(host, context.full_text, cursor)

    decorate: Any = context_matcher  # IPython does not annotate what it returns
    dressed: Callable[[CompletionContext], Any] = decorate(identifier="cepbook.epl", priority=1000)(matcher)
    return dressed


def complete(host: NotebookHost, code: str, cursor: int) -> Any:
    """The matcher's answer for offset `cursor` of `code`: offers that begin with what is typed, ours only."""
    at = cursor_position(code, cursor)
    if at is None:
        return {"completions": []}
    pattern = _WORD if at.kind in ("line", "options") else _FRAGMENT
    match = pattern.search(at.before)
    fragment = match.group() if match is not None else ""
    try:
        scope = NamesInScope(host, at)
    except UsageError:  # the workbench is gone; the next magic will say so
        return {"completions": []}
    typed = at.before[: len(at.before) - len(fragment)]
    offers = list(_starting_with(fragment, _offers(host, at, scope, typed)))
    # IPython ignores `suppress` when there is nothing to offer, and jedi would answer: offer what is there already.
    completions = [SimpleCompletion(text, type=kind) for text, kind in offers] or [SimpleCompletion(fragment)]
    return {"completions": completions, "suppress": True, "ordered": True, "matched_fragment": fragment}


def _starting_with(fragment: str, offers: Iterable[Offer]) -> Iterator[Offer]:
    """Offers that continue `fragment` (in any case), each text once; those in the typed case come first."""
    seen: dict[str, str] = {}
    for text, kind in offers:
        if text.lower().startswith(fragment.lower()):
            seen.setdefault(text, kind)
    yield from sorted(seen.items(), key=lambda offer: not offer[0].startswith(fragment))


def _offers(host: NotebookHost, at: CursorPosition, scope: NamesInScope, typed: str) -> Iterator[Offer]:
    command = host.command(at.magic)
    match at.kind:
        case "options" if command is not None and command.options is not None:
            yield from ((option, "keyword") for option in command.options.names)
        case "line" if command is not None and command.complete is not None:
            yield from command.complete(host, typed.split())
        case "events":
            yield from _events_offers(scope, typed)
        case "dialect":
            if not inside_text(typed):
                yield from dialect_offers(BY_MAGIC[at.magic], scope, at.cell, typed)
        case "epl" if inside_text(typed):
            yield from _value_offers(host, scope, typed)
        case "epl":
            yield from _epl_offers(host, scope, typed)


def _events_offers(scope: NamesInScope, typed: str) -> Iterator[Offer]:
    if typed[:1].isspace():
        yield from ((name, "statement") for name in scope.statements)
        return
    event = _TYPED.match(typed)
    event_type = scope.event_types.get(event["type"]) if event is not None else None
    if event_type is not None:
        yield from ((f"{name}{' = ' if '{' in typed else '='}", "property") for name in event_type.properties)
    elif not typed.strip():
        yield from ((name, "class") for name in scope.event_types)
        yield ("t = t.plus(", "keyword")
        yield from ((f"{word} ", "keyword") for word in ("iterate", "partitions", "set", "get"))
    elif typed.strip() == "iterate":
        yield from ((name, "statement") for name in scope.statements)
    elif typed.strip() in ("set", "get"):
        yield from ((name, "variable") for name in scope.variables)
    elif typed.strip() == "partitions":
        yield from ((name, "class") for name in scope.contexts)


def _value_offers(host: NotebookHost, scope: NamesInScope, typed: str) -> Iterator[Offer]:
    """Yield the texts that the compared property has had, in the quotes of ``status = '``."""
    compared = _COMPARED.search(typed)
    if compared is None:
        return
    path, _, name = compared["path"].rpartition(".")
    of = scope.of_path(path) if path else None
    owner = of.name if of is not None else scope.properties().get(name, (None, ""))[1]
    texts = host.workbench.seen_texts(owner, name) if owner else []
    begun = compared["begun"]
    yield from ((text[len(begun) :], "value") for text in texts if text.startswith(begun))


def _epl_offers(host: NotebookHost, scope: NamesInScope, typed: str) -> Iterator[Offer]:
    if not _BEFORE_STATEMENT.sub("", typed):
        yield from ((word, "keyword") for word in STATEMENT_WORDS)
        return
    window = _WINDOW.search(typed)
    if window is not None:
        namespace = window["namespace"] or window["dotted"]
        rows = [row for row in WINDOWS.values() if namespace in (None, row.namespace)]
        yield from ((row.name, "window") for row in rows)
        yield from _foreign_offers("window")
        return
    if _AMOUNT.search(typed):
        yield from ((unit, "unit") for unit in (*_USUAL_UNITS, *sorted(TIME_UNITS)))
        if _EVERY.search(typed):
            yield "events", "unit"
        return
    path = _PATH.search(typed)
    if path is not None:
        event_type = scope.of_path(path["path"])
        if event_type is not None:  # an event: its properties; the methods of values would bury them
            yield from ((name, "property") for name in event_type.properties)
            if event_type.time_property is not None:
                yield from ((name, "function") for name in methods_of(_TIMED))
            return
        shorts = dict.fromkeys(name.partition(".")[2] for name in (*FUNCTIONS, *METHODS, *CONSTANTS) if "." in name)
        yield from ((name, "function") for name in shorts)
        return
    if _CONTEXT.search(typed):
        yield from ((name, "class") for name in scope.contexts)
        return
    another = _ANOTHER_TYPE.search(typed)
    if _TYPE.search(typed) or (another is not None and not _CLAUSE.search(another.group())):
        yield from ((name, "class") for name in scope.event_types)
        yield ("pattern", "keyword")
        return
    yield from ((name, "property") for name in scope.properties() or _likely_properties(host, scope, typed))
    yield from ((name, "variable") for name in scope.variables)
    yield from ((name, "variable") for name in scope.aliases if name not in scope.event_types)
    yield from ((row.name, "aggregate") for row in AGGREGATES.values())
    yield from ((name, "function") for name in FUNCTIONS if "." not in name)
    yield from ((name, "function") for name in scope.functions)
    yield from ((name, "keyword") for name in grammar_keywords())
    yield from ((name, "class") for name in scope.event_types)
    yield from _foreign_offers("call", "clause")


def _likely_properties(host: NotebookHost, scope: NamesInScope, typed: str) -> Iterator[str]:
    """Yield the properties of all event types for a select list without from, those of frequent events first."""
    if _SELECTING.search(typed):
        counts = host.workbench.event_counts()
        for event_type in sorted(scope.event_types.values(), key=lambda one: -counts.get(one.name, 0)):
            yield from event_type.shown


def _foreign_offers(*kinds: ForeignKind) -> Iterator[Offer]:
    """Yield the words of other systems, each with what EPL has instead."""
    yield from ((name, f"see {row.doc}") for name, row in FOREIGN_WORDS.items() if row.kind in kinds)
