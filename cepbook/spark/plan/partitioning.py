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
else is refused, with a reason for the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cepbook.engine.physical.lowering import lower_statement
from cepbook.lang.plan import expressions as expr
from cepbook.lang.plan import nodes
from cepbook.lang.plan import pattern as patterns
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import StatementDependencies
from cepbook.lang.plan.join_tree import JoinTree
from cepbook.lang.plan.references import (
    event_types_read,
    expressions_in,
    reads_context_id,
    stores_read,
    stores_written,
)
from cepbook.lang.registry.windows import WINDOWS
from cepbook.spark.plan.key_propagation import NO_REQUIREMENT, KeyChoice, KeyRequirement

_ROW_PER_PARTITION = "it has a row for each context partition, in the order in which they began"


def key_requirement_of(
    statement: nodes.StreamStatement, deps: StatementDependencies, catalog: Catalog
) -> KeyRequirement | str:
    """Return which rows of `statement` must have equal keys, or the reason why it cannot be divided."""
    if statement.order_reason:
        return statement.order_reason
    context = next((c for c in deps.contexts if c.context.name == statement.context), None)
    if context is not None:
        return _requirement_in_context(statement, context, deps, catalog)
    if any(source.contained for source in statement.sources):
        return "its events are contained in other events, whose keys they do not have"
    if any(expressions_in(statement, expr.EventTypeName)):
        return "it reads the type of each event (typeof)"
    own = _statement_requirement(statement, deps)
    inside = _subquery_requirement(statement, deps), _table_requirement(statement)
    reason = next((requirement for requirement in (*inside, own) if isinstance(requirement, str)), None)
    return reason or sum((e for e in (own, *inside) if not isinstance(e, str)), NO_REQUIREMENT)


def _statement_requirement(statement: nodes.StreamStatement, deps: StatementDependencies) -> KeyRequirement | str:
    pattern = next((source.pattern for source in statement.sources if source.pattern is not None), None)
    if statement.lookup is not None and pattern is not None:
        return pattern.order_reason
    if statement.output is not None:
        return statement.output.order_reason
    if statement.lookup is not None:
        return _lookup_requirement(statement.lookup)
    if not isinstance(statement, nodes.SelectStatement):
        return NO_REQUIREMENT if pattern is None else "its events come from a pattern"
    if pattern is not None:
        return _pattern_requirement(statement, pattern)
    if statement.root.arranged and depends_on_clock(statement):
        return "rows of all keys that are delivered together are sorted, limited or made distinct"
    if statement.derived is not None:
        return statement.derived.order_reason
    if statement.recognition is not None:
        return _recognition_requirement(statement.recognition, statement)
    aggregation = statement.aggregation
    reason = statement.previous_reason or ("" if aggregation is None else aggregation.order_reason)
    if reason or any(window.reclaim is not None for window in statement.windows):
        return reason or nodes.RECLAIM_REASON
    if statement.join is not None:
        return _join_requirement(statement, statement.join, deps)
    windows = (*_windows_of_named_window(statement.source, deps), *statement.windows)
    of_window = _window_requirement(windows, statement.source.event_type, _expiry_has_no_order(statement, deps))
    if aggregation is None or isinstance(of_window, str):
        return of_window
    if not aggregation.keys:
        return "one aggregate over the events of all keys"
    groups, name = plain_key_properties(aggregation.keys), statement.source.event_type
    allowed = [side[1] for choices in of_window for choice in choices for side in choice]
    keys = groups & allowed[0] if allowed else groups
    return single_key(name, keys) if keys else "no group-by key is a plain property that also divides the windows"


def single_key(name: str, keys: frozenset[str]) -> KeyRequirement:
    """Require that all events of a type that agree in one of `keys` reach the same task."""
    return ((((name, keys),),),)


# ---- what is looked up by a key


def store_key_requirement(
    statement: nodes.StatementPlan, deps: StatementDependencies, catalog: Catalog
) -> KeyRequirement | str:
    """Return what a table or unique index requires: rows of which there is one per value of its keys."""
    local = partition_local_stores(deps, catalog)
    created = statement.created_store
    if created is not None and created.kind == "table" and created.name not in local:
        name, keys = created.name, frozenset(f"#{i}" for i in range(len(created.keys)))
        return single_key(name, keys) if keys else f"the table {name} has one row for the events of all keys"
    index = statement.created_index
    if index is not None and index.unique and index.store not in local:
        return single_key(index.store, frozenset(name for name, _ in index.columns))
    return NO_REQUIREMENT


