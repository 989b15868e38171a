"""Hints that only a notebook can give: what a name that EPL does not know is to Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from cepbook.errors import CompileError, Diagnostic
from cepbook.magics.host import WORKBENCH
from cepbook.session.data.define import time_columns


def with_variables(error: CompileError, variables: Mapping[str, Any]) -> CompileError:
    """The error, with how the user's DataFrames become event types where it lacks one of such a name."""
    found = hinted(error.diagnostics, error.source, variables)
    return error if found == error.diagnostics else type(error)(found, error.source, error.origin, error.elsewhere)


def hinted(diagnostics: Iterable[Diagnostic], source: str, variables: Mapping[str, Any]) -> tuple[Diagnostic, ...]:
    """Diagnostics of the text `source`, likewise."""
    return tuple(
        replace(each, hint=_defining(source[each.span.start : each.span.end], variables))
        if each.code == "unknown-type" and each.hint is None
        else each
        for each in diagnostics
    )


def _defining(name: str, variables: Mapping[str, Any]) -> str | None:
    frame = variables.get(name)
    if not isinstance(frame, pd.DataFrame):
        return None
    times = time_columns(frame)
    time = f', time="{times[0]}"' if times else ""
    return f'`{name}` is a DataFrame: {WORKBENCH}.define("{name}", {name}{time}) makes an event type of it'
