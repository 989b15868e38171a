"""``create schema`` (Esper reference, chapter Event Representations)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepbook.errors import Span, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.expressions.variant import bind_variant
from cepbook.lang.bind.scope import ERROR, ModuleScope, declared_type
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type


def bind_schema(node: ast.CreateSchema, module: ModuleScope) -> EventType:
    """Return the declared event type, entered into the module's catalog."""
    if node.name in module.catalog.event_types:
        module.report("duplicate-name", f"event type `{node.name}` already exists", module.locate(node.name, node.span))
    if node.representation == "variant":
        found_type = bind_variant(node, module)
        module.catalog.event_types[node.name] = found_type
        module.provides["event type", node.name] = None
        return found_type
    if node.alias_of:
        module.rejected_names.add(node.name)
        module.unsupported("event types from classes", node.span, "list the properties: create schema X(a int)")
    properties: dict[str, Type] = {}
    supertypes: list[str] = []
    times: list[str | None] = [None, None]
    further: frozenset[str] = frozenset()
    for number, name in enumerate((*node.copyfrom, *node.inherits)):
        base = module.event_type(name, node.span)
        if base is None:
            continue
        _merge(properties, base.properties, node.span, module)
        own = (base.time_property, base.end_time_property)
        further |= base.times
        if number >= len(node.copyfrom):
            supertypes.extend(s for s in (name, *base.supertypes) if s not in supertypes)
            for former, later in zip(times, own, strict=True):
                if former is not None and later is not None and former != later:
                    fact = f"both `{former}` and `{later}` are inherited as the timestamp"
                    module.report("duplicate-name", fact, node.span)
        times = [former or later for former, later in zip(times, own, strict=True)]
    bind_schema_columns(node.columns, properties, module)
    _check_timestamps(node, supertypes, module)
    start = _time_property(node.start_timestamp, properties, node.span, module) or times[0]
    end = _time_property(node.end_timestamp, properties, node.span, module) or times[1]
    if end is not None and start is None and node.start_timestamp is None:
        module.wrong("an end timestamp without a start timestamp", node.span, "write starttimestamp NAME, too")
    elif end is not None and start is not None:
        kinds = [properties.get(name, ERROR) for name in (start, end)]
        if kinds[0] != kinds[1] and ERROR not in kinds:
            fact = f"the end timestamp `{end}` is {kinds[1]}, the start timestamp `{start}` {kinds[0]}"
            module.report("type-mismatch", fact, module.locate(end, node.span))
    _check_representation(node, properties, module)
    found_type = EventType(
        node.name, properties, tuple(supertypes), start, end, representation=node.representation, times=further
    )
    if node.name not in module.rejected_names:
        module.catalog.event_types[node.name] = found_type
    module.provides["event type", node.name] = None
    return found_type


def _check_representation(node: ast.CreateSchema, properties: Mapping[str, Type], module: ModuleScope) -> None:
    """Check what the kinds of schema demand (Esper reference, chapter Event Representations)."""
    at = module.locate(node.name, node.span)
    values = {a.name.lower(): {"value": a.value, **dict(a.values)} for a in node.annotations}
    if node.representation == "objectarray" and len(node.inherits) > 1:
        module.wrong("an objectarray type has one supertype at most", at, "copy the other properties: copyfrom NAME")
    if node.representation == "xml":
        if not values.get("xmlschema", {}).get("rootElementName"):
            hint = f"write @XMLSchema(rootElementName='…') create xml schema {node.name}()"
            module.wrong("an xml type needs the name of its root element", at, hint)
        if node.columns or node.inherits or node.copyfrom:
            hint = "leave out columns, inherits and copyfrom"
            module.wrong("an xml type takes its properties from the document", at, hint)
    if node.representation == "json":
        for name, type_ in properties.items():
            nested = module.catalog.event_types.get((type_.of or type_).event or "")
            if nested is not None and nested.representation == "objectarray":
                fact = f"property `{name}` of a json type is of the objectarray type `{nested.name}`"
                module.wrong(fact, module.locate(name, node.span), f"declare {nested.name} as json, too")
        class_name = values.get("jsonschema", {}).get("className")
        if class_name is not None:
            module.wrong(f"no class `{class_name}`", at, "leave @JsonSchema out: the columns declare the type")


def _check_timestamps(node: ast.CreateSchema, supertypes: Sequence[str], module: ModuleScope) -> None:
    """Report a timestamp that is not that of a supertype."""
    bases = [module.catalog.event_types[name] for name in supertypes]
    for name, field in ((node.start_timestamp, "time_property"), (node.end_timestamp, "end_time_property")):
        base = next((base for base in bases if getattr(base, field) not in (None, name)), None)
        if name is not None and base is not None:
            fact = f"`{base.name}` has the timestamp `{getattr(base, field)}`, which its subtypes inherit"
            module.report("duplicate-name", fact, module.locate(name, node.span), "leave the timestamp out")


def _merge(properties: dict[str, Type], more: Mapping[str, Type], span: Span, module: ModuleScope) -> None:
    for name, type_ in more.items():
        if properties.get(name, type_) != type_:
            module.report("duplicate-name", f"property `{name}` is both {properties[name]} and {type_}", span)
        properties[name] = type_


def bind_schema_columns(columns: Sequence[ast.ColumnDef], properties: dict[str, Type], module: ModuleScope) -> None:
    """Add names and types of declared columns to `properties`, which may hold inherited ones."""
    own: set[str] = set()
    for column in columns:
        if column.aggregate is not None or column.primary_key:
            module.wrong(f"`{column.name}` is a column of a table, not a property", column.span, "write create table")
            continue
        if column.annotations:
            module.unsupported("annotations of properties", column.span)
        if column.type_args:
            module.unsupported("type parameters", column.span)
        type_ = declared_type(column, module)
        inherited = properties.get(column.name)
        if column.name in own or (inherited is not None and ERROR not in (inherited, type_) and inherited != type_):
            was = f" (inherited as {inherited})" if column.name not in own else ""
            module.report("duplicate-name", f"property `{column.name}` occurs twice{was}", column.span)
        own.add(column.name)
        properties[column.name] = type_


def _time_property(name: str | None, properties: dict[str, Type], span: Span, module: ModuleScope) -> str | None:
    if name is None:
        return None
    type_ = properties.get(name)
    if type_ is None:
        hint = nearest_or_known_names(name, properties)
        module.report("unknown-property", f"no property `{name}`", module.locate(name, span), hint)
        return None
    elif type_ not in (t.LONG, *t.DATETIMES, ERROR):
        fact = f"the timestamp `{name}` must be a long or a date-time, found {type_}"
        module.report("type-mismatch", fact, module.locate(name, span))
    return name
