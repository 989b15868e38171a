"""Deployments of cells: which deployment a run replaces, and dropping by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cepbook.engine.deploy.deployments import dependants, statement_names_text
from cepbook.engine.deploy.naming import known_names_hint
from cepbook.engine.runtime import Deployment, Runtime
from cepbook.errors import BindError, Diagnostic, UsageError, hint_line
from cepbook.lang.plan.definitions import defined_name
from cepbook.lang.syntax.source_text import EPL, dialect_of


def declared_names(deployment: Deployment) -> frozenset[str]:
    """Return the names of the statements, event types, contexts and variables of a deployment."""
    statements = (statement.name for statement in deployment.statements)
    return frozenset((*statements, *deployment.event_types, *deployment.contexts, *deployment.variables))


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


def remaining_cells(cells: Mapping[str, CellRun], runtime: Runtime, gone: frozenset[str]) -> dict[str, CellRun]:
    """Return the deployments of cells that still exist, without the statements in `gone`."""
    present = {key: what for key, what in cells.items() if key in runtime.deployments}
    return {
        key: replace(what, names=what.names - gone, text=" ".join(runtime.deployments[key].source.split()))
        for key, what in present.items()
    }


def replaced_deployment(names: frozenset[str], text: str, cell: str | None, cells: Mapping[str, CellRun]) -> str | None:
    """Return the id of the deployment that a run replaces; None if the run is new.

    A run with a cell key replaces the deployment of that cell. Any other run replaces the deployment that declares one
    of the same names, or, for a module without names, the one with the same text. A cell takes over the deployment of
    another cell only if it declares all names of that deployment. Raises UsageError if names would have to be taken
    from other cells.
    """
    text = " ".join(text.split())
    own = [key for key, what in cells.items() if cell is not None and what.cell == cell]
    rivals = [key for key, what in cells.items() if key not in own and what.names & names]
    if own and not rivals:
        return own[0]
    if not own and not rivals:
        same = [k for k, w in cells.items() if cell is None and w.cell is None and not w.names and w.text == text]
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


def unused_deployment_id(cell: str | None, taken: Collection[str]) -> str | None:
    """Return the id for a deployment of a cell: the cell's own, with a number if that is in use."""
    if cell is None or cell not in taken:
        return cell
    n = 2
    while f"{cell}-{n}" in taken:
        n += 1
    return f"{cell}-{n}"
