"""Streams of a from-clause: filters, windows, joins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as L

from cepbook.lang.syntax.ast.clauses import FilterStream
from cepbook.lang.syntax.ast.cycles import Name, PartitionStream, Present, Projected, SameStream
from cepbook.lang.syntax.ast.expressions import Expr
from cepbook.lang.syntax.ast.pattern import PatternNode
from cepbook.lang.syntax.ast.syntax_node import Annotation, SyntaxNode


@dataclass(frozen=True, slots=True)
class Window(SyntaxNode):
    """``#length(5)``, ``#win:time(1 sec)``, ``.std:unique(a)``; `namespace` None for the first form.

    `name` keeps its written case. Named parameters (``flow``…) are rare and in `named`.
    """

    name: str
    args: tuple[Expr, ...]
    namespace: str | None = None
    named: tuple[tuple[str, tuple[Expr, ...]], ...] = ()


SUPPRESS, DISCARD = "SuppressOverlappingMatches", "DiscardPartialsOnMatch"  # the annotations of a pattern


@dataclass(frozen=True, slots=True)
class PatternStream(SyntaxNode):
    """``pattern @SuppressOverlappingMatches [ … ]``"""

    pattern: PatternNode
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class ExternalStream(SyntaxNode):
    """``sql:db ['select …']``, ``method:Class.method(args)``"""

    kind: str
    name: str
    args: tuple[Expr, ...] = ()
    text: str | None = None
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class StreamSource(SyntaxNode):
    """One entry of a from-clause: stream, windows, alias and the keywords behind it."""

    stream: FilterStream | PatternStream | ExternalStream | PartitionStream | SameStream | AlertStream
    windows: tuple[Window, ...] = ()
    alias: str | None = None
    unidirectional: bool = False
    retain: L["union", "intersection"] | None = None


@dataclass(frozen=True, slots=True)
class Correlated(SyntaxNode):
    """A source of an alert, whose events `column` identifies."""

    source: StreamSource
    column: Name


@dataclass(frozen=True, slots=True)
class AlertStream(SyntaxNode):
    """``alert … using … when present(…) or present(…)``"""

    columns: tuple[Projected, ...]
    sources: tuple[Correlated, ...]
    patterns: tuple[Present, ...]


@dataclass(frozen=True, slots=True)
class Join(SyntaxNode):
    """``left outer join b on …`` between the sources so far and the next one."""

    kind: L["inner", "left", "right", "full"]
    on: Expr | None
