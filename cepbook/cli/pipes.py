"""Pipes of ``cepbook run``: events arrive on the standard input, rows go to the standard output as they are made."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any

from cepbook.errors import EventError
from cepbook.session import Workbench
from cepbook.session.io.output.sinks import FileSink, SinkError
from cepbook.session.io.sources import SourcePause
from cepbook.session.io.text_files import DEFAULT, TextFormat
from cepbook.session.replay.replay import Replay

PIPE = "-"  # instead of a file name
PAUSE = 0.2  # seconds between two checks whether to go on waiting for a silent pipe
CHUNK = 65_536  # bytes read from a pipe at once


class StandardOutput:
    """Rows for the standard output. `unread`: the reader has closed it.

    Then the run ends, unless it also writes files.
    """

    def __init__(self) -> None:
        self.sinks: list[FileSink] = []
        self.unread = False
        self.came = 0  # lines with events that were read from a pipe
        self._closed = False
        self._replay: Replay[Workbench] | None = None
        self._others = False

    def begin(self, replay: Replay[Workbench], sinks: list[FileSink], others: bool) -> None:
        """Send the rows of `replay` to `sinks`; `others`: files are written as well."""
        self._replay, self.sinks, self._others = replay, sinks, others

    @property
    def ended(self) -> bool:
        """True if no more events are needed."""
        stopped = self._replay is not None and self._replay.interrupted
        return stopped or self._closed or (self.unread and not self._others)

    def take_rest(self, *, alone: bool) -> None:
        """After Ctrl-C, read nothing more, and send the events read from the pipe if it is the only source."""
        self._closed = True
        if self._replay is not None and self.came and alone and not self.unread:
            left = self.came - self._replay.progress.events - self._replay.progress.late
            with suppress(KeyboardInterrupt):
                if left > 0:
                    self._replay.step(left)

    def flush(self) -> None:
        for sink in self.sinks:
            if sink.error is None:
                with suppress(SinkError):  # kept by the sink; `close` tells
                    sink.flush()
                self._look(sink)

    def close(self) -> None:
        """Write buffered rows for the last time. Errors: SinkError if that failed although the output is read."""
        for sink in self.sinks:
            try:
                sink.close()
            except SinkError:
                self._look(sink)
                if not self.unread:
                    raise

    def _look(self, sink: FileSink) -> None:
        if isinstance(sink.error, BrokenPipeError):
            self.unread = True
            if self._replay is not None and not self._others:
                self._replay.stop()


def events_of(
    pipe: IO[str], out: StandardOutput, form: TextFormat = DEFAULT, *, rejecting: bool = False
) -> Iterator[dict[str, Any] | str | SourcePause]:
    """Return the objects in the lines of a pipe, until it ends or no more are needed.

    With `rejecting` a line that is no object is returned as it is, for the file of rejected events.
    """
    number = 0
    for line in _lines(pipe, out):
        if line is None:
            yield SourcePause.YET
            continue
        number += 1
        try:
            row = form.object(line if isinstance(line, str) else line.decode(form.marked))
        except ValueError as error:
            if rejecting:
                yield line.rstrip("\r\n") if isinstance(line, str) else line.decode("utf-8", "backslashreplace")
                continue
            reason = form.wrong_encoding(error) if isinstance(error, UnicodeDecodeError) else str(error)
            raise EventError(f"standard input, line {number}: {reason}") from None
        if row is not None:
            yield row


def _lines(pipe: IO[str], out: StandardOutput) -> Iterator[str | bytes | None]:
    """Return lines as they arrive; None before waiting for the next one, so that earlier rows are written first."""
    try:
        number = pipe.fileno()
        select.select([number], [], [], 0)
    except (OSError, ValueError):  # Windows polls no pipes
        yield from getattr(pipe, "buffer", pipe)
        return
    rest = b""
    while not out.ended:
        if not select.select([number], [], [], 0)[0]:
            yield None
            out.flush()
            while not (out.ended or select.select([number], [], [], PAUSE)[0]):
                pass
            continue
        data = os.read(number, CHUNK)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        out.came += sum(1 for line in lines if line.strip())
        yield from lines
    if rest and not out.ended:
        out.came += bool(rest.strip())
        yield rest
