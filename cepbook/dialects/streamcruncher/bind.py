"""Bind running queries: from the syntax tree to a plan that is evaluated in cycles (`lang.plan.cycles`).

The partitions of a query are bound first, in text order. Each becomes a relation, which the select reads like a named
window: it is bound as every select is, and the status of a row is one of its properties.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cepbook.dialects.streamcruncher.alerts import BoundRelation, bind_alert
from cepbook.dialects.streamcruncher.partition_stages import bind_stages, split_conjuncts
from cepbook.dialects.streamcruncher.reader import DIALECT_NAME, parse
from cepbook.dialects.streamcruncher.reference_tables import TableRows, create_window_for, read_tables, widen_rows
from cepbook.errors import BindError, Diagnostic, Span, UsageError, known_names_line, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.annotations import Heading
from cepbook.lang.bind.module_binder import StatementRule, bind
from cepbook.lang.bind.scope import ModuleScope, Options
from cepbook.lang.bind.statements.create_window import bind_create_window
from cepbook.lang.bind.statements.select import bind_select
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import Catalog, EventType, StoreType
from cepbook.lang.plan.cycles import DEAD, NEW, STATUS, StreamPartition
from cepbook.lang.plan.nodes import CreateWindowStatement, CycleStatement, ModulePlan, SelectStatement
from cepbook.lang.plan.relational import Aggregation, Having, SourceNode
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import replace_nodes, walk
from cepbook.lang.syntax.source_text import settings_of
from cepbook.lang.types import Type

_LEAVE_OUT_HINT = "leave the condition out"
_RENAME_HINT = "give it another name with as"
_ALERT_NAME = "alert"  # the name of the relation of what an alert makes


@dataclass(slots=True)
class _Query:
    module: ModuleScope
    settings: Mapping[str, Any]
    partitions: list[StreamPartition] = field(default_factory=list)
    relations: dict[int, BoundRelation] = field(default_factory=dict)  # by the place of their stream in the text
    internal: list[str] = field(default_factory=list)

    def declare(self, alias: str, columns: Mapping[str, Type] | None) -> StoreType:
        name = alias
        while name in self.module.catalog.event_types or name in self.module.rejected_names:
            name += "'"
        self.internal.append(name)
        store = StoreType(name, "window", collects=True)
        if columns is None:
            self.module.rejected_names.add(name)
        else:
            self.module.catalog.event_types[name] = EventType(name, {**columns, STATUS: t.INT})
            self.module.catalog.stores[name] = store
        return store


def bind_running_query(
    node: ast.RunningQuery, heading: Heading, module: ModuleScope, settings: Mapping[str, Any]
) -> CycleStatement | None:
    """Return the statement, or None if it was reported. Raises UsageError for an invalid setting."""
    query = _Query(module, settings)
    module.only_functions = True
    before = len(module.problems.reported)
    streams = [item for item in walk(node.select) if isinstance(item, ast.StreamSource)]
    streams = [item for item in streams if isinstance(item.stream, ast.PartitionStream)]
    for source in sorted(streams, key=lambda item: item.stream.span.start):
        _partition(source, query)
    correlation = None
    for source in node.select.sources:
        if isinstance(source.stream, ast.AlertStream):
            by_alias = {r.alias: r for r in query.relations.values()}
            correlation = bind_alert(source.stream, by_alias, query.declare, module)
            columns = None if correlation is None else _alert_columns(correlation.columns, query)
            store = query.declare(_ALERT_NAME, columns) if correlation is None else correlation.store
            if correlation is not None:
                module.catalog.event_types[store.name] = EventType(store.name, columns or {})
                module.catalog.stores[store.name] = store
            query.relations[source.stream.span.start] = BoundRelation("", store.name, columns)
    if any(item.code == "duplicate-name" for item in module.problems.reported[before:]):
        return None  # the duplicate name makes columns ambiguous
    _refuse_nested(node.select, module)
    select = _SelectRewriter(query, node.select, None).rewritten()
    select_plan = bind_select(select, heading, module)
    for item in query.internal:
        module.requires.pop(("event type", item), None)
    every = _every(settings, module)
    if select_plan is None or len(query.partitions) < len(streams) or module.problems.reported:
        return None
    _check_kind(select_plan, module)
    return CycleStatement(
        **heading.fields(node.span, module),
        partitions=tuple(query.partitions),
        correlation=correlation,
        select=select_plan,
        output_type=select_plan.output_type,
        every=every,
        fills=_fills(settings),
        seed=_seed(settings),
    )


def _check_kind(statement: SelectStatement, module: ModuleScope) -> None:
    """Report columns that are neither grouped nor aggregated: as in SQL, rows of groups have only keys and
    aggregates.
    """
    if statement.kind not in ("aggregated", "aggregated_grouped"):
        return
    rows = statement.root.input.input if isinstance(statement.root.input, Having) else statement.root.input
    keys = rows.keys if isinstance(rows, Aggregation) else ()
    clauses = {
        "a column is selected that": [entry.value for entry in statement.root.columns],
        "having names a column that": [statement.root.input.predicate]
        if isinstance(statement.root.input, Having)
        else [],
        "order by names a column that": [entry for entry, _ in statement.root.order_by],
    }
    places = ((clause, at) for clause, values in clauses.items() for entry in values for at in _outside(entry, keys))
    clause, span = next(places, ("a column is selected that", statement.span))
    hint = "add it to group by, or take an aggregate of it" if keys else "add group by"
    module.report("invalid-group-by", f"{clause} is neither grouped nor aggregated", span, hint)


def _outside(value: x.BoundExpr, keys: Sequence[x.BoundExpr]) -> Iterator[Span]:
    if isinstance(value, x.Prop) and value not in keys:
        yield value.span
    elif value not in keys:
        for inner in x.children(value):
            yield from _outside(inner, keys)


def _refuse_nested(node: ast.Select, module: ModuleScope) -> None:
    """Report aggregates inside of aggregates, as SQL does."""
    for outer in _aggregates(node):
        inner = next((call for arg in outer.args or () for call in _aggregates(arg)), None)
        if inner is not None:
            fact = f"`{inner.name}` inside the aggregate `{outer.name}`"
            hint = "aggregate in a partition first: (partition … with …)"
            module.report("nested-aggregate", fact, inner.span, hint)


def _aggregates(node: object) -> Iterator[ast.NameStep]:
    """Yield the calls of aggregates in a tree; min and max of several values are functions."""
    calls = (step for step in walk(node) if isinstance(step, ast.NameStep) and step.args is not None)
    return (step for step in calls if step.name.lower() in AGGREGATES and len(step.args or ()) < 2)


def _partition(source: ast.StreamSource, query: _Query) -> None:
    stream, module, settings = source.stream, query.module, query.settings
    assert isinstance(stream, ast.PartitionStream) and source.alias is not None
    if any(source.alias == relation.alias for relation in query.relations.values()):
        behind = Span(stream.stages[-1].span.end, source.span.end)
        at = module.locate(source.alias, behind) if behind.end > behind.start else stream.span
        module.report("duplicate-name", f"`{source.alias}` names two partitions", at, _RENAME_HINT)
    event_type = module.catalog.event_types.get(stream.type_name)
    if event_type is not None and stream.type_name in module.catalog.stores:
        kind = module.catalog.stores[stream.type_name].kind
        fact = f"`{stream.type_name}` is a {'named window' if kind == 'window' else kind}, whose rows are kept already"
        module.wrong(fact, stream.span, "read it without a partition")
    if event_type is None:
        streams = [name for name in module.catalog.event_types if name not in module.catalog.stores]
        hint = nearest_or_known_names(stream.type_name, streams)
        hint = hint or f"declare it in EPL: create schema {stream.type_name} (id long)"
        module.report("unknown-type", f"no stream `{stream.type_name}`", stream.span, hint)
    else:
        module.require("event type", stream.type_name)
    nothing = ast.Select((), (), span=stream.span)
    bound = bind_stages(stream, source.alias, event_type, _SelectRewriter(query, nothing, None).expr, module)
    store = query.declare(source.alias, bound.columns)
    number = len(query.partitions)
    query.relations[stream.span.start] = BoundRelation(source.alias, store.name, bound.columns, number)
    weight = _stream_setting(settings, "weights", stream.type_name, module)
    if weight is not None and (isinstance(weight, bool) or not isinstance(weight, (int, float)) or not weight >= 0):
        raise UsageError(f"the weight of `{stream.type_name}` is a number not below 0, found {weight!r}")
    time = _stream_setting(settings, "timestamp", stream.type_name, module)
    if time is not None and event_type is not None:
        of = event_type.properties
        if time not in of:
            raise UsageError(
                f"`{stream.type_name}` has no column `{time}` for timestamps{known_names_line(str(time), of)}"
            )
        if not t.is_integral(of[time]):
            raise UsageError(f"the timestamp `{time}` of `{stream.type_name}` is in milliseconds, found {of[time]}")
    known = () if event_type is None else tuple(event_type.properties)
    read = SourceNode(stream.type_name, bound.filter, source.alias, span=stream.span)
    weight = 1.0 if weight is None else float(weight)
    query.partitions.append(StreamPartition(read, known, bound.stages, store, weight, time, span=source.span))


def _alert_columns(columns: Sequence[tuple[int, str, str]], query: _Query) -> dict[str, Type] | None:
    relations = list(query.relations.values())
    composite: dict[str, Type] = {}
    for number, column, name in columns:
        known = relations[number].columns
        if known is None:
            return None
        composite[name] = known[column]
    return composite


class _SelectRewriter:
    """Rewrites one select (the query, or a subquery in it) to read relations; `around` is the select around it."""

    def __init__(self, query: _Query, node: ast.Select, around: _SelectRewriter | None) -> None:
        self.query = query
        self.module = query.module
        self.node = node
        self.around = around
        self.relations = [self._relation(source) for source in node.sources]
        aliases = [relation.alias for relation in self.relations]
        for number, (source, alias) in enumerate(zip(node.sources, aliases, strict=True)):
            if alias and alias in aliases[:number]:
                self.module.report("duplicate-name", f"`{alias}` names two sources", source.span, _RENAME_HINT)

    def _relation(self, source: ast.StreamSource) -> BoundRelation:
        stream, module = source.stream, self.module
        if isinstance(stream, (ast.PartitionStream, ast.AlertStream)):
            return self.query.relations[stream.span.start]
        if isinstance(stream, ast.SameStream):
            named = {item.alias: item for item in self.query.relations.values() if item.partition is not None}
            relation = named.get(stream.alias)
            if relation is None:
                hint = nearest_or_known_names(stream.alias, named)
                module.report("unknown-name", f"no partition `{stream.alias}` in this query", stream.span, hint)
                return BoundRelation(source.alias or "", self.query.declare("self", None).name, None)
            return replace(relation, alias=source.alias or "")
        assert isinstance(stream, ast.FilterStream)
        name, alias = stream.type_name, source.alias or stream.type_name
        known = module.catalog.event_types.get(name)
        if name in module.catalog.stores and known is not None:
            return BoundRelation(alias, name, known.properties)
        if known is not None:
            hint = f"say which rows to retain: {name} (partition store last 10) as {alias}"
            module.wrong(f"`{name}` is a stream, not a table", stream.span, hint)
        elif name not in module.rejected_names:
            tables = [item for item in module.catalog.stores if item not in self.query.internal]
            hint = nearest_or_known_names(name, tables) or "reference tables are given with the query, as its `tables`"
            module.report("unknown-type", f"no table `{name}`", stream.span, hint)
        return BoundRelation(alias, self.query.declare(name, None).name, None)

    def rewritten(self) -> ast.Select:
        """Return the select over relations; conditions on the status of a source become filters of the source."""
        node = self.node
        filters: list[list[ast.Expr]] = [[] for _ in self.relations]
        rest: list[ast.Expr] = []
        for conjunct in split_conjuncts(node.where):
            place = self._status_source(conjunct)
            (rest if place is None else filters[place]).append(self.expr(conjunct))
        where = rest[0] if len(rest) == 1 else ast.Logical("and", tuple(rest), span=node.span) if rest else None
        sources = []
        for source, relation, own in zip(node.sources, self.relations, filters, strict=True):
            stream = ast.FilterStream(relation.type_name, tuple(own), span=source.stream.span)
            sources.append(ast.StreamSource(stream, (), relation.alias or None, span=source.span))
        group_by = node.group_by
        if group_by is not None:
            group_by = replace(group_by, items=tuple(self.expr(item) for item in group_by.items))  # type: ignore[arg-type]
        return replace(
            node,
            items=self._items() if self.around is None else tuple(map(self._plain_item, node.items)),
            sources=tuple(sources),
            where=where,
            group_by=group_by,
            having=None if node.having is None else self.expr(node.having),
            order_by=tuple(replace(item, expr=self.expr(item.expr)) for item in node.order_by),
        )

    def _status_source(self, conjunct: ast.Expr) -> int | None:
        if not isinstance(conjunct, ast.RowStatus):
            return None
        own = [n for n, r in enumerate(self.relations) if r.partition is not None]
        if conjunct.alias is None:
            return own[0] if len(own) == 1 else None
        return next((n for n in own if self.relations[n].alias == conjunct.alias), None)

    def _plain_item(self, item: ast.SelectItem) -> ast.SelectItem:
        return item if item.expr is None else replace(item, expr=self.expr(item.expr))

    def _items(self) -> tuple[ast.SelectItem, ...]:
        """Return the select items with names; ``*`` is expanded."""
        items: list[ast.SelectItem] = []
        taken: set[str] = set()
        for item in self.node.items:
            if item.expr is not None:
                name = item.alias or _column_name(item.expr) or f"col{len(items) + 1}"
                if item.alias is None and name in taken:
                    name = _qualified(item.expr) or f"col{len(items) + 1}"
                items.append(replace(item, expr=self.expr(item.expr), alias=name))
                taken.add(name)
                continue
            relations = [r for r in self.relations if item.stream in (None, r.alias)]
            if not relations:
                hint = nearest_or_known_names(item.stream or "", [r.alias for r in self.relations])
                self.module.report("unknown-name", f"no source `{item.stream}`", item.span, hint)
            for relation in relations:
                for column in relation.columns or ():
                    if column != STATUS:
                        column_name = column if column not in taken else f"{relation.alias}.{column}"
                        names = (relation.alias, column) if relation.alias else (column,)
                        steps = tuple(ast.NameStep(name_, span=item.span) for name_ in names)
                        chain = ast.Chain(steps, span=item.span)
                        items.append(ast.SelectItem(chain, column_name, span=item.span))
                        taken.add(column_name)
        if items:
            return tuple(items)
        return (ast.SelectItem(ast.Literal(None, "null", span=self.node.span), "col1", span=self.node.span),)

    def expr(self, node: ast.Expr) -> ast.Expr:
        rewritten: ast.Expr = replace_nodes(node, self._rule)
        return rewritten

    def _rule(self, node: object) -> object | None:
        if isinstance(node, ast.RowStatus):
            return self._status(node)
        if isinstance(node, ast.Between):
            return range_comparisons(node, self.expr)
        if isinstance(node, ast.Select):
            return _SelectRewriter(self.query, node, self).rewritten()
        return None

    def _status(self, node: ast.RowStatus) -> ast.Expr:
        relation = self._status_relation(node)
        if relation is None:
            return ast.Literal(True, "boolean", span=node.span)
        value = NEW if node.status == "new" else DEAD
        names = (relation.alias, STATUS)
        chain = ast.Chain(tuple(ast.NameStep(name, span=node.span) for name in names), span=node.span)
        op: Any = "!=" if node.status == "not dead" else "="
        return ast.Compare(op, chain, ast.Literal(value, "int", span=node.span), span=node.span)

    def _status_relation(self, node: ast.RowStatus) -> BoundRelation | None:
        if node.alias is None:
            own = [r for r in self.relations if r.partition is not None]
            if len(own) == 1:
                return own[0]
            if own:
                hint = f"write {own[0].alias}.{STATUS}"
                self.module.report("ambiguous", f"`{STATUS}` of which partition: {_listed(own)}", node.span, hint)
            else:
                self.module.wrong(f"only partitions have a `{STATUS}`", node.span, _LEAVE_OUT_HINT)
            return None
        scope: _SelectRewriter | None = self
        while scope is not None:
            relation = next((r for r in scope.relations if r.alias == node.alias), None)
            if relation is not None:
                if relation.partition is None and relation.columns is not None:
                    fact = f"`{node.alias}` is a table, and only partitions have a `{STATUS}`"
                    self.module.wrong(fact, node.span, _LEAVE_OUT_HINT)
                elif relation.columns is None and relation.partition is None:
                    self.module.wrong(f"only partitions have a `{STATUS}`", node.span, _LEAVE_OUT_HINT)
                return None if relation.columns is None or relation.partition is None else relation
            scope = scope.around
        nearest = nearest_or_known_names(node.alias, [r.alias for r in self.relations])
        self.module.report("unknown-name", f"no partition `{node.alias}`", node.span, nearest)
        return None


def _listed(relations: Sequence[BoundRelation]) -> str:
    return ", ".join(f"`{relation.alias}`" for relation in relations)


def _column_name(node: ast.Expr) -> str | None:
    if isinstance(node, ast.Chain) and node.steps[-1].args is None and not node.steps[-1].wildcard:
        return node.steps[-1].name
    return None


def _qualified(node: ast.Expr) -> str | None:
    return ".".join(step.name for step in node.steps) if isinstance(node, ast.Chain) and len(node.steps) > 1 else None


def range_comparisons(node: ast.Between, inner: Callable[[ast.Expr], ast.Expr]) -> ast.Expr:
    """Return ``between`` as in SQL: two comparisons with ordered bounds, undecided for null."""
    value, low, high = (inner(operand) for operand in (node.operand, node.low, node.high))
    sides = ast.Compare(">=", value, low, span=node.span), ast.Compare("<=", value, high, span=node.span)
    inside = ast.Logical("and", sides, span=node.span)
    return ast.Unary("not", inside, span=node.span) if node.negated else inside


def _stream_setting(settings: Mapping[str, Any], setting: str, stream: str, module: ModuleScope) -> Any:
    values = settings.get(setting)
    if values is None:
        return None
    if not isinstance(values, Mapping):
        raise UsageError(f"`{setting}` has a value for each stream, such as {{'{stream}': …}}, found {values!r}")
    for name in values:
        if name not in module.catalog.event_types:
            streams = [type_name for type_name in module.catalog.event_types if type_name not in module.catalog.stores]
            raise UsageError(f"`{setting}` names `{name}`, which is not a stream{known_names_line(str(name), streams)}")
    return values.get(stream)


def _every(settings: Mapping[str, Any], module: ModuleScope) -> int | None:
    schedule = settings.get("schedule")
    if schedule is None:
        return None
    policy = schedule.get("policy") if isinstance(schedule, Mapping) else None
    every = schedule.get("every_ms") if isinstance(schedule, Mapping) else None
    if policy == "sooner" and every is None:
        return None
    if policy != "fixed" or isinstance(every, bool) or not isinstance(every, int) or every < 1:
        fact = f"`schedule` is not understood: {schedule!r}"
        hint = '{"policy": "sooner"}, or {"policy": "fixed", "every_ms": 1000}'
        raise UsageError(f"{fact}\n  hint: {hint}")
    return every * 1000 if module.options.microseconds else every


def _fills(settings: Mapping[str, Any]) -> bool:
    sliding = settings.get("sliding", "one")
    if sliding not in ("one", "fill"):
        raise UsageError(f"`sliding` is 'one' or 'fill', found {sliding!r}")
    return bool(sliding == "fill")


def _seed(settings: Mapping[str, Any]) -> int:
    seed = settings.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UsageError(f"`seed` is a whole number, found {seed!r}")
    return seed


def translate(text: str, catalog: Catalog, names: Collection[str] = (), options: Options = Options()) -> ModulePlan:
    """Return the plan of a query. Raises ParseError, BindError, or UsageError for an invalid setting."""
    module, settings = parse(text), settings_of(text)
    name = settings.get("name")
    (query,) = module.statements
    if name is not None:
        query = replace(query, annotations=(ast.Annotation("name", name, span=Span(0, 0)),))
    tables = read_tables(settings.get("tables"))
    new = [
        create_window_for(item, columns, rows, item in names or item == name)
        for item, (columns, rows) in tables.items()
        if item not in catalog.event_types
    ]
    rules: dict[type[ast.Statement], StatementRule] = {
        ast.CreateWindow: bind_create_window,
        ast.RunningQuery: partial(bind_running_query, settings=settings),
    }
    try:
        sql = replace(options, integer_division=True)
        plan = bind(replace(module, statements=(*new, query)), catalog, text, names, sql, rules)
    except BindError as error:
        raise BindError(tuple(_reword(item, text) for item in error.diagnostics), text, DIALECT_NAME) from None
    return _with_tables(plan, tables, catalog) if tables else plan


def _with_tables(
    module: ModulePlan, tables: Mapping[str, tuple[tuple[str, ...], TableRows]], catalog: Catalog
) -> ModulePlan:
    *windows, query = module.statements
    own = {w.store.name: w.output_type for w in windows if isinstance(w, CreateWindowStatement)}
    table_rows = []
    for name, (columns, rows) in tables.items():
        of = (own[name] if name in own else catalog.event_types[name]).properties
        if name not in own and (name not in catalog.stores or set(of) != set(columns)):
            raise UsageError(f"`{name}` already exists and has the columns {', '.join(of)}")
        table_rows.append((name, columns, widen_rows(rows, [of[column] for column in columns])))
    assert isinstance(query, CycleStatement)
    return replace(module, statements=(*windows, replace(query, tables=tuple(table_rows))))


_WORDS = {"property or stream": "column or source", "property": "column", "event type": "stream", "statement": "query"}


def _reword(diagnostic: Diagnostic, text: str) -> Diagnostic:
    message = diagnostic.message
    for word, own in _WORDS.items():
        message = message.replace(f"no {word} ", f"no {own} ")
    hint = diagnostic.hint
    if diagnostic.code == "ambiguous-property":
        message = message.replace("a property of several streams", "a column of several sources")
        hint = f"write {message.partition('`')[2].partition('`')[0]} with its source before it, as in w.column"
    named = text[diagnostic.span.start : diagnostic.span.end]
    if diagnostic.code == "unknown-property" and named[:1] == '"' and not (hint or "").startswith("did"):
        hint = f"names use double quotes, strings use single quotes: '{named[1:-1]}'"
    return replace(diagnostic, message=message, hint=hint)


def declared_names(text: str) -> frozenset[str]:
    """Return the name of the query if it has one."""
    parse(text)
    name = settings_of(text).get("name")
    return frozenset() if name is None else frozenset((name,))
