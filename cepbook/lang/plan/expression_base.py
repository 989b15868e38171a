"""The base of all bound expressions: the facts that every expression answers, constants and properties, and walking."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from cepbook.errors import NO_SPAN, Span
from cepbook.lang.types import EXACT_KEY_TYPES, Type


@dataclass(frozen=True, slots=True)
class BoundExpr:
    """`type` is the EPL type of the value; `span` its text in the statement's source."""

    type: Type
    span: Span = field(default=NO_SPAN, kw_only=True, compare=False)

    @property
    def constant(self) -> object:
        """The value of a constant; None for null and for all other expressions."""
        return None

    @property
    def property_name(self) -> str:
        """The name of the property that the expression is; empty for all other expressions."""
        return ""

    @property
    def aggregate_number(self) -> int | None:
        """The place of the aggregate call of which the expression is the value; None for all other expressions."""
        return None

    @property
    def earlier_value(self) -> tuple[BoundExpr, int] | None:
        """The value and the number of arrivals before the row's own of ``prior``; None for other expressions."""
        return None

    @property
    def row_aggregate(self) -> tuple[str, bool, BoundExpr, BoundExpr] | None:
        """Of an aggregate of all rows of a variable: its name, whether equal values count once, the rows and the value.
        None for other expressions.
        """
        return None

    @property
    def previous_value(self) -> tuple[BoundExpr, int] | None:
        """The value and the constant distance of ``prev(distance, value)``; None for all other expressions."""
        return None

    @property
    def arithmetic(self) -> tuple[str, BoundExpr, BoundExpr] | None:
        """The operator and the two sides of an arithmetic expression; None for all other expressions."""
        return None

    @property
    def predicate(self) -> tuple[str, tuple[BoundExpr, ...]] | None:
        """The operator and the operands of a comparison, of ``and``, ``or`` or ``not``; None for other expressions."""
        return None

    @property
    def picked_from(self) -> tuple[BoundExpr, ...]:
        """The operands of which the value is always one, or null; empty if the value is computed."""
        return ()

    @property
    def nullable(self) -> bool:
        """True if the value may be null."""
        return True

    @property
    def key_property(self) -> Prop | None:
        """The property that can divide events: its values have one form. None for all other expressions."""
        return None

    @property
    def copied_property(self) -> Prop | None:
        """The property that the expression repeats, perhaps as a wider whole number; None for other values."""
        return None

    @property
    def period_parts(self) -> tuple[BoundExpr | None, BoundExpr | None]:
        """Calendar months and length of a period, each None if absent; a number is a length in clock units."""
        return None, self

    @property
    def python_function(self) -> str:
        """The registered Python function or class that the expression calls; empty if it calls none."""
        return ""

    @property
    def constant_millis(self) -> int | float | None:
        """The length of a constant period in milliseconds; None for months, variables and all other expressions."""
        return None

    @property
    def read_stream(self) -> int | None:
        """The stream whose event the expression itself reads; None if it reads no event, or its operands do."""
        return None

    @property
    def named_property(self) -> tuple[str, str] | None:
        """The event type or store, and the property of it, whose value the expression has; None if it is no such."""
        return None

    @property
    def variable_name(self) -> str:
        """The variable that the expression is; empty for all other expressions."""
        return ""

    @property
    def context_property(self) -> str:
        """The built-in property of the context partition that the expression is; empty for all other expressions."""
        return ""

    @property
    def parameter_index(self) -> int | None:
        """The number of the outer value that the expression is within a subquery; None for all other expressions."""
        return None

    @property
    def subquery_number(self) -> int | None:
        """The number of the subquery whose value the expression is; None for all other expressions."""
        return None

    def property_of(self, stream: int) -> str:
        """Return the name of the property of a stream that the expression is; empty for all other expressions."""
        return self.property_name if self.read_stream == stream else ""

    def tag_member(self, stream: int) -> tuple[str, str] | None:
        """Return tag and property of ``tag.property`` of the matches of a stream; None for any other expression."""
        return None

    def of_group(self, keys: Sequence[BoundExpr]) -> BoundExpr:
        """Return the group-by expression that a `KeyRef` stands for; any other expression is itself."""
        return self


@dataclass(frozen=True, slots=True)
class NeverNull(BoundExpr):
    """An expression whose value is never null."""

    @property
    def nullable(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class NullPropagating(BoundExpr):
    """An expression whose value is null exactly if an operand is null."""

    @property
    def nullable(self) -> bool:
        return any(operand.nullable for operand in children(self))


@dataclass(frozen=True, slots=True)
class Const(BoundExpr):
    """A constant; `value` is a plain Python value as in `types`."""

    value: object

    @property
    def constant(self) -> object:
        return self.value

    @property
    def nullable(self) -> bool:
        return self.value is None


@dataclass(frozen=True, slots=True)
class Prop(BoundExpr):
    """Property `name` of the event of stream `stream`, a 0-based position in the from-clause."""

    stream: int
    name: str

    @property
    def read_stream(self) -> int:
        return self.stream

    @property
    def property_name(self) -> str:
        return self.name

    @property
    def key_property(self) -> Prop | None:
        return self if self.type.name in EXACT_KEY_TYPES else None

    @property
    def copied_property(self) -> Prop:
        return self


Kind = TypeVar("Kind", bound=BoundExpr)


def children(e: BoundExpr) -> tuple[BoundExpr, ...]:
    """Return the direct operands of `e` in evaluation order."""
    names = operand_fields(type(e))
    if not names:
        return ()
    operands: list[BoundExpr] = []
    for name in names:
        _collect(getattr(e, name), operands)
    return tuple(operands)


def operand_fields(kind: type[BoundExpr]) -> tuple[str, ...]:
    """Return the names of the fields of a class that may hold expressions."""
    names = _OPERANDS.get(kind)
    if names is None:
        declared = kind.__dataclass_fields__.values()
        names = _OPERANDS[kind] = tuple(f.name for f in declared if "BoundExpr" in re.findall(r"\w+", str(f.type)))
    return names


_OPERANDS: dict[type[BoundExpr], tuple[str, ...]] = {}


def _collect(value: object, operands: list[BoundExpr]) -> None:
    if isinstance(value, BoundExpr):
        operands.append(value)
    elif isinstance(value, tuple):
        for item in value:
            _collect(item, operands)


def walk(e: BoundExpr) -> list[BoundExpr]:
    """Return `e` and everything below it, parents first."""
    nodes: list[BoundExpr] = []
    pending = [e]
    while pending:
        node = pending.pop()
        nodes.append(node)
        if operand_fields(type(node)):  # most nodes are leaves
            pending.extend(reversed(children(node)))
    return nodes


def find(kind: type[Kind], *roots: BoundExpr | None) -> list[Kind]:
    """Return the expressions of a class in all of `roots`, parents first; a root that is None has none."""
    return [node for root in roots if root is not None for node in walk(root) if isinstance(node, kind)]
