"""Division of atom filters, so that waiting atoms are found by key instead of tested one by one.

``b=B(x > 5, id = a.id, x >= a.x, id like a.id)`` has four parts: a condition on the event only, which is tested once
per event; an equality between event and match, looked up in a hash table; a range against the match, looked up in
sorted bounds; and a rest, which is tested for each atom found by the other parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.pattern import EVENT_STREAM, MATCH_STREAM
from cepbook.lang.plan.references import streams_read
from cepbook.lang.types import is_hashable

_TIME_VARYING = (x.VariableRead, x.CurrentTimestamp, x.UserCall, x.TableRead)  # evaluated when the event arrives


@dataclass(frozen=True, slots=True)
class RangeBound:
    """A comparison ``event op match``."""

    op: str
    event: x.BoundExpr
    match: x.BoundExpr


@dataclass(frozen=True, slots=True)
class AtomFilter:
    """The conjuncts of an atom's filter. `keys` are pairs (of the event, of the match)."""

    event: tuple[x.BoundExpr, ...] = ()
    keys: tuple[tuple[x.BoundExpr, x.BoundExpr], ...] = ()
    bound: RangeBound | None = None
    rest: tuple[x.BoundExpr, ...] = ()


def split_filter(condition: x.BoundExpr | None) -> AtomFilter:
    """Divide a filter; the conjunction of all parts is the filter."""
    event: list[x.BoundExpr] = []
    keys: list[tuple[x.BoundExpr, x.BoundExpr]] = []
    rest: list[x.BoundExpr] = []
    bound: RangeBound | None = None
    for conjunct in x.conjuncts(condition):
        if x.find(x.SubqueryRef, conjunct):  # evaluated last, for each atom that is still a candidate
            rest.append(conjunct)
            continue
        if MATCH_STREAM not in streams_read(conjunct):
            event.append(conjunct)
            continue
        comparison = _sides(conjunct)
        if (
            comparison is not None
            and comparison.op == "="
            and is_hashable(comparison.event.type)
            and is_hashable(comparison.match.type)
        ):
            keys.append((comparison.event, comparison.match))
        elif comparison is not None and comparison.op != "=" and bound is None:
            bound = comparison
        else:
            rest.append(conjunct)
    return AtomFilter(tuple(event), tuple(keys), bound, tuple(rest))


def _sides(e: x.BoundExpr) -> RangeBound | None:
    """Return a comparison of the event with the match; None if `e` is not one."""
    if not isinstance(e, x.ComparisonExpr) or (e.op != "=" and e.op not in x.MIRRORED_OPERATORS):
        return None
    for op, event, match in ((e.op, e.left, e.right), (x.MIRRORED_OPERATORS.get(e.op, "="), e.right, e.left)):
        read = streams_read(match)
        fixed = MATCH_STREAM in read and EVENT_STREAM not in read
        varies = any(isinstance(node, _TIME_VARYING) for node in x.walk(match))
        if fixed and not varies and MATCH_STREAM not in streams_read(event):
            return RangeBound(op, event, match)
    return None
