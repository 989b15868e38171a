"""Code of queries over one store: the rows that an index finds for its conditions, of which the rest is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cepbook.engine.relations.access import of_store
from cepbook.engine.relations.shared import Want
from cepbook.engine.rows.expr import ScopeIn
from cepbook.engine.rows.reading import Looks, loop_head
from cepbook.engine.rows.source import Source
from cepbook.engine.rows.steps import Steps
from cepbook.lang import expr as x

# what is known where rows are made only, and not before any is looked for
_LATER = (x.SubqueryRef, x.Prev, x.Prior, x.ContextProp, x.TableRead, x.AggregateRef)


@dataclass(frozen=True, slots=True)
class Picking:
    """``picked(T)`` in `namespace` gives the items in a state of the store's owner, by the index `want`."""

    namespace: dict[str, Any]
    wants: dict[str, tuple[int, Want]]

    @property
    def want(self) -> Want:
        """What it looks into."""
        ((_, want),) = self.wants.values()
        return want

    @property
    def picked(self) -> Callable[[Any], list[Any]]:
        """The function."""
        found: Callable[[Any], list[Any]] = self.namespace["picked"]
        return found


def compile_picking(steps: Steps, scope_in: ScopeIn) -> Picking | None:
    """How rows of the one store that is read are picked; None where no index on columns would help."""
    store = steps.source.store
    if store is None or steps.inputs or steps.source.contained:
        return None
    conditions = [*x.conjuncts(steps.where), *x.conjuncts(steps.source.filter)]
    known = [e for e in conditions if not any(isinstance(part, _LATER) for part in x.walk(e))]
    path = of_store(known, 0, (), store)
    if path.scans:
        return None
    source = Source()
    scope, looks = scope_in(source).at(now="clock.now"), Looks(source)
    look = looks.look(path)
    if looks.wants[look][1].function:
        return None
    with source.block("def picked(T):"):
        source.line("found = []")
        source.line(f"x = {look}(T)")
        with source.block(loop_head(path, "x", "i", scope, by_age=True)):
            source.line("found.append(i)")
        source.line("return found")
    return Picking(source.load(), looks.wants)
