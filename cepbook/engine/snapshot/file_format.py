"""The file: a first line with format, version and checksum, then the document as JSON, compressed with zlib.

::

    cepbook snapshot 1 <SHA-256 of all that follows the line, hexadecimal>

A changed byte anywhere is refused.
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

VERSION = 1
MAGIC = b"cepbook snapshot "
WRITTEN_BY = version("cepbook")
_LEVEL = 3  # more takes twice the time for a tenth of the size


def pack_document(document: Any) -> bytes:
    """A document, which is JSON, as a file."""
    body = zlib.compress(json.dumps(document, separators=(",", ":"), check_circular=False).encode(), _LEVEL)
    return b"%s%d %s\n" % (MAGIC, VERSION, hashlib.sha256(body).hexdigest().encode()) + body


def unpack_document(data: bytes) -> dict[str, Any]:
    """The document of a file. Errors: SnapshotError for what is none, is damaged, or has another version."""
    head, newline, body = data.partition(b"\n")
    if not newline or not head.startswith(MAGIC):
        raise SnapshotError("this is no snapshot of cepbook")
    version, _, checksum = head[len(MAGIC) :].partition(b" ")
    if version != b"%d" % VERSION:
        shown = version.decode("ascii", "replace")
        raise SnapshotError(f"this snapshot has format {shown}, and this version of cepbook reads format {VERSION}")
    if checksum != hashlib.sha256(body).hexdigest().encode():
        raise SnapshotError("the snapshot is damaged: its checksum does not fit")
    try:
        document: dict[str, Any] = json.loads(zlib.decompress(body))
    except (zlib.error, ValueError) as error:
        raise SnapshotError(f"the snapshot is damaged: {error}") from error
    return document


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Within, the collector of cycles rests: what is made all stays, and to walk it again and again takes most of the
    time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
