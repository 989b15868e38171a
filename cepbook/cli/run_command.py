"""``cepbook run``: a module over files of events, its deliveries into files."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pandas as pd

from cepbook.cli.command import CliCommand, name_value_pair, parse_value_text, read_text
from cepbook.cli.pipes import PIPE, StandardOutput, events_of
from cepbook.dialects.registry import declared_names
from cepbook.display import format_count, stderr_is_terminal, write_progress_line
from cepbook.errors import CompileError, UsageError, hint_line
from cepbook.lang.bind.substitution import parameter_uses
from cepbook.lang.syntax.reader import parser as epl
from cepbook.session import ReplayResult, Workbench
from cepbook.session.io.chunked_files import empty_frame_of, is_large
from cepbook.session.io.files import PARQUET, parquet_head, read_file
from cepbook.session.io.sinks import FileSink, partial_name
from cepbook.session.io.time_conversion import format_clock_time, int_or_text
from cepbook.session.io.writers import SQLITE, check_file_kind
from cepbook.session.replay.replay import Replay

SHOWN = 5  # errors of statements
WIDTH = 24  # of the bar
REFRESH = 0.1  # seconds


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("modules", nargs="+", type=Path, metavar="MODULE.epl", help="EPL to deploy, in this order")
    add(
        "--in",
        dest="sources",
        action="append",
        type=name_value_pair,
        default=[],
        metavar="TYPE=FILE",
        help="events of a type: Parquet, CSV or JSON lines; - reads JSON lines from the standard input. A type that "
        "no module declares is made from the columns of its file",
    )
    add(
        "--time",
        action="append",
        type=_column,
        default=[],
        metavar="[TYPE=]COLUMN",
        help="the column of the event time",
    )
    add(
        "--out",
        dest="sinks",
        action="append",
        type=name_value_pair,
        default=[],
        metavar="STATEMENT=FILE",
        help="write what a statement delivers: Parquet, CSV, JSON lines, SQLite; - is JSON lines on standard output",
    )
    add(
        "--set",
        dest="values",
        action="append",
        type=name_value_pair,
        default=[],
        metavar="NAME=VALUE",
        help="a variable of EPL, or the parameter :NAME; values as in JSON, other words are texts",
    )
    add("--start", metavar="TIME", help="where the clock begins: ISO 8601, or ms since 1970 (default: 0)")
    add("--until", metavar="TIME", help="later events are left out, and the clock goes on to this time")
    add("--limit", type=int, metavar="N", help="at most so many events")
    add("--late", choices=("error", "drop"), default="error", help="what becomes of events that go back in time")
    add("--stepping", action="store_true", help="stop at every due time between events")
    add("--speed", type=float, metavar="X", help="replay at so many times real time")
    add("--quiet", action="store_true", help="no progress and no summary")


def run(options: argparse.Namespace) -> int:
    """Deploy, replay, write. Statements that failed make the exit code 1; what they did not stop is written.

    Files of a run that fails, or is killed, do not get their names.
    """
    for _, path in options.sinks:
        check_file_kind(path)
    sources = _by_name(options.sources, "--in")
    _check_files(sources.values(), [path for _, path in options.sinks])
    if not sources:
        raise UsageError("nothing to replay\n  hint: --in TYPE=FILE names the events, as in --in Tick=ticks.parquet")
    workbench, piped = Workbench(start=_moment(options.start) or 0, feed_capacity=1), StandardOutput()
    given = _deployed(workbench, options, sources, piped)
    if not options.quiet:
        write_progress_line("reading the events …")  # of large files twice: all is checked before the first one is sent
    replay = workbench.replay(
        given,
        time=_times(options.time),
        until=_moment(options.until),
        limit=options.limit,
        speed=options.speed,
        late=options.late,
        stepping=options.stepping,
    )
    write_progress_line(None)
    sinks: list[FileSink] = []
    interrupted = _replayed(workbench, replay, options, piped, sinks)
    _tell(workbench, replay.result, options, piped, sinks)
    if interrupted:
        raise KeyboardInterrupt
    if piped.unread:
        raise BrokenPipeError
    return 1 if replay.result.errors else 0


def _deployed(
    workbench: Workbench, options: argparse.Namespace, sources: Mapping[str, str], piped: StandardOutput
) -> dict[str, object]:
    """What to replay, when the modules are deployed that read it and variables have their values."""
    values = _by_name(options.values, "--set")
    texts = [(path, read_text(path)) for path in options.modules]
    given = _given(workbench, texts, sources, _times(options.time), piped)
    _deploy(workbench, texts, {name: parse_value_text(value) for name, value in values.items()})
    _assign(workbench, texts, values)
    _read(workbench, sources)
    return given


def _replayed(
    workbench: Workbench,
    replay: Replay[Workbench],
    options: argparse.Namespace,
    piped: StandardOutput,
    sinks: list[FileSink],
) -> bool:
    """Replay into files, which are `sinks` then, and into a pipe; whether Ctrl-C ended it."""
    interrupted = False
    with ExitStack() as stack:
        stack.callback(_unfinished, sinks)
        files = [(name, path) for name, path in options.sinks if path != PIPE]
        sinks += [stack.enter_context(workbench.sink(name, path, whole=True)) for name, path in files]
        piped.begin(replay, [workbench.sink(name, path) for name, path in options.sinks if path == PIPE], bool(sinks))
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
        if interrupted and all(path != PIPE for _, path in options.sources):  # a pipe has no end but that
            for sink in sinks:
                sink.close(failed=True)
    return interrupted


def _tell(
    workbench: Workbench,
    result: ReplayResult,
    options: argparse.Namespace,
    piped: StandardOutput,
    sinks: list[FileSink],
) -> None:
    """The summary, what nobody read, and the errors of statements."""
    if not options.quiet:
        out = sys.stderr if piped.sinks else sys.stdout
        summary(workbench, result, [*sinks, *piped.sinks], out)
    if piped.unread:
        lost = [f"the last {format_count(sink.lost, 'row')} of `{sink.name}`" for sink in piped.sinks if sink.lost]
        fact = "nobody reads the standard output any more: not all was read of"
        print(f"cepbook: {fact} {' and '.join(lost)}", file=sys.stderr)
    for error in workbench.errors[:SHOWN]:
        print(f"cepbook: {error}", file=sys.stderr)


class ReplayProgressBar:
    """How far a replay is, in one line of a terminal."""

    def __init__(self, replay: Replay[Workbench]) -> None:
        self._replay = replay
        self._drawn = 0.0

    def draw(self) -> None:
        """Draw it anew, but not oftener than ten times a second."""
        now = time.monotonic()
        if now - self._drawn >= REFRESH:
            self._drawn = now
            write_progress_line(self.line())

    def line(self) -> str:
        """``[█████     ]  50 %  1,000 of 2,000 events, 12,345 events/s, 2013-01-01 10:00:00``"""
        at = self._replay.progress
        tail = f"{at.rate:,.0f} events/s, {format_clock_time(at.clock)}"
        of = at.total or at.estimate
        if not of:
            return f"{at.events:,} events, {tail}"
        share = min(1.0, at.events / of)
        bar = ("█" * round(share * WIDTH)).ljust(WIDTH)
        about = "" if at.total else "about "
        return f"[{bar}] {share:4.0%}  {at.events:,} of {about}{of:,} events, {tail}"

    def clear(self) -> None:
        """Leave an empty line."""
        if self._drawn:
            write_progress_line(None)


def _unfinished(sinks: list[FileSink]) -> None:
    """Tell which files have less than they should, and where they are."""
    for sink in sinks:
        if sink.place != sink.path:
            print(f"cepbook: {sink.path!r} is not written; {sink.place!r} has what came until then", file=sys.stderr)


def _column(text: str) -> str:
    """An argparse type: a column, or TYPE=COLUMN."""
    if "=" in text:
        name_value_pair(text)
    return text


def _by_name(pairs: list[tuple[str, str]], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"{option} names `{name}` twice")
        found[name] = value
    return found


def _moment(text: str | None) -> int | str | None:
    return None if text is None else int_or_text(text)


def _check_files(read: Iterable[str], written: list[str]) -> None:
    """Refuse to write where events come from, and two statements into one file (a database has a table for each)."""
    sources = {Path(path).resolve() for path in read if path != PIPE}
    files: set[Path] = set()
    for path in written:
        file = Path(path).resolve()
        if path != PIPE and not sources.isdisjoint((file, Path(partial_name(path)).resolve())):
            raise UsageError(f"--out: {path!r} holds the events that are read")
        if path != PIPE and not path.lower().endswith(SQLITE) and file in files:
            raise UsageError(f"--out names {path!r} twice")
        files.add(file)


def _times(given: list[str]) -> str | dict[str, str] | None:
    by_type = _by_name([name_value_pair(each) for each in given if "=" in each], "--time")
    plain = [each for each in given if "=" not in each]
    if len(plain) > 1 or (plain and by_type):
        raise UsageError("--time is one column for all types, or TYPE=COLUMN for each")
    return plain[0] if plain else by_type or None


def _declared(path: Path, text: str) -> frozenset[str]:
    try:
        return declared_names(text)
    except CompileError as error:
        raise error.counted_from(1, str(path)) from None


def _given(
    workbench: Workbench,
    texts: list[tuple[Path, str]],
    sources: Mapping[str, str],
    times: str | dict[str, str] | None,
    piped: StandardOutput,
) -> dict[str, object]:
    """What to replay; types that no module declares are defined from their files."""
    names = frozenset().union(*(_declared(path, text) for path, text in texts))
    given: dict[str, object] = {}
    for name, path in sources.items():
        if path == PIPE:
            if name not in names:
                raise UsageError(f"the module must declare `{name}` (create schema), which comes from standard input")
            given[name] = events_of(sys.stdin, piped)
        elif name in names:
            given[name] = path
        else:
            head = _head(path)
            frame = read_file(path) if head is None else head
            columns = frame.columns if isinstance(frame, pd.DataFrame) else frame.column_names
            column = times.get(name) if isinstance(times, dict) else times
            workbench.define(name, frame, time=column if column in columns else None)
            given[name] = frame if head is None else path
    return given


def _head(path: str) -> Any:
    """The columns of a file without its rows, where these need not be read at once; None: they are to be."""
    if path.lower().endswith(PARQUET):  # which says itself of what kinds its columns are
        return parquet_head(path)
    return empty_frame_of(path) if is_large(path) else None


def _deploy(workbench: Workbench, texts: list[tuple[Path, str]], values: Mapping[str, Any]) -> None:
    for path, text in texts:
        try:
            workbench.run(text, cell=str(path), parameters=values)
        except CompileError as error:
            raise error.counted_from(1, str(path)) from None


def _read(workbench: Workbench, sources: Iterable[str]) -> None:
    """Refuse events that go nowhere: a name that was misspelt is made into a type, too."""
    types = workbench.runtime.catalog.event_types
    read = {name for names in workbench.statements()["reads"].dropna() for name in names.split(", ")}
    for name in sources:
        if name not in types:
            raise UsageError(f"there is no event type `{name}`{hint_line(name, types)}")
        if read.isdisjoint((name, *types[name].supertypes, "java.lang.Object")):
            raise UsageError(f"--in: no statement reads `{name}`{hint_line(name, read - {name})}")


def _assign(workbench: Workbench, texts: list[tuple[Path, str]], values: Mapping[str, str]) -> None:
    """Give variables their values; what names neither a variable nor a parameter is an error."""
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
    """Events and clock, then a line for each statement: rows inserted and removed, and where they went."""
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
