"""The matchers of one statement: events and timers in, matches to the statement's rows.

Each state of the statement has its matcher as its last part. All rows that the matches of one event (or one instant)
make are one delivery, which the runtime's rounds see to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cepbook.engine.patterns.matcher import Matcher, PatternProgram
from cepbook.engine.patterns.state_node import PatternOwner
from cepbook.engine.time.clock import NEVER, Clock

TakeMatch = Callable[[Any, Any], object]  # (match or event, state)


class StatementPattern(PatternOwner):
    """What a statement over a pattern has beside its program.

    `take` handles one match in a state, `taken` is called when all of one stimulus were. ``arm(due, state)`` sees to it
    that `advance` is called; `failed` is told of failures, `partials_limit_reached` once when a state has `limit`
    partial matches.
    `at` is the input of a join whose events are the matches; the matcher is the last part of the state of that input.
    """

    SAVED = ("_told",)

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
        self._tell = partials_limit_reached
        self._told = False
        self._taken = taken

    def failed(self, failure: Exception) -> None:
        """An expression of the pattern failed."""
        self._failed(failure)

    def partials_limit_reached(self) -> None:
        """A state has as many partial matches as there may be: tell it once."""
        if not self._told:
            self._told = True
            self._tell()

    # -------------------------------------------------------------- life
    def _own(self, state: Any) -> Any:
        return state if self.at is None else state[1].states[self.at]

    def matcher(self, state: Any) -> Matcher:
        """The matcher of a state."""
        found: Matcher = state[-1] if self.at is None else state[1].states[self.at][-1]
        return found

    def add(self, state: Any) -> None:
        """Start a matcher in a new state. What matches at once waits for `begun`."""
        matcher = Matcher(self.program, self, partition=state[0], limit=self._limit)
        self._own(state).append(matcher)
        matcher.found = matcher.start(self._clock.now)
        self._arm(matcher, state)

    def begun(self, state: Any) -> None:
        """`state` is there: what matched at once happens now; at deployment nobody listens yet."""
        matcher = self.matcher(state)
        matches, matcher.found = matcher.found, []
        if matches:
            self._deliver(matches, state)

    def begun_in_partition(self, _event: Any, state: Any) -> bool:
        """The same of a state in a new context partition."""
        self.begun(state)
        return False

    def watch(self, listeners: Sequence[Callable[[Any], object]]) -> None:
        """Tell `listeners` of each match before it is handled. Without any nothing is paid."""
        handle = self._handle

        def tell(match: Any, state: Any) -> object:
            for listener in listeners:
                listener(match)
            return handle(match, state)

        self._take = tell if listeners else handle

    def end(self, state: Any) -> None:
        """The context partition of `state` ended: forget its partial matches."""
        self.matcher(state).stop()

    # -------------------------------------------------------------- events
    def taker(self, types: Sequence[str], known: Any = None) -> TakeMatch | None:
        """What takes an event that is of all `types`, its own first; None if no atom is for it.

        A state that is `known` need not be told.
        """
        route = self.program.route(types)
        if not route:
            return None
        clock, at = self._clock, self.at
        select = route[0].select if len(route) == 1 else None

        def take(event: Any, state: Any = known) -> bool:
            matcher: Matcher = state[-1] if at is None else state[1].states[at][-1]
            bits = None
            if select is not None and not matcher.found:
                try:
                    bits = select(event, matcher.partition, clock.now)
                except Exception:  # noqa: BLE001 - `look` tells of it, if an atom waits
                    bits = None
                if bits == 0:
                    return False  # most events are for no atom
            hits = matcher.look(route, event, clock.now, bits)
            if not hits and not matcher.found:
                return False
            matches = matcher.fire(hits, event)
            if matches:
                self._deliver(matches, state)
            if matcher.timers.due < matcher.armed:
                self._arm(matcher, state)
            return bool(hits)

        return take

    def _deliver(self, matches: list[dict[str, Any]], state: Any) -> None:
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

    # -------------------------------------------------------------- time
    def _arm(self, matcher: Matcher, state: Any) -> None:
        due = self._due_of(matcher)
        if due < matcher.armed:
            matcher.armed = due
            self._alarm(due, state)

    def due(self, state: Any) -> int:
        """When `advance` must be called; NEVER if nothing is to happen."""
        return self._due_of(self.matcher(state))

    def _due_of(self, matcher: Matcher) -> int:
        return min(self._clock.now, matcher.due) if matcher.found else matcher.due

    def advance(self, state: Any, now: int) -> None:
        """Run the timers of a state that are due."""
        matcher = self.matcher(state)
        matcher.armed = NEVER
        self._deliver(matcher.advance(now), state)
        self._arm(matcher, state)

    def lose(self, state: Any, now: int) -> None:
        """Timers that are due are not run; those after them are."""
        matcher = self.matcher(state)
        matcher.lose(now)
        matcher.armed = NEVER
        self._arm(matcher, state)

    def inspect(self, state: Any, most: int) -> dict[str, Any]:
        """Plain data about the partial matches of a state: how many, and the first `most` of them."""
        matcher = self.matcher(state)
        return {"total": matcher.size, "rows": matcher.partials(most) if most else []}


def merge_partials(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The partial matches of several patterns as one list."""
    return {"total": sum(each["total"] for each in found), "rows": [row for each in found for row in each["rows"]]}
