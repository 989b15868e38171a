"""Dispatch order without priorities (`Config.prioritized` is off).

With priorities, statements process an event or an advance of time in deployment order. Without them the filter index
decides (recorded: `tests/corpus/corrections`):

1. Readers of the event's own type come before readers of its supertypes.
2. For one type, statements whose filters have conditions come before those without; of two that share a condition, the
   one with more conditions comes first. A context that partitions by event values counts as a condition.
3. Statements that one event may reach in several ways (patterns, branches of `or`) and statements with `order by` come
   last, and among them the last deployed is first.

The same holds for timers that are due at one advance.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter
from typing import Any

from cepbook.engine.subscriptions.filter_index import Subscription
from cepbook.engine.time.timers import DispatchOrder
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.references import streams_read

# a condition: its rank within a filter, the operand with the operator, the value
_Condition = tuple[int, Hashable, Hashable]
_RANKS = {"=": 0, "<": 3, "<=": 3, ">": 3, ">=": 3, "!=": 4}
_IN_LIST, _RANGE, _NEGATED, _OTHER = 1, 2, 4, 5
_OF_CONTEXT: _Condition = (0, "the context's", None)


@dataclass(slots=True)
class _Node:
    """A node of the tree of conditions: `takers` have no further ones; `tables` are keyed by operand, then by value."""

    takers: list[Subscription] = field(default_factory=list)
    tables: dict[Hashable, dict[Hashable, _Node]] = field(default_factory=dict)

    def add(self, taker: Subscription, conditions: Sequence[_Condition]) -> None:
        """Insert a subscription under the first table that one of its conditions fits, else under a new table."""
        if not conditions:
            self.takers.append(taker)
            return
        at = {what: n for n, (_, what, _) in reversed(list(enumerate(conditions)))}
        number = next((at[what] for what in self.tables if what in at), 0)
        _, what, value = conditions[number]
        below = self.tables.setdefault(what, {}).setdefault(value, _Node())
        below.add(taker, [*conditions[:number], *conditions[number + 1 :]])

    def __iter__(self) -> Iterator[Subscription]:
        for table in self.tables.values():
            for _, node in sorted(table.items(), key=_threshold):
                yield from node
        yield from self.takers


def unprioritized_order(subscriptions: Sequence[Subscription], types: Sequence[str]) -> list[Subscription]:
    """Return `subscriptions` of an event in dispatch order, with orders that say so. `types`: its own type, then its
    supertypes.

    Contexts, which look at the event before statements process it, come first.
    """
    trees = {name: _Node() for name in types}
    first: list[Subscription] = []
    late: list[Subscription] = []
    for subscription in sorted(subscriptions, key=attrgetter("order")):
        if subscription.reads is None:
            first.append(subscription)
        elif subscription.late or _branches(subscription.filter):
            late.append(subscription)
        else:
            trees[subscription.reads].add(subscription, _conditions(subscription))
    ordered = [*first, *(subscription for tree in trees.values() for subscription in tree), *reversed(late)]
    return [replace(subscription, order=(0, place)) for place, subscription in enumerate(ordered)]


def latest_first_key(order: DispatchOrder) -> DispatchOrder:
    """Sort key for owners of timers: the last deployed comes first."""
    return tuple(-number for number in order)


def _conditions(taker: Subscription) -> list[_Condition]:
    own = [_condition(conjunct) for conjunct in x.conjuncts(taker.filter)]
    return sorted([_OF_CONTEXT, *own] if taker.within else own, key=itemgetter(0))


def _condition(e: x.BoundExpr) -> _Condition:
    match e:
        case x.ComparisonExpr(_, op, left, right) if not streams_read(right):
            return _RANKS[op], (op, left), right
        case x.InList(_, operand, options, negated) if not streams_read(*options):
            return (_NEGATED if negated else _IN_LIST), ("in", operand, negated), options
        case x.RangeTest(_, operand, low, high) if not streams_read(low, high):
            what = ("range", operand, e.include_low, e.include_high, e.negated)
            return (_NEGATED if e.negated else _RANGE), what, (low, high)
    return _OTHER, e, None


def _branches(condition: x.BoundExpr | None) -> bool:
    ors = [e for e in x.conjuncts(condition) if isinstance(e, x.Logic) and e.op == "or"]
    branches = [[_condition(operand) for operand in e.operands] for e in ors]
    return any(all(rank < _OTHER for rank, *_ in conditions) and len(set(conditions)) > 1 for conditions in branches)


def _threshold(entry: tuple[Any, _Node]) -> float:
    value = entry[0]
    if isinstance(value, x.Const) and isinstance(value.value, int | float):
        return value.value
    return 0.0
