"""`create variable` and `on … set` as running statements, and the functions that all on-triggers share.

The values are computed in order, and each expression sees the results of the assignments before it (Esper reference,
"Setting Variable Values"). The variables are written when all values are known: a failing expression changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.assignments import write_assignments, write_new_values
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope, ScopeFactory
from cepbook.engine.fragments.codegen_context import write_state
from cepbook.engine.patterns.pattern_codegen import PatternCodegen
from cepbook.engine.physical.lowering import lower_statement
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.statements.variables import RuntimeVariable
from cepbook.lang.plan import nodes as p


def compile_create_variable(
    plan: p.CreateVariableStatement, scope_in: ScopeFactory, cell: RuntimeVariable
) -> StatementProgram:
    """Compile a `create variable`. Its iterator returns the current value; in a context, that of each partition."""
    source = SourceWriter()
    scope = scope_in(source)
    with source.block("def on_event(e, S=None):"):
        source.line("return False")
    source.line("on_match = on_event")
    first = None
    if cell.partitioned:
        initial = "None" if plan.initial is None else lower.value(scope.at(partition="P", now="now"), plan.initial)
        first = f"P.variables[{source.const(cell.name, 'n')}] = {initial}"
    write_state(source, StatementState, _present([cell.name], scope), first=first)
    return statement_program(plan, source, ())


def compile_on_set(plan: p.OnSetStatement, scope_in: ScopeFactory) -> StatementProgram:
    """Compile an `on … set`, which assigns variables at each event that passes the filter. Errors: Refusal."""
    source = SourceWriter()
    values = [e for a in plan.assignments for e in (*a.path, a.value)]
    names = lower.property_names(plan.source.filter, *values)
    props = {name: f"p{i}" for i, name in enumerate(names)}
    scope = scope_in(source).at(props=lower.property_codes(props), events={0: "e"})
    write_event_functions(plan, props, scope, lambda: _assign(plan, scope))
    rows = _present(plan.output_type.properties, scope_in(source))
    write_state(source, StatementState, rows, subqueries=scope.subqueries)
    return trigger_program(plan, source, tuple(names), scope_in)


TriggerPlan = p.OnSetStatement | p.SplitStatement | p.MergeStatement


def write_event_functions(
    plan: TriggerPlan, props: Mapping[str, str], scope: CodeScope, body: Callable[[], None]
) -> None:
    """Write `on_event(e)`, and `on_match(e)` for events that passed the filter already; `body` writes the action.

    For rows that enter a named window also write `on_change(S, entered, left, now)`. `props` has the locals of the
    event's properties, which `scope` knows; the filter is tested in it.
    """
    source, condition = scope.source, plan.source.filter
    test = lower.filter_condition if plan.source.store is None else lower.truth
    parameters = (["e"], ["S"]) if plan.context is None else (["e", "S"], [])

    def properties() -> None:
        for name, local in props.items():
            source.line(f"{local} = e.get({source.const(name, 'n')})")

    for function in ("on_event", "on_match"):
        with source.function(function, *parameters):
            properties()
            if condition is not None and function == "on_event":
                with source.block(f"if not {test(scope, condition)}:", condition.span):
                    source.line("return False")
            body()
            source.line("return True")
    if plan.source.store is None:
        return
    taken = "on_event(item[-1])" if plan.context is None else "on_event(item[-1], S)"
    with source.block("def on_change(S, entered, left, now):"):
        if plan.last_only:
            source.line(f"any({taken} for item in reversed(entered))")
        else:
            source.line(f"for item in entered: {taken}")


def trigger_program(
    plan: TriggerPlan, source: SourceWriter, columns: tuple[str, ...], scope_in: ScopeFactory
) -> StatementProgram:
    """Return the program of a trigger on events or on matches of a pattern."""
    pattern = None if plan.source.pattern is None else PatternCodegen(plan.source.pattern, scope_in(source))
    program = statement_program(plan, source, columns)
    program.patterns = {} if pattern is None else {0: pattern.program(program.namespace)}
    return program


def _assign(plan: p.OnSetStatement, scope: CodeScope) -> None:
    """Write the new values, then the assignments, then the delivery, with former values if the selector needs them."""
    source = scope.source
    assigned = write_new_values(plan.assignments, scope)
    if plan.selector != "istream":
        former = "".join(f"{lower.current_variable(scope, name)}, " for name in plan.output_type.properties)
        source.line(f"former = ({former})")
    write_assignments(assigned, scope, "clock.now")
    new = f"({''.join(f'{code}, ' for code in map(assigned.__getitem__, plan.output_type.properties))})"
    sides = {"istream": f"[{new}], None", "rstream": "[former], None", "irstream": f"[{new}], [former]"}
    with source.block("if push:"):
        source.line(f"push(clock.now, {sides[plan.selector]})", plan.span)


def _present(names: Iterable[str], scope: CodeScope) -> str:
    return f"[({''.join(f'{lower.current_variable(scope, name)}, ' for name in names)})]"


def statement_program(
    plan: p.StreamStatement | p.CreateVariableStatement | p.CreateTableStatement,
    source: SourceWriter,
    columns: tuple[str, ...],
) -> StatementProgram:
    """Return the program of a statement without windows; `columns` are the properties that it reads."""
    namespace = source.load()
    constants = {name: value for name, value in source.constants.items() if name not in ("clock", "route")}
    names = tuple(plan.output_type.properties)
    return StatementProgram(
        lower_statement(plan), source.text, namespace, source.spans, columns, constants, source.bound, names
    )
