"""Choosing context partitions: by id, key, hash, category, by what a function says of their properties, level by level.

The terms are those of the Esper reference, section "Context Partition Selection".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from cepbook.errors import UsageError, hint_line


@dataclass(frozen=True, slots=True)
class Step:
    """A partition on one level of its context.

    `kind`: keyed, hash, category, nonoverlapping, overlapping. `key`: the keys (a tuple), the hash modulo granularity,
    the label; None of other kinds.
    """

    name: str
    kind: str
    key: Any
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Identity:
    """A live partition: its id, its built-in properties, and what it is on each level, outermost first."""

    id: int
    properties: Mapping[str, Any]
    steps: tuple[Step, ...]


class Selector(ABC):
    """Says which partitions are meant. Those of one level of a nested context stand in `Nested`."""

    @abstractmethod
    def chooses(self, partition: Identity) -> bool:
        """Whether `partition` is meant. Errors: UsageError when partitions of its context have no such thing."""


@dataclass(frozen=True, slots=True)
class ById(Selector):
    """Partitions with one of these ids."""

    ids: frozenset[int]

    def __init__(self, *ids: int) -> None:
        object.__setattr__(self, "ids", frozenset(ids))

    def chooses(self, partition: Identity) -> bool:
        return partition.id in self.ids


class _ByKey(Selector):
    """What looks at the key of a context's only level."""

    kind: str

    @abstractmethod
    def has(self, key: Any) -> bool:
        """Whether a partition of this key is meant."""

    def chooses(self, partition: Identity) -> bool:
        kinds = [step.kind for step in partition.steps]
        if kinds != [self.kind]:
            hint = "; name the level: Nested(level=…)" if len(kinds) > 1 else ""
            fact = f"{type(self).__name__} is for {self.kind} contexts, this one is {' over '.join(kinds)}"
            raise UsageError(f"{fact}{hint}")
        return self.has(partition.steps[0].key)


@dataclass(frozen=True, slots=True)
class ByKey(_ByKey):
    """Partitions of a keyed context with one of these keys; composite keys are tuples."""

    keys: tuple[tuple[Any, ...], ...]
    kind = "keyed"

    def __init__(self, *keys: Any) -> None:
        object.__setattr__(self, "keys", tuple(key if isinstance(key, tuple) else (key,) for key in keys))

    def has(self, key: Any) -> bool:
        for each in self.keys:
            if len(each) != len(key):
                values = "1 value" if len(key) == 1 else f"{len(key)} values"
                raise UsageError(
                    f"keys of this context have {values}, found {len(each)}: {', '.join(map(repr, each))}\n"
                    "  hint: a key of several values is a tuple: ByKey((a, b))"
                )
        return key in self.keys


@dataclass(frozen=True, slots=True)
class ByHash(_ByKey):
    """Partitions of a hash context with one of these hashes modulo granularity."""

    hashes: frozenset[int]
    kind = "hash"

    def __init__(self, *hashes: int) -> None:
        object.__setattr__(self, "hashes", frozenset(hashes))

    def has(self, key: Any) -> bool:
        return key in self.hashes


@dataclass(frozen=True, slots=True)
class ByCategory(_ByKey):
    """Partitions of a category context with one of these labels."""

    labels: frozenset[str]
    kind = "category"

    def __init__(self, *labels: str) -> None:
        object.__setattr__(self, "labels", frozenset(labels))

    def has(self, key: Any) -> bool:
        return key in self.labels


@dataclass(frozen=True, slots=True)
class ByProperties(Selector):
    """Partitions of whose built-in properties (id and name among them) a function says so."""

    predicate: Callable[[Mapping[str, Any]], object]

    def __post_init__(self) -> None:
        if not callable(self.predicate):
            raise UsageError(f"ByProperties takes a function of the properties, not {self.predicate!r}")

    def chooses(self, partition: Identity) -> bool:
        return bool(self.predicate(partition.properties))


@dataclass(frozen=True, slots=True)
class Nested(Selector):
    """Partitions of a nested context that on each level named here are those that its selector means."""

    levels: Mapping[str, Selector]

    def __init__(self, levels: Mapping[str, Selector] | None = None, /, **named: Selector) -> None:
        if not isinstance(levels, Mapping | None):
            raise UsageError(f"Nested takes selectors by the names of levels, not {levels!r}: Nested(level=…)")
        found = {**(levels or {}), **named}
        for name, selector in found.items():
            if not isinstance(name, str) or not isinstance(selector, Selector):
                raise UsageError(f"Nested takes selectors by the names of levels, not {selector!r} by {name!r}")
        object.__setattr__(self, "levels", found)

    def chooses(self, partition: Identity) -> bool:
        steps = {step.name: step for step in partition.steps}
        for name, selector in self.levels.items():
            if name not in steps:
                raise UsageError(f"the context has no level `{name}`{hint_line(name, steps)}")
            step = steps[name]
            if not selector.chooses(Identity(partition.id, step.properties, (step,))):
                return False
        return True


def chosen(selector: Selector, live: Callable[[], Iterable[Identity]]) -> Set[int]:
    """The ids of the partitions that `selector` means, of those that `live` lists; given ids as they are."""
    if isinstance(selector, ById):
        return selector.ids
    return {partition.id for partition in live() if selector.chooses(partition)}
