"""``%epl drop``, ``%epl rewind`` and ``%epl reset``: remove statements, start them again, start with nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from cepbook.editor.offers import Offer
from cepbook.magics.shell.host import NotebookHost, Subcommand, refuse_arguments
from cepbook.magics.shell.options import MagicOptions, OptionsError
from cepbook.magics.shell.output import text
from cepbook.session import Workbench
from cepbook.widgets.base.static_picture import StaticPicture

DROP_OPTIONS = (
    MagicOptions("%epl drop")
    .add("names", nargs="*", help="statements; event types, contexts, variables, with what was deployed together")
    .add(
        "--cascade",
        action="store_true",
        help="drop what depends on them, and what was deployed together with them, too",
    )
)


def drop(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Drop the named statements, event types, contexts and variables: all of them, or none if one is refused."""
    options = DROP_OPTIONS.parse_words(arguments)
    if not options.names:
        raise OptionsError("%epl drop", "it takes the names of statements, event types, contexts or variables")
    if len(options.names) > 1:
        _drop(host.workbench.rehearsal(), options)  # raises before anything is dropped from the workbench
    return text(f"dropped {', '.join(_drop(host.workbench, options))}")


def _drop(workbench: Workbench, options: argparse.Namespace) -> list[str]:
    dropped: list[str] = []
    for name in options.names:
        if name not in dropped:  # else it was deployed together with one before it
            dropped += dict.fromkeys((name, *workbench.drop(name, cascade=options.cascade)))
    return dropped


def rewind(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Put every statement into its first state and the clock to its start."""
    refuse_arguments("rewind", arguments)
    host.workbench.rewind()
    return text("all statements are in their first state; the clock is at its start")


def reset(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Drop everything and put the clock to its start."""
    refuse_arguments("reset", arguments)
    host.workbench.reset()
    return text("everything was dropped; the clock is at its start")


def _complete(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    runtime = host.workbench.runtime
    yield from ((name, "statement") for name in runtime.statements)
    yield from ((name, "class") for name in (*runtime.catalog.event_types, *runtime.catalog.contexts))
    yield from ((name, "variable") for name in runtime.catalog.variables)


DROP = Subcommand(
    "drop",
    drop,
    {"%epl drop [--cascade] NAME …": "Drop statements, event types, contexts, variables, stores or indexes."},
    _complete,
)
REWIND = Subcommand(
    "rewind", rewind, {"%epl rewind": "Begin again with what is deployed: empty windows, the clock at its start."}
)
RESET = Subcommand("reset", reset, {"%epl reset": "Begin again with nothing."})
