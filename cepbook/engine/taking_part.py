"""Which statements take part in activations, and how."""

from __future__ import annotations

from cepbook.engine.activations.member import ActivationOwner
from cepbook.engine.activations.scheduler import ActivationScheduler
from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.delivery.outlet import DeliveryOutlet
from cepbook.engine.statements import buffered_input, cycle_member
from cepbook.engine.statements.statement_timers import StatementTimers


def activation_member(
    owner: ActivationOwner,
    outlet: DeliveryOutlet,
    program: StatementProgram,
    timers: StatementTimers,
    activations: ActivationScheduler,
) -> buffered_input.BufferedInput | cycle_member.CycleMember | None:
    """What takes events for `owner` and is run in activations; None where it acts on each event by itself."""
    if program.steps.cycles is not None:
        return cycle_member.CycleMember(owner, outlet, program.steps.cycles.plan, program, timers, activations)
    return buffered_input.BufferedInput(owner, program, timers, activations) if program.steps.lots else None
