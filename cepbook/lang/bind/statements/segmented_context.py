"""Contexts that find the partition of each event by its key, hash or category."""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.errors import Span, did_you_mean
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.filter import conjunction
from cepbook.lang.bind.expressions.expression import bind_condition, bind_expr
from cepbook.lang.bind.scope import (
    CONTEXT_DECLARATION,
    ERROR,
    AlreadyReported,
    ModuleScope,
    Scope,
    ScopeStream,
    bind_whole_event,
    type_text,
)
from cepbook.lang.plan import context as c
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import KeyedStream
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast

HASH_FUNCTIONS = ("consistent_hash_crc32", "hash_code")

_MOST_PREALLOCATED = 1_000_000


def context_scope(module: ModuleScope, streams: tuple[ScopeStream, ...]) -> Scope:
    """Return the scope of expressions in ``create context``."""
    return Scope(module, streams, no_aggregates=CONTEXT_DECLARATION, no_row_functions=CONTEXT_DECLARATION)


def _listed(node: ast.FilterStream, module: ModuleScope) -> tuple[Scope, x.BoundExpr | None]:
    event_type = module.event_type(node.type_name, node.span)
    if node.type_name in module.catalog.stores:
        fact, hint = f"`{node.type_name}` is a named window or table, a context divides events", "name its event type"
        module.report("wrong-context", fact, node.span, hint)
    if node.contained:
        fact = "a context divides events, not what they contain"
        hint = "insert the contained events into a separate stream"
        module.report("wrong-context", fact, node.span, hint)
    scope = context_scope(module, (ScopeStream(None, event_type, node.type_name),))
    filters = [bind_condition(condition, scope, "the filter") for condition in node.filters]
    return scope, conjunction(filters)


def bind_category_stream(node: ast.CategoryContext, module: ModuleScope) -> tuple[Scope, x.BoundExpr | None]:
    """Return the scope of the predicates, and the filter of their stream."""
    return _listed(node.stream, module)


def _check_unrelated(items: Sequence[ast.KeyedItem], module: ModuleScope) -> None:
    seen: list[str] = []
    for item in items:
        name = item.stream.type_name
        if name in seen:
            hint = "write several keys of one event type together: a and b from Tick"
            module.report("duplicate-name", f"event type `{name}` is listed twice", item.stream.span, hint)
        for other in seen:
            above, below = (other, name) if module.catalog.is_a(name, other) else (name, other)
            if name != other and module.catalog.is_a(below, above):
                fact = f"`{below}` is a subtype of `{above}`, only one of them can be listed"
                hint = f"leave `{below}` out: its events are events of `{above}`"
                module.report("wrong-context", fact, item.stream.span, hint)
        seen.append(name)


def bind_partition_keys(items: Sequence[ast.KeyedItem], module: ModuleScope) -> tuple[KeyedStream, ...]:
    """Return the streams of ``partition by``: each event type once, all with keys of the same number and types."""
    streams = [_keyed_stream(item, module) for item in items]
    _check_unrelated(items, module)
    model = streams[0]
    for item, stream in zip(items[1:], streams[1:], strict=True):
        if stream.event_type != model.event_type:
            _check_keys(item.span, stream, model, module)
    return tuple(streams)


def _keyed_stream(item: ast.KeyedItem, module: ModuleScope) -> KeyedStream:
    scope, condition = _listed(item.stream, module)
    keys = tuple(_key(key, scope) for key in item.keys)
    return KeyedStream(item.stream.type_name, keys, condition, item.alias, span=item.span)


def _key(node: ast.Expr, scope: Scope) -> x.BoundExpr:
    bound = bind_expr(node, scope)
    if bound.type != ERROR and not isinstance(bound, (x.Prop, x.MemberAccess, x.IndexAccess)):
        hint = "insert the calculated value into a separate stream"
        scope.wrong("the key of a context must be a property", node.span, hint)
    return bound


