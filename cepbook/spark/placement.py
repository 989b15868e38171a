"""Which statements may run in parallel over the rows of a stream, and which need them all in one order.

A statement's output may depend on other events in two ways: through state (windows, groups, context partitions)
and through the clock (every advance may let events expire). State that is divided by a key is complete in a task
that sees all events of the key; the clock is complete when the task is told every time at which the whole stream
advances it ("ticks"). `place` decides from the plan alone, and is conservative: what is not known to be the same
runs in order, with the reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cepbook.engine.rows.lowering import lowered
from cepbook.lang import expr, plan
from cepbook.lang.catalog import Catalog
from cepbook.lang.patterns import At, Every, Interval, Pattern, Schedule, Within, walk
from cepbook.lang.reads import expressions, stores_changed, stores_in, types_read
from cepbook.lang.types import BITS
from cepbook.lang.windows import WINDOWS
from cepbook.spark.native import is_native

KEY_TYPES = frozenset({"string", "char", "byte", "short", "int", "long", "boolean"})
_MOST_KEYS_TRIED = 4096
ADVICE = "if each key may count by itself, a context `partition by` that key lets it run in parallel"
Context = plan.CreateContextStatement | plan.CreateContextTreeStatement
Query = plan.SelectStatement | plan.CycleStatement  # what has rows of its own


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a statement runs: by Spark itself, in parallel without regard to rows' company or by key, or in one task.

    `keys` gives for each input event type the properties that decide on the task; `ticks` says whether every task
    is told all times of the whole stream; `advice` what would let it run in parallel, if anything is known.
    """

    path: Literal["native", "row by row", "by key", "ordered"]
    keys: tuple[tuple[str, tuple[str, ...]], ...]
    ticks: bool
    reason: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One statement with everything that feeds it, in deployment order.

    `triggers` assign variables that any of the statements reads, or insert or change what it reads. `inputs` are the
    event types of frames that they read, directly or through contexts. `variables` are those of the contexts, `stores`
    what creates the named windows and tables that any of them reads or changes.
    """

    target: str
    selects: tuple[Query, ...]
    contexts: tuple[Context, ...]
    inputs: tuple[str, ...]
    triggers: tuple[plan.Reader, ...] = ()
    variables: tuple[plan.CreateVariableStatement, ...] = ()
    stores: tuple[plan.StatementPlan, ...] = ()

    @property
    def readers(self) -> tuple[plan.Reader, ...]:
        """The statements that read streams."""
        return (*self.triggers, *self.selects)


def pipeline(target: str, statements: Sequence[plan.StatementPlan], catalog: Catalog, given: Iterable[str]) -> Pipeline:
    """What `target` needs: all statements that insert into a stream that it reads or assign a variable that it reads,

    and so on, and their contexts.
    """
    selects = {s.name: s for s in statements if isinstance(s, Query)}
    triggers = {s.name: s for s in statements if isinstance(s, plan.Reader) and s.name not in selects}
    declared = {s.context.name: s for s in statements if isinstance(s, Context)}
    needed = {target}
    readers: list[plan.Reader] = [*selects.values(), *triggers.values()]
    waiting: list[plan.Reader] = [selects[target]]
    changed = {reader.name: stores_changed(reader, catalog) for reader in readers}
    while waiting:
        reader = waiting.pop()
        context, touched = declared.get(reader.context or ""), stores_in(reader) | changed[reader.name]
        for other in readers:
            if other.name in needed:
                continue
            if touched & changed[other.name] or _feeds(other, reader, context, catalog):
                needed.add(other.name)
                waiting.append(other)
    if any(s.drop for s in readers):  # such a statement decides what others see
        needed = {*selects, *triggers}
    chosen = tuple(s for s in selects.values() if s.name in needed)
    triggering = tuple(s for s in triggers.values() if s.name in needed)
    reading = [s for s in readers if s.name in needed]
    wanted_contexts = {s.context for s in reading}
    contexts = tuple(c for name, c in declared.items() if name in wanted_contexts)
    read = set(types_read((*reading, *contexts)))
    inputs = tuple(t for t in given if any(catalog.is_a(t, r) for r in read))
    created = [s for s in statements if isinstance(s, plan.CreateVariableStatement)]
    own = tuple(s for s in created if s.context is not None and s.context in wanted_contexts)
    touched = set[str]().union(*(stores_in(s) | changed[s.name] for s in reading))
    stores = tuple(s for s in statements if _store_of(s) in touched)
    return Pipeline(target, chosen, contexts, inputs, triggering, own, stores)


def _store_of(statement: plan.StatementPlan) -> str | None:
    if isinstance(statement, plan.CreateWindowStatement | plan.CreateTableStatement):
        return statement.store.name
    return statement.index.store if isinstance(statement, plan.CreateIndexStatement) else None


def _feeds(other: plan.Reader, reader: plan.Reader, context: Context | None, catalog: Catalog) -> bool:
    """Whether `reader`, or its context, reads what `other` inserts or assigns."""
    read = set(types_read((reader, context)))
    changed = {other.source.event_type} if isinstance(other, plan.UpdateStatement) else set[str]()
    if any(catalog.is_a(t, c) and catalog.is_a(t, name) for c in changed for t in catalog.event_types for name in read):
        return True
    if any(catalog.is_a(insert.target, name) for insert in other.inserts for name in read):
        return True
    return any(isinstance(e, expr.Variable) and e.name in other.assigned for e in expressions((reader, context)))


def place(line: Pipeline, catalog: Catalog) -> Placement:
    """How to run `line` so that the result is the one of the ordered run."""
    created = (s for s in line.stores if isinstance(s, plan.CreateWindowStatement))
    ticks = any(_timed(s) for s in (*line.readers, *created)) or any(
        isinstance(c, plan.CreateContextTreeStatement) for c in line.contexts
    )
    if any(s.assigned for s in line.readers):
        names = ", ".join(s.name for s in line.readers if s.assigned)
        return Placement("ordered", (), ticks, f"it reads variables that {names} assigns event by event")
    if line.triggers:
        names = ", ".join(s.name for s in line.triggers)
        return Placement("ordered", (), ticks, f"it reads what {names} inserts or changes event by event")
    cycles = next((s for s in line.selects if isinstance(s, plan.CycleStatement)), None)
    if line.stores and cycles is None:
        names = ", ".join(dict.fromkeys(str(_store_of(s)) for s in line.stores))
        return Placement("ordered", (), ticks, f"it reads or changes {names}, which holds the rows of all keys")
    needs: dict[str, _Need] = {}
    for statement in line.selects:
        need = _need(statement, line, catalog)
        if isinstance(need, str):
            who = "" if statement.name == line.target else f"{statement.name}, which feeds it: "
            together = isinstance(statement, plan.CycleStatement) or statement.lots  # which have no contexts
            advice = "" if line.contexts or together else ADVICE
            return Placement("ordered", (), ticks, f"{who}{need}", advice)
        needs[statement.name] = need
    only = line.selects[0]
    if len(line.inputs) == len(line.selects) == 1 and isinstance(only, plan.SelectStatement):
        native = is_native(only, catalog.event_types)
    else:
        native = False
    if native:
        return Placement("native", (), False, "a filter and columns, which Spark expresses itself")
    if all(need.anywhere for need in needs.values()):
        return Placement("row by row", (), False, "no state that can be seen: every event is judged by itself")
    keys = _common_keys(line, needs, catalog)
    if keys is None:
        return Placement("ordered", (), ticks, "no property divides all the state of the statement and what feeds it")
    shown = ", ".join(f"{t}.{'+'.join(props)}" for t, props in keys)
    clock = "; every task follows the clock of the whole stream" if ticks else ""
    return Placement("by key", keys, ticks, f"all state is divided by {shown}{clock}")


def _timed(statement: plan.Reader) -> bool:
    """Whether times alone may make the statement deliver events, or forget some that anybody could miss."""
    if isinstance(statement, plan.CycleStatement):
        return True
    if any(map(_follows_clock, (_pattern_of(source) for source in _sources(statement)))):
        return True
    if not isinstance(statement, plan.SelectStatement):
        return False
    recognize = _recognize_of(statement.root)
    held = recognize is not None and recognize.interval is not None
    output = statement.output
    paced = output is not None and (output.kind not in (None, "events") or isinstance(output.after, expr.Period))
    within = [w for each in statement.subqueries for w in _windows_of(each.root)]
    asked = any(WINDOWS[w.name].timed and not WINDOWS[w.name].sweeps for w in within)
    follows = any(isinstance(e, expr.Variable) for e in expressions(tuple(w.args for w in statement.windows)))
    timed = any(WINDOWS[w.name].timed for w in statement.windows)
    if timed and type(statement) is plan.SelectStatement and not statement.subqueries:
        timed = not lowered(statement).lazy  # what leaves a lazy window is seen by nobody
    return held or paced or asked or follows or timed


def _pattern_of(source: plan.Source) -> Pattern | None:
    return source.pattern if isinstance(source.pattern, Pattern) else None


def _follows_clock(pattern: Pattern | None) -> bool:
    """Whether a pattern waits for points in time, or gives up at some."""
    nodes = [] if pattern is None else walk(pattern.root)
    timers = any(isinstance(node, Interval | At | Schedule | Within) for node in nodes)
    return timers or any(isinstance(node, Every) and node.expiry is not None for node in nodes)


def _windows_of(root: plan.Projection) -> list[plan.WindowSpec]:
    return [w for node in plan.chain(root) if isinstance(node, plan.Windowed) for w in node.windows]


def properties_read(line: Pipeline, catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """For each input type the properties that the pipeline can see, in declaration order."""
    found: dict[str, tuple[str, ...]] = {}
    for name in line.inputs:
        declared = catalog.event_types[name].properties
        seen: set[str] = set()
        for statement in line.readers:
            if any(catalog.is_a(name, read) for read in types_read(statement)):
                seen |= set(declared) if _sees_all(statement) else _props(statement)
        for context in line.contexts:
            if isinstance(context, plan.CreateContextTreeStatement):
                if any(catalog.is_a(name, read) for read in types_read(context)):
                    seen |= set(declared)  # its properties hold the events
                continue
            for stream in context.spec.streams:
                if catalog.is_a(name, stream.event_type):
                    seen |= _props(stream)
        found[name] = tuple(p for p in declared if p in seen)
    return found


def _sources(statement: plan.Reader) -> tuple[plan.Source, ...]:
    return statement.sources if isinstance(statement, plan.SelectStatement) else (statement.source,)


def _sees_all(statement: plan.Reader) -> bool:
    if isinstance(statement, plan.CycleStatement):  # columns go through its stages by their names
        return True
    sources = statement.sources if isinstance(statement, plan.SelectStatement) else (statement.source,)
    if any(source.pattern is not None for source in sources):  # tags hold the events
        return True
    roots = [each.root for each in statement.subqueries]
    if isinstance(statement, plan.SelectStatement):
        roots.append(statement.root)
    if any(root.wildcard or _recognize_of(root) is not None for root in roots):  # a match has whole rows
        return True
    if any(source.contained for source in _sources(statement)):  # they are in the properties of the event
        return True
    if isinstance(statement, plan.SplitStatement):  # what no branch takes is delivered
        return True
    return any(isinstance(e, expr.EventOf | expr.WindowValue) for e in expressions(statement))


def _props(node: plan.PlanNode) -> set[str]:
    return {e.name for e in expressions(node) if isinstance(e, expr.Prop)}


@dataclass(frozen=True, slots=True)
class _Need:
    """What a statement asks of the task that runs it: nothing (`anywhere`), or all events that agree in one of `keys`.

    With a `context` the keys are those of the context's streams, position by position. Of a join `sides` are such keys
    of each of its streams; one of them must divide all.
    """

    anywhere: bool
    keys: frozenset[str] = frozenset()
    context: plan.CreateContextStatement | None = None
    sides: tuple[tuple[frozenset[str], ...], ...] = ()


def _need(statement: Query, line: Pipeline, catalog: Catalog) -> _Need | str:
    if isinstance(statement, plan.CycleStatement):
        return "it is run in cycles, each of which takes what waits of all keys"
    if statement.drop:
        return "it may hide events from others (@Drop)"
    if statement.lots:
        return "it takes what arrives together as one change"
    context = next((c for c in line.contexts if c.context.name == statement.context), None)
    if isinstance(context, plan.CreateContextStatement):
        return _need_in_partitions(statement, context, catalog)
    if any(source.pattern is not None for source in statement.sources):
        return "its pattern follows the events and the clock of the whole stream"
    if statement.subqueries:
        return "its subqueries look at the events of all keys"
    if any(source.contained for source in statement.sources):
        return "its events are contained in others, whose properties are not theirs"
    if statement.source.nothing:
        return "it has a row for each context partition, in order of their beginning"
    if statement.output is not None:
        return "its output clause follows the events and the clock of the whole stream"
    if _is_arranged(statement.root) and any(WINDOWS[w.name].timed for w in statement.windows):
        return "rows of all keys that are delivered together are put in order, made distinct or limited"
    if any(isinstance(e, expr.ContextProp) and e.name == "id" for e in expressions(statement.root)):
        return "context.id numbers the partitions in order of their first event"
    if any(isinstance(e, expr.EventType) for e in expressions(statement)):
        return "it asks for the type of each event (typeof)"
    if statement.derived is not None:
        return f"the window {statement.derived.name} derives values from the events of all keys"
    recognize = _recognize_of(statement.root)
    if recognize is not None:
        return _need_of_rows(recognize, statement)
    if any(isinstance(e, (expr.Prior, expr.Prev)) for e in expressions(statement.root)):
        return "it looks at the events before (prior, prev)"
    aggregation = _aggregation_of(statement)
    if aggregation is not None and (aggregation.levels or any(c.group_by is not None for c in aggregation.calls)):
        return "it has groups of several kinds"
    reclaims = aggregation is not None and aggregation.reclaim is not None
    if reclaims or any(w.reclaim is not None for w in statement.windows):
        return "events of any key may make it forget groups"
    if context is not None:
        return f"the partitions of the context {statement.context} begin and end with the whole stream"
    if statement.join is not None:
        return _need_of_join(statement, statement.join)
    return _need_without_context(statement)


def _need_of_join(statement: plan.SelectStatement, join: plan.Join) -> _Need | str:
    """Of a join whose streams are joined by equal keys: partners are in the same task where keys divide the tasks."""
    allowed: list[frozenset[str] | None] = []  # by stream: what may divide its windows; None: anything
    for each in join.inputs:
        windows = [node.windows for node in plan.chain(each.stream) if isinstance(node, plan.Windowed)]
        need = _need_of_windows(tuple(w for stage in reversed(windows) for w in stage), _expiry_has_no_order(statement))
        if isinstance(need, str):
            return need
        allowed.append(None if need.anywhere else need.keys)
    parts = [part for each in join.inputs for part in expr.conjuncts(each.on)]
    if all(each.kind == "inner" for each in join.inputs):
        selections = (node for node in plan.chain(statement.root) if isinstance(node, plan.Selection))
        parts += [part for node in selections for part in expr.conjuncts(node.predicate)]
    groups = [
        {
            stream: props if limit is None else props & limit
            for (stream, props), limit in zip(found, allowed, strict=True)
        }
        for found in _equal_properties(parts, len(join.inputs))
    ]
    aggregation = _aggregation_of(statement)
    if aggregation is not None:
        keys = {(e.stream, e.name) for e in aggregation.keys if isinstance(e, expr.Prop)}
        groups = [g for g in groups if any((stream, p) in keys for stream, props in g.items() for p in props)]
    sides = tuple(tuple(group[stream] for stream in range(len(join.inputs))) for group in groups)
    return (
        _Need(False, sides=sides) if sides else "its streams are not all joined by keys that are equal and divide them"
    )


def _equal_properties(parts: Iterable[expr.Expr], count: int) -> list[list[tuple[int, frozenset[str]]]]:
    """The sets of properties that are equal in all combinations, by stream, of those that have some of each stream."""
    sets: list[set[tuple[int, str]]] = []
    for part in parts:
        if not (isinstance(part, expr.Compare) and part.op == "="):
            continue
        pair = [e for e in (part.left, part.right) if isinstance(e, expr.Prop) and e.type.name in KEY_TYPES]
        if len(pair) < 2 or pair[0].type != pair[1].type:
            continue
        found = {(e.stream, e.name) for e in pair}
        joined = [each for each in sets if each & found]
        sets = [each for each in sets if not each & found] + [found.union(*joined)]
    by_stream = [[(i, frozenset(name for stream, name in each if stream == i)) for i in range(count)] for each in sets]
    return [each for each in by_stream if all(props for _, props in each)]


def _need_in_partitions(
    statement: plan.SelectStatement, context: plan.CreateContextStatement, catalog: Catalog
) -> _Need | str:
    """What a statement needs of which each key has an own copy: all of its state is divided by the key then."""
    divided = [stream.event_type for stream in context.spec.streams]
    for read in types_read(statement):
        if not any(catalog.is_a(read, name) for name in divided):
            return f"it reads {read}, which the context {context.context.name} does not divide"
    if any(source.contained for source in statement.sources):
        return "its events are contained in others, whose properties are not theirs"
    if statement.source.nothing:
        return "it has a row for each context partition, in order of their beginning"
    if _is_arranged(statement.root) and _timed(statement):
        return "rows of all keys that are delivered together are put in order, made distinct or limited"
    if any(isinstance(e, expr.ContextProp) and e.name == "id" for e in expressions(statement)):
        return "context.id numbers the partitions in order of their first event"
    if any(isinstance(e, expr.EventType) for e in expressions(statement)):
        return "it asks for the type of each event (typeof)"
    if statement.output is not None and any(isinstance(e, expr.Variable) for e in expressions(statement.output)):
        return "its output clause follows variables"
    return _Need(False, context=context)


def _recognize_of(root: plan.Projection) -> plan.Recognize | None:
    return next((node for node in plan.chain(root) if isinstance(node, plan.Recognize)), None)


def _need_of_rows(recognize: plan.Recognize, statement: plan.SelectStatement) -> _Need | str:
    """Of match_recognize: the rows of a partition in order, where nothing else ties partitions together."""
    keys = _plain(recognize.keys)
    if recognize.interval is not None:
        return "the intervals of its matches follow the clock of the whole stream"
    if statement.windows or statement.context is not None:
        return "rows of all keys in its window, or of its context, make matches"
    if statement.kind != "unaggregated" or any(isinstance(e, expr.Prior) for e in _after(statement)):
        return "its matches are counted together"
    return _Need(False, keys) if keys else "its matches are in the rows of the whole stream"


def _after(statement: plan.SelectStatement) -> Iterable[expr.Expr]:
    """What is read of matches."""
    root = statement.root
    return expressions((root.columns, tuple(e for e, _ in root.order_by)))


def _is_arranged(root: plan.Projection) -> bool:
    return root.distinct or bool(root.order_by) or root.limit is not None or root.offset is not None


def _need_without_context(statement: plan.SelectStatement) -> _Need | str:
    aggregation = _aggregation_of(statement)
    of_window = _need_of_windows(statement.windows, _expiry_has_no_order(statement))
    if aggregation is None or isinstance(of_window, str):
        return of_window
    if not aggregation.keys:
        return "one aggregate over the events of all keys"
    groups = _plain(aggregation.keys)
    keys = groups if of_window.anywhere else groups & of_window.keys
    return _Need(False, keys) if keys else "no group-by key is a plain property that also divides the windows"


def _need_of_windows(windows: Sequence[plan.WindowSpec], without_order: bool) -> _Need | str:
    grouping = windows[0] if windows and windows[0].name == "groupwin" else None
    rest = windows[1:] if grouping is not None else windows
    if len(rest) > 1:
        return "several data windows keep events together"
    name = rest[0].name if rest else "keepall"
    row = WINDOWS[name]
    if row.alone and row.timed and not without_order:
        return "events of all keys that expire together leave in one delivery, in order of arrival"
    if grouping is not None:
        keys = _plain(grouping.args)
        if not row.per_group:
            return f"the window {name} is not known to run for each group by itself"
        return _Need(False, keys) if keys else "no groupwin key is a plain property"
    if row.alone:
        return _Need(True)
    if row.divides:
        keys = _plain(rest[0].args)
        return _Need(False, keys) if keys else "no unique criterion is a plain property"
    return f"the window {name} holds events of all keys"


def _expiry_has_no_order(statement: plan.SelectStatement) -> bool:
    """Whether rows for expired events are never delivered, or are rows of groups (whose order is unspecified)."""
    if statement.kind == "fully_aggregated_grouped":
        return True
    return statement.selector == "istream" and (statement.insert is None or statement.insert.selector == "istream")


def _aggregation_of(statement: plan.SelectStatement) -> plan.Aggregation | None:
    return next((node for node in plan.chain(statement.root) if isinstance(node, plan.Aggregation)), None)


def _plain(keys: Iterable[expr.Expr]) -> frozenset[str]:
    """The keys that are properties of a type by whose values tasks may be divided."""
    return frozenset(e.name for e in keys if isinstance(e, expr.Prop) and e.type.name in KEY_TYPES)


def _common_keys(
    line: Pipeline, needs: Mapping[str, _Need], catalog: Catalog
) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """All properties (one list per input type, position by position) by which tasks may be divided, or None."""
    candidates = []
    for name in line.inputs:
        declared = catalog.event_types[name].properties
        candidates.append([p for p, t in declared.items() if t.name in KEY_TYPES])
    read = properties_read(line, catalog)
    options = [[p for p in c if p in read[n]] for n, c in zip(line.inputs, candidates, strict=True)]
    found: list[tuple[str, ...]] = []
    for choice in itertools.islice(itertools.product(*options), _MOST_KEYS_TRIED):
        if _divides(dict(zip(line.inputs, choice, strict=True)), line, needs, catalog):
            found.append(choice)
    if not found or not line.inputs:
        return None
    return tuple((name, tuple(c[i] for c in found)) for i, name in enumerate(line.inputs))


def _divides(choice: Mapping[str, str], line: Pipeline, needs: Mapping[str, _Need], catalog: Catalog) -> bool:
    """Whether dividing each input type by its property in `choice` keeps every statement's state whole."""
    carried: dict[str, frozenset[str]] = {name: frozenset({p}) for name, p in choice.items()}
    selects = [s for s in line.selects if isinstance(s, plan.SelectStatement)]
    inserts = [(s, s.insert.target) for s in selects if s.insert is not None]
    for _, target in inserts:
        carried.setdefault(target, frozenset(catalog.event_types[target].properties))
    settled = False
    while not settled:  # the greatest set of properties of derived types that repeat the key, also around cycles
        settled = True
        for statement, target in inserts:
            keys = _carried(statement.source.event_type, carried, catalog)
            kept = carried[target] & _copies(statement, keys, catalog)
            if kept != carried[target]:
                carried[target] = kept
                settled = False
    return all(
        _is_whole(needs[s.name], [_carried(each.event_type, carried, catalog) for each in s.sources], carried, catalog)
        for s in line.selects
    )


