"""The records of CSV files, checked before pandas reads them.

pandas fills a short record with nulls, cuts a long one if columns are selected, and reads a quoted empty field as null.
Here each record has as many fields as there are columns, comments and empty lines are left out, and `EMPTY` stands for
``""``. The text is checked a block at a time: blocks without quotes by the row of their separators, others by
one regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from io import TextIOBase
from typing import NamedTuple, TextIO

from cepbook.argument_checks import short_repr
from cepbook.session.io.text_files import LONGEST, TextFormat

EMPTY = "\ufdd0"  # which Unicode excludes from texts
BLOCK = 262_144  # characters

Reject = Callable[[str, str], None]
"""Gets the reason, with the line, and the text of a record that is left out."""

OPEN_QUOTE = "a field begins with a quote that does not end"
_SEPARATORS = (";", "\t", "|", ",")
_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\n|\r|\Z)")


class _Grammar(NamedTuple):
    """Regular expressions of CSV with one separator. Quotes count at the beginning of a field only."""

    one: str  # a field
    record: re.Pattern[str]  # with any number of fields
    field: re.Pattern[str]  # with the separator behind it; groups: within quotes, behind them, without quotes
    quoted: re.Pattern[str]  # a field that has quotes, with what stands before it


@cache
def _grammar(sep: str) -> _Grammar:
    s = re.escape(sep)
    within, rest = '(?:[^"]++|"")*+', rf"[^{s}\r\n]*+"
    one = rf'(?:"{within}"{rest}|(?!"){rest})'
    return _Grammar(
        one,
        re.compile(rf"(?:{one}{s})*+{one}(?:\r\n|\n|\r)"),
        re.compile(rf'(?:"({within})"({rest})|((?!"){rest})){s}'),
        re.compile(rf'(^|[{s}\r\n])("{within}"{rest})'),
    )


def fields_of(record: str, form: TextFormat) -> list[str | None] | None:
    """Return the fields of a record, an empty one without quotes as None; None if a quoted field does not end."""
    text = record.rstrip("\r\n")
    if '"' not in text:
        return [field or None for field in text.split(form.sep)]
    fields: list[str | None] = []
    at, text = 0, text + form.sep
    while at < len(text):
        match = _grammar(form.sep).field.match(text, at)
        if match is None:
            return None
        within, rest, plain = match.groups()
        fields.append((plain or None) if within is None else within.replace('""', '"') + rest)
        at = match.end()
    return fields


def columns_of(record: str, form: TextFormat) -> list[str]:
    """Return the columns that the first record of a file names. Raises ValueError if they cannot be right."""
    names = [name or f"Unnamed: {number}" for number, name in enumerate(fields_of(record, form) or ())]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"the column `{twice}` occurs twice")
    other = next((sep for sep in _SEPARATORS if len(names) == 1 and sep != form.sep and sep in names[0]), None)
    if other is not None:
        quoted = repr(other).replace("'", '"')
        hint = f"sep={quoted} (in a shell --sep {quoted})"
        raise ValueError(f"there is one column, {short_repr(names[0])}, without {form.sep!r}\n  hint: {hint}")
    return names


def wrong_fields(fields: list[str | None] | None, columns: list[str]) -> str | None:
    """Return why a record with these fields is none of these columns; None if it is one."""
    if fields is None:
        return OPEN_QUOTE
    if len(fields) == len(columns):
        return None
    hint = '\n  hint: a field with the separator is written in quotes, "…"' if len(fields) > len(columns) else ""
    return f"{len(fields)} fields for {len(columns)} columns{hint}"


class CsvRecords(TextIOBase):
    """The checked text of a CSV file behind the record that names the columns, for pandas.

    `names` are the columns. `has_empty` becomes True with the first `EMPTY`. Without `reject` a record with another
    number of fields raises ValueError with its line. The file is opened with the line ends as they are.
    """

    def __init__(
        self, file: TextIO, form: TextFormat, *, names: list[str] | None = None, reject: Reject | None = None
    ) -> None:
        self._file, self._form, self._reject, self._grammar = file, form, reject, _grammar(form.sep)
        self._rest, self._line, self._ended = "", 1, False  # what was read and not checked, its line
        self.has_empty = False
        self.names = self._first() if names is None else names
        count = len(self.names)
        comment = "" if form.comment is None else f"(?!{re.escape(form.comment)})"
        one, blank = self._grammar.one, "[ \t]".replace(form.sep, "")
        begin = rf"(?!{blank}*+[\r\n]){comment}"
        record = rf"{begin}(?:{one}{re.escape(form.sep)}){{{count - 1}}}{one}(?:\r\n|\n|\r)"
        self._record, self._records = re.compile(record), re.compile(f"(?:{record})*+")
        self._pieces = self._checked()

    def read(self, size: int | None = -1) -> str:
        """Return the next records, about a block of them; nothing at the end."""
        _, text = next(self._pieces, (0, ""))
        if '""' not in text or "" in self._form.na:
            return text
        marked = self._grammar.quoted.sub(lambda match: match[1] + EMPTY if match[2] == '""' else match[0], text)
        self.has_empty = self.has_empty or marked != text
        return marked

    def close(self) -> None:
        self._file.close()
        super().close()

    def lines(self) -> Iterator[int]:
        """Yield the lines at which the rows begin, of those that are not read yet."""
        for line, text in self._pieces:
            at = 0
            for record in self._record.finditer(text):
                line += _line_ends(text[at : record.start()])
                at = record.start()
                yield line

    def _first(self) -> list[str]:
        text = self._more()
        while True:
            line = _line(text)
            if not text:
                raise ValueError("the file is empty; its first line names the columns")
            if not self._form.is_no_record(line):
                break
            text = text[len(line) :] or self._more()
            self._line += 1
        while (record := self._grammar.record.match(text)) is None and not self._ended:
            self._rest = text + self._rest
            text = self._more()
        if record is None:
            raise ValueError(f"line {self._line}: {OPEN_QUOTE}")
        try:
            names = columns_of(record[0], self._form)
        except ValueError as error:
            raise ValueError(f"line {self._line}: {error}") from None
        self._line += _line_ends(record[0])
        self._rest = text[record.end() :] + self._rest
        return names

    def _more(self) -> str:
        """Return whole lines; the last one of the file has a line end, too."""
        if len(self._rest) > LONGEST:
            raise ValueError(f"line {self._line}: {OPEN_QUOTE}")
        data = self._file.read(BLOCK)
        text, self._rest, self._ended = self._rest + data, "", not data
        if self._ended:
            return text if not text or text.endswith(("\n", "\r")) else text + "\n"
        end = max(text.rfind("\n"), text.rfind("\r", 0, -1)) + 1
        self._rest = text[end:]
        return text[:end] or self._more()

    def _checked(self) -> Iterator[tuple[int, str]]:
        """Yield the text of records in a row, and the line at which it begins."""
        while text := self._more():
            at = 0
            while at < len(text):
                end = self._good(text, at)
                if end > at:
                    yield self._line, text[at:end]
                else:
                    end = self._bad(text, at)
                if end == at:  # the rest of the record is needed
                    self._rest = text[at:] + self._rest
                    break
                self._line += _line_ends(text[at:end])
                at = end

    def _good(self, text: str, at: int) -> int:
        """Return the end of the good records from `at` on; `at` if there is none."""
        form = self._form
        plain = at == 0 and '"' not in text and (form.comment is None or form.comment not in text)
        if plain and _is_regular(text, form.sep, len(self.names)):
            return len(text)
        match = self._records.match(text, at)
        return at if match is None else match.end()

    def _bad(self, text: str, at: int) -> int:
        """Return the end of the comment, empty line or rejected record at `at`; `at` if its end is not read yet."""
        line = _line(text, at)
        if self._form.is_no_record(line):
            return at + len(line)
        record = self._grammar.record.match(text, at)
        if record is None and not self._ended:
            return at
        fields = None if record is None else fields_of(record[0], self._form)
        end = len(text) if record is None else record.end()
        reason = f"line {self._line}: {wrong_fields(fields, self.names)}"
        if self._reject is None:
            raise ValueError(reason)
        self._reject(reason, text[at:end].rstrip("\r\n"))
        return end


def _line(text: str, at: int = 0) -> str:
    match = _LINE.match(text, at)
    return "" if match is None else match[0]


def _line_ends(text: str) -> int:
    ends = text.count("\n")
    return ends + text.count("\r") - text.count("\r\n") if "\r" in text else ends


def _is_regular(text: str, sep: str, count: int) -> bool:
    """Return True if each line of a text without quotes has `count` fields, at least two."""
    if count < 2 or not sep.isascii() or text.count("\r") != text.count("\r\n"):
        return False
    marks = text.encode().translate(None, _all_but(sep))
    line = sep.encode() * (count - 1) + b"\n"
    return marks == line * (len(marks) // count)


@cache
def _all_but(sep: str) -> bytes:
    return bytes(byte for byte in range(256) if byte not in (ord(sep), ord("\n")))
