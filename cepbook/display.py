"""Display of times, values and tables, as HTML and as plain text.

Equal content gives equal output: no ids, no wall clock. The HTML needs no style sheet; texts are escaped.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from cepbook.errors import printable

INSERT_TINT = "rgba(46,160,67,.14)"
REMOVE_TINT = "rgba(218,54,51,.13)"
RULE = "1px solid rgba(128,128,128,.25)"
WIDTH_LIMIT = 32
LINE_LIMIT = 32  # characters of a cell that stays on one line even on a narrow page
NAME_LIMIT = 8  # characters of a heading that stays on one line
WORD_LIMIT = 10  # characters of a cell that stays on one line; in ten a date fits
CELL_LIMIT = 1_000  # characters of any cell
TEXT_LIMIT = 300  # characters of a value
ITEM_LIMIT = 12  # of a list, properties of an event
DATE_THRESHOLD_MS = 365 * 86_400_000  # ms since 1970 below which a time is no date


@dataclass(frozen=True, slots=True)
class DisplayTable:
    """Cells as text, with the alignment of each column and the sign (``+``, ``−`` or empty) of each row."""

    headings: tuple[str, ...]
    right: tuple[bool, ...]
    cells: tuple[tuple[str, ...], ...]
    signs: tuple[str, ...] = ()
    prose: tuple[bool, ...] = ()  # columns of sentences, whose backticks become code in HTML

    def __post_init__(self) -> None:
        """Cut very long values."""
        object.__setattr__(self, "cells", tuple(tuple(map(_cut, line)) for line in self.cells))


def _cut(cell: str) -> str:
    return cell if len(cell) <= CELL_LIMIT else f"{cell[:CELL_LIMIT]}… ({len(cell):,} characters)"


def table_html(table: DisplayTable) -> str:
    """Return the table as HTML. Rows with a sign are tinted."""
    head = "".join(
        f'<th style="text-align:{_side(right)};padding:2px 6px;border-bottom:{RULE}">{_breakable(name)}</th>'
        for name, right in zip(table.headings, table.right, strict=True)
    )
    body = []
    writers = [prose_html if sentences else escape for sentences in table.prose or [False] * len(table.headings)]
    for index, cells in enumerate(table.cells):
        sign = table.signs[index] if table.signs else ""
        tint = {"+": f"background:{INSERT_TINT}", "−": f"background:{REMOVE_TINT}"}.get(sign, "background:none")
        tds = "".join(
            f'<td style="text-align:{_side(right)};padding:1px 6px;{_space(cell)}">{_name(cell) or write(cell)}</td>'
            for cell, right, write in zip(cells, table.right, writers, strict=True)
        )
        body.append(f'<tr style="{tint}">{tds}</tr>')
    style = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:2px 0 8px"
    head = f"<thead><tr>{head}</tr></thead>" if any(table.headings) else ""
    return f'<table style="{style}">{head}<tbody>{"".join(body)}</tbody></table>'


def prose_html(text: str) -> str:
    """Return a sentence as HTML; text in backticks is code."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text))


# Behind a dot, an underscore, and where a word begins within a name.
_SEAM = re.compile(r"(?<=[\w)][._])(?=\w)|(?<=[a-z])(?=[A-Z])")


def _breakable(name: str) -> str:
    return "<wbr>".join(map(escape, _SEAM.split(name))) if len(name) > NAME_LIMIT else escape(name)


def _is_name(cell: str) -> bool:
    return WORD_LIMIT < len(cell) <= LINE_LIMIT and cell[0].isalpha() and " " not in cell and bool(_SEAM.search(cell))


def _name(cell: str) -> str | None:
    return _breakable(cell) if _is_name(cell) else None


def _space(cell: str) -> str:
    if _is_name(cell):
        return "vertical-align:top"
    if "\n" not in cell and len(cell) <= (WORD_LIMIT if " " in cell else LINE_LIMIT):
        return "vertical-align:top;white-space:nowrap"
    return "vertical-align:top;white-space:pre-wrap;overflow-wrap:anywhere;min-width:10ch"


def _side(right: bool) -> str:
    return "right" if right else "left"


def table_text(table: DisplayTable, limit: int | None = WIDTH_LIMIT) -> str:
    """Return the table with fixed-width columns of at most `limit` characters (None: unlimited)."""
    lines = [[cell.replace("\n", " ") for cell in line] for line in (table.headings, *table.cells)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.headings))]
    widths = [width if limit is None else min(limit, width) for width in widths]
    text_lines = []
    for line in lines:
        cells = []
        for cell, width, right in zip(line, widths, table.right, strict=True):
            cut = cell if len(cell) <= width else cell[: width - 1] + "…"
            cells.append(cut.rjust(width) if right else cut.ljust(width))
        text_lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(text_lines)


def heading_html(text: str, note: str = "") -> str:
    """Return a small heading."""
    dim = f' <span style="opacity:.7;font-weight:normal">{escape(note)}</span>' if note else ""
    return f'<div style="font-weight:600;margin-top:4px">{escape(text)}{dim}</div>'


