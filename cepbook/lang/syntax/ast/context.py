"""The contexts that ``create context`` declares."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.syntax.ast.clauses import FilterStream
from cepbook.lang.syntax.ast.expressions import Crontab, Expr
from cepbook.lang.syntax.ast.pattern import PatternNode
from cepbook.lang.syntax.ast.syntax_node import SyntaxNode


@dataclass(frozen=True, slots=True)
class ContextCondition(SyntaxNode):
    """``@now``, filter, pattern, crontabs, ``after period``; kind: now filter pattern crontab after."""

    kind: str
    stream: FilterStream | None = None
    pattern: PatternNode | None = None
    inclusive: bool = False
    crontabs: tuple[Crontab, ...] = ()
    period: Expr | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class KeyedItem(SyntaxNode):
    """``a, b from Type(filter) as x`` (keyed), ``hash_code(x) from Type`` (hash: `keys` holds one call)."""

    keys: tuple[Expr, ...]
    stream: FilterStream
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class ContextSpec(SyntaxNode):
    pass


@dataclass(frozen=True, slots=True)
class KeyedContext(ContextSpec):
    items: tuple[KeyedItem, ...]
    initiated_by: tuple[ContextCondition, ...] = ()
    terminated_by: ContextCondition | None = None


@dataclass(frozen=True, slots=True)
class HashContext(ContextSpec):
    items: tuple[KeyedItem, ...]
    granularity: Expr
    preallocate: bool = False


@dataclass(frozen=True, slots=True)
class CategoryContext(ContextSpec):
    groups: tuple[tuple[Expr, str], ...]
    stream: FilterStream


@dataclass(frozen=True, slots=True)
class NonOverlappingContext(ContextSpec):
    start: ContextCondition
    end: ContextCondition | None


@dataclass(frozen=True, slots=True)
class OverlappingContext(ContextSpec):
    """`also_now` for ``initiated @now and …``; `distinct` keys of ``initiated by distinct(…)``."""

    initiated: ContextCondition
    terminated: ContextCondition | None
    distinct: tuple[Expr, ...] = ()
    also_now: bool = False


@dataclass(frozen=True, slots=True)
class NestedContext(ContextSpec):
    contexts: tuple[tuple[str, ContextSpec], ...]
