"""The file of a log: frames with a length and a checksum, so that the end which a killed process left torn is known.

::

    cepbook journal 1\\n
    <length> <length of the header> <checksum of the header> <checksum of these three> <header> <block> <block> …

Numbers have four bytes and are little-endian, the checksums are CRC-32. The length counts the header and the blocks.
The header is JSON. Its `blocks` are the lengths of the binary blocks behind it, which are record batches of Arrow
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

from cepbook.errors import JournalError

MAGIC = b"cepbook journal 1\n"
Header = dict[str, Any]
Frame = tuple[Header, list[memoryview]]
_HEAD_FIELDS, _CHECKSUM = struct.Struct("<III"), struct.Struct("<I")
_HEAD = _HEAD_FIELDS.size + _CHECKSUM.size
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
        views = [memoryview(block).cast("B") for block in blocks]
        described = {**header, "blocks": list(map(len, views)), "sums": list(map(_sum, views))}
        text = json.dumps(described, separators=(",", ":")).encode()
        head = _HEAD_FIELDS.pack(len(text) + sum(map(len, views)), len(text), zlib.crc32(text))
        try:
            self._append([head + _CHECKSUM.pack(zlib.crc32(head)) + text, *views])
        except OSError as error:
            raise JournalError(
                f"the journal {self.path!r} cannot be written: {error.strerror}\n"
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
            if frame is None and end < len(data):
                raise self._damage(at)
            if frame is None:
                break
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
