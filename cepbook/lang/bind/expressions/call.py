"""Calls of functions and aggregates by simple name, and the hints for functions that EPL calls differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cepbook.errors import did_you_mean
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import TEXT_TYPES, coerce, common_type
from cepbook.lang.bind.expressions.aggregate import bind_aggregate
from cepbook.lang.bind.expressions.row_functions import ROW_FUNCTIONS, bind_row_function
from cepbook.lang.bind.expressions.user_functions import bind_user_function
from cepbook.lang.bind.expressions.variant import hidden_property, variant_stream
from cepbook.lang.bind.scope import ERROR, Binder, ModuleScope, Scope, count_text, error_expression, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import VARIANT_TYPE_NAME
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.cycles import CYCLE_AGGREGATES
from cepbook.lang.registry.foreign_words import foreign_word
from cepbook.lang.registry.functions import FUNCTIONS, JAVA_NAMES, FunctionRow
from cepbook.lang.registry.functions.function_row import promoted
from cepbook.lang.registry.functions.math import SHAPES
from cepbook.lang.registry.methods import METHODS
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

# Calls that are bound where chains are, or in one clause only
CONTEXTUAL_FUNCTIONS = ("current_evaluation_context", "current_timestamp", "transpose")

# The functions and aggregates with a simple name, in any case of letters; a function from Python cannot replace them.
BUILT_IN_FUNCTIONS = frozenset(
    name
    for name in (*FUNCTIONS, *AGGREGATES, *ROW_FUNCTIONS, *CONTEXTUAL_FUNCTIONS)
    if "." not in name and " " not in name
)

# How hints name what a method is called on
RECEIVER_EXAMPLES = {
    "string": "text",
    "array": "events",
    "map": "map",
    "sorted": "sorted(key)",
    "bignumber": "number",
    "event": "event",
    "point": "point(x, y)",
    "rectangle": "rectangle(x, y, width, height)",
}


def bind_call(step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind a call by simple name. Raises AlreadyReported if there is no such function."""
    lower = step.name.lower()
    args = step.args or ()
    row = AGGREGATES.get(lower)
    if row is not None and not (lower in FUNCTIONS and len(args) > 1 and not step.wildcard):
        return bind_aggregate(row, step, scope, bind)
    if lower in ROW_FUNCTIONS:
        return bind_row_function(lower, step, scope, bind)
    if lower in _BOUND:
        return _BOUND[lower](step, scope, bind)
    if lower in FUNCTIONS and lower.isidentifier():  # not an operation that has a row
        return bind_function(FUNCTIONS[lower], step, scope, bind)
    if lower == "transpose":
        fact = "`transpose` must be a whole item of the select-clause of insert into"
        scope.reject(fact, step.span, "insert into T select transpose(value) …")
    function = scope.module.catalog.functions.get(step.name)
    if function is not None:
        return bind_user_function(step, function, scope, bind)
    if step.name in scope.module.rejected_names:
        return error_expression(step.span)
    hint = _hint(step, scope.module)
    if step.name in scope.module.catalog.variables:
        hint = f"it is a variable: write `{step.name}`"
    written = scope.module.source[step.span.start : step.span.end].lower()
    named = next((name for name in scope.property_names() if name.lower() == written), None)
    if named is not None:
        hint = backticks_hint(named)
    scope.fail("unknown-function", f"no function `{step.name}`", step.span, hint)


def backticks_hint(name: str) -> str:
    """Return the hint for a name that was written without the backticks that it needs."""
    return f"a name with blanks or signs stands in backticks: `{name}`"


