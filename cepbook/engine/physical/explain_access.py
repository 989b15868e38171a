"""Access paths as text: which index is read and why, what is scanned, and which condition would get an index."""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.engine.physical.access import AccessPath, KeyEquality, KeyRange
from cepbook.lang.explain.expressions import show_expr
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.references import streams_read


def explain_access_path(path: AccessPath, store: StoreType | None) -> Iterator[str]:
    """Yield lines on how items are found, in a relation of the statement or in that of a `store`."""
    shared = "" if store is None else f" of {store.kind} {store.name}, shared by its readers"
    if path.keys:
        kind = f"by the primary key of table {store.name}" if path.unique and store else f"by a hash index{shared}"
        pairs = ", ".join(_pair(equal.own, equal) for equal in path.keys)
        if path.band is not None:
            among = f"of many of one key those with {show_expr(path.band.own)}{_bounds(path.band)}"
            yield f"found by a composite index{shared}: {pairs}; {among}"
        else:
            yield f"found {kind}: {pairs}"
    elif path.range is not None:
        yield f"found by a sorted index{shared}, on {show_expr(path.range.own)}{_bounds(path.range)}"
    else:
        what = "all events" if store is None else f"all rows of {store.kind} {store.name}"
        yield f"{what} are scanned{_remedy(path, store)}"
    if path.rest:
        yield f"then tested: {', '.join(map(show_expr, path.rest))}"


def _pair(own: x.BoundExpr, equal: KeyEquality) -> str:
    if equal.more:
        return f"{show_expr(own)} is looked up for each of {', '.join(map(show_expr, (equal.other, *equal.more)))}"
    return f"{show_expr(own)} {'is' if equal.nulls else '='} {show_expr(equal.other)}"


def _bounds(within: KeyRange) -> str:
    low = "" if within.low is None else f" {'>=' if within.with_low else '>'} {show_expr(within.low)}"
    high = "" if within.high is None else f" {'<=' if within.with_high else '<'} {show_expr(within.high)}"
    return f":{' and'.join(filter(None, (low, high)))}"


def _remedy(path: AccessPath, store: StoreType | None) -> str:
    if not path.rest:
        return ""
    reasons = [reason for e in path.rest if (reason := _why_not(e, path.input, store)) is not None]
    return f"; {reasons[0]}" if reasons else ", an equality with a column would have an index"


def _why_not(e: x.BoundExpr, target: int, store: StoreType | None) -> str | None:
    calls = () if store is None else store.calls
    read = next((p.name for p in x.find(x.Prop, e) if p.stream == target and p.name in calls), None)
    if read is not None:
        return f"{read} is an aggregation column, which has no index: an equality with another column would have one"
    if isinstance(e, x.Logic) and e.op == "or":
        return "`or` has no index: write `in (…)` for several values of one column, or several statements"
    excludes = isinstance(e, (x.Is, x.InList, x.RangeTest)) and e.negated
    if excludes or (isinstance(e, x.ComparisonExpr) and e.op == "!="):
        return "an exclusion has no index: an equality with a column would have one"
    if isinstance(e, x.ComparisonExpr) and all(target in streams_read(side) for side in (e.left, e.right)):
        return "both sides read the row: compare a column with a value known before the lookup"
    return None
