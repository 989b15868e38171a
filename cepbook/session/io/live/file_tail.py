"""The source of lines that another program appends to a file, also over rotations and restarts of the kernel.

A file is recognized by some bytes before the place that was read last. Where they are gone, the file was truncated or
written anew, and a rotated copy beside it (``log.1``, ``log-20240102``) has the lines that were not read yet.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

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

SAMPLE = 256  # bytes by which a file is recognized
OPEN = 100  # lines that a record of CSV may have
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

    A file that replaces this one (log rotation) is read when this one is used up. Of a file that is truncated or
    written anew the rest is read from the rotated copy beside it, if there is one, and then the file from its start;
    `Live` reports it. The place in the file is saved with the workbench: a loaded workbench continues there, also in a
    file that was rotated since. Raises UsageError if there is no such file, and for an encoding whose lines do not end
    with the byte 10.
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
            for link in file.go_to(*offsets[""]):
                yield link
        elif not begin:
            file.go_to_end()
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


class _File:
    """A growing file, with its column names if it is CSV.

    `offset` is the place behind the last item: the end of its line, and a sample of the file with its own place.
    """

    def __init__(self, name: str, form: TextFormat, longest: int) -> None:
        self._name, self._form, self._longest = name, form, longest
        self._as_csv = name.lower().endswith(".csv")
        self._columns: list[str] | None = None
        self._former: list[str] | None = None  # the columns before the file was truncated or replaced
        self._open(name)

    def _open(self, name: str, at: int = 0, sample: tuple[int, bytes] = (0, b"")) -> None:
        self._descriptor = os.open(name, os.O_RDONLY)
        self._start_at(at, sample)

    def _start_at(self, at: int, sample: tuple[int, bytes]) -> None:
        self._at, self._sample = at, sample
        self._splitter = LineSplitter(self._longest)
        self._splitter.taken = at
        self._former, self._columns = self._columns or self._former, None
        self._begun: list[str] = []  # the lines of a record of CSV that goes on
        for line in os.pread(self._descriptor, READ, 0).split(b"\n") if at and self._as_csv else ():
            if self._columns is None:
                list(self._items_of(line))

    @property
    def offset(self) -> tuple[int, int, bytes]:
        return self._splitter.taken, *self._sample

    def go_to_end(self) -> None:
        """Skip to the end of the last ended line."""
        at = os.fstat(self._descriptor).st_size
        while at:
            start = max(0, at - READ)
            ended = os.pread(self._descriptor, at - start, start).rfind(b"\n") + 1
            at = start + ended
            if ended:
                break
        start = max(0, at - SAMPLE)
        self._start_at(at, (start, os.pread(self._descriptor, at - start, start)))

    def go_to(self, at: int, start: int, sample: bytes) -> Iterator[Link]:
        """Go to a place that was saved, in this file or in a rotated one."""
        for name in (self._name, *_rotated(self._name)):
            self.close()
            self._open(name, 0, (start, sample))
            if self._is_same and os.fstat(self._descriptor).st_size >= at:
                self._start_at(at, (start, sample))
                return
        self.close()
        self._open(self._name)
        yield Link(False, f"the saved place is in no file: {self._name!r} is read from its start")

    @property
    def _is_same(self) -> bool:
        """False if the file does not have the bytes any more that were read."""
        start, sample = self._sample
        return os.pread(self._descriptor, len(sample), start) == sample

    def items(self) -> Iterator[Located | None]:
        """Yield the items of new, ended lines, and None after each read that ends none."""
        while data := os.pread(self._descriptor, READ, self._at):
            if not self._is_same:  # the data belongs to other lines; `follow` finds out
                return
            self._at += len(data)
            sample = data[-SAMPLE:]
            self._sample = self._at - len(sample), sample
            for line in self._splitter.lines(data):
                for item in (line,) if isinstance(line, Malformed) else self._items_of(line):
                    yield Located(item, (self._splitter.taken, *self._sample))
            if self._splitter.rest >= READ:
                yield None

    def _items_of(self, line: bytes) -> Iterator[Item]:
        """Yield the items that a line ends: one, or none; several if a quote turns out not to end."""
        if line.startswith(b"\0"):  # written behind the end of a truncated file
            line = line.lstrip(b"\0")
        text = text_of(line)
        try:
            text = line.decode(self._form.marked)
            if self._as_csv:
                yield from self._records(text)
                return
            row = self._form.object(text)
            if row is not None:
                yield FileFields(row)
            return
        except UnicodeDecodeError as error:
            reason = self._form.wrong_encoding(error)
        except ValueError as error:
            reason = str(error)
        if self._as_csv and self._columns is None:
            raise EventError(f"{self._name!r}, the line with the names of the columns: {reason}")
        yield from self._give_up()
        yield Malformed(text.rstrip(), reason)

    def _records(self, line: str) -> Iterator[Item]:
        form, begun = self._form, self._begun
        if not begun and form.is_no_record(line):
            return
        fields = fields_of('"' + line if begun else line, form)
        if begun or fields is None:
            begun.append(line)
            if fields is None:
                yield from self._give_up() if len(begun) > OPEN else ()
                return
            line, self._begun = "\n".join(begun), []
            fields = fields_of(line, form)
        if self._columns is None:
            if not self._former or not set(self._former).isdisjoint(fields or ()):
                self._columns = columns_of(line, form)
                return
            self._columns = self._former  # the program that writes has written the names once, at its own start
        wrong = wrong_fields(fields, self._columns)
        if fields is None or wrong is not None:
            yield Malformed(line.rstrip(), wrong or "")
        else:
            yield TextFields(zip(self._columns, (None if one in form.na else one for one in fields), strict=True))

    def _give_up(self) -> Iterator[Item]:
        """Reject the line that opens a quote, so that it does not cost the lines behind it."""
        begun, self._begun = self._begun, []
        for line in begun[:1]:
            yield Malformed(line.rstrip(), OPEN_QUOTE)
        for line in begun[1:]:
            yield from self._records(line)

    def follow(self) -> Iterator[Item | Link]:
        """Change over to the copy of a truncated file, and to the file that replaces this one if it is used up."""
        status = os.fstat(self._descriptor)
        if status.st_size < self._at or not self._is_same:
            copy = next(filter(self._is_copy, _rotated(self._name)), None)
            if copy is None:
                yield from self._unended("the file was truncated in this line")
                yield Link(False, f"truncated or written anew: lines after byte {self._at:,} may be lost")
                self._start_at(0, (0, b""))
                return
            yield Link(False, f"truncated: the rest is read from {copy!r}")
            descriptor = os.open(copy, os.O_RDONLY)
            os.close(self._descriptor)
            self._descriptor = descriptor
            return
        try:
            current = os.stat(self._name)
        except OSError:
            return  # until it exists again
        if os.path.samestat(current, status) or status.st_size > self._at:  # first the rest of this file
            return
        try:
            following = self._following(status, current)
            descriptor = os.open(following, os.O_RDONLY)
        except OSError:
            return
        yield from self._unended("the file was replaced in this line")
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._start_at(0, (0, b""))

    def _unended(self, reason: str) -> Iterator[Item]:
        while self._begun:
            yield from self._give_up()
        unended = self._splitter.unended(reason)
        if unended is not None:
            yield unended

    def _is_copy(self, name: str) -> bool:
        start, sample = self._sample
        with open(name, "rb") as file:
            return (
                bool(sample)
                and os.fstat(file.fileno()).st_size >= self._at
                and os.pread(file.fileno(), len(sample), start) == sample
            )

    def _following(self, status: os.stat_result, current: os.stat_result) -> str:
        """Return the oldest file that was written after this one: files may be rotated twice between two looks."""
        later = [
            (other.st_mtime_ns, name)
            for name in _rotated(self._name)
            if (other := os.stat(name)).st_mtime_ns > status.st_mtime_ns
            and not os.path.samestat(other, status)
            and not os.path.samestat(other, current)
            and not self._is_copy(name)
        ]
        return min(later)[1] if later else self._name

    def close(self) -> None:
        os.close(self._descriptor)


def _rotated(name: str) -> list[str]:
    """Return the rotated files of `name` beside it, the newest first."""
    path = Path(name)
    beside = [
        one
        for one in path.parent.iterdir()
        if one.name.startswith(path.name) and ROTATED.fullmatch(one.name, len(path.name)) and one.is_file()
    ]
    return [str(one) for one in sorted(beside, key=lambda one: one.stat().st_mtime_ns, reverse=True)]
