"""The join operator: its streams and conditions, and how an event of one stream finds the events of the others.

The access paths planned here are printed by `%epl show steps` and written as code by `codegen.join`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from cepbook.engine.expressions.to_python import may_fail
from cepbook.engine.physical.access import AccessPath, plan_access, plan_store_access
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.plan.join_tree import JoinStage, JoinTree, equates_streams
from cepbook.lang.plan.references import streams_read


@dataclass(frozen=True, slots=True)
class JoinStep:
    """How a combination that lacks input `path.input` gets an event of it, from its event of input `origin`.

    With `optional` a combination that finds none goes on without one. `filters` are the parts of on-clauses whose last
    event this is; a combination for which they are false ends.
    """

    path: AccessPath
    origin: int
    optional: bool
    filters: tuple[BoundExpr, ...]

    @property
    def paths(self) -> list[AccessPath]:
        return [self.path]


@dataclass(frozen=True, slots=True)
class OptionalBranch:
    """Steps of which a combination takes all, or none if one of them leads nowhere.

    `filters` are tested behind them, as those of a step.
    """

    steps: tuple[JoinStep | OptionalBranch, ...]
    filters: tuple[BoundExpr, ...]

    @property
    def paths(self) -> list[AccessPath]:
        """The access paths of the steps, in their order."""
        return [path for step in self.steps for path in step.paths]


@dataclass(frozen=True)
class JoinOperator:
    """Turn deltas of `inputs` into deltas of combinations: one event of each input, null where an outer join has none.

    `conditions` are the parts of the where clause that are tested while combinations are made; an inner join has them,
    and a `FilterOperator` tests the rest. `active` marks the inputs whose events make rows; in a unidirectional join
    these are the marked ones.

    The inputs of `shared` are stores whose own relation is read. Their filters, by input number, are further
    conditions.
    """

    node: p.StreamJoin
    conditions: tuple[BoundExpr, ...]
    shared: Mapping[int, tuple[StoreType, tuple[BoundExpr, ...]]] = field(default_factory=dict)

    @property
    def active(self) -> tuple[bool, ...]:
        marked = [stream.unidirectional for stream in self.node.inputs]
        return tuple((mark or not any(marked)) and not table for mark, table in zip(marked, self.tables, strict=True))

    @property
    def tables(self) -> tuple[bool, ...]:
        """Marks the inputs that are tables. Their events make no rows, and their rows are read when one is made."""
        stores = [p.source_of(stream.stream).store for stream in self.node.inputs]
        return tuple(store is not None and store.kind == "table" for store in stores)

    @property
    def transient(self) -> tuple[bool, ...]:
        """Marks the inputs of contained events without a window, which meet events of one delta only."""
        streams = [(stream.stream, stream.unidirectional) for stream in self.node.inputs]
        return tuple(
            isinstance(s, p.SourceNode) and bool(s.contained) and s.store is None and not u for s, u in streams
        )

    @property
    def inner(self) -> bool:
        """True if every combination has an event of each input."""
        return all(stream.kind == "inner" for stream in self.node.inputs)

    @property
    def unidirectional(self) -> bool:
        return any(stream.unidirectional for stream in self.node.inputs)

    def way(self, conditions: Sequence[BoundExpr], target: int, known: Container[int]) -> AccessPath:
        """Plan how items of `target` are found under `conditions`, given items of the inputs `known`."""
        if target not in self.shared:
            safe = [e for e in conditions if not may_fail(e)]  # a key that fails would keep an item from its relation
            path = plan_access(safe, target, known)
            return replace(path, rest=tuple(e for e in conditions if e in path.rest or e not in safe))
        store, filters = self.shared[target]
        return plan_store_access(conditions, target, known, store, filters)

    @cached_property
    def tree(self) -> JoinTree:
        return JoinTree(self.node.inputs)

    @property
    def follows_tree(self) -> bool:
        """True if events meet along the on-clauses; else the where clause decides in which order they are found."""
        ties = [stream.on is not None and len(streams_read(stream.on)) == 2 for stream in self.node.inputs[1:]]
        return not self.inner or (len(ties) > 1 and all(ties))

    @property
    def follows_text(self) -> bool:
        """True if an on-clause of an outer join reads several streams before its own, which are combined first."""
        return not self.inner and any(len(streams_read(stream.on)) > 2 for stream in self.node.inputs if stream.on)

    @property
    def starts(self) -> list[int]:
        """The inputs whose events together find all combinations: the first that a combination may have an event of."""
        return [number for number in range(len(self.node.inputs)) if min(self.tree.required(number)) == number]

    def reached(self, number: int) -> list[AccessPath]:
        """Plan how an event of input `number` finds the events of the others, one access path after the other: along
        the tree of on-clauses, or first by indexes, then by scans.
        """
        if self.follows_text:
            return [path for step in self.steps_from(number) for path in step.paths]
        if self.follows_tree:
            return list(self._beyond(number, None))
        reading = [(e, streams_read(e)) for e in self.conditions]
        of_input = {n: [e for e, inputs in reading if n in inputs] for n in range(len(self.node.inputs))}
        tied = {n: {other for _, inputs in reading if n in inputs for other in inputs} for n in of_input}
        known, paths = {number}, list[AccessPath]()
        candidates = {n: self.way(of_input[n], n, known) for n in of_input if n != number}
        while candidates:
            indexed = [n for n, path in candidates.items() if path.keys] or [
                n for n, path in candidates.items() if not path.scans
            ]
            chosen = _nearest(indexed, number) if indexed else next(iter(candidates))
            paths.append(candidates.pop(chosen))
            known.add(chosen)
            candidates |= {n: self.way(of_input[n], n, known) for n in candidates if chosen in tied[n]}
        return paths

    def steps_from(self, number: int) -> list[JoinStep | OptionalBranch]:
        """Plan how an event of input `number` finds the events of the others, in the order of `JoinTree.order`."""
        stages = self.tree.order(number)
        assert stages is not None, "the binder refuses on-clauses without an order"
        return self._steps(stages, {number})

    def _steps(self, stages: Sequence[JoinStage], known: set[int]) -> list[JoinStep | OptionalBranch]:
        """Plan the steps of `stages`, whose inputs are added to `known`."""
        steps, open_ = list[JoinStep | OptionalBranch](), list[BoundExpr]()
        for stage in stages:
            if stage.dependents:
                first = replace(stage, optional=False, dependents=())
                branch = self._steps((first, *stage.dependents), known)
                filters = [e for e in open_ if streams_read(e) <= known]
                steps.append(OptionalBranch(tuple(branch), tuple(filters)))
            else:
                known.add(stage.stream)
                filters = [e for e in open_ if streams_read(e) <= known]
                ties = self._ties(max(stage.origin, stage.stream))
                path = self.way([e for e in ties if streams_read(e) <= known], stage.stream, known)
                steps.append(JoinStep(path, stage.origin, stage.optional, tuple(filters)))
                open_ += ties
            open_ = [e for e in open_ if not streams_read(e) <= known]
        return steps

    def _beyond(self, number: int, origin: int | None) -> Iterator[AccessPath]:
        for neighbour in self.tree.beyond(number, origin):
            yield self.step(number, neighbour)
            yield from self._beyond(neighbour, number)

    def step(self, number: int, neighbour: int) -> AccessPath:
        """Plan how an event of input `number` finds those of its neighbour in the tree."""
        later = max(number, neighbour)  # its on-clause ties the two
        if not self.inner:
            return self.way(self._ties(later), neighbour, {number})
        return self.way([e for e in self.conditions if self.tested_by(e, number, neighbour)], neighbour, {number})

    @staticmethod
    def tested_by(e: BoundExpr, number: int, neighbour: int) -> bool:
        """Return whether the step from input `number` to its neighbour tests a condition."""
        return streams_read(e) in ({neighbour}, {number, neighbour})

    @property
    def of_target(self) -> AccessPath:
        """The access path by which the event of an on-trigger, input 1, finds the rows of the store, input 0."""
        store = p.source_of(self.node.inputs[0].stream).store
        assert store is not None
        return plan_store_access(self.conditions, 0, (1,), store)

    def all_of(self, number: int) -> AccessPath:
        """Plan the scan of all items of an input."""
        return self.way([], number, ())

    def _ties(self, number: int) -> list[BoundExpr]:
        """Return the conditions that tie input `number` to an earlier input; an outer join pairs null with null."""
        node = self.node.inputs[number]
        conditions = x.conjuncts(node.on)
        if node.kind == "inner":
            return conditions
        return [_null_safe(e) if number in streams_read(e) else e for e in conditions]

    @property
    def may_fail(self) -> bool:
        """True if a condition that is tested while combinations are made may raise an exception."""
        ties = () if self.inner else tuple(stream.on for stream in self.node.inputs)
        return may_fail(*self.conditions, *ties, *(e for _, filters in self.shared.values() for e in filters))


def _nearest(among: Sequence[int], number: int) -> int:
    """Return the next loop: later streams before earlier ones, nearest first (recorded: three_way_chain_order)."""
    later = [n for n in among if n > number]
    return min(later) if later else max(among)


def _null_safe(e: x.BoundExpr) -> x.BoundExpr:
    """Rewrite ``on a.x = b.y`` of an outer join, which pairs null with null (recorded: null_keys_on_clause)."""
    if isinstance(e, x.ComparisonExpr) and equates_streams(e):
        return x.Is(e.type, e.left, e.right, False, span=e.span)
    return e
