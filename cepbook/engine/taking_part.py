"""Which statements take part in activations, and how."""

from __future__ import annotations

from cepbook.engine import lots
from cepbook.engine.activation import Activations
from cepbook.engine.cycles import running
from cepbook.engine.rows.compile import Program
from cepbook.engine.schedule import Schedule


def taking_part(
    owner: running.Delivering, program: Program, timers: Schedule, activations: Activations
) -> lots.Lots | running.Cycling | None:
    """What takes events for `owner` and is run in activations; None where it acts on each event by itself."""
    if program.steps.cycles is not None:
        return running.Cycling(owner, program.steps.cycles.plan, program, timers, activations)
    return lots.Lots(owner, program, timers, activations) if program.steps.lots else None
