"""Functions of a row's position: in its data window (prev …), its stream (prior, istream), its grouping set (grouping).

Source: Esper reference, chapter "EPL Reference: Functions", sections "The prev Function" to "The istream Function", and
"The grouping Function" of the chapter "EPL Clauses".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.lang import types as t
from cepbook.lang.bind.expressions.lambdas import refuse_lambda_parameters
from cepbook.lang.bind.scope import DATA_WINDOW, ERROR, Binder, Scope, error_expression, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

PREV_KINDS = {"prev": "prev", "prevtail": "tail", "prevcount": "count", "prevwindow": "window"}
ROW_FUNCTIONS = frozenset((*PREV_KINDS, "prior", "istream", "grouping", "grouping_id"))


def bind_row_function(name: str, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind a call of one of `ROW_FUNCTIONS`; `name` is in lower case."""
    if step.distinct or step.named:
        scope.reject(f"`{name}` takes plain values only", step.span)
    if scope.rows is not None:
        return scope.rows.previous(name, step, scope, bind)
    if name in ("grouping", "grouping_id"):
        return _grouping(name, step, scope, bind)
    if name == "istream" and scope.arrivals_only and not step.args and not step.wildcard:
        return x.Const(t.BOOLEAN, True, span=step.span)
    if scope.no_row_functions is not None and not _is_reported(scope):
        inside = scope.no_subqueries == DATA_WINDOW and name != "istream"
        hint = "conditions of #expr and #expr_batch have newest_event and oldest_event" if inside else None
        scope.reject(f"`{name}` is not allowed in {scope.no_row_functions}", step.span, hint)
    if name == "istream":
        if step.args or step.wildcard:
            scope.reject("`istream` takes no parameters", step.span)
        return x.InsertStream(t.BOOLEAN, span=step.span)
    return _prior(step, scope, bind) if name == "prior" else _prev(name, step, scope, bind)


def _is_reported(scope: Scope) -> bool:
    return scope.unchecked


def _prev(name: str, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    _check_window(name, step, scope)
    indexed = name in ("prev", "prevtail")
    args = list(step.args or ())
    if step.wildcard or any(isinstance(node, ast.Star) and node.stream is None for node in args):
        hint = f"name the stream, as in `from … as e`, and write {name}({'1, ' if name == 'prev' else ''}e)"
        scope.reject(f"`{name}` does not take `*`", step.span, hint)
    if not 1 <= len(args) <= 1 + indexed:
        expected = "an index and a property" if indexed else "a property"
        scope.reject(f"`{name}` takes {expected}, found {len(args)}", step.span)
    index: x.BoundExpr | None = None
    if len(args) == 2:
        args, index = _with_index(name, args, scope, bind)
    elif indexed:
        index = x.Const(t.INT, 1 if name == "prev" else 0, span=step.span)
    value = _event_value(name, args[0], scope, bind)
    if ERROR in (value.type, index.type if index is not None else None):
        return error_expression(step.span)
    types: dict[str, Type] = {"count": t.LONG, "window": t.array_of(value.type)}
    kind = PREV_KINDS[name]
    return x.Prev(types.get(kind, value.type), kind, index, value, span=step.span)


def _check_window(name: str, step: ast.NameStep, scope: Scope) -> None:
    windows = scope.data_windows
    if _is_reported(scope) or len(scope.streams) > 1:  # in a join the value decides which window is read
        return
    if not windows:
        stored = any(stream.name in scope.module.catalog.stores for stream in scope.streams)
        hint = "it is not for rows of named windows and tables" if stored else "add one, such as #keepall"
        scope.reject(f"`{name}` needs a data window", step.span, hint)
    if len(windows) > 1:
        window_names = " and ".join(f"`{window}`" for window in windows)
        scope.reject(f"`{name}` needs a single data window, found {window_names}", step.span)
    row = WINDOWS.get(windows[0])
    if row is not None and row.unordered:  # recorded: prev_window_kinds
        fact = f"`{name}` does not go with the data window `{windows[0]}`, which has no order"
        scope.reject(fact, step.span, "several events per key: #groupwin(key)#length(5)" if row.operands else None)


def _with_index(name: str, args: Sequence[ast.Expr], scope: Scope, bind: Binder) -> tuple[list[ast.Expr], x.BoundExpr]:
    """Return the value and the index, which may come second if it is constant: ``prev(price, 1)``."""
    first, second = args
    if not isinstance(second, ast.Star):
        last = fold_expr(bind(second, _value_scope(name, scope)))
        if isinstance(last, x.Const) and last.type != ERROR:
            first, second = second, first
    if isinstance(first, ast.Star):
        scope.reject(f"the index of `{name}` cannot be `*`", first.span)
    index = fold_expr(
        bind(first, replace(scope, no_row_functions=f"`{name}`"))
    )  # it may count: prev(count(*) - 1, price)
    if index.type != ERROR and not t.is_integral(index.type):
        scope.reject(f"the index of `{name}` must be a whole number, found {type_text(index.type)}", first.span)
    return [second], index


def _event_value(name: str, node: ast.Expr, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind a value of the other event: a property, the event by its alias, or an expression over them."""
    if isinstance(node, ast.Star):  # ``alias.*``, the event of a stream
        node = ast.Chain((ast.NameStep(node.stream or "", span=node.span),), span=node.span)
    value = bind(node, _value_scope(name, scope))
    refuse_lambda_parameters([value], f"`{name}`", scope)
    if value.type != ERROR and not any(isinstance(subexpr, (x.Prop, x.EventOf)) for subexpr in x.walk(value)):
        scope.reject(f"`{name}` needs a property of the event", node.span)
    return value


def _value_scope(name: str, scope: Scope) -> Scope:
    return replace(scope.without_aggregates(f"`{name}`"), no_row_functions=f"`{name}`")


def _prior(step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    args = step.args or ()
    if len(args) != 2 or step.wildcard:
        scope.reject(f"`prior` takes an index and a property, found {len(args)}", step.span, "such as prior(1, price)")
    index = fold_expr(bind(args[0], _value_scope("prior", scope)))
    value = _event_value("prior", args[1], scope, bind)
    if ERROR in (index.type, value.type):
        return error_expression(step.span)
    constant = index.value if isinstance(index, x.Const) and t.is_integral(index.type) else None
    if not isinstance(constant, int) or constant < 0:
        scope.reject("the index of `prior` must be a constant whole number, 0 or above", args[0].span)
    return x.Prior(value.type, constant, value, span=step.span)


def _grouping(name: str, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    if scope.grouping_keys is None:
        scope.reject(f"`{name}` needs a group by clause with rollup, cube or grouping sets", step.span)
    args = step.args or ()
    if step.wildcard or not args or (name == "grouping" and len(args) > 1):
        expected = "a group by key" if name == "grouping" else "group by keys"
        scope.reject(f"`{name}` takes {expected}", step.span)
    keys: list[int] = []
    for arg in args:
        key = bind(arg, _value_scope(name, scope))
        if key.type == ERROR:
            return key
        if key not in scope.grouping_keys:
            scope.reject(f"the parameter of `{name}` is not a group by key", arg.span)
        keys.append(scope.grouping_keys.index(key))
    if len(set(keys)) < len(keys):
        scope.reject(f"the same key twice in `{name}`", step.span)
    return x.Grouping(t.INT, tuple(keys), span=step.span)
