"""Sinks of deliveries that write files and databases.

A sink belongs to the statement, beside its feed. It costs a replay less than a listener, because rows are passed on as
they are. The rows of a file are those of `Workbench.changes`: ``time``, ``seq``, ``kind`` (insert or remove), then the
columns.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Lock, RLock, Thread, current_thread
from typing import Any
from weakref import WeakSet

from cepbook.engine.runtime import RunningStatement
from cepbook.engine.snapshot.runtime_snapshot import type_data
from cepbook.errors import CepbookError, JournalError, UsageError
from cepbook.feeds import FeedColumns
from cepbook.interrupts import InterruptGuard
from cepbook.lang.types import Type
from cepbook.locks import survives_fork
from cepbook.session.io.files import PARQUET
from cepbook.session.io.output_times import column_data
from cepbook.session.io.sink_feed import Attach, SinkFeed
from cepbook.session.io.writers import (
    RowWriter,
    check_file_kind,
    is_overwritten,
    open_writer,
    take_mode,
)

BATCH = 8_192  # rows that are written together
EVERY = 0.5  # seconds between two looks for waiting rows
SHARE = 10  # rows of a live batch wait if writing them at once would take more than one part of so many of the time


class SinkError(CepbookError):
    """Rows could not be written. Earlier rows are in the file; the message gives the number of lost ones."""


class SinkHooks:
    """Notices of a sink to a journal."""

    def ahead(self) -> None:
        """Called before rows are written: what led to them must be in the journal. Raises JournalError."""

    def closing(self, sink: FileSink) -> None:
        """Called before the file is finished. Raises JournalError."""

    def closed(self, sink: FileSink) -> None:
        """Called when the file is finished."""


class FileSink:
    """Writes all rows of one statement from now on into a file: Parquet, CSV, JSON lines or a table of SQLite.

    ``with cep.sink("alerts", "alerts.parquet"): …`` closes it at the end; otherwise the end of the program does. Rows
    are written after a live batch and at least every second, so that a killed kernel loses the last second at most;
    `flush` writes them now. A row that cannot be written ends the writing, not the statement: `error` has the reason,
    `lost` counts the rows since, `close` raises. Another sink of the same statement and file (a cell that runs again)
    closes this one. Raises UsageError if the file belongs to a sink of another statement.

    With `whole`, the default for Parquet, the file gets its name (and replaces an existing file) only when it is closed
    without lost rows and no exception ended the ``with``. Until then its path is `place` (`partial_name`). The rows of
    a whole Parquet file are in an Arrow stream beside it (``q.partial.arrows`` for ``q.parquet``). This does not apply
    to databases.

    With `append` rows are added to those of an existing file. A line that a killed process left torn is removed. A
    Parquet file also gets the rows of the stream that a killed process left.
    """

    def __init__(
        self,
        attach: Attach,
        types: Mapping[str, Type],
        columns: Mapping[str, Type],
        lock: RLock,
        name: str,
        path: str | os.PathLike[str],
        table: str | None,
        *,
        whole: bool | None = None,
        append: bool = False,
        hooks: SinkHooks | None = None,
        resumed: int | None = None,
    ) -> None:
        check_file_kind(path)
        self.name = name
        self.path = os.fspath(path)
        parquet = self.path.lower().endswith(PARQUET)
        if append and (whole is False if parquet else whole):
            hint = "a Parquet file is written as a whole" if parquet else "with `append` rows are in the file at once"
            raise UsageError(f"`whole` and `append` exclude each other here\n  hint: leave `whole` out; {hint}")
        # What gets the rows in the end: the same file when the directory has changed meanwhile.
        self._target = _absolute(_linked(self.path))
        self._whole = (parquet if whole is None else whole) and _is_plain(self._target)
        self._must_close = whole is True  # otherwise the end of the program does as well
        self.place = partial_name(_linked(self.path)) if self._whole else self.path
        self.rows = 0
        self.lost = 0
        self.error: Exception | None = None
        self._lock = lock
        self._writing = survives_fork(RLock())  # taken behind `_lock`; `_keep_writing` takes it alone
        self._took = self._wrote = 0.0  # seconds of the last write, and when it ended
        self._process = os.getpid()
        self._unclosed = ""  # the file with the rows, if it could not get its name
        self._types: dict[str, Type] = dict(types)
        self._writer: RowWriter | None = None
        for other in [sink for sink in _open_sinks() if is_same_file(sink._target, self.path)]:
            if other.name != name:
                raise UsageError(f"{self.path!r} is written by a sink of `{other.name}`: close that first")
            other.close()
        becomes = self._target if self._whole else None
        self._table, self._options, self._hooks = table or name, {"whole": whole, "append": append}, hooks
        self._columns = columns
        if self._whole and resumed is None:
            with suppress(OSError):
                os.remove(self.place)
        self.full_path, self._full_place = _absolute(self.path), _absolute(self.place)
        mode: dict[str, Any] = {"append": append, "becomes": becomes, "resumed": resumed is not None}
        self._writer = _opened(self.path, self._full_place, columns, self._table, **mode)
        self._file = _file_of(self._writer.place)
        self._tap = SinkFeed(self._when_full)
        self._tap.begin_at(resumed or 0)
        self._leave = attach(self._tap, self._successor)
        with _OPENING:
            _OPEN.add(self)
        _start_writing()

    @property
    def is_open(self) -> bool:
        """True while the sink writes."""
        return self._writer is not None

    @property
    def survives(self) -> bool:
        """True if another process can continue the file after a kill."""
        return self._writer is not None and self._writer.survives and self.path != "-"

    def mark(self) -> dict[str, Any]:
        """Return how far the sink is, as plain data, after `flush`."""
        assert self._writer is not None
        return {
            "name": self.name,
            "path": self.full_path,
            "table": self._table,
            "place": self._full_place,
            "options": self._options,
            "columns": [[name, column_data(of)] for name, of in self._columns.items()],
            "types": [[name, type_data(of)] for name, of in self._types.items()],
            "number": self._tap.number,
            "position": self._writer.position,
        }

    def restore(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write rows that were delivered before a kill, and are missing in the file. Raises SinkError."""
        with self._writing:
            assert self._writer is not None
            try:
                self._writer.write(rows)
                self.rows += len(rows)
            except Exception as error:  # noqa: BLE001  as in `_write`
                self.error, self.lost = error, len(rows)
        self._raise()

    def _successor(self, statement: RunningStatement | None) -> None:
        self._write_if_recorded()
        if statement is not None and dict(statement.output_type.properties) != self._types and self.error is None:
            self.error = UsageError(f"`{self.name}` was redeployed with other columns than {self.path!r} has")

    def _when_full(self) -> None:
        if self._tap.rows >= BATCH:
            self._write_if_recorded()

    def _write_if_recorded(self) -> None:
        with suppress(JournalError):  # the rows wait; the journal raises it at the next stimulus
            self._write()

    def _write(self) -> None:
        with self._writing:
            columns = self._tap.peek()
            count = len(columns.times)
            if count and self._hooks is not None:
                self._hooks.ahead()
            self._tap.forget(columns)
            if count and os.getpid() != self._process:
                self.error = UsageError("a forked process does not write into the file of its parent")
            if self._writer is None or self.error is not None:
                self.lost += count
                return
            if not count:
                return
            began = time.perf_counter()
            try:
                self._writer.write(feed_rows(columns, self._types))
                self.rows += count
            except Exception as error:  # noqa: BLE001  of the disk or of a value; kept, raised by `flush` and `close`
                self.error = error
                self.lost += count
            self._wrote = time.perf_counter()
            self._took = self._wrote - began

    def write_waiting(self, *, soon: bool = False) -> None:
        """Write waiting rows if that makes them survive the process. A failure is printed and kept in `error`.

        With `soon`, only if that keeps the cost low, because the next call comes soon.
        """
        with self._writing:
            writer, before = self._writer, self.error
            if writer is None or not writer.survives or self.path == "-" or os.getpid() != self._process:
                return
            if soon and time.perf_counter() - self._wrote < SHARE * self._took:
                return
            self._write_if_recorded()
        if self.error is not before:
            sys.stderr.write(f"cepbook: {self._loss()}\n")

    def flush(self) -> FileSink:
        """Write waiting rows. Raises SinkError if that failed, now or before."""
        with self._lock, InterruptGuard(lambda: None):  # rows that were taken are written before Ctrl-C is raised
            self._write()
        self._raise()
        return self

    def close(self, *, failed: bool = False) -> None:
        """Write waiting rows and finish the file. Raises SinkError if rows are lost.

        `failed`: the rows are incomplete, so a `whole` file does not get its name.
        """
        with self._lock, InterruptGuard(lambda: None):
            if self._writer is None or os.getpid() != self._process:  # a forked process closes nothing
                return
            if self._hooks is not None:
                self._hooks.closing(self)
            self._leave()
            with self._writing:
                self._finish(failed)
            if self._hooks is not None:
                self._hooks.closed(self)
        self._raise()

    def _finish(self, failed: bool) -> None:
        try:
            self._write()
        finally:
            writer, self._writer = self._writer, None
            assert writer is not None
            taken_away = _file_of(writer.place) != self._file
            try:
                writer.close()
            except (OSError, ValueError, NotImplementedError, sqlite3.Error) as error:
                self.error = self.error or error
        if self.error is None and taken_away:
            self.error = UsageError("the file was taken away, or is another one, meanwhile")
            self.lost = self.rows
        if self._whole and self.error is None and not failed:
            try:
                os.replace(partial_name(self._target), self._target)
                self.place = self.path
            except OSError as error:
                self.error = error
        if self.error is None:
            writer.clean()
        elif self._whole and not taken_away:
            self._unclosed = writer.place

    def __del__(self) -> None:
        _end(self)

    def _raise(self) -> None:
        if self.error is not None:
            raise SinkError(self._loss()) from self.error

    def _loss(self) -> str:
        lost = f"{self.lost:,} row{'' if self.lost == 1 else 's'} of `{self.name}` lost"
        lost += f"; {self._unclosed!r} has the rows before" if self._unclosed else ""
        return f"{self.path!r} cannot be written: {self.error}; {lost}"

    def __enter__(self) -> FileSink:
        return self

    def __exit__(self, kind: object, failure: BaseException | None, at: object) -> None:
        self.close(failed=failure is not None)

    def __repr__(self) -> str:
        state = "closed" if self._writer is None else "open" if self.error is None else f"failed: {self.error}"
        return f"{self.name} → {self.place}: {self.rows:,} rows, {state}"


