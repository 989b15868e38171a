"""How a relation is read under a condition: by a hash index, by a sorted one, or all of it.

``access`` looks through the parts of a condition for those that tie the relation's own values to what is known when it
is read: the events of other inputs, constants, variables. Equalities together make the key of a hash index; without
any, comparisons and ranges over one value make a range. What is left must be tested of each item that is found.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from cepbook.lang import expr as x
from cepbook.lang.types import BIGINTEGER, is_integral

_INVERSE = {"+": "-", "-": "+"}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_ORDERED = frozenset({"string", "char", "byte", "short", "int", "long", "float", "double", "biginteger", "bigdecimal"})
# what has another value from row to row, or from time to time: no key
_PLACED = (x.Prev, x.Prior, x.InsertStream, x.AggregateRef, x.KeyRef, x.Grouping, x.CurrentTimestamp, x.Variable)
_PASSING = (*_PLACED, x.UserCall, x.SubqueryRef)


@dataclass(frozen=True, slots=True)
class Equal:
    """``own = other``; with `nulls` null equals null."""

    own: x.Expr
    other: x.Expr
    nulls: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """`own` lies between `low` and `high`; None: no bound on that side. `either`: the bounds may be swapped."""

    own: x.Expr
    low: x.Expr | None = None
    high: x.Expr | None = None
    with_low: bool = True
    with_high: bool = True
    either: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """How items of `input` are found: by `keys`, else by `range`, else by looking at all. `rest` must be tested."""

    input: int
    keys: tuple[Equal, ...] = ()
    range: Range | None = None
    rest: tuple[x.Expr, ...] = ()

    @property
    def scans(self) -> bool:
        """Whether all items are looked at."""
        return not self.keys and self.range is None

    @property
    def index(self) -> tuple[str, tuple[x.Expr, ...]] | None:
        """The index that it needs: its kind, ``hash`` or ``sorted``, and its key; None for a scan."""
        if self.keys:
            return "hash", tuple(equal.own for equal in self.keys)
        return None if self.range is None else ("sorted", (self.range.own,))


def inputs_of(e: x.Expr) -> set[int]:
    """The inputs that an expression reads."""
    return {part.stream for part in x.walk(e) if isinstance(part, (x.Prop, x.EventOf))}


def access(conditions: Sequence[x.Expr], target: int, known: Container[int]) -> Access:
    """How `target` is read under `conditions`, which hold together, when events of the inputs `known` are at hand."""
    keys: list[Equal] = []
    ranges: dict[x.Expr, list[tuple[x.Expr, Range]]] = {}
    rest: list[x.Expr] = []
    for condition in conditions:
        equal = _equal(condition, target, known)
        found = None if equal is not None else _range(condition, target, known)
        if equal is not None and equal.own not in [key.own for key in keys]:
            keys.append(equal)
        elif found is not None:
            ranges.setdefault(found.own, []).append((condition, found))
        else:
            rest.append(condition)
    if keys or not ranges:
        rest += [condition for parts in ranges.values() for condition, _ in parts]
        return Access(target, tuple(keys), None, tuple(rest))
    own, parts = max(ranges.items(), key=lambda item: len(item[1]))
    merged, left = _merged(own, parts)
    rest += left + [condition for other, some in ranges.items() if other is not own for condition, _ in some]
    return Access(target, (), merged, tuple(rest))


def _merged(own: x.Expr, parts: Iterable[tuple[x.Expr, Range]]) -> tuple[Range, list[x.Expr]]:
    """One range of several over the same value, and the conditions that it does not hold."""
    found, left = Range(own), []
    for condition, part in parts:
        if part.either and found == Range(own):
            found = part
            continue
        if (part.low is not None and found.low is not None) or (part.high is not None and found.high is not None):
            left.append(condition)
            continue
        if part.low is not None:
            found = replace(found, low=part.low, with_low=part.with_low)
        if part.high is not None:
            found = replace(found, high=part.high, with_high=part.with_high)
    return found, left


def _equal(e: x.Expr, target: int, known: Container[int]) -> Equal | None:
    nulls = isinstance(e, x.Is) and not e.negated
    if not nulls and not (isinstance(e, x.Compare) and e.op == "="):
        return None
    assert isinstance(e, (x.Is, x.Compare))
    for own, other in ((e.left, e.right), (e.right, e.left)):
        if _is_key(own, target) and _is_known(other, target, known) and _comparable(own, other):
            return Equal(own, other, nulls)
    return None


def _comparable(own: x.Expr, other: x.Expr) -> bool:
    """Whether equal values are equal keys: not where one side is only known at run time, or an array."""
    return all(e.type.name not in ("object", "map", "array", "struct", "event") for e in (own, other))


def _range(e: x.Expr, target: int, known: Container[int]) -> Range | None:
    if isinstance(e, x.Compare) and e.op in _MIRRORED:
        for left, right, op in ((e.left, e.right, e.op), (e.right, e.left, _MIRRORED[e.op])):
            own, other = _shifted(left, right)
            if _is_key(own, target) and own.type.name in _ORDERED and _is_known(other, target, known):
                if op in ("<", "<="):
                    return Range(own, high=other, with_high=op == "<=")
                return Range(own, low=other, with_low=op == ">=")
    if not isinstance(e, x.Between) or e.negated or e.operand.type.name not in _ORDERED:
        return None
    if _is_key(e.operand, target) and _is_known(e.low, target, known) and _is_known(e.high, target, known):
        return Range(e.operand, e.low, e.high, e.include_low, e.include_high, not e.ordered)
    return None


def _shifted(own: x.Expr, other: x.Expr) -> tuple[x.Expr, x.Expr]:
    """``a + 5 < b`` as ``a < b - 5``, of whole numbers, so that one index on ``a`` serves both ends of a band."""
    if not isinstance(own, x.Arith) or own.op not in _INVERSE or not isinstance(own.right, x.Const):
        return own, other
    if not all(is_integral(e.type) for e in (own, own.left, own.right, other)):
        return own, other
    return own.left, x.Arith(BIGINTEGER, _INVERSE[own.op], other, own.right, span=other.span)


def _is_key(e: x.Expr, target: int) -> bool:
    """Whether `e` is a lasting value of the target's items."""
    return inputs_of(e) == {target} and not any(isinstance(part, _PASSING) for part in x.walk(e))


def _is_known(e: x.Expr, target: int, known: Container[int]) -> bool:
    """Whether `e` can be computed before any item of the target is looked at."""
    reads = inputs_of(e)
    return target not in reads and all(each in known for each in reads)
