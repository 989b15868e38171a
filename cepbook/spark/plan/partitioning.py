"""Partitioning: the keys by which the state of a statement can be divided among tasks.

Each input type is divided by one of its properties, the key. Derived streams and stores (named windows, tables) carry
the key in the properties to which every writer copies it (`key_propagation`). A *key requirement* states which rows
must have equal keys: all that can meet in the state of a statement. Then a task that has all events of a key also has
everything that can meet there:

    group, window of a group, unique window     one of the group's keys
    streams of a join                           properties that are compared for equality, one of each stream
    subquery, table read, on-select, on-merge   the property by which rows are looked up, and that of the event
    ``every a=A -> b=B(k = a.k)``               k of both
    context partitioned by a property           the properties of its key

A requirement is a conjunction of alternatives. A statement without state that a row shows requires nothing. Everything
else is refused, with a reason for the user. The clauses state their requirements (`lang.plan.key_requirement`), and
this module adds those that look further: at subqueries, tables and contexts.
"""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.engine.physical.lowering import lower_statement
from cepbook.lang.plan import expressions as expr
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import StatementDependencies
from cepbook.lang.plan.join_tree import JoinTree
from cepbook.lang.plan.key_requirement import (
    NO_REQUIREMENT,
    KeyRequirement,
    equal_columns,
    one_of,
    plain_key_properties,
)
from cepbook.lang.plan.references import (
    event_types_read,
    expressions_in,
    reads_context_id,
    stores_read,
    stores_written,
)

_ROW_PER_PARTITION = "it has a row for each context partition, in the order in which they began"
_CONTAINED_REASON = "its events are contained in other events, whose keys they do not have"
_TYPE_NAME_REASON = "it reads the type of each event (typeof)"


def key_requirement_of(
    statement: nodes.StreamStatement, deps: StatementDependencies, catalog: Catalog
) -> KeyRequirement:
    """Return which rows of `statement` must have equal keys, or the reason why it cannot be divided."""
    if statement.order_reason:
        return KeyRequirement(reason=statement.order_reason)
    context = next((c for c in deps.contexts if c.context.name == statement.context), None)
    if context is not None:
        return _requirement_in_context(statement, context, deps, catalog)
    if any(source.contained for source in statement.sources):
        return KeyRequirement(reason=_CONTAINED_REASON)
    if any(expressions_in(statement, expr.EventTypeName)):
        return KeyRequirement(reason=_TYPE_NAME_REASON)
    inputs = () if statement.join is None else statement.join.inputs
    surroundings = nodes.KeyContext(
        stored_windows={window.store.name: window.windows for window in deps.named_windows},
        clocked=depends_on_clock(statement),
        target=deps.target,
        required_streams=[JoinTree(inputs).required(stream) for stream in range(len(inputs))],
    )
    looked_up = _subquery_requirement(statement, surroundings) + _table_requirement(statement)
    return looked_up + statement.key_requirement(surroundings)


# ---- what is looked up by a key


def store_key_requirement(
    statement: nodes.StatementPlan, deps: StatementDependencies, catalog: Catalog
) -> KeyRequirement:
    """Return what a table or unique index requires: rows of which there is one per value of its keys."""
    local = partition_local_stores(deps, catalog)
    created = statement.created_store
    if created is not None and created.kind == "table" and created.name not in local:
        name, keys = created.name, frozenset(f"#{i}" for i in range(len(created.keys)))
        return equal_columns(name, keys, f"the table {name} has one row for the events of all keys")
    index = statement.created_index
    if index is not None and index.unique and index.store not in local:
        columns = frozenset(name for name, _ in index.columns)
        return equal_columns(index.store, columns, f"the unique index of {index.store} has no columns")
    return NO_REQUIREMENT


def _table_requirement(statement: nodes.StreamStatement) -> KeyRequirement:
    requirement = NO_REQUIREMENT
    group_keys = _group_keys(statement)
    names = [source.event_type for source in statement.sources]
    within = not _reads_only_its_streams(statement)
    for read in expressions_in(statement, expr.TableRead):
        table = f"rows of all keys of the table {read.table}"
        if read.all_keys or not read.keys:
            return requirement + KeyRequirement(reason=f"it looks at {table}")
        if within or statement.subqueries:
            return requirement + KeyRequirement(reason=f"it may look at {table}")
        choices = [
            ((names[prop.stream], frozenset({prop.name})), (read.table, frozenset({f"#{i}"})))
            for i, key in enumerate(read.keys)
            if (prop := key.of_group(group_keys).key_property) is not None
        ]
        requirement += one_of(choices, f"it looks at {table}")
    return requirement


