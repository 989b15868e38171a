"""Compiled contexts: levels, their streams, and the conditions that begin and end partitions.

The functions in these classes are made by `context_compiler`. Functions of a condition take (event, node). The node is
the partition that the condition is watched for; it offers the `properties` that the expressions read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.engine.patterns.matcher import PatternProgram
from cepbook.lang.plan import context as c
from cepbook.lang.plan import expressions as x

ConditionTest = Callable[[Any, Any], bool]
ConditionValue = Callable[[Any, Any], Any]
EqualityKeys = tuple[ConditionValue, ConditionValue]  # an equality as two keys: (of the event, of the node)


@dataclass(frozen=True, slots=True)
class NowCondition:
    """``@now``: true at once."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventCondition:
    """An event of a type that passes the filter `test`.

    `names` are the properties that the condition defines. `key` is an equality in the filter by which waiting nodes
    are indexed. `unfold` returns the contained events that the condition is about, at least one; None if it is about
    the event itself. `repeatable`: nobody notices if the filter is evaluated twice for an event. `filter` is the whole
    filter.
    """

    event_type: str
    names: tuple[str, ...]
    test: ConditionTest | None
    key: EqualityKeys | None
    unfold: ConditionValue | None = None
    repeatable: bool = False
    filter: x.BoundExpr | None = None

    def conjuncts(self, types: Sequence[str]) -> list[x.BoundExpr] | None:
        """Return the conditions that an event, which is of all `types`, must meet to make this one true; None if no
        event of them does.
        """
        return x.conjuncts(self.filter) if self.event_type in types else None


@dataclass(frozen=True, slots=True)
class TimeCondition:
    """A point in time, ``due(node, now)``, in units of the clock. `crontab`: the time comes from a crontab."""

    due: Callable[[Any, int], int]
    crontab: bool
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PatternCondition:
    """A pattern. `alias` is the name of its match; None if its tags are the `names` themselves.

    `replay` lists the tags whose events are delivered to the statements, with their types: single events before arrays
    (recorded). `keys` maps an event type to equalities with node properties, if every atom of the type has one. An
    event that satisfies none of these equalities cannot advance a matcher.
    """

    program: PatternProgram
    names: tuple[str, ...]
    alias: str | None
    replay: tuple[tuple[str, str], ...]
    keys: Mapping[str, tuple[EqualityKeys, ...]]

    def conjuncts(self, types: Sequence[str]) -> list[x.BoundExpr] | None:
        """Return the same as for an event. A match that is there at once is the timer's, not the event's."""
        return x.conjuncts(self.program.condition(types)) if self.program.route(types) else None

    @property
    def types(self) -> tuple[str, ...]:
        """The event types of the pattern's atoms."""
        return tuple(group.event_type for group in self.program.groups)


CompiledCondition = NowCondition | EventCondition | TimeCondition | PatternCondition


@dataclass(frozen=True, slots=True)
class LevelStream:
    """How events of one listed type find their node: `locate` returns (key, key values), `passes` is the filter.

    `reads` and `deterministic` have the same meaning as in `PartitionLocator`.
    """

    event_type: str
    locate: Callable[[Any], tuple[Any, Sequence[Any]]]
    passes: Callable[[Any], bool] | None
    alias: str | None = None
    reads: tuple[str, ...] | None = None
    deterministic: bool = False


@dataclass(frozen=True, slots=True)
class CompiledLevel:
    """One level of a context. Fields that its kind of context does not have stay empty."""

    name: str
    spec: c.ContextSpec
    streams: tuple[LevelStream, ...] = ()
    begins: tuple[CompiledCondition, ...] = ()
    ends: CompiledCondition | None = None
    labels: tuple[str, ...] = ()
    distinct: ConditionValue | None = None
    preallocated: int = 0  # the number of partitions that exist from the beginning
    also_now: bool = False  # a partition begins at the activation


CompiledLevels = tuple[CompiledLevel, ...]  # outermost first
