"""Key requirements: the rows of a statement that must have equal keys when keys divide events among tasks.

Clauses answer by a `KeyRequirement`, and the requirement of a statement is the sum of those of its clauses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cepbook.lang.plan.expressions import BoundExpr, equality_sides

KeyColumns = tuple[str, frozenset[str]]  # of a type or store; one of the columns must hold the key
KeyChoice = tuple[KeyColumns, ...]  # all of them


@dataclass(frozen=True, slots=True)
class KeyRequirement:
    """A conjunction of alternatives: of each of `choices` one choice must hold the key.

    Without `choices` each event is evaluated by itself. With a `reason` no key divides the rows.
    """

    choices: tuple[tuple[KeyChoice, ...], ...] = ()
    reason: str = ""

    def __add__(self, other: KeyRequirement) -> KeyRequirement:
        """Require both. Of two reasons the first remains."""
        if self.reason or other.reason:
            return self if self.reason else other
        return KeyRequirement(self.choices + other.choices)

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns of a single type that may hold the key; None if all may."""
        sides = (side for choices in self.choices for choice in choices for side in choice)
        return next((columns for _, columns in sides), None)


NO_REQUIREMENT = KeyRequirement()


def one_of(choices: Iterable[KeyChoice], reason: str) -> KeyRequirement:
    """Require one of `choices`; without any the `reason` is why no key divides the rows."""
    choices = tuple(choices)
    return KeyRequirement((choices,)) if choices else KeyRequirement(reason=reason)


def equal_columns(name: str, columns: frozenset[str], reason: str) -> KeyRequirement:
    """Require that rows of a type or store that agree in one of `columns` reach the same task."""
    return one_of([((name, columns),)] if columns else [], reason)


def plain_key_properties(keys: Iterable[BoundExpr]) -> frozenset[str]:
    """Return the keys that are properties by whose values Spark and the engine divide events alike."""
    return frozenset(prop.name for key in keys if (prop := key.key_property) is not None)


def equal_properties(conditions: Iterable[BoundExpr], count: int) -> list[list[frozenset[str]]]:
    """Return the groups of properties that are equal in all rows of `count` streams, each group by stream.

    Groups that lack a stream are left out.
    """
    sets: list[set[tuple[int, str]]] = []
    for condition in conditions:
        pair = [prop for side, _ in equality_sides(condition) if (prop := side.key_property) is not None]
        if len(pair) < 2 or pair[0].type != pair[1].type or max(e.stream for e in pair) >= count:
            continue
        equal = {(e.stream, e.name) for e in pair}
        joined = [group for group in sets if group & equal]
        sets = [group for group in sets if not group & equal] + [equal.union(*joined)]
    groups = [[frozenset(name for stream, name in group if stream == i) for i in range(count)] for group in sets]
    return [group for group in groups if all(group)]


def equality_choices(conditions: Iterable[BoundExpr], types: Sequence[str]) -> list[KeyChoice]:
    """Return the choices of properties that `conditions` equate across all the streams of `types`."""
    return [tuple(zip(types, group, strict=True)) for group in equal_properties(conditions, len(types))]
