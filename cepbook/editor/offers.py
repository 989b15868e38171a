"""Completion in EPL: names, keywords, functions, windows, units and values, by the position of the cursor.

A regular expression recognises a position by the end of the text before the word at the cursor. In a statement the
first one that matches decides. Offers are yielded in the order in which the list shows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cepbook.editor.cursor import EVENT_LINE, CursorPosition, NamesInScope, grammar_keywords, inside_text
from cepbook.editor.dialect_completion import BY_MAGIC, dialect_offers
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.foreign_words import FOREIGN_WORDS, ForeignKind
from cepbook.lang.registry.functions import CONSTANTS, FUNCTIONS
from cepbook.lang.registry.methods import METHODS
from cepbook.lang.registry.methods import method_names_of as methods_of
from cepbook.lang.registry.methods.method_row import ReceiverKind
from cepbook.lang.registry.templates import STATEMENT_WORDS
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax.reader.lexer import TIME_UNITS

Offer = tuple[str, str]  # a text that completion inserts, and its kind, which the list shows as an icon or beside it

_TIMED_EVENT: tuple[ReceiverKind, ...] = ("date",)  # an event with a timestamp has the methods of dates

_WINDOW = re.compile(r"#\s*(?:(?P<namespace>\w+):)?\Z|\.(?P<dotted>win|std|ext|stat):\Z")
_PATH = re.compile(r"(?P<path>[\w$]+(?:\.[\w$]+)*)\.\Z")
_BEFORE_TYPE = re.compile(
    r"\b(?:from|into|join|inherits|copyfrom|istream|update|->|every)\s+\Z|\bon\s+\Z", re.IGNORECASE
)
_BEFORE_FURTHER_TYPE = re.compile(r"\b(?:from|inherits|copyfrom)\b[^()]*,\s*\Z", re.IGNORECASE)
_CLAUSE = re.compile(r"\b(?:where|having|group|order|output|select|limit)\b", re.IGNORECASE)
_CONTEXT = re.compile(r"\A\s*(?:@\w+(?:\([^)]*\))?\s*)*context\s+\Z", re.IGNORECASE)
_BEFORE_STATEMENT = re.compile(r"\s+|//[^\n]*(?:\n|\Z)|/\*.*?\*/|@\w+(?:\([^)]*\))?", re.DOTALL)
_SELECTING = re.compile(r"\bselect\b[^;]*\Z", re.IGNORECASE)
_AMOUNT = re.compile(
    r"(?:[(,]|\bevery|\bafter|\b(?:sec|min|hours?|days?|minutes?|seconds?))\s*\d+(?:\.\d+)?\s+\Z", re.IGNORECASE
)
_EVERY = re.compile(r"\b(?:every|after)\s+\d+\s+\Z", re.IGNORECASE)
_USUAL_UNITS = ("sec", "min", "hours", "days", "msec")
_COMPARED = re.compile(  # with a text that was begun
    r"(?P<path>[\w$]+(?:\.[\w$]+)*)\s*(?:=|!=|<>|\bis|\blike|\bin\s*\((?:[^()]*,)?)\s*['\"](?P<begun>[^'\"]*)\Z",
    re.IGNORECASE,
)
FRAGMENT = re.compile(r"[\w$]*\Z")  # the word so far


@dataclass(frozen=True, slots=True)
class SeenValues:
    """Facts about past events: ``counts()`` by event type, ``texts(event type, property)`` of a property."""

    counts: Callable[[], Mapping[str, int]]
    texts: Callable[[str, str], Sequence[str]]


NOTHING_SEEN = SeenValues(dict, lambda event_type, name: ())


def text_offers(seen: SeenValues, at: CursorPosition, scope: NamesInScope, typed: str) -> Iterator[Offer]:
    """Yield the offers in the text of a cell; `typed` is the statement before the word at the cursor."""
    match at.kind:
        case "events":
            yield from _events_offers(scope, typed)
        case "dialect":
            if not inside_text(typed):
                yield from dialect_offers(BY_MAGIC[at.magic], scope, at.cell, typed)
        case "epl" if inside_text(typed):
            yield from _value_offers(seen, scope, typed)
        case "epl":
            yield from _epl_offers(seen, scope, typed)


def starting_with(fragment: str, offers: Iterable[Offer]) -> Iterator[Offer]:
    """Yield the offers that continue `fragment` in any case, a text once. Those in the typed case come first."""
    kinds: dict[str, str] = {}
    for text, kind in offers:
        if text.lower().startswith(fragment.lower()):
            kinds.setdefault(text, kind)
    yield from sorted(kinds.items(), key=lambda offer: not offer[0].startswith(fragment))


def _events_offers(scope: NamesInScope, typed: str) -> Iterator[Offer]:
    if typed[:1].isspace():
        yield from ((name, "statement") for name in scope.statements)
        return
    event = EVENT_LINE.match(typed)
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


def _value_offers(seen: SeenValues, scope: NamesInScope, typed: str) -> Iterator[Offer]:
    """Yield the texts that the compared property has had, in the quotes of ``status = '``."""
    compared = _COMPARED.search(typed)
    if compared is None:
        return
    path, _, name = compared["path"].rpartition(".")
    of = scope.of_path(path) if path else None
    owner = of.name if of is not None else scope.properties().get(name, (None, ""))[1]
    texts = seen.texts(owner, name) if owner else []
    begun = compared["begun"]
    yield from ((text[len(begun) :], "value") for text in texts if text.startswith(begun))


def _epl_offers(seen: SeenValues, scope: NamesInScope, typed: str) -> Iterator[Offer]:
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
                yield from ((name, "function") for name in methods_of(_TIMED_EVENT))
            return
        members = dict.fromkeys(name.partition(".")[2] for name in (*FUNCTIONS, *METHODS, *CONSTANTS) if "." in name)
        yield from ((name, "function") for name in members)
        return
    if _CONTEXT.search(typed):
        yield from ((name, "class") for name in scope.contexts)
        return
    further = _BEFORE_FURTHER_TYPE.search(typed)
    if _BEFORE_TYPE.search(typed) or (further is not None and not _CLAUSE.search(further.group())):
        yield from ((name, "class") for name in scope.event_types)
        yield ("pattern", "keyword")
        return
    yield from ((name, "property") for name in scope.properties() or _likely_properties(seen, scope, typed))
    yield from ((name, "variable") for name in scope.variables)
    yield from ((name, "variable") for name in scope.aliases if name not in scope.event_types)
    yield from ((row.name, "aggregate") for row in AGGREGATES.values())
    yield from ((name, "function") for name in FUNCTIONS if "." not in name)
    yield from ((name, "function") for name in scope.functions)
    yield from ((name, "keyword") for name in grammar_keywords())
    yield from ((name, "class") for name in scope.event_types)
    yield from _foreign_offers("call", "clause")


def _likely_properties(seen: SeenValues, scope: NamesInScope, typed: str) -> Iterator[str]:
    """Yield the properties of all event types for a select list without from, those of frequent events first."""
    if _SELECTING.search(typed):
        counts = seen.counts()
        for event_type in sorted(scope.event_types.values(), key=lambda one: -counts.get(one.name, 0)):
            yield from event_type.shown


def _foreign_offers(*kinds: ForeignKind) -> Iterator[Offer]:
    """Yield the words of other systems, each with what EPL has instead."""
    yield from ((name, f"see {row.doc}") for name, row in FOREIGN_WORDS.items() if row.kind in kinds)
