"""Dispatch of an event to the inputs of a join: to the one that reads its type, or to several at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from cepbook.engine.codegen.program import ProgramFunctions, StatementProgram
from cepbook.engine.patterns.statement_pattern import StatementPattern
from cepbook.engine.physical.operators import PatternOperator
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.statements.subquery_inputs import ignore_state

Take = Callable[[Any, Any], object]  # (event, state)


class JoinArrivals:
    """The events and matches of one stimulus, by input of a join. They enter all inputs before combinations are made.

    `add` and `enter` handle the matches of a pattern: each of them, and their end. `collect` waits for the matches of
    all patterns that an event completes.
    """

    def __init__(self, functions: ProgramFunctions, alone: bool) -> None:
        self._functions, self._alone = functions, alone
        self._arrivals: list[tuple[int, Any]] = []
        self._collecting = False

    def add(self, number: int, match: Any, _state: Any) -> None:
        """Keep a match until `enter`."""
        self._arrivals.append((number, match))

    def enter(self, state: Any) -> object:
        """Let the arrivals enter the join together, unless more are being collected."""
        if self._collecting or not self._arrivals:
            return False
        arrivals, self._arrivals = sorted(self._arrivals, key=itemgetter(0)), []
        if len(arrivals) == 1:
            number, event = arrivals[0]
            function = self._functions.on_event_of[number]
            return function(event) if self._alone else function(event, state)
        several = self._functions.on_events
        return several(None, arrivals) if self._alone else several(None, state, arrivals)

    def collect(self, plain: Sequence[int], takers: Sequence[Take], event: Any, state: Any) -> bool:
        """Let an event enter the inputs `plain`, with the matches that it completes by `takers`."""
        taken, self._collecting = False, True
        self._arrivals += [(number, event) for number in plain]
        try:
            for taker in takers:
                taken = bool(taker(event, state)) or taken
        finally:
            self._collecting = False
            taken = bool(self.enter(state)) or taken
        return taken


def join_handler(
    steps: PhysicalPlan,
    program: StatementProgram,
    matchings: Mapping[int, StatementPattern],
    arrivals: JoinArrivals,
    types: Sequence[str],
) -> Take | None:
    """Return the function that takes an event of all `types` (its own first), or None if no input reads it."""
    plain = [
        number
        for number, scan in enumerate(steps.scans)
        if not isinstance(scan, PatternOperator) and scan.source.store is None and scan.source.event_type in types
    ]
    takers = [take for take in (matching.taker(types) for matching in matchings.values()) if take is not None]
    if not plain and len(takers) < 2:
        return takers[0] if takers else None
    if not takers and (len(plain) == 1 or not steps.reads_pattern):
        return _of_inputs(program, tuple(plain), steps.context is None)
    return lambda event, state: arrivals.collect(plain, takers, event, state)


def _of_inputs(program: StatementProgram, numbers: tuple[int, ...], alone: bool) -> Take:
    if len(numbers) == 1:
        function = program.functions.on_event_of[numbers[0]]
        return ignore_state(function) if alone else function
    several = program.functions.on_events
    if alone:
        return lambda event, state: several(event, numbers)
    return lambda event, state: several(event, state, numbers)
