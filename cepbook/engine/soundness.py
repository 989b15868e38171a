"""What must hold between two rounds. Tests look at it after each; nothing else does."""

from __future__ import annotations

from cepbook.engine.runtime import Runtime


def invariant_violations(runtime: Runtime) -> list[str]:
    """What is not as it must be between two rounds; nothing, if all is well."""
    found: list[str] = [] if runtime.rounds.over else ["the last round is not over"]
    for statement in runtime.statements.values():
        found += [f"statement {statement.name}: {missing}" for missing in statement.timed.missing(runtime.now)]
        if statement.outlet.holding:
            found.append(f"statement {statement.name} holds rows")
        if runtime.clock.at(statement.order) != statement.timed.due:
            found.append(f"the clock does not know when {statement.name} is due")
    return found
