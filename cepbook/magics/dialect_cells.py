"""The cell magics of the other dialects, ``%%apama NAME`` and the like: one for each row of
`dialects.registry.DIALECTS`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cepbook.dialects.dialect import Dialect
from cepbook.dialects.registry import DIALECTS
from cepbook.errors import Diagnostic
from cepbook.magics.epl import command
from cepbook.magics.shell.host import MagicCommand, NotebookHost
from cepbook.magics.shell.options import MagicOptions, pairs
from cepbook.session.io.python_values import parse_value_text


def options_of(dialect: Dialect) -> MagicOptions:
    """The options of a dialect's cells: its settings, as JSON or plain text."""
    options = MagicOptions(f"%%{dialect.magic}").add("name", nargs="?", help="the name of the statement")
    options.add("--quiet", action="store_true", help="show nothing unless there is an error")
    for name, doc in dialect.settings.items():
        if name != "name":
            options.add(f"--{name}", type=parse_value_text, help=doc)
    return options


def _tables(given: Any, magic: str, option: str, host: NotebookHost) -> Any:
    """Return tables by name: JSON as it is, else the values of Python variables. Raises UsageError."""
    if not isinstance(given, str):
        return given
    parts = [entry if "=" in entry else f"{entry}={entry.strip()}" for entry in given.split(",") if entry.strip()]
    return {name: host.variable(of) for name, of in pairs(",".join(parts), magic, option).items()}


def settings_of(dialect: Dialect, host: NotebookHost, line: str) -> dict[str, Any]:
    """Return the options of a cell, ``quiet`` included. Raises UsageError."""
    options = vars(options_of(dialect).parse(line))
    settings = {name: value for name, value in options.items() if value is not None}
    for name in dialect.tabular & settings.keys():
        settings[name] = _tables(settings[name], f"%%{dialect.magic}", f"--{name}", host)
    return settings


def run_cell(dialect: Dialect, host: NotebookHost, line: str, cell: str) -> object:
    """Compile and deploy the cell as ``%%epl`` does, identified by its cell id, else by the names it declares."""
    settings = settings_of(dialect, host, line)
    quiet = settings.pop("quiet")
    result = host.workbench.run(cell, cell=host.cell_id, dialect=dialect.name, **settings)
    host.ran(host.cell_id)
    if not quiet:
        host.show(command.shown_result(result, host))
    return None


def _check_cell(dialect: Dialect, host: NotebookHost, line: str, body: str, cell: str | None) -> tuple[Diagnostic, ...]:
    settings = settings_of(dialect, host, line)
    del settings["quiet"]
    return host.workbench.problems(body, cell=cell, dialect=dialect.name, **settings)


def _command(dialect: Dialect) -> MagicCommand:
    settings = " ".join(f"[--{name} {name.upper()}]" for name in dialect.settings if name != "name")
    usage = f"%%{dialect.magic} [NAME] [--quiet] {settings}".rstrip()
    details = "\n".join(f"--{name}: {doc}" for name, doc in dialect.settings.items() if name != "name")
    if dialect.tabular:
        names = " and ".join(f"--{name}" for name in sorted(dialect.tabular))
        details += (
            f"\n\n{names} takes DataFrames by the names of their variables: `NAME`, or `TABLE=VARIABLE,…`."
            "\nTheir rows are those of now; `cep.replace_rows(TABLE, frame)` gives others while the query runs, and so"
            "\ndoes EPL (`on … merge TABLE`, `%query insert into TABLE …`)."
        )
    return MagicCommand(
        dialect.magic,
        dialect.summary,
        (usage,),
        cell=partial(run_cell, dialect),
        details=details,
        options=options_of(dialect),
        check=partial(_check_cell, dialect),
    )


COMMANDS = tuple(_command(row) for row in DIALECTS.values() if row.magic not in ("", "epl"))
