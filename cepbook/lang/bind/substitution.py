"""Parameters of EPL modules: ``?``, ``?:name``, ``?:name:type`` and ``:name`` stand for values given beside the text.

The values are plain data, which is saved with the module: true, false, null, numbers, texts, arrays of these, and
``{"bigdecimal": "1.50"}``, ``{"double": "inf"}``, ``{"long": 5}`` where the type of a number does not show. In the tree
they become the literals that one could have written (a whole number is int if it fits, else long, else biginteger), so
a statement with parameters means exactly what it means with these literals. Esper reference, chapter "Compiler",
section "Substitution Parameters".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from cepbook.errors import BindError, Diagnostic, Span, did_you_mean
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import assignable
from cepbook.lang.bind.type_names import builtin_type
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import map_nodes, walk

_MARKED: dict[str, Callable[[Any], Any]] = {"bigdecimal": Decimal, "double": float, "long": int}


class UnfitValue(Exception):
    """A value that no literal has."""


def parameter_uses(module: ast.Module) -> list[tuple[ast.Parameter, str]]:
    """The parameters of a module in the order of its text, with their keys: their names, or their numbers from 1."""
    found = {node.span: node for node in walk(module) if isinstance(node, ast.Parameter)}
    keys: list[tuple[ast.Parameter, str]] = []
    unnamed = 0
    for node in sorted(found.values(), key=lambda each: each.span.start):
        unnamed += not isinstance(node.name, str)
        keys.append((node, node.name if isinstance(node.name, str) else str(unnamed)))
    return keys


def missing_value(node: ast.Parameter, key: str, known: Collection[str]) -> Diagnostic:
    """What is said of a parameter that has no value."""
    named = isinstance(node.name, str)
    near = did_you_mean(key, [name for name in known if not name.startswith("_")]) if named else None
    shown = f"`:{key}`" if named else f"parameter {key}"
    give = f"a Python variable `{key}`, or parameters={{'{key}': …}}" if named else "parameters=[…], or write `:name`"
    return Diagnostic("unknown-parameter", f"{shown} has no value", node.span, near or f"give it one: {give}")


def substitute(module: ast.Module, values: Mapping[str, Any] | None, text: str) -> ast.Module:
    """The module with literals for its parameters. Errors: BindError for those without a value, or with a wrong one."""
    found = parameter_uses(module) if "?" in text or ":" in text else []
    if not found:
        return module
    literals = literals_for(found, values, text)
    made: ast.Module = map_nodes(module, lambda n: literals[n.span] if isinstance(n, ast.Parameter) else n)
    return made


def literals_for(
    found: Sequence[tuple[ast.Parameter, str]], values: Mapping[str, Any] | None, text: str
) -> dict[Span, ast.Expr]:
    """The literals for parameters (`uses`), by where these stand. Errors: as `substitute`."""
    literals: dict[Span, ast.Expr] = {}
    problems: list[Diagnostic] = []
    for node, key in found:
        if key not in (values or {}):
            problems.append(missing_value(node, key, values or ()))
            continue
        shown = f"`:{key}`" if isinstance(node.name, str) else f"parameter {key}"
        wanted = None if node.type_name is None else _type_called(node.type_name)
        if node.type_name is not None and wanted is None:
            near = did_you_mean(node.type_name, t.BY_NAME)
            problems.append(Diagnostic("unknown-type", f"{shown}: no type `{node.type_name}`", node.span, near))
            continue
        try:
            literal = _literal((values or {})[key], node)
            literals[node.span] = literal if wanted is None else _typed(literal, wanted)
        except UnfitValue as unfit:
            problems.append(Diagnostic("type-mismatch", f"{shown} {unfit}", node.span))
    if problems:
        raise BindError(tuple(problems), text)
    return literals


def _literal(value: Any, node: ast.Parameter) -> ast.Expr:
    written = f":{node.name}" if isinstance(node.name, str) else "?"
    if isinstance(value, list):
        elements = tuple(_literal(each, node) for each in value)
        if any(isinstance(each, ast.ArrayLiteral) for each in elements):
            raise UnfitValue("is an array of arrays")
        return ast.ArrayLiteral(elements, written, span=node.span)
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in _MARKED:
        ((type_name, shown),) = value.items()
        return ast.Literal(_MARKED[type_name](shown), type_name, written, span=node.span)
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
    """The type that a parameter is declared to have, ``int[]`` and ``int[primitive]`` among them."""
    element, bracket, _ = name.partition("[")
    found = builtin_type(element)
    return t.array_of(found) if found is not None and bracket else found


def _typed(literal: ast.Expr, wanted: t.Type) -> ast.Expr:
    """The literal of the type that the parameter is declared to have: its own, or a wider one of numbers."""
    if isinstance(literal, ast.ArrayLiteral):
        if wanted == t.OBJECT:
            return literal
        if wanted.of is None:
            raise UnfitValue(f"is declared as {wanted}, found an array")
        of = wanted.of
        return replace(literal, elements=tuple(_typed(each, of) for each in literal.elements))
    assert isinstance(literal, ast.Literal)
    found = t.NULL if literal.type == "null" else t.BY_NAME[literal.type]
    fits = assignable(found, wanted)
    if not fits and t.is_integral(wanted) and isinstance(literal.value, int) and not isinstance(literal.value, bool):
        half = 1 << (t.BITS.get(wanted.name, 64) - 1)
        fits = -half <= literal.value < half
    if not fits:
        raise UnfitValue(f"is declared as {wanted}, found {found}")
    if found == wanted or found == t.NULL or wanted in (t.OBJECT, t.MAP):
        return literal
    value: Any = literal.value
    if wanted in (t.FLOAT, t.DOUBLE):
        value = float(value)
    elif wanted == t.BIGDECIMAL:
        value = Decimal(str(value))
    return ast.Literal(value, wanted.name, literal.written, span=literal.span)
