"""Which events a statement can use at all: Spark drops the others where it reads them, so that they travel nowhere.

An event is for a statement if it passes a filter of its from-clause or of an atom of its pattern. Of a filter the first
parts of an ``and`` count, as long as Spark expresses them (`native`): behind them others may fail, which is told of.
What they let through the engine looks at once more. Events that only move the clock are dropped where nothing depends
on it, or tasks are told of all its stops; those that only open partitions, where nothing can be seen of these. What is
dropped is not complained of, as in `native`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from cepbook.lang.plan import expressions as expr
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import ContextStatement, StatementDependencies
from cepbook.lang.plan.pattern import EVENT_STREAM, Pattern, starts_undecided
from cepbook.lang.plan.references import event_types_read, expressions_in
from cepbook.spark.frames.sql_conditions import condition_sql, is_expressible
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.task.program import TaskInputs
from cepbook.spark.task.stream_columns import TAG

PredicateAlternatives = tuple[tuple[expr.BoundExpr, ...], ...]
"""Any of several lists of conditions, all of which hold."""


def pushed_predicates(
    lines: Sequence[StatementDependencies], catalog: Catalog, ticks: bool
) -> Mapping[str, PredicateAlternatives]:
    """By input type what holds of all events that the statements can use; no entry where all may be wanted.

    With `ticks` the clock makes them do something: with a partition, which any event may open, what it begins with may
    start a timer.
    """
    statements = {s.name: s for line in lines for s in line.readers}.values()
    if ticks and any(line.contexts for line in lines):
        return {}
    if any(line.stores or line.triggers or line.variables for line in lines) or any(map(_is_odd, statements)):
        return {}
    contexts = {c.context.name: c for line in lines for c in line.contexts}
    if not all(_opens_unseen(s, contexts[s.context], catalog) for s in statements if s.context is not None):
        return {}
    found: dict[str, PredicateAlternatives] = {}
    for name in dict.fromkeys(name for line in lines for name in line.inputs):
        filters = [f for s in statements for kind, f in _filters(s) if catalog.is_a(name, kind)]
        parts = tuple(tuple(takewhile(_is_of_event, expr.conjuncts(f))) for f in filters)
        if all(parts):
            found[name] = tuple(dict.fromkeys(parts))
    return found


def _is_odd(statement: nodes.StreamStatement) -> bool:
    """Whether it may see of an event more than that its filters let it pass."""
    if type(statement) is not nodes.SelectStatement or statement.join is not None or statement.subqueries:
        return True
    source = statement.source
    if statement.drop or statement.lots or source.nothing or source.store or source.contained or source.lot:
        return True
    if isinstance(source.pattern, Pattern):
        if any(atom.contained for atom in source.pattern.atoms):
            return True
        if statement.context is not None and not starts_undecided(source.pattern.root):
            return True  # it may be true as soon as there is a partition
    elif source.pattern is not None:
        return True
    if not set(event_types_read(statement)) <= {kind for kind, _ in _filters(statement)}:
        return True
    return any(isinstance(e, expr.ContextProp) and e.name == "id" for e in expressions_in(statement))


def _opens_unseen(statement: nodes.StreamStatement, context: ContextStatement, catalog: Catalog) -> bool:
    """Whether it is the same to a statement if a partition is there before an event of its own comes.

    Not where it reads what the context does not divide: that goes to all partitions that there are.
    """
    if not isinstance(context, nodes.CreateContextStatement):
        return False
    divided = [stream.event_type for stream in context.spec.streams]
    return all(any(catalog.is_a(name, each) for each in divided) for name in event_types_read(statement))


def _filters(statement: nodes.StreamStatement) -> Iterator[tuple[str, expr.BoundExpr | None]]:
    """The types that it reads, with the conditions on their events."""
    assert isinstance(statement, nodes.SelectStatement)
    source = statement.source
    if isinstance(source.pattern, Pattern):
        yield from ((atom.event_type, atom.filter) for atom in source.pattern.atoms)
    else:
        yield source.event_type, source.filter


def _is_of_event(condition: expr.BoundExpr) -> bool:
    """Whether Spark can tell it of an event by itself."""
    own = all(e.stream == EVENT_STREAM for e in expr.walk(condition) if isinstance(e, expr.Prop))
    return own and is_expressible(condition)


def push_down(
    events: SqlQuery,
    chosen: Mapping[str, PredicateAlternatives],
    inputs: TaskInputs,
) -> SqlQuery:
    """The tagged events without those that are not `wanted`; `inputs` as in `hosted.Program`."""
    if not chosen:
        return events
    kept = []
    for tag, name, properties, columns in inputs:
        place = dict(zip(properties, columns, strict=True))
        own = f"{TAG} = {tag}"
        if name in chosen:
            ways = (" AND ".join(condition_sql(part, place) for part in way) for way in chosen[name])
            own += f" AND ({' OR '.join(f'({way})' for way in ways) or 'FALSE'})"
        kept.append(f"({own})")
    return events.where(" OR ".join(kept))
