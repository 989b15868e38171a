"""Partitions of streams, which cycle queries read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as L

from cepbook.lang.syntax.ast.expressions import Expr
from cepbook.lang.syntax.ast.syntax_node import SyntaxNode

CycleWindow = L["sliding", "recent", "tumbling", "random", "highest", "lowest"]


@dataclass(frozen=True, slots=True)
class RowStatus(Expr):
    """``[alias.]$row_status is new``, ``dead``, ``not dead``."""

    alias: str | None
    status: L["new", "dead", "not dead"]


@dataclass(frozen=True, slots=True)
class Name(SyntaxNode):
    """A name with its span."""

    text: str


@dataclass(frozen=True, slots=True)
class StageWindow(SyntaxNode):
    """``last 5``, ``last 5 seconds max 3`` and so on: `size` is a number of rows, of ``recent`` of milliseconds.

    `at_most` is the number behind ``max``, `column` and `update_group` are those of ``highest`` and ``lowest``.
    """

    kind: CycleWindow
    size: int
    at_most: int | None = None
    column: Name | None = None
    update_group: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class StageAggregate(SyntaxNode):
    """``count(id) entrance only as total``"""

    function: Name
    column: Name
    entrance_only: bool
    alias: Name


@dataclass(frozen=True, slots=True)
class Stage(SyntaxNode):
    """``(partition by a, b store last 5 with pinned … where …)``"""

    keys: tuple[Name, ...]
    window: StageWindow
    pinned: bool
    aggregates: tuple[StageAggregate, ...]
    where: Expr | None


@dataclass(frozen=True, slots=True)
class PartitionStream(SyntaxNode):
    """A stream that passes through one or more stages."""

    type_name: str
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class SameStream(SyntaxNode):
    """``self#alias``: another use of a partition of the query."""

    alias: str


@dataclass(frozen=True, slots=True)
class Projected(SyntaxNode):
    """``source.column as name`` of an alert."""

    source: Name
    column: Name
    alias: Name


@dataclass(frozen=True, slots=True)
class Present(SyntaxNode):
    """``present(a and not b)``: required and excluded sources."""

    required: tuple[Name, ...]
    excluded: tuple[Name, ...]
