"""Predicate pushdown: Spark drops the events that no statement can use while it reads them.

A statement can use an event that passes the filter of its from-clause, or of an atom of its pattern. From each filter
the leading operands of its ``and`` are pushed down, as long as Spark can express them (`sql_conditions`). The operands
behind the first that it cannot express may fail, and failures are reported, so these stay with the engine. The engine
evaluates the whole filter once more.

Events that only move the clock are dropped if no statement depends on it, or if the tasks get all clock ticks. Events
that only open context partitions are dropped if nothing shows the partitions. A dropped event is not validated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from cepbook.lang.plan import expressions as expr
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import StatementDependencies
from cepbook.lang.plan.pattern import EVENT_STREAM, starts_undecided
from cepbook.lang.plan.references import event_types_read, reads_context_id
from cepbook.spark.frames.sql_conditions import condition_sql, is_expressible
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.task.program import TaskInputs
from cepbook.spark.task.stream_columns import TAG

Alternatives = tuple[tuple[expr.BoundExpr, ...], ...]
"""Any of several lists of conditions, all of which hold."""


def pushed_predicates(
    dependencies: Sequence[StatementDependencies], catalog: Catalog, ticks: bool
) -> Mapping[str, Alternatives]:
    """Return by input type what all events have in common that a statement can use; no entry if every event may be
    needed.

    With `ticks` the clock makes the statements deliver rows. Then any event that opens a partition may start a timer.
    """
    statements = {s.name: s for deps in dependencies for s in deps.readers}.values()
    if ticks and any(deps.contexts for deps in dependencies):
        return {}
    if any(deps.stores or deps.triggers or deps.variables for deps in dependencies):
        return {}
    if any(map(_sees_rejected, statements)):
        return {}
    contexts = {c.context.name: c for deps in dependencies for c in deps.contexts}
    if not all(_ignores_creation(s, contexts[s.context], catalog) for s in statements if s.context is not None):
        return {}
    predicates: dict[str, Alternatives] = {}
    for name in dict.fromkeys(name for deps in dependencies for name in deps.inputs):
        filters = [f for s in statements for kind, f in _filters(s) if catalog.is_a(name, kind)]
        parts = tuple(tuple(takewhile(_is_event_condition, expr.conjuncts(f))) for f in filters)
        if all(parts):
            predicates[name] = tuple(dict.fromkeys(parts))
    return predicates


def _sees_rejected(statement: nodes.StreamStatement) -> bool:
    """Return whether the statement may depend on events that its filters reject."""
    if not statement.is_query or statement.join is not None or statement.subqueries:
        return True
    source = statement.source
    if statement.drop or statement.lots or source.without_from or source.store or source.contained or source.lot:
        return True
    if any(atom.contained for atom in source.atoms):
        return True
    if source.pattern is not None and statement.context is not None and not starts_undecided(source.pattern.root):
        return True  # it may be true as soon as there is a partition
    if not set(event_types_read(statement)) <= {kind for kind, _ in _filters(statement)}:
        return True
    return reads_context_id(statement)


def _ignores_creation(statement: nodes.StreamStatement, context: nodes.ContextStatement, catalog: Catalog) -> bool:
    """Return whether it makes no difference to the statement if a partition exists before its own first event.

    It does if the statement reads a type that the context does not divide: such events go to all existing partitions.
    """
    if not context.permanent:
        return False
    divided = [event_type for _, level in context.levels for event_type in level.event_types]
    return all(any(catalog.is_a(name, event_type) for event_type in divided) for name in event_types_read(statement))


def _filters(statement: nodes.StreamStatement) -> Iterator[tuple[str, expr.BoundExpr | None]]:
    """Yield the event types that the statement reads, with the conditions on their events."""
    source = statement.sources[0]
    yield from ((read.event_type, read.filter) for read in ((source,) if source.pattern is None else source.atoms))


def _is_event_condition(condition: expr.BoundExpr) -> bool:
    """Return whether Spark can evaluate the condition on an event alone."""
    reads_event_only = all(e.stream == EVENT_STREAM for e in expr.find(expr.Prop, condition))
    return reads_event_only and is_expressible(condition)


def push_down(events: SqlQuery, chosen: Mapping[str, Alternatives], inputs: TaskInputs) -> SqlQuery:
    """Return the tagged events without those that no statement can use; `inputs` as in `TaskProgram`."""
    if not chosen:
        return events
    conditions = []
    for tag, name, properties, columns in inputs:
        column_of = dict(zip(properties, columns, strict=True))
        condition = f"{TAG} = {tag}"
        if name in chosen:
            alternatives = (
                " AND ".join(condition_sql(operand, column_of) for operand in operands) for operands in chosen[name]
            )
            condition += f" AND ({' OR '.join(f'({operands})' for operands in alternatives) or 'FALSE'})"
        conditions.append(f"({condition})")
    return events.where(" OR ".join(conditions))
