"""The filter index: find the statements that must see an event without testing each of them.

Equality, `in`, `between` and other comparisons of a property with constants become lookups, nested as a tree (Esper
reference, "filter indexes"): a hash table per property for equality, a tree of intervals per property for ranges. All
bounds of one property in one filter are one interval. A statement whose filter has other conditions, too, tests the
whole filter itself. The cost per event grows with the statements that match, not with those that differ only in values.

Of several `in` lists in one filter only the shortest is looked up, and of several intervals beside a list only the
first. So a filter takes as many nodes as it has constants, at most twice.

Up to `MAX_UNINDEXED` statements with such conditions are all tested. With more, also of each kind, the tree is::

    symbol = 'A' and price > 5   ┐         symbol ─ 'A' ─ price in (5, ∞) ─ statement 1
    symbol = 'B'                 ├──►             └ 'B' ─ statement 2
    qty >= 10 and qty < 20       ┘         qty in [10, 20) ─ statement 3

Values and constants are looked up only if they compare and hash as Python's own numbers and texts (`PlainTypes`). For
an event with another value each statement tests its filter, so that a failure of a user's ``__eq__`` is its own.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain, islice, takewhile
from typing import Any, NamedTuple

from cepbook.engine.subscriptions.intervals import Interval, IntervalForest
from cepbook.lang.plan import expressions as x

# takes an event, or (event, slots) if contexts look at it; returns True if it consumed the event
EventHandler = Callable[..., object]
ContextSlots = list[Any]  # one slot per context that looks at the event
StatementOrder = tuple[int, int]
_MIRRORED = {**x.MIRRORED_OPERATORS, "=": "="}
_SCALARS = frozenset({"string", "char", "boolean", "byte", "short", "int", "long", "float", "double", "biginteger"})


def before_peers(order: StatementOrder) -> StatementOrder:
    """Return the dispatch order of a statement with `@Drop`: before all statements of the same priority."""
    return order[0], -1


@dataclass(frozen=True, slots=True)
class Subscription:
    """One statement's subscription to an event type: `checked` tests the whole filter, `matched` relies on the index.

    With `drops` (`@Drop`), statements of the same or lower priority do not see an event that this one consumes. `reads`
    is the type that the statement reads, or None for a context that only looks at events before statements process
    them. `within`: the context selects events by their values. `late`: one event may reach the statement in several
    ways (see `subscription_order`). ``alone(dispatch)`` returns the function for events that go to a context and
    this statement only; it calls `dispatch`, which goes to both, for an event whose partition is not there.
    """

    order: StatementOrder
    filter: x.BoundExpr | None
    checked: EventHandler
    matched: EventHandler
    drops: bool = False
    reads: str | None = None
    within: bool = False
    late: bool = False
    alone: Callable[[Callable[[Any], object]], Callable[[Any], object]] | None = None


class EventReader(NamedTuple):
    """Reads events of one type into a state: `take(event, state)` returns True if it consumed the event."""

    checked: Callable[[Any, Any], object]
    """Tests the whole filter itself."""

    matched: Callable[[Any, Any], object]
    """Relies on `condition` having been tested by the filter index."""

    condition: x.BoundExpr | None
    drops: bool
    """True with `@Drop`: statements of the same or lower priority do not see an event that this one consumes."""

    type: str
    """The event type that the statement reads."""

    late: bool
    """True if one event may reach the statement in several ways (see `subscription_order`)."""


@dataclass(frozen=True, slots=True)
class IndexCondition:
    """An indexable comparison: property, operator (``=`` for ``in`` too) and the constants."""

    name: str
    op: str
    values: tuple[Any, ...]


class PlainTypes(dict[type, bool]):
    """By type: True if a hash table and a sorted list find its values exactly where ``==`` and ``<`` hold, since no
    code of the user compares them. Only such types are remembered.
    """

    BUILT_IN = (str, int, float, Decimal)
    COMPARING = ("__eq__", "__ne__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__")
    ROUNDED = ("float16", "float32", "float128", "longdouble")  # numpy rounds a number to these before it compares them

    def __missing__(self, kind: type) -> bool:
        base = next((base for base in self.BUILT_IN if issubclass(kind, base)), None)
        inherits = base is not None and all(getattr(kind, name) is getattr(base, name) for name in self.COMPARING)
        plain = inherits or (kind.__module__ == "numpy" and kind.__name__ not in self.ROUNDED)
        if plain:
            self[kind] = True
        return plain


PLAIN = PlainTypes(dict.fromkeys((*PlainTypes.BUILT_IN, bool, type(None)), True))


@dataclass(slots=True)
class FilterIndexNode:
    """A node of the index: `leaves` are called for every event that gets here, `equal` and `ranges` lead to further
    nodes. A few entries with keys are `tested` by their statements, which are leaves, too; with more, all of them are
    looked up and `tested` is None.
    """

    leaves: list[Leaf] = field(default_factory=list)  # by order
    equal: dict[str, dict[Any, FilterIndexNode]] = field(default_factory=dict)
    ranges: dict[str, IntervalForest[FilterIndexNode]] = field(default_factory=dict)
    tested: tuple[IndexEntry, ...] | None = ()

    def match(self, event: Any, handlers: list[Leaf]) -> None:
        """Append the handlers of `event` below this node to `handlers`. Errors: TypeError, among others, for a value
        that cannot be looked up.
        """
        handlers += self.leaves
        for name, table in self.equal.items():
            value = event.get(name)
            if value is not None:
                if not PLAIN[type(value)]:
                    raise TypeError(name)
                node = table.get(value)
                if node is not None:
                    node.match(event, handlers)
        for name, tree in self.ranges.items():
            value = event.get(name)
            if value is not None:
                if not PLAIN[type(value)]:
                    raise TypeError(name)
                if value == value:
                    for node in tree.containing(value):
                        node.match(event, handlers)

    def add(self, entry: IndexEntry) -> None:
        """Add one more entry."""
        keys, complete, s = entry
        if not keys:
            insort(self.leaves, (s.order, s.matched if complete else s.checked), key=_order)
        elif self.tested is None:
            self._add_below(entry)
        elif len(self.tested) < MAX_UNINDEXED:
            self.tested += (entry,)
            insort(self.leaves, (s.order, s.checked), key=_order)
        else:
            former, self.tested = self.tested, None
            for known in former:
                self._remove_leaf((known[2].order, known[2].checked))
                self._add_below(known)
            self._add_below(entry)

    def _remove_leaf(self, leaf: Leaf) -> None:
        del self.leaves[self.leaves.index(leaf, bisect_left(self.leaves, leaf[0], key=_order))]

    def _add_below(self, entry: IndexEntry) -> None:
        keys, complete, s = entry
        (name, values), rest = keys[0], (keys[1:], complete, s)
        if isinstance(values, Interval):
            if name not in self.ranges:
                self.ranges[name] = IntervalForest({values: _node([rest])})
            elif (below := self.ranges[name].get(values)) is None:
                self.ranges[name].add(values, _node([rest]))
            else:
                below.add(rest)
            return
        table = self.equal.setdefault(name, {})
        for value in values:
            if value in table:
                table[value].add(rest)
            else:
                table[value] = _node([rest])

    def remove(self, entry: IndexEntry) -> None:
        """Remove an entry that was added. Nodes that become empty are removed, too."""
        keys, complete, s = entry
        if not keys:
            self._remove_leaf((s.order, s.matched if complete else s.checked))
            return
        if self.tested is not None:
            self.tested = tuple(known for known in self.tested if known[2] is not s)
            self._remove_leaf((s.order, s.checked))
            return
        (name, values), rest = keys[0], (keys[1:], complete, s)
        if isinstance(values, Interval):
            below = self.ranges[name].get(values)
            assert below is not None
            below.remove(rest)
            if below.empty:
                self.ranges[name].remove(values)
                if not len(self.ranges[name]):
                    del self.ranges[name]
            return
        table = self.equal[name]
        for value in values:
            table[value].remove(rest)
            if table[value].empty:
                del table[value]
        if not table:
            del self.equal[name]

    @property
    def empty(self) -> bool:
        """True if no event leads to a subscriber."""
        return not (self.leaves or self.equal or self.ranges)


def index_conditions(e: x.BoundExpr) -> tuple[IndexCondition, ...]:
    """Return the indexable conditions that together say what `e` says; none if `e` is not indexable."""
    match e:
        case x.ComparisonExpr(_, op, left, right) if op in _MIRRORED:
            return _comparisons(left, (op, right)) or _comparisons(right, (_MIRRORED[op], left))
        case x.RangeTest(_, operand, low, high, negated=False):
            above, below = ">=" if e.include_low else ">", "<=" if e.include_high else "<"
            conditions = _comparisons(operand, (above, low), (below, high))
            if conditions and conditions[0].values > conditions[1].values:  # bounds may come in either order
                return _comparisons(operand, (above, high), (below, low))
            return conditions
        case x.InList(_, operand, options, negated=False):
            conditions = _comparisons(operand, *(("=", option) for option in options))
            values = [condition.values[0] for condition in conditions]
            if values and all(isinstance(value, (str, int, float)) for value in values):
                return (IndexCondition(conditions[0].name, "=", tuple(dict.fromkeys(values))),)
    return ()


def _comparisons(operand: x.BoundExpr, *sides: tuple[str, x.BoundExpr]) -> tuple[IndexCondition, ...]:
    """Return the comparisons (operator, constant) of `operand`; none if it is no property of a scalar type, or if a
    constant is null, NaN or not of a plain type.
    """
    if not isinstance(operand, x.Prop) or operand.type.name not in _SCALARS:
        return ()
    values = [(op, side.value) for op, side in sides if isinstance(side, x.Const)]
    if len(values) < len(sides) or not all(_orders(value) for _, value in values):
        return ()
    return tuple(IndexCondition(operand.name, op, (value,)) for op, value in values)


def _orders(value: Any) -> bool:
    kind = value.__class__  # of a placeholder for a constant (`Placeholder`): that of the constant
    return value is not None and PLAIN[kind] and value == value


def leading_conditions(conjuncts: Iterable[x.BoundExpr]) -> tuple[IndexCondition, ...]:
    """Return the indexable conditions at the beginning of `conjuncts`; none of them fails for a value of its type."""
    return tuple(chain.from_iterable(takewhile(bool, map(index_conditions, conjuncts))))


MAX_UNINDEXED = 4  # up to this many statements, testing each one is cheaper than a lookup

IndexKey = tuple[str, tuple[Any, ...] | Interval]  # a property, and its values (one of them) or their interval
# during construction: remaining keys of a subscription, and whether they are its whole filter
IndexEntry = tuple[tuple[IndexKey, ...], bool, Subscription]
Leaf = tuple[StatementOrder, EventHandler]


def _entry(subscriber: Subscription) -> IndexEntry:
    conditions = [index_conditions(conjunct) for conjunct in x.conjuncts(subscriber.filter)]
    keys, all_indexed = _index_keys(chain.from_iterable(conditions))
    return keys, all_indexed and all(conditions), subscriber


def _index_keys(conditions: Iterable[IndexCondition]) -> tuple[tuple[IndexKey, ...], bool]:
    """Return a key for each equality, then one for the shortest list, then one for the interval of each property that
    has bounds, and whether these keys are all conditions.
    """
    equal: list[IndexKey] = []
    lists: list[IndexKey] = []
    intervals: dict[str, Interval] = {}
    for condition in conditions:
        if condition.op == "=":
            (equal if len(condition.values) == 1 else lists).append((condition.name, condition.values))
        else:
            interval = Interval.where(condition.op, condition.values[0])
            intervals[condition.name] = intervals.get(condition.name, Interval()) & interval
    shortest = min(lists, key=lambda key: len(key[1]), default=None)
    if shortest is None:
        return (*equal, *intervals.items()), True
    beside = islice(intervals.items(), 1)  # each further one would take a node for each value of the list
    return (*equal, shortest, *beside), len(lists) == 1 and len(intervals) <= 1


def _node(entries: list[IndexEntry]) -> FilterIndexNode:
    node = FilterIndexNode()
    if len(entries) <= MAX_UNINDEXED or sum(bool(keys) for keys, _, _ in entries) <= MAX_UNINDEXED:
        for entry in entries:
            node.add(entry)
        return node
    node.tested = None
    tables: dict[str, dict[Any, list[IndexEntry]]] = {}
    ranges: dict[str, dict[Interval, list[IndexEntry]]] = {}
    for keys, complete, s in entries:
        if not keys:
            node.add((keys, complete, s))
            continue
        (name, values), rest = keys[0], (keys[1:], complete, s)
        if isinstance(values, Interval):
            ranges.setdefault(name, {}).setdefault(values, []).append(rest)
        else:
            table = tables.setdefault(name, {})
            for value in values:
                table.setdefault(value, []).append(rest)
    node.equal = {name: {value: _node(below) for value, below in table.items()} for name, table in tables.items()}
    for name, by_interval in ranges.items():
        node.ranges[name] = IntervalForest({interval: _node(below) for interval, below in by_interval.items()})
    return node


class FilterIndex:
    """The subscriptions to the events of one type, which may come and go, and the index over them."""

    def __init__(self, subscriptions: Iterable[Subscription]) -> None:
        self._entries: dict[int, IndexEntry] = {}  # by identity of the subscription
        self._dropping: set[int] = set()  # identities of the subscriptions with `@Drop`
        self._root: FilterIndexNode | None = None
        self._flat = False  # True if the index is one hash table, the most common case
        for subscription in subscriptions:
            self.add(subscription)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, subscription: Subscription) -> bool:
        return id(subscription) in self._entries

    @property
    def root(self) -> FilterIndexNode:
        """The index, which is built when it is needed."""
        if self._root is None:
            root = _node([*self._entries.values()])
            self._flat = _is_flat(root, None)
            self._root = root
        return self._root

    def add(self, subscription: Subscription) -> None:
        """Add a subscription. If an exception, also a KeyboardInterrupt, cuts this short, the subscription is in the
        index or it is not, and the index is built anew.
        """
        entry = _entry(subscription)
        root, self._root = self._root, None
        if root is not None:
            root.add(entry)
            self._flat = self._flat and _is_flat(root, entry)
        if subscription.drops:
            self._dropping.add(id(subscription))
        self._entries[id(subscription)] = entry
        self._root = root

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription that was added, or not at all, as `add` does."""
        entry = self._entries[id(subscription)]
        root, self._root = self._root, None
        if root is not None:
            root.remove(entry)
            self._flat = self._flat and bool(root.equal)
        del self._entries[id(subscription)]
        self._dropping.discard(id(subscription))
        self._root = root

    def dispatcher(self, failed: Callable[[Exception], None], contexts: int = 0) -> Callable[[Any], object]:
        """Return a function that passes an event to each subscriber that must see it, in delivery order. It is valid
        until a subscription is added or removed.

        A failure of one statement is passed to `failed`; the others still see the event. If `contexts` contexts look at
        the type, handlers are called as `handler(event, slots)`, with one slot per context.
        """
        if not self._dropping and len(self._entries) > MAX_UNINDEXED:
            root = self.root
            if root.equal or root.ranges:
                flat = self._flat and not contexts
                return _table(self, root, failed) if flat else _tree(self, root, failed, contexts)
        ordered = sorted(self.subscriptions(), key=lambda s: s.order)
        if not ordered:
            return lambda event: None
        if self._dropping:
            return _dropping(ordered, failed, contexts)
        handlers = [s.checked for s in ordered]
        if not contexts:
            return _linear(handlers, failed)
        dispatch, alone = _with_slots(handlers, failed, contexts), ordered[-1].alone
        return dispatch if alone is None or len(handlers) > 2 or contexts > 1 else alone(dispatch)

    @property
    def drops(self) -> bool:
        """True if there is a subscription with `@Drop`."""
        return bool(self._dropping)

    def subscriptions(self) -> list[Subscription]:
        """Return all subscriptions."""
        return [subscription for _, _, subscription in self._entries.values()]


