"""Calls on file descriptors that systems have under different names."""

from __future__ import annotations

import os
import sys

if sys.platform == "darwin":
    import fcntl

    def to_disk(descriptor: int) -> None:
        """Write the data of a file to its disk. `os.fsync` of macOS leaves them in the cache of the drive."""
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError:  # a file system without this call
            os.fsync(descriptor)

else:
    to_disk = getattr(os, "fdatasync", os.fsync)  # Windows has the second only


if sys.platform != "win32":

    def read_at(descriptor: int, size: int, start: int) -> bytes:
        """Return at most `size` bytes of a file from `start`. Windows moves the position, too."""
        return os.pread(descriptor, size, start)

else:

    def read_at(descriptor: int, size: int, start: int) -> bytes:
        os.lseek(descriptor, start, os.SEEK_SET)
        return os.read(descriptor, size)
