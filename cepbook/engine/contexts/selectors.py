"""Choosing context partitions: by id, key, hash, category, by what a function says of their properties, level by level.

The terms are those of the Esper reference, section "Context Partition Selection".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.errors import UsageError, hint_line
from cepbook.lang.plan import context as c


@dataclass(frozen=True, slots=True)
class LevelIdentity:
    """A partition on one level of its context.

    `kind`: keyed, hash, category, nonoverlapping, overlapping. `key`: the keys (a tuple), the hash modulo granularity,
    the label; None of other kinds.
    """

    name: str
    kind: str
    key: Any
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PartitionIdentity:
    """A live partition: its id, its built-in properties, and what it is on each level, outermost first."""

    id: int
    properties: Mapping[str, Any]
    steps: tuple[LevelIdentity, ...]


LevelSpec = c.ContextSpec | c.KeyedStreams
NamedLevels = Sequence[tuple[str, LevelSpec]]  # with their names, outermost first


def level_kind(level: LevelSpec) -> str:
    """The kind of `Step` that a level makes."""
    return "keyed" if isinstance(level, c.KeyedStreams) else type(level).__name__.removesuffix("Spec").lower()


class Selector(ABC):
    """Says which partitions are meant. Those of one level of a nested context stand in `Nested`."""

    def check(self, levels: NamedLevels) -> None:  # noqa: B027 - most have nothing to check
        """Whether partitions of a context can be meant at all, of which maybe none is live.

        Errors: UsageError when partitions of these levels have no such thing.
        """

    @abstractmethod
    def chooses(self, partition: PartitionIdentity) -> bool:
        """Whether `partition`, of a context that passed `check`, is meant."""


def _set_of(name: str, given: tuple[Any, ...]) -> frozenset[Any]:
    """The arguments of a selector as a set. Errors: UsageError for a list in their place."""
    try:
        return frozenset(given)
    except TypeError:
        listed = next(each for each in given if not isinstance(each, Hashable))
        raise UsageError(f"{name} takes values, not {listed!r}\n  hint: {name}(*{listed!r})") from None


@dataclass(frozen=True, slots=True)
class ById(Selector):
    """Partitions with one of these ids."""

    ids: frozenset[int]

    def __init__(self, *ids: int) -> None:
        object.__setattr__(self, "ids", _set_of("ById", ids))

    def chooses(self, partition: PartitionIdentity) -> bool:
        return partition.id in self.ids


class _ByKey(Selector):
    """What looks at the key of a context's only level."""

    kind: str

    @abstractmethod
    def fits(self, level: Any) -> None:
        """Errors: UsageError when no partition of the level, which is of the kind, can have such a key."""

    @abstractmethod
    def has(self, key: Any) -> bool:
        """Whether a partition of this key is meant."""

    def check(self, levels: NamedLevels) -> None:
        kinds = [level_kind(level) for _, level in levels]
        if kinds != [self.kind]:
            hint = "; name the level: Nested(level=…)" if len(kinds) > 1 else ""
            fact = f"{type(self).__name__} is for {self.kind} contexts, this one is {' over '.join(kinds)}"
            raise UsageError(f"{fact}{hint}")
        self.fits(levels[0][1])

    def chooses(self, partition: PartitionIdentity) -> bool:
        return self.has(partition.steps[0].key)


@dataclass(frozen=True, slots=True)
class ByKey(_ByKey):
    """Partitions of a keyed context with one of these keys; composite keys are tuples."""

    keys: tuple[tuple[Any, ...], ...]
    kind = "keyed"

    def __init__(self, *keys: Any) -> None:
        object.__setattr__(self, "keys", tuple(key if isinstance(key, tuple) else (key,) for key in keys))

    def fits(self, level: c.KeyedStreams | c.KeyedSpec) -> None:
        streams = level.streams.streams if isinstance(level, c.KeyedSpec) else level.streams
        number = len(streams[0].keys)
        for each in self.keys:
            if len(each) != number:
                values = "1 value" if number == 1 else f"{number} values"
                raise UsageError(
                    f"keys of this context have {values}, found {len(each)}: {', '.join(map(repr, each))}\n"
                    "  hint: a key of several values is a tuple: ByKey((a, b))"
                )

    def has(self, key: Any) -> bool:
        return key in self.keys


@dataclass(frozen=True, slots=True)
class ByHash(_ByKey):
    """Partitions of a hash context with one of these hashes modulo granularity."""

    hashes: frozenset[int]
    kind = "hash"

    def __init__(self, *hashes: int) -> None:
        object.__setattr__(self, "hashes", _set_of("ByHash", hashes))

    def fits(self, level: c.HashSpec) -> None:
        for number in self.hashes:
            if number not in range(level.granularity):
                raise UsageError(f"hashes of this context are 0 to {level.granularity - 1}, found {number!r}")

    def has(self, key: Any) -> bool:
        return key in self.hashes


@dataclass(frozen=True, slots=True)
class ByCategory(_ByKey):
    """Partitions of a category context with one of these labels."""

    labels: frozenset[str]
    kind = "category"

    def __init__(self, *labels: str) -> None:
        object.__setattr__(self, "labels", _set_of("ByCategory", labels))

    def fits(self, level: c.CategorySpec) -> None:
        known = [label for label, _ in level.categories]
        for label in self.labels:
            if label not in known:
                near = hint_line(label, known) if isinstance(label, str) else ""
                listed = ", ".join(map(repr, known))
                raise UsageError(f"the context has no category {label!r}; there are {listed}{near}")

    def has(self, key: Any) -> bool:
        return key in self.labels


@dataclass(frozen=True, slots=True)
class ByProperties(Selector):
    """Partitions of whose built-in properties (id and name among them) a function says so."""

    predicate: Callable[[Mapping[str, Any]], object]

    def __post_init__(self) -> None:
        if not callable(self.predicate):
            raise UsageError(f"ByProperties takes a function of the properties, not {self.predicate!r}")

    def chooses(self, partition: PartitionIdentity) -> bool:
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

    def check(self, levels: NamedLevels) -> None:
        known = dict(levels)
        for name, selector in self.levels.items():
            if name not in known:
                raise UsageError(f"the context has no level `{name}`{hint_line(name, known)}")
            selector.check([(name, known[name])])

    def chooses(self, partition: PartitionIdentity) -> bool:
        steps = {step.name: step for step in partition.steps}
        own = ((selector, steps[name]) for name, selector in self.levels.items())
        return all(
            selector.chooses(PartitionIdentity(partition.id, step.properties, (step,))) for selector, step in own
        )