def build_dispatcher(
    subscribers: Sequence[Subscription], failed: Callable[[Exception], None], contexts: int = 0
) -> Callable[[Any], object]:
    """Return a `FilterIndex.dispatcher` of `subscribers`."""
    return FilterIndex(subscribers).dispatcher(failed, contexts)


def _linear(handlers: list[EventHandler], failed: Callable[[Exception], None]) -> EventHandler:
    if len(handlers) == 1:
        return handlers[0]  # its exceptions are caught by the caller of dispatch

    def dispatch(event: Any) -> None:
        for handler in handlers:
            try:
                handler(event)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                failed(failure)

    return dispatch


def _with_slots(handlers: list[EventHandler], failed: Callable[[Exception], None], contexts: int) -> EventHandler:
    if len(handlers) == 2 and contexts == 1:
        return _with_one_slot(handlers[0], handlers[1], failed)
    blank: ContextSlots = [None] * contexts

    def dispatch(event: Any) -> None:
        slots = blank.copy()
        for handler in handlers:
            try:
                handler(event, slots)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                failed(failure)

    return dispatch


def _with_one_slot(first: EventHandler, second: EventHandler, failed: Callable[[Exception], None]) -> EventHandler:
    """Dispatch to a context and its one statement, the most common case. A loop and a list would cost a tenth more."""

    def dispatch(event: Any) -> None:
        slots: ContextSlots = [None]
        try:
            first(event, slots)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            failed(failure)
        second(event, slots)  # its exceptions are caught by the caller of dispatch

    return dispatch


