"""The interface of a command, and parsing of its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cepbook.errors import UsageError


@dataclass(frozen=True, slots=True)
class CliCommand:
    """A command. Each module of this package with one has it as `COMMAND`.

    `arguments` declares the options, `run` executes the command and returns the exit code.
    """

    arguments: Callable[[argparse.ArgumentParser], object]
    run: Callable[[argparse.Namespace], int]


def name_value_pair(text: str) -> tuple[str, str]:
    """Parse ``NAME=VALUE``. An argparse type."""
    name, equals, rest = text.partition("=")
    if not equals or not name.strip() or not rest.strip():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, not `{text}`")
    return name.strip(), rest.strip()


def read_text(path: Path) -> str:
    """Return the text of a file. Errors: UsageError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{str(path)!r} is no UTF-8 text: byte {error.start} is {error.object[error.start]:#x}"
        ) from None
