"""``@Hint('name=value,name')``: what a statement asks for (Esper reference, section "@Hint")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cepbook.lang import ast
from cepbook.lang.bind.names import Module

_EVERY_ROW, _OPTIMIZED = "disable_outputlimit_opt", "enable_outputlimit_opt"
_KEPT = "disable_reclaim_group"


def hints(annotations: Iterable[ast.Annotation]) -> Iterator[tuple[str, str, ast.Annotation]]:
    """(name in small letters, value, annotation) of each hint."""
    for node in annotations:
        if node.name.lower() == "hint":
            text = node.value if node.value is not None else dict(node.values).get("value")
            for part in str(text).split(","):
                name, _, value = (word.strip() for word in part.partition("="))
                yield name.lower(), value, node


def keeps_every_row(annotations: Iterable[ast.Annotation]) -> bool:
    """Whether the output clause is to keep all rows of its interval, not only what it needs of them."""
    return any(name == _EVERY_ROW for name, _, _ in hints(annotations))


def check_hints(node: ast.Select, levels: bool, module: Module) -> None:
    """Report hints that do not go with the clauses of the statement; `levels`: it has several grouping sets."""
    for name, _, annotation in hints(node.annotations):
        if name == _KEPT and levels:
            fact = f"`{name}` does not go with rollup, cube and grouping sets"
            module.problems.add("wrong-parameter", fact, annotation.span)
        elif name == _OPTIMIZED and node.output is not None and node.order_by:
            module.problems.add("wrong-parameter", f"`{name}` does not go with order by", annotation.span)