def captioned_html(caption: str, table: DisplayTable, notes: Sequence[str] = ()) -> str:
    """Return a table as HTML below its caption, followed by notes; without rows only caption and notes."""
    below = "".join(f'<div style="opacity:.75">{escape(note)}</div>' for note in notes)
    heading = heading_html(caption) if caption else ""
    return f"<div>{heading}{table_html(table) if table.cells else ''}{below}</div>"


def format_count(n: int, noun: str, plural: str | None = None) -> str:
    """Return ``1 row``, ``2,345 rows``; `plural` if it is not the noun with an ``s``."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def format_time(time: int, *, millis: bool | None = None, second: int = 1000) -> str:
    """Format engine time: a UTC date and time, or ``hh:mm:ss.mmm`` since 0 while that is below one year.

    With `millis` a date shows milliseconds, by default if it has any. A clock that starts at 0 has no meaningful
    origin, so a date in 1970 would mislead. `second` is the number of clock units per second; digits finer than
    milliseconds follow if they are not zero.
    """
    ms, rest = divmod(time, second // 1000)
    if -DATE_THRESHOLD_MS < ms < 0:
        return f"-{format_time(-time, millis=millis, second=second)}"
    if rest:
        return f"{format_time(ms, millis=True)}{rest:03d}"
    if 0 <= ms < DATE_THRESHOLD_MS:
        days, rest = divmod(ms, 86_400_000)
        clock = f"{rest // 3_600_000:02d}:{rest // 60_000 % 60:02d}:{rest // 1000 % 60:02d}.{rest % 1000:03d}"
        return f"{days}d {clock}" if days else clock
    try:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    return moment.isoformat(sep=" ", timespec="milliseconds" if millis or (millis is None and ms % 1000) else "seconds")


def format_value(value: object, times: Collection[str] = ()) -> str:
    """Format a value as short text: nested events as ``{a=1, b=x}``, arrays as ``[1, 2]``, null as ``null``.

    Properties of events named in `times` hold ms.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return truncate(value)
        case float():
            return format_number(value, None)
        case dict():
            items = list(value.items())[:ITEM_LIMIT]
            inner = ", ".join(f"{name}={format_property(name, item, times)}" for name, item in items)
            return truncate("{" + inner + (", …}" if len(value) > ITEM_LIMIT else "}"))
        case list() | tuple():
            inner = ", ".join(format_value(item, times) for item in value[:ITEM_LIMIT])
            return truncate("[" + inner + (", …]" if len(value) > ITEM_LIMIT else "]"))
        case dt.datetime():
            return value.isoformat(sep=" ")
        case int() | dt.date() | dt.time() | dt.timedelta():
            return str(value)
    text = str(value)
    # The default repr holds an address, which would differ from run to run.
    return f"<{type(value).__name__}>" if " at 0x" in text else truncate(text)


def format_property(name: object, value: object, times: Collection[str], second: int = 1000) -> str:
    """Format the value of a property or column, as a time if its name is in `times`."""
    return format_time(value, second=second) if name in times and type(value) is int else format_value(value, times)


def decimal_places(values: Iterable[object]) -> int:
    """Return the number of decimals (1 to 4) that align the floats among `values` at the point."""
    most = 1
    for value in values:
        if type(value) is float and math.isfinite(value):
            text = f"{value:.4f}".rstrip("0")
            most = max(most, len(text) - text.index(".") - 1)
    return most


def format_number(value: float, decimals: int | None) -> str:
    """Format a float with fixed `decimals`, very large and very small ones in exponent form."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    if value != 0 and (size >= 1e15 or size < 1e-4):
        return f"{value:.4e}"
    return f"{value:.{decimal_places([value]) if decimals is None else decimals}f}"


def truncate(text: str) -> str:
    """Return the text without unprintable characters, cut after `TEXT_LIMIT` characters."""
    if len(text) > TEXT_LIMIT:
        text = text[: TEXT_LIMIT - 1] + "…"
    return printable(text)  # a lone surrogate is legal in a Python string, but not in a JSON message


def stderr_is_terminal() -> bool:
    """Return True if standard error is a terminal, which can show progress."""
    return sys.stderr.isatty()


def write_progress_line(text: str | None) -> None:
    """Replace the progress line; None clears it. Without a terminal nothing is written."""
    if stderr_is_terminal():
        sys.stderr.write(f"\r\x1b[K{text or ''}")
        sys.stderr.flush()


def unused_name(name: str, taken: Iterable[str]) -> str:
    """Return `name` with as many trailing underscores as make it unused."""
    names = set(taken)
    while name in names:
        name += "_"
    return name


def lost_rows_text(lost: int, remaining: int) -> str:
    """Return how many of the delivered rows a feed and its file no longer have."""
    return f"the oldest {lost:,} of {lost + remaining:,} delivered rows are missing"
