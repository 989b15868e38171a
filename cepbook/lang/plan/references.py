"""What a plan reads: the expressions, event types and stores in it, at any depth."""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import Catalog, StoreType
from cepbook.lang.plan.traversal import fields_of, walk


def expressions_in(value: object) -> Iterator[x.BoundExpr]:
    """Every expression in a plan, at any depth."""
    for each in walk(value):
        if isinstance(each, x.BoundExpr):
            yield from x.walk(each)


def event_types_read(value: object) -> Iterator[str]:
    """The event types of every stream, atom of a pattern and condition of a context in a plan, at any depth."""
    for each in walk(value):
        name = getattr(each, "event_type", None)
        if isinstance(name, str) and not (isinstance(each, plan.SourceNode) and (each.pattern or each.nothing)):
            yield name


def reads_whole_events(value: object) -> bool:
    """Whether a plan looks at events as wholes: then it sees what a subtype adds to the properties of a type."""
    nodes = (each for each in walk(value) if isinstance(each, plan.PlanNode))
    if any(isinstance(each, plan.Recognition) or getattr(each, "wildcard", False) for each in nodes):
        return True  # a match has whole rows
    return any(isinstance(e, x.EventOf | x.WindowValue) for e in expressions_in(value))


def variables_read(value: object) -> set[str]:
    """The variables that a plan reads, at any depth. Who assigns a part of one (``set v.x = 1``) reads its rest."""
    read = {e.name for e in expressions_in(value) if isinstance(e, x.VariableRead)}
    return read | {each.variable for each in walk(value) if isinstance(each, plan.VariableAssignment) and each.path}


def stores_read(value: object) -> set[str]:
    """The names of the named windows and tables that a plan has in it, at any depth."""
    read = {e.table for e in expressions_in(value) if isinstance(e, x.TableRead)}
    held = (part for node in walk(value) if isinstance(node, plan.PlanNode) for part in fields_of(node))
    read |= {node.store for node in walk(value) if isinstance(node, plan.InitialFill)}
    return read | {part.name for part in held if isinstance(part, StoreType)}


def stores_written(reader: plan.StreamStatement, catalog: Catalog) -> set[str]:
    """The named windows and tables whose rows a statement changes."""
    found = {insert.target for insert in reader.inserts if insert.target in catalog.stores}
    if isinstance(reader, plan.MergeStatement) or (isinstance(reader, plan.OnSelectStatement) and reader.deletes):
        found.add(reader.target.name)
    if isinstance(reader, plan.SelectStatement) and reader.into is not None:
        found.add(reader.into.store.name)
    if isinstance(reader, plan.CycleStatement):  # which comes with rows of tables
        found.update(name for name, _, _ in reader.tables)
    return found
