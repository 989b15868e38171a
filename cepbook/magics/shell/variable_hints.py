"""Hints from the user's namespace: how a DataFrame with the name of an unknown event type becomes one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from cepbook.errors import CompileError, Diagnostic, nearest_name
from cepbook.magics.shell.host import NotebookHost
from cepbook.magics.shell.options import WORKBENCH
from cepbook.session.io.schema_inference import datetime_columns


def with_variables(error: CompileError, host: NotebookHost) -> CompileError:
    """Add the hints to a compile error."""
    diagnostics = hinted_diagnostics(error.diagnostics, error.source, host)
    if diagnostics == error.diagnostics:
        return error
    return type(error)(diagnostics, error.source, error.origin, error.elsewhere)


def hinted_diagnostics(diagnostics: Iterable[Diagnostic], source: str, host: NotebookHost) -> tuple[Diagnostic, ...]:
    """Add the hints to the diagnostics of the text `source`."""
    variables = host.shell.user_ns
    return tuple(_hinted(d, source[d.span.start : d.span.end], host, variables) for d in diagnostics)


def _hinted(found: Diagnostic, name: str, host: NotebookHost, variables: Mapping[str, Any]) -> Diagnostic:
    if found.code != "unknown-type":
        return found
    hint = _defining(name, variables)
    if hint is None or nearest_name(name, host.workbench.runtime.catalog.event_types) is not None:
        return found
    return replace(found, hint=hint)


def _defining(name: str, variables: Mapping[str, Any]) -> str | None:
    frame = variables.get(name)
    if not isinstance(frame, pd.DataFrame):
        return None
    times = datetime_columns(frame)
    time = f', time="{times[0]}"' if times else ""
    return f'`{name}` is a DataFrame: {WORKBENCH}.define("{name}", {name}{time}) makes an event type of it'
