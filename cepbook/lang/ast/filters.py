"""Events by type and filter, and the events within them."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.ast.clauses import SelectItem
from cepbook.lang.ast.expressions import Expr
from cepbook.lang.ast.node import Node


@dataclass(frozen=True, slots=True)
class FilterStream(Node):
    """``EventType(filter, filter)[contained.event]``; filter expressions separated by commas are a conjunction."""

    type_name: str
    filters: tuple[Expr, ...] = ()
    contained: tuple[ContainedStep, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainedStep(Node):
    """``[select a, b from items as x where …]`` of contained-event selection."""

    path: Expr
    select: tuple[SelectItem, ...] | None = None
    alias: str | None = None
    where: Expr | None = None
    type_name: str | None = None
