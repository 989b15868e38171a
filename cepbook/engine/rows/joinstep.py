"""The step of a join: which streams, under which conditions, and how an event of one finds those of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cepbook.engine.relations.access import Access, access, inputs_of
from cepbook.lang import expr as x
from cepbook.lang import plan as p
from cepbook.lang.expr import Expr


@dataclass(frozen=True, slots=True)
class Join:
    """Changes of `inputs` become changes of combinations: one event of each, with null where an outer join has none.

    `conditions` are those of the where-clause that are tested while combinations are made, in a join of inner kinds
    alone; `Where` has the others. `active`: the inputs whose events make rows, all but in unidirectional joins.
    """

    node: p.Join
    conditions: tuple[Expr, ...]

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

    def reached(self, number: int) -> list[Access]:
        """How an event of input `number` finds those of the others, outermost loop first.

        In a join of inner kinds what is found by an index comes before what is looked through; of an outer join the
        streams are reached as they are written.
        """
        known, left, found = {number}, [n for n in range(len(self.node.inputs)) if n != number], list[Access]()
        while left:
            if self.inner:
                ways = {n: access(self.conditions, n, known) for n in left}
                by_index = [n for n in left if ways[n].keys] or [n for n in left if not ways[n].scans]
                chosen = _nearest(by_index, number) if by_index else left[0]
                found.append(ways[chosen])
            else:
                ties = [e for n in range(len(self.node.inputs)) for e in self.tied(n)]
                chosen = next((n for n in left for e in ties if n in inputs_of(e) and inputs_of(e) & known), left[0])
                own = [e for e in ties if chosen in inputs_of(e) and inputs_of(e) <= {chosen, *known}]
                found.append(access(own, chosen, known))
            known.add(chosen)
            left.remove(chosen)
        return found

    def tied(self, number: int) -> list[Expr]:
        """The equalities that tie input `number` to those before it; an outer join pairs null with null."""
        node = self.node.inputs[number]
        parts = x.conjuncts(node.on)
        return parts if node.kind == "inner" else [_null_safe(e) for e in parts]


def _nearest(among: Sequence[int], number: int) -> int:
    """The loop that comes next: later streams before earlier ones, nearest first (recorded: three_way_chain_order)."""
    behind = [n for n in among if n > number]
    return min(behind) if behind else max(among)


def _null_safe(e: x.Expr) -> x.Expr:
    """``on a.x = b.y`` of an outer join pairs null with null (recorded: null_keys_on_clause)."""
    if isinstance(e, x.Compare) and e.op == "=":
        return x.Is(e.type, e.left, e.right, False, span=e.span)
    return e
