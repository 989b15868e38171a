"""Streams of a from-clause: filters, windows, joins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Literal as L

from cepbook.lang.ast.expressions import Expr
from cepbook.lang.ast.node import Annotation, Node

if TYPE_CHECKING:
    from cepbook.lang.ast.cycles import AlertStream, PartitionStream, SameStream
    from cepbook.lang.ast.patterns import PatternNode
    from cepbook.lang.ast.select import SelectItem


@dataclass(frozen=True, slots=True)
class Window(Node):
    """``#length(5)``, ``#win:time(1 sec)``, ``.std:unique(a)``; `namespace` None for the first form.

    `name` keeps its written case. Named parameters (``flow``…) are rare and in `named`.
    """

    name: str
    args: tuple[Expr, ...]
    namespace: str | None = None
    has_parens: bool = True
    named: tuple[tuple[str, tuple[Expr, ...]], ...] = ()


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


@dataclass(frozen=True, slots=True)
class PatternStream(Node):
    """``pattern @SuppressOverlappingMatches [ … ]``"""

    pattern: PatternNode
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class ExternalStream(Node):
    """``sql:db ['select …']``, ``method:Class.method(args)``"""

    kind: str
    name: str
    args: tuple[Expr, ...] = ()
    text: str | None = None
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class StreamSource(Node):
    """One entry of a from-clause: stream, windows, alias and the keywords behind it."""

    stream: FilterStream | PatternStream | ExternalStream | PartitionStream | SameStream | AlertStream
    windows: tuple[Window, ...] = ()
    alias: str | None = None
    unidirectional: bool = False
    retain: L["union", "intersection"] | None = None


@dataclass(frozen=True, slots=True)
class Join(Node):
    """``left outer join b on …`` between the sources so far and the next one."""

    kind: L["inner", "left", "right", "full"]
    on: Expr | None
