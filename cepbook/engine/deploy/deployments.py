"""Deployments: the content of a module in a runtime, and the dependencies between deployments."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from cepbook.engine.config import Config
from cepbook.engine.deploy.compiler import bind_text
from cepbook.engine.statements.statement import RunningStatement
from cepbook.errors import BindError, CompileError, Diagnostic
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.definitions import remove_definitions
from cepbook.lang.plan.nodes import ModulePlan, StatementPlan
from cepbook.lang.syntax.source_text import SourceText


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployed module: its running statements, and its plan, which names everything that it provides."""

    id: str
    statements: tuple[RunningStatement, ...]
    plan: ModulePlan

    @property
    def source(self) -> str:
        """The EPL text."""
        return self.plan.source

    @property
    def event_types(self) -> tuple[str, ...]:
        """The names of the event types that it creates, including named windows and tables."""
        return self._provided("event type")

    @property
    def contexts(self) -> tuple[str, ...]:
        """The names of the contexts that it creates."""
        return self._provided("context")

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables that it creates."""
        return self._provided("variable")

    def _provided(self, kind: str) -> tuple[str, ...]:
        return tuple(name for provided_kind, name in self.plan.provides if provided_kind == kind)

    def continues(self, former: Deployment) -> bool:
        """Return True if this is `former`, or the rest of it."""
        return self is former or (self.statements != () and set(self.statements) <= set(former.statements))


def fresh_id(deployments: Mapping[str, Deployment]) -> str:
    """Return an id that no deployment has."""
    number = len(deployments) + 1
    while f"deployment_{number}" in deployments:
        number += 1
    return f"deployment_{number}"


def deployments_using(deployments: Mapping[str, Deployment], provided: Collection[tuple[str, str]]) -> list[Deployment]:
    """Return the deployments that require one of the names in `provided`: (kind, name)."""
    names = set(provided)
    return [d for d in deployments.values() if not names.isdisjoint(d.plan.requires)]


def dependants(deployments: Mapping[str, Deployment], of: Sequence[Deployment]) -> list[Deployment]:
    """Return the deployments that depend on those in `of`, directly or not, in deployment order."""
    ids = {d.id for d in of}
    grew = True
    while grew:
        provided = [p for id_ in ids for p in deployments[id_].plan.provides]
        more = {d.id for d in deployments_using(deployments, provided)} - ids
        ids |= more
        grew = bool(more)
    own_ids = {d.id for d in of}
    return [d for d in deployments.values() if d.id in ids - own_ids]


def statement_names_text(deployments: Sequence[Deployment]) -> str:
    """Return the names of the statements of some deployments, for messages."""
    names = [f"`{s.name}`" for d in deployments for s in d.statements] or [f"`{d.id}`" for d in deployments]
    return ", ".join(names)


@contextmanager
def explain_redeploy_error(deployment: Deployment, depends: bool) -> Iterator[None]:
    """Within the block, name the statements of a deployment in an error if it only `depends` on the change."""
    try:
        yield
    except BindError as error:
        if not depends:
            raise
        names = [s.name for s in deployment.statements] or [deployment.id]
        fact = f"this is of {statement_names_text([deployment])}, which must be redeployed because it uses what changes"
        diagnostic = Diagnostic("dependant", fact, error.diagnostics[0].span, "keep what it needs, or drop it first")
        raise BindError((*error.diagnostics, diagnostic), error.source, ", ".join(names), elsewhere=True) from None


def catalog_without(catalog: Catalog, deployments: Sequence[Deployment]) -> Catalog:
    """Return the catalog without the definitions of `deployments`."""
    remaining = catalog.copy()
    for deployment in deployments:
        remove_definitions(deployment.plan, remaining)
    return remaining


def split_off_statement(
    deployment: Deployment, name: str, catalog: Catalog, config: Config, names: Collection[str]
) -> tuple[Deployment, Deployment] | None:
    """Return the statement `name` with everything that it alone provides, and the rest; None if the rest depends on it.

    `catalog` and `names` (of statements) exclude the deployment.
    """
    source, at = str(deployment.source), 0
    remaining: list[StatementPlan] = []
    for statement in deployment.plan.statements:
        at = source.find(statement.epl, at)
        if at < 0:
            return None
        end = at + len(statement.epl)
        if statement.name == name:  # blanks keep the positions of the other statements valid
            source = source[:at] + re.sub(r"\S", " ", statement.epl) + source[end:]
        else:
            remaining.append(statement)
        at = end
    if not remaining or not source.strip(" \t\r\n;"):
        return None
    if isinstance(deployment.source, SourceText):
        source = SourceText(source, deployment.source.dialect, deployment.source.settings)
    try:
        bound = bind_text(source, catalog, config, names)
    except CompileError:
        return None
    plan = deployment.plan
    if [replace(new, name=old.name) for new, old in zip(bound.statements, remaining, strict=False)] != remaining:
        return None  # without it they mean something else: `insert into W` makes a stream where W was a named window
    removed_names = tuple(statement for statement in plan.provides if statement not in bound.provides)
    removed = replace(
        deployment,
        statements=tuple(s for s in deployment.statements if s.name == name),
        plan=replace(plan, provides=removed_names),
    )
    rest = replace(
        deployment,
        statements=tuple(s for s in deployment.statements if s.name != name),
        plan=replace(plan, statements=tuple(remaining), source=source, provides=bound.provides),
    )
    return removed, rest
