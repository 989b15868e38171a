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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, RLock, Thread, current_thread
from typing import Any
from weakref import WeakSet

from cepbook.display import format_count
from cepbook.engine.delivery.delta import Sink
from cepbook.engine.runtime import RunningStatement
from cepbook.engine.snapshot.runtime_snapshot import type_data
from cepbook.errors import CepbookError, JournalError, UsageError
from cepbook.feeds import FeedColumns, SinkFeed
from cepbook.interrupts import InterruptGuard
from cepbook.lang.types import Type
from cepbook.locks import survives_fork
from cepbook.session.io.files import PARQUET
from cepbook.session.io.output.parquet_writers import stream_name
from cepbook.session.io.output.row_writer import BusyError, Rows, RowWriter, set_aside, take_mode
from cepbook.session.io.output.time_types import column_data
from cepbook.session.io.output.writers import check_file_kind, is_database, open_writer

Successor = Callable[[RunningStatement | None], object]
Attach = Callable[[Sink, Successor], Callable[[], None]]  # the last step of `EngineHandle.attach_sink`

FULL_ROWS = 8_192  # rows that are written together
EXPORTED_ROWS = 1 << 16  # likewise, of an export
INTERVAL = 0.5  # seconds between two looks for waiting rows
MAX_WRITE_SHARE = 0.1  # of the time; rows of a live batch wait if writing them at once would take more
PATIENCE = 5.0  # seconds that `flush` and `close` wait for a locked database


class SinkError(CepbookError):
    """Rows could not be written. The other rows are in the file; the message gives the number of lost ones."""


class SinkHooks:
    """Notices of a sink to a journal."""

    def before_write(self) -> None:
        """Called before rows are written: what led to them must be in the journal. Raises JournalError."""

    def before_close(self, sink: FileSink) -> None:
        """Called before the file is finished. Raises JournalError."""

    def after_close(self, sink: FileSink) -> None:
        """Called when the file is finished."""


