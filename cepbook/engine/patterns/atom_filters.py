"""Filters of atoms taken apart, so that waiting atoms are found by key instead of asked one by one.

``b=B(x > 5, id = a.id, x >= a.x, id like a.id)`` has a part that needs the event only (tested once per event), an
equality between event and match (a hash table), a range against the match (sorted bounds), and a rest, which is tested
for each atom that is found.
"""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.pattern import EVENT_STREAM, MATCH_STREAM
from cepbook.lang.types import is_hashable

_LATER = (x.VariableRead, x.CurrentTimestamp, x.UserCall)  # read when the event arrives, not when the atom starts


@dataclass(frozen=True, slots=True)
class RangeBound:
    """``event op match``."""

    op: str
    event: x.BoundExpr
    match: x.BoundExpr


@dataclass(frozen=True, slots=True)
class AtomFilter:
    """The conjuncts of an atom's filter. `keys` are (of the event, of the match)."""

    event: tuple[x.BoundExpr, ...] = ()
    keys: tuple[tuple[x.BoundExpr, x.BoundExpr], ...] = ()
    bound: RangeBound | None = None
    rest: tuple[x.BoundExpr, ...] = ()


def split_filter(condition: x.BoundExpr | None) -> AtomFilter:
    """Take a filter apart; all parts together are the filter."""
    event: list[x.BoundExpr] = []
    keys: list[tuple[x.BoundExpr, x.BoundExpr]] = []
    rest: list[x.BoundExpr] = []
    bound: RangeBound | None = None
    for part in x.conjuncts(condition):
        if any(isinstance(each, x.SubqueryRef) for each in x.walk(part)):  # asked last, and of each atom that waits
            rest.append(part)
            continue
        if not reads_stream(part, MATCH_STREAM):
            event.append(part)
            continue
        found = _sides(part)
        if found is not None and found.op == "=" and is_hashable(found.event.type) and is_hashable(found.match.type):
            keys.append((found.event, found.match))
        elif found is not None and found.op != "=" and bound is None:
            bound = found
        else:
            rest.append(part)
    return AtomFilter(tuple(event), tuple(keys), bound, tuple(rest))


def _sides(e: x.BoundExpr) -> RangeBound | None:
    """A comparison of the event with the match; None if `e` is not one."""
    if not isinstance(e, x.ComparisonExpr) or (e.op != "=" and e.op not in x.MIRRORED_OPERATORS):
        return None
    for op, event, match in ((e.op, e.left, e.right), (x.MIRRORED_OPERATORS.get(e.op, "="), e.right, e.left)):
        fixed = reads_stream(match, MATCH_STREAM) and not reads_stream(match, EVENT_STREAM) and not _reads_later(match)
        if fixed and not reads_stream(event, MATCH_STREAM):
            return RangeBound(op, event, match)
    return None


def reads_stream(e: x.BoundExpr, stream: int) -> bool:
    """Whether `e` reads `stream`."""
    return any(isinstance(part, (x.Prop, x.EventOf)) and part.stream == stream for part in x.walk(e))


def _reads_later(e: x.BoundExpr) -> bool:
    return any(isinstance(part, _LATER) for part in x.walk(e))
