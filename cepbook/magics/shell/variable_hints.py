"""Hints that only a notebook can give: what a name that EPL does not know is to Python."""

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
    """The error, with how the user's DataFrames become event types where it lacks one of such a name."""
    found = hinted_diagnostics(error.diagnostics, error.source, host)
    return error if found == error.diagnostics else type(error)(found, error.source, error.origin, error.elsewhere)


def hinted_diagnostics(diagnostics: Iterable[Diagnostic], source: str, host: NotebookHost) -> tuple[Diagnostic, ...]:
    """Diagnostics of the text `source`, likewise."""
    variables = host.shell.user_ns
    return tuple(_hinted(each, source[each.span.start : each.span.end], host, variables) for each in diagnostics)


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
