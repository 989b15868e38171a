"""The meaning of a dotted chain such as ``a.b(1).c[0]``.

The name of the first step is looked up in the order below; `value_access` binds the further steps. `fail` and `reject`
report a problem and raise AlreadyReported.

1. variables of lambdas, parameters of the declared expression whose body this is, declared expressions
2. tables that no stream or property hides, named windows before an enumeration method
3. with parentheses: ``current_evaluation_context()``, spatial functions, entries of mapped properties, dynamic
   properties, ``current_timestamp()``, variables, functions, aggregates
4. before a dot: streams, ``context``, streams outside a subquery, Java classes with static methods
5. without parentheses: column aliases (not before a dot), properties, ``current_timestamp``, streams, events that began
   the partition, properties of variant streams, names outside a subquery, variables, dynamic properties
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cepbook.errors import did_you_mean, nearest_name, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.expressions import call
from cepbook.lang.bind.expressions.aggregate_methods import bind_aggregate_method
from cepbook.lang.bind.expressions.declared_expressions import expand_declared
from cepbook.lang.bind.expressions.table_access import bind_table_access
from cepbook.lang.bind.expressions.value_access import (
    apply_index,
    apply_steps,
    bind_entry,
    bind_member,
    is_entry_access,
    is_plain,
    members_of,
    visible_names,
)
from cepbook.lang.bind.expressions.variant import find_variant_property
from cepbook.lang.bind.scope import (
    CONTEXT_DECLARATION,
    ERROR,
    MATCH_TYPE,
    NO_FROM_CLAUSE,
    Binder,
    Scope,
    ScopeStream,
    builtin_type,
    error_expression,
)
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import ContextType, VariableType
from cepbook.lang.registry.functions import CONSTANTS, FUNCTIONS
from cepbook.lang.registry.methods import is_enumeration_method
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type


def bind_chain(node: ast.Chain, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind a chain. Raises AlreadyReported if a name in it is unknown."""
    node = _spread_dynamic(node)
    first, *rest = _without_package(node.steps, scope)
    expanded = expand_declared(first, rest, scope, bind)
    if expanded is not None:
        return apply_steps(apply_index(expanded, first, scope, bind), rest, scope, bind)
    store = None if first.wildcard else scope.module.catalog.stores.get(first.name)
    if store is not None and store.kind == "table" and first.args is None and not _shadowed(first, scope):
        read, left = bind_table_access((first, *rest), store, scope, bind)
        return apply_steps(read, left, scope, bind)
    if store is not None and store.kind == "window" and _names_all_rows(first, rest, scope):
        return apply_steps(_rows_of_window(first, scope), rest, scope, bind)
    if first.args is not None or first.wildcard:
        steps: Sequence[ast.NameStep] = rest
        if first.name.lower() == "current_evaluation_context":
            value, left = _evaluation_context(first, rest, scope)
            return apply_steps(value, left, scope, bind)
        spatial = call.bind_spatial(first, rest[0], scope, bind) if rest else None
        if spatial is not None:
            return apply_steps(spatial, rest[1:], scope, bind)
        calls_before = len(scope.calls)
        target = _first_call(first, scope, bind)
        if rest and isinstance(target, x.AggregateRef):
            target, steps = bind_aggregate_method(target, rest, scope, bind, calls_before)
        return apply_steps(target, steps, scope, bind)
    if rest:
        stream = _prefixed_stream(first, scope)
        if stream is not None:
            return _stream_member(stream, node, scope, bind)
        if first.name == "context" and _property(first, scope) is None:
            return _context_property(node, scope, bind)
        outer = _outer_name(node, scope, bind)
        if outer is not None:
            return outer
        static = _static_call(first, rest[0], scope, bind)
        if static is not None:
            return apply_steps(static, rest[1:], scope, bind)
    return apply_steps(_first_name(first, scope, bind, rest), rest, scope, bind)


