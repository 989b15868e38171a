"""``%epl show`` and ``%epl format``: a statement stage by stage, a named window or table, EPL in the usual layout."""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.dialects.stages import STAGES
from cepbook.editor.offers import Offer
from cepbook.errors import UsageError
from cepbook.lang.syntax.formatter import format_epl
from cepbook.magics.shell.host import NotebookHost, Subcommand
from cepbook.magics.shell.options import did_you_mean
from cepbook.magics.shell.output import text
from cepbook.session.inspect.store_table import describe_store
from cepbook.widgets.base.static_picture import StaticPicture


def show(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Show a stage of a statement; a name alone shows a named window or table, else the EPL of the statement."""
    runtime = host.workbench.runtime
    if len(arguments) == 1 and arguments[0] not in STAGES:
        name = arguments[0]
        owned = runtime.statements[name].owned if name in runtime.statements else None
        store = runtime.stores.get(name, owned)
        if store is not None:
            return text(describe_store(runtime, store))
        runtime.statement(name)  # an unknown name raises with the names that there are
        arguments = ["epl", name]
    if len(arguments) != 2:
        raise UsageError(f"%epl show takes a stage ({', '.join(STAGES)}) and the name of a statement")
    stage, name = arguments
    if stage not in STAGES:
        if name in STAGES:
            raise UsageError(f"%epl show takes the stage first: `%epl show {name} {stage}`")
        hint = did_you_mean(stage, STAGES)
        raise UsageError(f"%epl show: unknown stage `{stage}`{hint} (stages: {', '.join(STAGES)})")
    runtime.statement(name)  # checked here, because `explain` would read an unknown name as EPL
    return text(host.workbench.explain(name, stage=stage))


def _complete(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    if not arguments:
        yield from ((name, "keyword") for name in STAGES)
    elif len(arguments) == 1:
        yield from ((name, "statement") for name in host.workbench.runtime.statements)


def format_statement(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Show the text that deployed a statement, formatted."""
    if len(arguments) != 1:
        raise UsageError("%epl format takes the name of a statement; a cell is laid out anew by `%%epl --format`")
    return text(format_epl(host.workbench.runtime.statement(arguments[0]).epl))


def format_cell(host: NotebookHost, line: str, cell: str) -> StaticPicture | None:
    """Replace the running cell by the formatted one where the front end can; else show the formatted cell."""
    options = " ".join(word for word in line.split() if word != "--format")
    replacement = f"%%epl {options}".rstrip() + "\n" + format_epl(cell).rstrip("\n")
    host.shell.set_next_input(replacement, replace=True)
    return None if getattr(host.shell, "kernel", None) is not None else text(replacement)


SHOW = Subcommand(
    "show",
    show,
    {
        f"%epl show {'|'.join(STAGES)} STATEMENT": "How a statement was understood and compiled, stage by stage.",
        "%epl show WINDOW_OR_TABLE": "What a named window or table holds, and its indexes.",
    },
    _complete,
)
FORMAT = Subcommand("format", format_statement, {"%epl format STATEMENT": "The text of a statement, laid out."})
