"""A job: the statements of a file over files, as a batch or as a stream, from the command line or ``spark-submit``.

    python -m cepbook.spark job.epl --in Flight=flights/*.parquet --time departure --out delays=out/

Exit codes: 0 all was written; 1 all was written, but statements failed on some events; 2 the arguments, the EPL or the
columns are wrong, nothing was written; 3 Spark failed; 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time as wall
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cepbook.dialects import declared_names
from cepbook.display import format_time, write_progress_line
from cepbook.engine.runtime import Runtime
from cepbook.errors import CepbookError, UsageError
from cepbook.spark.execution.epl_module import deploy_module
from cepbook.spark.execution.execution import execute
from cepbook.spark.execution.spark_actions import error_behind, run_action
from cepbook.spark.execution.spark_run import RunRequest, SparkRun, check_about_columns
from cepbook.spark.frames.kafka_messages import KAFKA_ORDER, KAFKA_SCHEME, from_kafka, subscribe_topic
from cepbook.spark.frames.tagged_stream import SEQUENCE_ARGUMENT, check_delay, load_files
from cepbook.spark.spark_session import local_session, quiet_pandas_warning, submitted_session
from cepbook.spark.task.program import check_fingerprint
from cepbook.spark.task.stream_columns import VISIBLE_COLUMNS

FORMATS = ("parquet", "csv", "json", "orc")
EXIT_DONE, EXIT_STATEMENT_FAILURES, EXIT_USAGE, EXIT_SPARK_FAILED, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
_COUNTS_METRIC = "delivered"  # what a stream counts of its rows
_SUBMIT_VARIABLE = "PYSPARK_GATEWAY_PORT"  # the variable that spark-submit sets
_POLL_INTERVAL = 1.0  # seconds between two looks at the progress


def main(arguments: Sequence[str]) -> int:
    """Run a job, and return its exit code."""
    options = _parser().parse_args(arguments)
    quiet_pandas_warning()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            return _stream(options) if options.stream else _batch(options)
    except KeyboardInterrupt:
        return _report(EXIT_INTERRUPTED, "interrupted; unfinished output was not written")
    except CepbookError as wrong:
        return _report(EXIT_USAGE, str(wrong))
    except OSError as wrong:
        return _report(EXIT_USAGE, f"{wrong.filename or options.module}: {wrong.strerror or wrong}")
    except Exception as broken:
        if not isinstance(broken, PySparkException) and type(broken).__module__ != "py4j.protocol":
            raise
        return _report(
            EXIT_SPARK_FAILED, _without_java_trace(broken)
        )  # pyspark's own, or py4j's where Spark has no name for it


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cepbook.spark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("module", help="the file with the EPL")
    add("--in", dest="inputs", action="append", required=True, metavar="TYPE=PATH", type=_pair,
        help="the events of a type: files or a directory; for a stream also TYPE=rate:ROWS_PER_SECOND, or messages in "
        "JSON, TYPE=kafka:SERVERS/TOPIC[?OPTION=VALUE&…] with options of Spark's connector")  # fmt: skip
    add("--time", action="append", default=[], type=_column, metavar="[TYPE=]COLUMN", help="where the events' time is")
    add("--sequence", action="append", default=[], type=_column, metavar="[TYPE=]COLUMN",
        help="what orders events of one time")  # fmt: skip
    add("--out", dest="outputs", action="append", default=[], metavar="STATEMENT=DIRECTORY", type=_pair,
        help="where the rows of a statement go")  # fmt: skip
    add("--about", type=_metadata_names, default=VISIBLE_COLUMNS, metavar="COLUMNS",
        help="which of " + ", ".join(VISIBLE_COLUMNS) + " are written before a statement's own columns, all if not "
        "given: time,kind or none")  # fmt: skip
    add("--format", choices=FORMATS, help="of files and directories whose names do not tell; parquet if not given")
    add("--start", type=_timestamp, help="ISO 8601 or ms: the clock begins here, at 1970 if not given")
    add(
        "--until",
        type=_timestamp,
        help="ISO 8601 or ms: the clock goes there at the end, and later events are left out",
    )
    add("--leap", action="store_true", help="move the clock from event to event: timers due in between fire late")
    add("--overwrite", action="store_true", help="replace what is in the directories")
    add("--master", type=_local_master, help="of a local session, such as local[4]")
    add("--stream", action="store_true", help="take new files as they come")
    add("--once", action="store_true", help="with --stream: end when all that is there has been taken")
    add("--checkpoint", metavar="DIR", help="of a stream: where its state is kept, from which it goes on")
    add("--delay", default="0 seconds", type=_delay,
        help="of a stream: how much out of order events may come, as '10 minutes'")  # fmt: skip
    add("--initial", metavar="FILE", help="of a stream: what a workbench saved, to begin with at its first start")
    add("--files", type=_count, metavar="N", help="of a stream: the most files that one batch takes")
    add("--quiet", action="store_true", help="no progress line")
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (sign and name and value):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, not {text!r}")
    return name, value


def _column(text: str) -> str:
    if "=" in text:
        _pair(text)
    return text


def _metadata_names(text: str) -> tuple[str, ...]:
    names = () if text == "none" else tuple(name.strip() for name in text.split(","))
    try:
        check_about_columns(names)
    except UsageError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None
    return names


def _local_master(text: str) -> str:
    if re.fullmatch(r"local(\[([0-9]+|\*)(,[0-9]+)?\])?", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no local session such as local[4]; clusters take spark-submit")
    return text


def _count(text: str) -> int:
    if re.fullmatch("0*[1-9][0-9]{0,8}", text, re.ASCII) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of files from 1 on")
    return int(text)


def _delay(text: str) -> str:
    try:
        check_delay(text)
    except UsageError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None
    return text


def _timestamp(text: str) -> int:
    if re.fullmatch("[-+]?[0-9]{1,30}", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither an ISO 8601 date and time nor whole ms") from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _columns_by_type(texts: Sequence[str]) -> str | dict[str, str] | None:
    """Return the column of ``COLUMN`` for all types, or a mapping from ``TYPE=COLUMN`` for each."""
    if any("=" in text for text in texts):
        if not all("=" in text for text in texts):
            raise UsageError("pass one column for all types, or TYPE=COLUMN for each")
        pairs = [_pair(text) for text in texts]
        if len(dict(pairs)) < len(pairs):
            raise UsageError(f"which column? {', '.join(texts)} name a type twice")
        return dict(pairs)
    if len(texts) > 1:
        raise UsageError(f"which of {', '.join(texts)}? pass one column for all types, or TYPE=COLUMN for each")
    return texts[0] if texts else None


def _session(options: argparse.Namespace) -> SparkSession:
    """Return the session of ``spark-submit``, of the server that ``SPARK_REMOTE`` names, or a local one."""
    if _SUBMIT_VARIABLE in os.environ:
        return submitted_session()
    return local_session(**({"spark.master": options.master} if options.master else {}))


def _format(path: str, options: argparse.Namespace) -> str:
    ending = path.rstrip("/").rpartition(".")[2].lower()
    return ending if ending in FORMATS else options.format or FORMATS[0]


def _format_in(path: str, options: argparse.Namespace) -> str:
    """Return the format of input files; of a local directory the names of its files tell it, if they agree."""
    if _may_be_remote() or not os.path.isdir(path):
        return _format(path, options)
    names = (name for _, _, files in os.walk(path) for name in files if not name.startswith(("_", ".")))
    endings = {name.rpartition(".")[2].lower() for name in names}
    return endings.pop() if len(endings) == 1 and endings <= set(FORMATS) else _format(path, options)


def _read(session: SparkSession, path: str, options: argparse.Namespace) -> DataFrame:
    return load_files(_reader(session.read, _format_in(path, options)), path)


def _reader(reader: Any, kind: str) -> Any:
    configured = reader.format(kind)
    return configured.option("header", True).option("inferSchema", True) if kind == "csv" else configured


def _check_paths(options: argparse.Namespace) -> None:
    """Raise `UsageError` for names that repeat, and for problems with local files."""
    for option, pairs in (("--in", options.inputs), ("--out", options.outputs)):
        names = [name for name, _ in pairs]
        twice = next((name for n, name in enumerate(names) if name in names[:n]), None)
        if twice is not None:
            raise UsageError(f"{option} names {twice} twice")
    read = {os.path.realpath(path) for _, path in options.inputs}
    for _, path in options.outputs:
        if os.path.realpath(path) in read:
            raise UsageError(f"--out: {path!r} holds the events that are read")
    if _may_be_remote():
        return
    for name, path in options.inputs:
        if _is_local(path) and not any(mark in path for mark in "*?[{") and not os.path.exists(path):
            raise UsageError(f"--in {name}={path}: there is no such file or directory")
    owners: dict[str, str] = {}
    for name, path in options.outputs:
        other = owners.setdefault(os.path.normpath(path), name)
        if other != name:
            raise UsageError(f"the rows of {other} and {name} cannot both go to {path}")
        goes_on = options.stream and os.path.exists(os.path.join(options.checkpoint, name))
        if options.overwrite or goes_on or not (_is_local(path) and _has_files(path)):
            continue
        advice = "a checkpoint that wrote it, or another directory" if options.stream else "another, or say --overwrite"
        raise UsageError(f"--out {name}={path}: the directory is not empty\n  hint: give {advice}")


def _may_be_remote() -> bool:
    """Return whether paths may belong to other machines."""
    return _SUBMIT_VARIABLE in os.environ or not os.environ.get("SPARK_REMOTE", "local").startswith("local")


def _is_local(path: str) -> bool:
    return "://" not in path and not path.startswith(("rate:", KAFKA_SCHEME))


def _has_files(path: str) -> bool:
    return os.path.isfile(path) or any(files for _, _, files in os.walk(path))


def _open_job(options: argparse.Namespace) -> tuple[Runtime, RunRequest]:
    """Return the runtime with the deployed module, and the inputs and options of the run, with a session."""
    try:
        with open(options.module, encoding="utf-8") as file:
            epl = file.read()
    except UnicodeDecodeError as wrong:
        byte = f"byte {wrong.start} is {wrong.object[wrong.start]:#x}"
        raise UsageError(f"{options.module!r} is no UTF-8 text: {byte}") from None
    names = declared_names(epl)  # what is no EPL is told before Spark starts, which takes seconds
    time, sequence = _columns_by_type(options.time), _columns_by_type(options.sequence)
    _check_paths(options)
    for name, path in options.inputs:
        if path.startswith(("rate:", KAFKA_SCHEME)) and not options.stream:
            source = "a topic" if path.startswith(KAFKA_SCHEME) else "a rate"
            raise UsageError(f"{name}={path}: {source} has no end, so it needs --stream")
        if path.startswith(KAFKA_SCHEME) and name not in names:
            remedy = f"say `create schema {name}(…)` in the module"
            raise UsageError(f"{name}={path}: its messages do not say what columns they have; {remedy}")
    session = _session(options)
    frames = {}
    for name, path in options.inputs:
        if path.startswith(KAFKA_SCHEME):
            frames[name] = subscribe_topic(session, path)
        elif path.startswith("rate:"):
            rate = session.readStream.format("rate").option("rowsPerSecond", path.removeprefix("rate:"))
            frames[name] = rate.load()
        elif options.stream:
            columns = _read(session, path, options).schema
            reader = _reader(session.readStream, _format_in(path, options)).schema(columns)
            frames[name] = (reader.option("maxFilesPerTrigger", options.files) if options.files else reader).load(path)
        else:
            frames[name] = _read(session, path, options)
    runtime = deploy_module(epl, {name: frame.schema for name, frame in frames.items()}, time)
    messages = [name for name, path in options.inputs if path.startswith(KAFKA_SCHEME)]
    frames |= {name: from_kafka(frames[name], runtime.catalog.event_types, name) for name in messages}
    if sequence is None and len(messages) == len(frames):
        sequence = KAFKA_ORDER
    known = list(runtime.statements)
    for name, _ in options.outputs:
        if name not in known:
            raise UsageError(f"there is no statement {name}; the module has: {', '.join(known) or 'none'}")
    for name in frames:
        column = time if isinstance(time, str) else (time or {}).get(name)
        event_type = runtime.catalog.event_types.get(name)
        if event_type is not None and column is None and event_type.time_property is None:
            raise UsageError(f"which column holds the time of {name}? pass --time COLUMN, or --time {name}=COLUMN")
    if not options.outputs:
        raise UsageError(f"no output: pass --out STATEMENT=DIRECTORY (statements: {', '.join(known)})")
    return runtime, RunRequest(
        frames=frames, time=time, sequence=sequence, statements=[name for name, _ in options.outputs],
        start=options.start, until=options.until, session=session, leap=options.leap,
    )  # fmt: skip


def _batch(options: argparse.Namespace) -> int:
    if options.initial is not None:
        raise UsageError("--initial needs --stream: a batch always begins with an empty state")
    run = execute(*_open_job(options))
    session = run.session
    if not run.certain:
        _warn_of_ties(run)
    lines, failed = [], 0
    for name, path in options.outputs:
        observation = Observation(f"rows of {name}")
        rows = run.frame(name, observed=observation, about=options.about)
        mode = "overwrite" if options.overwrite else "error"
        writer = rows.write.format(_format(path, options)).option("header", True).mode(mode)
        run_action(partial(writer.save, path), session, name, options.quiet)
        counts = observation.get
        lines.append((name, run.coverage[name].path, f"{counts['rows']:,} rows", path))
        failed += counts["failures"]
        if counts["failures"]:
            many = f"{counts['failures']:,} failures" if counts["failures"] > 1 else "a failure"
            at = format_time(counts["at"], millis=True)
            _report(EXIT_STATEMENT_FAILURES, f"{name}: {many}, first at {at}: {counts['first']}")
    run.close()
    _summary(lines)
    return EXIT_STATEMENT_FAILURES if failed else EXIT_DONE


def _stream(options: argparse.Namespace) -> int:
    from cepbook.spark.streaming.stream_queries import stream

    if options.checkpoint is None:
        raise UsageError("a stream needs a directory for its state: --checkpoint DIR")
    if options.until is not None:
        raise UsageError("a stream has no end, so it has no --until")
    if options.leap:
        raise UsageError("--leap is for batches: the clock of a stream stops whenever something is due")
    if options.overwrite:
        raise UsageError("--overwrite is for batches: a stream appends to its output")
    if options.start is not None and options.initial is not None:
        raise UsageError("pass either --start or --initial: the saved state has a clock")
    run = stream(*_open_job(options), options.delay, options.initial)
    names = [name for name, _ in options.outputs]
    if not run.certain:
        _warn_of_ties(run)
    for name in names:
        _check_state(options.checkpoint, name, run.fingerprint(name))
    queries: dict[str, StreamingQuery] = {}
    for name, path in options.outputs:
        writer = (
            run.frame(name, observed=_COUNTS_METRIC, about=options.about)
            .writeStream.format(_format(path, options))
            .option("header", True)
            .outputMode("append")
            .queryName(name)
        )
        writer = writer.option("checkpointLocation", os.path.join(options.checkpoint, name)).option("path", path)
        queries[name] = (writer.trigger(availableNow=True) if options.once else writer).start()
    counts = {name: _QueryCounts() for name in queries}
    try:
        _follow(queries, options.quiet, counts)
    finally:
        for query in queries.values():
            query.stop()
    _summary([(name, run.coverage[name].path, f"{counts[name].rows:,} rows", path) for name, path in options.outputs])
    return EXIT_STATEMENT_FAILURES if any(count.failures for count in counts.values()) else EXIT_DONE


def _check_state(checkpoint: str, name: str, mark: str) -> None:
    """Store the fingerprint of a local state beside it, and check it when the stream continues.

    The state contains the fingerprint, too; it is checked there if there is none beside it. Raises `SnapshotError` for
    the state of something else before Spark reads new events.
    """
    if _may_be_remote() or not _is_local(checkpoint):
        return
    state, beside = os.path.join(checkpoint, name), os.path.join(checkpoint, f"{name}.mark")
    if not os.path.exists(os.path.join(state, "offsets")):
        os.makedirs(checkpoint, exist_ok=True)
        with open(beside, "w", encoding="utf-8") as file:
            file.write(mark)
    elif os.path.exists(beside):
        with open(beside, encoding="utf-8") as file:
            check_fingerprint(mark, file.read(), state)


@dataclass(slots=True)
class _QueryCounts:
    """The counts of a query's batches, up to the batch `last`."""

    last: int = -1
    rows: int = 0
    failures: int = 0


