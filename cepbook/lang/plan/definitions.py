"""The names that statements define: find, add and remove their catalog entries."""

from __future__ import annotations

from typing import Any

from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog, EventType


def defined_name(statement: nodes.StatementPlan) -> str | None:
    """Return the name that a create statement defines, or None."""
    match statement:
        case nodes.CreateWindowStatement(store=definition) | nodes.CreateTableStatement(store=definition):
            return definition.name
        case (
            nodes.CreateSchemaStatement(event_type=definition) | nodes.CreateExpressionStatement(expression=definition)
        ):
            return definition.name
        case nodes.CreateVariableStatement(variable=definition) | nodes.CreateIndexStatement(index=definition):
            return definition.name
        case nodes.CreateContextStatement(context=definition) | nodes.CreateContextTreeStatement(context=definition):
            return definition.name
    return None


def add_definitions(statement: nodes.StatementPlan, catalog: Catalog) -> None:
    """Add the definitions of a statement to `catalog`, and the event types that it creates by inserting."""
    match statement:
        case nodes.CreateSchemaStatement(event_type=definition):
            catalog.event_types[definition.name] = definition
        case nodes.CreateExpressionStatement(expression=definition):
            catalog.expressions[definition.name] = definition
        case nodes.CreateContextStatement(context=definition) | nodes.CreateContextTreeStatement(context=definition):
            catalog.contexts[definition.name] = definition
        case nodes.CreateVariableStatement(variable=definition):
            catalog.variables[definition.name] = definition
        case nodes.CreateIndexStatement(index=definition):
            catalog.indexes[definition.full_name] = definition
        case nodes.CreateTableStatement(store=definition) | nodes.CreateWindowStatement(store=definition):
            catalog.event_types[definition.name] = statement.output_type
            catalog.stores[definition.name] = definition
    for insert, inserted in _inserting(statement):
        if insert.creates:
            catalog.event_types[insert.target] = inserted


def remove_definitions(module: nodes.ModulePlan, catalog: Catalog) -> None:
    """Remove the definitions of a module from `catalog`."""
    entries: dict[str, dict[str, Any]] = {
        "event type": catalog.event_types,
        "context": catalog.contexts,
        "variable": catalog.variables,
        "expression": catalog.expressions,
        "index": catalog.indexes,
    }
    for kind, name in module.provides:
        entries[kind].pop(name, None)
        if kind == "event type":  # also of a named window or table
            catalog.stores.pop(name, None)


def _inserting(statement: nodes.StatementPlan) -> list[tuple[nodes.Insert, EventType]]:
    """Return the inserts of a statement, each with the type of its rows."""
    match statement:
        case nodes.SelectStatement(insert=nodes.Insert() as insert):
            return [(insert, statement.output_type)]
        case nodes.SplitStatement(branches=branches):
            return [(branch.insert, branch.output_type) for branch in branches]
        case nodes.MergeStatement(branches=branches):
            actions = [action for branch in branches for action in branch.actions]
            return [(a.insert, a.output_type) for a in actions if a.insert is not None and a.output_type is not None]
    return []