def _reads_only_its_streams(statement: nodes.StreamStatement) -> bool:
    """Return whether the expressions of a statement read only the events of its streams, or combinations of them."""
    if not statement.is_query or statement.derived is not None:
        return False
    if statement.recognition is not None or any(s.pattern is not None for s in statement.sources):
        return False
    streams = () if statement.join is None else tuple(input_.stream for input_ in statement.join.inputs)
    looked_up = (*expressions_in(streams, expr.SubqueryRef), *expressions_in(streams, expr.TableRead))
    return not looked_up  # the streams of a join count theirs as stream 0


def _subquery_requirement(statement: nodes.StreamStatement, context: nodes.KeyContext) -> KeyRequirement:
    requirement = NO_REQUIREMENT
    if not statement.subqueries:
        return requirement
    refusal = "its subqueries read the events of all keys"
    joined_once = statement.projection is not None and statement.lookup is not None
    if not (joined_once or _reads_only_its_streams(statement)):
        return KeyRequirement(reason=refusal)
    group_keys = _group_keys(statement)
    outer = [source.event_type for source in statement.sources]
    for number, subquery in enumerate(statement.subqueries):
        source = subquery.source
        if any(expressions_in(subquery, expr.SubqueryRef)) or source.pattern is not None or source.contained:
            return requirement + KeyRequirement(reason=refusal)
        refs = [e for e in expressions_in(statement, expr.SubqueryRef) if e.index == number]
        of_windows = subquery.key_requirement(context)
        if of_windows.reason:
            return requirement + KeyRequirement(reason=f"{refusal} (in the subquery {of_windows.reason})")
        if nodes.stage(subquery.root, nodes.Derivation) is not None:
            return requirement + KeyRequirement(reason=refusal)
        parts = [*nodes.where_conjuncts(subquery.root), *expr.conjuncts(source.filter)]
        pairs = [pair for condition in parts if (pair := _correlated_property(condition)) is not None]
        if of_windows.columns is not None:
            pairs = [(prop, i) for prop, i in pairs if prop.name in of_windows.columns]
        for ref in refs:
            choices = [
                ((source.event_type, frozenset({prop.name})), (outer[arg.stream], frozenset({arg.name})))
                for prop, i in pairs
                if (arg := ref.args[i].of_group(group_keys).key_property) is not None and arg.type == prop.type
            ]
            requirement += one_of(choices, f"{refusal}; a comparison with a key of the outer event would divide them")
    return requirement


def _group_keys(statement: nodes.StreamStatement) -> tuple[expr.BoundExpr, ...]:
    return () if statement.aggregation is None else statement.aggregation.keys


def _correlated_property(condition: expr.BoundExpr) -> tuple[expr.Prop, int] | None:
    """Return the inner property that a condition of a subquery compares with an outer value, and the number of that
    value.
    """
    for inner, other in expr.equality_sides(condition):
        if inner.key_property is not None and other.parameter_index is not None:
            return inner.key_property, other.parameter_index
    return None


# ---- contexts


def partition_streams(context: nodes.ContextStatement) -> tuple[nodes.KeyedStream, ...] | str:
    """Return the streams whose keys divide the partitions of a context, or the reason why there are none."""
    refusal = f"the partitions of the context {context.context.name} begin and end with the whole stream"
    levels = [level for _, level in context.levels]
    for position, level in enumerate(levels):
        if level.keyed_streams:
            around = tuple(outer for outer in levels[:position] if not outer.event_types)
            if list(event_types_read(around)):
                return f"{refusal}: its outer level begins and ends with events of all keys"
            return level.keyed_streams
    return refusal


