"""Events by type and filter, and the events within them."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.syntax.ast.clauses import SelectItem
from cepbook.lang.syntax.ast.expressions import Expr
from cepbook.lang.syntax.ast.syntax_node import SyntaxNode


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
