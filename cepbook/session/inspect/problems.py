"""Problems of EPL that is not run. Nothing is compiled, deployed or kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cepbook.dialects.registry import declared_names
from cepbook.engine.deploy.compiler import bind_text
from cepbook.engine.deploy.deployments import catalog_without, dependants
from cepbook.engine.runtime import Runtime
from cepbook.errors import CompileError, Diagnostic, UsageError, rejecting_deep_nesting
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.syntax.source_text import EPL
from cepbook.session.core.cell_deployments import CellRuns, replaced_deployment
from cepbook.session.io.parameter_values import with_dialect_settings

_UNKNOWN_TYPE = "unknown-type"


def find_problems(
    runtime: Runtime,
    owned: CellRuns,
    epl: str,
    cell: str | None,
    dialect: str,
    settings: Mapping[str, Any],
    alone: bool,
) -> tuple[Diagnostic, ...]:
    """Return the diagnostics for `Workbench.problems` in text order; `NO_SPAN` stands for the whole text."""
    try:
        with rejecting_deep_nesting():
            if dialect != EPL or settings:
                epl = with_dialect_settings(epl, dialect, settings, runtime.config)
            if alone:
                bind_text(epl, Catalog(functions=dict(runtime.catalog.functions)), runtime.config, ())
            else:
                _bind_in_place(runtime, owned, epl, cell)
    except CompileError as error:
        # types may come from the files that the module will run over; without them only the syntax can be checked
        known = not alone or all(diagnostic.code != _UNKNOWN_TYPE for diagnostic in error.diagnostics)
        return error.diagnostics if known else ()
    except UsageError as error:
        message, _, hint = str(error).partition("\n  hint: ")
        return (Diagnostic("usage", message, hint=hint or None),)
    return ()


def _bind_in_place(runtime: Runtime, owned: CellRuns, epl: str, cell: str | None) -> None:
    target = replaced_deployment(declared_names(epl, runtime.catalog), epl, cell, owned)
    gone = [] if target is None else [runtime.deployments[target]]
    gone += dependants(runtime.deployments, gone)
    ids = {deployment.id for deployment in gone}
    remaining = {name for name, statement in runtime.statements.items() if statement.deployment_id not in ids}
    bind_text(epl, catalog_without(runtime.catalog, gone), runtime.config, remaining)
