"""Connected components of running statements: statements of different components share nothing.

Two statements are connected if

- one inserts into a stream that the other, or its context, reads;
- they run in one context;
- one assigns a variable that the other, or its context, reads or declares;
- both use one named window or table;
- one drops (`@Drop`) or changes (`update istream`) events that the other could see.

All of that is read off their plans. A replay may run a batch through one component after the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.references import event_types_read, expressions_in, stores_read

_Running = p.StreamStatement | p.CreateVariableStatement | p.CreateTableStatement  # a table keeps its context running


def connected_components(plans: Sequence[p.StatementPlan], catalog: Catalog) -> list[list[str]]:
    """Return the names of the running statements by component; both in the order of `plans`."""
    contexts = {statement.context.name: statement for statement in plans if isinstance(statement, p.ContextStatement)}
    running = [statement for statement in plans if isinstance(statement, _Running) and _runs(statement)]
    links = _Links()
    for statement in running:
        links.join(statement.name, ())
    for statement in running:
        if statement.context is not None:
            links.join(statement.name, [("context", statement.context)])
    _by_variables(running, contexts, links)
    _by_streams(running, contexts, catalog, links)
    if catalog.stores:
        for statement in running:
            changed = (
                {i.target for i in statement.inserts} & catalog.stores.keys()
                if isinstance(statement, p.StreamStatement)
                else set()
            )
            links.join(statement.name, [("store", name) for name in stores_read(statement) | changed])
    names_by_root: dict[Hashable, list[str]] = {}
    for statement in running:
        names_by_root.setdefault(links.root(statement.name), []).append(statement.name)
    return list(names_by_root.values())


def _runs(statement: _Running) -> bool:
    return statement.context is not None or not isinstance(statement, p.CreateTableStatement)


def _by_variables(running: Iterable[_Running], contexts: dict[str, p.ContextStatement], links: _Links) -> None:
    assigned = {name for reader in running for name in reader.assigned}
    if not assigned:
        return  # the usual case; otherwise all expressions are searched
    for reader in running:
        if reader.created_variable is not None:
            own = {reader.created_variable.name}
        else:
            plans = (reader, contexts.get(reader.context or ""))
            own = {e.name for e in expressions_in(plans, x.VariableRead)} | reader.assigned
        links.join(reader.name, [("variable", name) for name in own & assigned])


def _by_streams(
    running: Iterable[_Running], contexts: dict[str, p.ContextStatement], catalog: Catalog, links: _Links
) -> None:
    readers = [reader for reader in running if isinstance(reader, p.StreamStatement)]
    inserts = {reader.name: {insert.target for insert in reader.inserts} for reader in readers if reader.inserts}
    shaping = {reader.name for reader in readers if reader.drop or isinstance(reader, p.UpdateStatement)}
    if not (inserts or shaping):
        return  # otherwise the types that all of them read are looked for
    reads = {reader.name: set(event_types_read((reader, contexts.get(reader.context or "")))) for reader in readers}
    shared = set[str]().union(*inserts.values())
    for name in shaping:
        shared.update(t for t in catalog.event_types if any(catalog.is_a(t, read) for read in reads[name]))
    for target in shared:
        takers = [name for name, read in reads.items() if any(catalog.is_a(target, reader) for reader in read)]
        if takers:
            makers = [name for name, inserted in inserts.items() if target in inserted]
            for name in (*makers, *takers):
                links.join(name, [("stream", target)])


class _Links:
    """Disjoint sets of connected objects, as a forest of parents."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}

    def root(self, item: Hashable) -> Hashable:
        """Return the representative of everything connected with `item`."""
        parents = self._parents
        while (parent := parents.setdefault(item, item)) != item:
            parents[item] = parents.setdefault(parent, parent)
            item = parent
        return item

    def join(self, item: Hashable, others: Iterable[Hashable]) -> None:
        """Connect `item` with `others`."""
        root = self.root(item)
        for other in others:
            self._parents[self.root(other)] = root
