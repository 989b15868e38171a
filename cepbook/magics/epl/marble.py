"""``%epl marble NAME``: the marble diagram of a statement."""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.display import format_count, format_value
from cepbook.engine.delivery.delta import Row
from cepbook.magics.shell.host import NotebookHost, Subcommand, statement_names
from cepbook.magics.shell.options import MagicOptions, single_name, whole_number
from cepbook.magics.shell.output import table, text
from cepbook.session.explain.marble import Marble
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.marble.marble_chart import TimeAxis

DEFAULT_EVENTS = 20
MAX_UNNAMED_COLUMNS = 3  # rows of more columns than this tell their names

OPTIONS = (
    MagicOptions("%epl marble")
    .add("names", nargs="*", help="the statement")
    .add(
        "--events",
        type=whole_number,
        default=DEFAULT_EVENTS,
        help=f"how many of its last arrivals are drawn; default: {DEFAULT_EVENTS}",
    )
    .add("--label", action="append", help="property that stands for an event; may be given several times")
    .add("--rows", action="store_true", help="list what it delivered below the chart, to unfold")
)


def draw_marble(host: NotebookHost, arguments: list[str]) -> object:
    """Draw arrivals, window, insert and remove stream of a statement on one time axis."""
    options = OPTIONS.parse_words(arguments)
    name = single_name("%epl marble", options.names, "statement", host.statements_with_rows())
    marble = host.workbench.marble(name, events=options.events, label=options.label)
    if not options.rows:
        return marble
    host.show(marble)
    return delivery_table(marble)


def delivery_table(marble: Marble) -> StaticPicture:
    """List the deliveries of a diagram in a folded table; a stream without deliveries has no column."""
    axis, lines = TimeAxis(marble), []
    for delivery in marble.deliveries:
        insert, remove = delivery.insert or (), delivery.remove or ()
        if marble.selector == "rstream":  # what leaves is delivered in the place of what enters
            insert, remove = (), insert
        inserted = _rows(insert) if insert or remove else "(empty)"
        lines.append((axis.text(delivery.time), inserted, _rows(remove)))
    names = f": {', '.join(marble.columns)}" if len(marble.columns) <= MAX_UNNAMED_COLUMNS else ""
    headings = ("time", f"insert stream{names}", f"remove stream{names}")
    width = 3 if any(line[2] for line in lines) else 2
    if not lines:
        return text("nothing was delivered")
    picture = table("", headings[:width], [line[:width] for line in lines], right=headings[:1])
    summary = format_count(len(lines), "delivery", "deliveries")
    return StaticPicture(f"<details><summary>{summary} as a table</summary>{picture.html}</details>", picture.text)


def _rows(rows: Sequence[Row]) -> str:
    return " · ".join(
        " ".join(format_value(value) for value in row.values())
        if len(row) <= MAX_UNNAMED_COLUMNS
        else ", ".join(f"{name}={format_value(value)}" for name, value in row.items())
        for row in rows
    )


MARBLE = Subcommand(
    "marble",
    draw_marble,
    {"%epl marble NAME [--events N] [--label PROPERTY] [--rows]": "The marble diagram: arrivals, window, deliveries."},
    statement_names,
)
