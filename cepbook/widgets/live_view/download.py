"""Downloads from the live view of a statement: the files behind its buttons CSV, Parquet and Copy.

A file has the rows and the columns that the view displays, all of them and not only those in sight. The rows are read
when the button is clicked. A thread then searches, sorts and writes them, and sends the file in parts, with its
progress in between. It needs neither the engine nor the workbench's lock: a cell runs meanwhile, and a statement that
is dropped or a workbench that is reset changes nothing. What goes wrong is a message of the view.
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from cepbook.errors import CepbookError, UsageError, exception_text, printable
from cepbook.session.io.output.row_writer import dated_rows, encodable
from cepbook.session.io.output.sinks import EXPORTED_ROWS, export_rows
from cepbook.session.io.output.writers import csv_lines
from cepbook.widgets.live_view.file_rows import FileRows, RowSelection
from cepbook.widgets.live_view.stream_sheet import StreamRequest

FileFormat = Literal["csv", "parquet", "text"]
FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
MAX_FILE_BYTES = 500_000_000  # the largest download
PART_BYTES = 2_000_000  # of one message
REPORT_INTERVAL = 0.2  # seconds between two messages about progress
MAX_DOWNLOADS = 4  # of one view at a time


class CancelledError(Exception):
    """The reader no longer wants the file."""


def file_bytes(
    content: FileRows,
    form: FileFormat,
    name: str,
    progress: Callable[[int], object] = lambda rows: None,
    *,
    headings: bool = True,
) -> bytes:
    """Return rows of statement `name` as CSV, Parquet, or tab-separated text for pasting into a spreadsheet.

    `progress` is called as by `export_rows`. Raises UsageError if the file is larger than `MAX_FILE_BYTES`, and as
    `export_rows`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rows.{form}"
        if form == "text":
            _write_text(content, path, progress, headings)
        else:
            export_rows(content.rows, path, content.types, name, progress=progress)
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            hint = f"write it to disk: cep.export({name!r}, path)"
            raise UsageError(
                f"the file has {size:,} bytes, and the limit of a download is {MAX_FILE_BYTES:,}\n  hint: {hint}"
            )
        return path.read_bytes()


def _write_text(content: FileRows, path: Path, progress: Callable[[int], object], headings: bool) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        if headings:
            file.write(encodable(csv_lines([list(content.types)], "\t")))
        for start in range(0, len(content.rows), EXPORTED_ROWS):
            rows = dated_rows(content.types, content.rows[start : start + EXPORTED_ROWS])
            file.write(encodable(csv_lines(rows, "\t")))
            progress(start + len(rows))


def file_name(name: str, form: FileFormat) -> str:
    """Return a file name made of a statement's name: letters, digits, dots and dashes, at most 60 characters."""
    plain = re.sub(r"[^\w.-]+", "_", name).strip("._")[:60] or "rows"
    return f"{plain}.{form}"


@dataclass(frozen=True, slots=True)
class DownloadRequest:
    """A request of the browser for rows as a file, or as text: those of the `stream`, or those of the iterator."""

    id: str
    form: FileFormat
    stream: bool
    partition: int | None
    rows: RowSelection
    headings: bool = True  # of a text

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> DownloadRequest | None:
        """Parse a message of the browser; None if it is not a valid request."""
        form = next((form for form in FILE_FORMATS if form == content.get("form")), None)
        if form is None:
            return None
        columns = span = None
        match content.get("columns"):
            case [*names]:
                columns = tuple(map(str, names))
        match content.get("span"):
            case [int(first), int(last)]:
                span = range(max(0, first), max(0, last))
        partition = content.get("partition")
        return cls(
            str(content.get("id"))[:64],
            form,
            content.get("stream") is True,
            partition if type(partition) is int else None,
            RowSelection(StreamRequest.of(content), columns, span),
            content.get("headings") is not False,
        )


class Download:
    """A file of rows of statement `name` on its way to the page, in a thread of its own.

    `read` returns the rows, in that thread. `send(message, buffers)` sends a message to the page: ``rows`` of ``of``
    are written, ``part`` of ``parts``, or the ``problem``.
    """

    def __init__(
        self,
        request: DownloadRequest,
        name: str,
        read: Callable[[], FileRows],
        send: Callable[[dict[str, object], list[bytes]], object],
    ) -> None:
        self.request = request
        self._name = name
        self._read = read
        self._send = send
        self._cancelled = False
        self._reported = 0.0
        self._thread = threading.Thread(target=self._run, name="cepbook download", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def cancel(self) -> None:
        """Stop as soon as possible, without another message."""
        self._cancelled = True

    @property
    def runs(self) -> bool:
        """True until the file was sent."""
        return self._thread.is_alive()

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    def _tell(self, message: dict[str, object], buffers: list[bytes] | None = None) -> None:
        if self._cancelled:
            raise CancelledError
        self._send({"kind": "download", "id": self.request.id, "form": self.request.form, **message}, buffers or [])

    def _run(self) -> None:
        try:
            try:
                self._write()
            except CancelledError:
                return
            except CepbookError as error:
                self._tell({"problem": printable(str(error))})
            except Exception as error:  # noqa: BLE001 - the reader sees it
                self._tell({"problem": printable(exception_text(error))})
        except Exception:  # noqa: BLE001 - nobody is there to see it: the page or the kernel's connection is gone
            return

    def _write(self) -> None:
        content = self._read()
        count = len(content.rows)

        def report(rows: int) -> None:
            now = time.monotonic()
            if now >= self._reported + REPORT_INTERVAL:
                self._reported = now
                self._tell({"rows": rows, "of": count})

        report(0)
        data = file_bytes(content, self.request.form, self._name, report, headings=self.request.headings)
        parts = range(0, max(1, len(data)), PART_BYTES)
        last = {"file": file_name(self._name, self.request.form), "rows": count, "note": content.note}
        for number, start in enumerate(parts):
            self._tell(
                {"part": number, "parts": len(parts), "size": len(data), **(last if number == len(parts) - 1 else {})},
                [data[start : start + PART_BYTES]],
            )
