"""Function and aggregate calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cepbook.errors import Span
from cepbook.lang import ast
from cepbook.lang import expr as x
from cepbook.lang import types as t
from cepbook.lang.aggregates import AGGREGATES, AggregateRow
from cepbook.lang.bind.names import ERROR, Refused, Scope, describe, did_you_mean, error_at
from cepbook.lang.bind.typing import LOOSE, TEXTUAL, coerce, common
from cepbook.lang.functions import FUNCTIONS, JAVA_NAMES, FunctionRow
from cepbook.lang.plan import AggregateCall
from cepbook.lang.types import Type

Binder = Callable[[ast.Expr, Scope], x.Expr]

UNSUPPORTED = frozenset(
    "prev prevtail prevcount prevwindow prior grouping grouping_id transpose istream current_evaluation_context"
    " event_identity_equals".split()
)

# The functions and aggregates with a simple name, in any case of letters; a function from Python cannot replace them.
BUILT_IN = frozenset(
    name for name in (*FUNCTIONS, *AGGREGATES, *UNSUPPORTED, "current_timestamp") if "." not in name and " " not in name
)

SYNONYMS = {
    "total": "sum",
    "average": "avg",
    "mean": "avg",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "std": "stddev",
    "power": "pow",
    "ceiling": "ceil",
    "upper": "touppercase",
    "lower": "tolowercase",
    "len": "length",
}


def bind_call(step: ast.NameStep, scope: Scope, bind: Binder) -> x.Expr:
    """A call by simple name; raises Refused (reported) if there is no such function."""
    lower = step.name.lower()
    args = step.args or ()
    row = AGGREGATES.get(lower)
    if row is not None and not (lower in ("min", "max") and len(args) > 1 and not step.wildcard):
        return bind_aggregate(row, step, scope, bind)
    if lower == "typeof":
        return _typeof(step, scope, bind)
    if lower == "exists":
        return _exists(step, scope, bind)
    if lower in ("coalesce", "min", "max"):
        return bind_function(FUNCTIONS[lower], step, scope, bind)
    if lower in UNSUPPORTED:
        for arg in args:
            bind(arg, scope)
        scope.problems.unsupported(f"the function {lower}", step.span)
        raise Refused(lower)
    returns = scope.module.catalog.functions.get(step.name)
    if returns is not None:
        return _user_call(step, returns, scope, bind)
    if step.name in scope.module.dropped:
        return error_at(step.span)
    hint = _hint(SYNONYMS.get(lower, lower), scope.module.catalog.functions)
    scope.problems.fail("unknown-function", f"no function `{step.name}`", step.span, hint)


def _hint(name: str, registered: Iterable[str]) -> str | None:
    """What an unknown function called `name` was probably meant to be: also ``Math.abs``, ``text.length()``."""
    for known in FUNCTIONS:
        owner, _, short = known.rpartition(".")
        if owner and short.lower() == name:
            return f"it is a method: write text.{short}(…)" if owner == "string" else f"did you mean `{known}`?"
    return did_you_mean(name, [*BUILT_IN, *registered])


def _user_call(step: ast.NameStep, returns: Type, scope: Scope, bind: Binder) -> x.Expr:
    if step.named or step.distinct:
        scope.problems.fail("wrong-parameter", f"`{step.name}` takes plain values only", step.span)
    scope.module.need("function", step.name)
    args = [_value(arg, scope, bind) for arg in step.args or ()]
    if step.wildcard and scope.streams:
        args.insert(0, _event(scope, None, step.span))
    if any(arg.type == ERROR for arg in args):
        return error_at(step.span)
    return x.UserCall(returns, step.name, tuple(args), span=step.span)


def _value(arg: ast.Expr, scope: Scope, bind: Binder) -> x.Expr:
    return _event(scope, arg.stream, arg.span) if isinstance(arg, ast.Star) else bind(arg, scope)


def _event(scope: Scope, name: str | None, span: Span) -> x.Expr:
    """The whole event of the stream called `name`, of the only stream for None."""
    for position, stream in enumerate(scope.streams):
        if name is None or stream.answers_to(name):
            if stream.event_type is None:
                return error_at(span)
            return x.EventOf(t.event_of(stream.event_type.name), position, span=span)
    scope.problems.fail("unknown-property", f"no stream `{name}`", span)


def bind_function(
    row: FunctionRow, step: ast.NameStep, scope: Scope, bind: Binder, *, receiver: x.Expr | None = None
) -> x.Expr:
    """A call of a registered function; methods get their `receiver` as first argument."""
    given = ([] if receiver is None else [receiver]) + [bind(arg, scope) for arg in step.args or ()]
    if step.wildcard or step.distinct or step.named:
        scope.problems.fail("wrong-parameter", f"`{step.name}` takes plain values only", step.span)
    extra = 0 if receiver is None else 1
    most = None if row.repeats else len(row.parameters)
    if len(given) < row.minimum or (most is not None and len(given) > most):
        scope.problems.fail(
            "wrong-parameter",
            f"`{step.name}` takes {_count(row.minimum - extra, None if most is None else most - extra)},"
            f" found {len(given) - extra}",
            step.span,
        )
    if any(arg.type == ERROR for arg in given):
        return error_at(step.span)
    for position, arg in enumerate(given):
        kind = row.parameters[min(position, len(row.parameters) - 1)]
        if not _fits(kind, arg.type):
            scope.problems.fail(
                "type-mismatch",
                f"parameter {position + 1 - extra} of `{step.name}` must be a {kind}, found {describe(arg.type)}",
                arg.span,
            )
    return _typed(row, given, step, scope)


def _typed(row: FunctionRow, given: Sequence[x.Expr], step: ast.NameStep, scope: Scope) -> x.Expr:
    args = tuple(given)
    if row.name == "coalesce":
        type_ = common([arg.type for arg in args])
        if type_ is None:
            names = ", ".join(dict.fromkeys(describe(arg.type) for arg in args))
            scope.problems.fail("type-mismatch", f"the values of `coalesce` have no common type: {names}", step.span)
        return x.Call(type_, row.name, tuple(coerce(arg, type_) for arg in args), span=step.span)
    type_ = row.result(tuple(arg.type for arg in args))
    if row.name in ("min", "max", "Math.min", "Math.max"):
        args = tuple(coerce(arg, type_) for arg in args)
    elif type_ == t.DOUBLE:
        args = tuple(coerce(a, t.DOUBLE) if t.is_numeric(a.type) else a for a in args)
    return x.Call(type_, row.name, args, span=step.span)


def _fits(kind: str, type_: Type) -> bool:
    if kind == "any":
        return True
    if kind == "number":
        return t.is_numeric(type_)
    if kind == "integer":
        return type_ in (t.BYTE, t.SHORT, t.INT)
    return type_ in TEXTUAL


def _count(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least} parameters"
    if least == most:
        return f"{least} parameter{'' if least == 1 else 's'}"
    return f"{least} to {most} parameters"


def _one_argument(step: ast.NameStep, scope: Scope) -> ast.Expr:
    if step.args is None or len(step.args) != 1 or step.wildcard or step.named:
        scope.problems.fail("wrong-parameter", f"`{step.name}` takes 1 parameter", step.span)
    return step.args[0]


def _typeof(step: ast.NameStep, scope: Scope, bind: Binder) -> x.Expr:
    arg = bind(_one_argument(step, scope), scope)
    if arg.type == ERROR:
        return arg
    return x.Call(t.STRING, "typeof", (arg, x.Const(t.STRING, _java_name(arg.type))), span=step.span)


def _java_name(type_: Type) -> str | None:
    """None where only the value tells."""
    if type_.of is not None:
        return f"{_java_name(type_.of) or 'Object'}[]"
    if type_.event is not None:
        return type_.event
    return JAVA_NAMES.get(type_.name)


def _exists(step: ast.NameStep, scope: Scope, bind: Binder) -> x.Expr:
    path = _one_argument(step, scope)
    if not isinstance(path, ast.Chain):
        scope.problems.fail("wrong-parameter", "`exists` takes a property", step.span)
    bound = bind(path, scope)
    if bound.type == ERROR:
        return bound
    if isinstance(bound, (x.Prop, x.ContextProp, x.EventOf)):
        return x.Const(t.BOOLEAN, True, span=step.span)
    if isinstance(bound, x.Member):
        declared = bound.type != t.OBJECT
        if declared:  # the property exists wherever its event does, even with a null value
            return x.Is(t.BOOLEAN, bound.target, x.Const(t.NULL, None), True, span=step.span)
        return x.Call(t.BOOLEAN, "exists", (bound.target, x.Const(t.STRING, bound.name)), span=step.span)
    return x.Is(t.BOOLEAN, bound, x.Const(t.NULL, None), True, span=step.span)


# ---------------------------------------------------------------- aggregates
@dataclass(slots=True)
class _Parts:
    """The arguments of one aggregate call, sorted by what they are for."""

    args: list[x.Expr]
    filter: x.Expr | None = None
    index: x.Expr | None = None
    star: bool = False


def bind_aggregate(row: AggregateRow, step: ast.NameStep, scope: Scope, bind: Binder) -> x.Expr:
    """Registers the call with the scope (equal calls share one) and gives a reference to it."""
    if scope.no_aggregates is not None:
        scope.problems.fail("aggregate-not-allowed", f"aggregate `{row.name}` in {scope.no_aggregates}", step.span)
    if row.sorts and not row.supported:
        scope.problems.fail("not-supported-yet", f"not supported yet: the aggregate {row.name}", step.span)
    parts = _arguments(row, step, scope, bind)
    _check_window(row, parts, step, scope)
    if not row.supported:
        scope.problems.unsupported(f"the aggregate {row.name}", step.span)
        raise Refused(row.name)
    if any(arg.type == ERROR for arg in parts.args) or (parts.filter is not None and parts.filter.type == ERROR):
        return error_at(step.span)
    counted = not (row.name == "count" and parts.star)
    type_ = row.result(parts.args[0].type if parts.args else None)
    found = AggregateCall(
        row.name,
        tuple(parts.args) if counted else (),
        type_,
        step.distinct,
        parts.filter,
        scope.unwindowed and row.name in ("min", "max", "first", "last"),
        parts.index,
        span=step.span,
    )
    if found not in scope.calls:
        scope.calls.append(found)
    return x.AggregateRef(type_, scope.calls.index(found), span=step.span)


def _arguments(row: AggregateRow, step: ast.NameStep, scope: Scope, bind: Binder) -> _Parts:
    given = list(step.args or ())
    parts = _Parts([])
    star = step.wildcard
    stream: str | None = None
    if given and isinstance(given[0], ast.Star):
        star, stream = True, given[0].stream
        given = given[1:]
    if star:
        if not row.wildcard or step.distinct:
            word = "distinct *" if step.distinct else "*"
            scope.problems.fail("wrong-parameter", f"`{row.name}({word})` has no meaning", step.span)
        parts.star = True
        parts.args.append(_event(scope, stream, step.span) if scope.streams else error_at(step.span))
    _named(step, parts, scope, bind)
    values = [bind(arg, scope) for arg in given]
    wanted = 0 if star else row.arity
    if len(values) < wanted:
        scope.problems.fail(
            "wrong-parameter",
            f"`{row.name}` takes {_count(row.arity, row.arity)}, found {len(values)}",
            step.span,
        )
    parts.args.extend(values[:wanted])
    _extras(row, values[wanted:], parts, step, scope)
    _check_value(row, parts, scope)
    return parts


def _named(step: ast.NameStep, parts: _Parts, scope: Scope, bind: Binder) -> None:
    for name, values in step.named:
        bound = [bind(value, scope) for value in values]
        if name == "filter" and len(bound) == 1:
            parts.filter = _filter(bound[0], scope)
        elif name == "group_by":
            scope.problems.fail("not-supported-yet", "not supported yet: group_by in an aggregate", step.span)
        else:
            scope.problems.fail(
                "wrong-parameter", f"no parameter `{name}:`", step.span, did_you_mean(name, ("filter", "group_by"))
            )


def _filter(bound: x.Expr, scope: Scope) -> x.Expr:
    if bound.type not in (t.BOOLEAN, ERROR):
        scope.problems.fail(
            "type-mismatch", f"the filter of an aggregate must be boolean, found {describe(bound.type)}", bound.span
        )
    return bound


def _extras(row: AggregateRow, values: list[x.Expr], parts: _Parts, step: ast.NameStep, scope: Scope) -> None:
    """What follows the value: an index for first and last, a positional filter."""
    for value in values:
        if row.indexed and parts.index is None and value.type in (t.BYTE, t.SHORT, t.INT):
            parts.index = value
        elif parts.filter is None and len(values) <= 1 + row.indexed:
            parts.filter = _filter(value, scope)
        else:
            scope.problems.fail("wrong-parameter", f"too many parameters for `{row.name}`", step.span)


def _check_value(row: AggregateRow, parts: _Parts, scope: Scope) -> None:
    if row.numeric and parts.args and parts.args[0].type != ERROR and not t.is_numeric(parts.args[0].type):
        found = parts.args[0]
        scope.problems.fail("type-mismatch", f"`{row.name}` needs numbers, found {describe(found.type)}", found.span)
    if row.name in ("min", "max") and parts.args:
        found = parts.args[0]
        if found.type not in (*LOOSE, *TEXTUAL, t.BOOLEAN, t.TIMESTAMP) and not t.is_numeric(found.type):
            scope.problems.fail(
                "type-mismatch", f"`{row.name}` cannot order values of {describe(found.type)}", found.span
            )


def _check_window(row: AggregateRow, parts: _Parts, step: ast.NameStep, scope: Scope) -> None:
    whole = parts.star or parts.index is not None
    if scope.unwindowed and (row.needs_window_always or (row.needs_window and whole)):
        shown = f"{row.name}(*)" if parts.star else f"{row.name} with an index" if whole else row.name
        scope.problems.fail("wrong-parameter", f"`{shown}` needs a data window", step.span, "add one, such as #keepall")
