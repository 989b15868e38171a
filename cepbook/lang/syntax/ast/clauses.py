"""The base of statements, and the clauses of selects that contain only expressions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as L

from cepbook.lang.syntax.ast.expressions import Crontab, Expr
from cepbook.lang.syntax.ast.syntax_node import Annotation, SyntaxNode


@dataclass(frozen=True, slots=True)
class SelectItem(SyntaxNode):
    """``expr [as] alias``, ``*`` (expr None, stream None), ``alias.* [as x]`` (stream set)."""

    expr: Expr | None
    alias: str | None = None
    stream: str | None = None
    wildcard: bool = False
    eventbean: bool = False  # @eventbean annotation behind the item


@dataclass(frozen=True, slots=True)
class FilterStream(SyntaxNode):
    """``EventType(filter, filter)[contained.event]``; filter expressions separated by commas are a conjunction."""

    type_name: str
    filters: tuple[Expr, ...] = ()
    contained: tuple[ContainedStep, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainedStep(SyntaxNode):
    """``[select a, b from items as x where …]`` of contained-event selection."""

    path: Expr
    select: tuple[SelectItem, ...] | None = None
    alias: str | None = None
    where: Expr | None = None
    type_name: str | None = None


@dataclass(frozen=True, slots=True)
class OrderItem(SyntaxNode):
    expr: Expr
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Delivery(SyntaxNode):
    """The for-clause: `kind` as written (grouped_delivery, discrete_delivery), and its expressions."""

    kind: str
    keys: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class RowLimit(SyntaxNode):
    """`limit` and `offset`; ``limit a, b`` is offset a, limit b."""

    limit: Expr
    offset: Expr | None = None


@dataclass(frozen=True, slots=True)
class GroupBy(SyntaxNode):
    """Items are expressions, `Rollup` or `GroupingSets`."""

    items: tuple[Expr | Rollup | GroupingSets, ...]


@dataclass(frozen=True, slots=True)
class Rollup(SyntaxNode):
    kind: L["rollup", "cube"]
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class GroupingSets(SyntaxNode):
    items: tuple[Expr | Rollup | GroupingSets, ...]


@dataclass(frozen=True, slots=True)
class Output(SyntaxNode):
    """The output clause.

    `after`: events (Expr) or time period. `which`: all first last snapshot or None. `kind`: every-events,
    every-time, at, when, terminated, or None (only after). `then_set`: assignments.
    `and_terminated`: the part ``and when terminated [and expr] [then set …]``.
    """

    kind: str | None
    which: str | None = None
    after: Expr | None = None
    rate: Expr | None = None
    crontab: Crontab | None = None
    when: Expr | None = None
    then_set: tuple[Assignment, ...] = ()
    and_terminated: bool = False
    terminated_when: Expr | None = None
    terminated_then: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment(SyntaxNode):
    """``target = expr`` of set clauses (target: property path, variable, indexed) or a bare call expression."""

    target: Expr | None
    value: Expr


@dataclass(frozen=True, slots=True)
class InsertInto(SyntaxNode):
    """``insert [istream|rstream|irstream] into Name [(columns)] [partition by …]``"""

    target: str
    selector: str | None = None
    columns: tuple[str, ...] = ()
    event_precedence: Expr | None = None


@dataclass(frozen=True, slots=True)
class ExpressionDecl(SyntaxNode):
    """``expression name { body }``, ``create expression …``; script dialect in `language`."""

    name: str
    params: tuple[str, ...]
    body: Expr | str
    language: str | None = None
    return_type: str | None = None
    alias: bool = False  # ``expression x alias for { … }``


@dataclass(frozen=True, slots=True)
class Statement(SyntaxNode):
    annotations: tuple[Annotation, ...] = field(default=(), kw_only=True)
    context: str | None = field(default=None, kw_only=True)
    expressions: tuple[ExpressionDecl, ...] = field(default=(), kw_only=True)

    @property
    def changed_store(self) -> str | None:
        """The store whose rows a fire-and-forget statement changes; None for other statements."""
        return None
