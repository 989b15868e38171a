"""Event patterns and match_recognize."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as L

from cepbook.lang.syntax.ast.clauses import FilterStream, SelectItem
from cepbook.lang.syntax.ast.expressions import Expr
from cepbook.lang.syntax.ast.syntax_node import Annotation, SyntaxNode


@dataclass(frozen=True, slots=True)
class PatternNode(SyntaxNode):
    pass


@dataclass(frozen=True, slots=True)
class PatternFilter(PatternNode):
    tag: str | None
    stream: FilterStream
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class PatternObserver(PatternNode):
    """``timer:interval(5 sec)``, ``timer:at(…)``, ``timer:schedule(…)``"""

    namespace: str
    name: str
    args: tuple[Expr, ...]
    named: tuple[tuple[str, tuple[Expr, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class PatternFollowedBy(PatternNode):
    """``a -> b -[max]> c``: operands and, between them, the optional maximum."""

    operands: tuple[PatternNode, ...]
    maxima: tuple[Expr | None, ...]


@dataclass(frozen=True, slots=True)
class PatternLogical(PatternNode):
    op: L["and", "or"]
    operands: tuple[PatternNode, ...]


@dataclass(frozen=True, slots=True)
class PatternNot(PatternNode):
    operand: PatternNode


@dataclass(frozen=True, slots=True)
class PatternEvery(PatternNode):
    """``every``, ``every-distinct(exprs, expiry)``: `distinct` None for plain every."""

    operand: PatternNode
    distinct: tuple[Expr, ...] | None = None


@dataclass(frozen=True, slots=True)
class PatternRepeat(PatternNode):
    """``[3] a``, ``[2:5] a until b``, ``a until b``; bounds None where absent; `exact` for ``[n]``."""

    operand: PatternNode
    low: Expr | None
    high: Expr | None
    until: PatternNode | None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class PatternGuard(PatternNode):
    """``(p) where timer:within(5 sec)``, ``p while (expr)``: `name` "while" has namespace ""."""

    operand: PatternNode
    namespace: str
    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MatchRecognize(SyntaxNode):
    """Clauses of match_recognize: partition by, measures, all matches, after match skip, pattern, interval, define."""

    partition_by: tuple[Expr, ...]
    measures: tuple[SelectItem, ...]
    all_matches: bool
    after: str | None
    pattern: RowPattern
    interval: Expr | None
    or_terminated: bool
    define: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class RowPattern(SyntaxNode):
    """`kind` is ``atom`` (with `name`), ``seq``, ``alt``, ``permute`` or ``group`` (one operand).

    `quantifier` is None, ``*``, ``+``, ``?``, their reluctant forms ``*?``, ``+?``, ``??``, or ``{n}`` and ``{n,m}``,
    ``{n}?`` and ``{n,m}?`` with `low` and `high` (None where not written).
    """

    kind: str
    name: str | None = None
    operands: tuple[RowPattern, ...] = ()
    quantifier: str | None = None
    low: Expr | None = None
    high: Expr | None = None
