"""``create context`` (Esper reference, chapter "Context and Context Partitions").

Conditions that end a partition see the events that began it: ``terminated by End(id = s.id)`` reads the built-in
property `s`. Conditions of a nested context see their own level only (recorded: nested_initiated_initiated).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.contained_events import bind_contained_events
from cepbook.lang.bind.clauses.crontab import bind_crontab
from cepbook.lang.bind.clauses.filter import conjunction
from cepbook.lang.bind.clauses.pattern import bind_pattern
from cepbook.lang.bind.expressions.expression import bind_condition, bind_expr
from cepbook.lang.bind.expressions.table_access import refuse_table_access
from cepbook.lang.bind.expressions.time_period import bind_duration
from cepbook.lang.bind.scope import ERROR, ModuleScope, Scope, ScopeStream
from cepbook.lang.bind.statements.segmented_context import (
    bind_category_stream,
    bind_hash,
    bind_partition_keys,
    context_scope,
)
from cepbook.lang.plan import context as c
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import pattern as p
from cepbook.lang.plan.catalog import ContextType, EventType
from cepbook.lang.plan.nodes import ContainedSelection, KeyedStreams
from cepbook.lang.plan.traversal import substitute_expr
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

CONTEXT_PROPERTIES: Mapping[str, Type] = {"name": t.STRING, "id": t.INT}
TEMPORAL_CONTEXT_PROPERTIES: Mapping[str, Type] = {**CONTEXT_PROPERTIES, "startTime": t.LONG, "endTime": t.LONG}

_Spec = c.ContextSpec | KeyedStreams


def bind_context(node: ast.CreateContext, module: ModuleScope) -> tuple[ContextType, _Spec] | None:
    """Return the context, entered into the module's catalog, and its spec, or None if it was reported."""
    before = len(module.problems.reported)
    if node.name in module.catalog.contexts:
        at = module.locate(node.name, node.span)
        module.report("duplicate-name", f"context `{node.name}` already exists", at)
    context, spec = _bind(node.name, node.spec, module)
    refuse_table_access(spec, "a context", module)
    if len(module.problems.reported) > before:
        module.rejected_names.add(node.name)
        return None
    module.catalog.contexts[node.name] = context
    module.provides["context", node.name] = None
    if isinstance(spec, c.KeyedSpec) and not spec.initiated and spec.terminated is None:
        return context, spec.streams
    return context, spec


def _bind(name: str, node: ast.ContextSpec, module: ModuleScope) -> tuple[ContextType, c.ContextSpec]:
    match node:
        case ast.KeyedContext():
            return _keyed(name, node, module)
        case ast.HashContext():
            spec = bind_hash(node, module)
            return ContextType(name, "hash", CONTEXT_PROPERTIES, tuple(s.event_type for s in spec.streams)), spec
        case ast.CategoryContext():
            return _category(name, node, module)
        case ast.NonOverlappingContext():
            return _non_overlapping(name, node, module)
        case ast.OverlappingContext():
            return _overlapping(name, node, module)
        case ast.NestedContext():
            return _nested(name, node, module)
    raise TypeError(f"no rule for {type(node).__name__}")