def _hint(step: ast.NameStep, module: ModuleScope) -> str | None:
    """Return a hint for an unknown function, also for one that is a method, such as ``text.length()``."""
    registered, name = module.catalog.functions, step.name.lower()
    texts = [module.source[argument.span.start : argument.span.end] for argument in step.args or ()]
    elsewhere = foreign_word(name)
    if elsewhere is not None and not module.only_functions:
        window = "it is a data window behind the event type: " * (elsewhere.kind == "window")
        return window + elsewhere.hint(texts)
    for known in () if module.only_functions else (*FUNCTIONS, *METHODS):
        owner, _, short = known.rpartition(".")
        if owner and short.lower() == name:
            receiver = RECEIVER_EXAMPLES.get(owner)
            if receiver is None:
                return f"did you mean `{known}`?"
            if texts and step.args and isinstance(step.args[0], ast.Chain):
                return f"it is a method: write `{texts[0]}.{short}({', '.join(texts[1:])})`"
            return f"it is a method: write {receiver}.{short}(…)"
    if name in WINDOWS and not module.only_functions:
        return f"it is a data window behind the event type: {WINDOWS[name].example}"
    own = [
        n
        for n in BUILT_IN_FUNCTIONS
        if not module.only_functions or n in (*FUNCTIONS, *CYCLE_AGGREGATES, *CONTEXTUAL_FUNCTIONS)
    ]
    same = elsewhere.forms[-1].split("(")[0] if elsewhere is not None and elsewhere.forms else step.name
    near = did_you_mean(same, [*own, *registered])
    return near or "write one in Python and register it: `cep.register_function(name, function)`"


def bind_function(
    row: FunctionRow, step: ast.NameStep, scope: Scope, bind: Binder, *, receiver: x.BoundExpr | None = None
) -> x.BoundExpr:
    """Bind a call of a registered function; a method gets its `receiver` as first argument."""
    args = ([] if receiver is None else [receiver]) + [bind(arg, scope) for arg in step.args or ()]
    if step.wildcard or step.distinct or step.named:
        scope.reject(f"`{step.name}` takes plain values only", step.span)
    extra = 0 if receiver is None else 1
    most = None if row.repeats else len(row.parameters)
    if len(args) < row.minimum or (most is not None and len(args) > most):
        scope.reject(
            f"`{step.name}` takes {count_text(row.minimum - extra, None if most is None else most - extra)},"
            f" found {len(args) - extra}",
            step.span,
            _same_function(row, len(args), step, scope.module),
        )
    if any(arg.type == ERROR for arg in args):
        return error_expression(step.span)
    for position, arg in enumerate(args):
        kind = row.parameters[min(position, len(row.parameters) - 1)]
        if not _fits(kind, arg.type):
            fact = f"parameter {position + 1 - extra} of `{step.name}` must be a {kind}, found {type_text(arg.type)}"
            scope.mismatch(fact, arg.span)
    return _typed(row, args, step, scope)


def _same_function(row: FunctionRow, count: int, step: ast.NameStep, module: ModuleScope) -> str | None:
    """Return the call of a function without owner that takes so many arguments: ``round(x, 2)`` for ``Math.round``."""
    short = row.name.rpartition(".")[2]
    other = FUNCTIONS.get(short)
    if other is None or other is row or not other.minimum <= count <= len(other.parameters):
        return None
    texts = (module.source[arg.span.start : arg.span.end] for arg in step.args or ())
    return f"write `{short}({', '.join(texts)})`"


def _typed(row: FunctionRow, values: Sequence[x.BoundExpr], step: ast.NameStep, scope: Scope) -> x.BoundExpr:
    args = tuple(values)
    if row.nulls == "skipped":
        type_ = common_type([arg.type for arg in args])
        if type_ is None:
            names = ", ".join(dict.fromkeys(type_text(arg.type) for arg in args))
            scope.mismatch(f"the values of `{row.name}` have no common type: {names}", step.span)
        return x.FunctionCall(type_, row.name, tuple(coerce(arg, type_) for arg in args), span=step.span)
    type_ = row.result(tuple(arg.type for arg in args))
    if row.result is promoted:
        args = tuple(coerce(arg, type_) for arg in args)
    elif type_ == t.DOUBLE:
        args = tuple(coerce(a, t.DOUBLE) if t.is_numeric(a.type) else a for a in args)
    return x.FunctionCall(type_, row.name, args, span=step.span)


def _fits(kind: str, type_: Type) -> bool:
    if kind == "any":
        return True
    if kind == "number":
        return t.is_numeric(type_)
    if kind == "whole number":
        return t.is_integral(type_)
    if kind == "integer":
        return type_ in (t.BYTE, t.SHORT, t.INT)
    if kind == "boolean":
        return type_ == t.BOOLEAN
    return type_ in TEXT_TYPES


def _one_argument(step: ast.NameStep, scope: Scope) -> ast.Expr:
    if step.args is None or len(step.args) != 1 or step.wildcard or step.named:
        scope.reject(f"`{step.name}` takes 1 parameter", step.span)
    return step.args[0]


