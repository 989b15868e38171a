"""How text files are read: the options of a file, and one rule for the values of CSV and JSON lines.

The same text is the same value however a file is read, by a replay, by `define`, or line by line while it grows:

- An empty field of CSV is null, and ``""`` an empty text. ``NA`` and ``null`` are ordinary texts, unless
  `TextFormat.na` lists them.
- Numbers have ASCII digits without underscores, such as ``-1``, ``1e3``, ``1.50``, for ``double`` and ``float`` also
  ``inf``, and ``nan``, which is null; blanks around them do not matter. Whole numbers may have a fraction of zeros, as
  pandas writes columns with gaps. ``biginteger`` and ``bigdecimal`` keep all digits; ``007`` is a text for a string
  property.
- A name that occurs twice, in the first line of CSV or in a JSON object, is an error, and so is a record of CSV with
  another number of fields than there are columns.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

from cepbook.argument_checks import short_repr
from cepbook.errors import UsageError
from cepbook.lang.types import Type, is_integral, is_numeric

_NUMBER = re.compile(  # each digit can be read in one way: a long text that is no number is refused at once
    r"\s*+[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:e[+-]?[0-9]++)?\s*+", re.ASCII | re.IGNORECASE
)
_INFINITE = re.compile(r"\s*+[+-]?inf(?:inity)?\s*+", re.ASCII | re.IGNORECASE)
FLOATS_OF_SINKS = {"nan": None, "inf": math.inf, "-inf": -math.inf}  # texts that sinks write; NaN is null at the border
FLOATS = ("double", "float")
TEXTS = ("string", "object")  # types whose values may be empty texts
LONGEST = 16 * 1024 * 1024  # bytes of a line or a message of a live source, characters of a record of CSV
_DIGITS = 4_300  # of a whole number, the most that Python converts


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How a text file is read: the separator of CSV, the encoding, the beginning of comment lines, and texts that are
    null besides empty fields. Raises UsageError for values that no file can have.
    """

    sep: str = ","
    encoding: str = "utf-8"
    comment: str | None = None
    na: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.sep, str) or len(self.sep) != 1 or self.sep in '"\r\n':
            raise UsageError(f'`sep` is one character, such as ";" or "\\t", not {short_repr(self.sep)}')
        try:
            codecs.lookup(self.encoding)
            "".encode(self.encoding)
        except (LookupError, TypeError, ValueError):
            hint = '\n  hint: "utf-8", "latin-1", "cp1252", "utf-16"'
            raise UsageError(f"`encoding`: there is no encoding {short_repr(self.encoding)}{hint}") from None
        comment = self.comment
        if comment is not None and (not isinstance(comment, str) or not comment.strip() or "\n" in comment):
            raise UsageError(f'`comment` is the beginning of a line, such as "#", not {short_repr(comment)}')
        if not all(isinstance(text, str) for text in self.na):
            raise UsageError(f'`na` is a text or a list of texts, such as ["NA", "null"], not {short_repr(self.na)}')

    @property
    def marked(self) -> str:
        """The encoding of the beginning of a file, where UTF-8 may have a byte order mark."""
        return "utf-8-sig" if codecs.lookup(self.encoding).name == "utf-8" else self.encoding

    def is_no_record(self, line: str) -> bool:
        """Return True if a line of a file is a comment or empty."""
        blank = not line.strip() and self.sep not in line
        return blank or (self.comment is not None and line.startswith(self.comment))

    def object(self, line: str) -> dict[str, Any] | None:
        """Return the object of a line of JSON; None for a comment and an empty line. Raises ValueError."""
        if self.is_no_record(line):
            return None
        row = json_object(line)
        return {name: None if value in self.na else value for name, value in row.items()} if self.na else row

    def wrong_encoding(self, error: UnicodeDecodeError) -> str:
        """Return the message for bytes that are not of the encoding, with the option to write."""
        byte = error.object[error.start]
        encoding = "utf-16" if error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
        fact = f"the byte 0x{byte:02x} is no {self.encoding}"
        return f'{fact}\n  hint: encoding="{encoding}" (in a shell --encoding {encoding})'


DEFAULT = TextFormat()


def text_format(
    sep: str | None = None, encoding: str | None = None, comment: str | None = None, na: str | Iterable[str] = ()
) -> TextFormat:
    """Return the format with the options of the workbench. Raises UsageError for wrong values."""
    nulls = (na,) if isinstance(na, str) else tuple(na) if isinstance(na, Iterable) else (cast("str", na),)
    return TextFormat("," if sep is None else sep, "utf-8" if encoding is None else encoding, comment, nulls)


class FileFields(dict[str, Any]):
    """An event of a growing file of JSON lines, or with `texts` of CSV."""

    texts = False

    def values_for(self, properties: Mapping[str, Type], time: str | None) -> dict[str, Any]:
        """Return the values of the event for these properties and the column `time`; as in a replay no others."""
        return {
            name: field_value(value, properties.get(name)) if self.texts or isinstance(value, float) else value
            for name, value in self.items()
            if name in properties or name == time
        }


class TextFields(FileFields):
    """An event of a growing CSV file, whose values are texts."""

    texts = True


def field_value(value: Any, of: Type | None) -> Any:
    """Return the value of a file for a property of type `of`. A value that does not fit is returned as it is; the
    validation of the event reports it.

    An empty text is null for any other property than texts.
    """
    if of is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return int(value) if is_integral(of) and value.is_integer() else value
    if not isinstance(value, str) or of.name in TEXTS:
        return value
    if not value:
        return None
    if of.name == "boolean":
        return {"true": True, "false": False}.get(value.lower(), value)
    if not is_numeric(of):
        return value
    if not _NUMBER.fullmatch(value):
        if of.name in FLOATS and value in FLOATS_OF_SINKS:
            return FLOATS_OF_SINKS[value]
        return float(value) if of.name in FLOATS and _INFINITE.fullmatch(value) else value
    if of.name == "bigdecimal":
        return Decimal(value.strip())
    return _whole(value) if is_integral(of) else float(value)


def _whole(text: str) -> Any:
    """Return the value of a number for a whole property, with all its digits; a fraction as a float, for a check to
    report; the text itself if neither can have its value.
    """
    number = Decimal(text.strip())
    if number.adjusted() >= _DIGITS:
        return text
    if number == number.to_integral_value():
        return int(number)
    real = float(number)
    return text if real.is_integer() else real


class _TwiceError(ValueError):
    """A name occurs twice in a JSON object."""


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _TwiceError(f"the name `{twice}` occurs twice")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct)


def json_object(line: str) -> dict[str, Any]:
    """Return the object of a line of JSON. Raises ValueError with the problem."""
    try:
        value = _DECODER.decode(line)
    except _TwiceError:
        raise
    except ValueError as error:
        raise ValueError(f"this is no JSON: {error}") from None
    except RecursionError:
        raise ValueError("this JSON is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"an event is a JSON object, not {type(value).__name__}")
    return value