_OPEN: WeakSet[FileSink] = WeakSet()
_OPENING = survives_fork(Lock())  # while `_OPEN` is changed or read
_ABANDONED: list[FileSink] = []  # sinks that were collected in the thread that writes, which may not take their locks
_THREADS: list[Thread] = []  # the thread that writes, if there is one


def _open_sinks() -> list[FileSink]:
    with _OPENING:
        return [sink for sink in list(_OPEN) if sink.is_open]


def write_waiting() -> None:
    """Write waiting rows of all sinks after a live batch, as far as the cost allows; the rest follows in a moment."""
    if _OPEN:
        for sink in _open_sinks():
            sink.write_waiting(soon=True)


def _start_writing() -> None:
    with _OPENING:
        if not any(thread.is_alive() for thread in _THREADS):  # a child process has none
            _THREADS[:] = [Thread(target=_keep_writing, name="cepbook sinks", daemon=True)]
            _THREADS[0].start()


def _keep_writing() -> None:
    """Write waiting rows of all sinks, again and again while there are any.

    This does not wait for the engine: reading a feed is safe from any thread.
    """
    while True:
        time.sleep(EVERY)
        _write_all()
        while _ABANDONED:
            _end(_ABANDONED.pop(), anywhere=True)
        with _OPENING:
            if not any(sink.is_open for sink in list(_OPEN)):
                _THREADS.clear()
                return


