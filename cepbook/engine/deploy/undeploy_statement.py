"""Taking one statement out of a deployment whose others run on."""

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
    """The statement `name` with what it alone creates, and the rest; None when the rest cannot do without it.

    `catalog` and `names` (of statements) are what there is without the deployment.
    """
    source, at = str(deployment.source), 0
    kept: list[StatementPlan] = []
    for each in deployment.plan.statements:
        at = source.find(each.epl, at)
        if at < 0:
            return None
        end = at + len(each.epl)
        if each.name == name:  # blanks in its place: what the others say of their places stays true
            source = source[:at] + re.sub(r"\S", " ", each.epl) + source[end:]
        else:
            kept.append(each)
        at = end
    if not kept or not source.strip(" \t\r\n;"):
        return None
    if isinstance(deployment.source, SourceText):
        source = SourceText(source, deployment.source.dialect, deployment.source.settings)
    try:
        found = bind_text(source, catalog, config, names)
    except CompileError:
        return None
    whole = deployment.plan
    if [replace(new, name=old.name) for new, old in zip(found.statements, kept, strict=False)] != kept:
        return None  # without it they mean something else: `insert into W` makes a stream where W was a named window
    gone = tuple(each for each in whole.provides if each not in found.provides)
    part = replace(
        deployment,
        statements=tuple(s for s in deployment.statements if s.name == name),
        plan=replace(whole, provides=gone),
    )
    rest = replace(
        deployment,
        statements=tuple(s for s in deployment.statements if s.name != name),
        plan=replace(whole, statements=tuple(kept), source=source, provides=found.provides),
    )
    return part, rest
