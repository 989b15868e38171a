"""The file of a snapshot: one line with format, version and checksum, then the document as JSON, compressed with zlib.

::

    cepbook snapshot 4 <SHA-256 of everything after the line> [<HMAC-SHA-256 of the same>]

Both are hexadecimal. A file with a changed byte is refused, and with a key also a file that somebody else wrote. A file
is unpacked to at most `SMALL` bytes or `RATIO` times its size, whichever is more, so that a small file cannot fill the
memory; state that zlib would reduce further is written with less compression.
"""

from __future__ import annotations

import gc
import hashlib
import hmac
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from cepbook.errors import SnapshotError

VERSION = 4
MAGIC = b"cepbook snapshot "
WRITTEN_BY = version("cepbook")
SMALL, RATIO = 8 << 20, 40
_LEVELS = (3, 0)  # a higher level takes twice the time to save a tenth of the size


def pack_document(document: Any, key: bytes | None = None) -> bytes:
    """Return a JSON document as a file, signed with `key`."""
    text = json.dumps(document, separators=(",", ":"), check_circular=False).encode()
    bodies = (zlib.compress(text, level) for level in _LEVELS)
    body = next(body for body in bodies if len(text) <= _limit(body))
    marks = [hashlib.sha256(body).hexdigest(), *([] if key is None else [signature(body, key)])]
    return b"%s%d %s\n" % (MAGIC, VERSION, " ".join(marks).encode()) + body


def _limit(body: bytes) -> int:
    return max(SMALL, RATIO * len(body))


def signature(body: bytes, key: bytes) -> str:
    """Return the HMAC-SHA-256 of `body`, in hexadecimal."""
    return hmac.new(key, body, hashlib.sha256).hexdigest()


def unpack_document(data: bytes, key: bytes | None = None) -> dict[str, Any]:
    """Return the document of a file.

    Errors: SnapshotError (no snapshot, damaged, too large, another version, not signed with `key`).
    """
    head, newline, body = data.partition(b"\n")
    if not newline or not head.startswith(MAGIC):
        raise SnapshotError("this is not a cepbook snapshot")
    version, _, marks = head[len(MAGIC) :].partition(b" ")
    checksum, _, signed = marks.partition(b" ")
    if version != b"%d" % VERSION:
        other = version.decode("ascii", "replace")
        raise SnapshotError(f"this snapshot has format {other}, and this version of cepbook reads format {VERSION}")
    if checksum != hashlib.sha256(body).hexdigest().encode():
        raise SnapshotError("the snapshot is damaged: its checksum does not match")
    if key is not None and not hmac.compare_digest(signature(body, key).encode(), signed):
        reason = "is signed with another key" if signed else "is not signed"
        raise SnapshotError(f"the snapshot {reason}\n  hint: without `key`, a file of any author is loaded")
    try:
        reader = zlib.decompressobj()
        text = reader.decompress(body, _limit(body))
        if reader.unconsumed_tail or not reader.eof:
            most = f"{_limit(body):,} bytes"
            raise SnapshotError(f"the snapshot is damaged: it unpacks to more than {most}, or it is cut off")
        document = json.loads(text)
    except (zlib.error, ValueError, RecursionError) as error:
        raise SnapshotError(f"the snapshot is damaged: {error}") from error
    if not isinstance(document, dict):
        raise SnapshotError("the snapshot is damaged: its document is no JSON object")
    return document


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
