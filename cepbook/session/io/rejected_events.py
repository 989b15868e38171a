"""Rejected items in a file (a dead-letter file): events that came too late, and input that is no event.

The file has JSON lines: ``{"time": …, "source": …, "reason": …, "item": …}``. `time` is the time of the engine in ISO
8601, `source` the event type of the source, `item` the input as it came. An item that JSON cannot express is its text.
Lines are added to those of an existing file, and are in the file when `RejectedFile.write` returns, so that they
survive a killed process.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection

from cepbook.argument_checks import short_repr
from cepbook.display import format_count
from cepbook.errors import UsageError
from cepbook.lang.types import OBJECT
from cepbook.session.io.event_validation import as_mapping
from cepbook.session.io.output.row_writer import encodable, file_text
from cepbook.session.io.output.sinks import SinkError
from cepbook.session.io.output.writers import open_writer
from cepbook.session.io.time_conversion import to_datetime

KINDS = (".jsonl", ".ndjson")
MAX_REASONS = 50  # that are told apart
OTHER = "other reasons"
_VALUES = re.compile(r"(?<!\w)(['\"])(?:(?!\1)[^\\…]|\\.)*(?:\1|…)|\d[\d.,_e+-]*")  # in reasons; a cut text ends with …
_COLUMNS = dict.fromkeys(("time", "source", "reason", "item"), OBJECT)


def common_reason(reason: str, known: Collection[str]) -> str:
    """Return a reason without its hint, with … for numbers and quoted values; `OTHER` if many others are `known`."""
    common = _VALUES.sub("…", reason.split("\n", 1)[0])
    return common if common in known or len(known) < MAX_REASONS else OTHER


class RejectedFile:
    """Adds rejected items to the file `path`, until `close`.

    `count` is the number of written items. An item that cannot be written (a full disk) stops nothing: the first such
    failure is printed, `lost` counts the items since, and `close` raises SinkError. Raises UsageError for a file that
    is not one of JSON lines, or cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], second: int = 1000) -> None:
        self.path = os.fspath(path)
        if not self.path.lower().endswith(KINDS):
            raise UsageError(f"rejected events are written as JSON lines, not to {self.path!r}\n  hint: rejected.jsonl")
        self._second = second
        self._writer = open_writer(self.path, _COLUMNS, "", append=True)
        self.count = 0
        self.lost = 0
        self.error: Exception | None = None

    def write(self, source: str, reason: str, item: object, time: int) -> None:
        """Add an item of the source of event type `source`, rejected at engine time `time`."""
        if self.error is None:
            moment = to_datetime(time, self._second)
            try:
                self._writer.write([(moment or time, source, encodable(reason), _plain(item))])
                self.count += 1
                return
            except (OSError, ValueError) as error:
                self.error = error
                sys.stderr.write(f"cepbook: {self.path!r} cannot be written: {error}; rejected events are lost\n")
        self.lost += 1

    def close(self) -> None:
        """Finish the file. Raises SinkError if items are lost. A second call does nothing."""
        error, self.error = self.error, None
        try:
            self._writer.close()
        except (OSError, ValueError) as failure:
            error = error or failure
        if error is not None:
            lost = format_count(self.lost, "rejected event")
            raise SinkError(f"{self.path!r} cannot be written: {error}; {lost} lost") from error


def _plain(item: object) -> object:
    """Return what JSON can express as it is, and the text of anything else."""
    if isinstance(item, bytes):
        return item.decode("utf-8", "backslashreplace")
    if isinstance(item, str):
        return encodable(item)
    try:
        text = file_text(as_mapping(item) or item)
        readable = encodable(text)
        return json.loads(text) if text == readable else readable
    except Exception:  # noqa: BLE001  the item is anything: circular, deeply nested, without a readable text
        return encodable(_whole_repr(item))


def _whole_repr(item: object) -> str:
    try:
        return repr(item)
    except Exception:  # noqa: BLE001  as above
        return short_repr(item)
