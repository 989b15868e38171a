"""Parameters of data windows: their number, kinds and values (registry: `lang.registry.windows`).

* Sizes, periods and reference points are read once, when the statement or its partition starts, so they cannot depend
  on events.
* Keys, timestamps and sort criteria are read per event.
* Conditions of ``expr`` and ``expr_batch`` cover the whole window and have built-in names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cepbook.errors import Span, did_you_mean
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import coerce, sortable
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.expressions.time_period import seconds_period
from cepbook.lang.bind.scope import ERROR, AlreadyReported, Scope, type_text
from cepbook.lang.java.dates.time_zone import offset_at, zone_of
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import AggregateCall
from cepbook.lang.registry.windows import FLOW_CONTROL, ParameterKind, WindowParameter, WindowRow
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type


@dataclass(slots=True)
class WindowArguments:
    """The bound parameters by purpose; `rest` are the extra properties of a derived-value window."""

    args: list[x.BoundExpr] = field(default_factory=list)
    options: tuple[str, ...] = ()
    criteria: list[tuple[x.BoundExpr, bool]] = field(default_factory=list)
    calls: tuple[AggregateCall, ...] = ()
    rest: tuple[ast.Expr, ...] = ()


def bind_window_parameters(row: WindowRow, node: ast.Window, scope: Scope) -> WindowArguments:
    """Bind the parameters of one window. Raises AlreadyReported if one is wrong."""
    before = len(scope.problems.reported)
    try:
        return _bind_arguments(row, node, scope)
    finally:
        scope.problems.suggest(before, "wrong-parameter", f"such as {row.example}")


def _bind_arguments(row: WindowRow, node: ast.Window, scope: Scope) -> WindowArguments:
    if node.named:
        scope.reject(f"`{row.name}` has no parameter `{node.named[0][0]}:`", node.span)
    if any(parameter.repeated for parameter in row.parameters[:-1]):
        return _ranked(row, node, scope)
    arguments = WindowArguments()
    rest = list(node.args)
    for parameter in row.parameters:
        if row.derived and parameter.optional:
            arguments.rest, rest = tuple(rest), []
        elif not rest:
            if not parameter.optional:
                _wrong_count(row, node, scope)
        elif parameter.kind == "reference" and (_is_text(rest[0]) or _bare_keyword(rest[0]) is not None):
            continue
        elif parameter.repeated:
            for arg in rest:
                _bind_parameter(row, parameter, arg, arguments, scope)
            rest = []
        else:
            _bind_parameter(row, parameter, rest.pop(0), arguments, scope)
    if row.aligned and len(arguments.args) == len(row.parameters) - 1:
        arguments.args.append(x.Const(t.LONG, _calendar_origin(arguments.args[-1], scope), span=node.span))
    if rest:
        if arguments.options and all(map(_is_text, rest)):
            fact = f"the flow control of `{row.name}` is one string, found {len(rest) + 1}"
            both = ", ".join([*arguments.options, *(str(text.value) for text in rest if isinstance(text, ast.Literal))])
            scope.reject(fact, rest[0].span, f"write '{both}'")
        _wrong_count(row, node, scope)
    return arguments


def _calendar_origin(period: x.BoundExpr, scope: Scope) -> int:
    """Return a point of the calendar's grid in clock units: midnight in the zone, of whole weeks on a Monday."""
    options = scope.module.options
    second = 1_000_000 if options.microseconds else 1000
    units = _amounts(period)[-1:] if isinstance(period, x.Period) and period.months is None else [1]
    weekly = bool(units) and units[0] % (7 * 86_400 * second) == 0
    monday = 4 * 86_400 * second if weekly else 0
    return monday - offset_at(zone_of(options.time_zone), monday, second)


def _is_text(node: ast.Expr) -> bool:
    return isinstance(node, ast.Literal) and node.type == "string"


def _bare_keyword(node: ast.Expr) -> str | None:
    name = node.steps[0].name.upper() if isinstance(node, ast.Chain) and len(node.steps) == 1 else None
    return name if name in FLOW_CONTROL else None


def _wrong_count(row: WindowRow, node: ast.Window, scope: Scope) -> None:
    names = ", ".join(f"[{p.name}]" if p.optional else p.name for p in row.parameters)
    expected = f"({names})" if names else "no parameters"
    count_text = f"found {len(node.args)} parameter{'' if len(node.args) == 1 else 's'}"
    scope.reject(f"`{row.name}` takes {expected}, {count_text}", node.span, f"such as {row.example}")


