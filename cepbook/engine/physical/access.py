"""Access paths: how a relation is read under a condition, by a hash index, by a sorted index, or by a scan.

`plan_access` searches the conditions for those that tie a value of the relation to values known at the lookup: events
of other inputs, constants, variables. The best index wins:

1. equalities, together the key of a hash index,
2. ``x in (a, b)``, one lookup per option,
3. comparisons and ranges of one value, a range of a sorted index.

If there are equalities as well, the range becomes the band of a composite index. All other conditions are
tested on each item.

`plan_store_access` does the same for named windows and tables. Their readers share indexes, so indexes on plain columns
come first, and the primary key of a table is an index, too.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.references import streams_read
from cepbook.lang.types import BIGINTEGER, is_hashable, is_integral

_INVERSE = {"+": "-", "-": "+"}
_ORDERED = frozenset({"string", "char", "byte", "short", "int", "long", "float", "double", "biginteger", "bigdecimal"})
# Types to which a value converts without becoming another key: equality and hash stay the same.
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
# Expressions that cannot be keys, because their value for one item may differ from lookup to lookup.
_VOLATILE = (
    *(x.Prev, x.Prior, x.InsertStream, x.AggregateRef, x.KeyRef, x.Grouping, x.CurrentTimestamp, x.VariableRead),
    *(x.UserCall, x.SubqueryRef, x.SubqueryParameter, x.TableRead, x.ContextProp),
)


@dataclass(frozen=True, slots=True)
class KeyEquality:
    """``own = other``; with `nulls` null equals null. With `more`: ``own in (other, *more)``."""

    own: x.BoundExpr
    other: x.BoundExpr
    nulls: bool = False
    more: tuple[x.BoundExpr, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyRange:
    """`own` lies between `low` and `high`; None means no bound. With `either`, `low` may be the greater one."""

    own: x.BoundExpr
    low: x.BoundExpr | None = None
    high: x.BoundExpr | None = None
    with_low: bool = True
    with_high: bool = True
    either: bool = False


@dataclass(frozen=True, slots=True)
class AccessPath:
    """The way to the items of `input`: by `keys`, else by `range`, else by a scan.

    Conditions in `rest` must be tested on each item. `band` is a range among the items of equal keys, for a composite
    index; its conditions are in `rest` as well. `unique`: the keys are the primary key of a table.
    """

    input: int
    keys: tuple[KeyEquality, ...] = ()
    range: KeyRange | None = None
    rest: tuple[x.BoundExpr, ...] = ()
    unique: bool = False
    band: KeyRange | None = None

    @property
    def scans(self) -> bool:
        """True if all items are read."""
        return not self.keys and self.range is None

    @property
    def index(self) -> tuple[str, tuple[x.BoundExpr, ...]] | None:
        """The kind of the required index, ``hash``, ``composite`` or ``sorted``, and its key; None for a scan."""
        if self.band is not None:
            return "composite", (*(equal.own for equal in self.keys), self.band.own)
        if self.keys:
            return "hash", tuple(equal.own for equal in self.keys)
        return None if self.range is None else ("sorted", (self.range.own,))

    @property
    def known(self) -> list[x.BoundExpr]:
        """The values that are looked up, known before the items are read."""
        keys = [e for equal in self.keys for e in (equal.other, *equal.more)]
        within = self.range or self.band
        return keys if within is None else [*keys, *(e for e in (within.low, within.high) if e is not None)]


def plan_access(conditions: Sequence[x.BoundExpr], target: int, known: Container[int]) -> AccessPath:
    """Plan how `target` is read under the conjunction of `conditions`, given events of the inputs `known`."""
    keys: dict[x.BoundExpr, KeyEquality] = {}
    several: dict[x.BoundExpr, KeyEquality] = {}
    ranges: dict[x.BoundExpr, list[tuple[x.BoundExpr, KeyRange]]] = {}
    for condition in conditions:
        equal = _equal(condition, target, known)
        options = None if equal is not None else _among(condition, target, known)
        key_range = None if equal is not None or options is not None else _range(condition, target, known)
        if equal is not None and equal.own not in [key.own for key in keys.values()]:
            keys[condition] = equal
        elif options is not None:
            several[condition] = options
        elif key_range is not None:
            ranges.setdefault(key_range.own, []).append((condition, key_range))
    if not keys and several:
        keys = dict([next(iter(several.items()))])
    merged, uncovered, candidates = None, list[x.BoundExpr](), list[tuple[x.BoundExpr, KeyRange]]()
    if ranges:
        own, candidates = max(ranges.items(), key=lambda item: len(item[1]))
        merged, uncovered = _merged(own, candidates)
    if keys or merged is None:
        band = None if any(equal.more for equal in keys.values()) else merged
        return AccessPath(target, tuple(keys.values()), None, tuple(e for e in conditions if e not in keys), band=band)
    covered = [condition for condition, _ in candidates if condition not in uncovered]
    return AccessPath(target, (), merged, tuple(e for e in conditions if e not in covered))


def plan_store_access(
    conditions: Sequence[x.BoundExpr],
    target: int,
    known: Container[int],
    store: StoreType,
    filters: Sequence[x.BoundExpr] = (),
) -> AccessPath:
    """Plan how `target`, rows of `store`, is read: by primary key, by indexes on columns, else by an index of the
    reader alone. Rows must also pass `filters`, whose equalities become parts of keys.
    """
    if filters:
        equal_ones = [e for e in filters if _equal(e, target, known) is not None]
        path = plan_store_access([*equal_ones, *conditions], target, known, store)
        return replace(path, rest=(*path.rest, *(e for e in filters if e not in equal_ones)))
    indexable = [e for e in conditions if not _reads_aggregation_column(e, target, store)]
    equal = {e: key for e in indexable if (key := _equal(e, target, known)) is not None}
    # the first condition on a column is used
    by_name = {key_column(key.own): (e, key) for e, key in reversed(equal.items())}
    if store.keys and all(name in by_name for name in store.keys):
        primary = [by_name[name] for name in store.keys]
        used = [e for e, _ in primary]
        rest = tuple(e for e in conditions if e not in used)
        return AccessPath(target, tuple(key for _, key in primary), None, rest, unique=True)
    usable = [e for e in indexable if _on_columns(plan_access([e], target, known))]
    path = plan_access(usable, target, known)
    if path.scans:
        usable, path = indexable, replace(plan_access(indexable, target, known), band=None)
    rest = tuple(e for e in conditions if e in path.rest or e not in usable)
    return replace(path, rest=rest, unique=len(path.keys) == 1 and store.keys == (key_column(path.keys[0].own),))


def _on_columns(path: AccessPath) -> bool:
    return path.index is not None and all(key_column(e) is not None for e in path.index[1])


def _reads_aggregation_column(e: x.BoundExpr, target: int, store: StoreType) -> bool:
    """Return whether `e` reads an aggregation column, which changes in place without an update of indexes."""
    return any(isinstance(node, x.Prop) and node.stream == target and node.name in store.calls for node in x.walk(e))


def key_column(e: x.BoundExpr) -> str | None:
    """Return the column of a key, possibly converted to a wider type; None if the key is not a column."""
    if isinstance(e, x.Prop):
        return e.name
    if isinstance(e, x.Convert) and e.type.name in _SAME_KEY.get(e.operand.type.name, ()):
        return key_column(e.operand)
    return None


def _merged(own: x.BoundExpr, ranges: Iterable[tuple[x.BoundExpr, KeyRange]]) -> tuple[KeyRange, list[x.BoundExpr]]:
    """Merge ranges of one value; return the result and the conditions that it does not cover."""
    merged, uncovered = KeyRange(own), []
    for condition, range_ in ranges:
        if range_.either and merged == KeyRange(own):
            merged = range_
            continue
        if (range_.low is not None and merged.low is not None) or (range_.high is not None and merged.high is not None):
            uncovered.append(condition)
            continue
        if range_.low is not None:
            merged = replace(merged, low=range_.low, with_low=range_.with_low)
        if range_.high is not None:
            merged = replace(merged, high=range_.high, with_high=range_.with_high)
    return merged, uncovered


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
    return is_hashable(own.type) and is_hashable(other.type)


def _among(e: x.BoundExpr, target: int, known: Container[int]) -> KeyEquality | None:
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
        return KeyRange(e.operand, e.low, e.high, e.include_low, e.include_high, True)
    return None


def _shifted(own: x.BoundExpr, other: x.BoundExpr) -> tuple[x.BoundExpr, x.BoundExpr]:
    """Rewrite ``a + 5 < b`` of integers as ``a < b - 5``, so that both bounds of a range share the
    key ``a``. The difference is a BIGINTEGER, which cannot overflow.
    """
    if not isinstance(own, x.Arith) or own.op not in _INVERSE or not isinstance(own.right, x.Const):
        return own, other
    if not all(is_integral(e.type) for e in (own, own.left, own.right, other)):
        return own, other
    return own.left, x.Arith(BIGINTEGER, _INVERSE[own.op], other, own.right, span=other.span)


def _is_key(e: x.BoundExpr, target: int) -> bool:
    return streams_read(e) == {target} and not any(isinstance(node, _VOLATILE) for node in x.walk(e))


def _is_known(e: x.BoundExpr, target: int, known: Container[int]) -> bool:
    reads = streams_read(e)
    return target not in reads and all(input_ in known for input_ in reads)
