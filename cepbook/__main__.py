"""``python -m cepbook`` is ``cepbook``."""

from __future__ import annotations

import io
import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> int:
    """Run the command of this process; its exit code. Ctrl-C while the rest of the package is loaded leaves at once."""
    if sys.platform == "win32":  # a pipe or a file gets the same text there as on other systems
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8")
    former = signal.signal(signal.SIGINT, _leave)
    from cepbook.cli import load  # here, where Ctrl-C is heard: all of it takes a second
    from cepbook.cli import main as run

    load(sys.argv[1:])
    signal.signal(signal.SIGINT, former)
    return run()


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"cepbook: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
