"""Annotations of a statement: its name, priority, and those that have no effect here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cepbook.errors import nearest_name
from cepbook.lang.bind.scope import ModuleScope
from cepbook.lang.syntax import ast

KNOWN_ANNOTATIONS = {
    name.lower(): name
    for name in (
        "Name Description Tag Priority Drop Hint Hook Audit NoLock EventRepresentation IterableUnbound Private"
        " Protected Public BusEventType AppliesTo XMLSchema JsonSchema"
    ).split()
}


@dataclass(frozen=True, slots=True)
class StatementHeading:
    """What the annotations say. `name` None: the binder makes one."""

    name: str | None
    priority: int
    drop: bool
    annotations: tuple[tuple[str, object], ...]


def bind_annotations(nodes: Sequence[ast.Annotation], module: ModuleScope) -> StatementHeading:
    """Unknown annotations are accepted without effect, unless they look like a typing error of a known one."""
    name: str | None = None
    priority = 0
    drop = False
    kept: list[tuple[str, object]] = []
    for node in nodes:
        word = node.name.lower()
        if word not in KNOWN_ANNOTATIONS:
            close = nearest_name(word, KNOWN_ANNOTATIONS.values(), cutoff=0.75)
            if close is not None:
                hint = f"did you mean `@{close}`?"
                module.problems.add("unknown-annotation", f"no annotation `@{node.name}`", node.span, hint)
        value = node.values if node.values else node.value
        if word == "name":
            name = _name(node, module)
        elif word == "priority":
            priority = _priority(node, module)
        elif word == "drop":
            drop = True
        kept.append((word, value))
    return StatementHeading(name, priority, drop, tuple(kept))


def _name(node: ast.Annotation, module: ModuleScope) -> str | None:
    value = node.value if node.value is not None else dict(node.values).get("value")
    if not isinstance(value, str) or not value:
        module.problems.add("wrong-parameter", "`@Name` takes a string", node.span, "such as @Name('out')")
        return None
    return value


def _priority(node: ast.Annotation, module: ModuleScope) -> int:
    value = node.value if node.value is not None else dict(node.values).get("value")
    if isinstance(value, bool) or not isinstance(value, int):
        module.problems.add("wrong-parameter", "`@Priority` takes an int", node.span, "such as @Priority(10)")
        return 0
    return value