def _typeof(step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    arg = bind(_one_argument(step, scope), scope)
    if arg.type == ERROR:
        return arg
    if variant_stream(arg, scope) is not None:
        return hidden_property(arg, t.STRING, VARIANT_TYPE_NAME)
    if arg.type.event is not None:
        return x.EventTypeName(t.STRING, arg, arg.type.event, span=step.span)
    return x.FunctionCall(t.STRING, "typeof", (arg, x.Const(t.STRING, _java_name(arg.type))), span=step.span)


def _java_name(type_: Type) -> str | None:
    """Return the Java name of a type, or None if only the value tells it."""
    if type_.of is not None:
        return f"{_java_name(type_.of) or 'Object'}[]"
    if type_.event is not None:
        return type_.event
    return JAVA_NAMES.get(type_.name)


def _same_event(step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind ``event_identity_equals(a, b)``, which compares events by identity, not by value."""
    call = bind_function(FUNCTIONS["event_identity_equals"], step, scope, bind)
    for arg in call.args if isinstance(call, x.FunctionCall) else ():
        if arg.type.event is None:
            fact = f"`{step.name}` compares events, found {type_text(arg.type)}"
            scope.mismatch(fact, arg.span, "name the streams, such as event_identity_equals(a, b)")
    if isinstance(call, x.FunctionCall) and call.args[0].type != call.args[1].type:
        names = " and ".join(f"`{arg.type.event}`" for arg in call.args)
        scope.mismatch(
            f"`{step.name}` compares events of one type, found {names}",
            step.span,
            "compare properties, such as a.id = b.id",
        )
    return call


def _exists(step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    path = _one_argument(step, scope)
    if not isinstance(path, ast.Chain):
        scope.reject("`exists` takes a property", step.span)
    bound = bind(path, scope)
    if bound.type == ERROR:
        return bound
    if isinstance(bound, (x.Prop, x.ContextProp, x.EventOf)):
        return x.Const(t.BOOLEAN, True, span=step.span)
    if isinstance(bound, x.MemberAccess):
        declared = bound.type != t.OBJECT
        if declared:  # the property exists wherever its event does, even with a null value
            return x.Is(t.BOOLEAN, bound.target, x.Const(t.NULL, None), True, span=step.span)
        return x.FunctionCall(t.BOOLEAN, "exists", (bound.target, x.Const(t.STRING, bound.name)), span=step.span)
    return x.Is(t.BOOLEAN, bound, x.Const(t.NULL, None), True, span=step.span)


# Functions whose parameters are no plain values
_BOUND: dict[str, Callable[[ast.NameStep, Scope, Binder], x.BoundExpr]] = {
    "typeof": _typeof,
    "exists": _exists,
    "event_identity_equals": _same_event,
}


def bind_spatial(shape: ast.NameStep, method: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr | None:
    """Bind ``point(x, y).inside(rectangle(x, y, width, height))`` and the like, or return None for other calls.

    Points and rectangles are no values: a call and its argument are bound as one function of all coordinates. Raises
    AlreadyReported. Source: Esper reference, chapter "EPL Reference: Spatial Methods and Indexes".
    """
    row = FUNCTIONS.get(f"{shape.name.lower()}.{method.name.lower()}")
    if shape.args is None or shape.name.lower() not in SHAPES or row is None:
        return None
    (argument, *more) = method.args or (None,)
    other = argument.steps[0] if isinstance(argument, ast.Chain) and len(argument.steps) == 1 else method
    if more or other.name.lower() != "rectangle":
        scope.reject(f"`{method.name}` takes a rectangle", method.span, "write rectangle(x, y, width, height)")
    for step in (shape, other):
        count = SHAPES[step.name.lower()]
        if len(step.args or ()) != count or step.wildcard:
            scope.reject(f"`{step.name}` takes {count_text(count, count)}, found {len(step.args or ())}", step.span)
    numbers = replace(method, args=(*shape.args, *(other.args or ())), span=shape.span.to(method.span))
    call = bind_function(row, numbers, scope, bind)
    args = (coerce(arg, t.DOUBLE) if arg.type == t.BIGDECIMAL else arg for arg in x.children(call))
    return replace(call, args=tuple(args)) if isinstance(call, x.FunctionCall) else call
