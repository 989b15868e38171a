"""The step of a join: which streams, under which conditions, and how an event of one finds those of the others.

The ways that are planned here are those that are shown, and those that are written as code.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cepbook.engine.expressions.to_python import may_fail
from cepbook.engine.physical.access import AccessPath, inputs_read, plan_access, plan_store_access
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.expressions import BoundExpr


@dataclass(frozen=True, slots=True)
class JoinOperator:
    """Changes of `inputs` become changes of combinations: one event of each, with null where an outer join has none.

    `conditions` are those of the where-clause that are tested while combinations are made, in a join of inner kinds
    alone; `FilterOperator` has the others. `active`: the inputs whose events make rows, all but in unidirectional
    joins.

    The inputs of `shared` are stores whose own relations are looked into. Their filters, under the inputs' numbers, are
    conditions then.
    """

    node: p.StreamJoin
    conditions: tuple[BoundExpr, ...]
    shared: Mapping[int, tuple[StoreType, tuple[BoundExpr, ...]]] = field(default_factory=dict)

    @property
    def active(self) -> tuple[bool, ...]:
        marked = [each.unidirectional for each in self.node.inputs]
        return tuple((mark or not any(marked)) and not table for mark, table in zip(marked, self.tables, strict=True))

    @property
    def tables(self) -> tuple[bool, ...]:
        """Which inputs are tables: they make no rows, and are read as they are when one is made."""
        stores = [p.source_of(each.stream).store for each in self.node.inputs]
        return tuple(store is not None and store.kind == "table" for store in stores)

    @property
    def inner(self) -> bool:
        """Whether every combination has an event of each input."""
        return all(each.kind == "inner" for each in self.node.inputs)

    @property
    def unidirectional(self) -> bool:
        return any(each.unidirectional for each in self.node.inputs)

    def way(self, conditions: Sequence[BoundExpr], target: int, known: Container[int]) -> AccessPath:
        """How items of `target` are found under `conditions` when items of the inputs `known` are at hand."""
        if target not in self.shared:
            sure = [e for e in conditions if not may_fail(e)]  # a key that fails would keep an item from its relation
            found = plan_access(sure, target, known)
            return replace(found, rest=tuple(e for e in conditions if e in found.rest or e not in sure))
        store, filters = self.shared[target]
        return plan_store_access(conditions, target, known, store, filters)

    def reached(self, number: int) -> list[AccessPath]:
        """How an event of input `number` finds those of the others, one way after the other.

        In a join of inner kinds what is found by an index comes before what is looked through; of an outer join the
        streams are reached as they are written: `before` it, then `beyond`.
        """
        count = len(self.node.inputs)
        if not self.inner:
            return [*self._before(number), *(self.beyond(n) for n in range(number + 1, count))]
        known, left, found = {number}, [n for n in range(count) if n != number], list[AccessPath]()
        while left:
            ways = {n: self.way(self.conditions, n, known) for n in left}
            by_index = [n for n in left if ways[n].keys] or [n for n in left if not ways[n].scans]
            chosen = _nearest(by_index, number) if by_index else left[0]
            found.append(ways[chosen])
            known.add(chosen)
            left.remove(chosen)
        return found

    def _before(self, number: int) -> list[AccessPath]:
        if number == 0:
            return []
        first = self.before(number)
        begin = first.input
        return [first, *self._before(begin), *(self.beyond(n) for n in range(begin + 1, number))]

    def before(self, number: int) -> AccessPath:
        """In an outer join: how items of `number` find those of the input before it that the on-clause names first.

        With no condition it is input 0, and all combinations up to this one.
        """
        conditions = self.tied(number)
        partner = next((n for e in conditions for n in sorted(inputs_read(e)) if n < number), 0)
        return self.way([e for e in conditions if inputs_read(e) == {partner, number}], partner, {number})

    def reaches_back(self, number: int) -> bool:
        """Whether the on-clause of an input names one before it."""
        return any(n < number for e in self.tied(number) for n in inputs_read(e))

    def beyond(self, number: int) -> AccessPath:
        """In an outer join: how combinations of the inputs before it find items of `number`."""
        return self.way(self.tied(number), number, range(number))

    @property
    def of_target(self) -> AccessPath:
        """Of an on-trigger: how an event, which is input 1, finds the rows of the store, input 0."""
        store = p.source_of(self.node.inputs[0].stream).store
        assert store is not None
        return plan_store_access(self.conditions, 0, (1,), store)

    def all_of(self, number: int) -> AccessPath:
        """All items of an input."""
        return self.way([], number, ())

    def tied(self, number: int) -> list[BoundExpr]:
        """The equalities that tie input `number` to those before it; an outer join pairs null with null."""
        node = self.node.inputs[number]
        parts = x.conjuncts(node.on)
        return parts if node.kind == "inner" else [_null_safe(e) for e in parts]


def _nearest(among: Sequence[int], number: int) -> int:
    """The loop that comes next: later streams before earlier ones, nearest first (recorded: three_way_chain_order)."""
    behind = [n for n in among if n > number]
    return min(behind) if behind else max(among)


def _null_safe(e: x.BoundExpr) -> x.BoundExpr:
    """``on a.x = b.y`` of an outer join pairs null with null (recorded: null_keys_on_clause)."""
    if isinstance(e, x.ComparisonExpr) and e.op == "=":
        return x.Is(e.type, e.left, e.right, False, span=e.span)
    return e
