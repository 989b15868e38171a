"""How an event comes to the inputs of a join: to the one that reads its type, or to several at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cepbook.engine.inner import ignoring_state
from cepbook.engine.patterns.running import Matching
from cepbook.engine.rows.compile import Program
from cepbook.engine.rows.steps import Match, Steps

Take = Callable[[Any, Any], object]  # (event, state)


def joined_taker(
    steps: Steps, program: Program, matchings: Mapping[int, Matching], types: Sequence[str], alone: bool
) -> Take | None:
    """What takes an event that is of all `types`, its own first; None if no input reads it.

    Inputs that read the type get the event together, then the patterns have it, input by input. `alone`: there is one
    state, which the generated functions know.
    """
    plain = [
        number
        for number, scan in enumerate(steps.scans)
        if not isinstance(scan, Match) and scan.source.store is None and scan.source.event_type in types
    ]
    takers = [take for take in (matching.taker(types) for matching in matchings.values()) if take is not None]
    if plain:
        takers.insert(0, _of_inputs(program, tuple(plain), alone))
    if len(takers) < 2:
        return takers[0] if takers else None

    def take(event: Any, state: Any) -> bool:
        taken = False
        for each in takers:
            taken = bool(each(event, state)) or taken
        return taken

    return take


def _of_inputs(program: Program, numbers: tuple[int, ...], alone: bool) -> Take:
    if len(numbers) == 1:
        function = program[f"on_event{numbers[0]}"]
        return ignoring_state(function) if alone else function
    several = program["on_events"]
    if alone:
        return lambda event, state: several(event, numbers)
    return lambda event, state: several(event, state, numbers)