@dataclass(slots=True)
class _PartitionScope:
    """The state of binding one partition: its context so far, and the names of the events that began it."""

    context: ContextType
    module: ModuleScope
    begun: bool = False
    names: dict[str, Type] = field(default_factory=dict)  # names of the events and matches that began the partition

    def scope(self, stream: ScopeStream | None = None) -> Scope:
        streams = () if stream is None else (stream,)
        correlated = {name: x.ContextProp(type_, name) for name, type_ in self.names.items()}
        context = self.context if self.begun else None
        return replace(context_scope(self.module, streams), context=context, correlated=correlated)

    def add(self, names: Mapping[str, Type], span: Span) -> None:
        for name in names:
            self.check_free(name, self.context.properties, "a property of the context", span)
        self.context = replace(self.context, properties={**self.context.properties, **names})

    def check_free(self, name: str, taken: Mapping[str, Type], what: str, span: Span) -> None:
        if name in taken:
            at = self.module.locate(name, span)
            self.module.report("duplicate-name", f"`{name}` is {what} already", at, "use another name")

    def begin(self, names: Mapping[str, Type], span: Span) -> None:
        """Add the names of the events that begin the partition; the conditions that end it may read them."""
        self.add(names, span)
        self.names.update(names)

    def condition(self, node: ast.ContextCondition) -> tuple[c.PartitionCondition, dict[str, Type]]:
        """Bind a condition; return it and the built-in properties that it adds."""
        if node.stream is not None:
            return self.event(node, node.stream)
        if node.pattern is not None:
            pattern = bind_pattern(node.pattern, (), self.scope())
            tags = dict(pattern.match_type.properties)
            names = tags if node.alias is None else {node.alias: t.struct_of(tuple(tags.items()))}
            if node.inclusive and not tags:
                hint = "such as pattern [a=Start -> b=Next] @inclusive"
                self.module.wrong("`@inclusive` without a tag: only tagged events count", node.span, hint)
            if node.alias is not None and self.begun:
                for tag in tags:
                    self.check_free(tag, self.names, "the name of what began the partition", node.span)
            return c.OnPattern(pattern, node.inclusive, node.alias, span=node.span), names
        if node.period is not None:
            period = bind_duration(fold_expr(bind_expr(node.period, self.scope())), "the time of `after`", self.scope())
            return c.AfterPeriod(period, span=node.span), {}
        if node.crontabs:
            crontabs = [bind_crontab(one.fields, one.span, self.scope(), most=7) for one in node.crontabs]
            return c.OnCrontab(tuple(one for one in crontabs if one is not None), span=node.span), {}
        return c.AtOnce(span=node.span), {}

    def event(self, node: ast.ContextCondition, stream: ast.FilterStream) -> tuple[c.OnEvent, dict[str, Type]]:
        event_type = self.module.event_type(stream.type_name, stream.span)
        store = self.module.catalog.stores.get(stream.type_name)
        if store is not None and store.kind == "table":
            fact = f"`{stream.type_name}` is a table: its rows are not events"
            self.module.wrong(fact, stream.span, "name what is inserted into it")
        scope = self.scope(ScopeStream(node.alias, event_type, stream.type_name))
        filters = [bind_condition(condition, scope, "the filter") for condition in stream.filters]
        contained: tuple[ContainedSelection, ...] = ()
        if stream.contained and event_type is not None:
            selection = bind_contained_events(stream.contained, scope.streams[0], scope)
            contained, event_type = ((), None) if selection is None else selection
        type_ = ERROR if event_type is None else t.event_of(event_type.name)
        if contained and event_type is not None and event_type.name not in self.module.catalog.event_types:
            type_ = t.struct_of(tuple(event_type.properties.items()))
        names = {} if node.alias is None else {node.alias: type_}
        return c.OnEvent(stream.type_name, conjunction(filters), node.alias, contained, span=node.span), names

    def end(self, node: ast.ContextCondition | None, word: str) -> c.PartitionCondition | None:
        if node is None:
            return None
        self.begun = True
        condition, names = self.condition(node)
        if isinstance(condition, c.AtOnce):
            self.module.wrong(f"a partition cannot be {word} `@now`", node.span, "leave it out: then it lasts")
        self.add(names, node.span)
        return condition


def _non_overlapping(
    name: str, node: ast.NonOverlappingContext, module: ModuleScope
) -> tuple[ContextType, c.NonOverlappingSpec]:
    partition = _PartitionScope(ContextType(name, "nonoverlapping", TEMPORAL_CONTEXT_PROPERTIES, ()), module)
    start, names = partition.condition(node.start)
    partition.begin(names, node.start.span)
    end = partition.end(node.end, "ended")
    return partition.context, c.NonOverlappingSpec(start, end, span=node.span)


def _overlapping(name: str, node: ast.OverlappingContext, module: ModuleScope) -> tuple[ContextType, c.OverlappingSpec]:
    partition = _PartitionScope(ContextType(name, "overlapping", TEMPORAL_CONTEXT_PROPERTIES, ()), module)
    initiated, names = partition.condition(node.initiated)
    if isinstance(initiated, c.AtOnce):
        fact, hint = "`initiated @now` alone begins one partition only", "write `start @now`, or `@now and …`"
        module.wrong(fact, node.initiated.span, hint)
    if node.also_now and isinstance(initiated, c.OnEvent):
        fact = "`@now and` does not go with an event"
        hint = "it goes with a pattern, a crontab or a time period"
        module.wrong(fact, node.initiated.span, hint)
    distinct = _distinct(node, initiated, names, module)
    partition.begin(names, node.initiated.span)
    terminated = partition.end(node.terminated, "terminated")
    return partition.context, c.OverlappingSpec(initiated, terminated, distinct, node.also_now, span=node.span)


def _distinct(
    node: ast.OverlappingContext, initiated: c.PartitionCondition, names: Mapping[str, Type], module: ModuleScope
) -> tuple[x.BoundExpr, ...]:
    """Return the keys of ``distinct``, which read the built-in property of the initiating event."""
    if not node.distinct:
        return ()
    span = node.distinct[0].span.to(node.distinct[-1].span)
    if not isinstance(initiated, c.OnEvent) or initiated.alias is None:
        fact = "`distinct` needs an initiating event with a name"
        hint = "such as initiated by distinct(o.id) Order as o"
        module.wrong(fact, span, hint)
        return ()
    type_ = names[initiated.alias]
    event_type = module.catalog.event_types.get(type_.event or "")
    if type_.fields is not None:
        event_type = EventType("", dict(type_.fields))
    scope = context_scope(module, (ScopeStream(initiated.alias, event_type, initiated.event_type),))
    event = x.ContextProp(type_, initiated.alias)
    mapping: dict[x.BoundExpr, x.BoundExpr] = {x.EventOf(event.type, p.EVENT_STREAM): event}
    for name, of in (event_type.properties if event_type is not None else {}).items():
        mapping[x.Prop(of, p.EVENT_STREAM, name)] = x.MemberAccess(of, event, name)
    keys = [bind_expr(key, scope) for key in node.distinct]
    for key in keys:
        if any(isinstance(subexpr, x.SubqueryRef) for subexpr in x.walk(key)):
            hint = "insert the value of the subquery into a separate stream"
            module.wrong("`distinct` takes no subquery", key.span, hint)
    return tuple(substitute_expr(key, mapping) for key in keys)


