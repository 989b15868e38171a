"""The rows and columns of a view that go into a file or onto the clipboard: those displayed, searched and sorted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cepbook.display import lost_rows_text
from cepbook.feeds import Feed
from cepbook.lang.types import Type
from cepbook.session.io.output.result_frames import change_columns
from cepbook.widgets.live_view.column_texts import Array
from cepbook.widgets.live_view.row_filter import NamedColumns, RowSheet, SheetColumns
from cepbook.widgets.live_view.stream_sheet import StreamRequest, StreamSheet


class FileRows(NamedTuple):
    """Rows for a file, their columns in order, and a note on rows that are missing."""

    rows: Sequence[Sequence[Any]]
    types: Mapping[str, Type]
    note: str = ""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The rows of a request, its columns in order (None: all), and a part of the rows that was selected."""

    request: StreamRequest
    columns: tuple[str, ...] | None = None
    span: range | None = None

    def of_stream(
        self, feed: Feed, until: int | None, types: Mapping[str, Type], time: Type, timed: Collection[str], second: int
    ) -> FileRows:
        """Return rows that were delivered up to clock time `until`, with the columns of `Workbench.changes`.

        `types` are the statement's columns, `time` is the type of the times of deliveries, `timed` and `second` are as
        for `StreamSheet`. A file with the time has the number of the delivery, too.
        """
        changes = feed.whole(until)
        request, places = self.request, None
        if request or request.before is not None:
            sheet = StreamSheet(feed, tuple(types), timed, second)
            sheet.add(changes)
            places = self._ordered(sheet, sheet.rows(request, sheet.kept(request.before)).places)
        all_types = change_columns(types, time)
        moment, number, _ = list(all_types)[:3]
        kinds = ["insert" if insert else "remove" for insert in changes.inserts]
        values: list[Sequence[Any]] = [changes.times, changes.numbers, kinds, *map(changes.column, types)]
        columns = None if self.columns is None else [name for name in self.columns if name != number]
        if columns is not None and moment in columns:
            columns.insert(columns.index(moment) + 1, number)
        note = f"; {lost_rows_text(changes.lost, len(changes.times))}" if changes.lost else ""
        return self._file(dict(zip(all_types, values, strict=True)), all_types, columns, places, note)

    def of_sheet(self, sheet: RowSheet, types: Mapping[str, Type], timed: Collection[str]) -> FileRows:
        """Return rows of the iterator."""
        places = None
        if self.request.choice:
            searched = SheetColumns(sheet, timed)
            places = self._ordered(searched, self.request.choice.found(searched, tuple(types)).places)
        return self._file({name: sheet.column(name) for name in types}, types, self.columns, places)

    def _ordered(self, table: NamedColumns, places: Array) -> list[int]:
        ordered: list[int] = self.request.choice.first(table, places, len(places)).tolist()
        return ordered

    def _file(
        self,
        values: Mapping[str, Sequence[Any]],
        types: Mapping[str, Type],
        columns: Sequence[str] | None,
        places: list[int] | None,
        note: str = "",
    ) -> FileRows:
        names = [name for name in columns or () if name in types] or list(types)
        span = slice(None) if self.span is None else slice(self.span.start, self.span.stop)
        if places is None:
            chosen = [values[name][span] for name in names]
        else:
            chosen = [[values[name][place] for place in places[span]] for name in names]
        return FileRows(list(zip(*chosen, strict=True)), {name: types[name] for name in names}, note)