def _equality_choices(parts: Iterable[expr.BoundExpr], types: Sequence[str]) -> tuple[KeyChoice, ...]:
    """Return the choices of properties that `parts` compare for equality across all the streams of `types`."""
    return tuple(
        tuple((types[stream], props) for stream, props in group) for group in _equal_properties(parts, len(types))
    )


def _lookup_requirement(lookup: nodes.StoreLookup) -> KeyRequirement | str:
    """Return the requirement of ``on …``: it keeps nothing, and each event looks up rows of its own key."""
    choices = _equality_choices(lookup.conditions, (lookup.store.name, lookup.source.event_type))
    return (choices,) if choices else f"its condition does not look up rows of {lookup.store.name} by a key"


def _table_requirement(statement: nodes.StreamStatement) -> KeyRequirement | str:
    requirements: list[tuple[KeyChoice, ...]] = []
    group_keys = _group_keys(statement)
    names = [source.event_type for source in statement.sources]
    within = not _reads_only_its_streams(statement)
    for read in expressions_in(statement, expr.TableRead):
        table = f"rows of all keys of the table {read.table}"
        if read.all_keys or not read.keys:
            return f"it looks at {table}"
        if within or statement.subqueries:
            return f"it may look at {table}"
        choices = [
            ((names[prop.stream], frozenset({prop.name})), (read.table, frozenset({f"#{i}"})))
            for i, key in enumerate(read.keys)
            if (prop := key.of_group(group_keys).key_property) is not None
        ]
        if not choices:
            return f"it looks at {table}"
        requirements.append(tuple(choices))
    return tuple(requirements)


def _reads_only_its_streams(statement: nodes.StreamStatement) -> bool:
    """Return whether the expressions of a statement read only the events of its streams, or combinations of them."""
    if type(statement) is not nodes.SelectStatement or statement.derived is not None:
        return False
    if statement.recognition is not None or any(s.pattern is not None for s in statement.sources):
        return False
    inside = (expr.SubqueryRef, expr.TableRead)  # the streams of a join count theirs as stream 0
    join = statement.join
    return join is None or not any(
        isinstance(e, inside) for input_ in join.inputs for e in expressions_in(input_.stream)
    )


def _subquery_requirement(statement: nodes.StreamStatement, deps: StatementDependencies) -> KeyRequirement | str:
    requirements: list[tuple[KeyChoice, ...]] = []
    if not statement.subqueries:
        return NO_REQUIREMENT
    refusal = "its subqueries read the events of all keys"
    joined_once = statement.projection is not None and statement.lookup is not None
    if not (joined_once or _reads_only_its_streams(statement)):
        return refusal
    group_keys = _group_keys(statement)
    outer = [source.event_type for source in statement.sources]
    for number, subquery in enumerate(statement.subqueries):
        nested = any(expressions_in(subquery, expr.SubqueryRef))
        if nested or subquery.source.pattern is not None or subquery.source.contained:
            return refusal
        refs = [e for e in expressions_in(statement, expr.SubqueryRef) if e.index == number]
        (stream,), name = nodes.streams(subquery.root), subquery.source.event_type
        windows = (*_windows_of_named_window(subquery.source, deps), *nodes.windows_of(stream))
        of_window = _window_requirement(windows, name, True)
        if isinstance(of_window, str) or nodes.stage(subquery.root, nodes.Derivation) is not None:
            return f"{refusal} (in the subquery {of_window})" if isinstance(of_window, str) else refusal
        allowed = next((side[1] for choices in of_window for choice in choices for side in choice), None)
        parts = [*nodes.where_conjuncts(subquery.root), *expr.conjuncts(subquery.source.filter)]
        pairs = [pair for condition in parts if (pair := _correlated_property(condition)) is not None]
        if allowed is not None:
            pairs = [(prop, i) for prop, i in pairs if prop.name in allowed]
        for ref in refs:
            choices = [
                ((name, frozenset({prop.name})), (outer[arg.stream], frozenset({arg.name})))
                for prop, i in pairs
                if (arg := ref.args[i].of_group(group_keys).key_property) is not None and arg.type == prop.type
            ]
            if not choices:
                return f"{refusal}; a comparison with a key of the outer event would divide them"
            requirements.append(tuple(choices))
    return tuple(requirements)


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


# ---- patterns


