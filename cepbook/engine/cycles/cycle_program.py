"""The program of a query that is run in cycles.

::

    new_state(P, now)      the state, whose view is a `CycleState`
    take0(e, S)            the values of an event in partition 0; None if the pre-filter rejects it
    where0_1(e, S)         True if a row enters the second stage of partition 0
    rows(S, now)           the rows of the select over the present relations
    dues(S)                the time at which the clock causes a cycle

The select is a program of its own, that of a select over named windows, which starts with the rows of the relations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cepbook.engine.codegen.program import CycleFunctions, StatementProgram
from cepbook.engine.codegen.select import compile_select
from cepbook.engine.cycles.cycle import CycleState
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import ScopeFactory
from cepbook.engine.fragments.codegen_context import write_state
from cepbook.engine.physical.lowering import lower_statement
from cepbook.engine.relations.statement_state import StatementState
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.cycles import StreamPartition
from cepbook.lang.plan.nodes import CycleStatement
from cepbook.lang.plan.references import expressions_in
from cepbook.lang.registry.cycles import CYCLE_AGGREGATES


def sql_scope(scope_in: ScopeFactory, source: SourceWriter) -> lower.CodeScope:
    """Return a scope with SQL arithmetic: integers divide to integers, and division by zero is null."""
    return scope_in(source).at(integer_division=True, division_by_zero_null=True)


def compile_cycles(
    plan: CycleStatement, scope_in: ScopeFactory, subqueries: Sequence[StatementProgram]
) -> StatementProgram:
    """Generate, compile and load the module of `plan`. Errors: Refusal for a construct that is not supported."""
    source = SourceWriter()
    scope = scope_in(source)
    read = _read(plan)
    for number, partition in enumerate(plan.partitions):
        _write_take(number, partition, read, scope)
        for place, stage in enumerate(partition.stages):
            if place and stage.where is not None:
                with source.block(f"def where{number}_{place}(e, S):"):
                    names = lower.property_names(stage.where)
                    for at, name in enumerate(names):
                        source.line(f"p{at} = e[{source.const(name, 'n')}]")
                    props = lower.property_codes({name: f"p{at}" for at, name in enumerate(names)})
                    source.line(f"return {lower.truth(scope.at(props=props), stage.where)}", stage.where.span)
    fresh, node = source.bind("_CycleState", CycleState), source.bind("_node", plan)
    write_state(source, StatementState, "selected(S, now)", subqueries=scope.subqueries, view=f"{fresh}({node}, now)")
    with source.block("def dues(S):"):
        source.line("return [(0, S.view.due)]")
    select = compile_select(plan.select, scope_in, all_properties=(), subqueries=subqueries)
    namespace = source.load()
    stages = [stage for partition in plan.partitions for stage in partition.stages]
    named = {call.name for stage in stages for call in stage.aggregates if call.name not in CYCLE_AGGREGATES}
    constants = {name: value for name, value in source.constants.items() if name != "clock"}
    columns = tuple(plan.output_type.properties)
    steps = lower_statement(plan)
    program = StatementProgram(steps, source.text, namespace, source.spans, (), constants, source.bound, columns)
    program.select = select
    program.cycles = CycleFunctions(
        tuple(namespace[f"take{number}"] for number in range(len(plan.partitions))),
        tuple(
            tuple(namespace.get(f"where{number}_{place}") for place in range(len(partition.stages)))
            for number, partition in enumerate(plan.partitions)
        ),
        {name: _of_values(scope.user_functions[name]) for name in named},
    )
    return program


def _of_values(registered: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """Return a function of the values of a window; a registered class takes them one by one."""
    if not isinstance(registered, type):
        return registered
    aggregate_class: Any = registered

    def value(values: list[Any]) -> Any:
        aggregate = aggregate_class()
        for value_ in values:
            aggregate.enter(value_)
        return aggregate.value()

    return value


def _write_take(number: int, partition: StreamPartition, read: frozenset[str], scope: lower.CodeScope) -> None:
    source, condition = scope.source, partition.source.filter
    retained = [name for name in partition.columns if name in read]
    names = dict.fromkeys((*lower.property_names(condition), *retained))
    local = {name: f"p{at}" for at, name in enumerate(names)}
    with source.block(f"def take{number}(e, S):"):
        for name, place in local.items():
            source.line(f"{place} = e.get({source.const(name, 'n')})")
        if condition is not None:
            test = lower.truth(scope.at(props=lower.property_codes(local)), condition)
            with source.block(f"if not {test}:", condition.span):
                source.line("return None")
        items = [f"{source.const(name, 'n')}: {local[name]}" for name in retained]
        source.line(f"return {{{', '.join(items)}}}")


def _read(plan: CycleStatement) -> frozenset[str]:
    names = {e.name for e in expressions_in((plan.partitions, plan.select, plan.subqueries), x.Prop)}
    for partition in plan.partitions:
        names.update(() if partition.time is None else (partition.time,))
        for stage in partition.stages:
            names.update(stage.keys, stage.window.update_group, (aggregate.column for aggregate in stage.aggregates))
            names.update(() if stage.window.column is None else (stage.window.column,))
    if plan.correlation is not None:
        names.update(plan.correlation.ids, (column for _, column, _ in plan.correlation.columns))
    return frozenset(names)
