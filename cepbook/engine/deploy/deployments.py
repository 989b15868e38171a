"""Deployments: what a module put into a runtime, and which of them need each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cepbook.engine.statements.statement import RunningStatement
from cepbook.errors import BindError, Diagnostic
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.definitions import remove_definitions
from cepbook.lang.plan.nodes import ModulePlan


@dataclass(frozen=True, slots=True)
class Deployment:
    """What one module put into the runtime: the statements that run, and its plan, which says what it provides."""

    id: str
    statements: tuple[RunningStatement, ...]
    plan: ModulePlan

    @property
    def source(self) -> str:
        """Its EPL."""
        return self.plan.source

    @property
    def event_types(self) -> tuple[str, ...]:
        """The names of those that it creates, those of named windows and tables among them."""
        return self._provided("event type")

    @property
    def contexts(self) -> tuple[str, ...]:
        """The names of those that it creates."""
        return self._provided("context")

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of those that it creates."""
        return self._provided("variable")

    def _provided(self, kind: str) -> tuple[str, ...]:
        return tuple(name for each, name in self.plan.provides if each == kind)

    def continues(self, former: Deployment) -> bool:
        """Whether this is `former`, or what is left of it."""
        return self is former or (self.statements != () and set(self.statements) <= set(former.statements))


def fresh_id(deployments: Mapping[str, Deployment]) -> str:
    """An id that no deployment has."""
    number = len(deployments) + 1
    while f"deployment_{number}" in deployments:
        number += 1
    return f"deployment_{number}"


def deployments_using(deployments: Mapping[str, Deployment], provided: Collection[tuple[str, str]]) -> list[Deployment]:
    """The deployments that need one of the names in `provided`: (kind, name)."""
    wanted = set(provided)
    return [d for d in deployments.values() if wanted & set(d.plan.requires)]


def dependants(deployments: Mapping[str, Deployment], of: Sequence[Deployment]) -> list[Deployment]:
    """Deployments that need what those in `of` create, directly or not, in deployment order."""
    found = {d.id for d in of}
    grew = True
    while grew:
        provided = [p for id_ in found for p in deployments[id_].plan.provides]
        more = {d.id for d in deployments_using(deployments, provided)} - found
        found |= more
        grew = bool(more)
    given = {d.id for d in of}
    return [d for d in deployments.values() if d.id in found - given]


def statement_names_text(deployments: Sequence[Deployment]) -> str:
    """The names of their statements, for messages."""
    names = [f"`{s.name}`" for d in deployments for s in d.statements] or [f"`{d.id}`" for d in deployments]
    return ", ".join(names)


@contextmanager
def explain_redeploy_error(deployment: Deployment, depends: bool) -> Iterator[None]:
    """Around compiling a deployment anew: if it `depends` on what is replaced, an error says whose text it is in."""
    try:
        yield
    except BindError as error:
        if not depends:
            raise
        names = [s.name for s in deployment.statements] or [deployment.id]
        fact = f"this is of {statement_names_text([deployment])}, which would be deployed anew because of what it uses"
        said = Diagnostic("dependant", fact, error.diagnostics[0].span, "keep what it needs, or drop it first")
        raise BindError((*error.diagnostics, said), error.source, ", ".join(names), elsewhere=True) from None


def catalog_without(catalog: Catalog, deployments: Sequence[Deployment]) -> Catalog:
    """The catalogue without what `deployments` put into it."""
    found = catalog.copy()
    for deployment in deployments:
        remove_definitions(deployment.plan, found)
    return found