def _pattern_requirement(statement: nodes.SelectStatement, pattern: patterns.Pattern) -> KeyRequirement | str:
    """Return the requirement of ``every a=A -> …`` if its later events each equal a property of the first one."""
    refusal = pattern.order_reason
    aggregated = statement.kind != "unaggregated" or statement.join is not None or statement.windows
    if aggregated or pattern.suppress_overlapping or pattern.discard_partials:
        return refusal
    first, rest = pattern.leading_every
    if first is None or first.tag is None:
        return refusal
    if any(node.timer for step in rest for node in patterns.walk(step)):
        return f"{refusal}, whose matches come together"
    others = [atom for atom in pattern.atoms if atom is not first]
    if not others:
        return NO_REQUIREMENT
    equalities = [
        [e for e in map(_tag_equality, expr.conjuncts(atom.filter)) if e and e[1] == first.tag] for atom in others
    ]
    choices = []
    for name in dict.fromkeys(equality[2] for pairs_ in equalities for equality in pairs_):
        props = [frozenset(equality[0] for equality in pairs_ if equality[2] == name) for pairs_ in equalities]
        if all(props):
            sides = zip(others, props, strict=True)
            choices.append(
                ((first.event_type, frozenset({name})), *((atom.event_type, equality) for atom, equality in sides))
            )
    return (
        (tuple(choices),) if choices else f"{refusal}; events that equal `{first.tag}` in a key could be divided by it"
    )


def _tag_equality(condition: expr.BoundExpr) -> tuple[str, str, str] | None:
    """Return the event's property, the tag and the tag's property of ``property = tag.property``; else None."""
    for inner, other in expr.equality_sides(condition):
        prop, tag = inner.key_property, other.tag_member(patterns.MATCH_STREAM)
        if prop is not None and prop.stream == patterns.EVENT_STREAM and tag is not None and other.type == prop.type:
            return prop.name, *tag
    return None


# ---- joins


def _join_requirement(
    statement: nodes.SelectStatement, join: nodes.StreamJoin, deps: StatementDependencies
) -> KeyRequirement | str:
    """Return the requirement of a join: partners must meet in one task, so its streams must be joined by equal keys."""
    allowed: list[frozenset[str] | None] = []  # by stream: what may divide its windows; None: anything
    names = [source.event_type for source in statement.sources]
    for input_, source in zip(join.inputs, statement.sources, strict=True):
        windows = (*_windows_of_named_window(source, deps), *nodes.windows_of(input_.stream))
        need = _window_requirement(windows, source.event_type, _expiry_has_no_order(statement, deps))
        if isinstance(need, str):
            return need
        allowed.append(next((side[1] for choices in need for choice in choices for side in choice), None))
    parts = [condition for input_ in join.inputs for condition in expr.conjuncts(input_.on)]
    if all(input_.kind == "inner" for input_ in join.inputs):
        parts += nodes.where_conjuncts(statement.root)
    groups = [
        {
            stream: props if limit is None else props & limit
            for (stream, props), limit in zip(equal, allowed, strict=True)
        }
        for equal in _equal_properties(parts, len(join.inputs))
    ]
    aggregation = statement.aggregation
    if aggregation is not None:
        keys = {(prop.stream, prop.name) for key in aggregation.keys if (prop := key.key_property) is not None}
        sides = [{stream for stream, props in g.items() if any((stream, p) in keys for p in props)} for g in groups]
        tree = JoinTree(join.inputs)
        made_of = [tree.required(start) for start in range(len(names))]  # without the sides all keys are null
        groups = [g for g, own in zip(groups, sides, strict=True) if all(own & streams for streams in made_of)]
    choices = tuple(
        tuple((names[stream], group[stream]) for stream in range(len(join.inputs)))
        for group in groups
        if all(group.values())
    )
    return (choices,) if choices else "its streams are not all joined by equal keys that divide them"


