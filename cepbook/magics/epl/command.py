"""``%%epl`` compiles and deploys a cell; ``%epl`` lists, shows and drops what is deployed."""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections.abc import Callable

import pandas as pd

from cepbook.dialects.stages import STAGES
from cepbook.errors import BindError, UsageError
from cepbook.lang.syntax.formatter import format_epl
from cepbook.magics.epl import help, marble, partitions, record, tune
from cepbook.magics.epl.spark import (
    SPARK_OPTION_NAMES,
    assign_or_return,
    compare,
    on_spark,
    run_over,
    with_definition_hints,
    with_spark,
)
from cepbook.magics.epl.why import why
from cepbook.magics.event_cells.notation import NotationError, parse_value
from cepbook.magics.shell.host import MagicCommand, NotebookHost
from cepbook.magics.shell.options import MagicOptions, OptionsError, did_you_mean, strip_comment, variable_name, words
from cepbook.magics.shell.output import table, text
from cepbook.session import RunResult, Workbench
from cepbook.session.core.run_results import columns_text, statement_kind
from cepbook.session.history.rerun_workbench import ForgottenWarning
from cepbook.session.inspect.store_table import describe_store
from cepbook.session.io.event_validation import is_missing
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.live_view.view_source import NO_ROWS_TEXT
from cepbook.widgets.map.flow_map import FlowMap

CELL_OPTIONS = with_spark(
    MagicOptions("%%epl")
    .add("--name", help="name of the cell, in place of its id: running a cell of this name again replaces it")
    .add("--quiet", action="store_true", help="show nothing unless there is an error")
    .add("--format", action="store_true", help="lay the cell out anew, and deploy nothing")
    .add("--on", choices=("spark",), help="run the statements of the cell over Spark DataFrames, too")
)
DROP_OPTIONS = (
    MagicOptions("%epl drop")
    .add("names", nargs="*", help="statements; event types, contexts, variables, with what was deployed together")
    .add(
        "--cascade",
        action="store_true",
        help="drop what depends on them, and what was deployed together with them, too",
    )
)
SAVE_OPTIONS = (
    MagicOptions("%epl save")
    .add("file", help="the file; it is replaced only when all is written")
    .add("--feeds", action="store_true", help="save what the feeds hold, too")
    .add("--replace", action="store_true", help="also a file that holds something else than a saved workbench")
)
LOAD_OPTIONS = MagicOptions("%epl load").add("file", help="what `%epl save` wrote; what is deployed here goes")
EXPORT_OPTIONS = (
    MagicOptions("%epl export")
    .add("statement", help="whose rows")
    .add("file", help="a Parquet, CSV, JSON-lines or SQLite file")
    .add("--changes", action="store_true", help="all rows that its feed holds, in place of those that it shows now")
)


def run_cell(host: NotebookHost, line: str, cell: str) -> object:
    """Compile and deploy the cell, all of it or nothing; running it again replaces what it deployed.

    The cell is known by ``--name``, else by the id that the front end sends, else (nbval, a terminal) by the names that
    it declares. Raises ParseError or BindError with the place in the cell, UsageError when others stand in the way.
    ``:name`` in the cell is the value that the Python variable of that name has when the cell runs; a later one counts
    when the cell is run again. With ``--on spark`` the Spark run is set up before anything is deployed: when it is
    refused, nothing has changed.
    """
    asked = _ASKED.search(line)
    if asked is not None:
        CELL_OPTIONS.parse(line[: asked.start()])
        host.assign(_variable(asked[1]), _answer(host, cell))
        return None
    options = CELL_OPTIONS.parse(line)
    key = options.name or host.cell_id
    if options.format:
        return _reformat(host, line, cell)
    found: object = None
    if options.on is None:
        _refuse_spark_options(options)
    else:
        run_on_spark = run_over(host, options, "%%epl --on spark")
        rehearsal = host.workbench.rehearsal()
        try:
            tried = rehearsal.run(cell, cell=key, parameters=host.shell.user_ns)
        except BindError as error:
            raise with_definition_hints(error, options, rehearsal.runtime.catalog.event_types) from None
        found = run_on_spark(rehearsal, [s.name for s in tried.statements if s.kind == "select"])
    result = host.workbench.run(cell, cell=key, parameters=host.shell.user_ns)
    host.ran(key)
    if not options.quiet:
        host.show(shown_result(result, host))
    return assign_or_return(host, options, found) if options.on is not None else None


