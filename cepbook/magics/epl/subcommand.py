"""Describe a verb of ``%epl``: its code, its forms with a sentence for each, its completion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from cepbook.editor.offers import Offer
from cepbook.errors import UsageError
from cepbook.magics.shell.host import Complete, NotebookHost


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One verb of ``%epl``. `command.SUBCOMMANDS` lists them all."""

    name: str
    run: Callable[[NotebookHost, list[str]], object]
    """``run(host, arguments)`` returns the value of the line, or None if it displays its output itself."""
    forms: Mapping[str, str]
    """A sentence for each form, as ``%epl help`` prints them."""
    complete: Complete | None = None
    """``complete(host, arguments)`` returns what can follow the complete arguments."""
    raw: bool = False
    """True if the rest of the line is one argument as it stands, not split at blanks and quotes."""


def refuse_arguments(name: str, arguments: list[str]) -> None:
    """Raise UsageError if a subcommand without arguments got some."""
    if arguments:
        raise UsageError(f"%epl {name} takes no argument, not `{' '.join(arguments)}`")


def context_names(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    """Complete the first argument with the names of all contexts."""
    if not arguments:
        yield from ((name, "class") for name in host.workbench.runtime.catalog.contexts)
