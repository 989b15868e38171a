"""``%epl save``, ``%epl load`` and ``%epl export``: the whole workbench, or the rows of a statement, as a file."""

from __future__ import annotations

from cepbook.display import format_count
from cepbook.magics.shell.host import NotebookHost, Subcommand
from cepbook.magics.shell.options import MagicOptions
from cepbook.magics.shell.output import text
from cepbook.widgets.base.static_picture import StaticPicture

SAVE_OPTIONS = (
    MagicOptions("%epl save")
    .add("file", help="the file; it is replaced only when all is written")
    .add("--feeds", action="store_true", help="save the rows of all feeds, too")
    .add("--replace", action="store_true", help="also a file that holds something else than a saved workbench")
)
LOAD_OPTIONS = MagicOptions("%epl load").add("file", help="what `%epl save` wrote; what is deployed here goes")
EXPORT_OPTIONS = (
    MagicOptions("%epl export")
    .add("statement", help="whose rows")
    .add("file", help="a Parquet, CSV, JSON-lines or SQLite file")
    .add("--changes", action="store_true", help="all rows that it delivered, in place of those that it shows now")
)


def save(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Write statements, state and clock into a file."""
    options = SAVE_OPTIONS.parse_words(arguments)
    host.workbench.save(options.file, feeds=options.feeds, replace=options.replace)
    statements = host.workbench.runtime.statements
    count = format_count(len(statements), "statement")
    left_out = not options.feeds and any(host.workbench.feed(name).deliveries for name in statements)
    rows = "; rows that were delivered are not in it: --feeds saves them, too" if left_out else ""
    return text(f"saved {count} at {host.workbench.clock} in {options.file}{rows}")


def load(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Replace everything in the workbench by the contents of a saved file."""
    options = LOAD_OPTIONS.parse_words(arguments)
    host.workbench.load(options.file)
    names = ", ".join(host.workbench.statements()["name"]) or "no statements"
    return text(f"loaded {names}; the clock is at {host.workbench.clock}")


def export(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Write the rows that a statement has now, or with ``--changes`` all rows that it delivered."""
    options = EXPORT_OPTIONS.parse_words(arguments)
    name = options.statement
    count = host.workbench.export(name, options.file, changes=options.changes)
    return text(f"{count:,} row{'' if count == 1 else 's'} of {name} written to {options.file}")


SAVE = Subcommand("save", save, {"%epl save [--feeds] [--replace] FILE": "Write the whole workbench into a file."})
LOAD = Subcommand("load", load, {"%epl load FILE": "Go on from such a file."})
EXPORT = Subcommand(
    "export",
    export,
    {"%epl export STATEMENT FILE [--changes]": "Its rows as a Parquet, CSV, JSON-lines or SQLite file."},
)
