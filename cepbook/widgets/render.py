"""Static pictures of widgets for saved notebooks: HTML with inline styles, and plain text.

Both are the same for the same engine state (no ids, no wall clock, rounded floats), so that a notebook can be
compared with its last run. The HTML needs no style sheet to be understood: signs and headings carry the meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from cepbook.widgets.encode import Column, decimals_of, number_text, text_of, time_text

INSERT = "rgba(46,160,67,.14)"
REMOVE = "rgba(218,54,51,.13)"
LINE = "1px solid rgba(128,128,128,.25)"
CELL_LIMIT = 60
WIDTH_LIMIT = 32


@dataclass(frozen=True, slots=True)
class Frozen:
    """A widget's state as plain HTML and text: an object that a notebook shows without any JavaScript."""

    html: str
    text: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text, with the alignment of each column and the sign (``+``, ``−`` or empty) of each row."""

    headings: tuple[str, ...]
    right: tuple[bool, ...]
    cells: tuple[tuple[str, ...], ...]
    signs: tuple[str, ...] = ()


def cells_of(rows: Sequence[Mapping[str, object]], columns: Sequence[Column]) -> list[tuple[str, ...]]:
    """The text of every cell; the floats of one column share their number of decimals."""
    return column_cells([[row.get(c.name) for row in rows] for c in columns], columns, len(rows))


def column_cells(values: Sequence[Sequence[object]], columns: Sequence[Column], rows: int) -> list[tuple[str, ...]]:
    """The same, row by row, of the `values` of columns."""
    texts: list[list[str]] = []
    for each, column in zip(values, columns, strict=True):
        places = decimals_of(each) if column.kind == "float" else None
        texts.append([_cell(value, places, column.kind) for value in each])
    return list(zip(*texts, strict=True)) if texts else [()] * rows


def _cell(value: object, places: int | None, kind: str) -> str:
    text = number_text(value, places) if isinstance(value, float) else text_of(value)
    if kind == "time" and isinstance(value, int):
        text = time_text(value)
    return text if len(text) <= CELL_LIMIT else text[: CELL_LIMIT - 1] + "…"


def table_of(rows: Sequence[Mapping[str, object]], columns: Sequence[Column]) -> Table:
    """A table of plain rows."""
    return Table(
        tuple(c.name for c in columns),
        tuple(c.kind in ("int", "float") for c in columns),
        tuple(cells_of(rows, columns)),
    )


def table_html(table: Table) -> str:
    """The table; rows with a sign are tinted."""
    head = "".join(
        f'<th style="text-align:{_side(right)};padding:2px 10px;border-bottom:{LINE}">{escape(name)}</th>'
        for name, right in zip(table.headings, table.right, strict=True)
    )
    body = []
    for index, cells in enumerate(table.cells):
        sign = table.signs[index] if table.signs else ""
        tint = {"+": f"background:{INSERT}", "−": f"background:{REMOVE}"}.get(sign, "background:none")
        tds = "".join(
            f'<td style="text-align:{_side(right)};padding:1px 10px;white-space:nowrap">{escape(cell)}</td>'
            for cell, right in zip(cells, table.right, strict=True)
        )
        body.append(f'<tr style="{tint}">{tds}</tr>')
    style = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:2px 0 8px"
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def _side(right: bool) -> str:
    return "right" if right else "left"


def table_text(table: Table, limit: int | None = WIDTH_LIMIT) -> str:
    """The table with columns of fixed width, at most `limit` characters each (None: as wide as it takes)."""
    lines = [[cell.replace("\n", " ") for cell in line] for line in (table.headings, *table.cells)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.headings))]
    widths = [width if limit is None else min(limit, width) for width in widths]
    shown = []
    for line in lines:
        parts = []
        for cell, width, right in zip(line, widths, table.right, strict=True):
            cut = cell if len(cell) <= width else cell[: width - 1] + "…"
            parts.append(cut.rjust(width) if right else cut.ljust(width))
        shown.append(("  " + "  ".join(parts)).rstrip())
    return "\n".join(shown)


def heading_html(text: str, note: str = "") -> str:
    """A small heading over a table."""
    dim = f' <span style="opacity:.7;font-weight:normal">{escape(note)}</span>' if note else ""
    return f'<div style="font-weight:600;margin-top:4px">{escape(text)}{dim}</div>'


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """``1 row``, ``2,345 rows``; `plural` where it is not the noun with an ``s``."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"
