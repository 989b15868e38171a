"""Options of magics: a thin layer over argparse that raises UsageError and suggests the nearest spelling."""

from __future__ import annotations

import argparse
import keyword
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import NoReturn

from cepbook import errors
from cepbook.engine.deploy.naming import known_names_hint
from cepbook.errors import UsageError

WORKBENCH = "cep"  # the name of the workbench in the user's namespace
_COMMENT = re.compile(r"(?:^|\s)#(?:\s.*)?$")
_REQUIRED = "the following arguments are required: "  # so argparse begins


class OptionsError(UsageError):
    """A magic was called with options that it does not take."""

    def __init__(self, magic: str, message: str) -> None:
        self.magic = magic
        super().__init__(f"{magic}: {message}")

    def forms(self, usage: Iterable[str]) -> UsageError:
        """Add the forms of `usage` that belong to the magic, unless the message suggests a spelling."""
        message = str(self)
        forms = [form for form in usage if form == self.magic or form.startswith(f"{self.magic} ")]
        if forms and "did you mean" not in message:
            message += "\n  hint: " + "\n        ".join(forms)
        return UsageError(message)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise OptionsError(self.prog, message.replace(_REQUIRED, "missing: "))


class MagicOptions:
    """The options of one magic. Parsing never exits and prints nothing."""

    def __init__(self, magic: str) -> None:
        self._parser = _Parser(prog=magic, add_help=False, allow_abbrev=False, exit_on_error=False)
        self._magic = magic
        self._once: set[str] = set()

    def add(self, *names: str, help: str, **settings: object) -> MagicOptions:
        """Add an option or a positional argument, as in argparse; no value may be empty."""
        if settings.get("action", "append") == "append":
            settings.setdefault("type", not_empty)
        self._parser.add_argument(*names, help=help, **settings)  # type: ignore[arg-type]
        if "action" not in settings:
            self._once.update(name for name in names if name.startswith("-"))
        return self

    @property
    def names(self) -> list[str]:
        return [name for action in self._parser._actions for name in action.option_strings]

    def parse(self, line: str) -> argparse.Namespace:
        """Parse `line`. Raises UsageError for an unknown option, a missing value or an open quote."""
        return self.parse_words(words(line, self._magic))

    def parse_words(self, arguments: list[str]) -> argparse.Namespace:
        """Parse a line that is split into words."""
        options = [word.partition("=")[0] for word in arguments]
        twice = next((name for n, name in enumerate(options) if name in self._once and name in options[:n]), None)
        if twice is not None:
            raise OptionsError(self._magic, f"{twice} is given twice")
        try:
            namespace, rest = self._parser.parse_known_args(arguments)
        except argparse.ArgumentError as error:
            raise OptionsError(self._magic, _error_text(error)) from None
        if rest:
            what = "option" if rest[0].startswith("-") else "argument"
            raise OptionsError(self._magic, f"unknown {what} `{rest[0]}`{did_you_mean(rest[0], self.names)}")
        return namespace


def _error_text(error: argparse.ArgumentError) -> str:
    if error.message == "expected one argument":
        return f"{error.argument_name} takes a value"
    if error.message.startswith("ignored explicit argument"):
        return f"{error.argument_name} takes no value"
    return f"{error.argument_name}: {error.message}"


def words(line: str, magic: str) -> list[str]:
    """Split `line` as a shell does, respecting quotes."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{magic}: {str(error).lower()} in `{line}`") from error


def whole_number(text: str) -> int:
    """An argparse type: a whole number."""
    if re.fullmatch(r"[-+]?[0-9]{1,30}", text) is None:
        raise argparse.ArgumentTypeError(f"`{text}` is no whole number")
    return int(text)


def rows_option(text: str, subject: str, none: str) -> int | None:
    """Return a number of rows, or None for the word `none`. Raises UsageError for other texts."""
    if text == none:
        return None
    try:
        return whole_number(text.replace(",", "").replace("_", ""))
    except argparse.ArgumentTypeError:
        raise UsageError(f"{subject} is a number of rows, or `{none}`, not `{text}`") from None


def feed_rows_option(text: str) -> int | None:
    """Return a capacity of feeds: rows, or None for ``all``. Raises UsageError for other texts."""
    return rows_option(text, "the capacity of feeds", "all")


def number(text: str) -> float:
    """An argparse type: a number that is finite."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"`{text}` is no finite number")
    return value


def not_empty(text: str) -> str:
    """An argparse type: a text that is not empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it cannot be empty")
    return text


def single_name(magic: str, given: Sequence[str], what: str, known: Sequence[str]) -> str:
    """Return the only name of `given`. Raises UsageError with the `known` names of this kind (`what`)."""
    if len(given) == 1:
        return given[0]
    among = known_names_hint(what, known) or f"\n  hint: there is no {what} yet"
    raise UsageError(f"{magic} takes the name of one {what}{among}")


def strip_comment(line: str) -> str:
    """Strip a trailing comment (a blank and ``#``, but not ``#length``) and the blanks around."""
    return _COMMENT.sub("", line).strip()


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean `x`?`` or an empty text."""
    hint = errors.did_you_mean(word, known)
    return "" if hint is None else f"; {hint}"


def variable_name(text: str) -> str:
    """An argparse type: the name of a Python variable."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"`{text}` cannot be the name of a variable")
    if text == WORKBENCH:
        raise argparse.ArgumentTypeError(f"`{text}` is the workbench; another name keeps it")
    return text


def pairs(text: str, magic: str, option: str) -> dict[str, str]:
    """Parse ``a=x,b=y``. Raises UsageError for a part without ``=`` and for a repeated name."""
    mapping: dict[str, str] = {}
    for pair in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UsageError(f"{magic}: {option} takes name=value,name=value, not `{pair}`")
        if name.strip() in mapping:
            raise UsageError(f"{magic}: {option} names `{name.strip()}` twice")
        mapping[name.strip()] = value.strip()
    return mapping