def _write_all() -> None:
    for sink in _open_sinks():
        sink.write_waiting()


def _end(sink: FileSink, *, anywhere: bool = False) -> None:
    if getattr(sink, "_writer", None) is None:
        return
    if not anywhere and current_thread() in _THREADS:
        _ABANDONED.append(sink)
        return
    try:
        sink.close(failed=sink._must_close)
    except CepbookError as error:  # of the file or the journal; the other sinks are closed all the same
        sys.stderr.write(f"cepbook: {error}\n")


@atexit.register
def end_all_sinks() -> None:
    """Close all sinks."""
    for sink in [*_open_sinks(), *_ABANDONED]:
        _end(sink)


def is_same_file(one: str, other: str) -> bool:
    """Return True if two names are of one file that a writer would replace."""
    return one != "-" and is_overwritten(one) and os.path.realpath(one) == os.path.realpath(other)


def partial_name(path: str) -> str:
    """Return the path of a `whole` file while it is written: `q.partial.csv` for `q.csv`."""
    stem, kind = os.path.splitext(path)
    return f"{stem}.partial{kind}"


def _opened(
    name: str,
    place: str,
    types: Mapping[str, Type],
    table: str,
    *,
    append: bool = False,
    becomes: str | None = None,
    resumed: bool = False,
) -> RowWriter:
    try:
        return open_writer(place, types, table, append=append, becomes=becomes, resumed=resumed)
    except UsageError as error:
        raise UsageError(str(error).replace(repr(place), repr(name))) from None


def _absolute(name: str) -> str:
    return name if name == "-" else os.path.abspath(name)


def _linked(name: str) -> str:
    return os.path.realpath(name) if os.path.islink(name) else name


def _is_plain(name: str) -> bool:
    there = os.path.isfile(name) or not os.path.exists(name)
    return there and is_overwritten(name) and name != "-"


def _file_of(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return None if path == "-" else (status.st_dev, status.st_ino)


def feed_rows(changes: FeedColumns, properties: Iterable[str]) -> list[tuple[Any, ...]]:
    """Return the rows of a feed with the columns of `change_columns`."""
    kinds = ["insert" if insert else "remove" for insert in changes.inserts]
    columns = [changes.times, changes.numbers, kinds, *(changes.column(name) for name in properties)]
    return list(zip(*columns, strict=True))


def export_rows(
    rows: Sequence[Sequence[Any]], path: str | os.PathLike[str], types: Mapping[str, Type], table: str
) -> int:
    """Write rows as a file and return their number. An existing file is replaced when all rows are written.

    Raises UsageError, and SinkError if writing fails.
    """
    name = os.fspath(path)
    real = _linked(name)
    beside = _is_plain(real)
    target = os.path.join(os.path.dirname(real), f".{os.getpid()}.{os.path.basename(real)}") if beside else name
    writer = _opened(name, target, types, table)
    if beside:
        take_mode(target, real)
    try:
        try:
            writer.write(rows)
        finally:
            writer.close()
        if beside:
            os.replace(target, real)
    except (OSError, ValueError, TypeError, OverflowError, sqlite3.Error) as error:
        if beside:
            with suppress(OSError):
                os.remove(target)
        raise SinkError(f"{name!r} cannot be written: {error}") from error
    return len(rows)


__all__ = ["FileSink", "SinkError", "export_rows", "feed_rows"]
