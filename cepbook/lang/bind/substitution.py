"""Substitution parameters: ``?``, ``?:name``, ``?:name:type`` and ``:name`` stand for values given at deployment.

The values are plain data that is saved with the module: booleans, null, numbers, texts, arrays of these, and
``{"bigdecimal": "1.50"}``, ``{"double": "inf"}``, ``{"long": 5}`` where the Python value does not show the type. In the
tree they become literals (an integer is int if it fits, else long, else biginteger), so a statement with parameters
means exactly what it means with these literals. Source: Esper reference, chapter "Compiler", section "Substitution
Parameters".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from cepbook.errors import BindError, Diagnostic, Span, did_you_mean
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import assignable
from cepbook.lang.bind.scope import builtin_type
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import map_nodes, walk

_MARKED: dict[str, Callable[[Any], Any]] = {"bigdecimal": Decimal, "double": float, "long": int}


class UnfitValue(Exception):
    """A value that has no literal."""


def parameter_uses(module: ast.Module) -> list[tuple[ast.Parameter, str]]:
    """Return the parameters of a module in text order, each with its key: its name, or its number from 1."""
    parameters = {node.span: node for node in walk(module) if isinstance(node, ast.Parameter)}
    keys: list[tuple[ast.Parameter, str]] = []
    unnamed = 0
    for node in sorted(parameters.values(), key=lambda parameter: parameter.span.start):
        unnamed += not isinstance(node.name, str)
        keys.append((node, node.name if isinstance(node.name, str) else str(unnamed)))
    return keys


def missing_value(node: ast.Parameter, key: str, known: Collection[str]) -> Diagnostic:
    """Return the diagnostic of a parameter without a value."""
    named = isinstance(node.name, str)
    near = did_you_mean(key, [name for name in known if not name.startswith("_")]) if named else None
    text = f"`:{key}`" if named else f"parameter {key}"
    give = f"a Python variable `{key}`, or parameters={{'{key}': …}}" if named else "parameters=[…], or write `:name`"
    return Diagnostic("unknown-parameter", f"{text} has no value", node.span, near or f"give it one: {give}")


def substitute(module: ast.Module, values: Mapping[str, Any] | None, text: str) -> ast.Module:
    """Return the module with literals in place of parameters. Raises BindError for missing and wrong values."""
    uses = parameter_uses(module) if "?" in text or ":" in text else []
    if not uses:
        return module
    literals = literals_for(uses, values, text)
    substituted: ast.Module = map_nodes(module, lambda n: literals[n.span] if isinstance(n, ast.Parameter) else n)
    return substituted


def literals_for(
    uses: Sequence[tuple[ast.Parameter, str]], values: Mapping[str, Any] | None, text: str
) -> dict[Span, ast.Expr]:
    """Return the literals for `uses` by the span of the parameter. Raises BindError as `substitute` does."""
    literals: dict[Span, ast.Expr] = {}
    problems: list[Diagnostic] = []
    for node, key in uses:
        if key not in (values or {}):
            problems.append(missing_value(node, key, values or ()))
            continue
        text_ = f"`:{key}`" if isinstance(node.name, str) else f"parameter {key}"
        declared_type = None if node.type_name is None else _type_called(node.type_name)
        if node.type_name is not None and declared_type is None:
            near = did_you_mean(node.type_name, t.BY_NAME)
            problems.append(Diagnostic("unknown-type", f"{text_}: no type `{node.type_name}`", node.span, near))
            continue
        try:
            literal = _literal((values or {})[key], node)
            literals[node.span] = literal if declared_type is None else _typed(literal, declared_type)
        except UnfitValue as unfit:
            problems.append(Diagnostic("type-mismatch", f"{text_} {unfit}", node.span))
    if problems:
        raise BindError(tuple(problems), text)
    return literals


def _literal(value: Any, node: ast.Parameter) -> ast.Expr:
    written = f":{node.name}" if isinstance(node.name, str) else "?"
    if isinstance(value, list):
        elements = tuple(_literal(element, node) for element in value)
        if any(isinstance(element, ast.ArrayLiteral) for element in elements):
            raise UnfitValue("is an array of arrays")
        return ast.ArrayLiteral(elements, written, span=node.span)
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in _MARKED:
        ((type_name, text),) = value.items()
        return ast.Literal(_MARKED[type_name](text), type_name, written, span=node.span)
    return ast.Literal(value, _type_name(value), written, span=node.span)


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        half = 1 << 31
        return "int" if -half <= value < half else "long" if -half << 32 <= value < half << 32 else "biginteger"
    if isinstance(value, (float, str)):
        return "double" if isinstance(value, float) else "string"
    raise UnfitValue(f"is of a kind that EPL does not have: {type(value).__name__}")


def _type_called(name: str) -> t.Type | None:
    """Return the declared type of a parameter, also ``int[]`` and ``int[primitive]``, or None if it is unknown."""
    element, bracket, _ = name.partition("[")
    type_ = builtin_type(element)
    return t.array_of(type_) if type_ is not None and bracket else type_


def _typed(literal: ast.Expr, declared_type: t.Type) -> ast.Expr:
    """Return the literal with the declared type of its parameter: its own type, or a wider number."""
    if isinstance(literal, ast.ArrayLiteral):
        if declared_type == t.OBJECT:
            return literal
        if declared_type.of is None:
            raise UnfitValue(f"is declared as {declared_type}, found an array")
        of = declared_type.of
        return replace(literal, elements=tuple(_typed(element, of) for element in literal.elements))
    assert isinstance(literal, ast.Literal)
    literal_type = t.NULL if literal.type == "null" else t.BY_NAME[literal.type]
    fits = assignable(literal_type, declared_type)
    if not fits and t.is_integral(declared_type) and t.is_integral(literal_type) and isinstance(literal.value, int):
        half = 1 << (t.BITS.get(declared_type.name, 64) - 1)
        fits = -half <= literal.value < half
    if not fits:
        raise UnfitValue(f"is declared as {declared_type}, found {literal_type}")
    if literal_type == declared_type or literal_type == t.NULL or declared_type in (t.OBJECT, t.MAP):
        return literal
    value: Any = literal.value
    if declared_type in (t.FLOAT, t.DOUBLE):
        value = float(value)
    elif declared_type == t.BIGDECIMAL:
        value = Decimal(str(value))
    return ast.Literal(value, declared_type.name, literal.written, span=literal.span)
