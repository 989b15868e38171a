"""The methods of `Workbench` that hand rows out: frames, listeners, queries, files, databases, ``async for``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Set
from contextlib import ExitStack
from functools import partial
from typing import Any, overload

import pandas as pd

from cepbook.argument_checks import caller_stacklevel
from cepbook.display import lost_rows_text
from cepbook.engine.delivery.delta import Listener
from cepbook.errors import MissingRowsWarning, UsageError
from cepbook.feeds import FeedColumns
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.history.event_log import ManualAction
from cepbook.session.inspect.fire_and_forget import PreparedQuery, run_query
from cepbook.session.inspect.partition_selectors import Selector, selected_rows
from cepbook.session.inspect.time_columns import statement_output
from cepbook.session.io.output.delivery_stream import DeliveryStream
from cepbook.session.io.output.result_frames import (
    change_columns,
    changes_frame,
    convert_frame,
    rows_frame,
)
from cepbook.session.io.output.sinks import FileSink, export_rows, feed_rows, is_same_file
from cepbook.session.io.output.time_types import DATES
from cepbook.session.io.parameter_values import ParameterValues as Values


class OutputMixin(WorkbenchCore):
    """Rows as DataFrames, callbacks, files and streams, and fire-and-forget queries."""

    @overload
    def to_frame(self, name: str, selector: Selector | None = None, *, times: str = DATES) -> pd.DataFrame: ...
    @overload
    def to_frame(self, name: str, selector: Selector | None = None, *, as_: str, times: str = DATES) -> Any: ...
    def to_frame(self, name: str, selector: Selector | None = None, *, as_: str = "pandas", times: str = DATES) -> Any:
        """Return the rows of `iterate`: the contents of the statement's window, or its one row of aggregates.

        A statement without a data window keeps no rows, unless all its columns are aggregates without a group by. Its
        frame is empty, whatever was delivered (see `keeps_rows`, `changes`), and a MissingRowsWarning says so. `as_` is
        ``"pandas"``, ``"arrow"`` or ``"polars"``. Times are dates, with `times="ms"` numbers. Raises as `iterate` does.
        """
        with self._lock:
            properties, _ = statement_output(self._engine.runtime, name, times)
            return convert_frame(
                rows_frame(selected_rows(self._engine.runtime, name, selector), properties), properties, as_
            )

    @overload
    def changes(self, name: str, *, times: str = DATES) -> pd.DataFrame: ...
    @overload
    def changes(self, name: str, *, as_: str, times: str = DATES) -> Any: ...
    def changes(self, name: str, *, as_: str = "pandas", times: str = DATES) -> Any:
        """Return all insert and remove rows that the statement delivered: time, seq, kind, the columns.

        The feed has the latest `feed_capacity` rows, and a file of at most 256 MB has the earlier ones. If rows are
        missing nevertheless, a MissingRowsWarning says how many. `as_` and `times` as for `to_frame`. Raises UsageError
        for an unknown name.
        """
        changes, (properties, time) = self._delivered(name), statement_output(self._engine.runtime, name, times)
        return convert_frame(changes_frame(changes, properties, time), change_columns(properties, time), as_)

    def _delivered(self, name: str) -> FeedColumns:
        changes = self._engine.feed(name).whole()
        if changes.lost:
            hint = f"`cep.feed_capacity = None` keeps all rows from now on, `cep.sink({name!r}, FILE)` writes them"
            text = f"`{name}`: {lost_rows_text(changes.lost, len(changes.times))}\n  hint: {hint}"
            warnings.warn(text, MissingRowsWarning, stacklevel=caller_stacklevel())
        return changes

    def on(self, name: str, fn: Listener) -> Callable[[], None]:
        """Call ``fn(delta)`` for every delivery of statement `name`, also after a redeployment. Return the function
        that ends it.

        A delta has `time` (ms), `insert` and `remove` (lists of rows, or None). Listeners run inside `send`, while the
        workbench is locked: a listener may call the workbench, but must not wait for another thread that does. Such a
        thread gets a UsageError that names the listener.
        """
        if not callable(fn):
            raise UsageError(f"a listener is a function of one delta, not {type(fn).__name__}")
        with self._lock:
            return self._engine.listen(name, fn)

    def query(
        self, epl: str | PreparedQuery, selector: Selector | None = None, *, parameters: Values | None = None
    ) -> pd.DataFrame:
        """Answer a query over named windows and tables, or over the current rows of statements, once.

        For example ``select * from Delays where minutes > 60``. ``insert``, ``update`` and ``delete`` change named
        windows and tables and return the changed rows. `selector` chooses partitions as in `iterate`; `parameters` are
        as in `run`.
        """
        with self._lock, ExitStack() as acting:
            stage = self._engine
            text = epl.epl if isinstance(epl, PreparedQuery) else epl
            alone = text if selector is None and parameters is None else None
            done = "a query changed rows that parameters or a selector chose"

            def before_change(repeat: ManualAction, stores: Set[str], arguments: Mapping[str, Any]) -> None:
                acting.enter_context(stage.action("query", **arguments))
                acting.enter_context(stage.raising_failures())
                acting.enter_context(stage.runtime.turn)
                stage.record_manual_action(repeat, stores, query=alone, what=done)

            return run_query(
                epl, stage.runtime, self._config, self._functions, selector, parameters, before_change=before_change
            )

    def prepare(self, epl: str) -> PreparedQuery:
        """Prepare a query that is asked often. Raises ParseError; the stores that it reads need not exist yet.

        ``late = cep.prepare("select * from Delays where minutes > :least")``, then ``late.run(least=60)``.
        """
        return PreparedQuery(epl, lambda query, selector, values: self.query(query, selector, parameters=values))

    def sink(
        self,
        name: str,
        path: str | os.PathLike[str],
        *,
        table: str | None = None,
        whole: bool | None = None,
        append: bool = False,
        times: str = DATES,
    ) -> FileSink:
        """Write all deliveries of statement `name` from now on into a file: Parquet, CSV, JSON lines, SQLite.

        The name of the file decides the kind. Rows are those of `changes`; they are in the file within a second. Times
        are dates with a zone (in text ISO 8601), with `times="ms"` numbers.
        `table` is the table of an SQLite database (default: the statement's name), which is added to. Other files are
        replaced, unless `append` is true: then rows are added to them. With `whole` a file gets its name only when it
        is closed without failure (until then ``q.csv`` is ``q.partial.csv``). Parquet files are written so unless
        `whole` is False. Close the sink, or use ``with``. A sink that `recover` continues is returned for the same
        statement and file. Raises UsageError for an unknown statement, a file that
        cannot be written, a file that was just replayed, and a file of other columns that is appended to.
        """
        with self._lock:
            self._engine.statement(name)
            self._refuse_replayed(path)
            same = [s for s in self._engine.recovered_sinks if s.is_open and s.name == name]
            again = next((s for s in same if s.writes(os.fspath(path), table or name)), None)
            if again is not None:
                return again
            types = self._engine.statement(name).output_type.properties
            attach = partial(self._engine.attach_sink, name)
            stage = self._engine
            columns = change_columns(*statement_output(stage.runtime, name, times))
            options: dict[str, Any] = {"whole": whole, "append": append, "hooks": stage}
            sink = FileSink(attach, types, columns, self._lock, name, path, table, **options)
            stage.file_sinks.append(sink)
            if sink.survives:
                stage.record_in_journal("sink", **sink.mark())
            return sink

    def _refuse_replayed(self, path: str | os.PathLike[str]) -> None:
        for file in self._replayed_files:
            if is_same_file(os.fspath(path), file):
                raise UsageError(f"{file!r} has the events of the last replay: write into another file")

    def stream(self, name: str, *, capacity: int = 10_000) -> DeliveryStream:
        """Return the deliveries of a statement from now on: ``async for delivery in cep.stream("alerts")``
        (`DeliveryStream`).

        A delivery has `time` (ms), `insert` and `remove` (rows as dicts, or None). Raises UsageError for an unknown
        statement.
        """
        with self._lock:
            self._engine.statement(name)
            return DeliveryStream(name, partial(self._engine.attach_sink, name), self._engine.streams, capacity)

    def export(
        self,
        name: str,
        path: str | os.PathLike[str],
        *,
        changes: bool = False,
        selector: Selector | None = None,
        table: str | None = None,
        times: str = DATES,
    ) -> int:
        """Write the current rows of statement `name` (`to_frame`) into a file and return their number.

        With `changes`, write the rows of `changes`. Files and `times` are as for `sink`. A MissingRowsWarning is issued
        as by `to_frame` and `changes`. Raises UsageError, and SinkError if writing fails.
        """
        with self._lock:
            self._refuse_replayed(path)
            types, time = statement_output(self._engine.runtime, name, times)
            if changes:
                delivered = feed_rows(self._delivered(name), types)
                return export_rows(delivered, path, change_columns(types, time), table or name)
            instead = "with `changes=True` (`--changes`) the file gets"
            current = selected_rows(self._engine.runtime, name, selector, instead=instead)
            rows = [[row.get(column) for column in types] for row in current]
            return export_rows(rows, path, types, table or name)
