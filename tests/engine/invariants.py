"""Invariants of a runtime between two turns."""

from __future__ import annotations

from cepbook.engine.runtime import Runtime


def invariant_violations(runtime: Runtime) -> list[str]:
    """Return what is wrong between two turns; empty if all is well."""
    violations: list[str] = [] if runtime.turn.over else ["the last turn is not over"]
    for statement in runtime.statements.values():
        violations += [f"statement {statement.name}: {timer}" for timer in statement.timed.missing(runtime.now)]
        if statement.outlet.holding:
            violations.append(f"statement {statement.name} holds rows")
        if runtime.clock.at(statement.order) != statement.timed.due:
            violations.append(f"the clock does not know when {statement.name} is due")
    return violations