def _check_keys(span: Span, stream: KeyedStream, model: KeyedStream, module: ModuleScope) -> None:
    name, other = stream.event_type, model.event_type
    if len(stream.keys) != len(model.keys):
        fact = f"number of keys: {len(stream.keys)} for `{name}`, {len(model.keys)} for `{other}`"
        module.report("type-mismatch", fact, span, "all event types have as many keys, joined by and")
        return
    for key, of in zip(stream.keys, model.keys, strict=True):
        if key.type != of.type and ERROR not in (key.type, of.type):
            fact = f"the key of `{name}` is {type_text(key.type)}, that of `{other}` {type_text(of.type)}"
            hint = "events of all types belong to one partition if their keys are equal, so these are of one type"
            module.report("type-mismatch", fact, key.span, hint)


def bind_hash(node: ast.HashContext, module: ModuleScope) -> c.HashSpec:
    """Bind ``coalesce by …``."""
    streams = tuple(_hashed_stream(item, module) for item in node.items)
    _check_unrelated(node.items, module)
    granularity = fold_expr(bind_expr(node.granularity, context_scope(module, ())))
    number = granularity.value if isinstance(granularity, x.Const) else None
    counts = isinstance(number, int) and not isinstance(number, bool) and 0 < number < 1 << 31
    if granularity.type != ERROR and not counts:
        fact = "the granularity must be a constant int above 0"
        module.wrong(fact, node.granularity.span, "it is the number of partitions")
    if counts and node.preallocate and isinstance(number, int) and number > _MOST_PREALLOCATED:
        fact = f"{number:,} partitions cannot all be allocated at once, at most {_MOST_PREALLOCATED:,}"
        module.wrong(fact, node.granularity.span, "leave out preallocate")
    return c.HashSpec(streams, number if isinstance(number, int) else 1, node.preallocate, span=node.span)


def _hashed_stream(item: ast.KeyedItem, module: ModuleScope) -> c.HashedStream:
    scope, condition = _listed(item.stream, module)
    if item.alias is not None:
        module.wrong("a stream of a hash context takes no name", item.span)
    try:
        function, args = _hash_call(item.keys[0], scope)
    except AlreadyReported:
        return c.HashedStream(item.stream.type_name, "", (), condition, span=item.span)
    return c.HashedStream(item.stream.type_name, function, args, condition, span=item.span)


def _hash_call(node: ast.Expr, scope: Scope) -> tuple[str, tuple[x.BoundExpr, ...]]:
    step = node.steps[0] if isinstance(node, ast.Chain) and len(node.steps) == 1 else None
    if step is None or (step.args is None and not step.wildcard) or step.index is not None:
        fact, hint = "a hash context needs a hash function", "such as consistent_hash_crc32(id) or hash_code(id)"
        scope.reject(fact, node.span, hint)
    name, functions = step.name, scope.module.catalog.functions
    if step.distinct or step.named:
        scope.reject(f"`{name}` takes plain values only", step.span)
    args = tuple(bind_expr(arg, scope) for arg in step.args or ())
    if name.lower() in HASH_FUNCTIONS:
        if not args or step.wildcard:
            scope.reject(f"`{name}` needs properties", step.span, f"such as {name}(id)")
        return name.lower(), args
    if name not in functions:
        known = did_you_mean(name, [*HASH_FUNCTIONS, *functions])
        hint = known or f"there are {' and '.join(HASH_FUNCTIONS)}, and registered functions"
        scope.fail("unknown-function", f"no hash function `{name}`", step.span, hint)
    scope.module.require("function", name)
    returns = functions[name].returns
    if returns not in (t.INT, t.LONG, t.SHORT, t.BYTE, t.OBJECT):
        scope.mismatch(f"a hash function must return an int, `{name}` returns {type_text(returns)}", step.span)
    if step.wildcard:
        args = (bind_whole_event(scope, None, step.span), *args)
    return name, args
