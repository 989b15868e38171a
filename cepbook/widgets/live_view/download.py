"""Download the rows of a view: the files behind the buttons CSV, Parquet and Copy."""

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
FILE_FORMATS: dict[object, FileFormat] = {form: form for form in get_args(FileFormat)}
MAX_FILE_BYTES = 50_000_000  # bytes that go to a page


def file_of(rows: Sequence[Sequence[Any]], types: Mapping[str, Type], form: FileFormat, name: str) -> bytes:
    """Return the rows of statement `name` as CSV, as Parquet, or as lines with tabs, as spreadsheets take them.

    Raises UsageError for a file that is too large for a page, and as `export`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("rows.parquet" if form == "parquet" else "rows.csv")
        export_rows(rows, path, types, name)
        content = path.read_bytes()
    if len(content) > MAX_FILE_BYTES:
        hint = f"`cep.export({name!r}, path)` writes a file"
        raise UsageError(f"{len(content):,} bytes are too much for a page\n  hint: {hint}")
    return _tab_separated(content.decode("utf-8")).encode("utf-8") if form == "text" else content


def _tab_separated(text: str) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter="\t", lineterminator="\n").writerows(csv.reader(io.StringIO(text, newline="")))
    return buffer.getvalue()


def file_name(name: str, form: FileFormat) -> str:
    """Return a file name that identifies the rows, and is valid everywhere."""
    plain = re.sub(r"[^\w.-]+", "_", name).strip("._")[:60] or "rows"
    return f"{plain}.{form}"


@dataclass(slots=True)
class DownloadRequest:
    """Rows that a page requests as a file. `frame_number` is the frame with the answer; 0: none yet."""

    id: str
    form: FileFormat
    stream: bool
    partition: int | None
    frame_number: int = 0

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self | None:
        """Return the request in a message; None if it is none."""
        form, partition = FILE_FORMATS.get(content.get("form")), content.get("partition")
        if form is None:
            return None
        return cls(
            str(content.get("id")),
            form,
            content.get("stream") is True,
            partition if isinstance(partition, int) else None,
        )

    def answer(self, name: str, read: Callable[..., tuple[int, bytes]], buffers: BinaryBuffers) -> dict[str, object]:
        """Return the part of a frame with the file, which `read` makes, or with the reason why there is none."""
        answer: dict[str, object] = {"id": self.id, "form": self.form}
        try:
            rows, content = read(self.form, stream=self.stream, partition=self.partition)
        except CepbookError as error:
            return {**answer, "problem": printable(str(error))}
        buffers.parts.append(content)
        return {**answer, "file": file_name(name, self.form), "rows": rows, "buffer": len(buffers.parts) - 1}