def _ranked(row: WindowRow, node: ast.Window, scope: Scope) -> WindowArguments:
    """Bind keys, size and criteria: the size is the first int constant after the first key."""
    keys, size, criteria = row.parameters
    bound = [
        None if isinstance(arg, ast.SortKey) else _value(arg, f"parameter {i} of `{row.name}`", scope)
        for i, arg in enumerate(node.args, 1)
    ]
    sizes = [value is not None and value.type == t.INT and isinstance(fold_expr(value), x.Const) for value in bound]
    at = sizes.index(True, 1) if True in sizes[1:] else None
    if at is None or at == len(bound) - 1:
        missing = "a constant int size after the keys" if at is None else "sort criteria after the size"
        scope.reject(f"`{row.name}` needs {missing}", node.span, f"such as {row.example}")
    arguments = WindowArguments()
    _bind_parameter(row, size, node.args[at], arguments, scope)
    for arg in node.args[:at]:
        _bind_parameter(row, keys, arg, arguments, scope)
    for arg in node.args[at + 1 :]:
        _bind_parameter(row, criteria, arg, arguments, scope)
        if isinstance(fold_expr(arguments.criteria[-1][0]), x.Const):
            scope.reject("a constant orders nothing", arg.span, f"such as {row.example}")
    return arguments


def _bind_parameter(
    row: WindowRow, parameter: WindowParameter, node: ast.Expr, arguments: WindowArguments, scope: Scope
) -> None:
    what = f"the {parameter.name} of `{row.name}`"
    if parameter.kind == "flow":
        arguments.options = _flow_control(node, row, scope)
    elif parameter.kind == "sort":
        arguments.criteria.append(_criterion(node, what, scope))
    elif parameter.kind == "condition":
        condition, arguments.calls = _condition(node, what, scope)
        arguments.args.append(condition)
    else:
        bound = _value(node, what, scope)
        if row.grouping and bound.type == t.NULL:
            scope.reject(
                f"a key of `{row.name}` is always null: it has no type", node.span, "group by another property"
            )
        if parameter.kind == "duration":
            arguments.args.append(
                _duration(bound, what, row.batch, scope)
            )  # points of a grid of batches must lie apart
        elif parameter.kind == "timestamp":
            arguments.args.append(_timestamp(bound, what, row.timed, scope))  # timed ones compare it with the clock
        else:
            arguments.args.append(_checked(parameter.kind, bound, what, scope))


def refuse_order_and_star(node: ast.Expr, what: str, scope: Scope) -> None:
    """Report a sort order or ``*`` where a plain value is needed."""
    if isinstance(node, ast.SortKey):
        scope.reject(f"{what} cannot have a sort order", node.span, f"leave {'desc' if node.descending else 'asc'} out")
    if isinstance(node, ast.Star):
        scope.reject(f"{what} cannot be `*`", node.span, "name properties of the event")


def _value(node: ast.Expr, what: str, scope: Scope) -> x.BoundExpr:
    refuse_order_and_star(node, what, scope)
    bound = bind_expr(node, replace(scope.without_aggregates(what), no_row_functions=what))
    if bound.type == ERROR:
        raise AlreadyReported(what)
    return bound


def _checked(kind: ParameterKind, bound: x.BoundExpr, what: str, scope: Scope) -> x.BoundExpr:
    match kind:
        case "size":
            return _size(bound, what, scope)
        case "reference" | "seed":
            return _reference(bound, what, scope)
        case "number":
            _check(t.is_numeric(bound.type), "a number", bound, what, scope, _cast_hint(bound, "double"))
            return coerce(bound, t.DOUBLE)
        case "flag":
            _check(bound.type == t.BOOLEAN, "boolean", bound, what, scope)
            return _constant(bound, what, scope)
    return bound


def _check(met: bool, expected: str, bound: x.BoundExpr, what: str, scope: Scope, hint: str | None = None) -> None:
    if not met:
        scope.reject(f"{what} must be {expected}, found {type_text(bound.type)}", bound.span, hint)


def _constant(bound: x.BoundExpr, what: str, scope: Scope) -> x.BoundExpr:
    """Return `bound` folded; report event properties, because parameters are read once."""
    for subexpr in x.walk(bound):
        if isinstance(subexpr, (x.Prop, x.EventOf)):
            hint = "it is read once, when the statement or its partition starts: write a constant or a variable"
            scope.reject(f"{what} cannot depend on an event", subexpr.span, hint)
    return fold_expr(bound)


def _size(bound: x.BoundExpr, what: str, scope: Scope) -> x.BoundExpr:
    _check(bound.type == t.INT, "an int", bound, what, scope, _int_hint(bound))
    constant = _constant(bound, what, scope)
    if isinstance(constant, x.Const) and (not isinstance(constant.value, int) or constant.value <= 0):
        scope.reject(f"{what} must be above 0, found {_constant_text(constant)}", bound.span)
    return constant


def _int_hint(bound: x.BoundExpr) -> str | None:
    """Return how to write a size as an int; None for a time period."""
    value = fold_expr(bound)
    if isinstance(value, x.Const) and isinstance(value.value, int | float) and value.value == int(value.value):
        return f"write {int(value.value)}"
    return None if isinstance(bound, x.Period) else _cast_hint(bound, "int")


def _constant_text(constant: x.Const) -> str:
    return "null" if constant.value is None else str(constant.value)


