"""Syntax trees of statements that differ only in numbers and strings: parsed once, then built over other values.

Lexer, parser and reader decide by words and signs. Of a number or a string they know its type only, so statements with
the same words, signs and types of values have the same tree over other values. Where a reader looks at a value, as in
``@Priority(10)``, the value counts as a word. Blanks decide behind ``:`` only, where ``:name`` may be a parameter. A
statement with parameters is parsed each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from lark.exceptions import LarkError

from cepbook.errors import NO_SPAN, Span
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import map_nodes
from cepbook.lang.syntax.reader.expression_reader import Misplaced, parse_number, unquote
from cepbook.lang.syntax.reader.lexer import SourceToken, StatementTokens
from cepbook.lang.tree_builder import Builder, Code, NotUniform, compile_builder

_VALUES = frozenset(("NUMBER", "STRING"))  # kinds of tokens whose text the parser does not read
_UNSAFE = frozenset(("?", "SCRIPT", "RAW"))
_MOST_SHAPES, _MOST_TOKENS, _MOST_TEMPLATES = 512, 400, 64


@dataclass(frozen=True, slots=True)
class _Variable:
    """Stands in a tree for a value: its number among the values of the text, and whether a minus precedes it."""

    number: int
    negated: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class SyntaxTemplate:
    """``build(values, starts, ends)`` makes the trees of one shape from the values of `variables` and the places of all
    tokens. `name` is the number of the variable that is the value of ``@Name``, None if there is none.
    """

    build: Builder
    variables: tuple[_Variable, ...]
    name: int | None


class StatementForm(NamedTuple):
    """The template of a statement, the values of its variables, and the places of its tokens."""

    template: SyntaxTemplate
    values: tuple[Any, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]


@dataclass(slots=True)
class _Shape:
    """The templates of one shape, by the texts of the `fixed` values; None if there is none."""

    fixed: tuple[int, ...] = ()
    templates: dict[tuple[str, ...], SyntaxTemplate | None] = field(default_factory=dict)


class SyntaxTemplates:
    """Reads statements. The shapes that were used last are remembered; the second statement of a shape makes the
    template. ``read(piece)`` parses and reads one statement.
    """

    def __init__(self, read: Callable[[StatementTokens], Any]) -> None:
        self._read = read
        self._shapes: dict[tuple[str, ...], _Shape] = {}  # oldest use first

    def tree(self, piece: StatementTokens) -> tuple[Any, StatementForm | None]:
        """Return the syntax tree of a statement, with its form if it was built. Errors: those of the parser."""
        tokens = piece.tokens
        kinds, _, starts, ends = zip(*tokens, strict=True)
        if len(tokens) > _MOST_TOKENS or not _UNSAFE.isdisjoint(kinds):
            return self._read(piece), None
        key: list[str] = []
        values: list[Any] = []
        colon = -1  # the end of a colon that the token follows
        for kind, text, start, end in tokens:
            if kind == "NUMBER":
                value, kind = parse_number(text)
                if not _has_room(value):
                    return self._read(piece), None  # an error
                values.append(value)
                key.append(f" {kind}")
            elif kind == "STRING":
                values.append(unquote(text))
                key.append(" string")
            elif kind == ":":
                colon = end
                key.append(text)
            else:
                key.append(f":{text}" if start == colon else text)
        shape = self._shapes.pop(tuple(key), None)
        self._shapes[tuple(key)] = shape or _Shape()
        if shape is None:
            if len(self._shapes) > _MOST_SHAPES:
                self._shapes.pop(next(iter(self._shapes)), None)
            return self._read(piece), None
        texts = [token.text for token in tokens if token.kind in _VALUES] if shape.fixed else ()
        fixed = tuple([texts[number] for number in shape.fixed])
        if fixed not in shape.templates:
            tree = self._read(piece)
            self._add(shape, piece, tree, values)
            return tree, None
        template = shape.templates[fixed]
        if template is None:
            return self._read(piece), None
        own = _values_of(template, values)
        return template.build(own, starts, ends), StatementForm(template, own, starts, ends)

    def _add(self, shape: _Shape, piece: StatementTokens, tree: Any, values: Sequence[Any]) -> None:
        if len(shape.templates) >= _MOST_TEMPLATES:
            shape.templates.clear()
        try:
            template, fixed = _template(piece, tree, values)
            if template is not None and not self._is_right(template, piece, fixed):
                template, fixed = None, ()
        except (LarkError, Misplaced, RecursionError):  # of a text that nobody wrote
            template, fixed = None, ()
        if shape.fixed != fixed:
            shape.fixed = fixed
            shape.templates.clear()
        texts = [token.text for token in piece.tokens if token.kind in _VALUES]
        shape.templates[tuple([texts[number] for number in fixed])] = template

    def _is_right(self, template: SyntaxTemplate, piece: StatementTokens, fixed: Sequence[int]) -> bool:
        """Return whether a template makes the tree of a statement with other values. Errors: those of the parser."""
        other, values = _varied(piece, fixed)
        starts, ends = [token.start for token in other.tokens], [token.end for token in other.tokens]
        return repr(template.build(_values_of(template, values), starts, ends)) == repr(self._read(other))


def _values_of(template: SyntaxTemplate, values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([-values[v.number] if v.negated else values[v.number] for v in template.variables])


def _template(
    piece: StatementTokens, tree: Any, values: Sequence[Any]
) -> tuple[SyntaxTemplate | None, tuple[int, ...]]:
    """Return the template of a statement, or None, and the numbers of the values that it does not vary."""
    if not isinstance(tree, ast.Statement):
        return None, ()
    tokens = piece.tokens
    starts = {token.start: number for number, token in enumerate(tokens)}
    ends = {token.end: number for number, token in enumerate(tokens)}
    of_text = [number for number, token in enumerate(tokens) if token.kind in _VALUES]
    numbers = {token: number for number, token in enumerate(of_text)}  # of values, by number of the token
    variables: dict[_Variable, int] = {}
    names: list[int] = []

    def place(span: Span) -> tuple[int, int]:
        if span.start not in starts or span.end not in ends:
            raise NotUniform
        return starts[span.start], ends[span.end]

    def variable(token: int, negated: bool = False) -> _Variable:
        value = _Variable(numbers[token], negated)
        variables.setdefault(value, len(variables))
        return value

    def varied(node: Any) -> Any:
        if isinstance(node, ast.Parameter):
            raise NotUniform
        if isinstance(node, ast.Literal) and node.type not in ("boolean", "null"):
            first, last = place(node.span)
            negated = last == first + 1 and tokens[first].kind == "-" and tokens[last].text[1:2] not in ("x", "X")
            if (first == last or negated) and last in numbers:
                return replace(node, value=variable(last, negated))
        elif isinstance(node, ast.Annotation) and isinstance(node.value, str):
            first, last = place(node.span)
            strings = [number for number in range(first, last + 1) if tokens[number].kind == "STRING"]
            if len(strings) == 1 and values[numbers[strings[0]]] == node.value:
                value = variable(strings[0])
                if node.name.lower() == "name":
                    names.append(variables[value])
                return replace(node, value=value)
        return node

    def code(value: Any) -> Code | None:
        if type(value) is _Variable:
            return f"values[{variables[value]}]"
        if type(value) is Span and value != NO_SPAN:
            first, last = place(value)
            return f"starts[{first}]", f"ends[{last}]"
        return None

    try:
        build = compile_builder("values, starts, ends", map_nodes(tree, varied), code)
    except NotUniform:
        return None, ()
    varying = {value.number for value in variables}
    fixed = tuple(number for number in range(len(values)) if number not in varying)
    return SyntaxTemplate(build, tuple(variables), names[0] if len(names) == 1 else None), fixed


def _varied(piece: StatementTokens, fixed: Sequence[int]) -> tuple[StatementTokens, list[Any]]:
    """Return the tokens with other values and wider blanks, and the values."""
    values: list[Any] = []
    texts: list[str] = []
    for token in piece.tokens:
        text = token.text
        if token.kind in _VALUES:
            if len(values) not in fixed:
                text = f"{text[:-1]}~{text[-1]}" if token.kind == "STRING" else _other_number(text)
            values.append(unquote(text) if token.kind == "STRING" else parse_number(text)[0])
        texts.append(text)
    tokens, gaps = piece.tokens, [0]
    gaps += [7 * (after.start > before.end) for before, after in pairwise(tokens)]
    lengths = [gap + len(text) for gap, text in zip(gaps, texts, strict=True)]
    ends = list(accumulate(lengths, initial=tokens[0].start + 3))[1:]
    moved = [
        SourceToken(token.kind, text, end - len(text), end)
        for token, text, end in zip(tokens, texts, ends, strict=True)
    ]
    return StatementTokens(tuple(moved), moved[-1].end + 1), values


def _other_number(text: str) -> str:
    """Return another number of the same type, or `text` if there is none near."""
    if text[:1].isdigit() and text[1:2] not in ("x", "X"):
        other = f"{'2' if text[0] == '1' else '1'}{text[1:]}"
        value, kind = parse_number(other)
        if kind == parse_number(text)[1] and _has_room(value):
            return other
    return text


def _has_room(value: int | float) -> bool:
    """Return whether EPL has a type for a number."""
    return math.isfinite(value) if isinstance(value, float) else value < 2**63
