"""What a command of the command line is, and reading its words."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cepbook.errors import UsageError


@dataclass(frozen=True, slots=True)
class CliCommand:
    """A module of this package has one as `COMMAND`: `arguments` declares what it takes, `run` does it and gives the
    exit code."""

    arguments: Callable[[argparse.ArgumentParser], object]
    run: Callable[[argparse.Namespace], int]


def name_value_pair(text: str) -> tuple[str, str]:
    """An argparse type: ``NAME=REST``."""
    name, equals, rest = text.partition("=")
    if not equals or not name.strip() or not rest.strip():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, not `{text}`")
    return name.strip(), rest.strip()


def parse_value_text(text: str) -> Any:
    """A value as JSON writes it; what is no JSON is a text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_text(path: Path) -> str:
    """The text of a file. Errors: UsageError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{str(path)!r} is no UTF-8 text: byte {error.start} is {error.object[error.start]:#x}"
        ) from None
