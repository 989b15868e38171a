"""The static picture of a statement: its stream, window, partitions and partial matches as tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Literal

from cepbook.display import WIDTH_LIMIT, DisplayTable, format_count, format_time, heading_html, table_html, table_text
from cepbook.engine.inspection.visible_rows import LatestRows
from cepbook.errors import CepbookError, printable
from cepbook.feeds import Feed
from cepbook.session.inspect.partial_matches import PartialMatches
from cepbook.session.inspect.partition_selectors import NO_ROWS_TEXT
from cepbook.widgets.base.column_encoding import ViewColumn
from cepbook.widgets.base.static_picture import CELL_LIMIT, StaticPicture, column_cells, table_of_rows
from cepbook.widgets.live_view.partition_rows import columns_of, partial_rows, partition_columns, tree_rows
from cepbook.widgets.live_view.view_source import PartitionList, ViewSource

STATIC_ROWS = 20
_EPL_STYLE = "margin:2px 0 6px;padding:0;background:none;white-space:pre-wrap;opacity:.8;font-size:90%"

ViewState = Literal["ready", "live", "paused", "finished", "dropped"]


def static_view(source: ViewSource, state: ViewState = "ready") -> StaticPicture:
    """Return the static picture of a statement: the last rows of its stream, its window contents, its partitions."""
    try:
        columns, epl, feed = tuple(source.columns), source.epl, source.feed
    except CepbookError:
        return dropped_picture(source.name)
    came, left = format_count(feed.total_insert, "insert row"), format_count(feed.total_remove, "remove row")
    title = f"{printable(source.name)}: {came}, {left}" if source.delivers else printable(source.name)
    clock = f"clock {format_time(source.clock())}"
    html = [heading_html(title, clock), f'<pre style="{_EPL_STYLE}">{escape(printable(epl.strip()))}</pre>']
    text = [f"{title}  ({clock})"]
    for heading, note, table in _sections(source, columns, feed, state):
        html.append(heading_html(heading, note) + (table_html(table) if table is not None else ""))
        text.append(f"{heading}{f': {note}' if note else ''}")
        if table is not None:
            text.append(table_text(table, CELL_LIMIT if heading == "Partitions" else WIDTH_LIMIT))
    return StaticPicture(f"<div>{''.join(html)}</div>", "\n".join(text))


def dropped_picture(name: str) -> StaticPicture:
    """Return the picture of a statement that was dropped before it was displayed."""
    title = f"{printable(name)}: this statement was dropped"
    return StaticPicture(f"<div>{heading_html(title)}</div>", title)


def last_picture(name: str, last: StaticPicture) -> StaticPicture:
    """Return the last picture of a statement, and the note that the statement was dropped."""
    note = dropped_picture(name)
    return StaticPicture(f"{note.html}{last.html}", f"{note.text}; before that\n{last.text}")


def _sections(
    source: ViewSource, columns: tuple[ViewColumn, ...], feed: Feed, state: ViewState
) -> list[tuple[str, str, DisplayTable | None]]:
    sections = [_stream_section(columns, feed, source)] if source.delivers else []
    if state == "dropped":
        return sections
    try:
        if source.keeps_rows:
            heading = source.results or ("Window" if source.delivers else "Rows")
            sections.append(_rows_section(heading, "row", source.latest(STATIC_ROWS), columns))
        else:
            sections.append(("Window", NO_ROWS_TEXT, None))
        if source.results is not None:
            total, names, rows = source.events(STATIC_ROWS)
            events = columns_of(names, rows, source.times)
            sections.append(_rows_section("Window", "event", LatestRows(total, list(rows)), events))
        partitions = source.partitions(STATIC_ROWS) if source.partitioned else None
    except CepbookError as error:
        return [*sections, ("Window", str(error), None)]
    if partitions is not None:
        sections.append(_partitions_section(partitions, tuple(source.levels)))
    if source.tags is not None:
        sections.append(_waiting_section(source.partials(), source.times))
    return sections


def _partitions_section(partitions: PartitionList, levels: tuple[str, ...]) -> tuple[str, str, DisplayTable | None]:
    total, rows, _ = partitions
    if not rows:
        return "Partitions", "empty", None
    columns, note = partition_columns(rows), format_count(total, "partition")
    if total > len(rows):
        note = f"first {len(rows)} of {note}"
    return (
        "Partitions",
        note,
        table_of_rows(*tree_rows(rows, columns, levels)) if levels else table_of_rows(rows, columns),
    )


def _waiting_section(partials: PartialMatches, times: frozenset[str]) -> tuple[str, str, DisplayTable | None]:
    columns, rows, _ = partial_rows(partials, times)
    if not rows:
        return "Waiting", "for nothing", None
    note = format_count(partials.total, "partial match", "partial matches")
    if partials.total > STATIC_ROWS:
        rows, note = rows[:STATIC_ROWS], f"first {STATIC_ROWS} of {note}"
    return "Waiting", note, table_of_rows(rows, columns)


def _stream_section(
    columns: tuple[ViewColumn, ...], feed: Feed, source: ViewSource
) -> tuple[str, str, DisplayTable | None]:
    deliveries = feed.columns(feed.deliveries - STATIC_ROWS, STATIC_ROWS)
    times = [source.ms(time) for time in deliveries.times]
    if not times:
        missed = "" if feed.deliveries else source.missed()
        hint = "; `await cep.replay_again()` replays them" if missed and source.repeatable else ""
        return "Stream", f"no rows yet{missed and f': {missed}'}{hint}", None
    millis = any(ms % 1000 for ms in times)
    signs = tuple("+" if flag else "−" for flag in deliveries.inserts)
    cells_by_row = column_cells([deliveries.column(c.name) for c in columns], columns, len(times))
    table = DisplayTable(
        ("time", "", *(c.name for c in columns)),
        (False, False, *(c.kind in ("int", "float") for c in columns)),
        tuple(
            (format_time(ms, millis=millis), sign, *cells)
            for ms, sign, cells in zip(times, signs, cells_by_row, strict=True)
        ),
        signs,
    )
    total = feed.total_insert + feed.total_remove
    return "Stream", f"last {len(signs)} of {format_count(total, 'row')}" if total > len(signs) else "", table


def _rows_section(
    heading: str, noun: str, latest: LatestRows, columns: Sequence[ViewColumn]
) -> tuple[str, str, DisplayTable | None]:
    total, rows = latest
    if not rows:
        return heading, "empty", None
    note = format_count(total, noun)
    if total > len(rows):  # the newest are at the end
        note = f"last {len(rows)} of {note}"
    return heading, note, table_of_rows(rows, columns)
