"""``%%epl`` compiles and deploys a cell; ``%epl`` runs subcommands and answers queries."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules

import pandas as pd

from cepbook.editor.offers import Offer
from cepbook.errors import BindError, Diagnostic, UsageError
from cepbook.magics.epl.show import format_cell
from cepbook.magics.epl.spark import SPARK_OPTION_NAMES, assign_or_return, run_over, with_definition_hints, with_spark
from cepbook.magics.shell.host import MagicCommand, NotebookHost, Subcommand
from cepbook.magics.shell.options import MagicOptions, did_you_mean, strip_comment, variable_name, words
from cepbook.magics.shell.output import table
from cepbook.session import RunResult
from cepbook.session.core.run_results import columns_text, statement_kind
from cepbook.widgets.base.static_picture import StaticPicture

CELL_OPTIONS = with_spark(
    MagicOptions("%%epl")
    .add("--name", help="name of the cell, in place of its id: running a cell of this name again replaces it")
    .add("--quiet", action="store_true", help="show nothing unless there is an error")
    .add("--format", action="store_true", help="lay the cell out anew, and deploy nothing")
    .add("--on", choices=("spark",), help="run the statements of the cell over Spark DataFrames, too")
)


def run_cell(host: NotebookHost, line: str, cell: str) -> object:
    """Compile and deploy the cell, all of it or nothing; running it again replaces what it deployed.

    The cell is known by ``--name``, else by the id that the front end sends, else (nbval, a terminal) by the names that
    it declares. Raises ParseError or BindError with the place in the cell, UsageError if other statements prevent the
    replacement. ``:name`` in the cell is the value that the Python variable of that name has when the cell runs; a
    later one counts when the cell is run again. With ``--on spark`` the Spark run is set up before anything is
    deployed: when it is refused, nothing has changed.
    """
    asked = _ASKED.search(line)
    if asked is not None:
        CELL_OPTIONS.parse(line[: asked.start()])
        host.assign(_variable(asked[1]), _answer(host, cell))
        return None
    options = CELL_OPTIONS.parse(line)
    key = options.name or host.cell_id
    if options.format:
        return format_cell(host, line, cell)
    result_on_spark: object = None
    if options.on is None:
        _refuse_spark_options(options)
    else:
        run_on_spark = run_over(host, options, "%%epl --on spark")
        rehearsal = host.workbench.rehearsal()
        try:
            tried = rehearsal.run(cell, cell=key, parameters=host.shell.user_ns)
        except BindError as error:
            raise with_definition_hints(error, options, rehearsal.runtime.catalog.event_types) from None
        result_on_spark = run_on_spark(rehearsal, [s.name for s in tried.statements if s.kind == "select"])
    result = host.workbench.run(cell, cell=key, parameters=host.shell.user_ns)
    host.ran(key)
    if not options.quiet:
        host.show(shown_result(result, host))
    return assign_or_return(host, options, result_on_spark) if options.on is not None else None


def _answer(host: NotebookHost, epl: str) -> pd.DataFrame:
    return host.workbench.answer(epl, parameters=host.shell.user_ns)


_ASKED = re.compile(r"(?:^|\s)>>\s*(\S*)\s*$")


def _variable(name: str) -> str:
    try:
        return variable_name(name)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"%%epl >> {error}" if name else "%%epl >> takes the name of a variable") from None


def shown_result(result: RunResult, host: NotebookHost) -> StaticPicture:
    """Show what the cell deployed: event types, contexts, variables, then statements, with their columns."""
    types = host.workbench.runtime.catalog.event_types
    stores = {s.owned.name for s in result.statements if s.owned is not None}
    event_types = [name for name in result.deployment.event_types if name not in stores]
    rows = [(name, "event type", columns_text(types[name].properties)) for name in event_types]
    rows += [(name, "context", "") for name in result.deployment.contexts]
    variables = host.workbench.runtime.catalog.variables
    for variable in (variables[name] for name in result.deployment.variables):
        rows.append((variable.name, "constant" if variable.constant else "variable", str(variable.type)))
    others = [s for s in result.statements if s.kind != "create variable"]  # that of a variable stands above
    rows += [(s.name, statement_kind(s), columns_text(s.output_type.properties)) for s in others]
    verb = "replaced" if result.replaced else "deployed"
    names = ", ".join(dict.fromkeys(row[0] for row in rows)) or "nothing"
    return table(f"{verb} {names}", ("name", "kind", "columns"), rows, notes=result.messages)


def _refuse_spark_options(options: argparse.Namespace) -> None:
    for name in SPARK_OPTION_NAMES:
        if getattr(options, name) is not None:
            raise UsageError(f"%%epl: --{name} needs `--on spark`")


def run_line(host: NotebookHost, line: str) -> object:
    """Run ``%epl SUBCOMMAND …``, or answer ``%epl SELECT …``. Without arguments list the statements."""
    command = strip_comment(line)
    first = (command.split(maxsplit=1) or ["list"])[0]
    if first in SUBCOMMANDS and SUBCOMMANDS[first].raw:
        return SUBCOMMANDS[first].run(host, [command.removeprefix(first)])
    if first.lower() in QUERY_KEYWORDS or first[0] in "@(":
        return _answer(host, line.strip().rstrip(";"))
    name, *arguments = words(command, "%epl") or ["list"]
    if name in SUBCOMMANDS:
        return SUBCOMMANDS[name].run(host, arguments)
    if name in host.workbench.runtime.statements:
        hint = f"hint: `%view {name}` shows it, `cep.to_frame({name!r})` are its rows"
        raise UsageError(f"%epl: `{name}` is a statement\n  {hint}")
    known = ", ".join(SUBCOMMANDS)
    raise UsageError(f"%epl: unknown subcommand `{name}`{did_you_mean(name, SUBCOMMANDS)} (known: {known})")


def _subcommands() -> dict[str, Subcommand]:
    """Return the subcommands of all modules beside this one, by name. Raises TypeError if a module has none."""
    rows: dict[str, Subcommand] = {}
    for module in (name for _, name, _ in iter_modules([os.path.dirname(__file__)]) if name != "command"):
        values = vars(import_module(f"cepbook.magics.epl.{module}")).values()
        own = {value.name: value for value in values if isinstance(value, Subcommand)}
        if not own:
            raise TypeError(f"cepbook/magics/epl/{module}.py defines no Subcommand")
        rows |= own
    return dict(sorted(rows.items()))


SUBCOMMANDS = _subcommands()

QUERY_KEYWORDS = frozenset(("select", "insert", "delete", "context", "expression"))  # a query begins with one of them

FORMS = {
    "%%epl [--name CELL] [--quiet]": "Compile and deploy the cell; running it again replaces what it deployed.",
    "%%epl --on spark --frames TYPE=VARIABLE,… [--time COLUMN] [--until TIME] [--into VARIABLE]":
        "Deploy it, and run it over Spark DataFrames, too.",
    "%%epl --on spark --from TABLE [--time COLUMN] [--until TIME] [--into VARIABLE]": "The same over tables of Spark.",
    "%%epl --format": "Lay the cell out anew, and deploy nothing.",
    "%epl SELECT …": "A DataFrame of what a select finds now, or would have delivered: rows = %epl select …",
    "%%epl >> VARIABLE": "The same of a longer text, into a Python variable.",
    **{form: sentence for subcommand in SUBCOMMANDS.values() for form, sentence in subcommand.forms.items()},
}  # fmt: skip


def _check_cell(host: NotebookHost, line: str, body: str, cell: str | None) -> tuple[Diagnostic, ...]:
    asked = _ASKED.search(line)
    if asked is not None:
        _variable(asked[1])
        line = line[: asked.start()]
    options = CELL_OPTIONS.parse(line)
    return host.workbench.problems(body, cell=options.name or cell, parameters=host.shell.user_ns)


def _complete(host: NotebookHost, words: list[str]) -> Iterable[Offer]:
    if not words:
        return ((name, "keyword") for name in SUBCOMMANDS)
    subcommand = SUBCOMMANDS.get(words[0])
    return () if subcommand is None or subcommand.complete is None else subcommand.complete(host, words[1:])


COMMAND = MagicCommand(
    "epl",
    "Compile and deploy EPL; list, show, draw and drop what is deployed; its context partitions and partial matches.",
    tuple(FORMS),
    line=run_line,
    cell=run_cell,
    says=FORMS,
    options=CELL_OPTIONS,
    check=_check_cell,
    complete=_complete,
    details="With `--on spark` the cell is deployed only after Spark has accepted the run: when an option, a frame or a"
    "\ncolumn is wrong, what ran before runs on as it was. The rows are computed when the result is first asked for."
    "\n\n`rows = %epl select …`, and `%%epl >> rows` for longer texts, give a DataFrame and deploy nothing: what"
    "\na query of named windows, tables and statements finds now; of any other select what it would have delivered over"
    "\nthe latest events (time, seq, kind, then its columns)."
    "\n\n`:name` where a value may stand is the Python variable of that name, as it is when the cell runs: numbers,"
    "\ntexts, truth values, dates (as long) and lists of these. To use its next value run the cell again.",
)
