"""What a workbench hands to the outside: files, databases, ``async for``."""

from __future__ import annotations

import os
from threading import RLock

from cepbook.session.selectors import Selector, rows_of
from cepbook.session.sinks import FileSink, Stream, changed_columns, export
from cepbook.session.stage import Stage


class Outward:
    """The ways in which rows leave a workbench, beside listeners (`Workbench.on`) and frames."""

    _lock: RLock
    _stage: Stage

    def sink(self, name: str, path: str | os.PathLike[str], *, table: str | None = None) -> FileSink:
        """Write all that statement `name` delivers from now on into a file: Parquet, CSV, JSON lines, SQLite.

        The name of the file says which; rows are those of `changes`. `table` is that of an SQLite database (default:
        the statement's name), which is added to; other files are replaced. Close what you get (or use ``with``): a
        Parquet file is whole only then. Raises UsageError for an unknown statement and a file that cannot be written.
        """
        with self._lock:
            self._stage.statement(name)
            return FileSink(self._stage, self._lock, name, path, table)

    def stream(self, name: str, *, capacity: int = 10_000) -> Stream:
        """``async for delivery in cep.stream("alerts")``: what the statement delivers from now on (`sinks.Stream`).

        A delivery has `time` (ms), `insert` and `remove` (rows as dicts, or None). Raises UsageError for an unknown
        statement.
        """
        with self._lock:
            self._stage.statement(name)
            return Stream(self._stage, name, capacity)

    def export(
        self,
        name: str,
        path: str | os.PathLike[str],
        *,
        changes: bool = False,
        selector: Selector | None = None,
        table: str | None = None,
    ) -> int:
        """Write the rows that statement `name` shows now (`to_frame`) into a file; how many. With `changes` the rows
        that its feed still holds. Files as for `sink`. Raises UsageError, and SinkError when writing fails.
        """
        with self._lock:
            statement = self._stage.statement(name)
            types = dict(statement.output_type.properties)
            if changes:
                found = self._stage.feed(name).columns()
                kinds = ["insert" if insert else "remove" for insert in found.inserts]
                columns = [found.times, found.numbers, kinds, *(found.column(each) for each in types)]
                return export(list(zip(*columns, strict=True)), path, changed_columns(types), table or name)
            rows = [[row.get(each) for each in types] for row in rows_of(self._stage.runtime, name, selector)]
            return export(rows, path, types, table or name)
