"""Variables as Python sees them: a table of all, and values of any kind turned into those of EPL."""

from __future__ import annotations

from typing import Any

import pandas as pd

from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.lang.types import BOOLEAN, OBJECT, STRING
from cepbook.session.io.event_validation import TypeMismatch, value_converter
from cepbook.session.io.result_frames import rows_frame


def variables_frame(runtime: Runtime) -> pd.DataFrame:
    """All variables, in order of declaration: name, type, value, and whether it is a constant."""
    found = runtime.catalog.variables
    rows = []
    for v in found.values():
        value = runtime.get_variable(v.name) if v.context is None else None
        rows.append({"name": v.name, "type": str(v.type), "value": value, "constant": v.constant})
    return rows_frame(rows, {"name": STRING, "type": STRING, "value": OBJECT, "constant": BOOLEAN})


def set_variable(runtime: Runtime, name: str, value: object) -> None:
    """Assign a variable; numpy and pandas values are welcome, missing ones are null.

    Errors: UsageError for an unknown name, a constant, and a value that is not of the variable's type.
    """
    variable = runtime.catalog.variables.get(name)
    fitting: Any = value
    if variable is not None:
        try:
            fitting = value_converter(variable.type, runtime.catalog.event_types, runtime.config.second)(value)
        except TypeMismatch as mismatch:
            raise UsageError(f"variable `{name}` {mismatch}") from None
    runtime.set_variable(name, fitting)
