"""The class `RowWriter`, and what all its writers need: values as text, names and modes of files."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any

from cepbook.errors import UsageError
from cepbook.session.io.output.output_times import clock_texts

Rows = Sequence[Sequence[Any]]
PLAIN = ("byte", "short", "int", "long", "float", "double", "boolean", "string", "char")


class BusyError(Exception):
    """Another program has locked the database. The rows can be written later."""


class RowWriter:
    """An open file of rows of the same columns. `place` is the path of the file that `write` writes.

    `survives`: rows are readable after `write`, even if the process is killed.
    """

    place = ""
    survives = True

    def write(self, rows: Rows) -> None:
        """Append rows. Rows of a Parquet file count when the file is closed; all others are in the file at once.

        A value that cannot be written raises, and then the file has none of the rows. Raises BusyError as well.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Finish the file. A second call does nothing."""
        raise NotImplementedError

    @property
    def position(self) -> int:
        """How far the file is, for `sink_files.count_delivered`: bytes of text, rows of a stream, the last row id."""
        return 0

    def clean(self) -> None:
        """Remove what is no longer needed once the closed file has its name."""


def take_mode(written: str, path: str | os.PathLike[str]) -> None:
    """Give the file `written`, which will replace `path`, the owner and the permissions of `path`, if that exists."""
    with suppress(OSError):
        old = os.stat(path)
        if sys.platform != "win32":
            with suppress(OSError):  # only root changes an owner
                os.chown(written, old.st_uid, old.st_gid)
        os.chmod(written, stat.S_IMODE(old.st_mode))


def file_text(value: object) -> str:
    """Return a value that the file has no type for as text: JSON, dates in ISO 8601, exact numbers as digits."""
    return value if isinstance(value, str) else _date_or_decimal_text(value) or json_text(value)


def _date_or_decimal_text(value: object) -> str | None:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else None


def _json_of(value: object) -> str:
    return _date_or_decimal_text(value) or str(value)


def json_text(value: object) -> str:
    """Return a value as JSON: NaN and the infinities, dates and what JSON does not know as texts."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_json_of, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=_json_of)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return {str(k): _finite(item) for k, item in value.items()} if isinstance(value, dict) else value


def encodable(text: str) -> str:
    """Return a text that UTF-8 can hold: halves of surrogate pairs are written as ``\\ud800``."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def set_aside(path: str, target: str) -> None:
    """Rename the file that a killed process left instead of `target`, if there is one, to a free name and print it."""
    stem, kind = os.path.splitext(path)
    if os.path.exists(path):
        names = (f"{stem}.unclosed{number}{kind}" for number in ("", *map(".{}".format, range(2, 10_000))))
        name = next(name for name in names if not os.path.exists(name))
        os.replace(path, name)
        sys.stderr.write(f"cepbook: {name!r} has the rows of a run that ended before {target!r} was written\n")


def dated_rows(columns: Mapping[str, Any], rows: Rows) -> Rows:
    """Return rows with the times of the clock in ISO 8601, as files have them that have no type for them."""
    return RowDates(columns)(rows)


class RowDates:
    """Writes the times of the clock among the columns of rows in ISO 8601, for files that have no type for them."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        clocks = ((place, of) for place, of in enumerate(columns.values()) if of.name == "clock time")
        self._texts = [(place, partial(clock_texts, of)) for place, of in clocks]

    def __call__(self, rows: Rows) -> Rows:
        if not self._texts:
            return rows
        dated = list(map(list, rows))
        for place, texts in self._texts:
            for row, text in zip(dated, texts([row[place] for row in dated]), strict=True):
                row[place] = text
        return dated


def other_columns(path: str, names: Sequence[str]) -> UsageError:
    """Return the error for a file that rows of other columns cannot be added to."""
    return UsageError(
        f"{path!r} has other columns: {', '.join(names)}\n"
        "  hint: give another name, or leave `append` out to replace the file"
    )