def _follow(queries: dict[str, StreamingQuery], quiet: bool, counts: dict[str, _QueryCounts]) -> None:
    """Wait until all queries have ended, or one has failed; failures of statements are reported."""
    while any(query.isActive for query in queries.values()):
        _count_batches(queries, counts)
        for name, query in queries.items():
            if query.exception() is not None:
                _raise(query)
            last = query.lastProgress
            if last is not None and not quiet:
                mark = (last.eventTime or {}).get("watermark", "none yet")
                write_progress_line(f"{name}: batch {last.batchId}, {last.numInputRows:,} events, watermark {mark}")
        wall.sleep(_POLL_INTERVAL / 4)
    for query in queries.values():
        if query.exception() is not None:
            _raise(query)
    write_progress_line(None)
    _count_batches(queries, counts)


def _count_batches(queries: dict[str, StreamingQuery], counts: dict[str, _QueryCounts]) -> None:
    """Count the rows of new batches, and report failures of statements, late events and those without a time."""
    for name, query in queries.items():
        known = counts[name]
        for progress in query.recentProgress:
            metrics = progress.observedMetrics.get(_COUNTS_METRIC)
            if metrics is None or progress.batchId <= known.last:
                continue
            known.last = progress.batchId
            if "values" in metrics:  # the client of a server makes a row of the values and their schema
                metrics = metrics["values"]
            rows, failures, first, _ = metrics
            known.rows += rows
            known.failures += failures
            if failures:
                write_progress_line(None)
                many = f"{failures:,} failures" if failures > 1 else "a failure"
                _report(EXIT_STATEMENT_FAILURES, f"{name}: {many} in batch {progress.batchId}, first: {first}")


def _raise(query: StreamingQuery) -> None:
    failure = query.exception()
    assert failure is not None
    raise error_behind(str(failure)) or failure


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    _report(EXIT_DONE, f"warning: {message}")


def _warn_of_ties(run: SparkRun) -> None:
    _warn(run.order.replace(SEQUENCE_ARGUMENT, "--sequence COLUMN"))


def _report(code: int, text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return code


def _summary(lines: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        sys.stdout.write(f"{cells.rstrip()}\n")


def _without_java_trace(failure: Exception) -> str:
    """Return the text of a failure without its Java stack trace."""
    places = re.compile(r"\s+at |An error occurred while calling")
    lines = [line.removeprefix(": ") for line in str(failure).splitlines() if not places.match(line)]
    return "\n".join(lines[:5])
