"""The matchers of one statement: events and timers go in, matches go to the statement's rows.

Each state of the statement has a matcher. All rows from the matches of one event (or one instant)
form one delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, TypedDict

from cepbook.engine.patterns.matcher import Matcher, PatternProgram
from cepbook.engine.patterns.state_node import PatternOwner
from cepbook.engine.time.clock import NEVER, Clock
from cepbook.engine.vectorized.chain_form import ChainForm, ChainMatch, ChainStimulus
from cepbook.engine.vectorized.column_batch import ColumnBatch

TakeMatch = Callable[[Any, Any], object]  # (match or event, state)
_BEFORE: tuple[float, ...] = (-1,)  # the sort key of a partial match that began before the batch


class PartialsSummary(TypedDict):
    """Plain data about partial matches: the number of all, and the first of them."""

    total: int
    rows: list[dict[str, Any]]


class FollowedBatch(NamedTuple):
    """The stimuli of a batch in order, and the function that handles each of them."""

    stimuli: Sequence[ChainStimulus]
    take: Callable[[ChainStimulus], object]


class StatementPattern(PatternOwner):
    """The pattern of a statement, beside the statement's program.

    `take` handles one match in a state; `taken` is called after all matches of one stimulus. ``arm(due, state)``
    arranges a call of `advance`. `failed` receives failures; `partials_limit_reached` is called once when a state has
    `limit` partial matches. `at` is the input of a join whose events are the matches; the matcher is in
    the state of that input.
    """

    SAVED = ("_limit_reported",)

    def __init__(
        self,
        program: PatternProgram,
        clock: Clock,
        arm: Callable[[int, Any], None],
        take: TakeMatch,
        failed: Callable[[Exception], None],
        limit: int,
        partials_limit_reached: Callable[[], None],
        at: int | None = None,
        taken: Callable[[Any], object] | None = None,
    ) -> None:
        self.program = program
        self.at = at
        self._clock = clock
        self._alarm = arm
        self._take = self._handle = take
        self._failed = failed
        self._limit = limit
        self._report_limit = partials_limit_reached
        self._limit_reported = False
        self._taken = taken
        self._scheduled: dict[int, Sequence[ChainMatch]] = {}  # matches that timers of a batch complete, by time

    def failed(self, failure: Exception) -> None:
        self._failed(failure)

    def partials_limit_reached(self) -> None:
        """Report, once, that a state has reached the limit of partial matches."""
        if not self._limit_reported:
            self._limit_reported = True
            self._report_limit()

    def _own(self, state: Any) -> Any:
        return state if self.at is None else state.view.states[self.at]

    def matcher(self, state: Any) -> Matcher:
        matcher: Matcher = self._own(state).matcher
        return matcher

    def add(self, state: Any) -> None:
        """Start a matcher in a new state. Immediate matches wait for `begun`."""
        matcher = Matcher(self.program, self, partition=state.partition, limit=self._limit)
        self._own(state).matcher = matcher
        matcher.completed = matcher.start(self._clock.now)
        self._arm(matcher, state)

    def begun(self, state: Any) -> None:
        """Deliver the immediate matches of a new state."""
        matcher = self.matcher(state)
        matches, matcher.completed = matcher.completed, []
        if matches:
            self._deliver(matches, state)

    def begun_in_partition(self, _event: Any, state: Any) -> bool:
        """Deliver the immediate matches of a new state in a new context partition."""
        self.begun(state)
        return False

    def watch(self, listeners: Sequence[Callable[[Any], object]]) -> None:
        """Call `listeners` with each match before it is handled."""
        handle = self._handle

        def notify(match: Any, state: Any) -> object:
            for listener in listeners:
                listener(match)
            return handle(match, state)

        self._take = notify if listeners else handle

    def end(self, state: Any) -> None:
        """Drop the partial matches of a state whose context partition ended."""
        self.matcher(state).stop()

    def taker(self, types: Sequence[str], known: Any = None) -> TakeMatch | None:
        """Return the function (event, state) that takes events which are of all `types`, their own type first; None if
        no atom is for them.

        The function needs no state if it is `known`.
        """
        route = self.program.route(types)
        if not route:
            return None
        clock, at = self._clock, self.at

        def take(event: Any, state: Any = known, bits: int | None = None) -> bool:
            matcher: Matcher = state.matcher if at is None else state.view.states[at].matcher
            hits = matcher.candidates(route, event, clock.now, bits)
            if not hits and not matcher.completed:
                return False
            matches = matcher.fire(hits, event)
            if matches:
                self._deliver(matches, state)
            if matcher.timers.due < matcher.armed:
                self._arm(matcher, state)
            return bool(hits)

        entry = route[0].entry if len(route) == 1 else None
        return take if entry is None else entry(known, clock, take)

    @cached_property
    def chain(self) -> ChainForm | str:
        """The form in which arrays follow partial matches, or the reason why they cannot."""
        return self.program.chain()

    def follow(self, batches: Mapping[str, ColumnBatch], last: int, state: Any) -> FollowedBatch | None:
        """Let arrays follow the partial matches that begin in batches of events, by type of their atoms, which end at
        time `last`. Return the stimuli that are left; None if arrays cannot follow them.
        """
        chain, matcher = self.chain, self.matcher(state)
        if isinstance(chain, str) or not matcher.atoms[chain.first.number].index:
            return None
        from cepbook.engine.vectorized.chain_matches import chain_stimuli

        awaited = _awaited(chain, matcher, sum(len(batch.times) for batch in batches.values()))
        room = matcher.limit - chain.nodes * matcher.size  # later steps of these may have more nodes
        stimuli = chain_stimuli(chain, batches, (self._clock.now, last), awaited, room)
        if stimuli is None:
            return None
        self._scheduled = {stimulus.time: stimulus.matches for stimulus in stimuli if stimulus.timer}
        routes, clock = {name: self.program.route([name]) for name in chain.event_types}, self._clock
        began: dict[int, tuple[float, ...]] = {}  # by serial of state nodes, as the sort keys of matches
        several = len(chain.steps) > 1

        def take(stimulus: ChainStimulus) -> None:
            matches = self._scheduled.pop(stimulus.time, ()) if stimulus.timer else stimulus.matches
            if stimulus.event is not None:
                own: list[ChainMatch] = []
                route = routes[stimulus.event_type]
                for waiter in matcher.candidates(route, stimulus.event, clock.now, stimulus.bits):
                    key, serial = began.get(waiter.serial, _BEFORE), matcher.serial
                    key = key if waiter.bound is None else (waiter.bound, *key)
                    own += [(key, match) for match in matcher.fire([waiter], stimulus.event)]
                    if several:
                        began.update(dict.fromkeys(range(serial + 1, matcher.serial + 1), (stimulus.row, *key)))
                matches = sorted([*own, *matches], key=itemgetter(0)) if own else matches
            self._deliver([match for _, match in matches], state)
            if matcher.timers.due < matcher.armed:
                self._arm(matcher, state)

        return FollowedBatch(stimuli, take)

    def _deliver(self, matches: Sequence[dict[str, Any]], state: Any) -> None:
        for match in matches:
            try:
                self._take(match, state)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self._failed(failure)
        if self._taken is not None and matches:
            try:
                self._taken(state)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self._failed(failure)

    def _arm(self, matcher: Matcher, state: Any) -> None:
        due = self._due_of(matcher)
        if due < matcher.armed:
            matcher.armed = due
            self._alarm(due, state)

    def due(self, state: Any) -> int:
        """Return the time at which `advance` must be called; NEVER if there is none."""
        return self._due_of(self.matcher(state))

    def _due_of(self, matcher: Matcher) -> int:
        return min(self._clock.now, matcher.due) if matcher.completed else matcher.due

    def advance(self, state: Any, now: int) -> None:
        matcher = self.matcher(state)
        matcher.armed = NEVER
        self._deliver([*matcher.advance(now), *(match for _, match in self._scheduled.pop(now, ()))], state)
        self._arm(matcher, state)

    def skip_due(self, state: Any, now: int) -> None:
        """Skip the due timers of a state; later ones stay."""
        matcher = self.matcher(state)
        matcher.skip_due(now)
        matcher.armed = NEVER
        self._arm(matcher, state)

    def inspect(self, state: Any, most: int) -> PartialsSummary:
        """Return plain data about the partial matches of a state: the total and the first `most`."""
        matcher = self.matcher(state)
        return {"total": matcher.size, "rows": matcher.partials(most) if most else []}


def merge_partials(partials: Sequence[PartialsSummary]) -> PartialsSummary:
    """Return the partial matches of several patterns as one list."""
    return {
        "total": sum(pattern["total"] for pattern in partials),
        "rows": [row for pattern in partials for row in pattern["rows"]],
    }


def _awaited(chain: ChainForm, matcher: Matcher, events: int) -> dict[int, list[list[Any]] | None]:
    """Return the atoms after the first one for which a matcher waits, or will, each with the matches after which it
    does. None if any event of the atom may concern it: partial matches may come to it from the steps before, or there
    are too many for a batch of so many `events`.
    """
    if matcher.size == 1:
        return {}  # only the first atom waits
    indexes = {atom.number: matcher.atoms[atom.number].index for atom in chain.atoms[1:]}
    if len(chain.steps) > 1 or matcher.size > events:
        return dict.fromkeys(indexes)
    return {number: [waiter.begin for waiter in index] for number, index in indexes.items() if index}
