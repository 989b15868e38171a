"""Reference tables of running queries: rows given beside the text are named windows, which all statements can read.

A table is ``{"columns": ["code", …], "rows": [["a"], …]}``, or a list of rows as dicts. What columns hold decides their
types. Later its rows may change as those of every named window do.
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


def read_tables(given: object) -> dict[str, tuple[tuple[str, ...], TableRows]]:
    """Columns and rows of each table. Errors: UsageError for what is no table."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UsageError(f"`tables` has a table for each name, found {given!r}")
    return {str(name): _table(str(name), table) for name, table in given.items()}


def _table(name: str, given: Any) -> tuple[tuple[str, ...], TableRows]:
    if isinstance(given, Mapping) and isinstance(given.get("columns"), Sequence) and "rows" in given:
        columns, rows = tuple(given["columns"]), given["rows"]
    elif isinstance(given, Sequence) and given and all(isinstance(row, Mapping) for row in given):
        columns = tuple(dict.fromkeys(key for row in given for key in row))
        rows = [[row.get(column) for column in columns] for row in given]
    else:
        raise UsageError(f"table `{name}` is not understood\n  hint: {_FORM}")
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise UsageError(f"table `{name}` has no columns with names\n  hint: {_FORM}")
    if len(set(columns)) < len(columns):
        raise UsageError(f"table `{name}` has a column twice: {', '.join(columns)}")
    for row in rows:
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != len(columns):
            raise UsageError(f"table `{name}` has {len(columns)} columns ({', '.join(columns)}), found the row {row!r}")
    return columns, tuple(tuple(row) for row in rows)


def create_window_for(name: str, columns: Sequence[str], rows: TableRows, taken: bool) -> ast.CreateWindow:
    """The statement that creates the named window of a table; it has the table's name, unless that is `taken`."""
    of = [_type([row[place] for row in rows]) for place in range(len(columns))]
    declared = tuple(ast.ColumnDef(column, type_.name) for column, type_ in zip(columns, of, strict=True))
    annotations = () if taken else (ast.Annotation("name", name),)
    return ast.CreateWindow(name, (ast.Window("keepall", ()),), declared, annotations=annotations)


def widen_rows(rows: TableRows, types: Sequence[Type]) -> TableRows:
    """Rows whose whole numbers are floating ones in columns of such."""
    floating = [type_ in (t.DOUBLE, t.FLOAT) for type_ in types]
    return tuple(
        tuple(
            float(value) if real and isinstance(value, int) and not isinstance(value, bool) else value
            for value, real in zip(row, floating, strict=True)
        )
        for row in rows
    )


def _type(values: Sequence[object]) -> Type:
    """The type that holds all values of a column."""
    kinds = {bool: t.BOOLEAN, int: t.LONG, float: t.DOUBLE, str: t.STRING, type(None): t.NULL}
    found = common_type([kinds.get(type(value), t.OBJECT) for value in values])
    return t.OBJECT if found is None or found == t.NULL else found