def _requirement_in_context(
    statement: nodes.StreamStatement, context: nodes.ContextStatement, deps: StatementDependencies, catalog: Catalog
) -> KeyRequirement:
    """Return the requirement of a statement of which every partition has its own state."""
    streams = partition_streams(context)
    if isinstance(streams, str):
        return KeyRequirement(reason=_ROW_PER_PARTITION if statement.source.without_from else streams)
    names = [stream.event_type for stream in streams]
    refusal = partition_obstacle(statement, context, names, deps, catalog)
    if refusal is not None:
        return KeyRequirement(reason=refusal)
    positions = range(len(streams[0].keys))
    sides = [(s.event_type, s) for s in streams]
    for store in inserted_windows(deps, context):  # whose rows find their partition as events do
        stream = next((s for s in streams if catalog.is_a(store.store.partitioned_as or "", s.event_type)), None)
        sides += [] if stream is None else [(store.store.name, stream)]
    choices = (tuple((name, plain_key_properties(s.keys[i : i + 1])) for name, s in sides) for i in positions)
    return KeyRequirement((tuple(choice for choice in choices if all(keys for _, keys in choice)),))


def partition_obstacle(
    statement: nodes.StreamStatement,
    context: nodes.ContextStatement,
    divided: Sequence[str],
    deps: StatementDependencies,
    catalog: Catalog,
) -> str | None:
    """Return why the keys of the types `divided` do not divide the partitions of a context; None if they do."""
    local = partition_local_stores(deps, catalog)
    read = [t for t in event_types_read((statement, context)) if t not in local]
    for name in read:
        if not any(catalog.is_a(name, event_type) for event_type in divided):
            return f"it reads {name}, which the context {context.context.name} does not divide"
    shared = (stores_read(statement) | stores_written(statement, catalog)) - local
    if shared:
        return f"it reads or changes {min(shared)}, which holds the rows of all keys"
    if any(source.contained for source in statement.sources):
        return _CONTAINED_REASON
    if statement.source.without_from:
        return _ROW_PER_PARTITION
    together = depends_on_clock(statement) or not context.permanent
    if together and statement.projection is not None and statement.projection.arranged:
        return nodes.ARRANGED_REASON
    if any(expressions_in(statement.output, expr.VariableRead)):
        return "its output clause follows variables"
    if reads_context_id(statement):
        return "context.id numbers the partitions in order of their first event"
    if any(expressions_in(statement, expr.EventTypeName)):
        return _TYPE_NAME_REASON
    return None


def partition_local_stores(deps: StatementDependencies, catalog: Catalog) -> set[str]:
    """Return the stores that each context partition has for itself, and that no statement outside of the context uses.

    A row that is inserted into a named window goes to all partitions, unless the window was created as a type that the
    context divides.
    """
    local = set()
    undivided = set()
    for context in deps.contexts:
        types = _divided_types(context)
        for window in inserted_windows(deps, context):
            if not any(catalog.is_a(window.store.partitioned_as or "", event_type) for event_type in types):
                undivided.add(window.store.name)
    for store in (statement.created_store for statement in deps.stores):
        if store is not None and store.context is not None:
            using = [r for r in deps.readers if store.name in stores_read(r) | stores_written(r, catalog)]
            if all(r.context == store.context for r in using) and store.name not in undivided:
                local.add(store.name)
    return local


def inserted_windows(deps: StatementDependencies, context: nodes.ContextStatement) -> list[nodes.CreateWindowStatement]:
    """Return the named windows of a context that statements insert into."""
    targets = {insert.target for reader in deps.readers for insert in reader.inserts}
    return [w for w in deps.named_windows if w.context == context.context.name and w.store.name in targets]


def _divided_types(context: nodes.ContextStatement) -> list[str]:
    """Return the event types whose events the dividing level of a context assigns to different partitions."""
    streams = partition_streams(context)
    if not isinstance(streams, str):
        return [stream.event_type for stream in streams]
    return list(context.levels[0][1].event_types)


# ---- the rest


def depends_on_clock(statement: nodes.StreamStatement) -> bool:
    """Return whether an advance of the clock can make the statement deliver rows, or drop state that a row would show.

    The answer is conservative: True may be returned for a statement whose timers never fire.
    """
    if statement.uses_clock:
        return True
    inner = [stage for subquery in statement.subqueries for stage in nodes.stages(subquery.root, nodes.Windowed)]
    if any(window.row.timed and not window.row.lazy_expiry for stage in inner for window in stage.windows):
        return True
    arguments = tuple(window.args for window in statement.windows)
    if any(expressions_in(arguments, expr.VariableRead)):
        return True
    if not any(window.row.timed for window in statement.windows):
        return False
    # No row shows the events that leave a lazy window.
    return bool(statement.subqueries) or not (statement.is_query and lower_statement(statement).lazy)
