"""Deployments of cells: which deployment a run replaces, and dropping by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from cepbook.engine.deploy.deployments import dependants, fresh_id, statement_names_text
from cepbook.engine.deploy.naming import known_names_hint
from cepbook.engine.runtime import Deployment, Runtime
from cepbook.errors import BindError, Diagnostic, UsageError, hint_line
from cepbook.lang.plan.definitions import defined_name
from cepbook.lang.syntax.source_text import EPL, dialect_of


def declared_names(deployment: Deployment) -> frozenset[str]:
    """Return the names of the statements of a deployment, and of all that it defines: event types, contexts, variables,
    stores, indexes, expressions.
    """
    statements = (statement.name for statement in deployment.statements)
    definitions = filter(None, map(defined_name, deployment.plan.statements))
    return frozenset((*statements, *definitions, *deployment.event_types, *deployment.contexts, *deployment.variables))


def find_deployment(runtime: Runtime, name: str) -> Deployment:
    """Return the deployment that is called `name` or declares it. Raises UsageError with the nearest known name."""
    runtime.turn.check()
    deployments = runtime.deployments
    statement = runtime.statements.get(name)
    if statement is not None:
        return deployments[statement.deployment_id]
    for deployment in deployments.values():
        if name == deployment.id or name in declared_names(deployment):
            return deployment
    if name in runtime.catalog.event_types:
        raise UsageError(f"the event type `{name}` was defined from Python; only reset() takes it away")
    known = list(
        dict.fromkeys((*runtime.statements, *(n for d in deployments.values() for n in sorted(declared_names(d)))))
    )
    raise UsageError(f"nothing named `{name}` is deployed{hint_line(name, known) or known_names_hint('name', known)}")


@dataclass(frozen=True, slots=True)
class CellRun:
    """The deployment of one run: the cell (None if it had none), the names that it declares, its text."""

    cell: str | None
    names: frozenset[str]
    text: str


def drop_by_name(runtime: Runtime, deployment: Deployment, name: str, cascade: bool) -> None:
    """Drop what `deployment` declares by this name: the statement alone if the rest can do without it.

    Raises UsageError if more would go, unless `cascade`; the message lists it.
    """
    own = next((s for s in deployment.plan.statements if name in (s.name, defined_name(s))), None)
    others = sorted(declared_names(deployment) - {name} - ({own.name, defined_name(own)} if own is not None else set()))
    if own is not None and others and runtime.undeploy_statement(deployment.id, own.name):
        return
    whole = dialect_of(deployment.source) != EPL  # the parts of a query of another dialect are nothing without it
    if others and not cascade and name != deployment.id and not whole:
        users = dependants(runtime.deployments, [deployment])
        more = f"; {statement_names_text(users)} would have to go, too" if users else ""
        raise UsageError(
            f"`{name}` was deployed with {backticked(others)}, and goes with them{more}\n"
            f"  hint: drop all of it with `%epl drop --cascade {name}` (`cascade=True`)"
        )
    runtime.undeploy(deployment.id, cascade=cascade)


class CellRuns(MutableMapping[str, CellRun]):
    """The deployments of cells by id, the latest last. They are found by their cell, names or text without a scan."""

    def __init__(self, runs: Mapping[str, CellRun] = MappingProxyType({})) -> None:
        self._runs: dict[str, CellRun] = {}
        self._ids: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)  # by what identifies a run
        self.update(runs)

    def __getitem__(self, id_: str) -> CellRun:
        return self._runs[id_]

    def __setitem__(self, id_: str, run: CellRun) -> None:
        self.pop(id_, None)
        self._runs[id_] = run
        for key in _identities(run):
            self._ids[key][id_] = None

    def __delitem__(self, id_: str) -> None:
        for key in _identities(self._runs.pop(id_)):
            self._ids[key].pop(id_, None)
            if not self._ids[key]:
                del self._ids[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def identified(self, kind: str, *keys: str) -> list[str]:
        """Return the ids of the runs whose ``cell``, a ``name`` of theirs or whose ``text`` is one of `keys`."""
        return list(dict.fromkeys(id_ for key in keys for id_ in self._ids.get((kind, key), ())))


def _identities(run: CellRun) -> Iterator[tuple[str, str]]:
    if run.cell is not None:
        yield "cell", run.cell
    elif not run.names:
        yield "text", run.text
    yield from (("name", name) for name in run.names)


def remaining_cells(cells: Mapping[str, CellRun], runtime: Runtime, gone: frozenset[str]) -> CellRuns:
    """Return the deployments of cells that still exist, without the statements in `gone`."""
    present = {key: what for key, what in cells.items() if key in runtime.deployments}
    return CellRuns(
        {
            key: replace(what, names=what.names - gone, text=" ".join(runtime.deployments[key].source.split()))
            for key, what in present.items()
        }
    )


def replaced_deployment(names: frozenset[str], text: str, cell: str | None, cells: CellRuns) -> str | None:
    """Return the id of the deployment that a run replaces; None if the run is new.

    A run with a cell key replaces the deployment of that cell. Any other run replaces the deployment that declares one
    of the same names, or, for a module without names, the one with the same text. A cell takes over the deployment of
    another cell only if it declares all names of that deployment. Raises UsageError if names would have to be taken
    from other cells.
    """
    text = " ".join(text.split())
    own = [] if cell is None else cells.identified("cell", cell)
    rivals = [key for key in cells.identified("name", *sorted(names)) if key not in own]
    if own and not rivals:
        return own[0]
    if not own and not rivals:
        same = [] if cell is not None else cells.identified("text", text)
        return same[0] if same and not names else None
    if not own and len(rivals) == 1 and (cell is None or cells[rivals[0]].names <= names):
        return rivals[0]
    raise UsageError(_conflict(names, [cells[key] for key in rivals]))


def _conflict(names: frozenset[str], rivals: Iterable[CellRun]) -> str:
    texts = []
    for rival in rivals:
        shared = ", ".join(f"`{name}`" for name in sorted(rival.names & names))
        texts.append(f"{shared} (with {', '.join(f'`{n}`' for n in sorted(rival.names - names)) or 'nothing else'})")
    return (
        f"these names were deployed by other cells: {'; '.join(texts)}\n"
        "  hint: drop them first, or run those cells again without them"
    )


def explain_replacement(error: BindError, target: str, gone: frozenset[str]) -> BindError:
    """Return the error, extended by the reason if the module uses a name that it would replace."""
    used = sorted(name for name in gone if any(f"`{name}`" in diagnostic.message for diagnostic in error.diagnostics))
    if not used or error.elsewhere:
        return error
    why = f"running this replaces the deployment `{target}`, which also declares {backticked(used)}"
    span = error.diagnostics[0].span
    hint = "give the statement another name, or run the whole module again"
    return BindError((*error.diagnostics, Diagnostic("replaced", why, span, hint)), error.source, error.origin)


def backticked(names: Sequence[str]) -> str:
    """Return the names in backticks, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


def unused_deployment_id(cell: str | None, taken: Mapping[str, Deployment]) -> str:
    """Return the id for a deployment of a cell: the cell's own, with a number if that is in use."""
    if cell is None:
        return fresh_id(taken)
    number, id_ = 1, cell
    while id_ in taken:
        number += 1
        id_ = f"{cell}-{number}"
    return id_
