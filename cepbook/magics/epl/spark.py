"""``%epl spark``, and the options that ``%%epl --on spark`` and ``%epl compare`` share with it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from cepbook.editor.offers import Offer
from cepbook.errors import BindError, Diagnostic, UsageError, nearest_name
from cepbook.lang.plan import nodes
from cepbook.magics.shell.host import NotebookHost, Subcommand
from cepbook.magics.shell.options import WORKBENCH, MagicOptions, pairs, variable_name
from cepbook.session import Workbench
from cepbook.session.io.time_conversion import int_or_text
from cepbook.spark.spark_session import read_table as table_of

SPARK_OPTION_NAMES = ("frames", "from", "time", "sequence", "until", "leap", "into")  # the options of `with_spark`


def with_spark(options: MagicOptions) -> MagicOptions:
    """Add the options for the data of a run on Spark."""
    return (
        options.add("--frames", help="variables that hold frames, by event type: Flight=flights,Weather=weather")
        .add(
            "--from",
            help="tables, views or Parquet files that Spark reads, by event type (Flight=flights,…); of one type alone "
            "without its name",
        )
        .add("--time", help="column of the event time, or one per type (Flight=departure,…); default: the type's own")
        .add("--sequence", help="the column that orders events of the same time")
        .add("--until", help="where the clock stops after the last event")
        .add(
            "--leap",
            action="store_true",
            default=None,
            help="move the clock from event to event: timers due in between fire late",
        )
        .add("--into", type=variable_name, help="put the result into this variable instead of showing it")
    )


OPTIONS = with_spark(MagicOptions("%epl spark").add("statements", nargs="*", help="statements; default: all"))


def run_over(host: NotebookHost, options: argparse.Namespace, magic: str) -> Callable[[Workbench, list[str]], Any]:
    """Return a function that starts the run. The options are checked at once, before anything is deployed."""
    tables = getattr(options, "from")
    if options.frames is None and tables is None:
        raise UsageError(f"{magic}: --frames is missing, as in `--frames Flight=flights`, or --from")
    frames: dict[str, object] = {}
    if options.frames is not None:
        frames = {kind: host.variable(name) for kind, name in pairs(options.frames, magic, "--frames").items()}
    time, sequence = _columns(options.time, magic, "--time"), _columns(options.sequence, magic, "--sequence")
    until = None if options.until is None else int_or_text(options.until)

    def run(workbench: Workbench, statements: list[str]) -> object:
        if tables is not None:
            named = pairs(tables, magic, "--from") if "=" in tables else {_only_type(workbench, magic): tables}
            frames.update({kind: _table(kind, name, host, magic) for kind, name in named.items()})
        names = statements or None
        return workbench.spark(
            frames, time=time, sequence=sequence, statements=names, until=until, leap=bool(options.leap)
        )

    return run


def with_definition_hints(error: BindError, options: argparse.Namespace, known: Iterable[str]) -> BindError:
    """Add hints to errors about unknown event types: how to define them from the frames or tables of the options."""

    def hinted(diagnostic: Diagnostic) -> Diagnostic:
        name = error.source[diagnostic.span.start : diagnostic.span.end]
        source = _source(name, options)
        if diagnostic.code != "unknown-type" or source is None or nearest_name(name, known) is not None:
            return diagnostic
        time = f', time="{options.time}"' if options.time is not None and "=" not in options.time else ""
        return replace(diagnostic, hint=f'{WORKBENCH}.define("{name}", {source}{time}) says what its events look like')

    return BindError(tuple(map(hinted, error.diagnostics)), error.source)


def _source(name: str, options: argparse.Namespace) -> str | None:
    """Return Python code for the data of an event type, or None if the options name none."""
    tables = getattr(options, "from")
    if options.frames is not None:
        return pairs(options.frames, "%%epl", "--frames").get(name)
    table = pairs(tables, "%%epl", "--from").get(name) if "=" in tables else tables
    if table is None or _is_path(table):
        return None if table is None else f'"{table}"'
    return f'cepbook.spark.local_session().table("{table}")'


def assign_or_return(host: NotebookHost, options: argparse.Namespace, result: object) -> object:
    """Assign the result to the variable of ``--into`` and return None; without the option return it."""
    if options.into is None:
        return result
    host.assign(options.into, result)
    return None


def on_spark(host: NotebookHost, arguments: list[str]) -> object:
    """Run deployed statements over frames or tables."""
    options = OPTIONS.parse_words(arguments)
    return assign_or_return(host, options, run_over(host, options, "%epl spark")(host.workbench, options.statements))


def _columns(text: str | None, magic: str, option: str) -> str | dict[str, str] | None:
    return pairs(text, magic, option) if text is not None and "=" in text else text


def _only_type(workbench: Workbench, magic: str) -> str:
    """Return the only event type that no statement creates. Raises UsageError if there is none or several."""
    runtime = workbench.runtime
    statements = runtime.plans
    inserts = (insert for s in statements if isinstance(s, nodes.StreamStatement) for insert in s.inserts)
    created = {insert.target for insert in inserts if insert.creates}
    created |= set(runtime.catalog.stores)
    outer = [name for name in runtime.catalog.event_types if name not in created]
    if len(outer) != 1:
        known = ", ".join(outer) or "none"
        raise UsageError(f"{magic}: --from TYPE=TABLE says which event type the table holds; there are: {known}")
    return outer[0]


def _is_path(name: str) -> bool:
    return name.lower().endswith((".parquet", ".pq")) or os.path.isdir(name)


def _table(kind: str, name: str, host: NotebookHost, magic: str) -> object:
    """Return Parquet paths as they are, else the table or view of Spark that ``--from`` names."""
    if _is_path(name):
        return name
    frame, known = table_of(name)
    if frame is None:
        hint = "a Parquet file ends in .parquet or .pq; of another file make a frame first, for --frames"
        if name.isidentifier():
            hint = f'frame.createOrReplaceTempView("{name}") makes a view of a DataFrame of Spark\'s'
        if name in host.shell.user_ns:
            hint = f"`{name}` is a variable: --frames {kind}={name}"
        has = ", ".join(known) or "none"
        raise UsageError(f"{magic}: Spark has no table or view `{name}`; it has: {has}\n  hint: {hint}")
    return frame


def complete_statements(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    """Complete every argument with the names of all statements."""
    yield from ((name, "statement") for name in host.workbench.runtime.statements)


SPARK = Subcommand(
    "spark",
    on_spark,
    {
        "%epl spark [STATEMENT …] --frames TYPE=VARIABLE,…|--from TABLE [--time COLUMN] [--into VARIABLE]": "Run "
        "deployed statements over Spark."
    },
    complete_statements,
)
