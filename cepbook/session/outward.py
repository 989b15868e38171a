"""What a workbench hands to the outside: files, databases, ``async for``, and second workbenches of its past."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any, cast, overload

import pandas as pd

from cepbook.arguments import shown
from cepbook.errors import UsageError
from cepbook.session.data.tables import as_library, changed_columns, changes_of, frame_of
from cepbook.session.inspect.selectors import Selector, rows_of
from cepbook.session.past.again import ForgottenWarning, Past, Twin, answer, past_of, with_values
from cepbook.session.running.sinks import FileSink, Stream, export, rows_of_feed
from cepbook.session.running.stage import Stage
from cepbook.session.values.parameters import Given as Values

if TYPE_CHECKING:
    from cepbook.session.workbench import Workbench


class Outward:
    """The ways in which rows leave a workbench, beside listeners (`Workbench.on`) and frames."""

    _lock: RLock
    _stage: Stage
    _start: int

    @overload
    def to_frame(self, name: str, selector: Selector | None = None) -> pd.DataFrame: ...
    @overload
    def to_frame(self, name: str, selector: Selector | None = None, *, as_: str) -> Any: ...
    def to_frame(self, name: str, selector: Selector | None = None, *, as_: str = "pandas") -> Any:
        """The rows of `iterate`: those of the statement's window, or its one row of aggregates.

        A statement without a data window keeps no rows, unless all its columns are aggregates without a group by:
        the frame is empty, whatever was delivered (`keeps_rows`, `changes`). `as_` is ``"pandas"``, ``"arrow"`` or
        ``"polars"``. Raises as `iterate` does.
        """
        with self._lock:
            properties = self._stage.statement(name).output_type.properties
            return as_library(frame_of(rows_of(self._stage.runtime, name, selector), properties), properties, as_)

    @overload
    def changes(self, name: str) -> pd.DataFrame: ...
    @overload
    def changes(self, name: str, *, as_: str) -> Any: ...
    def changes(self, name: str, *, as_: str = "pandas") -> Any:
        """The insert and remove rows that the statement's feed still holds: time (ms), seq, kind, the columns.

        `as_` as for `to_frame`. Raises UsageError for an unknown name.
        """
        feed, properties = self._stage.feed(name), self._stage.statement(name).output_type.properties
        return as_library(changes_of(feed.columns(), properties), changed_columns(properties), as_)

    def rehearsal(self) -> Workbench:
        """See `Workbench.rehearsal`."""
        raise NotImplementedError

    def past(self) -> Past:
        """The latest events and stops of the clock, for `again`."""
        with self._lock:
            return past_of(self._stage, self._start)

    def again(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        epl: str | None = None,
        parameters: Values | None = None,
        past: Past | None = None,
    ) -> Workbench:
        """A second workbench in which the latest events happen anew; this one stays as it is (`session.past.again`).

        Its variables have `values` where given, and it has the statements of `epl` beside the others. `past` is what
        happens, by default what is known now; a `ForgottenWarning` says when that is not all. Raises UsageError for an
        unknown variable, and as `run`.
        """
        with self._lock:
            if past is not None and not isinstance(past, Past):
                raise UsageError(f"`past` is what `Workbench.past()` gives, not {shown(past)}")
            known = past or past_of(self._stage, self._start)
            twin = self.rehearsal()
        if past is None and not known.complete:
            told = f"only the latest {known.events:,} events happen anew, earlier ones are not known any more"
            hint = "`cep.rehearsal()` and a replay there take all"
            warnings.warn(f"{told}\n  hint: {hint}", ForgottenWarning, stacklevel=3)  # behind the check of arguments
        with_values(twin, values or {})
        if epl is not None:
            twin.run(epl, parameters=parameters)
        Twin(twin._stage).relive(known)
        return twin

    def answer(self, epl: str, *, parameters: Values | None = None) -> pd.DataFrame:
        """A query's rows now (`query`); of any other select all that it would have delivered over the latest events.

        The latter as `changes` gives them. Nothing is deployed. Raises as `query` and `run`.
        """
        return answer(cast("Workbench", self), epl, parameters)

    def sink(
        self, name: str, path: str | os.PathLike[str], *, table: str | None = None, whole: bool = False
    ) -> FileSink:
        """Write all that statement `name` delivers from now on into a file: Parquet, CSV, JSON lines, SQLite.

        The name of the file says which; rows are those of `changes`. `table` is that of an SQLite database (default:
        the statement's name), which is added to; other files are replaced. Close what you get (or use ``with``): a
        Parquet file is whole only then. With `whole` a file gets its name only when it is closed and nothing failed
        (``q.csv`` is ``q.partial.csv`` until then). Raises UsageError for an unknown statement and a file that cannot
        be written.
        """
        with self._lock:
            self._stage.statement(name)
            return FileSink(self._stage, self._lock, name, path, table, whole=whole)

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
                found = rows_of_feed(self._stage.feed(name), types)
                return export(found, path, changed_columns(types), table or name)
            rows = [[row.get(each) for each in types] for row in rows_of(self._stage.runtime, name, selector)]
            return export(rows, path, types, table or name)
