"""The automaton of `match_recognize` made deterministic, for conditions that read no rows of the match.

Then the variables that accept a row decide to which positions the open matches of its partition move, and a partition
is in one of few states. States and their transitions are made when rows first need them::

    pattern (X D U), X without a condition

                        accepted: X      X, D          X, U
    state  (open at)  ────────────────────────────────────────────────────
    ()                     (X)           (X)           (X)
    (X)                    (X)           (D, X)        (X)
    (D, X)                 (X)           (D, X)        (): a match is complete
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# in place of the number of an open match
BEGUN = -1  # the match begins with the row
INCOMPLETE = -2  # the row completes no match
UNKNOWN = -1  # in place of the number of a state that was not needed yet
_MOST_STATES = 500
_MOST_MATCHES = 64  # that are open in one state


class TooManyStates(Exception):
    """Rows lead to ever more states, so that they cost more than they save."""


class RowState(NamedTuple):
    """The open matches of a partition, and how the latest row has made them.

    - `positions` has the position of each open match in the order of preference, `parents` the number of each in the
      state before.
    - `completed` is the number, in the state before, of the match that the row completes; `variable` is that of the
      row.
    """

    positions: tuple[int, ...]
    parents: tuple[int, ...] = ()
    completed: int = INCOMPLETE
    variable: int = 0


class RowAutomaton:
    """The states of one statement by number. `table` has by state, and by the variables that accept the next row, as
    bits, the state behind it.

    `moves` has from each position, last from the beginning of a match, the positions that may follow, and whether a
    match may end there. `variables` has that of each position, among `count` variables.
    """

    def __init__(self, moves: Sequence[Sequence[tuple[int, bool]]], variables: Sequence[int], count: int) -> None:
        self.states: list[RowState] = []
        self.table: list[list[int]] = []
        self.variables = variables
        self._moves = moves
        self._numbers: dict[RowState, int] = {}
        self._width = 2**count
        self.full = False  # rows have led to too many states

    def number(self, state: RowState) -> int:
        """Return the number of a state. Raise `TooManyStates` if it would be one too many."""
        if state not in self._numbers:
            if len(self.states) == _MOST_STATES or len(state.positions) > _MOST_MATCHES:
                self.full = True
                raise TooManyStates
            self._numbers[state] = len(self.states)
            self.states.append(state)
            self.table.append([UNKNOWN] * self._width)
        return self._numbers[state]

    def extend(self, number: int, accepted: int) -> int:
        """Put the state that follows a state into the table, and return it. The first match that moves to a position
        keeps it, and the first one that is complete ends all others.
        """
        following = self.table[number][accepted] = self.number(self._after(self.states[number].positions, accepted))
        return following

    def _after(self, positions: Sequence[int], accepted: int) -> RowState:
        parents: dict[int, int] = {}
        for match, position in [*enumerate(positions), (BEGUN, -1)]:
            for target, ends in self._moves[position]:
                variable = self.variables[target]
                if target in parents or not accepted >> variable & 1:
                    continue
                if ends:
                    return RowState((), (), match, variable)
                parents[target] = match
        return RowState(tuple(parents), tuple(parents.values()))
