"""Values from Python for the engine: reference tables, rows of named windows, variables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

import pandas as pd

from cepbook.argument_checks import describe_value, short_repr
from cepbook.engine.deploy.fire_and_forget import replace_rows
from cepbook.engine.expressions.plain_values import plain_value
from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.session.io.event_validation import TypeMismatch, is_missing, value_converter

RowsLike = pd.DataFrame | Sequence[Mapping[str, Any]] | Sequence[Sequence[Any]]


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with tables as plain data: DataFrames become columns and rows."""
    tables = settings.get("tables")
    if not isinstance(tables, Mapping):
        return dict(settings)
    return {**settings, "tables": {name: plain_rows(table) for name, table in tables.items()}}


def parse_value_text(text: str) -> Any:
    """Parse a JSON value; text that is no JSON is a string."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def plain_rows(table: Any) -> Any:
    """Return a table as plain data: the columns and rows of a DataFrame, otherwise the rows."""
    if isinstance(table, pd.DataFrame):
        rows = [list(map(_value, row)) for row in table.itertuples(index=False, name=None)]
        return {"columns": list(map(str, table.columns)), "rows": rows}
    if isinstance(table, Sequence) and not isinstance(table, str):
        return [
            {name: _value(value) for name, value in row.items()} if isinstance(row, Mapping) else row for row in table
        ]
    return table


def _value(value: Any) -> Any:
    value = plain_value(value)
    if is_missing(value):
        return None
    return value.item() if hasattr(value, "item") else value


def replace_window_rows(runtime: Runtime, name: str, rows: RowsLike) -> None:
    """Replace the rows of the named window `name`. Missing columns are null.

    Raises UsageError for an unknown name, unknown columns, and values of other types.
    """
    store = runtime.stores.get(name)
    plain_table = plain_rows(rows)
    if store is None:
        replace_rows(runtime, name, [])  # raises, listing the known names
        return
    if isinstance(plain_table, Mapping) and plain_table.keys() == {"columns", "rows"}:
        plain_table = [dict(zip(plain_table["columns"], row, strict=True)) for row in plain_table["rows"]]
    if not isinstance(plain_table, Iterable) or isinstance(plain_table, str | bytes | Mapping):
        raise UsageError(f"the rows of `{name}` are dicts or tuples, or a DataFrame, not {describe_value(rows)}")
    types = runtime.catalog.event_types
    timed = types[name].timed
    converters = {
        column: value_converter(of, types, runtime.config.second, runtime.config.time_zone, timed=column in timed)
        for column, of in types[name].properties.items()
    }
    plain: list[list[Any]] = []
    for row in plain_table:
        if not isinstance(row, Mapping):
            is_row_like = isinstance(row, Sized) and isinstance(row, Iterable) and len(row) == len(store.columns)
            row = dict(zip(store.columns, row, strict=False)) if is_row_like else {"": row}
        unknown = next((column for column in row if column not in converters), None)
        if unknown is not None:
            columns = ", ".join(store.columns)
            raise UsageError(f"`{name}` has the columns {columns}, found the row {short_repr(row)}")
        try:
            plain.append([converters[column](row.get(column)) for column in store.columns])
        except TypeMismatch as mismatch:
            raise UsageError(f"a row of `{name}`, {short_repr(row)}: a value {mismatch}") from None
    replace_rows(runtime, name, plain)


def fitting_value(runtime: Runtime, name: str, value: object) -> Any:
    """Return a value for the variable `name`. Values of numpy and pandas are converted, missing ones become null.

    Raises UsageError for a value that is not of the variable's type.
    """
    variable = runtime.catalog.variables.get(name)
    if variable is None:
        return value
    config = runtime.config
    try:
        return value_converter(variable.type, runtime.catalog.event_types, config.second, config.time_zone)(value)
    except TypeMismatch as mismatch:
        raise UsageError(f"variable `{name}` {mismatch}") from None
