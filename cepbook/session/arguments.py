"""Arguments of public methods, held to their annotations before anything happens, not failing deep within or late."""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from cepbook.errors import UsageError, printable

_Kind = tuple[str, Callable[[Any], bool]]
_Class = TypeVar("_Class")
SHOWN = 40  # characters of a value that is told


def _text(value: object) -> bool:
    return isinstance(value, str)


def _truth(value: object) -> bool:
    return isinstance(value, int | np.bool_)


def _whole(value: object) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) is not None  # type: ignore[arg-type]
    except TypeError:
        return False


def _path(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, os.PathLike) and isinstance(os.fspath(value), str))


def _names(value: object) -> bool:
    return _text(value) or (isinstance(value, Sequence) and all(map(_text, value)))


def _by_name(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_text, value))


_KINDS: dict[str, _Kind] = {
    "str": ("text", _text),
    "bool": ("True or False", _truth),
    "int": ("a whole number", _whole),
    "Late": ('"error" or "drop"', lambda value: _text(value) and value in ("error", "drop")),
    "Path": ("a path", _path),
    "str | os.PathLike[str]": ("a path", _path),
    "Sequence[str]": ("a list of names", lambda value: _names(value) and not _text(value)),
    "str | Sequence[str]": ("a name or a list of names", _names),
    "Mapping[str, Any]": ("a dict by name", _by_name),
    "str | Mapping[str, str]": ("a name, or a dict of names", lambda value: _text(value) or _by_name(value)),
}  # by annotation; what is not here a method looks at itself


def _kind(annotation: str) -> _Kind | None:
    """What an annotation asks for; with ``| None`` as well."""
    plain = annotation.removesuffix(" | None")
    found = _KINDS.get(plain)
    if found is None or plain == annotation:
        return found
    words, fits = found
    return f"{words}, or None", lambda value: value is None or fits(value)


def shown(value: object) -> str:
    """A value of any kind, and what it is."""
    text = printable(" ".join(repr(value).split()))
    return f"{text if len(text) <= SHOWN else text[: SHOWN - 1] + '…'} ({type(value).__name__})"


def arguments_checked(*, but: Collection[str] = ()) -> Callable[[type[_Class]], type[_Class]]:
    """For a class: a wrong argument of a public method, inherited ones included, is a UsageError.

    `but` are methods that look at all their arguments themselves.
    """

    def dress(cls: type[_Class]) -> type[_Class]:
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            if not name.startswith("_") and name not in but:
                setattr(cls, name, _checked(method))
        return cls

    return dress


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(method)
    kinds = {p.name: kind for p in signature.parameters.values() if (kind := _kind(str(p.annotation))) is not None}
    if not kinds:
        return method

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # which Python tells best
            return method(*args, **kwargs)
        for name, (words, fits) in kinds.items():
            if name in given and not fits(given[name]):
                raise UsageError(f"{method.__name__}: `{name}` is {words}, not {shown(given[name])}")
        return method(*args, **kwargs)

    return call
