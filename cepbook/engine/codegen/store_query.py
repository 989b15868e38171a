"""Code of queries over one store: an index finds rows, and the remaining conditions are tested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cepbook.engine.codegen.relation_loops import LookupCodegen, write_loop_head
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import ScopeFactory
from cepbook.engine.physical.access import plan_store_access
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.relations.store_indexes import IndexRequest
from cepbook.lang.plan import expressions as x

# expressions that can be evaluated only once a row is found
_NOT_IN_KEYS = (x.SubqueryRef, x.Prev, x.Prior, x.ContextProp, x.TableRead, x.AggregateRef)


@dataclass(frozen=True, slots=True)
class StoreQuery:
    """``picked(T)`` in `namespace` returns the items of a state of the store's owner, by an index."""

    namespace: dict[str, Any]
    wants: dict[str, tuple[int, IndexRequest]]

    @property
    def want(self) -> IndexRequest:
        """The requested index."""
        ((_, want),) = self.wants.values()
        return want

    @property
    def picked(self) -> Callable[[Any], list[Any]]:
        picked: Callable[[Any], list[Any]] = self.namespace["picked"]
        return picked


def compile_store_query(steps: PhysicalPlan, scope_in: ScopeFactory) -> StoreQuery | None:
    """Return the query that finds rows of the only store; None if no index on columns helps."""
    store = steps.source.store
    if store is None or steps.inputs or steps.source.contained:
        return None
    conditions = [*x.conjuncts(steps.where), *x.conjuncts(steps.source.filter)]
    known = [e for e in conditions if not any(isinstance(node, _NOT_IN_KEYS) for node in x.walk(e))]
    path = plan_store_access(known, 0, (), store)
    if path.scans:
        return None
    source = SourceWriter()
    scope, lookups = scope_in(source).at(now="clock.now"), LookupCodegen(source)
    look = lookups.look(path)
    if lookups.requests[look][1].function:
        return None
    with source.block("def picked(T):"):
        source.line("found = []")
        source.line(f"x = {look}(T)")
        with source.block(write_loop_head(path, "x", "i", scope, by_age=True)):
            source.line("found.append(i)")
        source.line("return found")
    return StoreQuery(source.load(), lookups.requests)
