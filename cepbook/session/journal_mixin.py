"""The methods of `Workbench` for a session that outlives its process: the journal, and recovery from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from io import BytesIO
from typing import Any

from cepbook.engine.delivery.delta import Sink
from cepbook.engine.snapshot.file_format import SnapshotReader
from cepbook.engine.snapshot.runtime_snapshot import event_type_from, function_from, type_from
from cepbook.errors import JournalError, SnapshotError, UsageError
from cepbook.feed_segments import ANONYMOUS
from cepbook.lang.syntax.source_text import SourceText
from cepbook.lang.types import Type
from cepbook.session.core import saved_state
from cepbook.session.inspect.fire_and_forget import repeat_query
from cepbook.session.io.output.sinks import FileSink, Successor
from cepbook.session.journal.event_columns import from_graph
from cepbook.session.journal.journal import LOG_LIMIT, Journal, JournalOptions, Subject
from cepbook.session.journal.journal_files import JournalFiles, is_journal
from cepbook.session.journal.recovery import LogRepeater, Recovered, functions_needed, read_log
from cepbook.session.journal.sink_recovery import SinkRecovery
from cepbook.session.replay_mixin import ReplayMixin


class JournalMixin(ReplayMixin):
    """Every stimulus recorded before it happens, and the workbench of a killed process from that."""

    @property
    def journaling(self) -> Journal | None:
        """The open journal; None if there is none."""
        return self._engine.journal

    def journal(
        self, path: str | os.PathLike[str], *, sync: bool = False, limit: int = LOG_LIMIT, replace: bool = False
    ) -> Journal:
        """Record everything that happens from now on in the directory `path`, so that `recover` can repeat it.

        Deployments, events, replays, live events, the clock, variables, queries that change rows, registered functions
        (by name) and sinks are recorded before they take effect. The journal begins with a snapshot, and a new one
        replaces the log from time to time; the log is never longer than `limit` bytes. Events that are sent one by
        one, and those of a frame that is replayed, are written together after at most 50 ms. With `sync` whatever is
        written is on the disk, otherwise with the operating system: it survives the process, not a power cut.

        Calls of `Workbench.runtime` are not recorded. Another journal of the workbench is closed. Raises UsageError if
        `path` holds a journal already (unless `replace`) or another process writes it, SnapshotError if the workbench
        cannot be saved.
        """
        if limit < 1:
            raise UsageError(f"the limit of a journal is a number of bytes, not {limit}")
        with self._lock:
            target = os.path.abspath(os.path.expanduser(os.fspath(path)))
            if self.journaling is not None and self.journaling.path == target:
                raise UsageError(f"{target!r} is the journal of this workbench already")
            if is_journal(target) and not replace:
                raise UsageError(
                    f"{target!r} holds a journal already\n"
                    "  hint: `cep.recover(path)` goes on from it; `replace=True` begins anew"
                )
            return self._begin_journal(JournalFiles(path), JournalOptions(sync, limit, current_notebook()))

    def _begin_journal(self, files: JournalFiles, options: JournalOptions, stimuli: int = 0) -> Journal:
        if self.journaling is not None:
            self.journaling.close()
        subject = Subject(
            self._lock,
            lambda: saved_state.snapshot_with_files(self._engine, self._start, self._cells),
            lambda: self._engine.sink_marks(),
            lambda: not self.runtime.turn.broken,
            lambda: self._use_journal(None),
        )
        self._engine.spill_into(files.rows)
        try:
            journal = Journal(files, subject, options, stimuli)
        except BaseException:
            self._use_journal(None)
            files.release()
            raise
        self._use_journal(journal)
        return journal

    def _use_journal(self, journal: Journal | None) -> None:
        self._engine.use_journal(journal)
        if journal is None:
            self._engine.spill_into(ANONYMOUS)
        self._checks = {}  # they record

    def recover(self, path: str | os.PathLike[str], *, cut: bool = False, sinks: bool = True) -> Recovered:
        """Become the workbench whose journal is in the directory `path`, as of the last stimulus that was written.

        Statements, state, clock, variables and feeds are those of that moment. Sinks that were open continue:
        their rows are compared with those that are delivered again, and only missing ones are added. `sinks=False`
        leaves files alone. The journal goes on in the same directory. Python functions and listeners must be registered
        again, functions before this call. `cut` leaves out what follows a damage.

        Raises UsageError if there is no journal or another process writes it, SnapshotError for functions that are not
        registered and for an action that worked and fails now, JournalError for a damaged log, SinkError for a file
        with other rows. Then nothing has changed.
        """
        target = os.path.abspath(os.path.expanduser(os.fspath(path)))
        if not is_journal(target):
            raise UsageError(f"{target!r} holds no journal\n  hint: `cep.journal(path)` begins one")
        with self._lock:
            if self.journaling is not None and self.journaling.path == target:
                raise UsageError(
                    f"{target!r} is the journal of this workbench\n  hint: close it: cep.journaling.close()"
                )
            files = JournalFiles(target)
            try:
                return self._recovered(files, cut=cut, sinks=sinks)
            except BaseException:
                files.release()
                raise

    def _recovered(self, files: JournalFiles, *, cut: bool, sinks: bool) -> Recovered:
        data = saved_state.read_file(files.snapshot_path)
        frames, behind = read_log(files.log_path, cut=cut)
        names = functions_needed(data, frames, self._functions)
        twin = type(self)(feed_capacity=self._capacity)
        twin._functions = {name: self._functions[name] for name in names}
        try:
            twin._load_snapshot(SnapshotReader(BytesIO(data)))
        except SnapshotError as error:
            raise SnapshotError(f"`{files.snapshot_path}`: {error}") from error
        interrupted = SinkRecovery(twin._attach_later)
        twin._engine.spill_into(files.rows)
        if not frames or frames[0][0].get("is") != "begin":
            raise JournalError(f"the journal {files.log_path!r} is damaged: its first frame is missing")
        header = frames[0][0]
        for mark in from_graph(header["sinks"]):
            if "lost" in mark:
                interrupted.lost.append(mark["lost"])
            else:
                interrupted.open(**mark)
        twin._take_rows(files, header.get("rows", {}), cut=cut)  # journals of earlier versions have none
        repeater = twin._repeater(self._functions, interrupted)
        repeater.repeat(frames)
        if sinks:
            interrupted.compare()
        with self._engine.manual_call():
            self._load_snapshot(SnapshotReader(BytesIO(twin._snapshot(feeds=True))))
            for name in self.runtime.statements:
                self._engine.feed(name).spill_file = twin._engine.feed(name).spill_file
            again = interrupted.complete(self._continued) if sinks else []
            self._engine.file_sinks += again
            self._engine.recovered_sinks = again
            stimuli = header["stimuli"] + repeater.stimuli
            options = JournalOptions(header["sync"], header["limit"], current_notebook())
            self._begin_journal(files, options, stimuli)
        count = sum(statement.kind != "create variable" for statement in self.runtime.statements.values())
        open_sinks, lost = tuple(again), tuple(interrupted.lost)
        clock = str(self.clock)
        missing = saved_state.missing_rows_text(self._engine)
        return Recovered(
            files.path, repeater.stimuli, behind, clock, count, open_sinks, repeater.failures, lost, missing
        )

    def _take_rows(self, files: JournalFiles, lengths: Mapping[str, tuple[str, int]], *, cut: bool) -> None:
        """Continue with the spill files of a snapshot. With `cut` damaged ones are left out."""
        for statement, (name, size) in lengths.items():
            feed = self._engine.feed(statement)
            with suppress(JournalError) if cut else nullcontext():
                feed.spill_file = files.rows.reopened(name, size, feed.dropped)

    def _attach_later(self, name: str, sink: Sink, successor: Successor) -> Callable[[], None]:
        return self._engine.attach_sink(name, sink, successor, later=True)

    def _continued(self, mark: Mapping[str, Any], columns: Mapping[str, Type], number: int) -> FileSink:
        return FileSink(
            partial(self._attach_later, mark["name"]),
            {name: type_from(data) for name, data in mark["types"]},
            columns,
            self._lock,
            mark["name"],
            mark["path"],
            mark["table"],
            **mark["options"],
            hooks=self._engine,
            resumed=number,
        )

    def _repeater(self, functions: Mapping[str, tuple[Callable[..., Any], Any]], sinks: SinkRecovery) -> LogRepeater:
        def reset() -> None:
            sinks.lose_all()
            workbench.reset()

        def run(epl: str, dialect: str, settings: Mapping[str, Any], cell: str | None) -> None:
            workbench.run(SourceText(epl, dialect, settings), cell=cell)

        def register(name: str, type: Any) -> None:
            workbench._register(name, functions[name][0], function_from(type))

        workbench: Any = self  # the methods of the classes above
        actions: dict[str, Callable[..., object]] = {
            name: getattr(self, name) for name in ("drop", "rewind", "set", "end_partition", "replace_rows")
        }
        actions |= {
            "run": run,
            "register_function": register,
            "define": lambda types: workbench._define([event_type_from(data) for data in types]),
            "send_together": lambda events: self.runtime.send_together(list(map(tuple, events))),
            "query": lambda **arguments: repeat_query(self.runtime, **arguments),
            "reach": lambda **progress: self._engine.repeat_progress(**progress),
            "move_waiting": lambda **arguments: self._engine.buffers.move(**arguments),
            "reset": reset,
            "set_state_limit": lambda limit: setattr(workbench, "state_limit", limit),
            "sink": sinks.open,
            "close_sink": sinks.closing,
            "sink_closed": sinks.closed,
        }
        return LogRepeater(
            lambda name, event: self.runtime.send(name, event),
            lambda time, stepping: self.runtime.advance(time, stepping=stepping),
            lambda types: self._engine.feeder(types),
            actions,
        )


def current_notebook() -> str | None:
    """Return the path of the notebook whose kernel this process is; None if it is none."""
    return os.environ.get("JPY_SESSION_NAME")
