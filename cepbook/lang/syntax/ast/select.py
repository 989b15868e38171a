"""The select statement, and expressions that contain one."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.syntax.ast.clauses import (
    Delivery,
    GroupBy,
    InsertInto,
    OrderItem,
    Output,
    RowLimit,
    SelectItem,
    Statement,
)
from cepbook.lang.syntax.ast.expressions import Expr
from cepbook.lang.syntax.ast.pattern import MatchRecognize
from cepbook.lang.syntax.ast.streams import Join, StreamSource


@dataclass(frozen=True, slots=True)
class Select(Statement):
    """The full select statement. `selector` None when none was written (then istream).

    `sources` is empty for ``context X select …`` without from-clause. `joins[i]` joins source i+1;
    comma joins are ``Join("inner", None)``.
    """

    items: tuple[SelectItem, ...]
    sources: tuple[StreamSource, ...] = ()
    joins: tuple[Join, ...] = ()
    selector: str | None = None
    distinct: bool = False
    insert_into: InsertInto | None = None
    where: Expr | None = None
    group_by: GroupBy | None = None
    having: Expr | None = None
    output: Output | None = None
    order_by: tuple[OrderItem, ...] = ()
    limit: RowLimit | None = None
    match_recognize: MatchRecognize | None = None
    into_table: str | None = None  # ``into table T select …``
    delivery: Delivery | None = None


@dataclass(frozen=True, slots=True)
class RunningQuery(Statement):
    """A select that is evaluated in cycles."""

    select: Select


@dataclass(frozen=True, slots=True)
class Subquery(Expr):
    """``(select …)``, ``exists (select …)``"""

    select: Select
    exists: bool = False


@dataclass(frozen=True, slots=True)
class InSubquery(Expr):
    """``x in (select …)`` / ``x not in (select …)``"""

    operand: Expr
    select: Select
    negated: bool = False
