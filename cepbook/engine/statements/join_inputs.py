"""Dispatch of an event to the inputs of a join: to the one that reads its type, or to several at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.patterns.statement_pattern import StatementPattern
from cepbook.engine.physical.operators import PatternOperator
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.statements.subquery_inputs import ignore_state

Take = Callable[[Any, Any], object]  # (event, state)


def join_handler(
    steps: PhysicalPlan,
    program: StatementProgram,
    matchings: Mapping[int, StatementPattern],
    types: Sequence[str],
    alone: bool,
) -> Take | None:
    """Return the function that takes an event of all `types` (its own first), or None if no input reads it.

    All inputs that read the type get the event together, then the patterns, input by input. `alone`: there is one
    state, which the generated functions know.
    """
    plain = [
        number
        for number, scan in enumerate(steps.scans)
        if not isinstance(scan, PatternOperator) and scan.source.store is None and scan.source.event_type in types
    ]
    takers = [take for take in (matching.taker(types) for matching in matchings.values()) if take is not None]
    if plain:
        takers.insert(0, _of_inputs(program, tuple(plain), alone))
    if len(takers) < 2:
        return takers[0] if takers else None

    def take(event: Any, state: Any) -> bool:
        taken = False
        for taker in takers:
            taken = bool(taker(event, state)) or taken
        return taken

    return take


def _of_inputs(program: StatementProgram, numbers: tuple[int, ...], alone: bool) -> Take:
    if len(numbers) == 1:
        function = program.functions.on_event_of[numbers[0]]
        return ignore_state(function) if alone else function
    several = program.functions.on_events
    if alone:
        return lambda event, state: several(event, numbers)
    return lambda event, state: several(event, state, numbers)
