"""Reference tables: rows given next to the text become named windows, which all statements can read.

A table is ``{"columns": ["code", …], "rows": [["a"], …]}`` or a list of rows as dicts. The values decide the types of
the columns. Later, the rows may change like those of every named window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cepbook.errors import UsageError
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import common_type
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

TableRows = tuple[tuple[object, ...], ...]
_FORM = 'a DataFrame, a list of dicts, or {"columns": ["code"], "rows": [["a"]]}'


def read_tables(tables: object) -> dict[str, tuple[tuple[str, ...], TableRows]]:
    """Return columns and rows of each table. Raises UsageError for other data."""
    if tables is None:
        return {}
    if not isinstance(tables, Mapping):
        raise UsageError(f"`tables` has a table for each name, found {tables!r}")
    return {str(name): _table(str(name), table) for name, table in tables.items()}


def _table(name: str, table: Any) -> tuple[tuple[str, ...], TableRows]:
    if isinstance(table, Mapping) and _is_list(table.get("columns")) and _is_list(table.get("rows")):
        columns, rows = tuple(table["columns"]), table["rows"]
    elif isinstance(table, Sequence) and table and all(isinstance(row, Mapping) for row in table):
        columns = tuple(dict.fromkeys(key for row in table for key in row))
        rows = [[row.get(column) for column in columns] for row in table]
    else:
        raise UsageError(f"table `{name}` is not understood\n  hint: {_FORM}")
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise UsageError(f"table `{name}` has no columns with names\n  hint: {_FORM}")
    if len(set(columns)) < len(columns):
        raise UsageError(f"table `{name}` has a column twice: {', '.join(columns)}")
    for row in rows:
        if not _is_list(row) or len(row) != len(columns):
            raise UsageError(f"table `{name}` has {len(columns)} columns ({', '.join(columns)}), found the row {row!r}")
    return columns, tuple(tuple(row) for row in rows)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def create_window_for(name: str, columns: Sequence[str], rows: TableRows, taken: bool) -> ast.CreateWindow:
    """Return the statement that creates the named window of a table; it is called like the table, unless `taken`."""
    of = [_type([row[place] for row in rows]) for place in range(len(columns))]
    declared = tuple(ast.ColumnDef(column, type_.name) for column, type_ in zip(columns, of, strict=True))
    annotations = () if taken else (ast.Annotation("name", name),)
    return ast.CreateWindow(name, (ast.Window("keepall", ()),), declared, annotations=annotations)


def widen_rows(rows: TableRows, types: Sequence[Type]) -> TableRows:
    """Return the rows with integers as floats in floating-point columns."""
    floating = [type_ in (t.DOUBLE, t.FLOAT) for type_ in types]
    return tuple(
        tuple(
            float(value) if real and isinstance(value, int) and not isinstance(value, bool) else value
            for value, real in zip(row, floating, strict=True)
        )
        for row in rows
    )


_TYPES = {bool: t.BOOLEAN, int: t.LONG, float: t.DOUBLE, str: t.STRING, type(None): t.NULL}


def _type(values: Sequence[object]) -> Type:
    no_long = any(type(value) is int and not -(2**63) <= value < 2**63 for value in values)
    joined_type = None if no_long else common_type([_TYPES.get(type(value), t.OBJECT) for value in values])
    return t.OBJECT if joined_type is None or joined_type == t.NULL else joined_type
