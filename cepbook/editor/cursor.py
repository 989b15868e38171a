"""The position of the cursor in a cell: its kind, its statement, and the names that the statement knows.

Completion and help work on text that is being typed and seldom parses, so this module looks at words and signs only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from cepbook.dialects.registry import DIALECTS
from cepbook.engine.runtime import Runtime
from cepbook.lang.bind.statements.create_context import CONTEXT_PROPERTIES
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.syntax.reader.lexer import RESERVED_WORDS
from cepbook.lang.types import BY_NAME, OBJECT, Type

AROUND = 25_000  # characters of a cell on each side of the cursor that are looked at
_NEAR = 2_500  # characters of its statement
CursorKind = Literal["epl", "dialect", "events", "line", "options"]

EVENT_CELLS = ("events", "scenario", "expect")  # cells whose lines are events and reactions
_OTHERS = [row.magic for row in DIALECTS.values() if row.magic not in ("", "epl")]
_CELL = re.compile(rf"\s*%%({'|'.join(('epl', 'query', *EVENT_CELLS, *_OTHERS))})\b([^\n]*)(\n|\Z)")
_LINE = re.compile(r"\s*%(epl|query|view|clock)\b[ \t]*")
_SOURCE = re.compile(
    r"(?:\bfrom|\bjoin|,|\binto|\bon|\bupdate\s+istream)\s+(?P<type>[\w.$]+)"
    r"(?:\s*\((?:[^()]|\([^()]*\))*\))?"
    r"(?:\s*[#.][\w:]+(?:\((?:[^()]|\([^()]*\))*\))?)*"
    r"(?:\s+(?:as\s+)?(?P<alias>(?!(?:from|join|into|on|update)\b)[\w$]+))?",  # not where another source begins
    re.IGNORECASE,
)
EVENT_LINE = re.compile(r"\s*`?(?P<type>[\w.$]+)`?(?:\s*=\s*\{|\s)")  # in cells of events
_TAG = re.compile(r"(?<![\w$])(?P<alias>[\w$]+)\s*=\s*(?P<type>[\w.$]+)")
_SCHEMA = re.compile(
    r"create\s+(?:\w+\s+)?schema\s+(?P<name>[\w.$]+)\s*(?:as\s*)?\((?P<columns>[^();]*)\)", re.IGNORECASE
)
_VARIABLE = re.compile(
    r"create\s+(?:constant\s+)?variable\s+(?P<type>[\w.]+)(?:\[\w*\])*\s+(?P<name>[\w$]+)", re.IGNORECASE
)
_WITHIN = re.compile(r"\A\s*(?:@\w+(?:\([^)]*\))?\s*)*context\s+(?P<name>[\w$]+)", re.IGNORECASE)
STRING = re.compile(  # strings and comments, closed or not
    r"'(?:[^'\\\n]|\\.)*(?:'|$)|\"(?:[^\"\\\n]|\\.)*(?:\"|$)|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL | re.MULTILINE
)
_KEYWORD = re.compile(r'"([a-z][a-z]+)"')


@dataclass(frozen=True, slots=True)
class CursorPosition:
    """The cursor in a cell or line of ours.

    `before` and `after` are the EPL statement around the cursor (or the line of a line magic); `cell` is everything.
    """

    kind: CursorKind
    magic: str
    before: str
    after: str
    cell: str

    @property
    def statement(self) -> str:
        return self.before + self.after


def cursor_position(code: str, cursor: int) -> CursorPosition | None:
    """Return the position of offset `cursor` in `code`, or None in Python code.

    In long cells and statements the text around the cursor stands for the whole, so the answer does not take longer.
    """
    head = _CELL.match(code)
    if head is not None:
        if len(code) - head.end() > 2 * AROUND and cursor > head.end(2):
            first = max(head.end(), cursor - AROUND)
            around = code[first : cursor + AROUND]
            return cursor_position(code[: head.end()] + around, head.end() + cursor - first)
        if cursor <= head.end(2):
            return (
                CursorPosition("options", head[1], code[head.end(1) : cursor], "", code)
                if cursor > head.end(1)
                else None
            )
        body = head.end()
        if head[1] in _OTHERS:
            near = code[max(body, cursor - _NEAR) : cursor], code[cursor : cursor + _NEAR]
            return CursorPosition("dialect", head[1], *near, code[body:])
        if head[1] in EVENT_CELLS:
            start = code.rfind("\n", 0, cursor) + 1
            end = code.find("\n", cursor)
            return CursorPosition("events", head[1], code[start:cursor], code[cursor : end if end >= 0 else None], code)
        start, end = _statement(code, body, cursor)
        before, after = code[max(start, cursor - _NEAR) : cursor], code[cursor : min(end, cursor + _NEAR)]
        return CursorPosition("epl", head[1], before, after, code[body:])
    start = code.rfind("\n", 0, cursor) + 1
    line = _LINE.match(code, start)
    if line is None or cursor < line.end():
        return None
    kind: CursorKind = "epl" if line[1] == "query" else "line"
    end = code.find("\n", cursor)
    return CursorPosition(kind, line[1], code[line.end() : cursor], code[cursor : end if end >= 0 else None], "")


def _statement(code: str, body: int, cursor: int) -> tuple[int, int]:
    """The bounds of the statement around the cursor; semicolons in strings and comments do not count."""
    hidden = blanked(code[body:])
    start = hidden.rfind(";", 0, cursor - body) + 1
    end = hidden.find(";", cursor - body)
    return body + start, body + end if end >= 0 else len(code)


def blanked(text: str) -> str:
    """`text` with the contents of strings and comments replaced by blanks, at the same length."""
    return STRING.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def inside_text(before: str) -> bool:
    """Return whether `before` ends inside a string or a comment."""
    return any(match.end() > len(before) for match in STRING.finditer(before + "\0"))


@cache
def grammar_keywords() -> tuple[str, ...]:
    """Every keyword of the grammar, in alphabetical order."""
    grammar = files("cepbook.lang.syntax") / "grammar"
    keywords: set[str] = set()
    for name in ("common", "epl", "expression", "pattern", "match_recognize"):
        keywords.update(_KEYWORD.findall((grammar / f"{name}.lark").read_text(encoding="utf-8")))
    return tuple(sorted(keywords))


class NamesInScope:
    """The names that the statement at a place may use."""

    def __init__(self, runtime: Runtime, at: CursorPosition) -> None:
        self.statements = runtime.statements
        self.contexts = runtime.catalog.contexts
        self.functions = tuple(runtime.catalog.functions)
        self.variables: dict[str, Type] = {n: v.type for n, v in runtime.catalog.variables.items()}
        self.variables |= {match["name"]: _type_named(match["type"]) for match in _VARIABLE.finditer(blanked(at.cell))}
        self.event_types: dict[str, EventType] = {**_schemas(at.cell), **runtime.catalog.event_types}
        statement = blanked(at.statement)
        self.aliases = self._aliases(statement)
        sent = EVENT_LINE.match(statement) if at.kind == "events" else None
        if sent is not None and sent["type"] in self.event_types:
            self.aliases[sent["type"]] = self.event_types[sent["type"]]
        within = _WITHIN.search(statement)
        self.context = self._context(within["name"]) if within is not None else None

    def _aliases(self, statement: str) -> dict[str, EventType]:
        aliases: dict[str, EventType] = {}
        reserved = RESERVED_WORDS | set(grammar_keywords())
        for source in (*_SOURCE.finditer(statement), *_TAG.finditer(statement)):
            event_type = self.event_types.get(source["type"])
            if event_type is None:
                continue
            aliases.setdefault(event_type.name, event_type)
            alias = source["alias"]
            if alias and alias.lower() not in reserved:
                aliases[alias] = event_type
        return aliases

    def properties(self) -> Mapping[str, tuple[Type, str]]:
        """Property -> (type, event type) over the streams of the statement, the first stream first."""
        properties: dict[str, tuple[Type, str]] = {}
        for event_type in dict.fromkeys(t.name for t in self.aliases.values()):
            for name, of in self.event_types[event_type].properties.items():
                properties.setdefault(name, (of, event_type))
        return properties

    def of_path(self, path: str) -> EventType | None:
        """The event type that ``a`` or ``a.b`` stands for: a stream alias, an event type, a nested property.

        ``context`` is that of the statement, with its built-in properties.
        """
        first, *rest = path.split(".")
        event_type = self.aliases.get(first) or self.event_types.get(first)
        if event_type is None and first == "context":
            event_type = self.context
        if event_type is None:
            declared = self.properties().get(first)
            event_type = self._holder(declared[0]) if declared is not None else None
        for name in rest:
            nested = event_type.properties.get(name) if event_type is not None else None
            event_type = self._holder(nested) if nested is not None else None
        return event_type

    def _holder(self, of: Type) -> EventType | None:
        """The event type whose properties a value of this type has: a nested event, or a level of a nested context."""
        if of.fields is not None:
            return EventType(str(of), dict(of.fields))
        return self.event_types.get(of.event or "")

    def _context(self, name: str) -> EventType:
        """The properties behind ``context.``; a context that the cell is about to create has only the common ones."""
        known = self.contexts.get(name)
        return EventType(f"context {name}", known.properties if known is not None else CONTEXT_PROPERTIES)


def _type_named(name: str) -> Type:
    return BY_NAME.get(name.lower(), OBJECT)


def _schemas(cell: str) -> dict[str, EventType]:
    """The schemas that the cell itself creates, as far as their columns can be read."""
    schemas: dict[str, EventType] = {}
    for schema in _SCHEMA.finditer(blanked(cell)):
        columns: dict[str, Type] = {}
        for column in schema["columns"].split(","):
            name, _, kind = column.strip().partition(" ")
            if name and kind:
                columns[name] = _type_named(kind.strip())
        schemas[schema["name"]] = EventType(schema["name"], columns)
    return schemas
