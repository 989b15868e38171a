"""What statements create: the name of it, what a catalog knows from then on, and how that is taken away again."""

from __future__ import annotations

from typing import Any

from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog, EventType


def defined_name(statement: nodes.StatementPlan) -> str | None:
    """The name of the event type, context, variable, expression, index, named window or table that it declares."""
    match statement:
        case nodes.CreateWindowStatement(store=made) | nodes.CreateTableStatement(store=made):
            return made.name
        case nodes.CreateSchemaStatement(event_type=made) | nodes.CreateExpressionStatement(expression=made):
            return made.name
        case nodes.CreateVariableStatement(variable=made) | nodes.CreateIndexStatement(index=made):
            return made.name
        case nodes.CreateContextStatement(context=made) | nodes.CreateContextTreeStatement(context=made):
            return made.name
    return None


def add_definitions(statement: nodes.StatementPlan, catalog: Catalog) -> None:
    """Put into `catalog` what the statement declares, and the event types that it creates by inserting."""
    match statement:
        case nodes.CreateSchemaStatement(event_type=made):
            catalog.event_types[made.name] = made
        case nodes.CreateExpressionStatement(expression=made):
            catalog.expressions[made.name] = made
        case nodes.CreateContextStatement(context=made) | nodes.CreateContextTreeStatement(context=made):
            catalog.contexts[made.name] = made
        case nodes.CreateVariableStatement(variable=made):
            catalog.variables[made.name] = made
        case nodes.CreateIndexStatement(index=made):
            catalog.indexes[made.full_name] = made
        case nodes.CreateTableStatement(store=made) | nodes.CreateWindowStatement(store=made):
            catalog.event_types[made.name] = statement.output_type
            catalog.stores[made.name] = made
    for insert, inserted in _inserting(statement):
        if insert.creates:
            catalog.event_types[insert.target] = inserted


def remove_definitions(module: nodes.ModulePlan, catalog: Catalog) -> None:
    """Take out of `catalog` what the module provides."""
    entries: dict[str, dict[str, Any]] = {
        "event type": catalog.event_types,
        "context": catalog.contexts,
        "variable": catalog.variables,
        "expression": catalog.expressions,
        "index": catalog.indexes,
    }
    for kind, name in module.provides:
        entries[kind].pop(name, None)
        if kind == "event type":  # it may be that of a named window or table
            catalog.stores.pop(name, None)


def _inserting(statement: nodes.StatementPlan) -> list[tuple[nodes.Insert, EventType]]:
    """The streams that it inserts into, each with the type of what goes there."""
    match statement:
        case nodes.SelectStatement(insert=nodes.Insert() as insert):
            return [(insert, statement.output_type)]
        case nodes.SplitStatement(branches=branches):
            return [(each.insert, each.output_type) for each in branches]
        case nodes.MergeStatement(branches=branches):
            actions = [action for branch in branches for action in branch.actions]
            return [(a.insert, a.output_type) for a in actions if a.insert is not None and a.output_type is not None]
    return []
