"""The program of a `match_recognize`: its automaton, generated functions and facts, shared by all states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cepbook.engine.recognize.row_aggregates import MatchRows, run_rows
from cepbook.engine.vectorized.recognition_form import RecognitionForm
from cepbook.engine.vectorized.row_automaton import RowAutomaton


class Transition(NamedTuple):
    """A transition to the position `target`, for `many` rows of `variable` or one.

    A match may end there (`ends`) and may continue (`goes`). `ahead` lists the variables whose rows later conditions
    read.
    """

    target: int
    variable: int
    many: bool
    ends: bool
    goes: bool
    ahead: tuple[int, ...]


class GuardedTransition(NamedTuple):
    """A transition with the condition that a row must meet as `variable`.

    The condition takes (row, rows before it, matched rows, state, time); None accepts any row. `of_row`: it does not
    read matched rows.
    """

    move: Transition
    variable: int
    condition: Callable[..., bool] | None
    of_row: bool


@dataclass(frozen=True, slots=True)
class RecognizeProgram:
    """The automaton, generated functions and facts that all states of one statement share.

    - `transitions` are those from each position; the last element has those that begin a match.
    - `alike` says for each position whether the transitions are the same for all matches there, because no condition
      reads matched rows.
    - `forks` has, for each position where a match may end, the first positions of the alternatives that follow.
    - `runs`: some variable is `many`. `variables` maps positions to variables.
    - `earliest`: of matches that share rows only the one that begins first is reported.
    - `bounded`: equivalent open matches with different beginnings are merged.
    - `settles`: the matches that begin within a complete one will not be reported, however long it waits.
    - `back` is the number of rows before the tested one that conditions read.
    - `admits` is the where clause, `key` returns the partition, `due` the end of the interval, `too_many` raises an
      error.
    - `leaves`: rows may leave while they are still needed.
    - `iterate_only`: matches are found for the iterator alone.
    - `waiting` describes the variables for users. `namespace` has the ports of the running statement, `listeners` are
      called with the rows of each match by variable.
    - `arrays` returns the form in which arrays evaluate the conditions, or the reason why they do not; `automaton`
      follows the rows then.
    """

    transitions: tuple[tuple[GuardedTransition, ...], ...]
    alike: tuple[bool, ...]
    forks: tuple[tuple[tuple[frozenset[int], ...], ...], ...]
    earliest: bool
    bounded: bool
    settles: bool
    names: tuple[str, ...]
    many: tuple[bool, ...]
    runs: bool
    variables: tuple[int, ...]
    back: int
    admits: Callable[[Any, Any, int], bool] | None
    key: Callable[[Any, Any, int], Any] | None
    measures: Callable[[MatchRows, Any, int], Any]
    due: Callable[[int, Any, int], int] | None
    too_many: Callable[[int], None]
    skip: str
    all_matches: bool
    or_terminated: bool
    leaves: bool
    iterate_only: bool
    waiting: tuple[str, ...]
    namespace: Mapping[str, Any]
    automaton: RowAutomaton
    arrays: Callable[[], RecognitionForm | str]
    listeners: list[Callable[[dict[str, Any]], object]] = field(default_factory=list)

    def failed(self, failure: Exception) -> None:
        """Report a failure of a user expression."""
        self.namespace["failed"](failure)

    @property
    def most(self) -> int:
        """The number of matches that may be open in one state."""
        limit: int = self.namespace["recognize_limit"]
        return limit

    def named(self, rows: MatchRows) -> dict[str, Any]:
        """Return the rows of a match by variable name; lists for variables of several rows."""
        pairs = zip(self.names, self.many, rows, strict=True)
        return {name: run_rows(cell) if many else cell for name, many, cell in pairs}

    def path(self, rows: MatchRows, order: Iterable[Any]) -> list[int]:
        """Return the variable of each row of a match. `order` has them in order of arrival, perhaps with others."""
        variables: dict[int, int] = {}
        for variable, cell in enumerate(rows):
            own = run_rows(cell) if type(cell) is tuple else None if cell is None else [cell]
            variables.update(dict.fromkeys(map(id, own or ()), variable))
        return [variables[id(row)] for row in order if id(row) in variables]

    def reaches(self, path: Sequence[int], position: int | None) -> bool:
        """Return whether a match with rows of these variables may go on as one at `position`, or may end if None."""
        moves = {guarded.move for guarded in self.transitions[-1] if guarded.variable == path[0]}
        for variable in path[1:]:
            following = [guarded for move in moves for guarded in self.transitions[move.target]]
            moves = {guarded.move for guarded in following if guarded.variable == variable}
        if position is None:
            return any(move.ends for move in moves)
        onward = set(self.transitions[position])
        return any(onward.issubset(self.transitions[move.target]) for move in moves)
