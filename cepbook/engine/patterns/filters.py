"""Filters of atoms taken apart, so that waiting atoms are found by key instead of asked one by one.

``b=B(x > 5, id = a.id, x >= a.x, id like a.id)`` has a part that needs the event only (tested once per event), an
equality between event and match (a hash table), a range against the match (sorted bounds), and a rest, which is tested
for each atom that is found.
"""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang import expr as x
from cepbook.lang.patterns import EVENT, MATCH
from cepbook.lang.types import is_hashable

_LATER = (x.Variable, x.CurrentTimestamp, x.UserCall)  # read when the event arrives, not when the atom starts


@dataclass(frozen=True, slots=True)
class Bound:
    """``event op match``."""

    op: str
    event: x.Expr
    match: x.Expr


@dataclass(frozen=True, slots=True)
class Parts:
    """The conjuncts of an atom's filter. `keys` are (of the event, of the match)."""

    event: tuple[x.Expr, ...] = ()
    keys: tuple[tuple[x.Expr, x.Expr], ...] = ()
    bound: Bound | None = None
    rest: tuple[x.Expr, ...] = ()


def split(condition: x.Expr | None) -> Parts:
    """Take a filter apart; all parts together are the filter."""
    event: list[x.Expr] = []
    keys: list[tuple[x.Expr, x.Expr]] = []
    rest: list[x.Expr] = []
    bound: Bound | None = None
    for part in x.conjuncts(condition):
        if any(isinstance(each, x.SubqueryRef) for each in x.walk(part)):  # asked last, and of each atom that waits
            rest.append(part)
            continue
        if not reads(part, MATCH):
            event.append(part)
            continue
        found = _sides(part)
        if found is not None and found.op == "=" and is_hashable(found.event.type) and is_hashable(found.match.type):
            keys.append((found.event, found.match))
        elif found is not None and found.op != "=" and bound is None:
            bound = found
        else:
            rest.append(part)
    return Parts(tuple(event), tuple(keys), bound, tuple(rest))


def _sides(e: x.Expr) -> Bound | None:
    """A comparison of the event with the match; None if `e` is not one."""
    if not isinstance(e, x.Compare) or (e.op != "=" and e.op not in x.MIRRORED):
        return None
    for op, event, match in ((e.op, e.left, e.right), (x.MIRRORED.get(e.op, "="), e.right, e.left)):
        fixed = reads(match, MATCH) and not reads(match, EVENT) and not _reads_later(match)
        if fixed and not reads(event, MATCH):
            return Bound(op, event, match)
    return None


def reads(e: x.Expr, stream: int) -> bool:
    """Whether `e` reads `stream`."""
    return any(isinstance(part, (x.Prop, x.EventOf)) and part.stream == stream for part in x.walk(e))


def _reads_later(e: x.Expr) -> bool:
    return any(isinstance(part, _LATER) for part in x.walk(e))
