"""The spill files of feeds in the directory of a journal: ``rows-N``, one for each feed that has dropped rows.

A file only grows. A snapshot says which file a feed has and how long it was; the rows behind that length are dropped
again when the log is repeated, so a recovery appends to a copy of the first part. The copy takes the place of the file
with the next snapshot, as any file does that no snapshot refers to.

The rows are pickled. Reading them makes objects of the classes that a snapshot can hold, and calls nothing else.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Collection
from contextlib import suppress
from datetime import timezone
from functools import partial
from io import BytesIO
from typing import IO, Any
from zoneinfo import ZoneInfo

from cepbook.engine.snapshot.value_graph import PLAIN_CLASSES
from cepbook.errors import JournalError
from cepbook.feed_segments import SpillFile, SpillMedium
from cepbook.feeds import SPILL_LIMIT

_NAME = re.compile(r"rows-(\d{6,})")


class RowFiles(SpillMedium):
    """The files in one directory, which this process has locked."""

    def __init__(self, path: str) -> None:
        self.path = path

    def names(self) -> set[str]:
        """Return the names of the files."""
        with suppress(OSError):
            return {name for name in os.listdir(self.path) if _NAME.fullmatch(name)}
        return set()

    @property
    def size(self) -> int:
        """The size of the files in bytes."""
        size = 0
        for name in self.names():
            with suppress(OSError):  # it was removed meanwhile
                size += os.path.getsize(os.path.join(self.path, name))
        return size

    def create(self) -> IO[bytes]:
        """Return a new file without a buffer. Raises OSError."""
        number = max((int(name.partition("-")[2]) for name in self.names()), default=0)
        while True:
            number += 1
            with suppress(FileExistsError):  # another thread was faster
                name = os.path.join(self.path, f"rows-{number:06}")
                return open(name, "x+b", buffering=0, opener=partial(os.open, mode=0o600))

    def unpickle(self, data: bytes) -> Any:
        """Return a value of classes that a snapshot can hold. Raises UnpicklingError for another class."""
        return _PlainUnpickler(BytesIO(data)).load()

    def reopened(self, name: str, size: int, most: int) -> SpillFile:
        """Return the first `size` bytes of a file as it was at a snapshot.

        Raises JournalError if it is damaged, or has more than `most` deliveries.
        """
        path = os.path.join(self.path, name)
        try:
            if not _NAME.fullmatch(name):
                raise ValueError("no name of such a file")
            spilled = SpillFile.reopened(open(path, "rb", buffering=0), size, SPILL_LIMIT, self)  # noqa: SIM115
            if spilled.deliveries > most:
                raise ValueError("more deliveries than the statement has dropped")
            return spilled
        except (OSError, ValueError) as error:
            raise JournalError(
                f"the rows in {path!r} cannot be read: {getattr(error, 'strerror', None) or error}\n"
                "  hint: recover(…, cut=True) leaves them out"
            ) from error

    def remove(self, names: Collection[str]) -> None:
        """Remove files. Readers of the feeds that had them go on."""
        for name in names:
            with suppress(OSError):
                os.remove(os.path.join(self.path, name))


class _PlainUnpickler(pickle.Unpickler):
    """Makes objects of `PLAIN_CLASSES` and of time zones only."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return _read_zone
        cls = _CLASSES.get((module, name))
        if cls is None:
            raise pickle.UnpicklingError(f"a value of type {module}.{name}")
        return cls


def _read_zone(cls: object, name: str) -> Any:
    """Return the function by which Python pickles a `ZoneInfo`. Raises UnpicklingError for any other attribute."""
    if cls is not ZoneInfo or name != "_unpickle":
        raise pickle.UnpicklingError(f"the attribute {name}")
    return ZoneInfo._unpickle  # type: ignore[attr-defined]


_CLASSES = {(cls.__module__, cls.__qualname__): cls for cls in (*PLAIN_CLASSES, timezone, ZoneInfo)}
