"""The form of a pattern whose partial matches do not affect each other, so that arrays can find where each one ends.

::

    every a=A(x > 1) -> b=B(id = a.id) and not C(id = a.id) where timer:within(10 sec) -> d=D(…) …
    └── first ──────┘    └── step 1: the next B, unless C or the deadline is before ──┘    └── step 2 ──

Each event of the first atom starts a partial match. Each step waits for the next event of its atom, unless an event
that must be absent or a deadline comes first. A single step may wait for a time instead. An atom may compare its event
with the events before, for equality of properties or as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cepbook.engine.subscriptions.filter_index import IndexCondition
from cepbook.engine.vectorized.kernel_form import OutputForm


@dataclass(frozen=True, slots=True)
class ChainKey:
    """The equality of the property `name` with the property `other` of the event that step `step` has matched."""

    name: str
    step: int
    other: str


@dataclass(frozen=True, slots=True)
class ChainAtom:
    """Atom `number` of the pattern: an event of `event_type` that meets all `conditions`, equals events before it in
    `keys`, and meets the `comparisons` with them (``property`` is one of the event that arrives, ``matched`` one of an
    event before). `place` counts the atoms of its type from 0.

    Partial matches that wait for it with a `bound` become true in ascending order of the bound.
    """

    number: int
    event_type: str
    place: int
    conditions: tuple[IndexCondition, ...]
    keys: tuple[ChainKey, ...] = ()
    comparisons: tuple[OutputForm, ...] = ()
    bound: OutputForm | None = None


@dataclass(frozen=True, slots=True)
class ChainStep:
    """A step after the first: the next event of `atom`, or without an atom the time `interval` clock units later.

    An event of an atom in `absent` ends the partial match, also if it is an event of `atom`. So does a deadline: a step
    before, and a period in clock units that runs from the completion of that step. An event at its end is too late.
    """

    atom: ChainAtom | None
    interval: int
    absent: tuple[ChainAtom, ...]
    deadlines: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ChainForm:
    """A chain. `steps` begin with number 1; the event of `first` is that of step 0.

    `tags` maps each tag of a match to the step whose event it has; None for a tag that stays without an event.
    """

    first: ChainAtom
    steps: tuple[ChainStep, ...]
    tags: Mapping[str, int | None]

    @property
    def atoms(self) -> tuple[ChainAtom, ...]:
        """All atoms, the first one first."""
        later = (atom for step in self.steps for atom in (*step.absent, *(() if step.atom is None else (step.atom,))))
        return self.first, *later

    @property
    def event_types(self) -> tuple[str, ...]:
        """The event types of the atoms, without repetition."""
        return tuple(dict.fromkeys(atom.event_type for atom in self.atoms))

    def atom_of(self, step: int) -> ChainAtom:
        """Return the atom whose event a step has matched."""
        atom = self.steps[step - 1].atom if step else self.first
        assert atom is not None
        return atom

    @property
    def timed(self) -> bool:
        """True if it has deadlines or a timer."""
        return self.has_timer or any(step.deadlines for step in self.steps)

    @property
    def has_timer(self) -> bool:
        """True if it waits for a time."""
        return any(step.atom is None for step in self.steps)

    @property
    def nodes(self) -> int:
        """The number of state nodes that wait for an event or a time in one partial match, at most."""
        return max(1 + len(step.absent) for step in self.steps)


# A match with its sort key: for each step, the last one first, the bound of the atom, if it has one, and the row of the
# event before.
ChainMatch = tuple[tuple[float, ...], dict[str, Any]]


class ChainStimulus(NamedTuple):
    """An event, or the time of a `timer`, at which the pattern has something to do.

    `row` is that of the event, or the first one behind the timer. State nodes get the `event` for the atoms of its type
    that have a bit, by place, in `bits`; it is None if there are none. The `matches` of other partial matches are
    delivered, too.
    """

    timer: bool
    row: int
    time: int
    event_type: str
    event: dict[str, Any] | None
    bits: int
    matches: Sequence[ChainMatch]
