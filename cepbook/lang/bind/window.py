"""Data windows behind a stream: which window, which parameters (registry: `lang.windows`)."""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.errors import Span
from cepbook.lang import ast
from cepbook.lang import expr as x
from cepbook.lang import types as t
from cepbook.lang.bind.expr import bind_expr
from cepbook.lang.bind.names import ERROR, Refused, Scope, describe, did_you_mean
from cepbook.lang.bind.period import seconds
from cepbook.lang.plan import WindowSpec
from cepbook.lang.rewrite.expressions import fold
from cepbook.lang.windows import FLOW_CONTROL, WINDOWS, Parameter, WindowRow


def bind_windows(windows: Sequence[ast.Window], scope: Scope) -> tuple[WindowSpec, ...]:
    """The windows in text order; combinations that engines do not run are refused."""
    specs = [(node, _bind_window(node, scope)) for node in windows]
    names = [node.name for node in windows]
    for position, node in enumerate(windows):
        if node.name == "groupwin" and position == len(windows) - 1:
            scope.problems.add("wrong-parameter", "`groupwin` needs a data window behind it", node.span)
        elif node.name == "groupwin" and position > 0:
            scope.problems.unsupported("groupwin behind another data window", node.span)
    plain = [n for n in names if n != "groupwin"]
    if len(plain) > 1 and all(n in WINDOWS for n in plain):
        scope.problems.unsupported("several data windows on one stream", windows[0].span.to(windows[-1].span))
    return tuple(spec for _, spec in specs if spec is not None)


def is_derived(windows: Sequence[ast.Window]) -> bool:
    """Whether the stream's events become those of a derived-value window."""
    return any(node.name in WINDOWS and WINDOWS[node.name].derived for node in windows)


def _bind_window(node: ast.Window, scope: Scope) -> WindowSpec | None:
    row = WINDOWS.get(node.name)
    if row is None or node.namespace not in (None, row.namespace):
        shown = node.name if node.namespace is None else f"{node.namespace}:{node.name}"
        known = WINDOWS if node.namespace is None else [f"{r.namespace}:{r.name}" for r in WINDOWS.values()]
        scope.problems.add(
            "unknown-window",
            f"no data window `{shown}`",
            scope.module.word(node.name, node.span),
            did_you_mean(shown, known),
        )
        return None
    try:
        spec = _bind_parameters(row, node, scope.without_aggregates("a data window"))
    except Refused:
        return None
    if not row.supported:
        scope.problems.unsupported(f"the data window {row.name}", node.span)
        return None
    return spec


def _bind_parameters(row: WindowRow, node: ast.Window, scope: Scope) -> WindowSpec:
    if node.named:
        scope.problems.fail("wrong-parameter", f"no parameter `{node.named[0][0]}:`", node.span)
    given = list(node.args)
    args: list[x.Expr] = []
    options: tuple[str, ...] = ()
    for parameter in row.parameters:
        if not given:
            if not parameter.optional:
                _wrong_count(row, node, scope)
            continue
        if parameter.repeated:
            args.extend(_bind_parameter(row, parameter, arg, scope) for arg in given)
            given = []
        elif parameter.kind == "flow":
            options = _flow_control(given.pop(0), scope)
        elif parameter.kind == "reference" and _is_text(given[0]):
            continue
        else:
            args.append(_bind_parameter(row, parameter, given.pop(0), scope))
    if given:
        _wrong_count(row, node, scope)
    return WindowSpec(row.name, tuple(args), options, span=node.span)


def _is_text(node: ast.Expr) -> bool:
    return isinstance(node, ast.Literal) and node.type == "string"


def _wrong_count(row: WindowRow, node: ast.Window, scope: Scope) -> None:
    names = ", ".join(f"[{p.name}]" if p.optional else p.name for p in row.parameters)
    expected = f"({names})" if names else "no parameters"
    found = f"found {len(node.args)} parameter{'' if len(node.args) == 1 else 's'}"
    scope.problems.fail(
        "wrong-parameter", f"`{row.name}` takes {expected}, {found}", node.span, f"such as {row.example}"
    )


