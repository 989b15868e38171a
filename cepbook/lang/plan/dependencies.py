"""The statements that feed a statement, and the properties that they read of its input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cepbook.lang.plan import expressions as expr
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan import traversal
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.references import (
    event_types_read,
    expressions_in,
    reads_whole_events,
    stores_read,
    stores_written,
    variables_read,
)

QueryStatement = plan.SelectStatement | plan.CycleStatement  # what has rows of its own


@dataclass(frozen=True, slots=True)
class StatementDependencies:
    """One statement with everything that feeds it, in deployment order.

    `triggers` assign variables that any of the statements reads, or insert or change what it reads. `inputs` are the
    event types of frames that they read, directly or through contexts. `variables` are those of the contexts, `stores`
    what creates the named windows and tables that any of them reads or changes.
    """

    target: str
    selects: tuple[QueryStatement, ...]
    contexts: tuple[plan.ContextStatement, ...]
    inputs: tuple[str, ...]
    triggers: tuple[plan.StreamStatement, ...] = ()
    variables: tuple[plan.CreateVariableStatement, ...] = ()
    stores: tuple[plan.StatementPlan, ...] = ()

    @property
    def readers(self) -> tuple[plan.StreamStatement, ...]:
        """All statements that read streams."""
        return (*self.triggers, *self.selects)

    @property
    def named_windows(self) -> tuple[plan.CreateWindowStatement, ...]:
        """The statements that create the named windows among the stores."""
        return tuple(store for store in self.stores if isinstance(store, plan.CreateWindowStatement))

    @property
    def feeders(self) -> tuple[str, ...]:
        """The names of the other statements and of the contexts whose failure affects the target."""
        statements = (s.name for s in (*self.readers, *self.stores) if s.name != self.target)
        return tuple(dict.fromkeys((*statements, *(c.context.name for c in self.contexts))))


def dependencies_of(
    target: str,
    statements: Sequence[plan.StatementPlan],
    catalog: Catalog,
    types: Iterable[str],
    extra_stores: Iterable[str] = (),
) -> StatementDependencies:
    """Return the statements that `target` needs, with their contexts.

    These are all that insert into a stream or assign a variable that it reads, and those that they need in turn. A
    ``create variable`` needs the statements that assign the variable. All `extra_stores` are needed, too, with what
    fills them.
    """
    selects = {s.name: s for s in statements if isinstance(s, QueryStatement)}
    triggers = {s.name: s for s in statements if isinstance(s, plan.StreamStatement) and s.name not in selects}
    declared = {s.context.name: s for s in statements if isinstance(s, plan.ContextStatement)}
    readers: list[plan.StreamStatement] = [*selects.values(), *triggers.values()]
    assigned = {s.variable.name for s in statements if isinstance(s, plan.CreateVariableStatement) and s.name == target}
    changed = {reader.name: stores_written(reader, catalog) for reader in readers}
    extra = _with_origins(set(extra_stores), statements)
    waiting = [r for r in readers if r.name == target or assigned & r.assigned or extra & changed[r.name]]
    needed = {reader.name for reader in waiting}
    while waiting:
        reader = waiting.pop()
        context = declared.get(reader.context or "")
        touched = _with_origins(stores_read(reader) | changed[reader.name], statements)
        read_types = set(event_types_read((reader, context)))
        variables = variables_read((reader, context))
        for other in readers:
            if other.name in needed:
                continue
            if touched & changed[other.name] or _feeds(other, read_types, variables, catalog):
                needed.add(other.name)
                waiting.append(other)
    if any(s.drop for s in readers):  # such a statement decides what others see
        needed = {*selects, *triggers}
    chosen = tuple(s for s in selects.values() if s.name in needed)
    triggering = tuple(s for s in triggers.values() if s.name in needed)
    reading = [s for s in readers if s.name in needed]
    created = (s for s in statements if isinstance(s, plan.CreateWindowStatement | plan.CreateTableStatement))
    wanted_contexts = {s.context for s in (*reading, *(s for s in created if created_store(s) in extra))}
    contexts = tuple(c for name, c in declared.items() if name in wanted_contexts)
    read = set(event_types_read((*reading, *contexts)))
    inputs = tuple(t for t in types if any(catalog.is_a(t, r) for r in read))
    declaring = [s for s in statements if isinstance(s, plan.CreateVariableStatement)]
    own = tuple(s for s in declaring if s.context is not None and s.context in wanted_contexts)
    touched = _with_origins(set[str]().union(*(stores_read(s) | changed[s.name] for s in reading)), statements)
    stores = tuple(s for s in statements if created_store(s) in touched | extra)
    return StatementDependencies(target, chosen, contexts, inputs, triggering, own, stores)


def _with_origins(names: set[str], statements: Sequence[plan.StatementPlan]) -> set[str]:
    """Add the named windows that others among `names` were filled from when they were created."""
    filled = {s.store.name: s.fill.store for s in statements if isinstance(s, plan.CreateWindowStatement) and s.fill}
    names_with_origins = set(names)
    while more := {filled[name] for name in names_with_origins if name in filled} - names_with_origins:
        names_with_origins |= more
    return names_with_origins


def created_store(statement: plan.StatementPlan) -> str | None:
    """Return the store that a statement creates or indexes, or None."""
    if statement.created_store is not None:
        return statement.created_store.name
    return statement.index.store if isinstance(statement, plan.CreateIndexStatement) else None


def _feeds(other: plan.StreamStatement, read: set[str], variables: set[str], catalog: Catalog) -> bool:
    """Return whether `other` inserts or updates events of the types `read`, or assigns one of `variables`."""
    changed = {other.source.event_type} if isinstance(other, plan.UpdateStatement) else set[str]()
    if any(catalog.is_a(t, c) and catalog.is_a(t, name) for c in changed for t in catalog.event_types for name in read):
        return True
    if any(catalog.is_a(insert.target, name) for insert in other.inserts for name in read):
        return True
    return bool(variables & other.assigned)


def properties_read(deps: StatementDependencies, catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Return the properties that the statements can read of each input type, in declaration order."""
    properties: dict[str, tuple[str, ...]] = {}
    for name in deps.inputs:
        declared = catalog.event_types[name].properties
        seen: set[str] = set()
        for statement in deps.readers:
            if any(catalog.is_a(name, read) for read in event_types_read(statement)):
                whole = _sees_all(statement)
                seen |= set(declared) if whole else _props(statement) | _of_tags(statement, name, catalog)
        for context in deps.contexts:
            if isinstance(context, plan.CreateContextTreeStatement):
                if any(catalog.is_a(name, read) for read in event_types_read(context)):
                    seen |= set(declared)  # its properties hold the events
                continue
            for stream in context.spec.streams:
                if catalog.is_a(name, stream.event_type):
                    seen |= set(declared) if reads_whole_events(stream) else _props(stream)
        properties[name] = tuple(p for p in declared if p in seen)
    return properties


