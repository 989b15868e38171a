"""The file of a log: frames with a length and a checksum, so that the end which a killed process left torn is known.

::

    cepbook journal 1\\n
    <length, 4 bytes> <CRC-32, 4 bytes> <length of the header, 4 bytes> <header> <block> <block> …       one frame

Numbers are little-endian. The length counts what follows the checksum; the checksum is that of the same bytes. The
header is JSON; its `blocks` are the lengths of the binary blocks behind it, which are record batches of Arrow
(`event_columns`).
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from cepbook.errors import JournalError

MAGIC = b"cepbook journal 1\n"
Header = dict[str, Any]
Frame = tuple[Header, list[memoryview]]
_HEAD = struct.Struct("<III")
_MOST_PARTS = 512  # buffers of one call of the operating system


class LogWriter:
    """A new log file. Each frame is written by one call of the operating system, in whole or not at all.

    With `sync` a frame is on the disk when `write` returns, otherwise with the operating system.
    """

    def __init__(self, path: str, *, sync: bool) -> None:
        self.path = path
        self.size = 0
        self._sync = sync
        try:
            self._file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o600)
            self._append([MAGIC])
        except OSError as error:
            raise JournalError(f"the journal {path!r} cannot be written: {error.strerror}") from error

    def write(self, header: Header, blocks: Sequence[Any] = ()) -> None:
        """Append a frame. Raises JournalError if that fails; the file is then as before."""
        views = [memoryview(block) for block in blocks]
        text = json.dumps({**header, "blocks": [view.nbytes for view in views]}, separators=(",", ":")).encode()
        length = 4 + len(text) + sum(view.nbytes for view in views)
        head = _HEAD.pack(length, 0, len(text))
        checksum = zlib.crc32(text, zlib.crc32(head[8:]))
        for view in views:
            checksum = zlib.crc32(view, checksum)
        try:
            self._append([_HEAD.pack(length, checksum, len(text)) + text, *views])
        except OSError as error:
            raise JournalError(
                f"the journal {self.path!r} cannot be written: {error.strerror}. Nothing was done\n"
                "  hint: make room and try again, or end the journal: `cep.journaling.close()`"
            ) from error

    def _append(self, parts: Sequence[Any]) -> None:
        length = sum(memoryview(item).nbytes for item in parts)
        try:
            written = 0
            if len(parts) <= _MOST_PARTS and hasattr(os, "writev"):
                written = os.writev(self._file, parts)
            if written < length:
                rest = memoryview(b"".join(parts))[written:]
                while rest:
                    rest = rest[os.write(self._file, rest) :]
            if self._sync:
                os.fdatasync(self._file)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self._file, self.size)
                os.lseek(self._file, self.size, os.SEEK_SET)
            raise
        self.size += length

    def remove(self) -> None:
        """Close and remove the file."""
        self.close()
        with suppress(OSError):
            os.remove(self.path)

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class LogReader:
    """The frames of a log. After the last one `cut` has the number of bytes of a torn end.

    Raises JournalError for a file that is no log, and for a frame that is damaged and not the last.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.cut = 0
        self.position = len(MAGIC)  # the end of the last frame that was read
        try:
            with open(path, "rb") as file:
                self._data = memoryview(file.read())
        except FileNotFoundError:
            self._data = memoryview(MAGIC)
        except OSError as error:
            raise JournalError(f"the journal {path!r} cannot be read: {error.strerror}") from error
        if bytes(self._data[: len(MAGIC)]) != MAGIC[: len(self._data)]:
            raise JournalError(f"{path!r} is no log of a cepbook journal, or one of another version")

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self._data)

    def __iter__(self) -> Iterator[Frame]:
        data, at = self._data, len(MAGIC)
        while at + _HEAD.size <= len(data):
            length, checksum, size = _HEAD.unpack_from(data, at)
            end = at + 8 + length
            if end > len(data):
                break
            if zlib.crc32(data[at + 8 : end]) != checksum or size > length - 4:
                if end == len(data):
                    break
                behind = len(data) - at
                raise JournalError(
                    f"the journal {self.path!r} is damaged at byte {at:,}; {behind:,} bytes follow\n"
                    "  hint: recover(…, cut=True) leaves them out"
                )
            frame = self._frame(at + _HEAD.size, size)
            self.position = at = end
            yield frame
        self.cut = max(0, len(data) - at)

    def _frame(self, at: int, size: int) -> Frame:
        try:
            header: Header = json.loads(bytes(self._data[at : at + size]))
            at += size
            blocks = []
            for length in header["blocks"]:
                blocks.append(self._data[at : at + length])
                at += length
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise JournalError(f"the journal {self.path!r} has a frame that cannot be read: {error}") from error
        return header, blocks
