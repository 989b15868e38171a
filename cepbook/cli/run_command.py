"""``cepbook run``: replays files of events through EPL modules and writes deliveries into files."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import pandas as pd

from cepbook.cli.command import CliCommand, name_value_pair, read_text
from cepbook.cli.pipes import PIPE, StandardOutput, events_of
from cepbook.dialects.registry import declared_names
from cepbook.display import format_count, stderr_is_terminal, write_progress_line
from cepbook.engine.config import Config
from cepbook.errors import CompileError, UsageError, hint_line
from cepbook.lang.bind.substitution import parameter_uses
from cepbook.lang.syntax.reader import parser as epl
from cepbook.session import ReplayResult, Workbench
from cepbook.session.io.chunked_files import empty_frame_of, is_large
from cepbook.session.io.csv_records import Reject
from cepbook.session.io.files import PARQUET, parquet_head, read_file
from cepbook.session.io.output.sinks import FileSink, is_same_file, partial_name
from cepbook.session.io.output.time_types import DATES, MICROSECONDS, MILLISECONDS
from cepbook.session.io.output.writers import SQLITE, check_file_kind
from cepbook.session.io.python_values import parse_value_text
from cepbook.session.io.text_files import DEFAULT, TextFormat, text_format
from cepbook.session.io.time_conversion import clock_text, int_or_text
from cepbook.session.replay.replay import Replay

MAX_ERRORS = 5  # printed errors of statements
WIDTH = 24  # of the bar, in characters
REFRESH = 0.1  # seconds


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("modules", nargs="+", type=Path, metavar="MODULE.epl", help="EPL to deploy, in this order")
    _input_arguments(parser)
    _output_arguments(parser)
    _time_arguments(parser)
    _replay_arguments(parser)
    add("--quiet", action="store_true", help="print no progress and no summary")


def _input_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--in",
        dest="sources",
        action="append",
        type=name_value_pair,
        default=[],
        metavar="TYPE=FILE",
        help="events of a type: Parquet, CSV or JSON lines; - reads JSON lines from the standard input. A type that "
        "no module declares is defined by the columns of its file",
    )
    add(
        "--time",
        action="append",
        type=_column,
        default=[],
        metavar="[TYPE=]COLUMN",
        help="the column of the event time",
    )
    add("--sep", metavar="CHAR", help="what separates the columns of CSV files, as in ';' (default: a comma)")
    add("--encoding", metavar="NAME", help="the encoding of CSV files and JSON lines, as in latin-1 (default: utf-8)")
    add("--comment", metavar="TEXT", help="leave out lines of CSV files and JSON lines that begin with this text")
    help_text = "a text that is null, besides empty fields of CSV files"
    add("--na", action="append", default=[], metavar="TEXT", help=help_text)


def _output_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--out",
        dest="sinks",
        action="append",
        type=name_value_pair,
        default=[],
        metavar="STATEMENT=FILE",
        help="write the rows of a statement: Parquet, CSV, JSON lines, SQLite; - is JSON lines on the standard output",
    )
    add(
        "--set",
        dest="values",
        action="append",
        type=name_value_pair,
        default=[],
        metavar="NAME=VALUE",
        help="set an EPL variable or the parameter :NAME; JSON values, other words are strings",
    )


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--until", metavar="TIME", help="leave out later events and advance the clock to this time")
    add("--limit", type=int, metavar="N", help="replay at most N events")
    add(
        "--late",
        choices=("error", "drop"),
        help="raise an error for events that go back in time (default), or drop them; dropped events are events of the "
        "type LateEvent",
    )
    add(
        "--lateness",
        metavar="PERIOD",
        help="put events of the standard input in order that are out of it by at most this period, as in '5 sec'; drop "
        "later ones",
    )
    add("--rejected", metavar="FILE.jsonl", help="add dropped events, and rows that are no events, to this file")
    add(
        "--state-limit",
        metavar="ROWS|SIZE",
        help="end the replay before an event when a statement keeps more rows, groups and partial matches than this, "
        "or more memory, as in '500 MB'",
    )
    add("--leap", action="store_true", help="move the clock from event to event: timers due in between fire late")
    add("--speed", type=float, metavar="X", help="replay at X times real time")


def _time_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--times",
        choices=(DATES, MILLISECONDS, MICROSECONDS),
        default=DATES,
        help="write times as dates (default) or as whole ms since 1970 (us with --microseconds)",
    )
    zone = "the time zone of dates without one, and of results, as in Europe/Berlin (default: UTC)"
    add("--time-zone", metavar="ZONE", default="UTC", help=zone)
    add("--microseconds", action="store_true", help="count microseconds instead of milliseconds")
    add("--start", metavar="TIME", help="start of the clock: ISO 8601, or ms since 1970 (default: 0)")


def run(options: argparse.Namespace) -> int:
    """Deploy, replay, and write. The exit code is 1 if a statement failed; other rows are written all the same.

    If the run fails or is killed, its files keep their temporary names.
    """
    for _, path in options.sinks:
        check_file_kind(path)
    sources = _by_name(options.sources, "--in")
    sep = "\t" if options.sep in ("tab", "\\t") else options.sep
    form = text_format(sep, options.encoding, options.comment, options.na)
    _check_files(sources.values(), [path for _, path in options.sinks])
    if not sources:
        raise UsageError("nothing to replay\n  hint: --in TYPE=FILE names the events, as in --in Tick=ticks.parquet")
    limit = options.state_limit
    limit = int(limit) if limit is not None and limit.isdecimal() else limit
    config = Config(time_zone=options.time_zone, microseconds=options.microseconds, state_limit=limit)
    workbench = Workbench(start=_moment(options.start) or 0, feed_capacity=1, config=config)
    piped = StandardOutput()
    inputs = _deployed(workbench, options, sources, piped, form)
    if not options.quiet:
        # Large files are read twice: all events are checked before the first one is sent.
        write_progress_line("reading the events …")
    replay = workbench.replay(
        inputs,
        time=_times(options.time),
        until=_moment(options.until),
        limit=options.limit,
        speed=options.speed,
        late=options.late,
        lateness=options.lateness,
        rejected=options.rejected,
        leap=options.leap,
        errors="keep",  # printed at the end
        **({} if form == DEFAULT or all(path == PIPE for path in sources.values()) else asdict(form)),
    )
    write_progress_line(None)
    sinks: list[FileSink] = []
    interrupted = _replayed(workbench, replay, options, piped, sinks)
    _print_results(workbench, replay.result, options, piped, sinks)
    if interrupted:
        raise KeyboardInterrupt
    if piped.unread:
        raise BrokenPipeError
    return 1 if replay.result.errors else 0


def _deployed(
    workbench: Workbench,
    options: argparse.Namespace,
    sources: Mapping[str, str],
    piped: StandardOutput,
    form: TextFormat,
) -> dict[str, object]:
    values = _by_name(options.values, "--set")
    texts = [(path, read_text(path)) for path in options.modules]
    names = frozenset().union(*(_declared(path, text) for path, text in texts))
    inputs: dict[str, object] = {}
    for name, path in sources.items():
        if path == PIPE:
            if name not in names:
                raise UsageError(f"the module must declare `{name}` (create schema), which comes from standard input")
            inputs[name] = events_of(sys.stdin, piped, form, rejecting=options.rejected is not None)
        else:
            inputs[name] = path if name in names else _defined(workbench, name, path, options, form)
    _deploy(workbench, texts, {name: parse_value_text(value) for name, value in values.items()})
    _assign(workbench, texts, values)
    _read(workbench, sources)
    return inputs


def _replayed(
    workbench: Workbench,
    replay: Replay[Workbench],
    options: argparse.Namespace,
    piped: StandardOutput,
    sinks: list[FileSink],
) -> bool:
    """Replay into files, which are appended to `sinks`, and into a pipe. Return True if Ctrl-C ended the replay."""
    interrupted = False
    with ExitStack() as stack:
        stack.callback(_report_unfinished, sinks)
        files = [(name, path) for name, path in options.sinks if path != PIPE]
        for name, path in files:
            sinks.append(stack.enter_context(workbench.sink(name, path, whole=True, times=options.times)))
        pipes = [workbench.sink(name, path, times=options.times) for name, path in options.sinks if path == PIPE]
        piped.begin(replay, pipes, bool(sinks))
        stack.callback(piped.close)
        replay.subscribe(piped.flush)
        progress = ReplayProgressBar(replay)
        if not options.quiet and stderr_is_terminal():
            replay.subscribe(progress.draw)
        try:
            replay.run()
        except KeyboardInterrupt:
            interrupted = True
            piped.take_rest(alone=len(options.sources) == 1)
            replay.stop()
        finally:
            progress.clear()
        if interrupted and all(path != PIPE for _, path in options.sources):  # a pipe ends only so
            for sink in sinks:
                sink.close(failed=True)
    return interrupted


def _print_results(
    workbench: Workbench,
    result: ReplayResult,
    options: argparse.Namespace,
    piped: StandardOutput,
    sinks: list[FileSink],
) -> None:
    if not options.quiet:
        out = sys.stderr if piped.sinks else sys.stdout
        summary(workbench, result, [*sinks, *piped.sinks], out)
    if piped.unread:
        lost = [f"the last {format_count(sink.lost, 'row')} of `{sink.name}`" for sink in piped.sinks if sink.lost]
        fact = "the reader closed the standard output and may have missed"
        print(f"cepbook: {fact} {' and '.join(lost)}", file=sys.stderr)
    for error in workbench.errors[:MAX_ERRORS]:
        print(f"cepbook: {error}", file=sys.stderr)


class ReplayProgressBar:
    """The progress of a replay in one line of a terminal."""

    def __init__(self, replay: Replay[Workbench]) -> None:
        self._replay = replay
        self._last_refresh = 0.0

    def draw(self) -> None:
        """Draw the line, at most ten times a second."""
        now = time.monotonic()
        if now - self._last_refresh >= REFRESH:
            self._last_refresh = now
            write_progress_line(self.line())

    def line(self) -> str:
        """``[█████     ]  50 %  1,000 of 2,000 events, 12,345 events/s, 2013-01-01 10:00:00``"""
        at = self._replay.progress
        tail = f"{at.rate:,.0f} events/s, {clock_text(at.clock)}"
        of = at.total or at.estimate
        if not of:
            return f"{at.events:,} events, {tail}"
        share = min(1.0, at.events / of)
        bar = ("█" * round(share * WIDTH)).ljust(WIDTH)
        about = "" if at.total else "about "
        return f"[{bar}] {share:4.0%}  {at.events:,} of {about}{of:,} events, {tail}"

    def clear(self) -> None:
        if self._last_refresh:
            write_progress_line(None)


def _report_unfinished(sinks: list[FileSink]) -> None:
    for sink in sinks:
        if sink.place != sink.path:
            print(f"cepbook: {sink.path!r} is not written; {sink.place!r} has what came until then", file=sys.stderr)


def _column(text: str) -> str:
    """Parse a column, or TYPE=COLUMN. An argparse type."""
    if "=" in text:
        name_value_pair(text)
    return text


def _by_name(pairs: list[tuple[str, str]], option: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise UsageError(f"{option} names `{name}` twice")
        values[name] = value
    return values


def _moment(text: str | None) -> int | str | None:
    return None if text is None else int_or_text(text)


def _check_files(read: Iterable[str], written: list[str]) -> None:
    """Refuse to write a file that is read, or one file for two statements (a database has a table for each)."""
    sources = [path for path in read if path != PIPE]
    files: set[Path] = set()
    for path in written:
        file = Path(path).resolve()
        places = () if path == PIPE else (path, partial_name(path))
        if any(is_same_file(place, source) for place in places for source in sources):
            raise UsageError(f"--out: {path!r} holds the events that are read")
        if path != PIPE and not path.lower().endswith(SQLITE) and file in files:
            raise UsageError(f"--out names {path!r} twice")
        files.add(file)


def _times(words: list[str]) -> str | dict[str, str] | None:
    by_type = _by_name([name_value_pair(word) for word in words if "=" in word], "--time")
    plain = [word for word in words if "=" not in word]
    if len(plain) > 1 or (plain and by_type):
        raise UsageError("--time is one column for all types, or TYPE=COLUMN for each")
    return plain[0] if plain else by_type or None


def _declared(path: Path, text: str) -> frozenset[str]:
    try:
        return declared_names(text)
    except CompileError as error:
        raise error.counted_from(1, str(path)) from None


def _defined(workbench: Workbench, name: str, path: str, options: argparse.Namespace, form: TextFormat) -> object:
    """Define a type that no module declares from its file. Return the source: the file, or its rows if it is small."""
    reject = None if options.rejected is None else lambda reason, line: None  # the replay writes what is rejected
    head, times = _head(path, form, reject), _times(options.time)
    frame = read_file(path, form=form, reject=reject) if head is None else head
    columns = frame.columns if isinstance(frame, pd.DataFrame) else frame.column_names
    column = times.get(name) if isinstance(times, dict) else times
    workbench.define(name, frame, time=column if column in columns else None)
    return frame if head is None and reject is None else path


def _head(path: str, form: TextFormat, reject: Reject | None) -> Any:
    """Return the columns of a file without its rows; None if the file is small and can be read at once."""
    if path.lower().endswith(PARQUET):  # its schema has the types of the columns
        return parquet_head(path)
    return empty_frame_of(path, form, reject) if is_large(path) else None


def _deploy(workbench: Workbench, texts: list[tuple[Path, str]], values: Mapping[str, Any]) -> None:
    for path, text in texts:
        try:
            workbench.run(text, cell=str(path), parameters=values)
        except CompileError as error:
            raise error.counted_from(1, str(path)) from None


def _read(workbench: Workbench, sources: Iterable[str]) -> None:
    """Refuse events that no statement reads, since a misspelt type name would define a new type."""
    types = workbench.runtime.catalog.event_types
    read = {name for names in workbench.statements()["reads"].dropna() for name in names.split(", ")}
    for name in sources:
        if name not in types:
            raise UsageError(f"there is no event type `{name}`{hint_line(name, types)}")
        if read.isdisjoint((name, *types[name].supertypes, "java.lang.Object")):
            raise UsageError(f"--in: no statement reads `{name}`{hint_line(name, read - {name})}")


def _assign(workbench: Workbench, texts: list[tuple[Path, str]], values: Mapping[str, str]) -> None:
    """Set variables. Errors: UsageError for a name that is neither a variable nor a parameter."""
    variables = workbench.runtime.catalog.variables
    parameters = {key for _, text in texts for _, key in parameter_uses(epl.parse_epl(text))}
    for name, value in values.items():
        if name in variables:
            as_text = variables[name].type.name == "string" and not value.startswith('"')
            workbench.set(name, value if as_text else parse_value_text(value))
        elif name not in parameters:
            hint = hint_line(name, [*variables, *parameters])
            raise UsageError(f"--set: there is no variable and no parameter `{name}`{hint}")


def summary(workbench: Workbench, result: ReplayResult, sinks: list[FileSink], out: IO[str]) -> None:
    """Print events and clock, then a line per statement: rows inserted and removed, and their target."""
    head, *_ = repr(result).splitlines()
    print(head, file=out)
    files: dict[str, list[str]] = {}
    for sink in sinks:
        files.setdefault(sink.name, []).append("standard output" if sink.path == PIPE else sink.place)
    rows = []
    for name, statement in workbench.runtime.statements.items():
        feed = workbench.feed(name)
        if statement.kind != "create variable":
            rows.append((name, f"{feed.total_insert:,}", f"{feed.total_remove:,}", ", ".join(files.get(name, ()))))
    table = [("statement", "inserted", "removed", "written to"), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(3)]
    for row in table if rows else []:
        cells = (row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].rjust(widths[2]), row[3])
        print("  " + "  ".join(cells).rstrip(), file=out)


COMMAND = CliCommand(arguments, run)