def _sees_all(statement: plan.StreamStatement) -> bool:
    if isinstance(statement, plan.CycleStatement):  # columns go through its stages by their names
        return True
    if any(source.contained or any(atom.contained for atom in source.atoms) for source in statement.sources):
        return True  # contained events are in the properties of the event
    if isinstance(statement, plan.SplitStatement):  # what no branch takes is delivered
        return True
    return reads_whole_events(statement)


def _of_tags(statement: plan.StreamStatement, name: str, catalog: Catalog) -> set[str]:
    """Return the properties of event type `name` that a statement reads through the tags of its patterns."""
    atoms = [atom for source in statement.sources for atom in source.atoms]
    tags = {atom.tag for atom in atoms if catalog.is_a(name, atom.event_type)}
    properties: set[str] = set()
    pending = [e for e in traversal.walk(statement) if isinstance(e, expr.BoundExpr)] if tags else []
    while pending:
        e = pending.pop()
        if isinstance(e, expr.Prop) and e.name in tags:
            return set(catalog.event_types[name].properties)  # of an event as a value all may be seen
        inner = expr.children(e)
        if isinstance(e, expr.MemberAccess):
            tag = e.target.target if isinstance(e.target, expr.IndexAccess) else e.target
            if isinstance(tag, expr.Prop) and tag.name in tags:
                properties.add(e.name)
                inner = expr.children(e.target)[1:]  # of an array the index
        pending += inner
    return properties


def _props(node: plan.PlanNode) -> set[str]:
    return {e.name for e in expressions_in(node, expr.Prop)}
