"""What of a query does not go together, seen before any name is looked up."""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.dialects.apama import tree as a
from cepbook.dialects.apama.expressions import APAMA_AGGREGATES
from cepbook.lang.bind.diagnostics import DiagnosticCollector


def check_query(node: a.ApamaQuery, problems: DiagnosticCollector) -> None:
    """Errors: Refused, reported with the first thing that is wrong."""
    _check_items(node, problems)
    _check_windows(node, problems)
    _check_aggregates(node, problems)
    aggregated = any(_aggregates(part) for part in (node.select, node.having))
    _check_rstream(node, aggregated, problems)
    if not aggregated and node.having is not None:
        hint = "conditions on items stand behind where"
        problems.fail("wrong-having", "`having` without an aggregate", node.having.span, hint)
    if not aggregated and node.group_by:
        fact = "`group by` without an aggregate in select or having"
        hint = "select an aggregate, such as count(), or leave it out"
        problems.fail("wrong-group-by", fact, node.group_by[0].span, hint)
    if aggregated:
        for part in (node.select, node.having):
            _check_outside(part, node, problems)


def _check_items(node: a.ApamaQuery, problems: DiagnosticCollector) -> None:
    names = [each.item for each in node.inputs]
    if len(set(names)) < len(names):
        problems.fail("duplicate-name", f"the item `{names[1]}` twice", node.inputs[1].span, "give it another name")
    for number, key in enumerate(node.keys or ()):
        others = {name.name for name in _names(key)} - {names[number]}
        if others or not any(_names(key)):
            side, own = ("left", "right")[number], names[number]
            fact = f"the {side} key of a join is one of `{own}` alone"
            problems.fail("wrong-key", fact, key.span, f"write {own}.… on this side of equals")


def _check_windows(node: a.ApamaQuery, problems: DiagnosticCollector) -> None:
    for each in (each.window for each in node.inputs):
        if each is None:
            continue
        if each.everything and len(node.inputs) > 1:
            hint = "write retain n or within seconds"
            problems.fail("wrong-window", "`retain all` on a side of a join", each.span, hint)
        if each.everything and each.partition:
            fact, hint = "`retain all` cannot be partitioned", "it has no effect on what is held: leave it out"
            problems.fail("wrong-window", fact, each.span, hint)
        if each.within is not None and each.retain is not None and each.retain[1] is not None:
            hint = "write within seconds every seconds retain n"
            problems.fail("wrong-window", "`every` behind `within … retain`", each.retain[1].span, hint)
        for part in (*each.partition, *([] if each.unique is None else [each.unique])):
            _refuse_aggregates(part, "a window", problems)


def _check_aggregates(node: a.ApamaQuery, problems: DiagnosticCollector) -> None:
    places = [("where", (node.where,)), ("group by", node.group_by), ("the key of a join", node.keys or ())]
    for place, parts in places:
        for part in parts:
            _refuse_aggregates(part, place, problems)
    for call in (call for part in (node.select, node.having) for call in _aggregates(part)):
        for inner in (inner for arg in call.args for inner in _aggregates(arg)):
            fact = f"`{inner.name}` inside the aggregate `{call.name}`"
            hint = "aggregate a stream of what the inner one gives"
            problems.fail("nested-aggregate", fact, inner.span, hint)


def _refuse_aggregates(part: a.Expr | None, place: str, problems: DiagnosticCollector) -> None:
    for call in _aggregates(part):
        own = "aggregate in a stream of its own"
        hint = "conditions on aggregates stand behind having" if place == "where" else own
        problems.fail("aggregate-not-allowed", f"the aggregate `{call.name}` in {place}", call.span, hint)


def _check_rstream(node: a.ApamaQuery, aggregated: bool, problems: DiagnosticCollector) -> None:
    at = node.rstream
    if at is None:
        return
    windows = [each.window for each in node.inputs]
    if aggregated:
        fact = "`rstream` with an aggregate: its results do not leave"
        problems.fail("wrong-rstream", fact, at, "aggregate a stream that selects rstream")
    if any(each is not None and each.everything for each in windows):
        hint = "write retain n or within seconds"
        problems.fail("wrong-rstream", "`rstream` with `retain all`: nothing ever leaves", at, hint)
    if all(each is None for each in windows):
        fact = "`rstream` without a window: nothing is there that could leave"
        problems.fail("wrong-rstream", fact, at, "add within or retain")


def _check_outside(part: a.Expr | None, node: a.ApamaQuery, problems: DiagnosticCollector) -> None:
    """Beside aggregates an item is seen through the keys of its group only."""
    if part is None or part in node.group_by or _is_aggregate(part):
        return
    if isinstance(part, a.ApamaName) and part.name in [each.item for each in node.inputs]:
        hint = "put it into an aggregate, such as last(…), or into group by"
        problems.fail("wrong-select", f"`{part.name}` outside of an aggregate", part.span, hint)
    for inner in _parts(part):
        _check_outside(inner, node, problems)


# ---------------------------------------------------------------- trees
def _is_aggregate(part: a.Expr) -> bool:
    return isinstance(part, a.ApamaCall) and part.name in APAMA_AGGREGATES


def _aggregates(part: a.Expr | None) -> list[a.ApamaCall]:
    """The outermost aggregates of an expression."""
    if part is None:
        return []
    if isinstance(part, a.ApamaCall) and part.name in APAMA_AGGREGATES:
        return [part]
    return [call for inner in _parts(part) for call in _aggregates(inner)]


def _names(part: a.Expr) -> Iterator[a.ApamaName]:
    if isinstance(part, a.ApamaName):
        yield part
    for inner in _parts(part):
        yield from _names(inner)


def _parts(part: a.Expr) -> tuple[a.Expr, ...]:
    match part:
        case a.ApamaMember():
            return (part.target, *(part.args or ()))
        case a.ApamaCall():
            return part.args
        case a.ApamaUnary():
            return (part.operand,)
        case a.ApamaBinary():
            return part.left, part.right
    return ()
