"""Options of magics: a thin layer over argparse that raises UsageError and suggests the nearest spelling."""

from __future__ import annotations

import argparse
import keyword
import re
import shlex
from collections.abc import Iterable
from typing import NoReturn

from cepbook import errors
from cepbook.errors import UsageError

_COMMENT = re.compile(r"(?:^|\s)#(?:\s.*)?$")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}")


class Options:
    """The options of one magic. ``parse`` never exits and prints nothing."""

    def __init__(self, magic: str) -> None:
        self._parser = _Parser(prog=magic, add_help=False, allow_abbrev=False)
        self._magic = magic

    def add(self, *names: str, help: str, **settings: object) -> Options:
        self._parser.add_argument(*names, help=help, **settings)  # type: ignore[arg-type]
        return self

    @property
    def names(self) -> list[str]:
        """The spellings of all options, in the order of their declaration."""
        return [name for action in self._parser._actions for name in action.option_strings]

    def parse(self, line: str) -> argparse.Namespace:
        """The options of `line`; UsageError for an unknown one, a missing value or an open quote."""
        return self.parse_words(words(line, self._magic))

    def parse_words(self, given: list[str]) -> argparse.Namespace:
        """The same for a line that is split already."""
        found, rest = self._parser.parse_known_args(given)
        if rest:
            what = "option" if rest[0].startswith("-") else "argument"
            raise UsageError(f"{self._magic}: unknown {what} `{rest[0]}`{did_you_mean(rest[0], self.names)}")
        return found


def words(line: str, magic: str) -> list[str]:
    """`line` split as a shell does, quotes respected."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{magic}: {str(error).lower()} in `{line}`") from error


def clean(line: str) -> str:
    """`line` without a trailing comment (a blank and ``#``, but not ``#length``) and without blanks around it."""
    return _COMMENT.sub("", line).strip()


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean `x`?`` or the empty string."""
    hint = errors.did_you_mean(word, known)
    return "" if hint is None else f"; {hint}"


def variable_name(text: str) -> str:
    """An argparse type: the name of a Python variable."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"`{text}` cannot be the name of a variable")
    return text


def pairs(text: str, magic: str, option: str) -> dict[str, str]:
    """``a=x,b=y`` as a mapping; UsageError when a part has no ``=``."""
    found: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UsageError(f"{magic}: {option} takes name=value,name=value, not `{part}`")
        found[name.strip()] = value.strip()
    return found
