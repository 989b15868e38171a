"""On-triggers over contained events: the trigger acts once for each of them, in order.

Only `on … set` assigns the values of the last one (recorded: ce_trigger). An event that contains none triggers nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import ScopeFactory
from cepbook.engine.fragments.unnest import write_unnest
from cepbook.engine.physical.operators import ScanOperator
from cepbook.lang.plan import nodes as p

_Trigger = TypeVar("_Trigger", p.OnSetStatement, p.SplitStatement, p.MergeStatement)


def compile_trigger(
    compile_: Callable[[_Trigger, ScopeFactory], StatementProgram], statement: _Trigger, scope_in: ScopeFactory
) -> StatementProgram:
    """Compile an on-trigger; `compile_` does so for a trigger without contained events. Errors: Refusal."""
    if not statement.source.contained:
        return compile_(statement, scope_in)
    inner = replace(statement, source=replace(statement.source, filter=None, contained=()))
    return _for_contained(compile_(inner, scope_in), statement.source, scope_in, statement.last_only)


def _for_contained(
    program: StatementProgram, trigger: p.SourceNode, scope_in: ScopeFactory, last: bool
) -> StatementProgram:
    """Return `program`, which takes contained events, so that it takes the events of `trigger`."""
    program.steps.scan = ScanOperator(trigger)
    source = SourceWriter()
    scope = scope_in(source)
    write_unnest(trigger.contained, scope, "unfold")
    with source.block("def passes(e, S):"):
        if trigger.filter is None:
            source.line("return True")
        else:
            props = {n: f"e.get({source.const(n, 'n')})" for n in lower.property_names(trigger.filter)}
            seen = scope.at(props=lower.property_codes(props), events={0: "e"})
            source.line(f"return {lower.filter_condition(seen, trigger.filter)}", trigger.filter.span)
    outer, inner = source.load(), program.namespace
    unfold, passes = outer["unfold"], outer["passes"]
    take_contained = inner["each"] = program.functions.on_event
    bound = {"each": program.bound["on_event"]}
    program.bound = {**{name: names for name, names in program.bound.items() if name not in _TAKERS}, **bound}

    def on_match(event: Any, *state: Any) -> bool:
        contained_events = unfold(event, *(state or (None,)))
        for contained in (contained_events or ())[-1:] if last else contained_events or ():
            take_contained(contained, *state)
        return True

    def on_event(event: Any, *state: Any) -> bool:
        return bool(passes(event, *(state or (None,)))) and on_match(event, *state)

    inner["on_event"] = program.functions.on_event = on_event
    inner["on_match"] = program.functions.on_match = on_match
    return program


_TAKERS = ("on_event", "on_match")
