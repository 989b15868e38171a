"""The file of a log: frames with a length and a checksum, so that the end which a killed process left torn is known.

::

    cepbook journal 2\\n
    <length> <length of the header> <checksum of the header> <checksum of these three> <header> <block> <block> …

Numbers have four bytes and are little-endian, the checksums are CRC-32. The length counts the header and the blocks.
The header is JSON. Its `blocks` are the lengths of the binary blocks behind it, which are the columns of events
(`event_columns`). Its `sums` are the sums of the blocks, modulo 2 ** 64, with eight bytes as one number and a CRC-32 of
bytes that are left over. A CRC of all of them would cost more than to write them.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from cepbook.descriptors import to_disk
from cepbook.errors import JournalError

MAGIC = b"cepbook journal 2\n"
Header = dict[str, Any]
Frame = tuple[Header, list[memoryview]]
_HEAD_FIELDS, _CHECKSUM = struct.Struct("<III"), struct.Struct("<I")
_HEAD = _HEAD_FIELDS.size + _CHECKSUM.size
_MOST_PARTS = 512  # buffers of one call of the operating system
_AS_JSON = json.JSONEncoder(separators=(",", ":")).encode


class LogWriter:
    """A new log file. Frames are appended, usually each by one call of the operating system.

    A process that is killed meanwhile leaves a torn frame at the end, which `LogReader` leaves out. If a frame cannot
    be written, the file gets its former size. With `sync` a frame is on the disk when `write` returns, otherwise with
    the operating system.
    """

    def __init__(self, path: str, *, sync: bool) -> None:
        self.path = path
        self.size = 0
        self._torn = False  # bytes of a frame that failed are at the end, and could not be removed
        self._file = -1
        self._to_disk = to_disk if sync else None
        try:
            self._file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o600)
            self._append([MAGIC])
        except BaseException as error:
            self.remove()
            if not isinstance(error, OSError):
                raise
            raise self._failure(error) from error

    def write(self, header: Header, blocks: Sequence[Any] = ()) -> None:
        """Append a frame. Raises JournalError if that fails; the file is then as before."""
        views = [memoryview(block).cast("B") for block in blocks]
        described = {**header, "blocks": list(map(len, views)), "sums": list(map(_sum, views))}
        text = _AS_JSON(described).encode()
        try:
            head = _HEAD_FIELDS.pack(len(text) + sum(map(len, views)), len(text), zlib.crc32(text))
            self._append([head + _CHECKSUM.pack(zlib.crc32(head)) + text, *views])
        except (OSError, struct.error) as error:  # the second one: the frame has more than 4 GiB
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> JournalError:
        return JournalError(
            f"the journal {self.path!r} cannot be written: {getattr(error, 'strerror', None) or error}\n"
            "  hint: make room and try again, or end the journal: `cep.journaling.close()`"
        )

    def _append(self, parts: Sequence[Any]) -> None:
        length = sum(memoryview(item).nbytes for item in parts)
        if self._torn:
            self._shorten()
        try:
            written = 0
            if len(parts) <= _MOST_PARTS and hasattr(os, "writev"):
                written = os.writev(self._file, parts)
            if written < length:
                rest = memoryview(b"".join(parts))[written:]
                while rest:
                    rest = rest[os.write(self._file, rest) :]
            if self._to_disk is not None:
                self._to_disk(self._file)
            self.size += length
        except BaseException:
            self._torn = True
            with suppress(OSError):  # the next frame tries again
                self._shorten()
            raise

    def _shorten(self) -> None:
        os.ftruncate(self._file, self.size)
        os.lseek(self._file, self.size, os.SEEK_SET)
        self._torn = False

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
    """The frames of a log. After the last one `cut` has the number of bytes of a torn end: the file is too short.

    Raises JournalError for a file that is missing or no log, and for a frame that is damaged.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.cut = 0
        self.position = len(MAGIC)  # the end of the last frame that was read
        try:
            with open(path, "rb") as file:
                self._data = memoryview(file.read())
        except FileNotFoundError as error:
            raise JournalError(f"the journal {path!r} is missing") from error
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
        while at + _HEAD <= len(data):
            head = data[at : at + _HEAD_FIELDS.size]
            begin = at + _HEAD
            length, size, checksum = _HEAD_FIELDS.unpack(head)
            end = begin + length
            if _CHECKSUM.unpack(data[at + _HEAD_FIELDS.size : begin]) != (zlib.crc32(head),):
                raise self._damage(at)
            if end > len(data):
                break
            frame = self._frame(begin, size, end) if zlib.crc32(data[begin : begin + size]) == checksum else None
            if frame is None:
                raise self._damage(at)
            self.position = at = end
            yield frame
        self.cut = max(0, len(data) - at)

    def _damage(self, at: int) -> JournalError:
        return JournalError(
            f"the journal {self.path!r} is damaged at byte {at:,}; {len(self._data) - at:,} bytes follow\n"
            "  hint: recover(…, cut=True) leaves them out"
        )

    def _frame(self, at: int, size: int, end: int) -> Frame | None:
        """Return the frame with the header at `at`; None if a block is damaged."""
        try:
            header: Header = json.loads(bytes(self._data[at : at + size]))
            at += size
            blocks = []
            for length, checksum in zip(header["blocks"], header["sums"], strict=True):
                blocks.append(self._data[at : at + length])
                at += length
                if at > end or _sum(blocks[-1]) != checksum:
                    return None
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise JournalError(f"the journal {self.path!r} has a frame that cannot be read: {error}") from error
        return header, blocks


def _sum(block: memoryview) -> int:
    words = np.frombuffer(block, "<u8", len(block) // 8)
    return (int(words.sum(dtype=np.uint64)) + zlib.crc32(block[8 * len(words) :])) % 2**64