def _spread_dynamic(node: ast.Chain) -> ast.Chain:
    """Make the steps after a dynamic property dynamic, too (Esper reference, section "Dynamic Event Properties")."""
    start = next((number for number, step in enumerate(node.steps) if step.optional), len(node.steps))
    if all(step.optional for step in node.steps[start:]):
        return node
    steps = (*node.steps[: start + 1], *(replace(s, optional=True) for s in node.steps[start + 1 :]))
    return replace(node, steps=steps)


def _shadowed(step: ast.NameStep, scope: Scope) -> bool:
    """Return True if a stream, also one outside a subquery, or a property has the name of a table."""
    if _stream_named(step.name, scope) is not None or _property(replace(step, index=None), scope) is not None:
        return True
    outer = () if scope.outside is None else (scope.outside.scope,)
    return any(_prefixed_stream(step, level) is not None for level in (scope, *outer))


def _names_all_rows(first: ast.NameStep, rest: Sequence[ast.NameStep], scope: Scope) -> bool:
    """Return True if the name of a named window stands for its rows: before an enumeration method."""
    called = bool(rest) and rest[0].args is not None and is_enumeration_method(rest[0].name)
    hidden = _stream_named(first.name, scope) is not None or _property(replace(first, index=None), scope) is not None
    return called and first.index is None and not hidden


def _rows_of_window(step: ast.NameStep, scope: Scope) -> x.BoundExpr:
    """Bind ``W`` and ``W(condition)`` as the subquery ``(select * from W where condition)`` with all its rows."""
    stream = ast.FilterStream(step.name, (), span=step.span)
    where = ast.Logical("and", step.args, span=step.span) if step.args else None
    everything = ast.SelectItem(None, span=step.span)
    query = ast.Select((everything,), (ast.StreamSource(stream, span=step.span),), where=where, span=step.span)
    subquery = scope.module.subquery
    assert subquery is not None
    return subquery(query, "list", None, "", step.span, scope)


def _outer_name(node: ast.Chain, scope: Scope, bind: Binder) -> x.BoundExpr | None:
    """In a subquery, bind a parameter, lambda variable or ``alias.property`` of the outer scope as a parameter of the
    subquery; None for other names. The properties of the subquery come first.
    """
    outside, first = scope.outside, node.steps[0]
    if outside is None or first.index is not None or _property(first, scope) is not None:
        return None
    outer = outside.scope
    if first.name not in {*(outer.params or ()), *outer.locals} and _prefixed_stream(first, outer) is None:
        tag = _property(first, outer) if len(node.steps) > 1 else None
        if tag is None or (tag.type.event is None and (tag.type.of is None or tag.type.of.event is None)):
            return None
    return outside.parameter(bind_chain(node, outer, bind))


JAVA_CLASSES = frozenset(name.partition(".")[0] for name in FUNCTIONS if "." in name and name[0].isupper())
# The EPL form of some well-known Java methods
JAVA_ALTERNATIVES = {
    "System.currentTimeMillis": "the time of the engine is current_timestamp",
    "System.nanoTime": "the time of the engine is current_timestamp",
    "String.format": "join texts with ||, or register a Python function",
}


def _without_package(steps: Sequence[ast.NameStep], scope: Scope) -> Sequence[ast.NameStep]:
    """Drop the package of ``java.lang.Math.abs(x)``, unless `java` is a name of the statement."""
    names = [step.name for step in steps[:2] if step.args is None and step.index is None]
    if len(steps) < 4 or names not in (["java", "lang"], ["java", "math"]):
        return steps
    known = _stream_named("java", scope) is not None or _property(steps[0], scope) is not None
    return steps if known else steps[2:]


