"""The search of the rows of a statement, or of the events of its window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepbook.lang.types import VALUE_TYPES
from cepbook.widgets.base.column_encoding import ViewColumn
from cepbook.widgets.live_view.row_filter import FoundRows, Row, RowFilter, RowSheet, SheetColumns
from cepbook.widgets.live_view.stream_sheet import MAX_ROWS

_DIGIT = RowFilter(("0",))  # a word that may be part of values of most types: a search for it reads most columns


class TableSearch:
    """The columns that were read stay while a reader searches or sorts, or is about to; reading takes most of the time.

    Columns that are `declared` have values of their types or null.
    """

    def __init__(self) -> None:
        self._columns: SheetColumns | None = None

    def forget(self) -> None:
        """Free the columns."""
        self._columns = None

    def prepare(self, sheet: RowSheet, columns: Sequence[ViewColumn], *, declared: bool) -> None:
        """Read the columns of a sheet before a word is typed."""
        _DIGIT.found(self._read(sheet, columns, declared), [column.name for column in columns])

    def rows(
        self, choice: RowFilter, visible: range, sheet: RowSheet, columns: Sequence[ViewColumn], *, declared: bool
    ) -> tuple[FoundRows, Sequence[Row]]:
        """Return the places of all rows of `choice`, and of these rows, in the requested order, those at `visible`."""
        searched = self._read(sheet, columns, declared)
        matches = choice.found(searched, [column.name for column in columns])
        last = min(MAX_ROWS, visible.stop)  # behind these nobody sees the order
        places = matches.places[-MAX_ROWS:] if choice.by is None else choice.first(searched, matches.places, last)
        return matches, sheet.rows(places[visible.start : visible.stop].tolist())

    def _read(self, sheet: RowSheet, columns: Sequence[ViewColumn], declared: bool) -> SheetColumns:
        timed = {column.name for column in columns if column.kind == "time"}
        kinds: Mapping[str, type] = {
            column.name: VALUE_TYPES[column.type] for column in columns if declared and column.type in VALUE_TYPES
        }
        before = self._columns
        self._columns = SheetColumns(sheet, timed, kinds) if before is None else before.followed(sheet, timed, kinds)
        return self._columns
