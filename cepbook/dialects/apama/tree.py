"""The syntax tree of an Apama text."""

from __future__ import annotations

from dataclasses import dataclass, field

from cepbook.errors import NO_SPAN, Span


@dataclass(frozen=True, slots=True)
class ApamaNode:
    """A node of the tree. `span` is its text and does not count in comparisons."""

    span: Span = field(default=NO_SPAN, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class ApamaLiteral(ApamaNode):
    """An integer, float, string or boolean."""

    value: int | float | str | bool


@dataclass(frozen=True, slots=True)
class ApamaName(ApamaNode):
    name: str


@dataclass(frozen=True, slots=True)
class ApamaMember(ApamaNode):
    """``target.name``, or a method call if `args` is not None."""

    target: Expr
    name: str
    args: tuple[Expr, ...] | None = None


@dataclass(frozen=True, slots=True)
class ApamaCall(ApamaNode):
    """``name(args)``: an aggregate or a new event."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ApamaUnary(ApamaNode):
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class ApamaBinary(ApamaNode):
    op: str
    left: Expr
    right: Expr


Expr = ApamaLiteral | ApamaName | ApamaMember | ApamaCall | ApamaUnary | ApamaBinary


@dataclass(frozen=True, slots=True)
class TemplateConstraint(ApamaNode):
    """One argument of a template: ``name op value``. Without a name it is about the field at its position.

    With `high` it is the range from `value` to `high`, both inclusive. Without a value every field value passes.
    """

    name: str | None
    op: str
    value: Expr | None
    high: Expr | None = None


@dataclass(frozen=True, slots=True)
class EventTemplate(ApamaNode):
    """``all Name(…)``: the events of a type that pass all constraints."""

    name: str
    constraints: tuple[TemplateConstraint, ...]


@dataclass(frozen=True, slots=True)
class StreamReference(ApamaNode):
    """A stream variable, or (a convenience of the workbench) an event type."""

    name: str


@dataclass(frozen=True, slots=True)
class ApamaWindow(ApamaNode):
    """A window clause. `everything` is ``retain all``; `within` and `retain` are (expression, ``every`` expression)."""

    everything: bool = False
    partition: tuple[Expr, ...] = ()
    within: tuple[Expr, Expr | None] | None = None
    retain: tuple[Expr, Expr | None] | None = None
    unique: Expr | None = None


@dataclass(frozen=True, slots=True)
class QueryInput(ApamaNode):
    """``item in source window``."""

    item: str
    source: Stream
    window: ApamaWindow | None


@dataclass(frozen=True, slots=True)
class ApamaQuery(ApamaNode):
    """``from … select …``. `keys` are the keys of an equi-join; `alias` names the only column of a plain value."""

    inputs: tuple[QueryInput, ...]
    keys: tuple[Expr, Expr] | None
    where: Expr | None
    group_by: tuple[Expr, ...]
    having: Expr | None
    rstream: Span | None
    select: Expr
    alias: str | None


Stream = EventTemplate | StreamReference | ApamaQuery


@dataclass(frozen=True, slots=True)
class TypeReference(ApamaNode):
    """``name<of, …>``."""

    name: str
    of: tuple[TypeReference, ...] = ()


@dataclass(frozen=True, slots=True)
class EventDeclaration(ApamaNode):
    name: str
    fields: tuple[tuple[TypeReference, str], ...]


@dataclass(frozen=True, slots=True)
class StreamDeclaration(ApamaNode):
    """``stream<type> name := value;``"""

    type: TypeReference
    name: str
    value: Stream


@dataclass(frozen=True, slots=True)
class UsingDeclaration(ApamaNode):
    name: str


@dataclass(frozen=True, slots=True)
class ApamaProgram(ApamaNode):
    declarations: tuple[EventDeclaration | StreamDeclaration | UsingDeclaration, ...]
    result: Stream