class FileSink:
    """Writes all rows of one statement from now on into a file: Parquet, CSV, JSON lines or a table of SQLite.

    ``with cep.sink("alerts", "alerts.parquet"): …`` closes it at the end; otherwise the end of the program does. Rows
    are written after a live batch and at least every second, so that a killed kernel loses the last second at most;
    `flush` writes them now. Rows wait while another program locks a database.

    A row with a value that cannot be written is left out. A full disk ends the writing, not the statement. Both are
    printed: `error` has the first reason, `lost` counts the rows, `close` raises. Another sink of the same statement
    and file or table (a cell that runs again) closes this one. Raises UsageError if the file or table belongs to a sink
    of another statement.

    With `whole`, the default for Parquet, the file gets its name (and replaces an existing file) only when it is closed
    without lost rows and no exception ended the ``with``. Until then its path is `place` (`partial_name`). The rows of
    a whole Parquet file are in an Arrow stream beside it (``q.partial.arrows`` for ``q.parquet``). What a killed
    process left there is renamed (``q.partial.unclosed.csv``), and printed. This does not apply to databases.

    With `append` rows are added to those of an existing file. A line that a killed process left torn is removed. A
    Parquet file also gets the rows of the stream that a killed process left.
    """

    # Paths, for the sink of q.csv with `whole` where q.csv links to data/1.csv:
    #     path         q.csv, as it was given
    #     full_path    /home/ann/q.csv
    #     place        data/1.partial.csv; once it is closed, `path`
    #     _full_place  /home/ann/data/1.partial.csv
    #     _target      /home/ann/data/1.csv

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
        # absolute: the same file when the directory of the process has changed meanwhile
        self._target = _absolute(_linked(self.path))
        self._whole = (parquet if whole is None else whole) and _is_plain(self._target)
        self._incomplete_unless_closed = whole is True  # otherwise the end of the program closes it as well
        self.place = partial_name(_linked(self.path)) if self._whole else self.path
        self.rows = 0
        self.lost = 0
        self.error: Exception | None = None
        self._lock = lock
        self._writing = survives_fork(RLock())  # acquired after `_lock`; `_keep_writing` acquires it alone
        self._waiting: list[Rows] = []  # rows that left the feed and are not written yet
        self._ended = False  # after an error that concerns all later rows as well
        self._took = self._wrote = 0.0  # seconds of the last write, and when it ended
        self._process = os.getpid()
        self._busy: BusyError | None = None  # why rows wait
        self._unclosed = ""  # the file with the rows, if it could not get its name
        self._types: dict[str, Type] = dict(types)
        self._writer: RowWriter | None = None
        self._table, self._options, self._hooks = table or name, {"whole": whole, "append": append}, hooks
        for other in [sink for sink in _open_sinks() if sink.writes(self.path, self._table)]:
            if other.name != name:
                what = f"table `{self._table}` of {self.path!r}" if is_database(self.path) else repr(self.path)
                raise UsageError(f"{what} is written by a sink of `{other.name}`: close that first")
            other.close()
        becomes = self._target if self._whole else None
        self._columns = columns
        self.full_path, self._full_place = _absolute(self.path), _absolute(self.place)
        if self._whole and resumed is None:
            self._leave_former_rows(append=append)
        mode: dict[str, Any] = {"append": append, "becomes": becomes, "resumed": resumed is not None}
        self._writer = _opened(self.path, self._full_place, columns, self._table, **mode)
        self._file = _file_of(self._writer.place)
        self._tap = SinkFeed(self._when_full)
        self._tap.begin_at(resumed or 0)
        self._leave = attach(self._tap, self._successor)
        with _OPENING:
            _OPEN.add(self)
        _start_writing()

    def _leave_former_rows(self, *, append: bool) -> None:
        """Rename the file that a killed process left, unless its rows are added to the file."""
        with suppress(OSError):  # of another owner, for example: opening the file tells it
            if self.path.lower().endswith(PARQUET):
                if os.path.exists(self._full_place):  # begun from the stream, which has all rows
                    os.remove(self._full_place)
                if not append:
                    set_aside(stream_name(self._full_place), self.path)
            else:
                set_aside(self._full_place, self.path)

    def writes(self, path: str, table: str) -> bool:
        """Return True if the sink writes this file, or this table of this database."""
        if "-" in (path, self.path) or not is_same_file(path, self._target):
            return False
        return not is_database(path) or table.lower() == self._table.lower()

    @property
    def is_open(self) -> bool:
        """True while the sink writes."""
        return self._writer is not None

    @property
    def survives(self) -> bool:
        """True if another process can continue the file after a kill."""
        return self._writer is not None and self._writer.survives and self.path != "-"

    @property
    def key(self) -> dict[str, str]:
        """The path and table, which no other open sink has."""
        return {"path": self.full_path, "table": self._table}

    def mark(self) -> dict[str, Any]:
        """Write waiting rows and return how far the sink is, as plain data. Raises SinkError if it cannot go on."""
        with self._lock, self._writing:
            self._write(PATIENCE)
            if self._ended or self._waiting:
                raise SinkError(self._loss())
            assert self._writer is not None
            try:
                position = self._writer.position
            except sqlite3.Error as error:
                raise SinkError(f"{self.path!r} cannot be read: {error}") from error
        return {
            "name": self.name,
            **self.key,
            "place": self._full_place,
            "options": self._options,
            "columns": [[name, column_data(of)] for name, of in self._columns.items()],
            "types": [[name, type_data(of)] for name, of in self._types.items()],
            "number": self._tap.number,
            "position": position,
        }

    def restore(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write rows that were delivered before a kill, and are missing in the file. Raises SinkError."""
        with self._writing:
            self._waiting.append(rows)
            self._write(PATIENCE)
        self._raise()

    def _successor(self, statement: RunningStatement | None) -> None:
        self._write_and_print()
        if statement is not None and dict(statement.output_type.properties) != self._types and not self._ended:
            with self._printing():
                self._give_up(UsageError(f"`{self.name}` was redeployed with other columns than the file has"))

    def _when_full(self) -> None:
        if self._tap.rows >= FULL_ROWS:
            self._write_and_print()

    @contextmanager
    def _printing(self) -> Iterator[None]:
        """At the end of the block, print an error that was met in it."""
        before = self.error
        yield
        if self.error is not before:
            sys.stderr.write(f"cepbook: {self._loss()}\n")

    def _write_and_print(self) -> None:
        # without an error of the journal: the rows wait, and the next stimulus raises it
        with self._printing(), suppress(JournalError):
            self._write()

    def _write(self, patience: float = 0.0) -> None:
        """Write waiting rows. A locked database is waited for `patience` seconds; then the rows wait."""
        with self._writing:
            columns = self._tap.peek()
            count = len(columns.times)
            if count and self._hooks is not None:
                self._hooks.before_write()
            if count:
                self._waiting.append(feed_rows(columns, self._types))
            self._tap.forget(columns)
            if self._waiting and os.getpid() != self._process:
                self._give_up(UsageError("a forked process does not write into the file of its parent"))
            if self._waiting and self._writer is None:
                self._give_up(self.error)
            began, tried = time.perf_counter(), bool(self._waiting)
            while self._waiting and not self._ended:
                try:
                    self._write_first()
                except BusyError as error:
                    if time.perf_counter() >= began + patience:
                        self._busy = error
                        break
            if tried:
                self._wrote = time.perf_counter()
                self._took = self._wrote - began

    def _write_first(self) -> None:
        """Write the first rows that wait. If a value cannot be written, halve them to find its row."""
        assert self._writer is not None
        rows = self._waiting[0]
        try:
            self._writer.write(rows)
            self._waiting.pop(0)
            self.rows += len(rows)
        except BusyError:
            raise
        except (OSError, MemoryError, sqlite3.OperationalError) as error:
            self._give_up(error)
        except Exception as error:  # noqa: BLE001  of a value: anything that Python code of the user may raise
            half = len(rows) // 2
            self._waiting[:1] = [rows[:half], rows[half:]] if half else []
            if not half:
                self.error, self.lost = self.error or error, self.lost + len(rows)
        except BaseException:  # the second Ctrl-C: nobody knows what the file has of these rows
            self._give_up(UsageError("interrupted while rows were written"))
            raise

    def _give_up(self, error: Exception | None) -> None:
        """Write nothing more. The rows that wait are lost."""
        self._ended = True
        self.error = self.error or error
        self.lost += sum(map(len, self._waiting))
        self._waiting.clear()

    def write_waiting(self, *, soon: bool = False) -> None:
        """Write waiting rows if that makes them survive the process. A failure is printed and kept in `error`.

        With `soon`, only if that keeps the cost low, because the next call comes soon.
        """
        with self._writing:
            writer = self._writer
            if writer is None or not writer.survives or self.path == "-" or os.getpid() != self._process:
                return
            if soon and (time.perf_counter() - self._wrote) * MAX_WRITE_SHARE < self._took:
                return
            self._write_and_print()

    def flush(self) -> FileSink:
        """Write waiting rows. Raises SinkError if that failed, now or before."""
        with self._lock, InterruptGuard(lambda: None):  # rows that were taken are written before Ctrl-C is raised
            self._write(PATIENCE)
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
                self._hooks.before_close(self)
            self._leave()
            with self._writing:
                self._finish(failed)
            if self._hooks is not None:
                self._hooks.after_close(self)
        self._raise()

    def _finish(self, failed: bool) -> None:
        try:
            self._write(PATIENCE)
        finally:
            if self._waiting:
                self._give_up(self._busy)
            writer, self._writer = self._writer, None
            assert writer is not None
            taken_away = _file_of(writer.place) != self._file
            try:
                writer.close()
            except Exception as error:  # noqa: BLE001  of the disk, or of a library; `close` raises it
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
        _end_abandoned(self)

    def _raise(self) -> None:
        if self.error is not None or self._waiting:
            raise SinkError(self._loss()) from self.error

    def _loss(self) -> str:
        if self._waiting:
            waiting = format_count(sum(map(len, self._waiting)), "row")
            return f"{self.path!r} cannot be written now: {self._busy}; {waiting} of `{self.name}` wait"
        lost = f"{format_count(self.lost, 'row')} of `{self.name}` lost"
        lost += f"; {self._unclosed!r} has the other rows" if self._unclosed else ""
        return f"{self.path!r} cannot be written: {self.error}; {lost}"

    def __enter__(self) -> FileSink:
        return self

    def __exit__(self, kind: object, failure: BaseException | None, at: object) -> None:
        self.close(failed=failure is not None)

    def __repr__(self) -> str:
        state = "closed" if self._writer is None else f"failed: {self.error}" if self._ended else "open"
        state += f", {format_count(self.lost, 'row')} lost" if self.lost else ""
        return f"{self.name} → {self.place}: {format_count(self.rows, 'row')}, {state}"


def is_same_file(path: str, other: str) -> bool:
    """Return True if two paths lead to one file, by symbolic or by hard links; it need not exist."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


_OPEN: WeakSet[FileSink] = WeakSet()
_OPENING = survives_fork(Lock())  # while `_OPEN` is changed or read
# Sinks whose `__del__` ran inside the writing thread. They are closed by its loop, when it holds no lock.
_ABANDONED: list[FileSink] = []
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
        time.sleep(INTERVAL)
        _write_all()
        while _ABANDONED:
            _end_abandoned(_ABANDONED.pop(), in_loop=True)
        with _OPENING:
            if not any(sink.is_open for sink in list(_OPEN)):
                _THREADS.clear()
                return


def _write_all() -> None:
    """Write waiting rows of all sinks; apart from the loop, whose variables would keep a sink alive."""
    for sink in _open_sinks():
        sink.write_waiting()


def _end_abandoned(sink: FileSink, *, in_loop: bool = False) -> None:
    if getattr(sink, "_writer", None) is None:
        return
    if not in_loop and current_thread() in _THREADS:
        _ABANDONED.append(sink)
        return
    end_sink(sink, failed=sink._incomplete_unless_closed)


def end_sink(sink: FileSink, *, failed: bool) -> None:
    """Close a sink that its user did not close. An error is printed."""
    try:
        sink.close(failed=failed)
    except Exception as error:  # noqa: BLE001  of the file or the journal; the other sinks are closed all the same
        sys.stderr.write(f"cepbook: {error}\n")


@atexit.register
def end_all_sinks() -> None:
    """Close all sinks."""
    for sink in [*_open_sinks(), *_ABANDONED]:
        _end_abandoned(sink)


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
    usable = os.path.isfile(name) or not os.path.exists(name)
    return usable and not is_database(name) and name != "-"


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
    rows: Sequence[Sequence[Any]],
    path: str | os.PathLike[str],
    types: Mapping[str, Type],
    table: str,
    *,
    progress: Callable[[int], object] = lambda rows: None,
) -> int:
    """Write rows as a file and return their number. An existing file is replaced when all rows are written.

    `progress` is called with the number of rows written so far. What it raises ends the export. Raises UsageError, and
    SinkError if writing fails.
    """
    name = os.fspath(path)
    real = _linked(name)
    beside = _is_plain(real)
    target = os.path.join(os.path.dirname(real), f".{os.getpid()}.{os.path.basename(real)}") if beside else name
    writer = _opened(name, target, types, table)
    if beside:
        take_mode(target, real)
    step = EXPORTED_ROWS if beside else max(1, len(rows))  # a database gets all rows in one transaction
    try:
        try:
            for start in range(0, len(rows), step):
                writer.write(rows[start : start + step])
                progress(min(start + step, len(rows)))
        finally:
            writer.close()
        if beside:
            os.replace(target, real)
    except Exception as error:
        if beside:
            with suppress(OSError):
                os.remove(target)
        raise SinkError(f"{name!r} cannot be written: {error}") from error
    return len(rows)


__all__ = ["FileSink", "SinkError", "export_rows", "feed_rows"]
