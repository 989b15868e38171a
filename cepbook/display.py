"""How things are shown to people, everywhere: a time, a value, a table as HTML and as plain text, a heading over it.

All is the same for the same content: no ids, no wall clock. The HTML needs no style sheet to be understood; texts are
escaped.
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
LINE_LIMIT = 32  # characters of a cell that is narrow where a page is, even if it is one word
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
    prose: tuple[bool, ...] = ()  # columns of sentences: in HTML, what stands in backticks there is set as code

    def __post_init__(self) -> None:
        """Values that nobody would read to their end are cut."""
        object.__setattr__(self, "cells", tuple(tuple(map(_cut, line)) for line in self.cells))


def _cut(cell: str) -> str:
    return cell if len(cell) <= CELL_LIMIT else f"{cell[:CELL_LIMIT]}… ({len(cell):,} characters)"


def table_html(table: DisplayTable) -> str:
    """The table; rows with a sign are tinted."""
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
    """A sentence as HTML: what stands in backticks is code."""
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
    """The table with columns of fixed width, at most `limit` characters each (None: as wide as it takes)."""
    lines = [[cell.replace("\n", " ") for cell in line] for line in (table.headings, *table.cells)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.headings))]
    widths = [width if limit is None else min(limit, width) for width in widths]
    shown = []
    for line in lines:
        parts = []
        for cell, width, right in zip(line, widths, table.right, strict=True):
            cut = cell if len(cell) <= width else cell[: width - 1] + "…"
            parts.append(cut.rjust(width) if right else cut.ljust(width))
        shown.append(("  " + "  ".join(parts)).rstrip())
    return "\n".join(shown)


def heading_html(text: str, note: str = "") -> str:
    """A small heading over a table."""
    dim = f' <span style="opacity:.7;font-weight:normal">{escape(note)}</span>' if note else ""
    return f'<div style="font-weight:600;margin-top:4px">{escape(text)}{dim}</div>'


def captioned_html(caption: str, table: DisplayTable, notes: Sequence[str] = ()) -> str:
    """A table as HTML below its caption, notes behind it; without rows only these."""
    below = "".join(f'<div style="opacity:.75">{escape(note)}</div>' for note in notes)
    heading = heading_html(caption) if caption else ""
    return f"<div>{heading}{table_html(table) if table.cells else ''}{below}</div>"


def format_count(n: int, noun: str, plural: str | None = None) -> str:
    """``1 row``, ``2,345 rows``; `plural` where it is not the noun with an ``s``."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def format_time(time: int, *, millis: bool | None = None, second: int = 1000) -> str:
    """Engine time as text: a UTC date and time, or ``hh:mm:ss.mmm`` since 0 while that is below one year.

    A date shows milliseconds with `millis`, by default when it has any. A clock that starts at 0 counts from nowhere
    in particular, and a date in 1970 would only mislead. `second` is how many units of the time a second has; of finer
    ones than milliseconds the rest stands behind those, where there is any.
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


# ---------------------------------------------------------------- values
def format_value(value: object, times: Collection[str] = ()) -> str:
    """A value as short text: nested events as ``{a=1, b=x}``, arrays as ``[1, 2]``, null as ``null``.

    Properties of events that are called as one of `times` hold ms.
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
    """The value of a property or a column as short text; a time where it is called as one of `times`."""
    return format_time(value, second=second) if name in times and type(value) is int else format_value(value, times)


def decimal_places(values: Iterable[object], limit: int = 4) -> int:
    """How many decimals (1 to `limit`) show the floats among `values`, so that a column lines up at its point."""
    most = 1
    for value in values:
        if type(value) is float and math.isfinite(value):
            text = f"{value:.{limit}f}".rstrip("0")
            most = max(most, len(text) - text.index(".") - 1)
    return most


def format_number(value: float, decimals: int | None) -> str:
    """A float with fixed `decimals`; very large and very small ones in exponent form; NaN and infinities by name."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    if value != 0 and (size >= 1e15 or size < 1e-4):
        return f"{value:.4e}"
    return f"{value:.{decimal_places([value]) if decimals is None else decimals}f}"


def truncate(text: str) -> str:
    """The text without what could turn what is beside it, cut where nobody would read on."""
    if len(text) > TEXT_LIMIT:
        text = text[: TEXT_LIMIT - 1] + "…"
    return printable(text)  # also: a lone surrogate is a legal Python string but no legal JSON message


# ---------------------------------------------------------------- a line of a terminal
def stderr_is_terminal() -> bool:
    """Whether standard error is a terminal, where a line tells how far work is."""
    return sys.stderr.isatty()


def write_progress_line(text: str | None) -> None:
    """Write over the line that was written so before; None leaves it empty. Without a terminal nothing is written."""
    if stderr_is_terminal():
        sys.stderr.write(f"\r\x1b[K{text or ''}")
        sys.stderr.flush()
