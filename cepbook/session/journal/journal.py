"""The journal: every stimulus of a workbench on disk, in groups, with a snapshot from time to time.

::

    stimulus ─► entries ─ 2,048, an action, a sink, or 50 ms ─► one frame of log-N
                                                   │
                         log-N is long ─► snapshot-(N+1), log-(N+1); N is removed

Events that are sent one by one, and those of a data frame that is replayed, wait in memory for up to `FLUSH_INTERVAL`
seconds, so a killed process may lose the last of them. A replay has no events waiting when it ends or pauses. The order
is kept whatever is lost: a sink writes no row before the events that led to it are in the log. Batches of live runs,
those of other replays, and actions of the user are written at once.

A snapshot is made between two stimuli, when the log has grown to several times the size of the last snapshot, after
`SNAPSHOT_INTERVAL` seconds, and if snapshots take at most 1/`SNAPSHOT_SHARE` of the time. It is complete before the
former one is removed.

Recovery repeats stimuli. Two kinds cannot be repeated exactly: those that a listener caused (listeners are not
recorded), and those that Ctrl-C cut short. A snapshot follows such a stimulus, so that it is never repeated. An action
that fails is expected to fail again, and the frame that follows it says so.

Sent events become entries in `EventLog.recorder`, which appends to `Journal.entries` without a call, because every
event comes there.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet, ref

import numpy as np

from cepbook.engine.snapshot.file_format import WRITTEN_BY
from cepbook.errors import CepbookError, JournalError, SnapshotError
from cepbook.interrupts import InterruptGuard
from cepbook.lang.plan.catalog import EventType
from cepbook.locks import members, survives_fork
from cepbook.session.history.event_log import UnwrittenEntries
from cepbook.session.io.output.sinks import end_all_sinks
from cepbook.session.io.source_merge import SourceBatch
from cepbook.session.journal.entry_group import CLOCK, STEPS, EntryColumn, entry_columns, pack_entries
from cepbook.session.journal.event_columns import RANKS, WHOLE, BatchWriter, as_graph, check_event, column_type
from cepbook.session.journal.journal_files import JournalFiles
from cepbook.session.journal.log_file import LogWriter

MAX_GROUP = 2048  # entries that are written together
FULL_LENGTH = 2 * MAX_GROUP  # of `Journal.entries`, where each entry is a name and a value
MAX_RUN = 131_072  # events of a replay that are written together; the last batch may exceed it
FLUSH_INTERVAL = 0.05  # seconds that entries wait at most
RETRY_INTERVAL = 1.0  # seconds until they are written again after a failure
LOG_LIMIT = 256 << 20  # bytes of a log
MIN_LOG_SIZE = 4 << 20  # bytes; a smaller log makes no snapshot due
SNAPSHOT_SHARE = 100  # snapshots take at most 1/100 of the time
SNAPSHOT_INTERVAL = 10.0  # seconds before which none is due again, because the cost of the next one is not known


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """Options of a journal: whether whatever is written is on the disk at once, and the most bytes of a log."""

    sync: bool = False
    limit: int = LOG_LIMIT
    notebook: str | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """The workbench that a journal records. `is_sound` is false if no snapshot of it can be continued.

    `snapshot` returns the workbench, and the path and size of the spill files of its feeds, which are in the directory
    of the journal. `ended` is called when the journal is closed. `lock` is held during calls.
    """

    lock: AbstractContextManager[Any]
    snapshot: Callable[[], tuple[bytes, Mapping[str, tuple[str, int]]]]
    sink_marks: Callable[[], list[Any]]
    is_sound: Callable[[], bool]
    ended: Callable[[], object]


@dataclass(slots=True)
class WaitingRun:
    """A batch of a replay that waits, with the batches that continue it in the same data frame: `count` events.

    The batch begins at `row` of `array`, the array of its times (`SourceBatch.place`).
    """

    batch: SourceBatch
    array: object
    row: int
    names: Sequence[str]
    types: Mapping[str, EventType]
    stepping: bool
    count: int

    def may_include(self, batch: SourceBatch, types: Mapping[str, EventType], stepping: bool) -> bool:
        """Return whether a batch continues the run, and the run is not too long yet."""
        place = batch.place
        return (
            self.count < MAX_RUN
            and place is not None
            and place[0] is self.array
            and place[1] == self.row + self.count
            and types is self.types
            and stepping == self.stepping
        )


class Journal(UnwrittenEntries):
    """The open journal of a workbench, made by `Workbench.journal`.

    `stimuli` counts those that were written, also before a recovery; batches that were written together count as one.
    `size` is the size of its files in bytes. ``with`` closes it at the end, and so does the end of the program. A
    journal that is closed can be recovered like any other.
    """

    def __init__(self, files: JournalFiles, subject: Subject, options: JournalOptions, stimuli: int = 0) -> None:
        super().__init__(check_at=FULL_LENGTH)
        self.path = files.path
        self.stimuli = stimuli
        self._files, self._subject, self._options = files, subject, options
        self._lock = survives_fork(threading.RLock(), rank=2)  # of frames; taken after the locks of sinks
        self._run: WaitingRun | None = None  # while it waits, `entries` is empty
        self._overdue = False  # the next stimulus flushes
        self._flushes = 0
        self._columns: dict[str, list[EntryColumn]] = {}  # of the events that become entries
        self._dictionaries: list[Any] = []  # arrays of texts, at the number that the log has for them
        self.uncertain = False  # the last stimulus may not happen again in the same way
        self._snapshot_size = 0
        self._snapshot_cost = 0.0
        self._snapshot_time = 0.0
        self._failure: Exception | None = None
        self._log: LogWriter | None = None
        self.begin_log()
        _OPEN.add(self)
        self._thread = threading.Thread(target=_keep_flushing, args=(ref(self),), name="cepbook journal", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """True while stimuli are recorded."""
        return self._log is not None

    @property
    def size(self) -> int:
        """The size of the log, the snapshot and the spill files of feeds in bytes."""
        return self._snapshot_size + (0 if self._log is None else self._log.size) + self._files.rows.size

    @property
    def failure(self) -> Exception | None:
        """Why the journal could not be written; None if it could. The next stimulus tries again."""
        return self._failure

    def _set_failure(self, failure: Exception | None) -> None:
        """Set `failure`, and let the next stimulus call `make_room` if that has something to do."""
        self._failure = failure
        at_once = failure is not None or self._run is not None or self._overdue or self._is_due()
        self.check_at = 0 if at_once else FULL_LENGTH

    @property
    def waiting(self) -> int:
        """The number of stimuli that are not in the file yet; batches that wait together count as one."""
        return len(self.entries) // 2 + (self._run is not None)

    def open_type(self, name: str, event_type: EventType) -> Callable[[Mapping[str, Any]], None] | None:
        """Note the type of events that become entries. Return `check_event` of the type."""
        self._columns[name] = entry_columns(event_type)
        return check_event(event_type)

    def record_clock(self, time: int, stepping: bool) -> None:
        """Record that the clock moves to `time`. Raises JournalError."""
        if self.depth > 1 or len(self.entries) >= self.check_at:
            self.make_room()
        self.entries.extend((STEPS if stepping else CLOCK, time))

    def record_action(self, action: str, /, **arguments: Any) -> None:
        """Record an action of the user, at once. Raises JournalError."""
        written = as_graph(arguments)
        self.make_room()
        self.flush()
        self._write({"is": "action", "do": action, "with": written})

    def record_failure(self) -> None:
        """Record that the last action has failed, so that it is expected to fail again."""
        if self.depth > 1:
            return  # a snapshot follows
        try:
            self.flush()
            self._write({"is": "failed"}, count=0)
        except JournalError:
            self.doubt()

    def record_batches(
        self,
        batches: Sequence[SourceBatch],
        columns: Sequence[Mapping[str, Sequence[Any]]],
        types: Mapping[str, EventType],
        stepping: bool,
        progress: Mapping[str, Any],
    ) -> None:
        """Record batches of a replay or a live run: the columns that statements read. Raises JournalError.

        `progress` is the progress of live sources after them (offsets, waiting events). A batch of a data frame waits
        for the batches that continue it.
        """
        alone = batches[0] if len(batches) == 1 and not progress else None
        with self._lock:
            run = self._run
            may_wait = self.depth == 1 and self._failure is None
            if may_wait and alone is not None and run is not None and run.may_include(alone, types, stepping):
                run.count += len(alone.times)
                return
        self.make_room()  # without the lock: a snapshot waits for sinks, and their thread waits for the lock
        with self._lock:
            self.flush()
            place = None if alone is None else alone.place
            if alone is not None and place is not None and all(alone.stored(name, 1) for name in columns[0]):
                self._run = WaitingRun(alone, *place, list(columns[0]), types, stepping, len(alone.times))
                self.check_at = 0
                return
        self._write_batches(batches, columns, [len(batch.times) for batch in batches], types, stepping, progress)

    def _write_batches(
        self,
        batches: Sequence[SourceBatch],
        columns: Sequence[Mapping[str, Sequence[Any]]],
        sizes: Sequence[int],
        types: Mapping[str, EventType],
        stepping: bool,
        progress: Mapping[str, Any],
    ) -> None:
        sections = []
        for batch, named, count in zip(batches, columns, sizes, strict=True):
            section = BatchWriter(batch.type_name, count)
            section.header["source"] = batch.source
            times = batch.stored(None, count)
            section.add_times(np.array(batch.times, np.int64) if times is None else times.values)
            if batch.ranks is not None:
                section.add(RANKS, WHOLE, batch.ranks)
            for name in named:
                stored = batch.stored(name, count)
                if stored is not None:
                    section.add_stored(name, stored, self._number_of)
                else:
                    section.add(name, column_type(types[batch.type_name].properties[name]), named[name])
            sections.append(section)
        header = {"is": "batches", "types": list(types), "stepping": stepping}
        if progress:
            header["progress"] = as_graph(progress)
        self._write(header, sections)

    def flush(self) -> None:
        """Write all waiting entries. Any thread may call this. Raises JournalError, and keeps them, if that fails."""
        if not self.entries and self._run is None and self.failure is None:
            return
        with InterruptGuard(lambda: None), self._lock:
            self._overdue = False
            self._flushes += 1
            try:
                self._write_waiting()
            except CepbookError as error:
                self._set_failure(error)
                raise
            except Exception as error:
                self._set_failure(error)
                text = f"the journal {self.path!r} cannot be written: {type(error).__name__}: {error}"
                raise JournalError(f"{text}\n  hint: end the journal: `cep.journaling.close()`") from error

    def hasten(self, seen: int) -> int:
        """Hasten a flush if none happened since a call returned `seen`. Return the number of flushes so far.

        At first the next stimulus is to flush. If none has come until the next call, that call flushes, and raises
        JournalError as `flush` does.
        """
        if self._flushes == seen:
            if self._overdue:
                self.flush()
            else:
                self._overdue, self.check_at = True, 0
        return self._flushes

    def _write_waiting(self) -> None:
        run, group = self._run, self.entries[:]
        if run is not None:
            columns = dict.fromkeys(run.names, ())  # without values: the batch has all columns as arrays
            self._write_batches([run.batch], [columns], [run.count], run.types, run.stepping, {})
            self._run = None
            self._set_failure(None)
        elif group:
            self._write({"is": "group"}, pack_entries(group, self._columns))
            del self.entries[: len(group)]
            self.stimuli += len(group) // 2 - 1  # `_write` has counted one
        elif self.failure is not None:  # try whether the file can be written again
            self._write({"is": "group"}, count=0)

    @contextmanager
    def stimulus(self) -> Iterator[None]:
        """Context manager for one stimulus, which is recorded within. Stimuli within one are caused by listeners."""
        self.depth += 1
        try:
            yield
        except Exception:  # the same happens when the stimulus is repeated, and nothing continues it
            if self._run is not None:
                with suppress(JournalError):  # kept in `failure`
                    self.flush()
            raise
        except BaseException:
            self.doubt()
            raise
        finally:
            self.depth -= 1
            self.settle()

    def settle(self) -> None:
        """Write a snapshot if a stimulus may not happen again in the same way, once the outermost one is over."""
        if self.uncertain and not self.depth and self.is_open and self._subject.is_sound():
            try:
                self.begin_log()
            except CepbookError as error:  # raised by the next stimulus, which does not happen then
                self._set_failure(error)

    def doubt(self) -> None:
        """Note that the stimulus under way, if any, may not happen again in the same way: a snapshot follows it."""
        if self.depth:
            self.uncertain = True

    def checkpoint(self) -> None:
        """Write a snapshot and begin a new log. Raises JournalError or SnapshotError; the journal is then as before.

        Any thread may call this. In a listener the snapshot is written when the stimulus is over.
        """
        with self._subject.lock:
            if self.depth:
                self.doubt()
            elif self._log is None:
                raise JournalError("the journal was closed")
            else:
                self.begin_log()

    def begin_log(self) -> None:
        """Write a snapshot and begin a new log, as `checkpoint` does. The lock of the workbench is held."""
        began = time.perf_counter()
        uncertain, self.uncertain = self.uncertain, False  # a doubt from now on is about the stimulus that follows
        try:
            with InterruptGuard(lambda: None):
                size = self._write_snapshot()
        except BaseException:
            self.uncertain |= uncertain
            raise
        self._snapshot_size = size
        self._snapshot_time = time.perf_counter()
        self._snapshot_cost = self._snapshot_time - began
        self._set_failure(None)

    def _write_snapshot(self) -> int:
        sinks = self._subject.sink_marks()  # before the lock: the thread that writes sinks takes it after theirs
        with self._lock:
            if self._log is not None:
                self.flush()
            spilled = self._files.rows.names()  # before the snapshot: another thread that reads a feed may add one
            try:
                data, rows = self._subject.snapshot()
            except SnapshotError as error:
                hint = "end the journal: `cep.journaling.close()`"
                raise JournalError(f"the journal needs a snapshot, and {error}\n  hint: {hint}") from error
            except OSError as error:
                hint = "make room, or end the journal: `cep.journaling.close()`"
                text = f"the rows of feeds cannot be written into {self.path!r}: {error.strerror or error}"
                raise JournalError(f"{text}\n  hint: {hint}") from error
            lengths = {name: (os.path.basename(path), size) for name, (path, size) in rows.items()}
            log = self._files.begin(
                data,
                {
                    "is": "begin",
                    "cepbook": WRITTEN_BY,
                    "notebook": self._options.notebook,
                    "stimuli": self.stimuli,
                    "sync": self._options.sync,
                    "limit": self._options.limit,
                    "sinks": as_graph(sinks),
                    "rows": lengths,
                },
                sync=self._options.sync,
            )
            former, self._log = self._log, log
            self._dictionaries = []
            if former is not None:
                with suppress(OSError):  # nobody reads it any more
                    former.close()
            self._files.remove_former()
            self._files.rows.remove(spilled - {name for name, _ in lengths.values()})
        return len(data)

    def close(self) -> None:
        """Write what waits and end the journal. The workbench goes on without it.

        Raises JournalError if that cannot be written; the journal is closed nevertheless.
        """
        with self._subject.lock:
            self._close()

    def _close(self) -> None:
        with self._lock:
            if self._log is None:
                return
            try:
                self.flush()
            except JournalError as error:
                lost = f"{self.waiting:,} stimuli" if self.waiting != 1 else "stimulus"
                reason = str(error).partition("\n")[0]
                raise JournalError(f"the journal is closed without its last {lost}: {reason}") from error
            finally:
                self._end()

    def _end(self) -> None:
        """Let go of the files. A forked process does only that: they are those of its parent."""
        log, self._log, self._run = self._log, None, None
        self.entries.clear()
        self.check_at = FULL_LENGTH
        if log is not None:
            with suppress(OSError):
                log.close()
            self._files.release()
            self._subject.ended()

    def __del__(self) -> None:
        if getattr(self, "_log", None) is not None:
            with suppress(JournalError):
                self._close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        if self.failure is not None:
            state = f"failed: {self.failure}"
        return f"Journal {self.path}: {self.stimuli + self.waiting:,} stimuli, {self.size:,} bytes, {state}"

    def make_room(self) -> None:
        """Prepare for one more stimulus: flush if that is due, and write a snapshot if one is due.

        Raises JournalError if the journal cannot be written; then the stimulus must not happen.
        """
        if self.depth > 1:
            self.doubt()  # caused by a listener, at a moment that is not known
        if len(self.entries) >= FULL_LENGTH or self._run is not None or self._overdue or self.failure is not None:
            self.flush()
        if self.depth == 1 and self._is_due() and self._subject.is_sound():
            try:
                self.begin_log()
            except JournalError:
                if self.failure is not None or self._must_snapshot():
                    raise
                self._snapshot_time = time.perf_counter()  # the log is whole: it grows until another try
                self._set_failure(None)

    def _must_snapshot(self) -> bool:
        return self.uncertain or (self._log is not None and self._log.size >= self._options.limit)

    def _is_due(self) -> bool:
        if self._must_snapshot():
            return True
        since = time.perf_counter() - self._snapshot_time
        large = self._log is not None and self._log.size >= max(MIN_LOG_SIZE, 4 * self._snapshot_size)
        return large and since >= max(SNAPSHOT_INTERVAL, SNAPSHOT_SHARE * self._snapshot_cost)

    def _number_of(self, texts: Any) -> int:
        number = next((n for n, known in enumerate(self._dictionaries) if known is texts), None)
        if number is None:
            number = len(self._dictionaries)
            self._write({"is": "dictionary", "number": number, "texts": texts.tolist()}, count=0)
            self._dictionaries.append(texts)
        return number

    def _write(self, header: dict[str, Any], batches: Sequence[BatchWriter] = (), *, count: int = 1) -> None:
        with self._lock:
            if self._log is None:
                raise JournalError("the journal was closed")
            try:
                heads = [batch.header for batch in batches]
                self._log.write({**header, "parts": heads}, [block for batch in batches for block in batch.blocks])
            except JournalError as error:
                self._set_failure(error)
                raise
            self._set_failure(None)
            self.stimuli += count


_OPEN: WeakSet[Journal] = WeakSet()


@atexit.register
def _close_all() -> None:
    for end in (
        end_all_sinks,
        *(journal._close for journal in members(_OPEN)),
    ):  # a listener may hold the lock for ever
        try:
            end()
        except JournalError as error:
            sys.stderr.write(f"cepbook: {error}\n")


def _end_all_in_child() -> None:
    for journal in members(_OPEN):
        journal._end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_end_all_in_child)


def _keep_flushing(journal: ref[Journal]) -> None:
    """Hasten the flush of waiting entries again and again, as long as the journal is open.

    The next stimulus flushes if one comes soon, because threads that take turns cost more than the writing.
    """
    pause = FLUSH_INTERVAL / 3
    seen = -1
    while True:
        time.sleep(pause)
        open_journal = journal()
        if open_journal is None or not open_journal.is_open:
            return
        pause = FLUSH_INTERVAL / 3
        if open_journal.waiting:
            try:
                seen = open_journal.hasten(seen)
            except CepbookError:  # kept in `failure`, and raised by the next stimulus
                pause = RETRY_INTERVAL
        del open_journal
