"""The directory of a journal: ``snapshot-N``, ``log-N``, ``rows-N`` and ``lock``, and which of them count.

The log is there before its snapshot. The snapshot, which gets its name when it is complete, makes both of them count.
Then the former ones are removed. So a process that is killed at any moment leaves one complete snapshot with its log.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import Any

from cepbook.descriptors import to_disk
from cepbook.errors import CepbookError, JournalError, UsageError
from cepbook.session.journal.log_file import LogReader, LogWriter
from cepbook.session.journal.row_files import RowFiles

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_NAME = re.compile(r"(snapshot|log)-(\d{6,})")
_LOCK = "lock"


class JournalFiles:
    """The files of one journal, locked against other processes until `release`.

    Raises UsageError if another process writes the journal, or the path is something else.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.path.expanduser(os.fspath(path)))
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise UsageError(f"{self.path!r} is a file; a journal is a directory\n  hint: give another name")
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock: int | None = _locked(self.path)
        except OSError as error:
            raise UsageError(f"the journal {self.path!r} cannot be opened: {error.strerror}") from error
        self.number = newest(self.path)
        self.rows = RowFiles(self.path)

    @property
    def snapshot_path(self) -> str:
        """The path of the snapshot that counts."""
        return self._named("snapshot", self.number)

    @property
    def log_path(self) -> str:
        """The path of the log that counts."""
        return self._named("log", self.number)

    def _named(self, what: str, number: int) -> str:
        return os.path.join(self.path, f"{what}-{number:06}")

    def begin(self, snapshot: bytes, header: dict[str, Any], *, sync: bool) -> LogWriter:
        """Write a snapshot and begin its log. Raises JournalError; the former ones then count."""
        number = self.number + 1
        log = LogWriter(self._named("log", number), sync=sync)
        try:
            log.write(header)
            unfinished = os.path.join(self.path, f".snapshot-{number:06}")
            with open(unfinished, "wb") as file:
                file.write(snapshot)
                file.flush()
                to_disk(file.fileno())
            os.replace(unfinished, self._named("snapshot", number))
            _directory_to_disk(self.path)
        except OSError as error:
            log.remove()
            hint = "make room, or end the journal: `cep.journaling.close()`"
            raise JournalError(
                f"a snapshot for {self.path!r} cannot be written: {error.strerror}\n  hint: {hint}"
            ) from error
        except BaseException:
            log.remove()
            raise
        self.number = number
        return log

    def remove_former(self) -> None:
        """Remove the files that do not count any more."""
        names: list[str] = []
        with suppress(OSError):  # the next time removes them, too
            names = os.listdir(self.path)
        for name in names:
            match = _NAME.fullmatch(name)
            if (match is not None and int(match[2]) != self.number) or name.startswith(".snapshot-"):
                with suppress(OSError):
                    os.remove(os.path.join(self.path, name))

    def release(self) -> None:
        """Let other processes write the journal."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def newest(path: str) -> int:
    """Return the number of the snapshot that counts; 0 if there is none."""
    names = os.listdir(path) if os.path.isdir(path) else []
    matches = [match for name in names if (match := _NAME.fullmatch(name)) is not None]
    return max((int(match[2]) for match in matches if match[1] == "snapshot"), default=0)


def is_journal(path: str) -> bool:
    """Return True if a directory holds a journal."""
    return newest(path) > 0


def is_in_use(path: str) -> bool:
    """Return True if a process writes the journal."""
    try:
        os.close(_locked(path))
    except UsageError:
        return True
    return False


def notebook_of(path: str) -> str | None:
    """Return the notebook in whose kernel a journal was written; None if that is not known."""
    with suppress(CepbookError, OSError):
        reader = LogReader(os.path.join(path, f"log-{newest(path):06}"))
        for header, _ in reader:
            return header.get("notebook")
    return None


def _directory_to_disk(directory: str) -> None:
    """Let the names in a directory survive a power cut. Windows has no such call."""
    if hasattr(os, "O_DIRECTORY"):
        number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _locked(path: str) -> int:
    """Return the descriptor of the locked file: a file object would complain if it is collected before its journal."""
    file = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if sys.platform == "win32":
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise UsageError(f"the journal {path!r} is written by another process or workbench") from None
    return file
