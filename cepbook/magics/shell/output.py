"""Output of magics: a text or a table, as HTML and as plain text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

from cepbook.display import (
    DisplayTable,
    format_count,
    format_property,
    format_time,
    heading_html,
    prose_html,
    table_html,
    table_text,
)
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.syntax.reader.lexer import quoted_name
from cepbook.session.io.time_conversion import clock_unit
from cepbook.widgets.base.static_picture import StaticPicture

ROWS_SHOWN = 200  # a longer table says how many rows it leaves out
NOTE = "opacity:.75"


def text(content: str, *, sentences: bool = False) -> StaticPicture:
    """Preformatted text; with `sentences`, words in backticks are set as code."""
    content = content.rstrip("\n")
    style = "line-height:1.35;margin:0;padding:0;word-break:normal;overflow-wrap:anywhere"
    return StaticPicture(f'<pre style="{style}">{(prose_html if sentences else escape)(content)}</pre>', content)


def table(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    signs: Sequence[str] = (),
    right: Iterable[str] = (),
    notes: Sequence[str] = (),
    sentences: bool = False,
) -> StaticPicture:
    """A table below `title`. `right` names the columns aligned to the right, `signs` tint rows.

    With `sentences`, words in backticks are set as code.
    """
    more = len(rows) - ROWS_SHOWN
    after = [f"… {format_count(more, 'more row')}"] if more > 0 else []
    after += notes
    html, plain = [heading_html(title)] if title else [], [title] if title else []
    if rows:
        aligned = set(right)
        display_table = DisplayTable(
            tuple(headings),
            tuple(heading in aligned for heading in headings),
            tuple(tuple(row) for row in rows[:ROWS_SHOWN]),
            tuple(signs[:ROWS_SHOWN]),
            (sentences,) * len(headings),
        )
        html.append(table_html(display_table))
        plain.append(
            table_text(display_table, limit=None)
        )  # unlike the text of a live view, help and checks are not cut
    html += [f'<div style="{NOTE}">{escape(note)}</div>' for note in after]
    return StaticPicture("".join(html), "\n".join([*plain, *after]))


def event_type_table(event_type: EventType) -> StaticPicture:
    """The properties of an event type."""
    inherits = f", inherits {', '.join(event_type.supertypes)}" if event_type.supertypes else ""
    time = event_type.time_property
    types = event_type.properties.items()
    rows = [(name, f"{of}, the time of the event" if name == time else str(of)) for name, of in types]
    quoted = [written for name in (event_type.name, *event_type.properties) if (written := quoted_name(name)) != name]
    note = f"in EPL, names that are keywords or have blanks or signs stand in backticks: {', '.join(quoted)}"
    return table(f"event type {event_type.name}{inherits}", ("property", "type"), rows, notes=[note] if quoted else [])


def stack(parts: Sequence[StaticPicture]) -> StaticPicture:
    """Join outputs below each other."""
    return StaticPicture("".join(output.html for output in parts), "\n".join(output.text for output in parts))


def row_text(row: dict[str, Any], times: Collection[str] = (), second: int = 1000) -> str:
    """``symbol=A  price=10.0``; columns in `times` hold times in a clock with `second` units per second."""
    return "  ".join(f"{name}={format_property(name, value, times, second)}" for name, value in row.items())


def clock_text(time: int, second: int) -> str:
    """``2024-01-01 08:00:00 (1704096000000 ms)``."""
    return f"{format_time(time, second=second)} ({time} {clock_unit(second)})"
