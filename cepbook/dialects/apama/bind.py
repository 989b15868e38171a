"""Bind Apama programs: one select statement per query; statements exchange rows in activations.

A stream variable is a statement called ``NAME.variable`` that inserts into an event type of that name. A query inside
of a query is ``NAME.1`` and so on. A plain template is no statement: queries that read it read the events.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from cepbook.dialects.apama import tree as a
from cepbook.dialects.apama.expressions import (
    APAMA_AGGREGATES,
    SCALAR_TYPES,
    VALUE_COLUMN,
    ApamaScope,
    InputItem,
    apama_text,
    apama_type,
    bind_boolean,
    bind_comparison,
    bind_constant,
    bind_expression,
    bind_value,
)
from cepbook.dialects.apama.query_checks import check_query
from cepbook.dialects.apama.reader import ORIGIN, parse
from cepbook.errors import BindError, Span, did_you_mean, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.filter import conjunction
from cepbook.lang.bind.clauses.group_by import QueryShape, resolve_query_kind
from cepbook.lang.bind.coercion import coerce
from cepbook.lang.bind.scope import AlreadyReported, DiagnosticCollector, ModuleScope, Options
from cepbook.lang.bind.scope import Scope as EplScope
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog, EventType
from cepbook.lang.plan.nodes import OutputColumn
from cepbook.lang.registry.aggregates import aggregate_row
from cepbook.lang.syntax.source_text import settings_of
from cepbook.lang.types import Type


def translate(text: str, catalog: Catalog, names: Collection[str], options: Options) -> nodes.ModulePlan:
    """Return the plan of an Apama text. Raises ParseError or BindError."""
    return _Binder(text, catalog.copy(), set(names), options).bound()


def declared_names(text: str) -> frozenset[str]:
    """Return the name of the statement. Event types belong to all texts that declare them alike. Raises ParseError."""
    parse(text)
    name = settings_of(text).get("name")
    return frozenset([str(name)] if name else [])


@dataclass(frozen=True, slots=True)
class _Stream:
    """A readable stream: events of a type that pass `filter`, or, with `lot`, the rows of a statement."""

    event_type: EventType
    scalar: Type | None = None
    filter: x.BoundExpr | None = None
    lot: bool = False


_Windows = tuple[nodes.WindowSpec, ...]


@dataclass(slots=True)
class _Binder:
    text: str
    catalog: Catalog
    names: set[str]
    options: Options
    problems: DiagnosticCollector = field(default_factory=DiagnosticCollector)
    streams: dict[str, _Stream] = field(default_factory=dict)
    statements: list[nodes.StatementPlan] = field(default_factory=list)
    requires: dict[tuple[str, str], None] = field(default_factory=dict)
    provides: dict[tuple[str, str], None] = field(default_factory=dict)
    name: str = ""
    nested: int = 0
    refused: set[str] = field(default_factory=set)  # names whose declarations were rejected
    later: set[str] = field(default_factory=set)  # streams whose declarations are still to come

    def bound(self) -> nodes.ModulePlan:
        program = parse(self.text)
        self.name = self._statement_name(program.span)
        self.later = {item.name for item in program.declarations if isinstance(item, a.StreamDeclaration)}
        for declaration in program.declarations:
            try:
                self._declare(declaration)
            except AlreadyReported:
                self.refused.add(declaration.name)
            self.later.discard(declaration.name)
        try:
            self._result(program.result)
        except AlreadyReported:
            pass
        if self.problems.reported:
            raise BindError(tuple(self.problems.reported), self.text, ORIGIN)
        statements, requires = tuple(self.statements), tuple(self.requires)
        return nodes.ModulePlan(statements, self.text, requires, tuple(self.provides), span=program.span)

    def _statement_name(self, span: Span) -> str:
        name = settings_of(self.text).get("name")
        if name is None:
            return next(f"stmt_{n}" for n in range(1, len(self.names) + 2) if f"stmt_{n}" not in self.names)
        if not isinstance(name, str) or not name.strip():
            self.problems.add("wrong-name", "the name of the statement is not text", span, "give it one of letters")
        if name in self.names:
            fact = f"a statement named `{name}` already exists"
            self.problems.add("duplicate-name", fact, span, "give the query another name")
        return str(name)

    def _result(self, node: a.Stream) -> None:
        if not isinstance(node, a.ApamaQuery):
            item = a.ApamaName("item", span=node.span)
            inputs = (a.QueryInput("item", node, None, span=node.span),)
            node = a.ApamaQuery(inputs, None, None, (), None, None, item, None, span=node.span)
        self._query(node, self.name, None)

    def _declare(self, node: a.EventDeclaration | a.StreamDeclaration | a.UsingDeclaration) -> None:
        match node:
            case a.UsingDeclaration():
                name = node.name.rpartition(".")[2]
                if not node.name.startswith("com.apama.aggregates.") or name not in APAMA_AGGREGATES:
                    hint = did_you_mean(name, APAMA_AGGREGATES) or "leave it out: com.apama.aggregates is known"
                    self.problems.fail("unknown-name", f"unknown name `{node.name}`", node.span, hint)
            case a.EventDeclaration():
                self._event(node)
            case a.StreamDeclaration():
                self._variable(node)

    def _event(self, node: a.EventDeclaration) -> None:
        fields: dict[str, Type] = {}
        for type_, name in node.fields:
            if name in fields:
                self.problems.fail("duplicate-name", f"the field `{name}` twice", type_.span, "give it another name")
            fields[name] = self._type(type_)
        known = self.catalog.event_types.get(node.name)
        if known is not None:
            same = list(known.properties) == list(fields)
            if not same or not all(_same_type(of, fields[name]) for name, of in known.properties.items()):
                fact = f"there is an event type `{node.name}` with other fields"
                self.problems.fail("duplicate-name", fact, node.span, "give it another name")
            self.requires["event type", node.name] = None
            return
        event_type = EventType(node.name, fields)
        self.catalog.event_types[node.name] = event_type
        self.provides["event type", node.name] = None
        text, name = self._text(node.span), self._free(node.name)
        self.statements.append(nodes.CreateSchemaStatement(name, False, text, (), event_type, span=node.span))

    def _free(self, name: str) -> str:
        taken = {*self.names, self.name, *(statement.name for statement in self.statements)}
        return name if name not in taken else f"{self.name}.{name}"

    def _type(self, node: a.TypeReference) -> Type:
        if node.name in SCALAR_TYPES and not node.of:
            return SCALAR_TYPES[node.name]
        if node.name in self.catalog.event_types and not node.of:
            self.requires["event type", node.name] = None
            return t.event_of(node.name)
        if node.name in ("decimal", "location", "sequence", "dictionary", "chunk", "any", "optional", "context"):
            hint = f"there are {', '.join(SCALAR_TYPES)}"
            self.problems.fail("unknown-type", f"fields of type {node.name} are not part of this", node.span, hint)
        self.problems.fail("unknown-type", f"no type `{node.name}`", node.span, self._types_like(node.name))

    def _types_like(self, name: str) -> str | None:
        events = (known for known in self.catalog.event_types if "." not in known)
        return nearest_or_known_names(name, (*SCALAR_TYPES, *events))

    def _variable(self, node: a.StreamDeclaration) -> None:
        if node.name in self.streams:
            self.problems.fail("duplicate-name", f"the stream `{node.name}` twice", node.span, "give it another name")
        stream = self._stream(node.value, f"{self.name}.{node.name}")
        self.streams[node.name] = stream
        event = self.catalog.event_types.get(node.type.name)
        declared = SCALAR_TYPES.get(node.type.name) or (None if event is None else t.event_of(event.name))
        if declared is None:
            hint = self._types_like(node.type.name)
            self.problems.fail("unknown-type", f"no type `{node.type.name}`", node.type.span, hint)
        item_type = t.event_of(stream.event_type.name) if stream.scalar is None else stream.scalar
        if stream.scalar is not None:
            same = apama_type(item_type) == declared
        else:
            same = self._is_event(stream.event_type, declared)
        if not same:
            fact = f"`{node.name}` is a stream of {node.type.name}, its items are {self._item_text(stream)}"
            hint = "select a field of the item, or name its type" if stream.scalar is None else None
            hint = hint or f"write stream<{self._item_text(stream).removeprefix('of type ')}>"
            self.problems.fail("type-mismatch", fact, node.type.span, hint)

    def _is_event(self, declared: EventType, type_: Type) -> bool:
        if type_.event is None:
            return False
        return type_.event == declared.name or self.catalog.event_types[type_.event].properties == declared.properties

    def _item_text(self, stream: _Stream) -> str:
        return "events of another type" if stream.scalar is None else f"of type {apama_text(stream.scalar)}"

    def _stream(self, node: a.Stream, name: str) -> _Stream:
        match node:
            case a.StreamReference():
                if node.name in self.streams:
                    return self.streams[node.name]
                if node.name in self.catalog.event_types:
                    return _Stream(self._event_type(node.name, node.span))
                self._skip_rejected(node.name)
                hint = nearest_or_known_names(node.name, (*self.streams, *self.catalog.event_types))
                if node.name in self.later:
                    hint = "a stream is declared before it is read"
                self.problems.fail("unknown-stream", f"no stream or event type `{node.name}`", node.span, hint)
            case a.EventTemplate():
                return self._template(node)
            case a.ApamaQuery():
                return self._query(node, name, f"{name}")

    def _skip_rejected(self, name: str) -> None:
        if name in self.refused:
            raise AlreadyReported(name)

    def _event_type(self, name: str, span: Span) -> EventType:
        event_type = self.catalog.event_types.get(name)
        if event_type is None:
            self._skip_rejected(name)
            hint = nearest_or_known_names(name, self.catalog.event_types)
            hint = hint or f"declare it before the query: event {name} {{ float x; }}"
            self.problems.fail("unknown-type", f"no event type `{name}`", span, hint)
        if ("event type", name) not in self.provides:
            self.requires["event type", name] = None
        return event_type

    def _template(self, node: a.EventTemplate) -> _Stream:
        named = Span(node.span.start, node.span.end)
        event_type = self._event_type(node.name, named)
        fields = list(event_type.properties)
        parts: list[x.BoundExpr] = []
        place = 0
        for constraint in node.constraints:
            name = constraint.name
            if name is None:
                if place >= len(fields):
                    fact = f"`{node.name}` has {len(fields)} field{'s' * (len(fields) != 1)}"
                    self.problems.fail("wrong-template", fact, constraint.span, _fields(event_type))
                name = fields[place]
                place += 1
            elif name not in event_type.properties:
                hint = nearest_or_known_names(name, fields)
                self.problems.fail("unknown-field", f"`{node.name}` has no field `{name}`", constraint.span, hint)
            parts += self._constraint(constraint, x.Prop(event_type.properties[name], 0, name, span=constraint.span))
        return _Stream(event_type, None, conjunction(parts))

    def _constraint(self, node: a.TemplateConstraint, target: x.BoundExpr) -> list[x.BoundExpr]:
        if node.value is None:
            return []
        scope = ApamaScope(self.problems, self.catalog, place="a template")
        value = bind_expression(node.value, scope)
        if node.high is None:
            return [bind_comparison(node.op, target, value, node.span, scope)]
        limits = ((">=", value), ("<=", bind_expression(node.high, scope)))
        return [bind_comparison(op, target, limit, node.span, scope) for op, limit in limits]

    def _query(self, node: a.ApamaQuery, name: str, target: str | None) -> _Stream:
        """Add the statement of a query; with `target` the statement inserts into an event type of that name."""
        check_query(node, self.problems)
        bounds = [self._bounds(query_input.window) for query_input in node.inputs]
        inputs = [self._input(query_input, name) for query_input in node.inputs]
        items = {
            query_input.item: InputItem(number, stream.event_type, stream.scalar)
            for number, (query_input, stream) in enumerate(zip(node.inputs, inputs, strict=True))
        }
        scope = ApamaScope(self.problems, self.catalog, items)
        where = None
        if node.where is not None:
            where = bind_boolean(node.where, "the condition of where", scope.without_aggregates("where"))
        keys = tuple(bind_value(key, scope.without_aggregates("group by")) for key in node.group_by)
        columns, scalar = self._selected(node, items, scope)
        having = None if node.having is None else bind_boolean(node.having, "the condition of having", scope)
        written = QueryShape("unaggregated", keys, columns, False, having, ())
        module = ModuleScope(self.catalog, self.text, self.options, self.problems)
        shape = resolve_query_kind(written, EplScope(module, calls=scope.calls), node.span)
        calls = tuple(scope.calls)
        if calls and all(call.index is None for call in calls) and _retains_all(node):  # no item need be kept
            bounds = [()]
            calls = tuple(replace(call, ever=aggregate_row(call.name).ever_without_window) for call in calls)
        from_ = self._rows(node, inputs, bounds, scope)
        below: nodes.SelectionNode = from_ if where is None else nodes.Selection(from_, where, span=where.span)
        rows: nodes.AggregationNode = below
        if scope.calls:
            rows = nodes.Aggregation(below, shape.keys, calls, shape.kind, span=node.span)
        top = rows if shape.having is None else nodes.Having(rows, shape.having, span=shape.having.span)
        output = EventType(target or f"<{name}>", {column.name: column.value.type for column in shape.columns})
        insert = None if target is None else nodes.Insert(target, "istream", True, span=node.span)
        statement = nodes.SelectStatement(
            name=name,
            named=True,
            epl=self._text(node.span),
            annotations=(("iterableunbound", None),) if _retains_all(node) else (),
            root=nodes.Projection(top, shape.columns, span=node.select.span),
            selector="istream" if node.rstream is None else "rstream",
            kind=shape.kind,
            context=None,
            insert=insert if node.rstream is None or insert is None else replace(insert, selector="rstream"),
            output_type=output,
            lots=True,
            span=node.span,
        )
        self.statements.append(statement)
        if target is not None:
            self.catalog.event_types[target] = output
            self.provides["event type", target] = None
        return _Stream(output, scalar, lot=True)

    def _input(self, node: a.QueryInput, name: str) -> _Stream:
        own = name
        if isinstance(node.source, a.ApamaQuery):
            self.nested += 1
            own = f"{self.name}.{self.nested}"
        return self._stream(node.source, own)

    def _rows(
        self, node: a.ApamaQuery, inputs: Sequence[_Stream], bounds: Sequence[_Windows], scope: ApamaScope
    ) -> nodes.FromNode:
        streams = [
            self._windowed(input_, stream, windows)
            for input_, stream, windows in zip(node.inputs, inputs, bounds, strict=True)
        ]
        if len(streams) == 1:
            return streams[0]
        on: x.BoundExpr | None = None
        if node.keys is not None:
            left, right = (bind_value(key, scope.without_aggregates("the key of a join")) for key in node.keys)
            span = left.span.to(right.span)
            tested = bind_comparison("=", left, right, span, scope)
            on = x.ComparisonExpr(t.BOOLEAN, "=", left, right, span=span)
            if not isinstance(tested, x.ComparisonExpr):  # keys are looked up by, and a NaN is found by another
                on = x.Logic(t.BOOLEAN, "and", (on, tested), span=span)
        first, second = streams
        joined = nodes.JoinInput(first, span=node.inputs[0].span), nodes.JoinInput(second, on=on, span=node.span)
        return nodes.StreamJoin(joined, span=node.span)

    def _windowed(self, node: a.QueryInput, stream: _Stream, bounds: _Windows) -> nodes.StreamNode:
        source = nodes.SourceNode(stream.event_type.name, stream.filter, node.item, lot=stream.lot, span=node.span)
        window = node.window
        if window is None:
            return nodes.Windowed(source, (nodes.WindowSpec("lot", (), span=node.span),), span=node.span)
        item = InputItem(0, stream.event_type, stream.scalar)
        scope = ApamaScope(self.problems, self.catalog, {node.item: item}, place="a window")
        keys = tuple(bind_value(key, scope) for key in window.partition)
        specs = list(bounds)
        if keys and (window.retain is not None or window.unique is not None):  # by time alone it makes no difference
            specs.insert(0, nodes.WindowSpec("groupwin", keys, span=window.span))
        if window.unique is not None:
            specs.append(nodes.WindowSpec("newest", (bind_value(window.unique, scope),), span=window.unique.span))
        return nodes.Windowed(source, tuple(specs), span=window.span) if specs else source

    def _bounds(self, window: a.ApamaWindow | None) -> _Windows:
        """Return the windows by size and time; their parameters are constants."""
        if window is None:
            return ()
        span = window.span
        if window.everything:
            return (nodes.WindowSpec("keepall", (), span=span),)
        sizes: list[x.BoundExpr] = []
        if window.retain is not None:
            sizes.append(self._size(window.retain[0], "the size of a window"))
        if window.within is None:
            gate = window.retain[1] if window.retain is not None else None
            if gate is None:
                return (nodes.WindowSpec("length", tuple(sizes), span=span),)
            sizes.append(self._size(gate, "the number of items of a batch"))
            return (nodes.WindowSpec("gated_length", tuple(sizes), span=span),)
        duration = self._seconds(window.within[0], "the duration of a window")
        if window.within[1] is not None:
            period = self._seconds(window.within[1], "the period of a batch")
            return (nodes.WindowSpec("gated_time", (duration, period, *sizes), span=span),)
        timed = nodes.WindowSpec("time", (duration,), span=span)
        return (timed, *(nodes.WindowSpec("length", (size,), span=span) for size in sizes))

    def _size(self, node: a.Expr, what: str) -> x.BoundExpr:
        size = bind_constant(node, what, ApamaScope(self.problems, self.catalog))
        if not isinstance(size.value, int):
            fact = f"{what} must be an integer, found {size.value}"
            self.problems.fail("wrong-parameter", fact, node.span, "such as retain 10, or retain 10 every 5")
        if size.value < 1:
            fact = f"{what} must be at least 1, found {size.value}"
            hint = "without retain a query reads only the current items"
            self.problems.fail("wrong-parameter", fact, node.span, hint)
        return x.Const(t.INT, size.value, span=node.span)

    def _seconds(self, node: a.Expr, what: str) -> x.BoundExpr:
        seconds = bind_constant(node, what, ApamaScope(self.problems, self.catalog)).value
        assert isinstance(seconds, (int, float))
        unit = 1_000_000 if self.options.microseconds else 1000
        bounds = None
        if seconds <= 0:
            bounds = "above 0"
        elif not seconds < 1e15:
            bounds = "below 1e15"
        elif round(seconds * unit) < 1:
            bounds = f"at least {1 / unit:.6f}".rstrip("0")
        if bounds is not None:
            fact = f"{what} must be {bounds} seconds, found {seconds}"
            self.problems.fail("wrong-parameter", fact, node.span, "durations are seconds: within 1.5 every 0.5")
        return x.Period(t.LONG, None, x.Const(t.LONG, round(seconds * unit)), span=node.span)

    def _selected(
        self, node: a.ApamaQuery, items: dict[str, InputItem], scope: ApamaScope
    ) -> tuple[tuple[OutputColumn, ...], Type | None]:
        """Return the columns of a row and the type of its only value; the type is None for an event."""
        select = node.select
        if isinstance(select, a.ApamaCall):
            self._skip_rejected(select.name)
            if select.name not in APAMA_AGGREGATES and select.name in self.catalog.event_types:
                return self._constructed(select, scope), None
        bound = bind_expression(select, scope)
        if isinstance(bound, x.EventOf):
            item = next(candidate for candidate in items.values() if candidate.number == bound.stream)
            columns = [
                OutputColumn(name, x.Prop(of, item.number, name, span=select.span), span=select.span)
                for name, of in item.event_type.properties.items()
            ]
            return tuple(columns), None
        if apama_type(bound.type) is None:
            hint = "select values, items or a new event"
            self.problems.fail("type-mismatch", f"a query cannot select {apama_text(bound.type)}", select.span, hint)
        return (OutputColumn(node.alias or VALUE_COLUMN, bound, span=select.span),), apama_type(bound.type)

    def _constructed(self, node: a.ApamaCall, scope: ApamaScope) -> tuple[OutputColumn, ...]:
        event_type = self._event_type(node.name, node.span)
        fields = event_type.properties
        if len(fields) != len(node.args):
            fact = f"`{node.name}` has {len(fields)} field{'s' * (len(fields) != 1)}, found {len(node.args)}"
            self.problems.fail("wrong-event", fact, node.span, _fields(event_type))
        columns = []
        for arg, (name, of) in zip(node.args, fields.items(), strict=True):
            bound = bind_expression(arg, scope)
            kinds = apama_type(bound.type), apama_type(of)
            of_event = self.catalog.event_types.get(bound.type.event or "")
            if of_event is not None and self._is_event(of_event, of):
                columns.append(OutputColumn(name, bound, span=arg.span))
                continue
            if None in kinds or (kinds[0] != kinds[1] and kinds != (t.LONG, t.DOUBLE)):
                fact = f"the field `{name}` is of type {apama_text(of)}, found {apama_text(bound.type)}"
                hint = f"give it an event of type {of.event}" if of.event else _conversion_hint(kinds[1], kinds[0])
                self.problems.fail("type-mismatch", fact, arg.span, hint)
            value = coerce(bound, t.DOUBLE) if kinds[1] == t.DOUBLE else bound
            columns.append(OutputColumn(name, value, span=arg.span))
        return tuple(columns)

    def _text(self, span: Span) -> str:
        return self.text[span.start : span.end].strip()


def _same_type(known: Type, declared: Type) -> bool:
    return apama_type(known) == apama_type(declared) and known.event == declared.event


def _conversion_hint(field_type: Type | None, value_type: Type | None) -> str | None:
    if field_type == t.STRING and value_type is not None:
        return "write .toString() after the value"
    if field_type == t.LONG and value_type == t.DOUBLE:
        return "a float becomes an integer with .round(), .floor() or .ceil()"
    return "write a comparison, such as x > 0" if field_type == t.BOOLEAN else None


def _fields(event_type: EventType) -> str:
    known = ", ".join(f"{apama_text(of)} {name}" for name, of in event_type.properties.items())
    return f"its fields are {known}" if known else "it has no fields"


def _retains_all(node: a.ApamaQuery) -> bool:
    return any(query_input.window is not None and query_input.window.everything for query_input in node.inputs)
