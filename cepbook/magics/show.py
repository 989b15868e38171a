"""What magics show: a text or a table, as HTML and as plain text that repeats exactly."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

from cepbook.lang.catalog import EventType
from cepbook.lang.dialects.epl_lexer import RESERVED
from cepbook.session.values.clock import unit
from cepbook.shown import Table, counted, heading_html, property_text, prose, table_html, table_text, time_text
from cepbook.widgets.render import Frozen

ROWS_SHOWN = 200  # a longer table says how many rows it leaves out
NOTE = "opacity:.75"


def text(shown: str, *, sentences: bool = False) -> Frozen:
    """Preformatted text; of `sentences`, what stands in backticks is set as code."""
    shown = shown.rstrip("\n")
    style = "line-height:1.35;margin:0;padding:0;word-break:normal;overflow-wrap:anywhere"
    return Frozen(f'<pre style="{style}">{(prose if sentences else escape)(shown)}</pre>', shown)


def table(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    signs: Sequence[str] = (),
    right: Iterable[str] = (),
    notes: Sequence[str] = (),
    sentences: bool = False,
) -> Frozen:
    """Rows of texts below `title`; `right` names the columns that are aligned to the right, `signs` tint rows.

    Of `sentences`, what stands in backticks is set as code.
    """
    more = len(rows) - ROWS_SHOWN
    after = [f"… {counted(more, 'more row')}"] if more > 0 else []
    after += notes
    html, plain = [heading_html(title)] if title else [], [title] if title else []
    if rows:
        aligned = set(right)
        made = Table(
            tuple(headings),
            tuple(heading in aligned for heading in headings),
            tuple(tuple(row) for row in rows[:ROWS_SHOWN]),
            tuple(signs[:ROWS_SHOWN]),
            (sentences,) * len(headings),
        )
        html.append(table_html(made))
        plain.append(table_text(made, limit=None))  # unlike the text of a live view, help and checks are not cut
    html += [f'<div style="{NOTE}">{escape(note)}</div>' for note in after]
    return Frozen("".join(html), "\n".join([*plain, *after]))


def event_type_table(event_type: EventType) -> Frozen:
    """The properties of an event type, and which of them is its time."""
    inherits = f", inherits {', '.join(event_type.supertypes)}" if event_type.supertypes else ""
    time = event_type.time_property
    rows = [
        (name, f"{of}, the time of the event" if name == time else str(of))
        for name, of in event_type.properties.items()
    ]
    keywords = [f"`{name}`" for name in (event_type.name, *event_type.properties) if name.lower() in RESERVED]
    notes = [f"in EPL, names that are keywords stand in backticks: {', '.join(keywords)}"] if keywords else []
    return table(f"event type {event_type.name}{inherits}", ("property", "type"), rows, notes=notes)


def together(parts: Sequence[Frozen]) -> Frozen:
    """Several things below each other, as one output."""
    return Frozen("".join(part.html for part in parts), "\n".join(part.text for part in parts))


def row_text(row: dict[str, Any], times: Collection[str] = (), second: int = 1000) -> str:
    """``symbol=A  price=10.0``; columns of `times` hold times, in units of which a `second` has so many."""
    return "  ".join(f"{name}={property_text(name, value, times, second)}" for name, value in row.items())


def clock_text(time: int, second: int) -> str:
    """``2024-01-01 08:00:00 (1704096000000 ms)``; a clock that counts microseconds is shown with them."""
    return f"{time_text(time, second=second)} ({time} {unit(second)})"
