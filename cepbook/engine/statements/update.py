"""`update istream` as a running statement: its function `update` returns the event as other statements see it.

All assignments see the original event. Variables are read as of the previous event of the stream, because the reference
applies updates before it processes an event (recorded: su_update_variable_version).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.assignments import updated_copy_code
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope, ScopeFactory
from cepbook.engine.fragments.codegen_context import write_state
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.statements.on_set import statement_program
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.subscriptions.filter_index import EventHandler
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p


def compile_update(plan: p.UpdateStatement, scope_in: ScopeFactory) -> StatementProgram:
    """Compile a statement that changes events. Errors: Refusal."""
    source = SourceWriter()
    values = [e for change in plan.changes for e in (*change.path, change.value)]
    read = lower.property_names(plan.predicate, *values)
    names = list(dict.fromkeys((*read, *(c.name for c in plan.changes if c.path))))
    props = {name: f"p{i}" for i, name in enumerate(names)}
    variables = list(dict.fromkeys(read.name for read in x.find(x.VariableRead, plan.predicate, *values)))
    seen = {name: f"s{i}" for i, name in enumerate(variables)}
    scope = scope_in(source).at(props=lower.property_codes(props), events={0: "e"}, assigned=seen)
    present = f"({''.join(f'{lower.current_variable(scope, name)}, ' for name in variables)})"
    with source.block("def on_event(e, S=None):"):
        source.line("return False")
    source.line("on_match = on_event")
    with source.function("update", ["e"], ["S"]):
        if seen:
            former_values = "S.slots[0]"
            source.line(f"{', '.join(seen.values())}, = {former_values}")
            source.line(f"{former_values} = {present}")
        for name, local in props.items():
            source.line(f"{local} = e.get({source.const(name, 'n')})")
        if plan.predicate is None:
            _change(plan, props, scope)
        else:
            with source.block(f"if {lower.truth(scope, plan.predicate)}:", plan.predicate.span):
                _change(plan, props, scope)
            source.line("return e")
    write_state(source, StatementState, "[]", (present,), subqueries=scope.subqueries)
    program = statement_program(plan, source, tuple(names))
    program.row_columns = None
    return program


def _change(plan: p.UpdateStatement, props: dict[str, str], scope: CodeScope) -> None:
    source = scope.source
    if plan.drop:
        source.line("return None")
        return
    assigned: dict[str, str] = {}  # several assignments may change elements of one property
    for change in plan.changes:
        code = lower.value(scope, change.value)
        if change.path:
            code = updated_copy_code(assigned.get(change.name, props[change.name]), change, code, scope)
        assigned[change.name] = f"{source.part(change.span)}{code}"
    columns = [f"{source.const(name, 'n')}: {code}" for name, code in assigned.items()]
    source.line(f"changed = {{**e, {', '.join(columns)}}}", plan.span)
    with source.block("if push:"):
        source.line("push(clock.now, [changed], [e])")
    source.line("return changed")


def combine_updates(statements: Sequence[RunningStatement]) -> Callable[[Any], Any] | None:
    """Return a function that passes an event through the updates, lowest priority first; None without updates.

    An update that fails changes nothing. The function returns None for an event that `@Drop` drops.
    """
    if not statements:
        return None
    ordered = sorted(statements, key=lambda s: (s.plan.priority, s.order[1]))
    updates: list[tuple[Callable[[Any], Any], Callable[[Exception], None]]] = []
    updates += [(statement.program.functions.update, statement.failed) for statement in ordered]

    def updated(event: Any) -> Any:
        for update, failed in updates:
            try:
                event = update(event)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                failed(failure)
            if event is None:
                return None
        return event

    return updated


def handler_after_updates(statements: Sequence[RunningStatement], handler: EventHandler) -> EventHandler:
    """Return `handler` behind the updates."""
    update = combine_updates(statements)
    if update is None:
        return handler

    def handle(event: Any) -> object:
        event = update(event)
        return True if event is None else handler(event)

    return handle
