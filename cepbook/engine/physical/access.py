"""How a relation is read under a condition: by a hash index, by a sorted one, or all of it.

``access`` looks through the parts of a condition for those that tie the relation's own values to what is known when it
is read: the events of other inputs, constants, variables. Equalities together make the key of a hash index; without
any, ``x in (a, b)`` is looked up once for each of the options; without these, comparisons and ranges over one value
make a range; beside equalities they are the band of a composite index. What is left must be tested of each item that
is found. ``plan_store_access`` does the same for named windows and
tables, whose readers share indexes: those on plain columns come first, and the primary key of a table is one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.types import BIGINTEGER, is_hashable, is_integral

_INVERSE = {"+": "-", "-": "+"}
_ORDERED = frozenset({"string", "char", "byte", "short", "int", "long", "float", "double", "biginteger", "bigdecimal"})
# types as which a value is the same key: equal where it is equal, and found under the same hash
_SAME_KEY = {
    "byte": ("byte", "short", "int", "long", "float", "double", "biginteger"),
    "short": ("short", "int", "long", "double", "biginteger"),
    "int": ("int", "long", "double", "biginteger"),
    "long": ("long", "biginteger"),
    "float": ("float", "double"),
    "double": ("double",),
    "string": ("string",),
    "char": ("char",),
    "boolean": ("boolean",),
}
# what has another value from row to row, or from time to time: no key
_PLACED = (x.Prev, x.Prior, x.InsertStream, x.AggregateRef, x.KeyRef, x.Grouping, x.CurrentTimestamp, x.VariableRead)
_PASSING = (*_PLACED, x.UserCall, x.SubqueryRef, x.TableRead, x.ContextProp)


@dataclass(frozen=True, slots=True)
class KeyEquality:
    """``own = other``; with `nulls` null equals null. With `more` it is any of several: ``own in (other, *more)``."""

    own: x.BoundExpr
    other: x.BoundExpr
    nulls: bool = False
    more: tuple[x.BoundExpr, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyRange:
    """`own` lies between `low` and `high`; None: no bound on that side. `either`: the bounds may be swapped."""

    own: x.BoundExpr
    low: x.BoundExpr | None = None
    high: x.BoundExpr | None = None
    with_low: bool = True
    with_high: bool = True
    either: bool = False


@dataclass(frozen=True, slots=True)
class AccessPath:
    """How items of `input` are found: by `keys`, else by `range`, else by looking at all. `rest` must be tested.

    `unique`: the keys are the primary key of a table. `band`: a range in which the items of many with these keys must
    be; its conditions are tested, too.
    """

    input: int
    keys: tuple[KeyEquality, ...] = ()
    range: KeyRange | None = None
    rest: tuple[x.BoundExpr, ...] = ()
    unique: bool = False
    band: KeyRange | None = None

    @property
    def scans(self) -> bool:
        """Whether all items are looked at."""
        return not self.keys and self.range is None

    @property
    def index(self) -> tuple[str, tuple[x.BoundExpr, ...]] | None:
        """The index that it needs: its kind, ``hash``, ``composite`` or ``sorted``, and its key; None for a scan."""
        if self.band is not None:
            return "composite", (*(equal.own for equal in self.keys), self.band.own)
        if self.keys:
            return "hash", tuple(equal.own for equal in self.keys)
        return None if self.range is None else ("sorted", (self.range.own,))

    @property
    def known(self) -> list[x.BoundExpr]:
        """What is known, and looked up."""
        keys = [e for equal in self.keys for e in (equal.other, *equal.more)]
        within = self.range or self.band
        return keys if within is None else [*keys, *(e for e in (within.low, within.high) if e is not None)]


def inputs_read(e: x.BoundExpr) -> set[int]:
    """The inputs that an expression reads."""
    return {part.stream for part in x.walk(e) if isinstance(part, (x.Prop, x.EventOf))}


def plan_access(conditions: Sequence[x.BoundExpr], target: int, known: Container[int]) -> AccessPath:
    """How `target` is read under `conditions`, which hold together, when events of the inputs `known` are at hand."""
    keys: dict[x.BoundExpr, KeyEquality] = {}
    several: dict[x.BoundExpr, KeyEquality] = {}
    ranges: dict[x.BoundExpr, list[tuple[x.BoundExpr, KeyRange]]] = {}
    for condition in conditions:
        equal = _equal(condition, target, known)
        among = None if equal is not None else _among(condition, target, known)
        found = None if equal is not None or among is not None else _range(condition, target, known)
        if equal is not None and equal.own not in [key.own for key in keys.values()]:
            keys[condition] = equal
        elif among is not None:
            several[condition] = among
        elif found is not None:
            ranges.setdefault(found.own, []).append((condition, found))
    if not keys and several:
        keys = dict([next(iter(several.items()))])
    merged, left, parts = None, list[x.BoundExpr](), list[tuple[x.BoundExpr, KeyRange]]()
    if ranges:
        own, parts = max(ranges.items(), key=lambda item: len(item[1]))
        merged, left = _merged(own, parts)
    if keys or merged is None:
        band = None if any(equal.more for equal in keys.values()) else merged
        return AccessPath(target, tuple(keys.values()), None, tuple(e for e in conditions if e not in keys), band=band)
    held = [condition for condition, _ in parts if condition not in left]
    return AccessPath(target, (), merged, tuple(e for e in conditions if e not in held))


def plan_store_access(
    conditions: Sequence[x.BoundExpr],
    target: int,
    known: Container[int],
    store: StoreType,
    filters: Sequence[x.BoundExpr] = (),
) -> AccessPath:
    """How `target`, rows of `store`, is read: by the primary key, by indexes on columns, else by one of its own.

    Of the `filters`, which rows must pass, too, equalities are parts of keys.
    """
    if filters:
        equal_ones = [e for e in filters if _equal(e, target, known) is not None]
        found = plan_store_access([*equal_ones, *conditions], target, known, store)
        return replace(found, rest=(*found.rest, *(e for e in filters if e not in equal_ones)))
    lasting = [e for e in conditions if not _reads_calls(e, target, store)]
    equal = {e: key for e in lasting if (key := _equal(e, target, known)) is not None}
    by_name = {key_column(key.own): (e, key) for e, key in reversed(equal.items())}
    if store.keys and all(name in by_name for name in store.keys):
        primary = [by_name[name] for name in store.keys]
        used = [e for e, _ in primary]
        return AccessPath(target, tuple(key for _, key in primary), None, _without(conditions, used), unique=True)
    usable = [e for e in lasting if _on_columns(plan_access([e], target, known))]
    found = plan_access(usable, target, known)
    if found.scans:
        usable, found = lasting, replace(plan_access(lasting, target, known), band=None)
    rest = tuple(e for e in conditions if e in found.rest or e not in usable)
    return replace(found, rest=rest, unique=len(found.keys) == 1 and store.keys == (key_column(found.keys[0].own),))


def _on_columns(found: AccessPath) -> bool:
    """Whether there is an index on columns, which readers share."""
    return found.index is not None and all(key_column(e) is not None for e in found.index[1])


def _without(conditions: Sequence[x.BoundExpr], used: Sequence[x.BoundExpr]) -> tuple[x.BoundExpr, ...]:
    return tuple(e for e in conditions if e not in used)


def _reads_calls(e: x.BoundExpr, target: int, store: StoreType) -> bool:
    """Whether it reads an aggregation column of a table: these change where they stand, and no index would know."""
    return any(isinstance(part, x.Prop) and part.stream == target and part.name in store.calls for part in x.walk(e))


def key_column(e: x.BoundExpr) -> str | None:
    """The column that a key is, maybe as a wider type, which is the same key; None if it is none."""
    if isinstance(e, x.Prop):
        return e.name
    if isinstance(e, x.Convert) and e.type.name in _SAME_KEY.get(e.operand.type.name, ()):
        return key_column(e.operand)
    return None


def _merged(own: x.BoundExpr, parts: Iterable[tuple[x.BoundExpr, KeyRange]]) -> tuple[KeyRange, list[x.BoundExpr]]:
    """One range of several over the same value, and the conditions that it does not hold."""
    found, left = KeyRange(own), []
    for condition, part in parts:
        if part.either and found == KeyRange(own):
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


def _equal(e: x.BoundExpr, target: int, known: Container[int]) -> KeyEquality | None:
    nulls = isinstance(e, x.Is) and not e.negated
    if not nulls and not (isinstance(e, x.ComparisonExpr) and e.op == "="):
        return None
    assert isinstance(e, (x.Is, x.ComparisonExpr))
    for own, other in ((e.left, e.right), (e.right, e.left)):
        if _is_key(own, target) and _is_known(other, target, known) and _comparable(own, other):
            return KeyEquality(own, other, nulls)
    return None


def _comparable(own: x.BoundExpr, other: x.BoundExpr) -> bool:
    """Whether equal values are equal keys: not where one side is only known at run time, or an array."""
    return is_hashable(own.type) and is_hashable(other.type)


def _among(e: x.BoundExpr, target: int, known: Container[int]) -> KeyEquality | None:
    """``x in (a, b)``, where the options are single values."""
    if not isinstance(e, x.InList) or e.negated or not e.options or not _is_key(e.operand, target):
        return None
    if not all(_is_known(option, target, known) and _comparable(e.operand, option) for option in e.options):
        return None
    return KeyEquality(e.operand, e.options[0], more=e.options[1:])


def _range(e: x.BoundExpr, target: int, known: Container[int]) -> KeyRange | None:
    if isinstance(e, x.ComparisonExpr) and e.op in x.MIRRORED_OPERATORS:
        for left, right, op in ((e.left, e.right, e.op), (e.right, e.left, x.MIRRORED_OPERATORS[e.op])):
            own, other = _shifted(left, right)
            if _is_key(own, target) and own.type.name in _ORDERED and _is_known(other, target, known):
                if op in ("<", "<="):
                    return KeyRange(own, high=other, with_high=op == "<=")
                return KeyRange(own, low=other, with_low=op == ">=")
    if not isinstance(e, x.RangeTest) or e.negated or e.operand.type.name not in _ORDERED:
        return None
    if _is_key(e.operand, target) and _is_known(e.low, target, known) and _is_known(e.high, target, known):
        return KeyRange(e.operand, e.low, e.high, e.include_low, e.include_high, not e.ordered)
    return None


def _shifted(own: x.BoundExpr, other: x.BoundExpr) -> tuple[x.BoundExpr, x.BoundExpr]:
    """``a + 5 < b`` as ``a < b - 5``, of whole numbers, so that one index on ``a`` serves both ends of a band."""
    if not isinstance(own, x.Arith) or own.op not in _INVERSE or not isinstance(own.right, x.Const):
        return own, other
    if not all(is_integral(e.type) for e in (own, own.left, own.right, other)):
        return own, other
    return own.left, x.Arith(BIGINTEGER, _INVERSE[own.op], other, own.right, span=other.span)


def _is_key(e: x.BoundExpr, target: int) -> bool:
    """Whether `e` is a lasting value of the target's items."""
    return inputs_read(e) == {target} and not any(isinstance(part, _PASSING) for part in x.walk(e))


def _is_known(e: x.BoundExpr, target: int, known: Container[int]) -> bool:
    """Whether `e` can be computed before any item of the target is looked at."""
    reads = inputs_read(e)
    return target not in reads and all(each in known for each in reads)