def _bind_parameter(row: WindowRow, parameter: Parameter, node: ast.Expr, scope: Scope) -> x.Expr:
    if parameter.kind in ("sort", "condition") or (isinstance(node, ast.Star) and parameter.optional):
        # Bound with their windows: sort criteria and expiry conditions have names of their own.
        scope.problems.fail("not-supported-yet", f"not supported yet: the data window {row.name}", node.span)
    bound = bind_expr(node, scope)
    if bound.type == ERROR:
        raise Refused(parameter.name)
    what = f"the {parameter.name} of `{row.name}`"
    match parameter.kind:
        case "size":
            return _size(bound, what, scope)
        case "duration":
            return _duration(bound, what, scope)
        case "reference":
            return _reference(bound, what, scope)
        case "timestamp" | "number":
            if not t.is_numeric(bound.type):
                scope.problems.fail(
                    "wrong-parameter", f"{what} must be a number, found {describe(bound.type)}", node.span
                )
        case "flag":
            if bound.type != t.BOOLEAN:
                scope.problems.fail(
                    "wrong-parameter", f"{what} must be boolean, found {describe(bound.type)}", node.span
                )
    return bound


def _constant(bound: x.Expr, what: str, scope: Scope) -> x.Expr:
    """Folded, without event properties: parameters are read once, when the statement or its partition starts."""
    for part in x.walk(bound):
        if isinstance(part, (x.Prop, x.EventOf)):
            scope.problems.fail("wrong-parameter", f"{what} cannot depend on an event", part.span)
    return fold(bound)


def _size(bound: x.Expr, what: str, scope: Scope) -> x.Expr:
    if bound.type != t.INT:
        scope.problems.fail("wrong-parameter", f"{what} must be an int, found {describe(bound.type)}", bound.span)
    constant = _constant(bound, what, scope)
    if isinstance(constant, x.Const) and (not isinstance(constant.value, int) or constant.value <= 0):
        scope.problems.fail("wrong-parameter", f"{what} must be above 0, found {constant.value}", bound.span)
    return constant


def _duration(bound: x.Expr, what: str, scope: Scope) -> x.Expr:
    if isinstance(bound, x.Period):
        period = _constant(bound, what, scope)
        if any(amount < 0 for amount in _amounts(period)):
            scope.problems.fail("wrong-parameter", f"{what} must not be negative", bound.span)
        return period
    if not t.is_numeric(bound.type):
        scope.problems.fail(
            "wrong-parameter",
            f"{what} must be a time period or a number of seconds, found {describe(bound.type)}",
            bound.span,
            "such as 10 sec",
        )
    constant = _constant(bound, what, scope)
    if isinstance(constant, x.Const) and (not isinstance(constant.value, (int, float)) or constant.value <= 0):
        scope.problems.fail("wrong-parameter", f"{what} must be above 0, found {constant.value}", bound.span)
    return seconds(constant, scope)


def _amounts(period: x.Expr) -> list[int | float]:
    """The parts of a period that are known before it runs."""
    parts = (period.months, period.millis) if isinstance(period, x.Period) else ()
    return [p.value for p in parts if isinstance(p, x.Const) and isinstance(p.value, int | float)]


def _reference(bound: x.Expr, what: str, scope: Scope) -> x.Expr:
    if bound.type not in (t.INT, t.LONG):
        scope.problems.fail("wrong-parameter", f"{what} must be int or long, found {describe(bound.type)}", bound.span)
    constant = _constant(bound, what, scope)
    return x.Const(t.LONG, constant.value, span=bound.span) if isinstance(constant, x.Const) else constant


def _flow_control(node: ast.Expr, scope: Scope) -> tuple[str, ...]:
    value = node.value if isinstance(node, ast.Literal) else None
    if not isinstance(value, str):
        scope.problems.fail(
            "wrong-parameter", "flow control must be a string", node.span, f"such as '{FLOW_CONTROL[0]}'"
        )
    return tuple(_keyword(word.strip(), node.span, scope) for word in value.split(",") if word.strip())


def _keyword(word: str, span: Span, scope: Scope) -> str:
    if word.upper() not in FLOW_CONTROL:
        scope.problems.fail(
            "wrong-parameter", f"no flow control keyword `{word}`", span, did_you_mean(word, FLOW_CONTROL)
        )
    return word.upper()
