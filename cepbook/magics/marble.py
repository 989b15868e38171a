"""``%epl marble NAME``: the marble diagram of a statement."""

from __future__ import annotations

from cepbook.errors import UsageError
from cepbook.magics.host import Host
from cepbook.magics.options import Options

EVENTS = 20

OPTIONS = (
    Options("%epl marble")
    .add("names", nargs="*", help="the statement")
    .add("--events", type=int, default=EVENTS, help=f"how many of its last arrivals are drawn; default: {EVENTS}")
    .add("--label", action="append", help="property that stands for an event; may be given several times")
)


def draw(host: Host, rest: list[str]) -> object:
    """Arrivals, window contents, insert and remove stream of one statement on one time axis, as a chart."""
    options = OPTIONS.parse_words(rest)
    if len(options.names) != 1:
        raise UsageError("%epl marble takes the name of one statement, as in `%epl marble delays`")
    return host.workbench.marble(options.names[0], events=options.events, label=options.label)
