"""The order of statements at one stimulus where there are no priorities (`Config.prioritized` is off).

With priorities statements take an event, or the time, one after the other as they were deployed. Without them it is an
index of filters that finds them, and their order is that of the index (recorded: ``tests/corpus/corrections``): those
that read the event's own type before those of the types that it inherits from; of one type those whose filter has
conditions before those without, and of two that share a condition the one with more of them; a context that tells its
partitions apart by their events counts as a condition. Statements that one event may reach on several ways (patterns,
branches of ``or``), and those with ``order by``, wait until all others have taken it, and then the last deployed is the
first. So it is with timers that are due at one advance.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from cepbook.engine.subscriptions.filter_index import Subscription
from cepbook.engine.time.timers import DispatchOrder
from cepbook.lang.plan import expressions as x

# a condition: its rank among those of a filter, what it looks at and how, what it is compared with
_Condition = tuple[int, Hashable, Hashable]
_RANKS = {"=": 0, "<": 3, "<=": 3, ">": 3, ">=": 3, "!=": 4}
_IN_LIST, _RANGE, _NEGATED, _OTHER = 1, 2, 4, 5
_OF_CONTEXT: _Condition = (0, "the context's", None)


@dataclass(slots=True)
class _Node:
    """`takers` have no further conditions here. Of others the tables are by what they look at, and then by value."""

    takers: list[Subscription] = field(default_factory=list)
    tables: dict[Hashable, dict[Hashable, _Node]] = field(default_factory=dict)

    def add(self, taker: Subscription, conditions: Sequence[_Condition]) -> None:
        """Put in a taker: into the first table that one of its conditions goes with, or else one of its own."""
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


def unprioritized_order(takers: Sequence[Subscription], types: Sequence[str]) -> list[Subscription]:
    """`takers` of an event in their order, with places that say so. `types`: its own and those it inherits from.

    Who looks at the event before statements take it (a context) comes first.
    """
    trees = {name: _Node() for name in types}
    first: list[Subscription] = []
    late: list[Subscription] = []
    for taker in sorted(takers, key=_order):
        if taker.reads is None:
            first.append(taker)
        elif taker.late or _branches(taker.filter):
            late.append(taker)
        else:
            trees[taker.reads].add(taker, _conditions(taker))
    found = [*first, *(taker for tree in trees.values() for taker in tree), *reversed(late)]
    return [replace(taker, order=(0, place)) for place, taker in enumerate(found)]


def latest_first_key(order: DispatchOrder) -> DispatchOrder:
    """A key that sorts the owners of timers: the last deployed first."""
    return tuple(-part for part in order)


def _order(taker: Subscription) -> DispatchOrder:
    return taker.order


def _conditions(taker: Subscription) -> list[_Condition]:
    own = [_condition(part) for part in x.conjuncts(taker.filter)]
    return sorted([_OF_CONTEXT, *own] if taker.within else own, key=itemgetter(0))


def _condition(e: x.BoundExpr) -> _Condition:
    match e:
        case x.ComparisonExpr(_, op, left, right) if not _reads_event(right):
            return _RANKS[op], (op, left), right
        case x.InList(_, operand, options, negated) if not any(map(_reads_event, options)):
            return (_NEGATED if negated else _IN_LIST), ("in", operand, negated), options
        case x.RangeTest(_, operand, low, high) if not (_reads_event(low) or _reads_event(high)):
            what = ("range", operand, e.include_low, e.include_high, e.negated)
            return (_NEGATED if e.negated else _RANGE), what, (low, high)
    return _OTHER, e, None


def _branches(condition: x.BoundExpr | None) -> bool:
    """Whether a filter has branches that are looked up one by one."""
    ors = [e for e in x.conjuncts(condition) if isinstance(e, x.Logic) and e.op == "or"]
    found = [[_condition(part) for part in e.operands] for e in ors]
    return any(all(rank < _OTHER for rank, *_ in each) and len(set(each)) > 1 for each in found)


def _reads_event(e: x.BoundExpr) -> bool:
    return any(isinstance(part, x.Prop | x.EventOf) for part in x.walk(e))


def _threshold(entry: tuple[Any, _Node]) -> float:
    """Thresholds that are numbers come in ascending order; of all else the first comes first."""
    value = entry[0]
    if isinstance(value, x.Const) and isinstance(value.value, int | float):
        return value.value
    return 0.0
