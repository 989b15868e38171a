"""On-triggers whose stream is one of contained events: what they do they do for each, in turn.

Only ``on … set`` assigns what the last of them says (recorded: ce_trigger). An event that contains none sets nothing
off.
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
    """The program of an on-trigger, which `compile_` makes of one whose events contain no others.

    Errors: Refusal for what the row engine cannot run.
    """
    if not statement.source.contained:
        return compile_(statement, scope_in)
    inner = replace(statement, source=replace(statement.source, filter=None, contained=()))
    last = isinstance(statement, p.OnSetStatement)
    return _for_contained(compile_(inner, scope_in), statement.source, scope_in, last)


def _for_contained(
    program: StatementProgram, trigger: p.SourceNode, scope_in: ScopeFactory, last: bool
) -> StatementProgram:
    """`program`, which takes contained events, for those of `trigger`."""
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
    each = inner["each"] = inner["on_event"]
    bound = {"each": program.bound["on_event"]}
    program.bound = {**{name: names for name, names in program.bound.items() if name not in _TAKERS}, **bound}

    def on_match(event: Any, *state: Any) -> bool:
        found = unfold(event, *(state or (None,)))
        for contained in (found or ())[-1:] if last else found or ():
            each(contained, *state)
        return True

    def on_event(event: Any, *state: Any) -> bool:
        return bool(passes(event, *(state or (None,)))) and on_match(event, *state)

    inner["on_event"], inner["on_match"] = on_event, on_match
    return program


_TAKERS = ("on_event", "on_match")
