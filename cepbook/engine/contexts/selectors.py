"""Selectors of context partitions: by id, key, hash, category, by a function of the properties, and level by level.

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
    """The identity of a partition on one level of its context.

    `kind` is keyed, hash, category, nonoverlapping or overlapping. `key` is the tuple of keys, the hash modulo
    granularity, or the label; None for the other kinds.
    """

    name: str
    kind: str
    key: Any
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PartitionIdentity:
    """A live partition: its id, its built-in properties, and its identity on each level, outermost first."""

    id: int
    properties: Mapping[str, Any]
    steps: tuple[LevelIdentity, ...]


NamedLevels = Sequence[tuple[str, c.ContextLevel]]  # with their names, outermost first


class Selector(ABC):
    """A choice of partitions. Selectors for one level of a nested context are combined in `Nested`."""

    def check(self, levels: NamedLevels) -> None:  # noqa: B027 - most have nothing to check
        """Check that the selector fits these levels, whether or not a partition is live.

        Errors: UsageError if partitions of these levels have no such keys.
        """

    @abstractmethod
    def chooses(self, partition: PartitionIdentity) -> bool:
        """Return whether `partition`, of a context that passed `check`, is chosen."""


def _set_of(name: str, arguments: tuple[Any, ...]) -> frozenset[Any]:
    """Return the arguments of a selector as a set. Errors: UsageError if a list was passed instead of single values."""
    try:
        return frozenset(arguments)
    except TypeError:
        unhashable = next(argument for argument in arguments if not isinstance(argument, Hashable))
        raise UsageError(f"{name} takes values, not {unhashable!r}\n  hint: {name}(*{unhashable!r})") from None


@dataclass(frozen=True, slots=True)
class ById(Selector):
    """Partitions with one of these ids."""

    ids: frozenset[int]

    def __init__(self, *ids: int) -> None:
        object.__setattr__(self, "ids", _set_of("ById", ids))

    def chooses(self, partition: PartitionIdentity) -> bool:
        return partition.id in self.ids


class _ByKey(Selector):
    """A selector of the key on a context's only level."""

    kind: str

    @abstractmethod
    def check_keys(self, level: Any) -> None:
        """Check the selector's keys against the level.

        Errors: UsageError if no partition of the level can have such a key.
        """

    @abstractmethod
    def contains(self, key: Any) -> bool:
        """Return whether the selector contains this key."""

    def check(self, levels: NamedLevels) -> None:
        kinds = [level.kind for _, level in levels]
        if kinds != [self.kind]:
            hint = "; name the level: Nested(level=…)" if len(kinds) > 1 else ""
            fact = f"{type(self).__name__} is for {self.kind} contexts, this one is {' over '.join(kinds)}"
            raise UsageError(f"{fact}{hint}")
        self.check_keys(levels[0][1])

    def chooses(self, partition: PartitionIdentity) -> bool:
        return self.contains(partition.steps[0].key)


@dataclass(frozen=True, slots=True)
class ByKey(_ByKey):
    """Partitions of a keyed context with one of these keys; composite keys are tuples."""

    keys: tuple[tuple[Any, ...], ...]
    kind = "keyed"

    def __init__(self, *keys: Any) -> None:
        object.__setattr__(self, "keys", tuple(key if isinstance(key, tuple) else (key,) for key in keys))

    def check_keys(self, level: c.KeyedStreams | c.KeyedSpec) -> None:
        count = len(level.keyed_streams[0].keys)
        for key in self.keys:
            if len(key) != count:
                values = "1 value" if count == 1 else f"{count} values"
                raise UsageError(
                    f"keys of this context have {values}, found {len(key)}: {', '.join(map(repr, key))}\n"
                    "  hint: a key of several values is a tuple: ByKey((a, b))"
                )

    def contains(self, key: Any) -> bool:
        return key in self.keys


@dataclass(frozen=True, slots=True)
class ByHash(_ByKey):
    """Partitions of a hash context with one of these hashes modulo granularity."""

    hashes: frozenset[int]
    kind = "hash"

    def __init__(self, *hashes: int) -> None:
        object.__setattr__(self, "hashes", _set_of("ByHash", hashes))

    def check_keys(self, level: c.HashSpec) -> None:
        for number in self.hashes:
            if number not in range(level.granularity):
                raise UsageError(f"hashes of this context are 0 to {level.granularity - 1}, found {number!r}")

    def contains(self, key: Any) -> bool:
        return key in self.hashes


@dataclass(frozen=True, slots=True)
class ByCategory(_ByKey):
    """Partitions of a category context with one of these labels."""

    labels: frozenset[str]
    kind = "category"

    def __init__(self, *labels: str) -> None:
        object.__setattr__(self, "labels", _set_of("ByCategory", labels))

    def check_keys(self, level: c.CategorySpec) -> None:
        labels = [label for label, _ in level.categories]
        for label in self.labels:
            if label not in labels:
                hint = hint_line(label, labels) if isinstance(label, str) else ""
                available = ", ".join(map(repr, labels))
                raise UsageError(f"the context has no category {label!r}; there are {available}{hint}")

    def contains(self, key: Any) -> bool:
        return key in self.labels


@dataclass(frozen=True, slots=True)
class ByProperties(Selector):
    """Partitions for whose built-in properties (including id and name) a function returns a true value."""

    predicate: Callable[[Mapping[str, Any]], object]

    def __post_init__(self) -> None:
        if not callable(self.predicate):
            raise UsageError(f"ByProperties takes a function of the properties, not {self.predicate!r}")

    def chooses(self, partition: PartitionIdentity) -> bool:
        return bool(self.predicate(partition.properties))


@dataclass(frozen=True, slots=True)
class Nested(Selector):
    """Partitions of a nested context that the selectors of all named levels choose."""

    levels: Mapping[str, Selector]

    def __init__(self, levels: Mapping[str, Selector] | None = None, /, **named: Selector) -> None:
        if not isinstance(levels, Mapping | None):
            raise UsageError(f"Nested takes selectors by the names of levels, not {levels!r}: Nested(level=…)")
        selectors = {**(levels or {}), **named}
        for name, selector in selectors.items():
            if not isinstance(name, str) or not isinstance(selector, Selector):
                raise UsageError(f"Nested takes selectors by the names of levels, not {selector!r} by {name!r}")
        object.__setattr__(self, "levels", selectors)

    def check(self, levels: NamedLevels) -> None:
        specs = dict(levels)
        for name, selector in self.levels.items():
            if name not in specs:
                raise UsageError(f"the context has no level `{name}`{hint_line(name, specs)}")
            selector.check([(name, specs[name])])

    def chooses(self, partition: PartitionIdentity) -> bool:
        identities = {identity.name: identity for identity in partition.steps}
        choices = ((selector, identities[name]) for name, selector in self.levels.items())
        return all(
            selector.chooses(PartitionIdentity(partition.id, identity.properties, (identity,)))
            for selector, identity in choices
        )
