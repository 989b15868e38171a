"""The file of a snapshot: one line with format, version and checksum, then the document as JSON, compressed with zlib.

::

    cepbook snapshot 2 <SHA-256 of everything after the line, hexadecimal>

A file with a changed byte is refused. Version 2 renamed the classes and modules of state; version 1 was never released.
"""

from __future__ import annotations

import gc
import hashlib
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from cepbook.errors import SnapshotError

VERSION = 3
MAGIC = b"cepbook snapshot "
WRITTEN_BY = version("cepbook")
_LEVEL = 3  # a higher level takes twice the time to save a tenth of the size


def pack_document(document: Any) -> bytes:
    """Return a JSON document as a file."""
    body = zlib.compress(json.dumps(document, separators=(",", ":"), check_circular=False).encode(), _LEVEL)
    return b"%s%d %s\n" % (MAGIC, VERSION, hashlib.sha256(body).hexdigest().encode()) + body


def unpack_document(data: bytes) -> dict[str, Any]:
    """Return the document of a file. Errors: SnapshotError (no snapshot, damaged, another version)."""
    head, newline, body = data.partition(b"\n")
    if not newline or not head.startswith(MAGIC):
        raise SnapshotError("this is not a cepbook snapshot")
    version, _, checksum = head[len(MAGIC) :].partition(b" ")
    if version != b"%d" % VERSION:
        other = version.decode("ascii", "replace")
        raise SnapshotError(f"this snapshot has format {other}, and this version of cepbook reads format {VERSION}")
    if checksum != hashlib.sha256(body).hexdigest().encode():
        raise SnapshotError("the snapshot is damaged: its checksum does not match")
    try:
        document: dict[str, Any] = json.loads(zlib.decompress(body))
    except (zlib.error, ValueError) as error:
        raise SnapshotError(f"the snapshot is damaged: {error}") from error
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
