"""Downloads from the live view of a statement: the content behind its buttons CSV, Parquet and Copy."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from cepbook.errors import CepbookError, UsageError, printable
from cepbook.lang.types import Type
from cepbook.session.io.sinks import export_rows
from cepbook.widgets.base.column_encoding import BinaryBuffers

FileFormat = Literal["csv", "parquet", "text"]
FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
MAX_FILE_BYTES = 50_000_000  # the largest download


def rows_file(rows: Sequence[Sequence[Any]], types: Mapping[str, Type], form: FileFormat, name: str) -> bytes:
    """Return the rows of statement `name` as CSV, Parquet, or tab-separated text for pasting into a spreadsheet.

    Raises UsageError if the CSV or Parquet file is larger than `MAX_FILE_BYTES`, and as `export_rows`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("rows.parquet" if form == "parquet" else "rows.csv")
        export_rows(rows, path, types, name)
        content = path.read_bytes()
    if len(content) > MAX_FILE_BYTES:
        hint = f"write it to disk: cep.export({name!r}, path)"
        raise UsageError(
            f"the file has {len(content):,} bytes, and the limit of a download is {MAX_FILE_BYTES:,}\n  hint: {hint}"
        )
    return _tab_separated(content.decode("utf-8")).encode("utf-8") if form == "text" else content


def _tab_separated(text: str) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter="\t", lineterminator="\n").writerows(csv.reader(io.StringIO(text, newline="")))
    return buffer.getvalue()


def file_name(name: str, form: FileFormat) -> str:
    """Return a file name made of a statement's name: letters, digits, dots and dashes, at most 60 characters."""
    plain = re.sub(r"[^\w.-]+", "_", name).strip("._")[:60] or "rows"
    return f"{plain}.{form}"


@dataclass(slots=True)
class DownloadRequest:
    """A request of the browser for rows as a file: those of the insert and remove `stream`, or those of the iterator.

    `StatementView` sets `frame_number`, the number of the message with the answer; 0: not answered yet.
    """

    id: str
    form: FileFormat
    stream: bool
    partition: int | None
    frame_number: int = 0

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self | None:
        """Parse a message of the browser; None if it is not a valid request."""
        partition = content.get("partition")
        form = next((form for form in FILE_FORMATS if form == content.get("form")), None)
        if form is None:
            return None
        return cls(
            str(content.get("id")),
            form,
            content.get("stream") is True,
            partition if isinstance(partition, int) else None,
        )

    def answer(
        self, name: str, read: Callable[..., tuple[int, bytes, str]], buffers: BinaryBuffers
    ) -> dict[str, object]:
        """Return the answer: name, number of rows and buffer of the file, and a note on missing rows; or ``problem``.

        `read(format, stream=…, partition=…)` returns the number of rows, the content of the file, and the note.
        """
        answer: dict[str, object] = {"id": self.id, "form": self.form}
        try:
            rows, content, note = read(self.form, stream=self.stream, partition=self.partition)
        except CepbookError as error:
            return {**answer, "problem": printable(str(error))}
        buffers.parts.append(content)
        file = file_name(name, self.form)
        return {**answer, "file": file, "rows": rows, "note": note, "buffer": len(buffers.parts) - 1}
