"""Checks of arguments of public methods and functions against their annotations, before anything happens."""

from __future__ import annotations

import inspect
import operator
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, wraps
from typing import Any, TypeVar

from cepbook.errors import UsageError, did_you_mean, printable

_Kind = tuple[str, Callable[[Any], bool]]
_Class = TypeVar("_Class")
_Called = TypeVar("_Called", bound=Callable[..., Any])
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
MAX_REPR_LENGTH = 40  # characters of a value in a message
MAX_INTEGER_BITS = 1000  # of a number in a message, and of any argument


def _text(value: object) -> bool:
    return isinstance(value, str)


def _truth(value: object) -> bool:
    return isinstance(value, int) or type(value).__name__ == "bool_"  # numpy's bool


def _whole(value: object) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value).bit_length() <= MAX_INTEGER_BITS  # type: ignore[arg-type]
    except TypeError:
        return False


def _number(value: object) -> bool:
    try:
        return not isinstance(value, bool | str | bytes) and float(value) is not None  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def _path(value: object) -> bool:
    name = os.fspath(value) if isinstance(value, os.PathLike) else value
    return isinstance(name, str) and bool(name) and "\0" not in name


def _names(value: object) -> bool:
    return _text(value) or (isinstance(value, Sequence) and all(map(_text, value)))


def _by_name(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_text, value))


def _called(value: object) -> bool:
    return callable(value)


_KINDS: dict[str, _Kind] = {
    "str": ("text", _text),
    "bool": ("True or False", _truth),
    "int": ("a whole number", _whole),
    "int | str": ('a whole number, or a text such as "500 MB"', lambda value: _whole(value) or _text(value)),
    "float": ("a number", _number),
    "Now": ("a function", _called),
    "Sleep": ("a function", _called),
    "SparkSession": ("a Spark session", lambda value: hasattr(type(value), "createDataFrame")),
    "Runtime": ("a runtime, such as `Workbench.runtime`", lambda value: hasattr(type(value), "deploy")),
    "LatePolicy": ('"error" or "drop"', lambda value: _text(value) and value in ("error", "drop")),
    "ErrorPolicy": ('"raise" or "keep"', lambda value: _text(value) and value in ("raise", "keep")),
    "Path": ("a path", _path),
    "str | os.PathLike[str]": ("a path", _path),
    "Sequence[str]": ("a list of names", lambda value: _names(value) and not _text(value)),
    "str | Sequence[str]": ("a name or a list of names", _names),
    "Mapping[str, Any]": ("a dict by name", _by_name),
    "Mapping[str, Callable[..., Any]]": (
        "a dict of functions by name",
        lambda value: _by_name(value) and all(map(callable, value.values())),
    ),
    "str | Mapping[str, str]": (
        "a name, or a dict of names",
        lambda value: _text(value) or (_by_name(value) and all(map(_text, value.values()))),
    ),
}  # by annotation; methods check other arguments themselves


def _kind(annotation: str) -> _Kind | None:
    plain = annotation.removesuffix(" | None")
    kind = _KINDS.get(plain) or _KINDS.get(plain.rpartition(".")[2])  # an alias may be named through its module
    if kind is None or plain == annotation:
        return kind
    words, fits = kind
    return f"{words}, or None", lambda value: value is None or fits(value)


def describe_value(value: object) -> str:
    """Return a short text of any value, with its type."""
    return f"{short_repr(value)} ({type(value).__name__})"


def short_repr(value: object) -> str:
    """Return a short text of any value."""
    try:
        if isinstance(value, int) and int.bit_length(value) > MAX_INTEGER_BITS:
            return "a number of very many digits"
        text = printable(" ".join(repr(value).split()))
    except Exception:  # noqa: BLE001 - an object whose repr fails is still told of
        text = "an object without a readable repr"
    return text if len(text) <= MAX_REPR_LENGTH else text[: MAX_REPR_LENGTH - 1] + "…"


def check_public_arguments(*, but: Collection[str] = ()) -> Callable[[type[_Class]], type[_Class]]:
    """Class decorator: a wrong argument of a public method, inherited ones included, raises UsageError.

    `but` are methods that check all their arguments themselves.
    """

    def dress(cls: type[_Class]) -> type[_Class]:
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            if not name.startswith("_"):
                method.__qualname__ = f"{cls.__qualname__}.{name}"  # Python names it in messages about wrong calls
                if name not in but:
                    setattr(cls, name, check_arguments(method))
        return cls

    return dress


def check_argument(where: str, name: str, annotation: str, value: object) -> None:
    """Raise UsageError unless the argument `name` fits the annotation."""
    kind = _kind(annotation)
    if kind is not None and not kind[1](value):
        raise UsageError(f"{where}: `{name}` is {kind[0]}, not {describe_value(value)}")


def check_arguments(method: _Called) -> _Called:
    """Decorator: a wrong argument raises UsageError, an unknown name TypeError."""
    parameters = inspect.signature(method).parameters
    checks = {
        name: partial(check_argument, method.__name__, name, str(parameter.annotation))
        for name, parameter in parameters.items()
        if _kind(str(parameter.annotation)) is not None
    }
    names = _names_of(parameters.values())
    if not checks and names is None:
        return method
    by_position = [checks.get(name) for name, parameter in parameters.items() if parameter.kind in _BY_POSITION]
    takes_any = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters.values())
    most = sys.maxsize if takes_any else len(by_position)
    by_name = {name: check for name, check in checks.items() if parameters[name].kind in _BY_NAME}

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        if names is not None and not kwargs.keys() <= names.keys():
            raise TypeError(_unknown(method.__name__, next(name for name in kwargs if name not in names), names))
        if len(args) > most:  # Python's own message is best
            return method(*args, **kwargs)
        for check, value in zip(by_position, args, strict=False):
            if check is not None:
                check(value)
        for name, value in kwargs.items():
            if name in by_name:
                by_name[name](value)
        return method(*args, **kwargs)

    return call  # type: ignore[return-value]


def caller_stacklevel() -> int:
    """Return the `stacklevel` that attributes a warning to the caller outside cepbook."""
    level, frame = 0, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "cepbook":
        level, outer = level + 1, frame.f_back
        if outer is None:
            break
        frame = outer
    return level + 1


def _names_of(parameters: Collection[inspect.Parameter]) -> dict[str, None] | None:
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return dict.fromkeys(p.name for p in parameters if p.kind in _BY_NAME and p.name != "self")


def _unknown(where: str, name: str, names: Collection[str]) -> str:
    hint = did_you_mean(name, names) or (f"there are {', '.join(names)}" if names else "it takes none by name")
    return f"{where}: there is no argument `{name}`\n  hint: {hint}"
