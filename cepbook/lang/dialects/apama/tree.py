"""What an Apama text consists of, as it was written."""

from __future__ import annotations

from dataclasses import dataclass, field

from cepbook.errors import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Node:
    """`span` is its text; it does not count in comparisons."""

    span: Span = field(default=NOWHERE, kw_only=True, compare=False)


# ---------------------------------------------------------------- expressions
@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A number, text or truth value: of an integer, float, string or boolean."""

    value: int | float | str | bool


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Member(Node):
    """``target.name``, and with `args` a method."""

    target: Expr
    name: str
    args: tuple[Expr, ...] | None = None


@dataclass(frozen=True, slots=True)
class Call(Node):
    """``name(args)``: an aggregate, or a new event."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    op: str
    left: Expr
    right: Expr


Expr = Literal | Name | Member | Call | Unary | Binary


# ---------------------------------------------------------------- streams
@dataclass(frozen=True, slots=True)
class Constraint(Node):
    """One argument of a template: ``name op value``; without a name it is about the field at its place.

    With `high` it is the range from `value` to `high`, both included; without a value any does.
    """

    name: str | None
    op: str
    value: Expr | None
    high: Expr | None = None


@dataclass(frozen=True, slots=True)
class Template(Node):
    """``all Name(…)``: the events of a type that pass all constraints."""

    name: str
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class StreamName(Node):
    """A stream variable, or (a convenience of the workbench) an event type."""

    name: str


@dataclass(frozen=True, slots=True)
class Window(Node):
    """``everything``: ``retain all``. `within` and `retain` are (expression, its ``every``)."""

    everything: bool = False
    partition: tuple[Expr, ...] = ()
    within: tuple[Expr, Expr | None] | None = None
    retain: tuple[Expr, Expr | None] | None = None
    unique: Expr | None = None


@dataclass(frozen=True, slots=True)
class Input(Node):
    """``item in source window``."""

    item: str
    source: Stream
    window: Window | None


@dataclass(frozen=True, slots=True)
class Query(Node):
    """``from … select …``; `keys` are those of an equi-join. `alias` names the one column of a plain value."""

    inputs: tuple[Input, ...]
    keys: tuple[Expr, Expr] | None
    where: Expr | None
    group_by: tuple[Expr, ...]
    having: Expr | None
    rstream: Span | None
    select: Expr
    alias: str | None


Stream = Template | StreamName | Query


# ---------------------------------------------------------------- declarations
@dataclass(frozen=True, slots=True)
class TypeName(Node):
    """``name<of, …>``."""

    name: str
    of: tuple[TypeName, ...] = ()


@dataclass(frozen=True, slots=True)
class EventDeclaration(Node):
    name: str
    fields: tuple[tuple[TypeName, str], ...]


@dataclass(frozen=True, slots=True)
class StreamDeclaration(Node):
    """``stream<type> name := value;``"""

    type: TypeName
    name: str
    value: Stream


@dataclass(frozen=True, slots=True)
class Using(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Program(Node):
    declarations: tuple[EventDeclaration | StreamDeclaration | Using, ...]
    result: Stream
