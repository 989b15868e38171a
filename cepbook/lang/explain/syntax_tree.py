"""Print a syntax tree: one node per line, without what was not written."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from cepbook.lang.syntax import ast
from cepbook.lang.syntax.unparser import unparse


def show_ast(module: ast.Module) -> str:
    """An indented tree of `module`: class names with their words, expressions in normalised text.

    ``select price from Tick#length(2)`` gives::

        Module
          Select
            items
              SelectItem expr=price
            sources
              StreamSource
                stream: FilterStream type_name=Tick
                windows
                  Window name=length
                    args: 2
    """
    lines: list[str] = []
    _node(module, "", "", lines)
    return "\n".join(lines)


def _node(node: ast.SyntaxNode, label: str, indent: str, lines: list[str]) -> None:
    words: list[str] = []
    inside: list[tuple[str, Any]] = []
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name == "span" or not field.init or value is None or value == () or value == field.default:
            continue
        if _is_plain(value):
            words.append(f"{field.name}={value}")
        elif isinstance(value, ast.Expr) and not inside:
            words.append(f"{field.name}={unparse(value)}")
        else:
            inside.append((field.name, value))
    name = type(node).__name__.rstrip("_")
    lines.append(f"{indent}{label}{' '.join([name, *words])}")
    for field_name, value in inside:
        _value(field_name, value, f"{indent}  ", lines)


def _value(label: str, value: Any, indent: str, lines: list[str]) -> None:
    if isinstance(value, ast.Expr):
        lines.append(f"{indent}{label}: {unparse(value)}")
    elif isinstance(value, ast.SyntaxNode):
        _node(value, f"{label}: ", indent, lines)
    elif isinstance(value, tuple) and all(_is_plain(item) or isinstance(item, ast.Expr) for item in value):
        lines.append(f"{indent}{label}: {', '.join(_text(item) for item in value)}")
    elif isinstance(value, tuple):
        lines.append(f"{indent}{label}")
        for item in value:
            _item(item, f"{indent}  ", lines)
    else:
        lines.append(f"{indent}{label}: {value}")


def _item(item: Any, indent: str, lines: list[str]) -> None:
    """One element of a tuple; pairs such as (name, expression) stay on one line where they can."""
    if isinstance(item, ast.Expr) or _is_plain(item):
        lines.append(f"{indent}{_text(item)}")
    elif isinstance(item, ast.SyntaxNode):
        _node(item, "", indent, lines)
    elif all(_is_plain(element) or isinstance(element, ast.Expr) for element in item):
        lines.append(f"{indent}{' : '.join(_text(element) for element in item)}")
    else:
        for element in item:
            _item(element, indent, lines)


def _text(value: Any) -> str:
    return unparse(value) if isinstance(value, ast.Expr) else str(value)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)
