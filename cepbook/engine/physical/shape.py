"""The shape of a physical plan: everything but its constants and the places of its nodes in the text.

Two statements of one shape have the same operators over the same expressions, and differ in the values of constants and
in where they stand: ``E(k = 17)`` and ``E(k = 18)``. Generated code can be shared by all statements of a shape
(`codegen.program_template`). Plans that depend on more than themselves have no shape: on stores, subqueries, functions
from Python, and output clauses with crontabs or assignments. Nor have long plans one. Variables and contexts count by
their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from operator import attrgetter
from typing import Any

from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.errors import Span
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import pattern as p
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.nodes import SelectStatement
from cepbook.lang.plan.placeholder import Placeholder, Question, constant_identity
from cepbook.lang.plan.traversal import map_expressions, rebuild_expr
from cepbook.lang.types import Type

_VARYING = frozenset((str, int, float))  # types of constants in which plans of one shape may differ
_MOST_NODES = 300  # the walk is recursive, and long plans are seldom alike
_PLAIN = frozenset((str, type(None)))
_TYPED = frozenset((bool, int))  # 1 and True are equal
_OUTSIDE = (x.TableRead, x.SubqueryRef, x.UserCall, x.UserClass, StoreType)
_TIMETABLES = (p.CrontabTimer, p.ScheduleTimer)  # they count their own occurrences
_FIELDS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}


class _NoShape(Exception):
    pass


def _fields_of(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function that returns the values of the fields of a node."""
    if not is_dataclass(kind) or issubclass(kind, (*_OUTSIDE, *_TIMETABLES)):
        raise _NoShape(kind.__name__)
    names = [field.name for field in fields(kind)]
    read = attrgetter(*names) if names else lambda node: ()
    _FIELDS[kind] = single = (lambda node: (read(node),)) if len(names) == 1 else read
    return single


@dataclass(frozen=True, slots=True)
class PlanShape:
    """The shape of a plan. `key` is equal for plans of one shape. `constants` and `spans` are the values and the places
    in which these differ, in the order of a walk through the plan. Which of them are equal is part of the shape.
    """

    key: ShapeKey
    constants: Sequence[Any]
    spans: Sequence[Span]

    def fixed_constants(self) -> set[tuple[type, str]]:
        """Return the identities of constants that may differ between plans of the shape and are no placeholders."""
        identities = {constant_identity(value) for value in self.constants if type(value) is not Placeholder}
        return {identity for identity in identities if identity[0] in _VARYING}


class ShapeKey:
    """All that plans of one shape have in common. It computes its hash once."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ShapeKey) and self._parts == other._parts)


class _ShapeWalk:
    def __init__(self, steps: PhysicalPlan) -> None:
        self._constants: list[Any] = []
        self._spans: list[Span] = []
        self._key: list[Any] = []
        self._nodes: dict[int, int] = {}  # numbers of nodes, by identity
        self._values: dict[tuple[type, str], int] = {}  # number of the first constant with a value
        self._add_node(steps)
        places: dict[tuple[int, int], int] = {}
        self._key += [places.setdefault((span.start, span.end), number) for number, span in enumerate(self._spans)]

    def shape(self) -> PlanShape:
        return PlanShape(ShapeKey(tuple(self._key)), self._constants, self._spans)

    def _add(self, values: Iterable[Any]) -> None:
        """Add values to the key. One loop takes all plain values of a node, which are most of a plan."""
        key = self._key
        for value in values:
            kind = value.__class__
            if kind in _PLAIN:
                key.append(value)
            elif kind is Span:
                self._spans.append(value)
            elif kind in _TYPED:
                key += (kind, value)
            elif kind is tuple:
                key += (tuple, len(value))
                self._add(value)
            elif kind is Type:
                key += (value, value.primitive, value.dated)
            elif kind is dict:
                key += (dict, len(value), *value)
                self._add(value.values())
            elif kind is frozenset or issubclass(kind, Enum):
                key.append(value)
            else:
                self._add_node(value)

    def _add_node(self, node: Any) -> None:
        kind, key = node.__class__, self._key
        number = self._nodes.get(id(node))
        if number is not None:
            key += (None, number)
            return
        if len(self._nodes) > _MOST_NODES:
            raise _NoShape
        self._nodes[id(node)] = len(self._nodes)
        key.append(kind)
        if kind is x.Const:
            identity = constant_identity(node.value)
            key.append(self._values.setdefault(identity, len(self._constants)))
            key.append(identity[0] if identity[0] in _VARYING else identity)
            self._constants.append(node.value)
            self._spans.append(node.span)
            self._add((node.type,))
        else:
            self._add((_FIELDS.get(kind) or _fields_of(kind))(node))


def shape_of(steps: PhysicalPlan) -> PlanShape | None:
    """Return the shape of a plan, or None if its code depends on more than the plan."""
    alone = (
        *(steps.recognizer, steps.owned_store, steps.table, steps.initial_rows),
        *(steps.into, steps.on_select, steps.join, steps.lookup, steps.cycle, steps.derive),
        *(steps.emit.merges, steps.emit.target_path),
    )
    several = steps.inputs or steps.subqueries or steps.buffers_input or steps.emit.changes or steps.emit.branches
    output = steps.output
    assigns = output is not None and (output.crontab or output.then_set or output.terminated_then)
    if several or assigns or any(operator is not None for operator in alone):
        return None
    try:
        return _ShapeWalk(steps).shape()
    except _NoShape:
        return None


def with_placeholders(plan: SelectStatement, shape: PlanShape, answered: frozenset[Question]) -> SelectStatement:
    """Return `plan` with placeholders for the constants of its shape, but for those whose values are `answered`."""
    placeholders: dict[tuple[type, str], Placeholder] = {}
    for number, value in enumerate(shape.constants):
        key = constant_identity(value)
        if key[0] in _VARYING and key not in placeholders:
            placeholders[key] = Placeholder(number, value, answered)
    for compare, number, _ in answered:
        if compare is None:
            placeholders.pop(constant_identity(shape.constants[number]), None)

    def replaced(e: x.BoundExpr) -> x.BoundExpr:
        placeholder = placeholders.get(constant_identity(e.value)) if isinstance(e, x.Const) else None
        return e if placeholder is None else x.Const(e.type, placeholder, span=e.span)

    return map_expressions(plan, lambda e: rebuild_expr(e, replaced))
