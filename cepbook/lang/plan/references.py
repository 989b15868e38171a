"""References of a plan: the expressions, event types, variables and stores in it, at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, overload

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import Catalog, StoreType
from cepbook.lang.plan.traversal import fields_of, walk

Kind = TypeVar("Kind", bound=x.BoundExpr)


@overload
def expressions_in(value: object) -> Iterator[x.BoundExpr]: ...
@overload
def expressions_in(value: object, kind: type[Kind]) -> Iterator[Kind]: ...
def expressions_in(value: object, kind: type[x.BoundExpr] = x.BoundExpr) -> Iterator[x.BoundExpr]:
    """Yield every expression in a plan, or every one of a class."""
    for node in walk(value):
        if isinstance(node, x.BoundExpr):
            yield from x.find(kind, node)


def event_types_read(value: object) -> Iterator[str]:
    """Yield the event type of every stream, pattern atom and context condition of a plan."""
    for node in walk(value):
        name = getattr(node, "event_type", None)
        if isinstance(name, str) and not (isinstance(node, plan.SourceNode) and (node.pattern or node.without_from)):
            yield name


def reads_whole_events(value: object) -> bool:
    """Return True if a plan reads whole events, and so also the properties that subtypes add."""
    nodes = (node for node in walk(value) if isinstance(node, plan.PlanNode))
    if any(isinstance(node, plan.Recognition) or getattr(node, "wildcard", False) for node in nodes):
        return True  # a match has whole rows
    return any(isinstance(e, x.EventOf | x.WindowValue) for e in expressions_in(value))


def variables_read(value: object) -> set[str]:
    """Return the variables that a plan reads. Assigning a part of a variable (``set v.x = 1``) reads the rest of it."""
    read = {e.name for e in expressions_in(value, x.VariableRead)}
    return read | {node.variable for node in walk(value) if isinstance(node, plan.VariableAssignment) and node.path}


def stores_read(value: object) -> set[str]:
    """Return the names of the named windows and tables that a plan refers to."""
    read = {e.table for e in expressions_in(value, x.TableRead)}
    values = (field for node in walk(value) if isinstance(node, plan.PlanNode) for field in fields_of(node))
    read |= {node.store for node in walk(value) if isinstance(node, plan.InitialFill)}
    return read | {field.name for field in values if isinstance(field, StoreType)}


def stores_written(reader: plan.StatementPlan, catalog: Catalog) -> set[str]:
    """Return the named windows and tables whose rows a statement changes."""
    names = {insert.target for insert in reader.inserts if insert.target in catalog.stores}
    if isinstance(reader, plan.MergeStatement) or (isinstance(reader, plan.OnSelectStatement) and reader.deletes):
        names.add(reader.target.name)
    if reader.into is not None:
        names.add(reader.into.store.name)
    if isinstance(reader, plan.CycleStatement):
        names.update(name for name, _, _ in reader.tables)
    return names


def values_merged(reader: plan.StatementPlan, store: str) -> Iterator[tuple[str, x.BoundExpr]]:
    """Yield the columns of a named window or table into which a statement merges values, and the values."""
    if isinstance(reader, plan.MergeStatement) and reader.target.name == store:
        for action in reader.actions:
            yield from ((column.name, column.value) for column in action.columns if action.insert is None)
            yield from ((change.name, change.value) for change in action.changes if not change.path)


def variable_assignments(reader: plan.StatementPlan) -> tuple[plan.VariableAssignment, ...]:
    """Return the assignments of a statement that sets variables; none for other statements."""
    return reader.assignments if isinstance(reader, plan.OnSetStatement) else ()


def output_store(reader: plan.StatementPlan) -> StoreType | None:
    """Return the named window or table whose rows a statement without a select delivers."""
    if isinstance(reader, plan.MergeStatement | plan.InsertRows):
        return reader.target
    return reader.store if isinstance(reader, plan.CreateTableStatement) else None


def reads_context_id(value: object) -> bool:
    """Return True if a plan reads the id of the context partition."""
    return any(e.name == "id" for e in expressions_in(value, x.ContextProp))


def streams_read(*exprs: x.BoundExpr) -> set[int]:
    """Return the positions of the streams that expressions read."""
    return {stream for e in exprs for node in x.walk(e) if (stream := node.read_stream) is not None}