def _refuse_java_call(first: ast.NameStep, rest: Sequence[ast.NameStep], scope: Scope) -> None:
    """Report ``String.format(…)`` and ``com.acme.Tools.f(…)``: a method of a class that EPL does not know."""
    steps = [first, *rest]
    at = next((i for i, step in enumerate(steps) if step.args is not None), 0)
    if at == 0 or not steps[at - 1].name[:1].isupper() or any(step.index is not None for step in steps[:at]):
        return
    names = [step.name for step in steps[: at + 1]]
    same = next((name for name in FUNCTIONS if name[0].isupper() and name.partition(".")[2] == names[-1]), None)
    hint = JAVA_ALTERNATIVES.get(".".join(names[-2:]))
    if hint is None and same is not None:
        hint = f"did you mean `{same}`?"
    elif hint is None:
        hint = f"of Java's classes there are {', '.join(sorted(JAVA_CLASSES))}; for others register a Python function"
    path_text = ".".join(names)
    scope.fail("unknown-function", f"no function `{path_text}`", first.span.to(steps[at].span), hint)


def _static_call(first: ast.NameStep, method: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr | None:
    """Bind ``Math.abs(x)`` or ``Math.PI``, or return None if `first` is not a class."""
    constant = CONSTANTS.get(f"{first.name}.{method.name}") if method.args is None and first.index is None else None
    if constant is not None and _property(first, scope) is None:
        return x.Const(constant.type, constant.value, span=first.span.to(method.span))
    if method.args is None or first.name not in JAVA_CLASSES or first.index is not None:
        return None
    row = FUNCTIONS.get(f"{first.name}.{method.name}")
    if row is not None:
        return call.bind_function(row, replace(method, span=first.span.to(method.span)), scope, bind)
    names = [name for name in FUNCTIONS if name.startswith(f"{first.name}.")]
    path_text = f"{first.name}.{method.name}"
    hint = JAVA_ALTERNATIVES.get(path_text) or nearest_or_known_names(path_text, names)
    scope.fail("unknown-function", f"no function `{path_text}`", first.span.to(method.span), hint)


def _stream_named(name: str, scope: Scope) -> int | None:
    """Return the position of the stream with this alias."""
    streams = scope.streams if scope.params is None else ()
    return next((i for i, stream in enumerate(streams) if stream.is_called(name)), None)


def _prefixed_stream(step: ast.NameStep, scope: Scope) -> int | None:
    """Return the position of the stream that `step` names before a dot: by its alias, else, if no outer stream has that
    alias, by its event type.
    """
    stream = _stream_named(step.name, scope) if step.index is None else None
    if stream is not None or step.index is not None or scope.params is not None:
        return stream
    typed = [i for i, stream in enumerate(scope.streams) if stream.is_prefix(step.name)]
    outer = () if scope.outside is None else scope.outside.scope.streams
    if not typed or _property(step, scope) is not None or any(stream.is_called(step.name) for stream in outer):
        return None
    if sum(not scope.streams[i].fallback for i in typed) > 1:
        fact = f"`{step.name}` is the event type of several streams"
        scope.fail("ambiguous-property", fact, step.span, "prefix the alias of the stream")
    return min(typed, key=lambda i: scope.streams[i].fallback)


def _first_call(step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind a call, or the mapped property ``m('key')``."""
    prop = _property(step, scope)
    is_function = step.name.lower() in call.BUILT_IN_FUNCTIONS or step.name in scope.module.catalog.functions
    if prop is not None and is_entry_access(prop.type, step) and (prop.type == t.MAP or not is_function):
        return bind_entry(prop, step, scope, bind)
    if prop is None and step.optional and scope.streams and len(step.args or ()) == 1:
        dynamic = _undeclared_property(step, scope)
        return x.IndexAccess(t.OBJECT, dynamic, bind(step.args[0], scope), span=step.span) if step.args else dynamic
    if step.name.lower() == "current_timestamp":
        if step.args:
            scope.reject("`current_timestamp` takes no parameters", step.span)
        return x.CurrentTimestamp(t.LONG, span=step.span)
    variable = scope.module.catalog.variables.get(step.name)
    if variable is not None and step.args == () and not is_function:  # Esper refuses `v()`
        return apply_index(_variable(variable, step, scope), step, scope, bind)
    return apply_index(call.bind_call(step, scope, bind), step, scope, bind)


def _property(step: ast.NameStep, scope: Scope) -> x.BoundExpr | None:
    """Return the property of a stream or of an element that `step` names. Fails if there are several."""
    prop: x.BoundExpr | None = None
    streams = sorted(enumerate(scope.streams), key=lambda numbered: numbered[1].fallback)
    for position, stream in streams if scope.params is None else ():
        type_ = stream.event_type.properties.get(step.name) if stream.event_type is not None else None
        if type_ is None or (stream.fallback and prop is not None):
            continue
        if prop is not None:
            fact = f"`{step.name}` is a property of several streams"
            scope.fail("ambiguous-property", fact, step.span, "prefix the stream")
        prop = x.Prop(type_, position, step.name, span=step.span)
    for name, value in _elements(scope).items():
        if step.name not in (members_of(value.type, scope) or ()):
            continue
        if prop is not None:
            fact = f"`{step.name}` is a property of the event and of an element"
            scope.fail("ambiguous-property", fact, step.span, f"write `{name}.{step.name}` for the element")
        prop = bind_member(replace(value, span=step.span), step, scope)
    return prop


def _elements(scope: Scope) -> Mapping[str, x.BoundExpr]:
    """Return the parameters whose properties need no prefix: the only one, and the element variables of lambdas."""
    own = scope.params if scope.params is not None and len(scope.params) == 1 else {}
    elements = {n: v for n, v in scope.locals.items() if isinstance(v, x.LambdaParameter) and v.role == "element"}
    return {**own, **elements}


def _first_name(step: ast.NameStep, scope: Scope, bind: Binder, rest: Sequence[ast.NameStep]) -> x.BoundExpr:
    more = bool(rest)
    alias = scope.aliases.get(step.name)
    if alias is not None and (not more or isinstance(alias, x.WindowValue)):
        return alias
    prop = _property(step, scope)
    if prop is not None:
        return apply_index(prop, step, scope, bind)
    if not step.escaped and step.name.lower() == "current_timestamp":
        return x.CurrentTimestamp(t.LONG, span=step.span)
    position = _stream_named(step.name, scope)
    if position is not None:
        return apply_index(_event(position, scope.streams[position], step), step, scope, bind)
    correlated = scope.correlated.get(step.name)
    if correlated is not None:
        return apply_index(replace(correlated, span=step.span), step, scope, bind)
    inserted = find_variant_property(step, scope)
    if inserted is not None:
        return apply_index(inserted, step, scope, bind)
    outer = _outer_name(ast.Chain((step,), span=step.span), scope, bind)
    if outer is not None:
        return outer
    variable = scope.module.catalog.variables.get(step.name)
    if variable is not None:
        return apply_index(_variable(variable, step, scope), step, scope, bind)
    if step.optional and scope.streams:
        return apply_index(_undeclared_property(step, scope), step, scope, bind)
    if scope.unchecked or step.name in scope.module.rejected_names or any(s.event_type is None for s in scope.streams):
        return error_expression(step.span)
    _refuse_java_call(step, rest, scope)
    if scope.params is not None:
        others = did_you_mean(step.name, scope.params) or "a declared expression sees its parameters and variables only"
        scope.fail("unknown-property", f"no parameter `{step.name}`", step.span, others)
    what = "property or stream" if more else "property"
    hint = _hint_for_unknown_name(step, rest, scope)
    scope.fail("unknown-property", f"no {what} `{step.name}`{_location_text(scope)}", step.span, hint)


def _hint_for_unknown_name(step: ast.NameStep, rest: Sequence[ast.NameStep], scope: Scope) -> str | None:
    name, properties = step.name, scope.property_names()
    if name.startswith("$") and len(name) > 1:
        return f"a Python variable is written `:{name[1:]}`"
    dotted = ".".join((name, *(s.name for s in rest)))
    if rest and dotted in properties:
        return f"a name with a dot stands in backticks: `{dotted}`"
    near = nearest_name(name, properties)
    if near is not None and not near.replace("$", "_").isidentifier():
        return call.backticks_hint(near)
    if name in ("None", "nil"):
        return "write null, and test with is null or is not null"
    streams = (s.label for s in scope.streams if rest)
    names = [*properties, *streams, *scope.aliases, *scope.correlated, *scope.module.catalog.variables]
    hint = _nested_hint(name, scope) or _outer_stream_hint(name, scope) or did_you_mean(name, names)
    if hint is not None:
        return hint
    if rest and scope.no_aggregates == CONTEXT_DECLARATION and scope.correlated:
        return f"the event that begins a partition is called {' or '.join(f'`{one}`' for one in scope.correlated)}"
    if scope.no_aggregates == NO_FROM_CLAUSE:
        if "//" in scope.module.source:
            return "// begins a comment; divide by /, and round with Math.floor(x / y)"
        return "write from and an event type after the select list"
    if builtin_type(name) is not None:
        return f"to convert a value write cast(value, {name})"
    if name.lower() == "context" and scope.context is not None:
        return "name one of its properties, such as context.id"
    return nearest_or_known_names(name, _names_in(scope, streams=bool(rest)))


def _names_in(scope: Scope, *, streams: bool) -> list[str]:
    """Return the names that may stand alone, or with `streams` those that may stand before a property."""
    if streams and scope.event_names():
        return scope.event_names()
    return [*visible_names(scope.property_names()), *scope.correlated] or list(scope.module.catalog.variables)


def _undeclared_property(step: ast.NameStep, scope: Scope) -> x.BoundExpr:
    target = x.EventOf(_event_type_of(scope.streams[0]), 0, span=step.span)
    return x.MemberAccess(t.OBJECT, target, step.name, span=step.span)


def _nested_hint(name: str, scope: Scope) -> str | None:
    for stream in scope.streams:
        for outer, type_ in (stream.event_type.properties if stream.event_type is not None else {}).items():
            if type_.event is not None and name in (members_of(type_, scope) or ()):
                return f"did you mean `{outer}.{name}`?"
    return None


def _outer_stream_hint(name: str, scope: Scope) -> str | None:
    for stream in () if scope.outside is None else scope.outside.scope.streams:
        if stream.event_type is not None and name in stream.event_type.properties:
            prefix = stream.label
            return f"write `{prefix}.{name}`: a subquery names the streams around it" if prefix else None
    return None


def check_variable_context(variable: VariableType, step: ast.NameStep, scope: Scope) -> None:
    """Report a variable of a context that is read outside of the context's statements. Raises AlreadyReported."""
    own = None if scope.context is None else scope.context.name
    if variable.context not in (None, own) and not scope.unknown_context:
        hint = f"it is visible in statements that begin with `context {variable.context}`"
        fact = f"`{step.name}` is a variable of context `{variable.context}`"
        scope.fail("wrong-context", fact, step.span, hint)


def _variable(variable: VariableType, step: ast.NameStep, scope: Scope) -> x.BoundExpr:
    check_variable_context(variable, step, scope)
    scope.module.require("variable", variable.name)
    if variable.known:
        return x.Const(variable.type, variable.value, span=step.span)
    return x.VariableRead(variable.type, variable.name, span=step.span)


def _location_text(scope: Scope) -> str:
    event_types = (s.event_type for s in scope.streams if s.event_type is not None and s.event_type.properties)
    names = [f"`{event_type.name}`" for event_type in event_types if event_type.name != MATCH_TYPE]
    return f" in {' or '.join(names)}" if names else ""


def _event_type_of(stream: ScopeStream) -> Type:
    return t.event_of(stream.event_type.name) if stream.event_type is not None else ERROR


def _event(position: int, stream: ScopeStream, step: ast.NameStep) -> x.BoundExpr:
    return x.EventOf(_event_type_of(stream), position, span=step.span)


def _stream_member(position: int, node: ast.Chain, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind ``alias.property…`` or a method of the event."""
    stream, step = scope.streams[position], node.steps[1]
    if stream.event_type is None:
        return error_expression(node.span)
    type_ = stream.event_type.properties.get(step.name)
    span = node.steps[0].span.to(step.span)
    if type_ is None:
        own = scope.streams[position].event_type
        outer = own.properties.get(node.steps[0].name) if own is not None else None
        if outer is not None and not (step.optional and is_plain(outer, scope)):
            # a property called like the stream: its members
            target: x.BoundExpr = x.Prop(outer, position, node.steps[0].name, span=node.steps[0].span)
        else:
            target = _event(position, stream, node.steps[0])
        return apply_steps(target, node.steps[1:], scope, bind)
    value: x.BoundExpr = x.Prop(type_, position, step.name, span=span)
    if step.args is not None:
        if not is_entry_access(type_, step):
            scope.fail("unknown-function", f"`{step.name}` is a property, not a method", step.span)
        value = bind_entry(value, step, scope, bind)
    else:
        value = apply_index(value, step, scope, bind)
    return apply_steps(value, node.steps[2:], scope, bind)


def _context_property(node: ast.Chain, scope: Scope, bind: Binder) -> x.BoundExpr:
    if scope.unknown_context:
        return error_expression(node.span)
    if scope.context is None:
        name = f"`context.{node.steps[1].name}`"
        fact, hint = f"{name} outside of a context", "begin the statement with `context NAME`"
        if scope.no_aggregates == CONTEXT_DECLARATION:
            fact = f"{name} in a declaration: it sees only names of its own level"
            hint = "compare in the filters of statements"
        scope.fail("unknown-property", fact, node.span, hint)
    step = node.steps[1]
    type_ = scope.context.properties.get(step.name)
    if type_ is None or step.args is not None:
        hint = _context_hint(step.name, scope.context)
        scope.fail("unknown-property", f"no property `{step.name}` in context `{scope.context.name}`", step.span, hint)
    prop = x.ContextProp(type_, step.name, span=node.steps[0].span.to(step.span))
    return apply_steps(apply_index(prop, step, scope, bind), node.steps[2:], scope, bind)


def _evaluation_context(
    first: ast.NameStep, rest: Sequence[ast.NameStep], scope: Scope
) -> tuple[x.BoundExpr, Sequence[ast.NameStep]]:
    """Bind ``current_evaluation_context().getStatementName()`` and the like; return the value and the steps that are
    left.

    Without a method the value is a struct of all properties.
    """
    step = rest[0] if rest else first
    span = first.span.to(step.span)
    properties: dict[str, x.BoundExpr] = {
        "contextPartitionId": x.Const(t.INT, -1, span=span),
        "runtimeURI": x.Const(t.STRING, "default", span=span),
        "statementName": x.Const(t.STRING, scope.module.statement, span=span),
        "statementUserObject": x.Const(t.OBJECT, None, span=span),
    }
    if scope.context is not None:
        properties["contextPartitionId"] = x.ContextProp(t.INT, "id", span=span)
    if first.args:
        scope.reject(f"`{first.name}` takes no parameters", first.span)
    if not rest:
        type_ = t.struct_of(tuple((name, value.type) for name, value in properties.items()))
        return x.StructOf(type_, tuple(properties.items()), span=span), ()
    getters = {f"get{name[0].upper()}{name[1:]}": value for name, value in properties.items()}
    value = properties.get(step.name) if step.args is None else getters.get(step.name)
    if value is None:
        hint = did_you_mean(step.name, getters) or f"it has {', '.join(getters)}"
        scope.fail("unknown-function", f"no method `{step.name}` of the evaluation context", step.span, hint)
    if step.args:
        scope.reject(f"`{step.name}` takes no parameters", step.span)
    return value, rest[1:]


def _context_hint(name: str, context: ContextType) -> str:
    of_level = next((level.name for level in context.levels if name in level.properties), None)
    if of_level is not None:
        return f"did you mean `context.{of_level}.{name}`?"
    return did_you_mean(name, context.properties) or f"it has {', '.join(context.properties)}"