def _duration(bound: x.BoundExpr, what: str, batch: bool, scope: Scope) -> x.BoundExpr:
    if isinstance(bound, x.Period):
        period = _constant(bound, what, scope)
        amounts = _amounts(period)
        if any(amount < 0 for amount in amounts):
            scope.reject(f"{what} must not be negative", bound.span)
        known = all(isinstance(e, x.Const) for e in x.children(period))
        if batch and known and amounts and not any(amounts):
            scope.reject(f"{what} must be above 0", bound.span)
        return period
    quoted = isinstance(bound, x.Const) and isinstance(bound.value, str) and bound.value[:1].isdigit()
    hint = f"write `{bound.value}` without quotes" if quoted and isinstance(bound, x.Const) else "such as 10 sec"
    _check(t.is_numeric(bound.type), "a time period or a number of seconds", bound, what, scope, hint)
    constant = _constant(bound, what, scope)
    if isinstance(constant, x.Const) and (not isinstance(constant.value, (int, float)) or constant.value <= 0):
        scope.reject(f"{what} must be above 0, found {_constant_text(constant)}", bound.span)
    return seconds_period(constant, scope)


def _amounts(period: x.BoundExpr) -> list[int | float]:
    parts = (period.months, period.millis) if isinstance(period, x.Period) else ()
    return [p.value for p in parts if isinstance(p, x.Const) and isinstance(p.value, int | float)]


def _reference(bound: x.BoundExpr, what: str, scope: Scope) -> x.BoundExpr:
    _check(bound.type in (t.INT, t.LONG), "int or long", bound, what, scope)
    constant = _constant(bound, what, scope)
    return x.Const(t.LONG, constant.value, span=bound.span) if isinstance(constant, x.Const) else constant


def _flow_control(node: ast.Expr, row: WindowRow, scope: Scope) -> tuple[str, ...]:
    value = node.value if isinstance(node, ast.Literal) else None
    if not isinstance(value, str):
        hint = f"write '{_bare_keyword(node)}'" if _bare_keyword(node) else f"such as '{FLOW_CONTROL[0]}'"
        scope.reject(f"the flow control of `{row.name}` must be a string", node.span, hint)
    return tuple(_keyword(word.strip(), row.name, node.span, scope) for word in value.split(",") if word.strip())


def _keyword(word: str, window: str, span: Span, scope: Scope) -> str:
    if word.upper() not in FLOW_CONTROL:
        hint = did_you_mean(word.upper(), FLOW_CONTROL) or f"there are {' and '.join(FLOW_CONTROL)}"
        scope.reject(f"`{window}` has no flow control `{word}`", span, hint)
    return word.upper()


def _timestamp(bound: x.BoundExpr, what: str, clocked: bool, scope: Scope) -> x.BoundExpr:
    """Return a timestamp as a long.

    A window that only compares timestamps accepts any number; one that uses the engine's clock accepts integers only.
    """
    if clocked:
        _check(t.is_integral(bound.type), "a whole number", bound, what, scope, _cast_hint(bound, "long"))
    _check(t.is_numeric(bound.type), "a number", bound, what, scope, _cast_hint(bound, "long"))
    return bound if t.is_integral(bound.type) else coerce(bound, t.LONG)


def _cast_hint(bound: x.BoundExpr, type_: str) -> str | None:
    return f"cast it: cast(…, {type_})" if bound.type == t.OBJECT or t.is_numeric(bound.type) else None


def _criterion(node: ast.Expr, what: str, scope: Scope) -> tuple[x.BoundExpr, bool]:
    operand, descending = (node.operand, node.descending) if isinstance(node, ast.SortKey) else (node, False)
    bound = _value(operand, what, scope)
    _check(sortable(bound.type), "a value with an order", bound, what, scope)
    return bound, descending


def _condition(node: ast.Expr, what: str, scope: Scope) -> tuple[x.BoundExpr, tuple[AggregateCall, ...]]:
    """Bind a condition over the window: the evaluated event, built-in names, and aggregates of the window."""
    own = replace(
        scope, no_aggregates=None, no_row_functions=what, calls={}, aliases=_window_values(scope), unwindowed=False
    )
    refuse_order_and_star(node, what, scope)
    bound = bind_expr(node, own)
    if bound.type == ERROR:
        raise AlreadyReported(what)
    folded = fold_expr(bound)
    # a part that was reported also makes the constant null
    wrong = any(subexpr.type == ERROR for subexpr in x.walk(bound))
    if isinstance(folded, x.Const) and folded.value is None and not wrong:
        scope.reject(f"{what} is always null", node.span)
    untyped = isinstance(bound, x.UserCall) and bound.type == t.OBJECT
    _check(bound.type == t.BOOLEAN or untyped, "boolean", bound, what, scope, "compare it with something")
    return bound, tuple(own.calls)


def _window_values(scope: Scope) -> dict[str, x.BoundExpr]:
    types: dict[str, Type] = {
        "current_count": t.INT,
        "expired_count": t.INT,
        "oldest_timestamp": t.LONG,
        "newest_timestamp": t.LONG,
        "view_reference": t.OBJECT,
    }
    event_types: Sequence[str] = [s.event_type.name for s in scope.streams if s.event_type is not None]
    event = t.event_of(event_types[0]) if event_types else ERROR
    types.update({"oldest_event": event, "newest_event": event})
    return {name: x.WindowValue(type_, name) for name, type_ in types.items()}
