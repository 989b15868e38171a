"""The source of lines that another program appends to a file, also over rotations and restarts of the kernel.

The source remembers the last bytes that it has read, and their position: the *sample*. If the file does not have the
sample any more, it was truncated or written anew. The source then looks for a rotated copy that has the sample
(``log.1``, ``log-20240102``), reads the rest of it, and continues with the file from its start. If the name belongs to
another file, the source reads the former file until nothing has been added for some looks, and then the file that was
written next. A rotated file that is older than the one being read is never read, also if it is touched later.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cepbook.descriptors import read_at
from cepbook.errors import EventError, UsageError
from cepbook.session.io.csv_records import OPEN_QUOTE, columns_of, fields_of, wrong_fields
from cepbook.session.io.live.live_sources import (
    READ,
    Item,
    LineSplitter,
    Link,
    Located,
    Malformed,
    Offsets,
    Period,
    Sleep,
    Source,
    seconds_of,
    text_of,
)
from cepbook.session.io.text_files import LONGEST, FileFields, TextFields, TextFormat, text_format

SAMPLE = 256  # bytes by which the place in a file is recognized
BEGINNING = 4096  # bytes by which a rotated file is recognized
MAX_RECORD_LINES = 100
QUIET = 5  # looks without new data before a replaced file counts as used up: its writer may not know of the new one yet
ROTATED = re.compile(r"[.-]\d[\d.-]*")  # behind the name of a file


def tail(
    path: str | os.PathLike[str],
    *,
    begin: bool = False,
    every: Period = "200 msec",
    longest: int = LONGEST,
    sep: str | None = None,
    encoding: str | None = None,
    comment: str | None = None,
    na: str | Iterable[str] = (),
    sleep: Sleep = asyncio.sleep,
) -> Source:
    """Yield the lines that are appended to a JSON-lines or CSV file; with `begin` also the existing ones.

    A line counts once it is ended. The first line of a CSV file names the columns. Values are read as in a replay of
    the file, with the same options `sep`, `encoding`, `comment` and `na`; `Workbench.live` converts texts to the types
    of the properties. A line of more than `longest` bytes is malformed, and so is one of CSV with another number of
    fields than columns.

    A file that replaces this one (log rotation) is read when nothing has been added to this one for five looks. Of a
    file that is truncated or written anew the rest is read from the rotated copy beside it, if there is one, and then
    the file from its start; `Live` reports it, and a file that is gone. The place in the file is saved with the
    workbench: a loaded workbench continues there, also in a file that was rotated since. The source fails with
    UsageError if there is no such file when it begins. Raises UsageError for an encoding whose lines do not end with
    the byte 10.
    """
    name, form = os.path.abspath(os.fspath(path)), text_format(sep, encoding, comment, na)
    if "\n".encode(form.encoding) != b"\n":
        raise UsageError(f"the lines of a growing file in {form.encoding} cannot be told apart")
    pause = seconds_of(every) or 0.0
    return Source(f"tail {name}", lambda offsets: _tail(name, form, begin, pause, longest, sleep, offsets))


async def _tail(
    name: str, form: TextFormat, begin: bool, pause: float, longest: int, sleep: Sleep, offsets: Offsets
) -> AsyncIterator[Any]:
    if not os.path.isfile(name):
        raise UsageError(f"there is no file {name!r}")
    file = _File(name, form, longest)
    try:
        if offsets:
            for link in file.seek(*offsets[""]):
                yield link
        elif not begin:
            file.seek_to_end()
        yield Located(None, file.offset)
        while True:
            for item in file.items():
                if item is None:
                    await asyncio.sleep(0)
                else:
                    yield item
            await sleep(pause)
            for change in file.follow():
                yield change
    finally:
        file.close()


class _OpenLine(NamedTuple):
    """A line of a record of CSV that goes on, and the bytes of the file that it has."""

    text: str
    start: int
    end: int


class _File:
    """A growing file, with its column names if it is CSV.

    `offset` is the place behind the last item: the end of its line, the position of the sample, and the sample.
    """

    def __init__(self, name: str, form: TextFormat, longest: int) -> None:
        self._name, self._form, self._longest = name, form, longest
        self._as_csv = name.lower().endswith(".csv")
        self._columns: list[str] | None = None
        self._former: list[str] | None = None  # the columns before the file was truncated or replaced
        self._descriptor: int | None = None
        self._earlier: dict[int, bytes] = {}  # by inode: how rotated files begin that are not to be read
        self._open(name)

    def _open(self, name: str, at: int = 0, sample: tuple[int, bytes] = (0, b"")) -> None:
        self._change_to(name)
        self._reset_to(at, sample)

    def _change_to(self, name: str) -> None:
        """Read another file from now on. Raises OSError, and then the former one stays open."""
        descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        if self._descriptor is not None:
            self._earlier[self._status.st_ino] = self._read(0, BEGINNING)
        self.close()
        self._descriptor = descriptor
        self._quiet = 0
        for path, status in _rotated(self._name):
            if name == self._name or status.st_mtime_ns <= self._status.st_mtime_ns:
                with suppress(OSError):
                    self._earlier[status.st_ino] = _beginning(path)

    def _is_earlier(self, name: str, status: os.stat_result) -> bool:
        """True for a file that was read, or was older than one that was read. Another file may have its inode."""
        return self._earlier.get(status.st_ino, b"") == _beginning(name) != b""

    def _reset_to(self, at: int, sample: tuple[int, bytes]) -> None:
        self._read_to, self._sample = at, sample
        self._splitter = LineSplitter(self._longest)
        self._splitter.taken = at
        self._former, self._columns = self._columns or self._former, None
        self._open_lines: list[_OpenLine] = []
        for line in self._read(0).split(b"\n") if at and self._as_csv else ():
            if self._columns is None:
                list(self._items_of(line, 0))

    def _read(self, at: int, size: int = READ) -> bytes:
        assert self._descriptor is not None
        return read_at(self._descriptor, size, at)

    @property
    def _status(self) -> os.stat_result:
        assert self._descriptor is not None
        return os.fstat(self._descriptor)

    @property
    def offset(self) -> tuple[int, int, bytes]:
        return self._splitter.taken, *self._sample

    def seek_to_end(self) -> None:
        """Skip to the end of the last ended line."""
        at = self._status.st_size
        while at:
            start = max(0, at - READ)
            ended = self._read(start, at - start).rfind(b"\n") + 1
            at = start + ended
            if ended:
                break
        start = max(0, at - SAMPLE)
        self._reset_to(at, (start, self._read(start, at - start)))

    def seek(self, at: int, start: int, sample: bytes) -> Iterator[Link]:
        """Go to a place that was saved, in this file or in a rotated one."""
        for name in (self._name, *(path for path, _ in _rotated(self._name))):
            if _has(name, start, sample, at):
                with suppress(OSError):
                    self._open(name, at, (start, sample))
                    return
        self._open(self._name)
        yield Link(False, f"the saved place is in no file: {self._name!r} is read from its start")

    @property
    def _is_same(self) -> bool:
        """False if the file does not have the sample any more."""
        start, sample = self._sample
        return self._read(start, len(sample)) == sample

    def items(self) -> Iterator[Located | None]:
        """Yield the items of new, ended lines, and None after a read without a line end."""
        while data := self._read(self._read_to):
            if not self._is_same:  # the data belongs to other lines; `follow` finds out
                return
            self._quiet = 0
            self._read_to += len(data)
            sample = data[-SAMPLE:]
            self._sample = self._read_to - len(sample), sample
            for line in self._splitter.lines(data):
                end = self._splitter.taken
                if isinstance(line, Malformed):
                    yield self._located(line, end)
                else:
                    yield from self._items_of(line, end)
            if self._splitter.rest >= READ:
                yield None

    def _located(self, item: Item, end: int) -> Located:
        """Return an item with the place behind it, the end of its line. The place never is behind an open line."""
        return Located(item, (self._open_lines[0].start if self._open_lines else end, *self._sample))

    def _items_of(self, line: bytes, end: int) -> Iterator[Located]:
        """Yield the items that a line ends: one, or none; several if a quote turns out not to end."""
        start = end - len(line) - 1
        if line.startswith(b"\0"):  # written behind the end of a truncated file
            line = line.lstrip(b"\0")
        text = text_of(line)
        try:
            text = line.decode(self._form.marked)
            if self._as_csv:
                yield from self._records(_OpenLine(text, start, end))
                return
            row = self._form.object(text)
            if row is not None:
                yield self._located(FileFields(row), end)
            return
        except UnicodeDecodeError as error:
            reason = self._form.wrong_encoding(error)
        except ValueError as error:
            reason = str(error)
        if self._as_csv and self._columns is None:
            raise EventError(f"{self._name!r}, the line with the names of the columns: {reason}")
        yield from self._reject_open_quote()
        yield self._located(Malformed(text.rstrip(), reason), end)

    def _records(self, line: _OpenLine) -> Iterator[Located]:
        """Yield the records that a line of CSV ends."""
        form, text, open_lines = self._form, line.text, self._open_lines
        if not open_lines and form.is_no_record(text):
            return
        fields = fields_of('"' + text if open_lines else text, form)  # it ends a quoted field as if it began in one
        if open_lines or fields is None:
            open_lines.append(line)
            if fields is None:
                yield from self._reject_open_quote() if len(open_lines) > MAX_RECORD_LINES else ()
                return
            text, self._open_lines = "\n".join(one.text for one in open_lines), []
            fields = fields_of(text, form)  # None if the line has ended one quote and opened another
        if self._columns is None:
            if not self._former or not set(self._former).isdisjoint(fields or ()):
                self._columns = columns_of(text, form)
                return
            self._columns = self._former  # the program that writes has written the names once, at its own start
        wrong = wrong_fields(fields, self._columns)
        if fields is None or wrong is not None:
            yield self._located(Malformed(text.rstrip(), wrong or ""), line.end)
        else:
            values = (None if one in form.na else one for one in fields)
            yield self._located(TextFields(zip(self._columns, values, strict=True)), line.end)

    def _reject_open_quote(self) -> Iterator[Located]:
        """Reject the line that opens a quote, so that it does not cost the lines behind it."""
        open_lines, self._open_lines = self._open_lines, []
        for line in open_lines[:1]:
            yield self._located(Malformed(line.text.rstrip(), OPEN_QUOTE), line.end)
        for line in open_lines[1:]:
            yield from self._records(line)

    def follow(self) -> Iterator[Located | Item | Link]:
        """Change over to the copy of a truncated file, and to the file that replaces this one if it is used up."""
        status = self._status
        if status.st_size < self._read_to or not self._is_same:
            yield from self._follow_truncation()
            return
        current = _regular(self._name)
        if status.st_size > self._read_to or (current is not None and os.path.samestat(current, status)):
            self._quiet = 0
            return
        self._quiet += 1
        if current is None:
            if self._quiet == QUIET:
                yield Link(False, f"there is no file {self._name!r} any more: a new one is waited for")
            return
        if self._quiet >= QUIET:
            try:
                self._change_to(self._following(status, current))
            except OSError as error:  # it was renamed in this moment, and the next look finds it, or nobody may read it
                if self._quiet == 2 * QUIET:
                    yield Link(False, f"the new file {self._name!r} cannot be opened yet: {error.strerror}")
                return
            yield from self._reject_open_lines("the file was replaced in this line")
            self._reset_to(0, (0, b""))

    def _follow_truncation(self) -> Iterator[Located | Item | Link]:
        start, sample = self._sample
        copies = (name for name, _ in _rotated(self._name) if sample and _has(name, start, sample, self._read_to))
        copy = next(copies, None)
        if copy is None:
            yield from self._reject_open_lines("the file was truncated in this line")
            yield Link(False, f"truncated or written anew: lines after byte {self._read_to:,} may be lost")
            self._reset_to(0, (0, b""))
            return
        with suppress(OSError):  # as in `follow`
            self._change_to(copy)
            yield Link(False, f"truncated: the rest is read from {copy!r}")

    def _reject_open_lines(self, reason: str) -> Iterator[Located | Item]:
        while self._open_lines:
            yield from self._reject_open_quote()
        unended = self._splitter.unended(reason)
        if unended is not None:
            yield unended

    def _following(self, status: os.stat_result, current: os.stat_result) -> str:
        """Return the oldest file that was written after this one: files may be rotated twice between two looks."""
        start, sample = self._sample
        later = [
            (other.st_mtime_ns, name)
            for name, other in _rotated(self._name)
            if other.st_mtime_ns > status.st_mtime_ns
            and not os.path.samestat(other, status)
            and not os.path.samestat(other, current)
            and not self._is_earlier(name, other)
            and not (sample and _has(name, start, sample, self._read_to))
        ]
        return min(later)[1] if later else self._name

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _regular(name: str) -> os.stat_result | None:
    """Return the status of a file; None if there is none, or a directory or a pipe, whose opening might never end."""
    with suppress(OSError):
        status = os.stat(name)
        return status if stat.S_ISREG(status.st_mode) else None
    return None


def _rotated(name: str) -> list[tuple[str, os.stat_result]]:
    """Return the rotated files of `name` beside it, the newest first."""
    path, beside = Path(name), []
    with suppress(OSError):  # the folder is gone
        for one in path.parent.iterdir():
            if one.name.startswith(path.name) and ROTATED.fullmatch(one.name, len(path.name)):
                with suppress(OSError):  # it was renamed or removed in this moment
                    if one.is_file():
                        beside.append((str(one), one.stat()))
    return sorted(beside, key=lambda entry: entry[1].st_mtime_ns, reverse=True)


def _beginning(name: str) -> bytes:
    with open(name, "rb") as file:
        return file.read(BEGINNING)


def _has(name: str, start: int, sample: bytes, size: int) -> bool:
    """True if a file has at least `size` bytes, with `sample` at `start`; False if it cannot be read."""
    try:
        with open(name, "rb") as file:
            return os.fstat(file.fileno()).st_size >= size and read_at(file.fileno(), len(sample), start) == sample
    except OSError:
        return False
