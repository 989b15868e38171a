"""The filter index: find the statements that must see an event without testing each of them.

Equality, `in` and range conditions between a property and constants become lookups, nested as a tree (Esper reference,
"filter indexes"): a hash table per property for equality, sorted thresholds for ranges. The statement tests the rest of
its filter itself. The cost per event does not grow with the number of statements that differ only in values.

::

    symbol = 'A' and price > 5   ┐         symbol ─ 'A' ─ price > 5 ─ statement 1
    symbol = 'B'                 ├──►             └ 'B' ─ statement 2
    qty >= 100                   ┘         qty >= 100 ─ statement 3
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

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
    """An indexable conjunct: property, operator (``=`` for ``in`` too) and the constants."""

    name: str
    op: str
    values: tuple[Any, ...]


@dataclass(slots=True)
class FilterIndexNode:
    """A node of the index: `leaves` match unconditionally here, `equal` and `ranges` lead to further nodes."""

    leaves: list[tuple[StatementOrder, EventHandler]] = field(default_factory=list)
    equal: dict[str, dict[Any, FilterIndexNode]] = field(default_factory=dict)
    ranges: dict[tuple[str, str], tuple[list[Any], list[FilterIndexNode]]] = field(default_factory=dict)

    def match(self, event: Any, handlers: list[tuple[StatementOrder, EventHandler]]) -> None:
        """Append the handlers of `event` below this node to `handlers`."""
        handlers += self.leaves
        for name, table in self.equal.items():
            value = event.get(name)
            if value is not None:
                node = table.get(value)
                if node is not None:
                    node.match(event, handlers)
        for (name, op), (thresholds, nodes) in self.ranges.items():
            value = event.get(name)
            if value is not None and value == value:
                for node in nodes[_RANGES[op](thresholds, value)]:
                    node.match(event, handlers)


_RANGES: dict[str, Callable[[list[Any], Any], slice]] = {
    ">": lambda thresholds, v: slice(0, bisect_left(thresholds, v)),
    ">=": lambda thresholds, v: slice(0, bisect_right(thresholds, v)),
    "<": lambda thresholds, v: slice(bisect_right(thresholds, v), None),
    "<=": lambda thresholds, v: slice(bisect_left(thresholds, v), None),
}


def index_condition(e: x.BoundExpr) -> IndexCondition | None:
    """Return `e` as an indexable condition, or None."""
    if isinstance(e, x.ComparisonExpr) and e.op in _MIRRORED:
        left, right, op = e.left, e.right, e.op
        if isinstance(left, x.Const):
            left, right, op = right, left, _MIRRORED[op]
        indexable = isinstance(right, x.Const) and right.value is not None and right.value == right.value
        if indexable and isinstance(left, x.Prop) and left.type.name in _SCALARS:
            return IndexCondition(left.name, op, (right.value,))  # type: ignore[attr-defined]
    if isinstance(e, x.InList) and not e.negated and isinstance(e.operand, x.Prop):
        scalar = e.operand.type.name in _SCALARS
        if scalar and all(isinstance(o, x.Const) and isinstance(o.value, (str, int, float)) for o in e.options):
            return IndexCondition(e.operand.name, "=", tuple(dict.fromkeys(o.value for o in e.options)))  # type: ignore[attr-defined]
    return None


def leading_conditions(conjuncts: Iterable[x.BoundExpr]) -> tuple[IndexCondition, ...]:
    """Return the indexable conditions at the beginning of `conjuncts`; none of them can fail with an error."""
    return tuple(
        found_condition
        for found_condition in takewhile(lambda c: c is not None, map(index_condition, conjuncts))
        if found_condition
    )


MAX_UNINDEXED = 4  # up to this many statements, testing each one is cheaper than a lookup

# during construction: remaining conditions of a subscription, and whether they are its whole filter
IndexEntry = tuple[tuple[IndexCondition, ...], bool, Subscription]


def build_filter_index(subscribers: Sequence[Subscription]) -> FilterIndexNode:
    """Return the index over `subscribers`."""
    entries: list[IndexEntry] = []
    for subscriber in subscribers:
        conditions = [index_condition(conjunct) for conjunct in x.conjuncts(subscriber.filter)]
        indexed = tuple(sorted((c for c in conditions if c is not None), key=lambda c: c.op != "="))
        entries.append((indexed, len(indexed) == len(conditions), subscriber))
    return _node(entries)


def _node(entries: list[IndexEntry]) -> FilterIndexNode:
    node = FilterIndexNode()
    if len(entries) <= MAX_UNINDEXED:
        for conditions, complete, s in entries:
            node.leaves.append((s.order, s.matched if complete and not conditions else s.checked))
        return node
    tables: dict[str, dict[Any, list[IndexEntry]]] = {}
    ranges: dict[tuple[str, str], dict[Any, list[IndexEntry]]] = {}
    for conditions, complete, s in entries:
        if not conditions:
            node.leaves.append((s.order, s.matched if complete else s.checked))
            continue
        first, rest = conditions[0], (conditions[1:], complete, s)
        by_value = (
            tables.setdefault(first.name, {}) if first.op == "=" else ranges.setdefault((first.name, first.op), {})
        )
        for value in first.values:
            by_value.setdefault(value, []).append(rest)
    node.equal = {name: {value: _node(below) for value, below in table.items()} for name, table in tables.items()}
    for key, by_threshold in ranges.items():
        thresholds = sorted(by_threshold)
        node.ranges[key] = (thresholds, [_node(by_threshold[t]) for t in thresholds])
    return node


def build_dispatcher(
    subscribers: Sequence[Subscription],
    failed: Callable[[Exception], None],
    contexts: int = 0,
    index: FilterIndexNode | None = None,
) -> Callable[[Any], object]:
    """Return a function that passes an event to each subscriber that must see it, in delivery order.

    A failure of one statement is passed to `failed`; the others still see the event. If `contexts` contexts look at the
    type, handlers are called as `handler(event, slots)`, with one slot per context. `index` is that of the subscribers,
    if it exists already.
    """
    ordered = sorted(subscribers, key=lambda s: s.order)
    if not ordered:
        return lambda event: None
    if any(s.drops for s in ordered):
        return _dropping(ordered, failed, contexts)
    if len(ordered) <= MAX_UNINDEXED:
        handlers = [s.checked for s in ordered]
        if not contexts:
            return _linear(handlers, failed)
        dispatch, alone = _with_slots(handlers, failed, contexts), ordered[-1].alone
        return dispatch if alone is None or len(handlers) > 2 or contexts > 1 else alone(dispatch)
    root = index or build_filter_index(ordered)
    single = None if contexts else _single_table(root)
    return _tree(root, failed, contexts) if single is None else _table(*single, failed)


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
    """Dispatch with `@Drop`: handlers return whether they consumed the event; one that raises has consumed it."""
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


def _single_table(root: FilterIndexNode) -> tuple[str, dict[Any, list[EventHandler]]] | None:
    """Return the index as one hash table of handler lists if it is nothing else, the most common case; else None."""
    if root.leaves or root.ranges or len(root.equal) != 1:
        return None
    ((name, table),) = root.equal.items()
    if any(node.equal or node.ranges for node in table.values()):
        return None
    return name, {value: [h for _, h in sorted(node.leaves, key=_order)] for value, node in table.items()}


def _table(name: str, table: dict[Any, list[EventHandler]], failed: Callable[[Exception], None]) -> EventHandler:
    takers = {value: _linear(handlers, failed) for value, handlers in table.items()}

    def dispatch(event: Any) -> None:
        value = event.get(name)
        if value in takers:
            takers[value](event)

    return dispatch


def _tree(root: FilterIndexNode, failed: Callable[[Exception], None], contexts: int) -> EventHandler:
    blank: ContextSlots = [None] * contexts

    def dispatch(event: Any) -> None:
        arguments = (event, blank.copy()) if blank else (event,)
        handlers: list[tuple[StatementOrder, EventHandler]] = []
        root.match(event, handlers)
        if len(handlers) > 1:
            handlers.sort(key=_order)
        for _, handler in handlers:
            try:
                handler(*arguments)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                failed(failure)

    return dispatch


def _order(entry: tuple[StatementOrder, EventHandler]) -> StatementOrder:
    return entry[0]
