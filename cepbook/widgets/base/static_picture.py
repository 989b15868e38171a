"""Static pictures of widgets for saved notebooks: HTML with inline styles, and plain text.

Both are the same for the same engine state (no ids, no wall clock, rounded floats), so a notebook can be compared with
its last run. The HTML needs no style sheet: signs and headings carry the meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cepbook.display import (
    DisplayTable,
    decimal_places,
    format_number,
    format_time,
    format_value,
    heading_html,
    prose_html,
    table_html,
)
from cepbook.errors import printable
from cepbook.session.explain.explanations import EventExplanation, PageFacts, RowExplanation, TitledTable, facts_table
from cepbook.widgets.base.column_encoding import ViewColumn

CELL_LIMIT = 120


@dataclass(frozen=True, slots=True)
class StaticPicture:
    """The state of a widget as plain HTML and text: an object that a notebook displays without JavaScript."""

    html: str
    text: str

    def __post_init__(self) -> None:
        """Remove characters that would change the direction of the text beside them; markup has been escaped before."""
        object.__setattr__(self, "html", printable(self.html))
        object.__setattr__(self, "text", printable(self.text))

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def row_cells(rows: Sequence[Mapping[str, object]], columns: Sequence[ViewColumn]) -> list[tuple[str, ...]]:
    """Return the text of every cell; the floats of a column share their number of decimals, times their precision."""
    return column_cells([[row.get(c.name) for row in rows] for c in columns], columns, len(rows))


def column_cells(values: Sequence[Sequence[object]], columns: Sequence[ViewColumn], rows: int) -> list[tuple[str, ...]]:
    """Return the same, row by row, from the `values` of columns."""
    texts: list[list[str]] = []
    for column_values, column in zip(values, columns, strict=True):
        places = decimal_places(column_values) if column.kind == "float" else None
        timed = column.kind == "time"
        millis = timed and any(isinstance(value, int) and value % 1000 for value in column_values)
        texts.append([_cell(value, places, millis if timed else None) for value in column_values])
    return list(zip(*texts, strict=True)) if texts else [()] * rows


def _cell(value: object, places: int | None, millis: bool | None) -> str:
    """Return the text of a value; `millis` is the precision of a time, None for anything else."""
    text = format_number(value, places) if isinstance(value, float) else format_value(value)
    if millis is not None and isinstance(value, int):
        text = format_time(value, millis=millis)
    return text if len(text) <= CELL_LIMIT else text[: CELL_LIMIT - 1] + "…"


def table_of_rows(rows: Sequence[Mapping[str, object]], columns: Sequence[ViewColumn]) -> DisplayTable:
    """A table of plain rows."""
    return DisplayTable(
        tuple(c.name for c in columns),
        tuple(c.kind in ("int", "float") for c in columns),
        tuple(row_cells(rows, columns)),
    )


def answer_picture(explanation: RowExplanation | EventExplanation) -> StaticPicture:
    """Return the picture of an answer of `Workbench.why`."""
    page = explanation.page()
    return StaticPicture(
        f"<div>{heading_html(page.title, page.note)}{''.join(map(_html, page.parts))}</div>", page.text()
    )


def _html(section: PageFacts | TitledTable | str) -> str:
    match section:
        case str():
            return f'<div style="opacity:.75">{prose_html(section)}</div>'
        case TitledTable(title, table):
            return heading_html(title) + table_html(table)
        case PageFacts():
            return table_html(facts_table(section))