def _carried(read: str, carried: Mapping[str, frozenset[str]], catalog: Catalog) -> frozenset[str]:
    """The properties of `read` that hold the key in the events of every type that arrives there."""
    arriving = [props for name, props in carried.items() if catalog.is_a(name, read)]
    return frozenset.intersection(*arriving) if arriving else frozenset()


def _copies(statement: plan.SelectStatement, keys: frozenset[str], catalog: Catalog) -> frozenset[str]:
    """The output columns of `statement` that repeat one of the input properties `keys` unchanged."""
    if len(statement.sources) > 1 or statement.source.pattern is not None:
        return frozenset()  # whose property a column repeats is not followed
    columns = statement.root.columns
    found = {c.name for c in columns if _repeats(c.value, keys)}
    aggregation = _aggregation_of(statement)
    for column in columns:
        if isinstance(column.value, expr.KeyRef) and aggregation is not None:
            key = aggregation.keys[column.value.index]
            if _repeats(key, keys):
                found.add(column.name)
    if statement.root.wildcard:
        found |= keys - {c.name for c in columns}
    return frozenset(found)


def _repeats(value: expr.Expr, keys: frozenset[str]) -> bool:
    """Whether `value` is one of the properties `keys`, perhaps widened to a longer whole number."""
    if isinstance(value, expr.Convert):
        before, after = BITS.get(value.operand.type.name), BITS.get(value.type.name)
        if before is None or after is None or after < before:
            return False
        value = value.operand
    return isinstance(value, expr.Prop) and value.name in keys


def _is_whole(
    need: _Need, keys: Sequence[frozenset[str]], carried: Mapping[str, frozenset[str]], catalog: Catalog
) -> bool:
    """Whether `carried` divides what `need` asks for; `keys` are the properties with the key, by stream."""
    if need.anywhere:
        return True
    if need.sides:
        return any(all(mine & own for mine, own in zip(side, keys, strict=True)) for side in need.sides)
    if need.context is None:
        return bool(need.keys & keys[0])
    streams = need.context.spec.streams
    fed = [s for s in streams if any(catalog.is_a(name, s.event_type) for name in carried)]
    positions = range(len(streams[0].keys))
    return any(
        all(_plain(s.keys[i : i + 1]) & _carried(s.event_type, carried, catalog) for s in fed) for i in positions
    )
