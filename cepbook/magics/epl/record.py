"""``%epl record``: everything that happened, as a case of a scenario file."""

from __future__ import annotations

from pathlib import Path

from cepbook.errors import UsageError
from cepbook.magics.shell.host import NotebookHost, Subcommand
from cepbook.magics.shell.options import MagicOptions
from cepbook.magics.shell.output import text
from cepbook.session import Workbench
from cepbook.session.core.saved_state import read_file, write_file
from cepbook.testing.workbench_scenario import scenario_of
from cepbook.widgets.base.static_picture import StaticPicture

OPTIONS = (
    MagicOptions("%epl record")
    .add("file", help="a Markdown file; a case is added to it where it is there already")
    .add("--title", default="recorded", help="heading of the case")
)


def record(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Add everything since the beginning to a scenario file, as a case that `cepbook test` passes."""
    options = OPTIONS.parse_words(arguments)
    return add_case(options.file, host.workbench, options.title)


def add_case(file: str, workbench: Workbench, title: str) -> StaticPicture:
    """Add everything that happened in a workbench to a scenario file. Raise UsageError if it cannot be recorded."""
    before = cases_of(file)
    case = scenario_of(workbench, title)
    write_text(file, f"{before}\n\n{case.text}" if before else case.text)
    message = f"case `{title}` recorded in {file}"
    if case.otherwise:
        names = ", ".join(f"`{name}`" for name in case.otherwise)
        message += f"\nnot as it was: {names} delivered other rows: what was dropped or deployed anew is not recorded"
    return text(message)


def cases_of(file: str) -> str:
    """Return the text of a scenario file, empty if there is none. Raise UsageError if no case can be added to it."""
    path = output_path(file, (".md",), "scenario files are Markdown files (.md)")
    if not path.exists():
        return ""
    try:
        return read_file(path).decode("utf-8").rstrip("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file!r} is no UTF-8 text: byte {error.start} is {error.object[error.start]:#x}") from None


def output_path(file: str, suffixes: tuple[str, ...], what: str) -> Path:
    """Return the path of a file to be written. Raise UsageError if its suffix or folder is wrong, before any work."""
    path = Path(file).expanduser()
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{what}, not `{file}`")
    if "\0" in file or not path.parent.is_dir():
        raise UsageError(f"{file!r} cannot be written: there is no folder {str(path.parent)!r}")
    return path


def write_text(file: str, content: str) -> None:
    """Write a file as UTF-8. Raise UsageError if that fails."""
    try:
        write_file(file, content.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise UsageError(f"{file!r} cannot be written: {error.object[error.start]!r} is half a character") from None


RECORD = Subcommand(
    "record", record, {"%epl record FILE [--title TITLE]": "Write what happened so far as a case of a scenario file."}
)
