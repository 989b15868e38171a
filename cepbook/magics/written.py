"""Cell magics of the other dialects, ``%%apama NAME`` and the like: one for each row of `lang.dialects.DIALECTS`."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from cepbook.lang.dialects import DIALECTS
from cepbook.lang.dialects.dialect import Dialect
from cepbook.magics import epl
from cepbook.magics.host import Command, Host
from cepbook.magics.options import Options


def options_of(dialect: Dialect) -> Options:
    """The options of a dialect's cells: its settings, JSON or plain text."""
    found = Options(f"%%{dialect.magic}").add("name", nargs="?", help="the name of the statement")
    found.add("--quiet", action="store_true", help="show nothing unless there is an error")
    for name, doc in dialect.settings.items():
        if name != "name":
            found.add(f"--{name}", type=_setting, help=doc)
    return found


def _setting(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def run_cell(dialect: Dialect, host: Host, line: str, cell: str) -> object:
    """Compile and deploy the cell as ``%%epl`` does; the cell is known by its id, else by the names it declares."""
    options = vars(options_of(dialect).parse(line))
    quiet = options.pop("quiet")
    settings = {name: value for name, value in options.items() if value is not None}
    result = host.workbench.run(cell, cell=host.cell_id, dialect=dialect.name, **settings)
    if not quiet:
        host.show(epl.shown_result(result, host))
    return None


def _command(dialect: Dialect) -> Command:
    settings = " ".join(f"[--{name} {name.upper()}]" for name in dialect.settings if name != "name")
    usage = f"%%{dialect.magic} [NAME] [--quiet] {settings}".rstrip()
    details = "\n".join(f"--{name}: {doc}" for name, doc in dialect.settings.items() if name != "name")
    return Command(dialect.magic, dialect.summary, (usage,), cell=partial(run_cell, dialect), details=details)


OTHERS = {row.magic: row for row in DIALECTS.values() if row.magic not in ("", "epl")}
COMMANDS = tuple(map(_command, OTHERS.values()))
