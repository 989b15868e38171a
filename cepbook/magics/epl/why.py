"""``%epl why``: why a statement delivered a row, or why it delivered none for an event."""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.editor.offers import Offer
from cepbook.magics.shell.host import NotebookHost, Subcommand, statement_names
from cepbook.magics.shell.options import MagicOptions, OptionsError, whole_number
from cepbook.session.io.time_conversion import int_or_text
from cepbook.widgets.base.static_picture import StaticPicture, answer_picture

WHY_OPTIONS = (
    MagicOptions("%epl why")
    .add("name", nargs="?", help="a statement; with an event only, none: all that read it")
    .add(
        "--row",
        type=whole_number,
        help="the row with this index in `cep.changes`, negative from the end; default: the last",
    )
    .add("--at", help="the last row, or event, until this time")
    .add(
        "--event", help="what became of an event: its number (1 is the first, -1 the last), or a type (its last event)"
    )
    .add("--type", help="the event type whose events --event counts")
    .add("--calls", action="store_true", help="Python functions in statements may be called again")
)


def why(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Show the answer of `Workbench.why`."""
    options = WHY_OPTIONS.parse_words(_join_negative_values(arguments))
    workbench = host.workbench
    at = None if options.at is None else int_or_text(options.at)
    if options.event is None:
        if options.type is not None:
            raise OptionsError("%epl why", "--type says which events --event counts: write --event, such as --event -1")
        if options.name is None:
            raise OptionsError("%epl why", "the name of a statement, or --event, is missing")
        return answer_picture(workbench.why(options.name, row=options.row, at=at, calls=options.calls))
    if options.row is not None:
        raise OptionsError("%epl why", "--row or --event, not both")
    event = int_or_text(options.event)
    return answer_picture(workbench.why(options.name, event, type=options.type, at=at, calls=options.calls))


def _join_negative_values(arguments: list[str]) -> list[str]:
    """Join ``--event -1`` to ``--event=-1``: argparse would take the value for an option."""
    joined: list[str] = []
    for word in arguments:
        if joined and joined[-1] in ("--event", "--row", "--at") and isinstance(int_or_text(word), int):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _complete(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    """Complete the name of a statement, event types behind ``--event`` and ``--type``, and the options."""
    if arguments and arguments[-1] in ("--event", "--type"):
        yield from ((name, "class") for name in host.workbench.runtime.catalog.event_types)
        return
    yield from statement_names(host, arguments)
    yield from ((name, "keyword") for name in WHY_OPTIONS.names if name not in arguments)


WHY = Subcommand(
    "why",
    why,
    {
        "%epl why STATEMENT [--row N] [--at TIME] [--calls]": "Why it delivered its last row, or row N.",
        "%epl why [STATEMENT] --event N|TYPE [--type TYPE] [--calls]": "What became of an event: at which condition it "
        "fell out. With --type, N counts the events of this type.",
    },
    _complete,
)
