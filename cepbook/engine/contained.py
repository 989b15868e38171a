"""On-triggers whose stream is one of contained events: what they do they do for each, in turn.

Only ``on … set`` assigns what the last of them says (recorded: ce_trigger). An event that contains none sets nothing
off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.compile import Program
from cepbook.engine.rows.expr import ScopeIn
from cepbook.engine.rows.source import Source
from cepbook.engine.rows.steps import Scan
from cepbook.engine.rows.unfold import write_unfold
from cepbook.lang import plan as p

_Trigger = TypeVar("_Trigger", p.OnSetStatement, p.SplitStatement, p.MergeStatement)


def compile_trigger(
    compile_: Callable[[_Trigger, ScopeIn], Program], statement: _Trigger, scope_in: ScopeIn
) -> Program:
    """The program of an on-trigger, which `compile_` makes of one whose events contain no others.

    Errors: Refusal for what the row engine cannot run.
    """
    if not statement.source.contained:
        return compile_(statement, scope_in)
    inner = replace(statement, source=replace(statement.source, filter=None, contained=()))
    last = isinstance(statement, p.OnSetStatement)
    return _for_contained(compile_(inner, scope_in), statement.source, scope_in, last)


def _for_contained(program: Program, trigger: p.Source, scope_in: ScopeIn, last: bool) -> Program:
    """`program`, which takes contained events, for those of `trigger`."""
    program.steps.scan = Scan(trigger)
    source = Source()
    scope = scope_in(source)
    write_unfold(trigger.contained, scope, "unfold")
    with source.block("def passes(e, S):"):
        if trigger.filter is None:
            source.line("return True")
        else:
            props = {n: f"e.get({source.const(n, 'n')})" for n in lower.properties(trigger.filter)}
            seen = scope.at(props=lower.placed(props), events={0: "e"})
            source.line(f"return {lower.passes(seen, trigger.filter)}", trigger.filter.span)
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