def _keyed(name: str, node: ast.KeyedContext, module: ModuleScope) -> tuple[ContextType, c.KeyedSpec]:
    streams = bind_partition_keys(node.items, module)
    properties = dict(CONTEXT_PROPERTIES)
    if streams:
        properties.update({f"key{i}": key.type for i, key in enumerate(streams[0].keys, 1)})
    listed = tuple(s.event_type for s in streams)
    context = ContextType(name, "keyed", properties, listed, {s.event_type: s.keys for s in streams})
    partition = _PartitionScope(context, module)
    initiated = [_initiating(on, node.items, partition) for on in node.initiated_by]
    named = [item for item in node.items if item.alias is not None]
    if named and any(on.alias is not None for on in node.initiated_by):
        fact = "names of events belong either in `partition by` or in `initiated by`"
        module.wrong(fact, named[0].span, "leave out those in `partition by`")
    aliases = [item.alias for item in named]
    for item in named:
        if aliases.count(item.alias) > 1:
            module.report("duplicate-name", f"`{item.alias}` names two streams", item.span)
            spec = KeyedStreams(streams, span=node.span)
            return partition.context, c.KeyedSpec(spec, tuple(initiated), None, span=node.span)
    kind = None if node.terminated_by is None else node.terminated_by.kind
    for item in named:
        names = {item.alias or "": t.event_of(item.stream.type_name)}
        if kind in ("filter", "pattern"):  # known to statements, too (recorded: keyed_as_name)
            partition.begin(names, item.span)
        else:
            partition.names.update(names)
    terminated = partition.end(node.terminated_by, "terminated")
    spec = KeyedStreams(streams, span=node.span)
    return partition.context, c.KeyedSpec(spec, tuple(initiated), terminated, span=node.span)


def _initiating(node: ast.ContextCondition, items: Sequence[ast.KeyedItem], partition: _PartitionScope) -> c.OnEvent:
    module = partition.module
    condition, names = partition.condition(node)
    partition.begin(names, node.span)
    if not isinstance(condition, c.OnEvent):
        module.wrong("only events initiate the partitions of a keyed context", node.span)
        return c.OnEvent("", None, None, span=node.span)
    known = module.catalog.event_types
    listed = [item.stream.type_name for item in items]
    if condition.event_type in known and not any(module.catalog.is_a(condition.event_type, of) for of in listed):
        fact = f"`{condition.event_type}` has no key: it is not listed in `partition by`"
        hint = f"listed is {', '.join(f'`{one}`' for one in listed)}"
        module.report("wrong-context", fact, node.span, hint)
    return condition


def _category(name: str, node: ast.CategoryContext, module: ModuleScope) -> tuple[ContextType, c.CategorySpec]:
    scope, condition = bind_category_stream(node, module)
    categories = tuple(
        (label, bind_condition(predicate, scope, f"the condition of category `{label}`"))
        for predicate, label in node.groups
    )
    listed = node.stream.type_name
    context = ContextType(name, "category", {**CONTEXT_PROPERTIES, "label": t.STRING}, (listed,))
    return context, c.CategorySpec(listed, condition, categories, span=node.span)


def _nested(name: str, node: ast.NestedContext, module: ModuleScope) -> tuple[ContextType, c.NestedSpec]:
    if len(node.contexts) < 2:
        hint = "such as context A start @now, context B partition by id from Tick"
        module.wrong("a nested context has at least two levels", node.span, hint)
    properties: dict[str, Type] = dict(CONTEXT_PROPERTIES)
    levels: list[ContextType] = []
    specs: list[tuple[str, c.ContextSpec]] = []
    for position, (level_name, level) in enumerate(node.contexts):
        if level_name in properties:
            at = module.locate(level_name, node.span)
            known = "name of a level" if level_name not in CONTEXT_PROPERTIES else "property of every context"
            module.report("duplicate-name", f"`{level_name}` is the {known} already", at)
        if isinstance(level, ast.NestedContext):
            fact, hint = "a level of a nested context cannot be nested itself", "list all levels, outermost first"
            module.wrong(fact, level.span, hint)
            continue
        context, spec = _bind(level_name, level, module)
        own = dict(context.properties)
        if position < len(node.contexts) - 1:
            del own["id"]  # partitions are leaves of the tree
        properties[level_name] = t.struct_of(tuple(own.items()))
        levels.append(replace(context, properties=own))
        specs.append((level_name, spec))
    listed = tuple(dict.fromkeys(one for level in levels for one in level.event_types))
    context_type = ContextType(name, "nested", properties, listed, levels=tuple(levels))
    return context_type, c.NestedSpec(tuple(specs), span=node.span)