def _dropping(ordered: list[Subscription], failed: Callable[[Exception], None], contexts: int) -> EventHandler:
    """Dispatch with `@Drop`: handlers return whether they consumed the event. A statement that raises has consumed it,
    a context that raises has not.
    """
    takers = [(s.checked, s.drops, s.reads is not None) for s in ordered]
    blank: ContextSlots = [None] * contexts

    def dispatch(event: Any) -> None:
        arguments = (event, blank.copy()) if blank else (event,)
        for handler, drops, took_if_failed in takers:
            try:
                consumed = handler(*arguments)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                consumed = took_if_failed
                failed(failure)
            if consumed and drops:
                return

    return dispatch


def _is_flat(root: FilterIndexNode, entry: IndexEntry | None) -> bool:
    """Return whether an index is one hash table of handlers; of one that was flat, after `entry` was added."""
    if root.leaves or root.ranges or len(root.equal) != 1:
        return False
    (table,) = root.equal.values()
    nodes = table.values() if entry is None else [table[value] for value in entry[0][0][1]]
    return all(node.tested is not None or not (node.equal or node.ranges) for node in nodes)


def _table(index: FilterIndex, root: FilterIndexNode, failed: Callable[[Exception], None]) -> EventHandler:
    """Dispatch by one hash table. If a value cannot be looked up, each statement tests its filter, as in `_tree`."""
    ((name, table),) = root.equal.items()
    takers: dict[Any, EventHandler] = {}  # by value, once there was an event with it
    plain = PLAIN

    def dispatch(event: Any) -> None:
        try:
            value = event.get(name)
            if not plain[type(value)]:
                raise TypeError(name)
            taker = takers.get(value)
            if taker is None and value in table:
                taker = takers[value] = _linear([handler for _, handler in table[value].leaves], failed)
        except Exception:  # noqa: BLE001 - the statements report it
            subscriptions = sorted(index.subscriptions(), key=lambda s: s.order)
            taker = _linear([s.checked for s in subscriptions], failed)
        if taker is not None:
            taker(event)

    return dispatch


def _tree(
    index: FilterIndex, root: FilterIndexNode, failed: Callable[[Exception], None], contexts: int
) -> EventHandler:
    """Dispatch by the index. A value may not compare with the constants of the index, or may do so by code of the user
    that fails: then each statement tests its filter, so that the failure is its own.
    """
    blank: ContextSlots = [None] * contexts

    def dispatch(event: Any) -> None:
        arguments = (event, blank.copy()) if blank else (event,)
        handlers: list[Leaf] = []
        try:
            root.match(event, handlers)
        except Exception:  # noqa: BLE001 - the statements report it
            handlers = [(s.order, s.checked) for s in index.subscriptions()]
        if len(handlers) > 1:
            handlers.sort(key=_order)
        for _, handler in handlers:
            try:
                handler(*arguments)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                failed(failure)

    return dispatch


def _order(entry: Leaf) -> StatementOrder:
    return entry[0]
