"""Undeploy one statement of a deployment whose other statements keep running."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from cepbook.engine.config import Config
from cepbook.engine.deploy.compiler import bind_text
from cepbook.engine.deploy.deployments import Deployment
from cepbook.errors import CompileError
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.nodes import StatementPlan
from cepbook.lang.syntax.source_text import SourceText


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
