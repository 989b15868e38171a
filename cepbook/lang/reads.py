"""What a plan reads: the expressions, event types and stores in it, at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from cepbook.lang import expr as x
from cepbook.lang import plan
from cepbook.lang.catalog import Catalog, StoreType


def expressions(value: object) -> Iterator[x.Expr]:
    """Every expression in a plan, at any depth."""
    if isinstance(value, x.Expr):
        yield from x.walk(value)
    elif isinstance(value, tuple):
        for item in value:
            yield from expressions(item)
    elif isinstance(value, plan.PlanNode) and is_dataclass(value):
        for field in fields(value):
            yield from expressions(getattr(value, field.name))


def types_read(value: object) -> Iterator[str]:
    """The event types of every stream, atom of a pattern and condition of a context in a plan, at any depth."""
    if isinstance(value, tuple):
        for item in value:
            yield from types_read(item)
    elif isinstance(value, plan.PlanNode) and is_dataclass(value):
        name = getattr(value, "event_type", None)
        if isinstance(name, str) and not (isinstance(value, plan.Source) and (value.pattern or value.nothing)):
            yield name
        for field in fields(value):
            yield from types_read(getattr(value, field.name))


def stores_in(value: object) -> set[str]:
    """The names of the named windows and tables that a plan has in it, at any depth."""
    if isinstance(value, StoreType):
        return {value.name}
    if isinstance(value, x.TableRead):
        return {value.table}.union(*map(stores_in, value.keys))
    if isinstance(value, tuple):
        return set[str]().union(*map(stores_in, value))
    if isinstance(value, plan.PlanNode | x.Expr) and is_dataclass(value):
        return set[str]().union(*(stores_in(getattr(value, f.name)) for f in fields(value)))
    return set()


def stores_changed(reader: plan.Reader, catalog: Catalog) -> set[str]:
    """The named windows and tables whose rows a statement changes."""
    found = {insert.target for insert in reader.inserts if insert.target in catalog.stores}
    if isinstance(reader, plan.MergeStatement) or (isinstance(reader, plan.OnSelectStatement) and reader.deletes):
        found.add(reader.target.name)
    if isinstance(reader, plan.SelectStatement) and reader.into is not None:
        found.add(reader.into.store.name)
    if isinstance(reader, plan.CycleStatement):  # which comes with rows of tables
        found.update(name for name, _, _ in reader.tables)
    return found
