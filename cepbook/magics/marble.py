"""``%epl marble NAME``: the marble diagram of a statement."""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.engine.delta import Row
from cepbook.magics.host import Host
from cepbook.magics.options import Options, one, whole
from cepbook.magics.show import table, text
from cepbook.session.past.marble import Marble
from cepbook.shown import counted, text_of
from cepbook.widgets.marble import Axis
from cepbook.widgets.render import Frozen

EVENTS = 20
NARROW = 3  # rows of more columns than this tell their names

OPTIONS = (
    Options("%epl marble")
    .add("names", nargs="*", help="the statement")
    .add("--events", type=whole, default=EVENTS, help=f"how many of its last arrivals are drawn; default: {EVENTS}")
    .add("--label", action="append", help="property that stands for an event; may be given several times")
    .add("--rows", action="store_true", help="list what it delivered below the chart, to unfold")
)


def draw(host: Host, rest: list[str]) -> object:
    """Arrivals, window contents, insert and remove stream of one statement on one time axis, as a chart."""
    options = OPTIONS.parse_words(rest)
    name = one("%epl marble", options.names, "statement", host.shown_statements())
    marble = host.workbench.marble(name, events=options.events, label=options.label)
    if not options.rows:
        return marble
    host.show(marble)
    return delivered(marble)


def delivered(marble: Marble) -> Frozen:
    """The deliveries of a diagram, a line each, folded; a stream that delivered nothing has no column."""
    axis, lines = Axis(marble), []
    for delivery in marble.deliveries:
        insert, remove = delivery.insert or (), delivery.remove or ()
        if marble.selector == "rstream":  # what leaves is delivered in the place of what enters
            insert, remove = (), insert
        shown = _rows(insert) if insert or remove else "(empty)"
        lines.append((axis.text(delivery.time), shown, _rows(remove)))
    names = f": {', '.join(marble.columns)}" if len(marble.columns) <= NARROW else ""
    headings = ("time", f"insert stream{names}", f"remove stream{names}")
    width = 3 if any(line[2] for line in lines) else 2
    if not lines:
        return text("nothing was delivered")
    found = table("", headings[:width], [line[:width] for line in lines], right=headings[:1])
    summary = counted(len(lines), "delivery", "deliveries")
    return Frozen(f"<details><summary>{summary} as a table</summary>{found.html}</details>", found.text)


def _rows(rows: Sequence[Row]) -> str:
    """``A 10 · B 20``, or with names ``n=1, mean=2.0 · …``."""
    return " · ".join(
        " ".join(text_of(value) for value in row.values())
        if len(row) <= NARROW
        else ", ".join(f"{name}={text_of(value)}" for name, value in row.items())
        for row in rows
    )
