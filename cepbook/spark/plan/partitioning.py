"""By which keys the state of a statement can be divided among tasks, decided from its plan.

Each input type is divided by one of its properties, the key. A stream that is derived and a store (named window, table)
carry the key in those properties that all who write into them copy it to. A statement's need is that what meets in its
state, groups, windows, partners of joins, rows that a trigger looks up, has equal keys; then a task that has all events
of a key has all that can meet there. What is not known to be so is refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cepbook.lang.plan import context as contexts
from cepbook.lang.plan import expressions as expr
from cepbook.lang.plan import nodes
from cepbook.lang.plan import pattern as patterns
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import ContextStatement, StatementDependencies, event_sources, recognition_of
from cepbook.lang.plan.references import event_types_read, expressions_in, stores_read, stores_written
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.types import EXACT_KEY_TYPES
from cepbook.spark.plan.clock_dependence import depends_on_clock, pattern_uses_clock
from cepbook.spark.plan.key_propagation import NO_REQUIREMENT, KeyChoice, KeyRequirement, aggregation_of, tag_member

_A_ROW_EACH = "it has a row for each context partition, in order of their beginning"


def key_requirement_of(
    statement: nodes.StreamStatement, line: StatementDependencies, catalog: Catalog
) -> KeyRequirement | str:
    """What `statement` needs to be divided, or why it cannot be."""
    if isinstance(statement, nodes.CycleStatement):
        return "it is run in cycles, each of which takes what waits of all keys"
    if statement.drop:
        return "it may hide events from others (@Drop)"
    if isinstance(statement, nodes.OnSetStatement):
        return "it assigns variables, which all keys share"
    if isinstance(statement, nodes.SelectStatement) and statement.lots:
        return "it takes what arrives together as one change"
    context = next((c for c in line.contexts if c.context.name == statement.context), None)
    if context is not None:
        return _need_in_partitions(statement, context, line, catalog)
    if any(source.contained for source in event_sources(statement)):
        return "its events are contained in others, whose properties are not theirs"
    if any(isinstance(e, expr.EventTypeName) for e in expressions_in(statement)):
        return "it asks for the type of each event (typeof)"
    inside = _need_of_subqueries(statement, line), _need_of_table_reads(statement)
    reasons = [each for each in inside if isinstance(each, str)]
    if reasons:
        return reasons[0]
    own = _need_of_statement(statement, line)
    return own if isinstance(own, str) else sum((e for e in inside if not isinstance(e, str)), own)


def _need_of_statement(statement: nodes.StreamStatement, line: StatementDependencies) -> KeyRequirement | str:
    if isinstance(statement, nodes.MergeStatement):
        if statement.source.pattern is not None:
            return _whole_pattern(statement)
        sides = (statement.target.name, statement.source.event_type)
        ways = _ways_of_equality(expr.conjuncts(statement.predicate), sides)
        return (ways,) if ways else f"its condition does not look up rows of {statement.target.name} by a key"
    if not isinstance(statement, nodes.SelectStatement):
        return "its events come from a pattern" if statement.source.pattern is not None else NO_REQUIREMENT
    if isinstance(statement, nodes.OnSelectStatement):
        return _need_of_look_up(statement)
    patterned = [source for source in statement.sources if source.pattern is not None]
    if statement.output is not None:
        return _whole_output(statement.output)
    if patterned:
        return _need_of_pattern(statement)
    if is_ordered_or_limited(statement.root) and depends_on_clock(statement):
        return "rows of all keys that are delivered together are put in order, made distinct or limited"
    if statement.derived is not None:
        return f"the window {statement.derived.name} derives values from the events of all keys"
    recognize = recognition_of(statement.root)
    if recognize is not None:
        return _need_of_rows(recognize, statement)
    if any(isinstance(e, expr.Prior) for e in expressions_in(statement.root)):
        return "it looks at the events of all keys that came before (prior)"
    if any(isinstance(e, expr.Prev) for e in expressions_in(statement.root)) and not _grouped(statement):
        return "it looks at the events of all keys in its window (prev)"
    aggregation = aggregation_of(statement)
    if aggregation is not None and (aggregation.levels or any(c.group_by is not None for c in aggregation.calls)):
        return "it has groups of several kinds"
    reclaims = aggregation is not None and aggregation.reclaim is not None
    if reclaims or any(w.reclaim is not None for w in statement.windows):
        return "events of any key may make it forget groups"
    if statement.join is not None:
        return _need_of_join(statement, statement.join, line)
    windows = (*_windows_of_store(statement.source, line), *statement.windows)
    of_window = _need_of_windows(windows, statement.source.event_type, _expiry_has_no_order(statement, line))
    if aggregation is None or isinstance(of_window, str):
        return of_window
    if not aggregation.keys:
        return "one aggregate over the events of all keys"
    groups, name = plain_key_properties(aggregation.keys), statement.source.event_type
    allowed = [side[1] for ways in of_window for way in ways for side in way]
    keys = groups & allowed[0] if allowed else groups
    return single_key(name, keys) if keys else "no group-by key is a plain property that also divides the windows"


def single_key(name: str, keys: frozenset[str]) -> KeyRequirement:
    """All events of a type that agree in one of `keys`."""
    return ((((name, keys),),),)


def _grouped(statement: nodes.SelectStatement) -> bool:
    return bool(statement.windows) and statement.windows[0].row.grouping


# ---- what is looked up by a key


def store_key_requirement(
    statement: nodes.StatementPlan, line: StatementDependencies, catalog: Catalog
) -> KeyRequirement | str:
    """What a table, or a unique index, needs: rows of which there is one for each value of its keys."""
    own = partition_local_stores(line, catalog)
    if isinstance(statement, nodes.CreateTableStatement) and statement.store.name not in own:
        name, keys = statement.store.name, frozenset(f"#{i}" for i in range(len(statement.store.keys)))
        return single_key(name, keys) if keys else f"the table {name} has one row for the events of all keys"
    if (
        isinstance(statement, nodes.CreateIndexStatement)
        and statement.index.unique
        and statement.index.store not in own
    ):
        return single_key(statement.index.store, frozenset(name for name, _ in statement.index.columns))
    return NO_REQUIREMENT


def _ways_of_equality(parts: Iterable[expr.BoundExpr], types: Sequence[str]) -> tuple[KeyChoice, ...]:
    """The ways in which conditions ask for equal properties of all the streams of `types`."""
    return tuple(
        tuple((types[stream], props) for stream, props in each) for each in _equal_properties(parts, len(types))
    )


def _need_of_look_up(statement: nodes.OnSelectStatement) -> KeyRequirement | str:
    """Of ``on … select``: nothing is kept of it, and each event looks at rows of its own key."""
    if any(source.pattern is not None for source in statement.sources):
        return _whole_pattern(statement)
    if statement.output is not None:
        return _whole_output(statement.output)
    parts = [p for node in nodes.chain(statement.root) if isinstance(node, nodes.Selection) for p in (node.predicate,)]
    ways = _ways_of_equality(
        [each for part in parts for each in expr.conjuncts(part)], [s.event_type for s in statement.sources]
    )
    return (ways,) if ways else f"its condition does not look up rows of {statement.target.name} by a key"


def _need_of_table_reads(statement: nodes.StreamStatement) -> KeyRequirement | str:
    found: list[tuple[KeyChoice, ...]] = []
    names = [source.event_type for source in event_sources(statement)]
    within = not _plain_rows(statement)
    for read in (e for e in expressions_in(statement) if isinstance(e, expr.TableRead)):
        table = f"rows of all keys of the table {read.table}"
        if read.all_keys or not read.keys:
            return f"it looks at {table}"
        if within or statement.subqueries:
            return f"it may look at {table}"
        ways = [
            ((names[key.stream], frozenset({key.name})), (read.table, frozenset({f"#{i}"})))
            for i, key in enumerate(_ungrouped(each, statement) for each in read.keys)
            if isinstance(key, expr.Prop) and key.type.name in EXACT_KEY_TYPES
        ]
        if not ways:
            return f"it looks at {table}"
        found.append(tuple(ways))
    return tuple(found)


def _plain_rows(statement: nodes.StreamStatement) -> bool:
    """Whether the expressions of a statement read its events, or the combinations of its streams, and nothing else."""
    if type(statement) is not nodes.SelectStatement or statement.derived is not None:
        return False
    if recognition_of(statement.root) is not None or any(s.pattern is not None for s in statement.sources):
        return False
    inside = (expr.SubqueryRef, expr.TableRead)  # the streams of a join count theirs as stream 0
    join = statement.join
    return join is None or not any(isinstance(e, inside) for each in join.inputs for e in expressions_in(each.stream))


def _need_of_subqueries(statement: nodes.StreamStatement, line: StatementDependencies) -> KeyRequirement | str:
    found: list[tuple[KeyChoice, ...]] = []
    if not statement.subqueries:
        return NO_REQUIREMENT
    refusal = "its subqueries look at the events of all keys"
    if not (_plain_rows(statement) or isinstance(statement, nodes.OnSelectStatement)):
        return refusal
    outer = [source.event_type for source in event_sources(statement)]
    for number, subquery in enumerate(statement.subqueries):
        nested = any(isinstance(e, expr.SubqueryRef) for e in expressions_in(subquery))
        if nested or subquery.source.pattern is not None or subquery.source.contained:
            return refusal
        refs = [e for e in expressions_in(statement) if isinstance(e, expr.SubqueryRef) and e.index == number]
        stages = [n for n in nodes.chain(subquery.root) if isinstance(n, nodes.Windowed)]
        windows = [w for stage in reversed(stages) for w in stage.windows]
        name = subquery.source.event_type
        of_window = _need_of_windows((*_windows_of_store(subquery.source, line), *windows), name, True)
        if isinstance(of_window, str) or any(isinstance(n, nodes.Derivation) for n in nodes.chain(subquery.root)):
            return f"{refusal} (in the subquery {of_window})" if isinstance(of_window, str) else refusal
        allowed = next((side[1] for ways in of_window for way in ways for side in way), None)
        conditions = [n.predicate for n in nodes.chain(subquery.root) if isinstance(n, nodes.Selection)]
        parts = [p for c in (*conditions, subquery.source.filter) if c is not None for p in expr.conjuncts(c)]
        pairs = [pair for part in parts if (pair := _correlated(part)) is not None]
        if allowed is not None:
            pairs = [(prop, i) for prop, i in pairs if prop.name in allowed]
        for ref in refs:
            ways = [
                ((name, frozenset({prop.name})), (outer[arg.stream], frozenset({arg.name})))
                for prop, i in pairs
                for arg in (_ungrouped(ref.args[i], statement),)
                if isinstance(arg, expr.Prop) and arg.type == prop.type
            ]
            if not ways:
                return f"{refusal}; compared with a key of the outer events they could be divided"
            found.append(tuple(ways))
    return tuple(found)


def _ungrouped(value: expr.BoundExpr, statement: nodes.StreamStatement) -> expr.BoundExpr:
    """What a group-by key stands for."""
    keyed = aggregation_of(statement) if isinstance(statement, nodes.SelectStatement) else None
    return keyed.keys[value.index] if keyed is not None and isinstance(value, expr.KeyRef) else value


def _correlated(part: expr.BoundExpr) -> tuple[expr.Prop, int] | None:
    """The property that a condition of a subquery compares with a value from around it, and the number of that."""
    if not (isinstance(part, expr.ComparisonExpr) and part.op == "="):
        return None
    for own, other in ((part.left, part.right), (part.right, part.left)):
        if (
            isinstance(own, expr.Prop)
            and own.type.name in EXACT_KEY_TYPES
            and isinstance(other, expr.SubqueryParameter)
        ):
            return own, other.index
    return None


# ---- patterns


def _whole_pattern(statement: nodes.StreamStatement) -> str:
    found = (source.pattern for source in event_sources(statement))
    timed = any(pattern_uses_clock(pattern) for pattern in found if isinstance(pattern, patterns.Pattern))
    return f"its pattern follows the events {'and the clock ' if timed else ''}of the whole stream"


def _whole_output(output: nodes.OutputClause) -> str:
    counted = output.kind in (None, "events") and not isinstance(output.after, expr.Period)
    what = "counts the events" if counted else "follows the events and the clock"
    return f"its output clause {what} of the whole stream"


def _need_of_pattern(statement: nodes.SelectStatement) -> KeyRequirement | str:
    """Of ``every a=A -> …`` whose later events have a property that is equal to one of the first."""
    refusal = _whole_pattern(statement)
    aggregated = statement.kind != "unaggregated" or statement.join is not None or statement.windows
    pattern = statement.source.pattern
    if pattern is None or aggregated or pattern.suppress_overlapping or pattern.discard_partials:
        return refusal
    first, rest = leading_every(pattern)
    if first is None or first.tag is None:
        return refusal
    if any(
        isinstance(n, patterns.IntervalTimer | patterns.CrontabTimer | patterns.ScheduleTimer)
        for e in rest
        for n in patterns.walk(e)
    ):
        return f"{refusal}, whose matches come together"
    others = [atom for atom in pattern.atoms if atom is not first]
    if not others:
        return NO_REQUIREMENT
    found = [[e for e in map(_same_as_tag, expr.conjuncts(atom.filter)) if e and e[1] == first.tag] for atom in others]
    ways = []
    for name in dict.fromkeys(own[2] for each in found for own in each):
        props = [frozenset(own[0] for own in each if own[2] == name) for each in found]
        if all(props):
            sides = zip(others, props, strict=True)
            ways.append(((first.event_type, frozenset({name})), *((atom.event_type, own) for atom, own in sides)))
    return (tuple(ways),) if ways else f"{refusal}; events that equal `{first.tag}` in a key could be divided by it"


def leading_every(pattern: patterns.Pattern) -> tuple[patterns.Atom | None, tuple[patterns.PatternExpr, ...]]:
    """Of ``every a=A -> …`` its first event, for each of which the rest begins anew, and the rest; else None."""
    root = pattern.root
    steps = root.operands if isinstance(root, patterns.FollowedByPattern) else (root,)
    maxima = root.maxima if isinstance(root, patterns.FollowedByPattern) else ()
    first = steps[0]
    plain_ = (
        isinstance(first, patterns.EveryPattern) and first.keys is None and isinstance(first.operand, patterns.Atom)
    )
    if not plain_ or any(m is not None for m in maxima) or any(a.consume or a.contained for a in pattern.atoms):
        return None, ()
    assert isinstance(first, patterns.EveryPattern) and isinstance(first.operand, patterns.Atom)
    return first.operand, steps[1:]


def _same_as_tag(part: expr.BoundExpr) -> tuple[str, str, str] | None:
    """The property of the event, the tag and its property of ``property = tag.property``."""
    if not (isinstance(part, expr.ComparisonExpr) and part.op == "="):
        return None
    for own, other in ((part.left, part.right), (part.right, part.left)):
        if isinstance(own, expr.Prop) and own.stream == patterns.EVENT_STREAM and own.type.name in EXACT_KEY_TYPES:
            tag = tag_member(other, patterns.MATCH_STREAM)
            if tag is not None and other.type == own.type:
                return own.name, *tag
    return None


# ---- joins


def _need_of_join(
    statement: nodes.SelectStatement, join: nodes.StreamJoin, line: StatementDependencies
) -> KeyRequirement | str:
    """Of a join whose streams are joined by equal keys: partners are in the same task where keys divide the tasks."""
    allowed: list[frozenset[str] | None] = []  # by stream: what may divide its windows; None: anything
    names = [source.event_type for source in statement.sources]
    for each, source in zip(join.inputs, statement.sources, strict=True):
        windows = [node.windows for node in nodes.chain(each.stream) if isinstance(node, nodes.Windowed)]
        own = (*_windows_of_store(source, line), *(w for stage in reversed(windows) for w in stage))
        need = _need_of_windows(own, source.event_type, _expiry_has_no_order(statement, line))
        if isinstance(need, str):
            return need
        allowed.append(next((side[1] for ways in need for way in ways for side in way), None))
    parts = [part for each in join.inputs for part in expr.conjuncts(each.on)]
    if all(each.kind == "inner" for each in join.inputs):
        selections = (node for node in nodes.chain(statement.root) if isinstance(node, nodes.Selection))
        parts += [part for node in selections for part in expr.conjuncts(node.predicate)]
    groups = [
        {
            stream: props if limit is None else props & limit
            for (stream, props), limit in zip(found, allowed, strict=True)
        }
        for found in _equal_properties(parts, len(join.inputs))
    ]
    aggregation = aggregation_of(statement)
    if aggregation is not None:
        keys = {(e.stream, e.name) for e in aggregation.keys if isinstance(e, expr.Prop)}
        sides = [{stream for stream, props in g.items() if any((stream, p) in keys for p in props)} for g in groups]
        made_of = _combinations(join)  # of those without any of the sides all keys are in the group of null
        groups = [g for g, own in zip(groups, sides, strict=True) if all(own & each for each in made_of)]
    ways = tuple(
        tuple((names[stream], group[stream]) for stream in range(len(join.inputs)))
        for group in groups
        if all(group.values())
    )
    return (ways,) if ways else "its streams are not all joined by keys that are equal and divide them"


def _combinations(join: nodes.StreamJoin) -> set[frozenset[int]]:
    """The streams of whose events rows may be made, together."""
    found = {frozenset({0})}
    for number, each in enumerate(join.inputs[1:], 1):
        own = frozenset({number})
        joined = {before | own for before in found}
        without = found if each.kind in ("left", "full") else set()
        found = joined | without | ({own} if each.kind in ("right", "full") else set())
    return found


def _equal_properties(parts: Iterable[expr.BoundExpr], count: int) -> list[list[tuple[int, frozenset[str]]]]:
    """The sets of properties that are equal in all combinations, by stream, of those that have some of each stream."""
    sets: list[set[tuple[int, str]]] = []
    for part in parts:
        if not (isinstance(part, expr.ComparisonExpr) and part.op == "="):
            continue
        pair = [e for e in (part.left, part.right) if isinstance(e, expr.Prop) and e.type.name in EXACT_KEY_TYPES]
        if len(pair) < 2 or pair[0].type != pair[1].type or max(e.stream for e in pair) >= count:
            continue
        found = {(e.stream, e.name) for e in pair}
        joined = [each for each in sets if each & found]
        sets = [each for each in sets if not each & found] + [found.union(*joined)]
    by_stream = [[(i, frozenset(name for stream, name in each if stream == i)) for i in range(count)] for each in sets]
    return [each for each in by_stream if all(props for _, props in each)]


# ---- contexts


def partition_streams(context: ContextStatement) -> tuple[nodes.KeyedStream, ...] | str:
    """The streams whose keys divide the partitions of a context, or why there are none."""
    if isinstance(context, nodes.CreateContextStatement):
        return context.spec.streams
    refusal = f"the partitions of the context {context.context.name} begin and end with the whole stream"
    spec = context.spec
    levels = [level for _, level in spec.levels] if isinstance(spec, contexts.NestedSpec) else [spec]
    for place, level in enumerate(levels):
        if isinstance(level, contexts.KeyedSpec):
            around = [
                each for each in levels[:place] if not isinstance(each, contexts.CategorySpec | contexts.HashSpec)
            ]
            if list(event_types_read(tuple(around))):
                return f"{refusal}: its outer level begins and ends with events of all keys"
            return level.streams.streams
    return refusal


def _need_in_partitions(
    statement: nodes.StreamStatement, context: ContextStatement, line: StatementDependencies, catalog: Catalog
) -> KeyRequirement | str:
    """What a statement needs of which each key has an own copy: all of its state is divided by the key then."""
    streams = partition_streams(context)
    if isinstance(streams, str):
        return _A_ROW_EACH if statement.source.nothing else streams
    names = [stream.event_type for stream in streams]
    refusal = partition_obstacle(statement, context, names, line, catalog)
    if refusal is not None:
        return refusal
    positions = range(len(streams[0].keys))
    sides = [(s.event_type, s) for s in streams]
    for store in context_windows_inserted_into(line, context):  # whose rows find their partition as events do
        own = next((s for s in streams if catalog.is_a(store.store.partitioned_as or "", s.event_type)), None)
        sides += [] if own is None else [(store.store.name, own)]
    ways = (tuple((name, plain_key_properties(s.keys[i : i + 1])) for name, s in sides) for i in positions)
    return (tuple(way for way in ways if all(keys for _, keys in way)),)


def partition_obstacle(
    statement: nodes.StreamStatement,
    context: ContextStatement,
    divided: Sequence[str],
    line: StatementDependencies,
    catalog: Catalog,
) -> str | None:
    """Why the partitions of a context cannot be divided by what divides the types `divided`."""
    own = partition_local_stores(line, catalog)
    read = [t for t in event_types_read((statement, context)) if t not in own]
    for name in read:
        if not any(catalog.is_a(name, each) for each in divided):
            return f"it reads {name}, which the context {context.context.name} does not divide"
    shared = (stores_read(statement) | stores_written(statement, catalog)) - own
    if shared:
        return f"it reads or changes {min(shared)}, which holds the rows of all keys"
    if any(source.contained for source in event_sources(statement)):
        return "its events are contained in others, whose properties are not theirs"
    if statement.source.nothing:
        return _A_ROW_EACH
    if isinstance(statement, nodes.SelectStatement):
        together = depends_on_clock(statement) or not isinstance(context, nodes.CreateContextStatement)
        if is_ordered_or_limited(statement.root) and together:
            return "rows of all keys that are delivered together are put in order, made distinct or limited"
        if statement.output is not None and any(
            isinstance(e, expr.VariableRead) for e in expressions_in(statement.output)
        ):
            return "its output clause follows variables"
    if any(isinstance(e, expr.ContextProp) and e.name == "id" for e in expressions_in(statement)):
        return "context.id numbers the partitions in order of their first event"
    if any(isinstance(e, expr.EventTypeName) for e in expressions_in(statement)):
        return "it asks for the type of each event (typeof)"
    return None


def partition_local_stores(line: StatementDependencies, catalog: Catalog) -> set[str]:
    """The stores of which each partition of a context has its own, and which nobody outside of it reads or changes.

    What is inserted into a named window goes to all partitions, unless the window was created as a type that the
    context divides.
    """
    found = set()
    undivided = set()
    for context in line.contexts:
        types = _divided_types(context)
        for window in context_windows_inserted_into(line, context):
            if not any(catalog.is_a(window.store.partitioned_as or "", each) for each in types):
                undivided.add(window.store.name)
    for store in line.stores:
        if isinstance(store, nodes.CreateWindowStatement | nodes.CreateTableStatement) and store.context is not None:
            name = store.store.name
            using = [r for r in line.readers if name in stores_read(r) | stores_written(r, catalog)]
            if all(r.context == store.context for r in using) and name not in undivided:
                found.add(name)
    return found


def context_windows_inserted_into(
    line: StatementDependencies, context: ContextStatement
) -> list[nodes.CreateWindowStatement]:
    """The named windows of a context that statements insert into."""
    targets = {insert.target for reader in line.readers for insert in reader.inserts}
    windows = (s for s in line.stores if isinstance(s, nodes.CreateWindowStatement))
    return [w for w in windows if w.context == context.context.name and w.store.name in targets]


def _divided_types(context: ContextStatement) -> list[str]:
    """The types whose events the level of a context that divides the tasks tells apart."""
    streams = partition_streams(context)
    if not isinstance(streams, str):
        return [stream.event_type for stream in streams]
    assert isinstance(context, nodes.CreateContextTreeStatement)
    spec = context.spec.levels[0][1] if isinstance(context.spec, contexts.NestedSpec) else context.spec
    if isinstance(spec, contexts.CategorySpec):
        return [spec.event_type]
    return [stream.event_type for stream in spec.streams] if isinstance(spec, contexts.HashSpec) else []


# ---- the rest


def _need_of_rows(recognize: nodes.Recognition, statement: nodes.SelectStatement) -> KeyRequirement | str:
    """Of match_recognize: the rows of a partition in order, where nothing else ties partitions together."""
    keys = plain_key_properties(recognize.keys)
    if recognize.interval is not None:
        return "the intervals of its matches follow the clock of the whole stream"
    if statement.windows or statement.context is not None:
        return "rows of all keys in its window, or of its context, make matches"
    if statement.kind != "unaggregated" or any(isinstance(e, expr.Prior) for e in _after(statement)):
        return "its matches are counted together"
    return single_key(statement.source.event_type, keys) if keys else "its matches are in the rows of the whole stream"


def _after(statement: nodes.SelectStatement) -> Iterable[expr.BoundExpr]:
    """What is read of matches."""
    root = statement.root
    return expressions_in((root.columns, tuple(e for e, _ in root.order_by)))


def is_ordered_or_limited(root: nodes.Projection) -> bool:
    """Whether the rows of a delivery are put in order, made distinct or limited."""
    return root.distinct or bool(root.order_by) or root.limit is not None or root.offset is not None


def _windows_of_store(source: nodes.SourceNode, line: StatementDependencies) -> tuple[nodes.WindowSpec, ...]:
    """The windows through which the rows of a named window go that is read."""
    for store in line.stores:
        if isinstance(store, nodes.CreateWindowStatement) and source.store is not None and store.store == source.store:
            return store.windows
    return ()


def _need_of_windows(windows: Sequence[nodes.WindowSpec], name: str, without_order: bool) -> KeyRequirement | str:
    """What the windows over a type need, of which at most one holds events."""
    grouping = windows[0] if windows and windows[0].row.grouping else None
    rest = windows[1:] if grouping is not None else windows
    if len(rest) > 1:
        return "several data windows keep events together"
    row = WINDOWS[rest[0].name if rest else "keepall"]
    if row.alone and row.timed and not without_order:
        return "events of all keys that expire together leave in one delivery, in order of arrival"
    if grouping is not None:
        keys = plain_key_properties(grouping.args)
        if not row.independent_groups:
            return f"the window {_called(rest)} is not known to run for each group by itself"
        return single_key(name, keys) if keys else "no groupwin key is a plain property"
    if row.alone:
        return NO_REQUIREMENT
    if row.divides:
        keys = plain_key_properties(rest[0].args)
        return single_key(name, keys) if keys else "no unique criterion is a plain property"
    return f"the window {_called(rest)} holds events of all keys"


def _called(windows: Sequence[nodes.WindowSpec]) -> str:
    """The name of the one window that keeps events, as people know it: those from Python have their own."""
    if not windows:
        return "keepall"
    last = windows[0].args[-1] if windows[0].args else None
    return last.name if isinstance(last, expr.UserClass) else windows[0].name


def _expiry_has_no_order(statement: nodes.SelectStatement, line: StatementDependencies) -> bool:
    """Whether rows for expired events are never delivered, or are rows of groups (whose order is unspecified)."""
    if statement.kind == "fully_aggregated_grouped":
        return True
    if isinstance(statement, nodes.CreateWindowStatement) and statement.name != line.target:
        return True  # those that read it say what they show
    return statement.selector == "istream" and (statement.insert is None or statement.insert.selector == "istream")


def plain_key_properties(keys: Iterable[expr.BoundExpr]) -> frozenset[str]:
    """The keys that are properties of a type by whose values tasks may be divided."""
    return frozenset(e.name for e in keys if isinstance(e, expr.Prop) and e.type.name in EXACT_KEY_TYPES)
