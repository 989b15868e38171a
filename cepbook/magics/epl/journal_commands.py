"""``%epl journal`` and ``%epl recover``: a session that outlives its kernel."""

from __future__ import annotations

import os

from cepbook.errors import UsageError
from cepbook.magics.shell.host import NotebookHost, Subcommand
from cepbook.magics.shell.options import MagicOptions
from cepbook.magics.shell.output import text
from cepbook.session.journal.journal_files import is_in_use, is_journal, notebook_of
from cepbook.session.journal_mixin import current_notebook
from cepbook.widgets.base.static_picture import StaticPicture

JOURNAL_OPTIONS = (
    MagicOptions("%epl journal")
    .add("path", nargs="?", help="the directory of the journal; without it, the state of the open one")
    .add("--sync", action="store_true", help="every group is on the disk before it is acted on")
    .add("--replace", action="store_true", help="begin anew in a directory that holds a journal")
    .add("--close", action="store_true", help="end the open journal")
)
RECOVER_OPTIONS = MagicOptions("%epl recover").add(
    "path", help="the directory of a journal; what is deployed here goes"
)


def journal(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Record everything that happens from now on, so that `%epl recover` can repeat it after a kill of the kernel."""
    options = JOURNAL_OPTIONS.parse_words(arguments)
    if options.path is not None and not options.close:
        return text(repr(host.workbench.journal(options.path, sync=options.sync, replace=options.replace)))
    journal = host.workbench.journaling
    if journal is None:
        raise UsageError("there is no journal\n  hint: `%epl journal PATH` begins one")
    if options.close:
        journal.close()
    return text(repr(journal))


def recover(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Become the workbench whose journal is in the directory, as of the last thing that was written."""
    options = RECOVER_OPTIONS.parse_words(arguments)
    return text(repr(host.workbench.recover(options.path)))


def journals_to_recover() -> list[str]:
    """Return the journals of this notebook in the current folder that no process writes."""
    notebook = current_notebook()
    if notebook is None:
        return []
    names = sorted(entry.name for entry in os.scandir() if entry.is_dir() and is_journal(entry.path))
    return [name for name in names if notebook_of(name) == notebook and not is_in_use(name)]


JOURNAL = Subcommand(
    "journal",
    journal,
    {"%epl journal [PATH] [--sync] [--replace] [--close]": "Record everything, for a kernel that is killed."},
)
RECOVER = Subcommand("recover", recover, {"%epl recover PATH": "Go on from the journal of a killed kernel."})
