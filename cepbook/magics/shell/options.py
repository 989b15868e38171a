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
    """Words that a magic does not take; `forms` puts the forms that it has below the message."""

    def __init__(self, magic: str, message: str) -> None:
        self.magic = magic
        super().__init__(f"{magic}: {message}")

    def forms(self, usage: Iterable[str]) -> UsageError:
        """The same with those of `usage` that begin as the magic does; without, where it names a nearest spelling."""
        told = str(self)
        found = [form for form in usage if form == self.magic or form.startswith(f"{self.magic} ")]
        if found and "did you mean" not in told:
            told += "\n  hint: " + "\n        ".join(found)
        return UsageError(told)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise OptionsError(self.prog, message.replace(_REQUIRED, "missing: "))


class MagicOptions:
    """The options of one magic. ``parse`` never exits and prints nothing."""

    def __init__(self, magic: str) -> None:
        self._parser = _Parser(prog=magic, add_help=False, allow_abbrev=False, exit_on_error=False)
        self._magic = magic
        self._once: set[str] = set()

    def add(self, *names: str, help: str, **settings: object) -> MagicOptions:
        """An option, or a word of a place, as argparse has them; none of their values may be empty."""
        if settings.get("action", "append") == "append":
            settings.setdefault("type", not_empty)
        self._parser.add_argument(*names, help=help, **settings)  # type: ignore[arg-type]
        if "action" not in settings:
            self._once.update(name for name in names if name.startswith("-"))
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
        options = [word.partition("=")[0] for word in given]
        twice = next((name for n, name in enumerate(options) if name in self._once and name in options[:n]), None)
        if twice is not None:
            raise OptionsError(self._magic, f"{twice} is given twice")
        try:
            found, rest = self._parser.parse_known_args(given)
        except argparse.ArgumentError as error:
            raise OptionsError(self._magic, _told(error)) from None
        if rest:
            what = "option" if rest[0].startswith("-") else "argument"
            raise OptionsError(self._magic, f"unknown {what} `{rest[0]}`{did_you_mean(rest[0], self.names)}")
        return found


def _told(error: argparse.ArgumentError) -> str:
    """What argparse found wrong with an option, in words."""
    if error.message == "expected one argument":
        return f"{error.argument_name} takes a value"
    if error.message.startswith("ignored explicit argument"):
        return f"{error.argument_name} takes no value"
    return f"{error.argument_name}: {error.message}"


def words(line: str, magic: str) -> list[str]:
    """`line` split as a shell does, quotes respected."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{magic}: {str(error).lower()} in `{line}`") from error


def whole_number(text: str) -> int:
    """An argparse type: a whole number."""
    if re.fullmatch(r"[-+]?[0-9]{1,30}", text) is None:
        raise argparse.ArgumentTypeError(f"`{text}` is no whole number")
    return int(text)


def number(text: str) -> float:
    """An argparse type: a number that is finite."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"`{text}` is no finite number")
    return found


def not_empty(text: str) -> str:
    """An argparse type: a text that is not empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it cannot be empty")
    return text


def single_name(magic: str, given: Sequence[str], what: str, known: Sequence[str]) -> str:
    """The one name that is given, of a `what`. Errors: UsageError, which says which of them there are."""
    if len(given) == 1:
        return given[0]
    among = known_names_hint(what, known) or f"\n  hint: there is no {what} yet"
    raise UsageError(f"{magic} takes the name of one {what}{among}")


def strip_comment(line: str) -> str:
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
    if text == WORKBENCH:
        raise argparse.ArgumentTypeError(f"`{text}` is the workbench; another name keeps it")
    return text


def pairs(text: str, magic: str, option: str) -> dict[str, str]:
    """``a=x,b=y`` as a mapping; UsageError when a part has no ``=``, or a name comes twice."""
    found: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UsageError(f"{magic}: {option} takes name=value,name=value, not `{part}`")
        if name.strip() in found:
            raise UsageError(f"{magic}: {option} names `{name.strip()}` twice")
        found[name.strip()] = value.strip()
    return found
