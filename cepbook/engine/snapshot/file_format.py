"""The file of a snapshot: one line with format, version and checksum, then the document as JSON, compressed with zlib.

::

    cepbook snapshot 5 <SHA-256 of everything after the line> [<HMAC-SHA-256 of the same>]

Both are hexadecimal. A file with a changed byte is refused, and with a key also a file that somebody else wrote. A file
is unpacked to at most `SMALL` bytes or `RATIO` times its size, whichever is more, so that a small file cannot fill the
memory; state that zlib would reduce further is written with less compression.

*Blocks* may follow the document: data that is written and read piece by piece, because all of it might not fit into the
memory. A block is its length in 8 bytes, then JSON, compressed. After the last block come the length of the document in
8 bytes and `BLOCKS_END`.
"""

from __future__ import annotations

import gc
import hashlib
import hmac
import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from io import BytesIO
from typing import Any, BinaryIO

from cepbook.errors import SnapshotError

VERSION = 5
MAGIC = b"cepbook snapshot "
WRITTEN_BY = version("cepbook")
SMALL, RATIO = 8 << 20, 40
BLOCKS_END = b"cepbook blocks\n"
_SMALL_BLOCK = 1 << 16  # as `SMALL`, of a block
_PIECE = 1 << 20  # bytes that are read together
_LEVELS = (3, 0)  # a higher level takes twice the time to save a tenth of the size


def pack_document(document: Any) -> bytes:
    """Return a JSON document as a file."""
    file = BytesIO()
    write_snapshot(file, document, ())
    return file.getvalue()


def write_snapshot(file: BinaryIO, document: Any, blocks: Iterable[Any], key: bytes | None = None) -> None:
    """Write a JSON document and `blocks`, which are JSON, into an empty file, signed with `key`."""
    digests = _digests(key)
    file.write(_head(digests))  # of the same length as the final one

    def write(data: bytes) -> None:
        file.write(data)
        for digest in digests:
            digest.update(data)

    body = _packed(document, SMALL)
    write(body)
    end = b""
    for block in blocks:
        data = _packed(block, _SMALL_BLOCK)
        write(len(data).to_bytes(8))
        write(data)
        end = len(body).to_bytes(8) + BLOCKS_END
    write(end)
    file.seek(0)
    file.write(_head(digests))


def _digests(key: bytes | None) -> list[Any]:
    return [hashlib.sha256(), *([] if key is None else [hmac.new(key, digestmod="sha256")])]


def _head(digests: Iterable[Any]) -> bytes:
    return b"%s%d %s\n" % (MAGIC, VERSION, " ".join(digest.hexdigest() for digest in digests).encode())


def _packed(document: Any, small: int) -> bytes:
    text = json.dumps(document, separators=(",", ":"), check_circular=False).encode()
    bodies = (zlib.compress(text, level) for level in _LEVELS)
    return next(body for body in bodies if len(text) <= _limit(body, small))


def _limit(body: bytes, small: int) -> int:
    return max(small, RATIO * len(body))


def unpack_document(data: bytes) -> dict[str, Any]:
    """Return the document of a file. Errors: SnapshotError as `SnapshotReader`."""
    return SnapshotReader(BytesIO(data)).document()


class SnapshotReader:
    """Reads a file that can be positioned: first its `document`, then its `blocks`.

    Errors: SnapshotError (no snapshot, damaged, too large, another version, not signed with `key`).
    """

    def __init__(self, file: BinaryIO, key: bytes | None = None) -> None:
        self._file = file
        head = file.readline(1_000)
        if not head.endswith(b"\n") or not head.startswith(MAGIC):
            raise SnapshotError("this is not a cepbook snapshot")
        version, _, marks = head[len(MAGIC) : -1].partition(b" ")
        checksum, _, signed = marks.partition(b" ")
        if version != b"%d" % VERSION:
            other = version.decode("ascii", "replace")
            raise SnapshotError(f"this snapshot has format {other}, and this version of cepbook reads format {VERSION}")
        digests, tail = _digests(key), b""
        while piece := file.read(_PIECE):
            tail = (tail + piece)[-8 - len(BLOCKS_END) :]
            for digest in digests:
                digest.update(piece)
        if checksum != digests[0].hexdigest().encode():
            raise SnapshotError("the snapshot is damaged: its checksum does not match")
        if key is not None and not hmac.compare_digest(digests[1].hexdigest().encode(), signed):
            reason = "is signed with another key" if signed else "is not signed"
            raise SnapshotError(f"the snapshot {reason}\n  hint: without `key`, a file of any author is loaded")
        self._start, self._blocks_end = len(head), file.tell()
        self._size = self._blocks_end - self._start
        if tail.endswith(BLOCKS_END):
            self._blocks_end -= len(tail)
            self._size = int.from_bytes(tail[:8])

    def document(self) -> dict[str, Any]:
        """Return the document."""
        self._file.seek(self._start)
        document = self._unpacked(self._size, SMALL)
        if not isinstance(document, dict):
            raise SnapshotError("the snapshot is damaged: its document is no JSON object")
        return document

    def blocks(self) -> Iterator[Any]:
        """Yield the blocks."""
        self._file.seek(self._start + self._size)
        while self._file.tell() < self._blocks_end:
            yield self._unpacked(int.from_bytes(self._file.read(8)), _SMALL_BLOCK)

    def _unpacked(self, size: int, small: int) -> Any:
        body = self._file.read(max(0, min(size, self._blocks_end - self._file.tell())))
        try:
            reader, limit = zlib.decompressobj(), _limit(body, small)
            text = reader.decompress(body, limit)
            if reader.unconsumed_tail or not reader.eof:
                most = f"{limit:,} bytes"
                raise SnapshotError(f"the snapshot is damaged: it unpacks to more than {most}, or it is cut off")
            return json.loads(text)
        except (zlib.error, ValueError, RecursionError) as error:
            raise SnapshotError(f"the snapshot is damaged: {error}") from error


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Within the block, pause the garbage collector: nothing dies here, and its scans take most of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
