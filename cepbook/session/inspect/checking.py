"""What is wrong with EPL that is not run: nothing is compiled, deployed or kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cepbook.engine.compiler import bind_text
from cepbook.engine.deployments import dependants, without
from cepbook.engine.runtime import Runtime
from cepbook.errors import CompileError, Diagnostic, UsageError, not_too_deep
from cepbook.lang.catalog import Catalog
from cepbook.lang.dialects import declared
from cepbook.lang.text import EPL
from cepbook.session.running.modules import Owned, target_of
from cepbook.session.values.parameters import with_settings

_UNKNOWN_TYPE = "unknown-type"


def problems(
    runtime: Runtime,
    owned: Mapping[str, Owned],
    epl: str,
    cell: str | None,
    dialect: str,
    settings: Mapping[str, Any],
    alone: bool,
) -> tuple[Diagnostic, ...]:
    """`Workbench.problems`, in text order. A problem of the text as a whole has no place (`NOWHERE`)."""
    try:
        with not_too_deep():
            if dialect != EPL or settings:
                epl = with_settings(epl, dialect, settings, runtime.config.second)
            if alone:
                bind_text(epl, Catalog(functions=dict(runtime.catalog.functions)), runtime.config, ())
            else:
                _bind_in_place(runtime, owned, epl, cell)
    except CompileError as error:
        # types may be made from the files that a module will run over: without them only the syntax tells
        known = not alone or all(each.code != _UNKNOWN_TYPE for each in error.diagnostics)
        return error.diagnostics if known else ()
    except UsageError as error:
        message, _, hint = str(error).partition("\n  hint: ")
        return (Diagnostic("usage", message, hint=hint or None),)
    return ()


def _bind_in_place(runtime: Runtime, owned: Mapping[str, Owned], epl: str, cell: str | None) -> None:
    """Bind against the catalogue as it would be without what the cell deployed before, and all that depends on it."""
    target = target_of(declared(epl), epl, cell, owned)
    gone = [] if target is None else [runtime.deployments[target]]
    gone += dependants(runtime.deployments, gone)
    ids = {deployment.id for deployment in gone}
    kept = {name for name, each in runtime.statements.items() if each.deployment_id not in ids}
    bind_text(epl, without(runtime.catalog, gone), runtime.config, kept)
