"""Which statements depend on each other: the connected components of those that run.

Two statements are connected when one inserts into a stream that the other, or its context, reads; when they run in one
context; when one assigns a variable that the other, or its context, reads or declares; when both have to do with one
named window or table; and when one drops (``@Drop``)
or changes (``update istream``) events that the other could see. What connects them is read off their plans. Statements
of different components share nothing, so a replay may take a slice through one after the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.references import event_types_read, expressions_in, stores_read

_Context = p.CreateContextStatement | p.CreateContextTreeStatement
_Running = p.StreamStatement | p.CreateVariableStatement | p.CreateTableStatement  # a table keeps its context going


def connected_components(plans: Sequence[p.StatementPlan], catalog: Catalog) -> list[list[str]]:
    """The names of the statements among `plans` that run, by component; both in the order of `plans`."""
    contexts = {each.context.name: each for each in plans if isinstance(each, _Context)}
    running = [each for each in plans if isinstance(each, _Running) and _runs(each)]
    links = _Links()
    for each in running:
        links.join(each.name, ())
    for each in running:
        if each.context is not None:
            links.join(each.name, [("context", each.context)])
    _by_variables(running, contexts, links)
    _by_streams(running, contexts, catalog, links)
    if catalog.stores:
        for each in running:
            changed = (
                {i.target for i in each.inserts} & catalog.stores.keys()
                if isinstance(each, p.StreamStatement)
                else set()
            )
            links.join(each.name, [("store", name) for name in stores_read(each) | changed])
    found: dict[Hashable, list[str]] = {}
    for each in running:
        found.setdefault(links.root(each.name), []).append(each.name)
    return list(found.values())


def _runs(statement: _Running) -> bool:
    """Whether events or the clock do anything to a statement: to a table only as one of a context."""
    return statement.context is not None or not isinstance(statement, p.CreateTableStatement)


def _by_variables(running: Iterable[_Running], contexts: dict[str, _Context], links: _Links) -> None:
    assigned = {name for each in running if isinstance(each, p.StreamStatement) for name in each.assigned}
    if not assigned:
        return  # as mostly; else every expression is looked at
    for each in running:
        if isinstance(each, p.CreateVariableStatement):
            own = {each.variable.name}
        else:
            parts = (each, contexts.get(each.context or ""))
            own = {e.name for e in expressions_in(parts) if isinstance(e, x.VariableRead)}
            own |= each.assigned if isinstance(each, p.StreamStatement) else frozenset()
        links.join(each.name, [("variable", name) for name in own & assigned])


def _by_streams(running: Iterable[_Running], contexts: dict[str, _Context], catalog: Catalog, links: _Links) -> None:
    readers = [each for each in running if isinstance(each, p.StreamStatement)]
    reads = {each.name: set(event_types_read((each, contexts.get(each.context or "")))) for each in readers}
    inserts = {each.name: {insert.target for insert in each.inserts} for each in readers}
    shaping = {each.name for each in readers if each.drop or isinstance(each, p.UpdateStatement)}
    shared = set[str]().union(*inserts.values())
    for name in shaping:
        shared.update(t for t in catalog.event_types if any(catalog.is_a(t, read) for read in reads[name]))
    for target in shared:
        takers = [name for name, read in reads.items() if any(catalog.is_a(target, each) for each in read)]
        if takers:
            makers = [name for name, inserted in inserts.items() if target in inserted]
            for name in (*makers, *takers):
                links.join(name, [("stream", target)])


class _Links:
    """Sets of connected things, by a tree of parents."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}

    def root(self, thing: Hashable) -> Hashable:
        """What stands for all that `thing` is connected with."""
        parents = self._parents
        while (parent := parents.setdefault(thing, thing)) != thing:
            parents[thing] = parents.setdefault(parent, parent)
            thing = parent
        return thing

    def join(self, thing: Hashable, others: Iterable[Hashable]) -> None:
        """Connect `thing` with `others`."""
        root = self.root(thing)
        for other in others:
            self._parents[self.root(other)] = root
