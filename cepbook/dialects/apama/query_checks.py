"""Checks of a query before its names are resolved: clauses that do not go together."""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.dialects.apama import tree as a
from cepbook.dialects.apama.expressions import APAMA_AGGREGATES
from cepbook.lang.bind.scope import DiagnosticCollector


def check_query(node: a.ApamaQuery, problems: DiagnosticCollector) -> None:
    """Raise AlreadyReported with the first problem of the query."""
    _check_items(node, problems)
    _check_windows(node, problems)
    _check_aggregates(node, problems)
    aggregated = any(_aggregates(clause) for clause in (node.select, node.having))
    _check_rstream(node, aggregated, problems)
    if not aggregated and node.having is not None:
        hint = "write conditions on items after where"
        problems.fail("wrong-having", "`having` without an aggregate", node.having.span, hint)
    if not aggregated and node.group_by:
        fact = "`group by` without an aggregate in select or having"
        hint = "select an aggregate, such as count(), or leave it out"
        problems.fail("wrong-group-by", fact, node.group_by[0].span, hint)
    if aggregated:
        for clause in (node.select, node.having):
            _check_outside(clause, node, problems)


def _check_items(node: a.ApamaQuery, problems: DiagnosticCollector) -> None:
    names = [query_input.item for query_input in node.inputs]
    if len(set(names)) < len(names):
        problems.fail("duplicate-name", f"the item `{names[1]}` twice", node.inputs[1].span, "give it another name")
    for number, key in enumerate(node.keys or ()):
        others = {name.name for name in _names(key)} - {names[number]}
        if others or not any(_names(key)):
            side, own = ("left", "right")[number], names[number]
            fact = f"the {side} key of a join is one of `{own}` alone"
            problems.fail("wrong-key", fact, key.span, f"write {own}.… on this side of equals")


def _check_windows(node: a.ApamaQuery, problems: DiagnosticCollector) -> None:
    for window in (window.window for window in node.inputs):
        if window is None:
            continue
        if window.everything and len(node.inputs) > 1:
            hint = "write retain n or within seconds"
            problems.fail("wrong-window", "`retain all` on a side of a join", window.span, hint)
        if window.everything and window.partition:
            fact, hint = "`retain all` cannot be partitioned", "it has no effect: leave it out"
            problems.fail("wrong-window", fact, window.span, hint)
        if window.within is not None and window.retain is not None and window.retain[1] is not None:
            hint = "write within seconds every seconds retain n"
            problems.fail("wrong-window", "`every` after `within … retain`", window.retain[1].span, hint)
        for expr in (*window.partition, *([] if window.unique is None else [window.unique])):
            _refuse_aggregates(expr, "a window", problems)


def _check_aggregates(node: a.ApamaQuery, problems: DiagnosticCollector) -> None:
    places = [("where", (node.where,)), ("group by", node.group_by), ("the key of a join", node.keys or ())]
    for place, parts in places:
        for expr in parts:
            _refuse_aggregates(expr, place, problems)
    for call in (call for expr in (node.select, node.having) for call in _aggregates(expr)):
        for inner in (inner for arg in call.args for inner in _aggregates(arg)):
            fact = f"`{inner.name}` inside the aggregate `{call.name}`"
            hint = "aggregate the inner result in a separate stream"
            problems.fail("nested-aggregate", fact, inner.span, hint)


def _refuse_aggregates(expr: a.Expr | None, place: str, problems: DiagnosticCollector) -> None:
    for call in _aggregates(expr):
        own = "aggregate in a separate stream"
        hint = "write conditions on aggregates after having" if place == "where" else own
        problems.fail("aggregate-not-allowed", f"the aggregate `{call.name}` in {place}", call.span, hint)


def _check_rstream(node: a.ApamaQuery, aggregated: bool, problems: DiagnosticCollector) -> None:
    at = node.rstream
    if at is None:
        return
    windows = [query_input.window for query_input in node.inputs]
    if aggregated:
        fact = "`rstream` with an aggregate: results never leave a window"
        problems.fail("wrong-rstream", fact, at, "aggregate a stream that selects rstream")
    if any(query_input is not None and query_input.everything for query_input in windows):
        hint = "write retain n or within seconds"
        problems.fail("wrong-rstream", "`rstream` with `retain all`: nothing ever leaves", at, hint)
    if all(query_input is None for query_input in windows):
        problems.fail("wrong-rstream", "`rstream` without a window: no item can leave", at, "add within or retain")


def _check_outside(expr: a.Expr | None, node: a.ApamaQuery, problems: DiagnosticCollector) -> None:
    if expr is None or expr in node.group_by or _is_aggregate(expr):
        return
    if isinstance(expr, a.ApamaName) and expr.name in [query_input.item for query_input in node.inputs]:
        hint = "put it into an aggregate, such as last(…), or into group by"
        problems.fail("wrong-select", f"`{expr.name}` outside of an aggregate", expr.span, hint)
    for inner in _operands(expr):
        _check_outside(inner, node, problems)


def _is_aggregate(expr: a.Expr) -> bool:
    return isinstance(expr, a.ApamaCall) and expr.name in APAMA_AGGREGATES


def _aggregates(expr: a.Expr | None) -> list[a.ApamaCall]:
    if expr is None:
        return []
    if isinstance(expr, a.ApamaCall) and expr.name in APAMA_AGGREGATES:
        return [expr]
    return [call for inner in _operands(expr) for call in _aggregates(inner)]


def _names(expr: a.Expr) -> Iterator[a.ApamaName]:
    if isinstance(expr, a.ApamaName):
        yield expr
    for inner in _operands(expr):
        yield from _names(inner)


def _operands(expr: a.Expr) -> tuple[a.Expr, ...]:
    match expr:
        case a.ApamaMember():
            return (expr.target, *(expr.args or ()))
        case a.ApamaCall():
            return expr.args
        case a.ApamaUnary():
            return (expr.operand,)
        case a.ApamaBinary():
            return expr.left, expr.right
    return ()
