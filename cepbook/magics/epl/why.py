"""``%epl why``: why a statement delivered a row, and why it did not deliver one for an event."""

from __future__ import annotations

from cepbook.magics.shell.host import NotebookHost
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
        "--event",
        help="what became of an event: its number (1 is the first, -1 the last), or a type (its last event)",
    )
    .add("--calls", action="store_true", help="Python functions in statements may be called again")
)


def why(host: NotebookHost, rest: list[str]) -> StaticPicture:
    """The answer of `Workbench.why`."""
    options = WHY_OPTIONS.parse_words(_negative(rest))
    workbench = host.workbench
    at = None if options.at is None else int_or_text(options.at)
    if options.event is None:
        if options.name is None:
            raise OptionsError("%epl why", "the name of a statement, or --event, is missing")
        return answer_picture(workbench.why(options.name, row=options.row, at=at, calls=options.calls))
    if options.row is not None:
        raise OptionsError("%epl why", "--row or --event, not both")
    return answer_picture(workbench.why(options.name, int_or_text(options.event), at=at, calls=options.calls))


def _negative(rest: list[str]) -> list[str]:
    """``--event -1`` as one word: a value with a dash would be taken for an option."""
    found: list[str] = []
    for word in rest:
        if found and found[-1] in ("--event", "--row", "--at") and isinstance(int_or_text(word), int):
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found