def _answer(host: NotebookHost, epl: str) -> pd.DataFrame:
    """The rows that a select finds; what it could not take into account is said above them, as a sentence."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = host.workbench.answer(epl, parameters=host.shell.user_ns)
    for each in told:
        if issubclass(each.category, ForgottenWarning):
            host.show(text(str(each.message)))
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno, source=each.source)
    return found


_ASKED = re.compile(r"(?:^|\s)>>\s*(\S*)\s*$")


def _variable(name: str) -> str:
    try:
        return variable_name(name)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"%%epl >> {error}" if name else "%%epl >> takes the name of a variable") from None


def _reformat(host: NotebookHost, line: str, cell: str) -> object:
    """Put the formatted cell in the place of this one, where the front end can; else show it."""
    rest = " ".join(word for word in line.split() if word != "--format")
    replaced = f"%%epl {rest}".rstrip() + "\n" + format_epl(cell).rstrip("\n")
    host.shell.set_next_input(replaced, replace=True)
    return None if getattr(host.shell, "kernel", None) is not None else text(replaced)


def shown_result(result: RunResult, host: NotebookHost) -> StaticPicture:
    """What the cell deployed, a line each: event types, contexts, variables, then statements, and their columns."""
    types = host.workbench.runtime.catalog.event_types
    stores = {s.owned.name for s in result.statements if s.owned is not None}
    made = [name for name in result.deployment.event_types if name not in stores]
    rows = [(name, "event type", columns_text(types[name].properties)) for name in made]
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
    """``%epl SUBCOMMAND …``; without one, the list."""
    first = strip_comment(line).split(maxsplit=1)[:1]
    unsplit = first and (first[0] in RAW_LINE_SUBCOMMANDS or first[0].lower() in QUERY_KEYWORDS or first[0][0] in "@(")
    given = first if unsplit else words(strip_comment(line), "%epl")
    name, *rest = given or ["list"]
    if name not in SUBCOMMANDS and (name.lower() in QUERY_KEYWORDS or name[:1] in ("@", "(")):
        return _answer(host, line.strip().rstrip(";"))
    if name in RAW_LINE_SUBCOMMANDS:
        rest = [strip_comment(line).removeprefix(name)]
    if name not in SUBCOMMANDS:
        known = ", ".join(SUBCOMMANDS)
        if name in host.workbench.runtime.statements:
            hint = f"hint: `%view {name}` shows it, `cep.to_frame({name!r})` are its rows"
            raise UsageError(f"%epl: `{name}` is a statement\n  {hint}")
        raise UsageError(f"%epl: unknown subcommand `{name}`{did_you_mean(name, SUBCOMMANDS)} (known: {known})")
    return SUBCOMMANDS[name](host, rest)


def list_statements(host: NotebookHost, rest: list[str]) -> object:
    _no_more("list", rest)
    frame = host.workbench.statements().astype(object).drop(columns="epl")
    rows = [["" if is_missing(value) else str(value) for value in row] for row in frame.itertuples(index=False)]
    notes = [] if rows else ["%epl help says how to begin"]
    listed = table("" if rows else "no statements", list(frame.columns), rows, right=("delivered",), notes=notes)
    stores = host.workbench.stores().astype(object).drop(columns="columns").dropna(axis="columns", how="all")
    if stores.empty:
        return listed
    shown = stores.replace(to_replace=r"\n", value="; ", regex=True)
    held = [["" if is_missing(value) else str(value) for value in row] for row in shown.itertuples(index=False)]
    below = table("named windows and tables", list(stores.columns), held, right=("rows", "partitions"))
    return StaticPicture(listed.html + below.html, f"{listed.text}\n\n{below.text}")


def show_stage(host: NotebookHost, rest: list[str]) -> object:
    runtime = host.workbench.runtime
    if len(rest) == 1 and rest[0] not in STAGES:
        name = rest[0]
        owned = runtime.statements[name].owned if name in runtime.statements else None
        store = runtime.stores.get(name, owned)
        if store is not None:
            return text(describe_store(runtime, store))
        runtime.statement(name)  # says which names there are
        rest = ["epl", name]
    if len(rest) != 2:
        raise UsageError(f"%epl show takes a stage ({', '.join(STAGES)}) and the name of a statement")
    stage, name = rest
    if stage not in STAGES:
        if name in STAGES:
            raise UsageError(f"%epl show takes the stage first: `%epl show {name} {stage}`")
        hint = did_you_mean(stage, STAGES)
        raise UsageError(f"%epl show: unknown stage `{stage}`{hint} (stages: {', '.join(STAGES)})")
    runtime.statement(name)  # says which names there are, where explain would take the name for EPL
    return text(host.workbench.explain(name, stage=stage))


def drop(host: NotebookHost, rest: list[str]) -> object:
    options = DROP_OPTIONS.parse_words(rest)
    if not options.names:
        raise OptionsError("%epl drop", "it takes the names of statements, event types, contexts or variables")
    if len(options.names) > 1:
        _dropped(host.workbench.rehearsal(), options)  # all of them or none: what is refused is refused there
    return text(f"dropped {', '.join(_dropped(host.workbench, options))}")


def _dropped(workbench: Workbench, options: argparse.Namespace) -> list[str]:
    gone: list[str] = []
    for name in options.names:
        if name not in gone:  # it went together with one before it
            gone += dict.fromkeys((name, *workbench.drop(name, cascade=options.cascade)))
    return gone


def format_statement(host: NotebookHost, rest: list[str]) -> object:
    """The text that deployed a statement, laid out anew."""
    if len(rest) != 1:
        raise UsageError("%epl format takes the name of a statement; a cell is laid out anew by `%%epl --format`")
    return text(format_epl(host.workbench.runtime.statement(rest[0]).epl))


def export(host: NotebookHost, rest: list[str]) -> object:
    options = EXPORT_OPTIONS.parse_words(rest)
    workbench, name = host.workbench, options.statement
    count = workbench.export(name, options.file, changes=options.changes)
    if not options.changes and not workbench.keeps_rows(name):
        return text(
            f"no rows written to {options.file}: `{name}` {NO_ROWS_TEXT}\n`--changes` writes what was delivered"
        )
    return text(f"{count:,} row{'' if count == 1 else 's'} of {options.statement} written to {options.file}")


def draw_map(host: NotebookHost, rest: list[str]) -> FlowMap:
    """What feeds what, live; a click on a statement, a named window or a table opens its view."""
    _no_more("map", rest)
    return FlowMap(host.workbench)


def show_variables(host: NotebookHost, rest: list[str]) -> object:
    _no_more("variables", rest)
    frame = host.workbench.variables()
    rows = [
        (str(name), "constant" if constant else "variable", str(of), _literal(value))
        for name, of, value, constant in frame.itertuples(index=False, name=None)
    ]
    return table("" if rows else "no variables", ("name", "kind", "type", "value"), rows)


def set_variable(host: NotebookHost, rest: list[str]) -> object:
    """``NAME = value``, unsplit: a number, a text in quotes, true, false, null or an array, as in ``%%events``."""
    name, _, written = (part.strip() for part in "".join(rest).partition("="))
    if not name or not written:
        raise UsageError("%epl set takes a variable and its value, as in `%epl set threshold = 5`")
    host.workbench.get(name)  # an unknown name is told before a value that cannot be read
    try:
        value = parse_value(written)
    except NotationError as error:
        hint = f"\n  hint: {error.hint}" if error.hint is not None else ""
        raise UsageError(f"%epl set {name}: {error.message}{hint}") from None
    host.workbench.set(name, value)
    return text(f"{name} = {_literal(host.workbench.get(name))}")


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def reset(host: NotebookHost, rest: list[str]) -> object:
    _no_more("reset", rest)
    host.workbench.reset()
    return text("everything was dropped; the clock is at its start")


def rewind(host: NotebookHost, rest: list[str]) -> object:
    _no_more("rewind", rest)
    host.workbench.rewind()
    return text("all statements are in their first state; the clock is at its start")


def save(host: NotebookHost, rest: list[str]) -> object:
    options = SAVE_OPTIONS.parse_words(rest)
    host.workbench.save(options.file, feeds=options.feeds, replace=options.replace)
    count = len(host.workbench.runtime.statements)
    return text(f"saved {count} statement{'' if count == 1 else 's'} at {host.workbench.clock} in {options.file}")


def load(host: NotebookHost, rest: list[str]) -> object:
    options = LOAD_OPTIONS.parse_words(rest)
    host.workbench.load(options.file)
    names = ", ".join(host.workbench.runtime.statements) or "no statements"
    return text(f"loaded {names}; the clock is at {host.workbench.clock}")


def show_help(host: NotebookHost, rest: list[str]) -> StaticPicture:
    return help.help_text(host.commands, " ".join(rest))


def _no_more(name: str, rest: list[str]) -> None:
    if rest:
        raise UsageError(f"%epl {name} takes no argument, not `{' '.join(rest)}`")


SUBCOMMANDS: dict[str, Callable[[NotebookHost, list[str]], object]] = {
    "list": list_statements,
    "show": show_stage,
    "map": draw_map,
    "why": why,
    "marble": marble.draw_marble,
    "partitions": partitions.list_partitions,
    "end": partitions.end_partitions,
    "timeline": partitions.draw_timeline,
    "partials": partitions.list_partials,
    "drop": drop,
    "format": format_statement,
    "export": export,
    "tune": tune.tune,
    "variables": show_variables,
    "set": set_variable,
    "rewind": rewind,
    "reset": reset,
    "record": record.record,
    "report": record.report,
    "save": save,
    "load": load,
    "spark": on_spark,
    "compare": compare,
    "help": show_help,
}

QUERY_KEYWORDS = frozenset(
    ("select", "insert", "delete", "context", "expression")
)  # words that EPL to be answered begins with
RAW_LINE_SUBCOMMANDS = frozenset({"set"})  # subcommands that read the rest of the line as it stands

FORMS = {
    "%%epl [--name CELL] [--quiet]": "Compile and deploy the cell; running it again replaces what it deployed.",
    "%%epl --on spark --frames TYPE=VARIABLE,… [--time COLUMN] [--until TIME] [--into VARIABLE]":
        "Deploy it, and run it over Spark DataFrames, too.",
    "%%epl --on spark --from TABLE [--time COLUMN] [--until TIME] [--into VARIABLE]": "The same over tables of Spark.",
    "%epl list": "What is deployed, and how often it has delivered.",
    f"%epl show {'|'.join(STAGES)} STATEMENT": "How a statement was understood and compiled, stage by stage.",
    "%epl show WINDOW_OR_TABLE": "What a named window or table holds, and its indexes.",
    "%epl map": "What feeds what, as a live picture with rates.",
    "%epl why STATEMENT [--row N] [--at TIME] [--calls]": "Why it delivered its last row, or row N.",
    "%epl why [STATEMENT] --event N|TYPE [--calls]": "What became of an event: at which condition it fell out.",
    "%epl marble NAME [--events N] [--label PROPERTY] [--rows]":
        "The marble diagram: arrivals, window, what was delivered.",
    "%epl partitions [CONTEXT]": "The contexts, or the partitions of one that live now.",
    "%epl end CONTEXT ID …": "End partitions by hand.",
    "%epl timeline CONTEXT [--partitions N] [--rows]": "When partitions began and ended, drawn.",
    "%epl partials NAME [--partition ID]": "What a pattern or match_recognize waits for.",
    "%epl drop [--cascade] NAME …": "Take statements away, or what declared an event type, context, variable or store.",
    "%epl variables": "Variables of EPL and their values.",
    "%epl set VARIABLE = VALUE": "Give a variable of EPL another value.",
    "%epl SELECT …": "A DataFrame of what a select finds now, or would have delivered: rows = %epl select …",
    "%%epl >> VARIABLE": "The same of a longer text, into a Python variable.",
    "%epl tune [STATEMENT …] [--range VARIABLE=LOW:HIGH]": "A slider for every variable; diagram and chart follow.",
    "%%epl --format": "Lay the cell out anew, and deploy nothing.",
    "%epl format STATEMENT": "The text of a statement, laid out.",
    "%epl export STATEMENT FILE [--changes]": "Its rows as a Parquet, CSV, JSON-lines or SQLite file.",
    "%epl rewind": "Begin again with what is deployed: empty windows, the clock at its start.",
    "%epl reset": "Begin again with nothing.",
    "%epl record FILE [--title TITLE]": "Write what happened so far as a case of a scenario file.",
    "%epl report [--replace] FILE [STATEMENT …]": "One HTML page with statements, rows and pictures.",
    "%epl save [--feeds] [--replace] FILE": "Write the whole workbench into a file.",
    "%epl load FILE": "Go on from such a file.",
    "%epl spark [STATEMENT …] --frames TYPE=VARIABLE,…|--from TABLE [--time COLUMN] [--into VARIABLE]":
        "Run deployed statements over Spark.",
    "%epl compare [STATEMENT …] --with VARIABLE|--frames …|--from TABLE [--key COLUMN,…] [--order] [--assert]":
        "Match all rows with those of Spark.",
    "%epl help [TOPIC]": "This list; what a word, window, function or magic is.",
}  # fmt: skip
COMMAND = MagicCommand(
    "epl",
    "Compile and deploy EPL; list, show, draw and drop what is deployed; its context partitions and partial matches.",
    tuple(FORMS),
    line=run_line,
    cell=run_cell,
    says=FORMS,
    details="With `--on spark` the cell is deployed only after Spark has accepted the run: when an option, a frame or a"
    "\ncolumn is wrong, what ran before runs on as it was. The rows are computed when the result is first asked for."
    "\n\n`rows = %epl select …`, and `%%epl >> rows` for longer texts, give a DataFrame and deploy nothing: what"
    "\na query of named windows, tables and statements finds now; of any other select what it would have delivered over"
    "\nthe latest events (time, seq, kind, then its columns)."
    "\n\n`:name` where a value may stand is the Python variable of that name, as it is when the cell runs: numbers,"
    "\ntexts, truth values, dates (as long) and lists of these. To use its next value run the cell again.",
)