def _equal_properties(parts: Iterable[expr.BoundExpr], count: int) -> list[list[tuple[int, frozenset[str]]]]:
    """Return by stream the groups of properties that are equal in all rows, of groups that cover every stream."""
    sets: list[set[tuple[int, str]]] = []
    for condition in parts:
        pair = [prop for side, _ in expr.equality_sides(condition) if (prop := side.key_property) is not None]
        if len(pair) < 2 or pair[0].type != pair[1].type or max(e.stream for e in pair) >= count:
            continue
        equal = {(e.stream, e.name) for e in pair}
        joined = [group for group in sets if group & equal]
        sets = [group for group in sets if not group & equal] + [equal.union(*joined)]
    by_stream = [
        [(i, frozenset(name for stream, name in group if stream == i)) for i in range(count)] for group in sets
    ]
    return [group for group in by_stream if all(props for _, props in group)]


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
) -> KeyRequirement | str:
    """Return the requirement of a statement of which every partition has its own state."""
    streams = partition_streams(context)
    if isinstance(streams, str):
        return _ROW_PER_PARTITION if statement.source.without_from else streams
    names = [stream.event_type for stream in streams]
    refusal = partition_obstacle(statement, context, names, deps, catalog)
    if refusal is not None:
        return refusal
    positions = range(len(streams[0].keys))
    sides = [(s.event_type, s) for s in streams]
    for store in inserted_windows(deps, context):  # whose rows find their partition as events do
        stream = next((s for s in streams if catalog.is_a(store.store.partitioned_as or "", s.event_type)), None)
        sides += [] if stream is None else [(store.store.name, stream)]
    choices = (tuple((name, plain_key_properties(s.keys[i : i + 1])) for name, s in sides) for i in positions)
    return (tuple(choice for choice in choices if all(keys for _, keys in choice)),)


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
        return "its events are contained in other events, whose keys they do not have"
    if statement.source.without_from:
        return _ROW_PER_PARTITION
    together = depends_on_clock(statement) or not context.permanent
    if together and statement.projection is not None and statement.projection.arranged:
        return "rows of all keys that are delivered together are sorted, limited or made distinct"
    if any(expressions_in(statement.output, expr.VariableRead)):
        return "its output clause follows variables"
    if reads_context_id(statement):
        return "context.id numbers the partitions in order of their first event"
    if any(expressions_in(statement, expr.EventTypeName)):
        return "it reads the type of each event (typeof)"
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
    plain = type(statement) is nodes.SelectStatement and not statement.subqueries
    return not (plain and lower_statement(statement).lazy)


def _recognition_requirement(recognize: nodes.Recognition, statement: nodes.SelectStatement) -> KeyRequirement | str:
    """Return the requirement of ``match_recognize``: the rows of each partition, if nothing else ties partitions
    together.
    """
    keys = plain_key_properties(recognize.keys)
    if recognize.interval is not None:
        return "the intervals of its matches follow the clock of the whole stream"
    if statement.windows or statement.context is not None:
        return "rows of all keys in its window, or of its context, make matches"
    of_matches = statement.root.columns, tuple(e for e, _ in statement.root.order_by)
    if statement.kind != "unaggregated" or any(expressions_in(of_matches, expr.Prior)):
        return "its matches are aggregated together"
    return single_key(statement.source.event_type, keys) if keys else "its matches are in the rows of the whole stream"


def _windows_of_named_window(source: nodes.SourceNode, deps: StatementDependencies) -> tuple[nodes.WindowSpec, ...]:
    """Return the windows through which the rows of the named window that `source` reads have gone."""
    return next((window.windows for window in deps.named_windows if window.store == source.store), ())


def _window_requirement(
    windows: Sequence[nodes.WindowSpec], event_type: str, without_order: bool
) -> KeyRequirement | str:
    """Return the requirement of windows over a type, at most one of which may keep events."""
    grouping = windows[0] if windows and windows[0].row.grouping else None
    rest = windows[1:] if grouping is not None else windows
    if len(rest) > 1:
        return "several data windows keep events together"
    row = WINDOWS[rest[0].name if rest else "keepall"]
    window = rest[0].written_name if rest else row.name
    if row.alone and row.timed and not without_order:
        return "events of all keys that expire together leave in one delivery, in order of arrival"
    if grouping is not None:
        keys = plain_key_properties(grouping.args)
        if not row.independent_groups:
            return f"the window {window} is not known to run for each group by itself"
        return single_key(event_type, keys) if keys else "no groupwin key is a plain property"
    if row.alone:
        return NO_REQUIREMENT
    if row.divides:
        keys = plain_key_properties(rest[0].args)
        return single_key(event_type, keys) if keys else "no unique criterion is a plain property"
    return f"the window {window} holds events of all keys"


def _expiry_has_no_order(statement: nodes.SelectStatement, deps: StatementDependencies) -> bool:
    """Return whether no row shows the order of expiry: remove rows are not delivered, or are rows of groups."""
    if statement.kind == "fully_aggregated_grouped":
        return True
    if statement.created_store is not None and statement.name != deps.target:
        return True  # those that read it say what they show
    return statement.selector == "istream" and (statement.insert is None or statement.insert.selector == "istream")


def plain_key_properties(keys: Iterable[expr.BoundExpr]) -> frozenset[str]:
    """Return the keys that are properties by whose values Spark and the engine divide events alike."""
    return frozenset(prop.name for key in keys if (prop := key.key_property) is not None)
