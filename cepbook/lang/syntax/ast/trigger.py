"""On-trigger statements."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.syntax.ast.clauses import Assignment, ContainedStep, InsertInto, SelectItem, Statement
from cepbook.lang.syntax.ast.expressions import Expr
from cepbook.lang.syntax.ast.select import Select
from cepbook.lang.syntax.ast.streams import StreamSource
from cepbook.lang.syntax.ast.syntax_node import SyntaxNode


@dataclass(frozen=True, slots=True)
class OnTrigger(Statement):
    """``on <stream> …``: action is one of the On… nodes."""

    trigger: StreamSource
    action: OnAction


@dataclass(frozen=True, slots=True)
class OnAction(SyntaxNode):
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
class MergeBranch(SyntaxNode):
    """``when [not] matched [and expr] then …``; `matched` None for the short ``merge X insert select`` form."""

    matched: bool | None
    condition: Expr | None
    actions: tuple[MergeAction, ...]


@dataclass(frozen=True, slots=True)
class MergeAction(SyntaxNode):
    """kind: insert update delete."""

    kind: str
    into: str | None = None
    columns: tuple[str, ...] = ()
    items: tuple[SelectItem, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    where: Expr | None = None
    event_precedence: Expr | None = None


@dataclass(frozen=True, slots=True)
class OnSplit(OnAction):
    """``insert into … select … where … insert into … output first|all``"""

    # into, select list, contained events that it is for and their alias, condition
    branches: tuple[tuple[InsertInto, tuple[SelectItem, ...], tuple[ContainedStep, ...], str | None, Expr | None], ...]
    output_all: bool = False
