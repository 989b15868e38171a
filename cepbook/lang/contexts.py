"""Contexts in the plan: what allocates and ends context partitions (Esper reference, chapter "Context and Context
Partitions").

Expressions of conditions read stream 0, the event that arrives, and the partition's built-in properties
(`expr.ContextProp`): ``terminated by End(id = s.id)`` reads `ContextProp` ``s`` and its member ``id``.
"""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.crontabs import Crontab
from cepbook.lang.expr import Expr
from cepbook.lang.nodes import Contained, PlanNode
from cepbook.lang.patterns import Pattern


@dataclass(frozen=True, slots=True)
class Condition(PlanNode):
    """What begins or ends a partition. `alias` is the name of its event or match among the built-in properties."""


@dataclass(frozen=True, slots=True)
class Now(Condition):
    """``@now``: at once."""


@dataclass(frozen=True, slots=True)
class OnEvent(Condition):
    """The next event of `event_type` that passes `filter`; with `contained` each of the events within."""

    event_type: str
    filter: Expr | None
    alias: str | None
    contained: tuple[Contained, ...] = ()


@dataclass(frozen=True, slots=True)
class OnPattern(Condition):
    """A match of `pattern`. Without an alias its tags are built-in properties themselves. With `inclusive` the tagged
    events of the match count for the statements."""

    pattern: Pattern
    inclusive: bool
    alias: str | None


@dataclass(frozen=True, slots=True)
class OnCrontab(Condition):
    """The next time that one of `crontabs` matches, strictly later."""

    crontabs: tuple[Crontab, ...]


@dataclass(frozen=True, slots=True)
class After(Condition):
    """A time period later: an `expr.Period`."""

    period: Expr


@dataclass(frozen=True, slots=True)
class KeyedStream(PlanNode):
    """One stream of a keyed context: key expressions over stream 0 and an optional filter."""

    event_type: str
    keys: tuple[Expr, ...]
    filter: Expr | None
    alias: str | None


@dataclass(frozen=True, slots=True)
class KeyedContextSpec(PlanNode):
    """``partition by``: each event type once, all with as many keys of the same types."""

    streams: tuple[KeyedStream, ...]


@dataclass(frozen=True, slots=True)
class Keyed(PlanNode):
    """``partition by``: `streams` as in `KeyedContextSpec`; only `initiated` conditions, if any, allocate."""

    streams: KeyedContextSpec
    initiated: tuple[OnEvent, ...] = ()
    terminated: Condition | None = None


@dataclass(frozen=True, slots=True)
class HashedStream(PlanNode):
    """``function(args) from event_type(filter)``: consistent_hash_crc32, hash_code or a registered function."""

    event_type: str
    function: str
    args: tuple[Expr, ...]
    filter: Expr | None


@dataclass(frozen=True, slots=True)
class Hash(PlanNode):
    """``coalesce by …``: the partition is the hash modulo `granularity`."""

    streams: tuple[HashedStream, ...]
    granularity: int
    preallocate: bool


@dataclass(frozen=True, slots=True)
class Category(PlanNode):
    """``group … as label``: a partition for each category, all from the activation on."""

    event_type: str
    filter: Expr | None
    categories: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class NonOverlapping(PlanNode):
    """``start … end …``: one partition at most. `end` None: it lasts."""

    start: Condition
    end: Condition | None


@dataclass(frozen=True, slots=True)
class Overlapping(PlanNode):
    """``initiated by … terminated by …``: a partition for each initiation; `also_now` one at the activation.

    `distinct` keys read `ContextProp`s of the initiating event: while a partition of a key lives, no other begins.
    """

    initiated: Condition
    terminated: Condition | None
    distinct: tuple[Expr, ...] = ()
    also_now: bool = False


@dataclass(frozen=True, slots=True)
class Nested(PlanNode):
    """Contexts inside each other, outermost first, by name."""

    levels: tuple[tuple[str, ContextSpec], ...]


ContextSpec = Keyed | Hash | Category | NonOverlapping | Overlapping | Nested
