"""On-trigger statements."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.ast.clauses import Assignment, InsertInto, SelectItem, Statement
from cepbook.lang.ast.expressions import Expr
from cepbook.lang.ast.filters import ContainedStep
from cepbook.lang.ast.node import Node
from cepbook.lang.ast.select import Select
from cepbook.lang.ast.streams import StreamSource


@dataclass(frozen=True, slots=True)
class OnTrigger(Statement):
    """``on <stream> …``: action is one of the On… nodes."""

    trigger: StreamSource
    action: OnAction


@dataclass(frozen=True, slots=True)
class OnAction(Node):
    pass


@dataclass(frozen=True, slots=True)
class OnSet(OnAction):
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class OnSelect(OnAction):
    """``select [and delete] … from Target as x …``"""

    select: Select
    delete: bool = False


@dataclass(frozen=True, slots=True)
class OnDelete(OnAction):
    target: str
    alias: str | None
    where: Expr | None


@dataclass(frozen=True, slots=True)
class OnUpdate(OnAction):
    target: str
    alias: str | None
    assignments: tuple[Assignment, ...]
    where: Expr | None


@dataclass(frozen=True, slots=True)
class OnMerge(OnAction):
    target: str
    alias: str | None
    where: Expr | None
    branches: tuple[MergeBranch, ...]


@dataclass(frozen=True, slots=True)
class MergeBranch(Node):
    """``when [not] matched [and expr] then …``; `matched` None for the short ``merge X insert select`` form."""

    matched: bool | None
    condition: Expr | None
    actions: tuple[MergeAction, ...]


@dataclass(frozen=True, slots=True)
class MergeAction(Node):
    """kind: insert update delete."""

    kind: str
    into: str | None = None
    columns: tuple[str, ...] = ()
    items: tuple[SelectItem, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class OnSplit(OnAction):
    """``insert into … select … where … insert into … output first|all``"""

    # into, select list, contained events that it is for and their alias, condition
    branches: tuple[tuple[InsertInto, tuple[SelectItem, ...], tuple[ContainedStep, ...], str | None, Expr | None], ...]
    output_all: bool = False
