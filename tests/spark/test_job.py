"""A module over DataFrames in one call, and jobs of the command line, as a batch and as a stream."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.errors import StreamingQueryException

import cepbook
from cepbook import Workbench
from cepbook.display import format_time
from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.spark import sql, stream
from cepbook.spark.java_home import find_java
from cepbook.spark.job import EXIT_DONE, EXIT_SPARK_FAILED, EXIT_STATEMENT_FAILURES, EXIT_USAGE, main

from .histories import trades

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPL = """
create context Per partition by symbol from Trade;
@name('big') select symbol, size from Trade(size > 500);
@name('sums') context Per select irstream symbol, sum(size) as total from Trade#time(2 sec);
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A module, and trades in three files."""
    (tmp_path / "job.epl").write_text(EPL)
    (tmp_path / "in").mkdir()
    frame = trades(1).assign(number=range(400))
    for i in range(3):
        part = pa.Table.from_pandas(frame.iloc[i * 134 : (i + 1) * 134], preserve_index=False)
        pq.write_table(part, tmp_path / "in" / f"{i}.parquet")
        time.sleep(0.01)  # a stream takes files by their times
    return tmp_path


def kernel_feed(name: str) -> Any:
    cep = Workbench()
    cep.define("Trade", trades(1), time="ts")
    cep.run(EPL)
    cep.replay({"Trade": trades(1)}).run()
    return cep.feed(name)


def kernel(name: str, column: str) -> list[Any]:
    return list(kernel_feed(name).columns().column(column))


def stepped() -> list[tuple[Any, ...]]:
    """What a kernel delivers whose clock stops whenever something is due, as that of a stream does."""
    whole = Runtime()
    whole.deploy("create schema Trade(ts long, symbol string, venue long, price double, size int)")
    whole.deploy(EPL)
    expected: list[Any] = []

    def take(delta: Any) -> None:
        for kind, rows in (("insert", delta.insert), ("remove", delta.remove)):
            expected.extend((delta.time, kind, *row.values()) for row in rows or ())

    whole.statement("sums").add_listener(take)
    for row in trades(1).itertuples(index=False):
        whole.advance(row.ts, stepping=True)
        symbol = row.symbol if isinstance(row.symbol, str) else None
        whole.send("Trade", {"ts": row.ts, "symbol": symbol, "size": row.size})
    return expected


def test_one_call_gives_the_rows_of_a_module(spark: SparkSession, folder: Path) -> None:
    frame = spark.read.parquet(str(folder / "in"))
    for given in (frame, folder / "in"):
        only = sql("select symbol, size from Trade(size > 500)", Trade=given, time="ts", session=spark)
        assert not isinstance(only, dict) and only.count() == len(kernel("big", "size"))
    both = sql(EPL, frames={"Trade": trades(1)}, time="ts", session=spark)
    assert isinstance(both, dict) and list(both) == ["big", "sums"]
    with pytest.raises(UsageError, match="no select statement"):
        sql("create schema A(x int)", Trade=frame)
    with pytest.raises(UsageError, match=r"there is no file 'nowhere.parquet'"):
        sql("select symbol from Trade", Trade="nowhere.parquet", time="ts", session=spark)
    with pytest.raises(UsageError, match=r"expected a Spark or pandas DataFrame, .* not dict"):
        sql("select symbol from Trade", Trade={}, time="ts", session=spark)


def test_a_job_writes_what_the_kernel_delivers(spark: SparkSession, folder: Path, capsys: Any) -> None:
    out = folder / "big.csv"
    words = [str(folder / "job.epl"), "--in", f"Trade={folder}/in/*.parquet", "--time", "ts", "--sequence", "number"]
    assert main([*words, "--out", f"big={out}", "--out", f"sums={folder}/sums"]) == EXIT_DONE
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].split()[:3] == ["big", "native", f"{len(kernel('big', 'size'))}"]
    found = pq.read_table(folder / "sums").to_pandas()
    assert sorted(found["total"].dropna()) == sorted(v for v in kernel("sums", "total") if v is not None)
    assert main([*words, "--about", "time,kind", "--out", f"sums={folder}/some"]) == EXIT_DONE
    assert pq.read_table(folder / "some").column_names == ["time", "kind", "symbol", "total"]
    assert main([*words, "--about", "none", "--out", f"sums={folder}/own"]) == EXIT_DONE
    assert sorted(pq.read_table(folder / "own").to_pandas()["total"].dropna()) == sorted(found["total"].dropna())
    with pytest.raises(SystemExit):
        main([*words, "--about", "tme", "--out", f"sums={folder}/tme"])
    assert "there is no metadata column 'tme'" in capsys.readouterr().err
    capsys.readouterr()
    assert main([*words, "--out", f"sums={folder}/none", "--out", f"big={out}"]) == EXIT_USAGE
    assert "/big.csv: the directory is not empty\n  hint: give another" in capsys.readouterr().err
    assert not (folder / "none").exists()
    assert main([*words, "--out", f"big={out}", "--overwrite", "--quiet"]) == EXIT_DONE


def test_the_names_of_files_in_a_directory_tell_their_format(spark: SparkSession, folder: Path, capsys: Any) -> None:
    (folder / "text").mkdir()
    trades(1).assign(number=range(400)).to_csv(folder / "text" / "a.csv", index=False)
    words = [str(folder / "job.epl"), "--time", "ts", "--sequence", "number", "--quiet", "--format", "json"]
    for given in ("in", "text"):
        out = folder / f"of {given}"
        assert main([*words, "--in", f"Trade={folder / given}", "--out", f"big={out}"]) == EXIT_DONE
        assert spark.read.json(str(out)).count() == len(kernel("big", "size"))


@pytest.mark.histories
def test_spark_submit_runs_a_job_as_a_local_session_does(spark: SparkSession, tmp_path: Path) -> None:
    """Times without a zone are UTC wherever it runs, and there are not 200 tasks on two cores."""
    frame = trades(1).assign(number=range(400))
    frame.assign(ts=pd.to_datetime(frame["ts"], unit="ms")).to_csv(tmp_path / "in.csv", index=False)
    done = submitted(tmp_path, "local[2]", "--in", "Trade=in.csv", "--out", "sums=out")
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert done.split() == ["sums", "by", "key", f"{len(rows):,}", "rows", "out"]
    assert told(rows) == kernel_rows()
    assert len(list((tmp_path / "out").glob("part-*"))) <= 2


@pytest.mark.histories
def test_a_cluster_runs_jobs_and_streams(spark: SparkSession, folder: Path) -> None:
    """Executors are processes of their own, which have nothing of the driver's."""
    cluster = "local-cluster[2,1,1024]", "--in", "Trade=in"
    submitted(folder, *cluster, "--out", "sums=out", "--out", "big=others")
    assert told(pq.read_table(folder / "out").to_pylist()) == kernel_rows()
    assert sorted(pq.read_table(folder / "others").column("size").to_pylist()) == sorted(kernel("big", "size"))
    streamed = "--stream", "--once", "--checkpoint", "state", "--files", "1"
    submitted(folder, *cluster, *streamed, "--out", "sums=stream")
    assert told(pq.read_table(folder / "stream").to_pylist()) == sorted(stepped(), key=repr)


def submitted(folder: Path, master: str, *words: str) -> str:
    """What a job of spark-submit says."""
    (folder / "job.epl").write_text(EPL)
    program = Path(cepbook.__file__).parent / "spark" / "__main__.py"
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    given |= {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "TZ": "America/New_York"}
    given |= {"PYTHONPATH": str(program.parents[2])}
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [submit, "--master", master, program, "job.epl", "--time", "ts", "--sequence", "number", *words]
    done = subprocess.run(command, env=given, cwd=folder, capture_output=True, text=True, timeout=400)
    assert done.returncode == EXIT_DONE, done.stderr[-3000:]
    return done.stdout


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in ("time", "kind", "symbol", "total")) for row in rows), key=repr)


def kernel_rows() -> list[tuple[Any, ...]]:
    feed = kernel_feed("sums").columns()
    kinds = ["insert" if insert else "remove" for insert in feed.inserts]
    return sorted(zip(feed.times, kinds, feed.column("symbol"), feed.column("total"), strict=True), key=repr)


def test_a_job_tells_what_failed(spark: SparkSession, folder: Path, capsys: Any) -> None:
    epl = "@name('q') select cast(symbol, int) as n from Trade; @name('r') select size + 1 as n from Trade"
    (folder / "fails.epl").write_text(epl)
    words = [str(folder / "fails.epl"), "--in", f"Trade={folder}/in", "--time", "ts", "--sequence", "number"]
    assert main([*words, "--out", f"q={folder}/q", "--out", f"r={folder}/r"]) == EXIT_STATEMENT_FAILURES
    frame = trades(1)
    named = frame[frame["symbol"].notna()]
    assert len(named) < len(frame)
    shown = capsys.readouterr()
    (line,) = (line for line in shown.err.splitlines() if "failed" in line)  # of what runs in one job with another
    at = format_time(int(named["ts"].iloc[0]), millis=True)
    assert line.startswith(f"q: {len(named)} failures, first at {at}: statement `q` failed on ")
    assert [line.split()[-3] for line in shown.out.splitlines()] == [f"{len(frame) - len(named)}", f"{len(frame)}"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--time", "tss", "--out", "big=x"], "has no column `tss`"),
        (["--time", "ts", "--out", "bug=x"], "there is no statement bug; the module has: big, sums"),
        (["--time", "ts"], "no output: pass --out"),
        (["--out", "big=x"], "which column holds the time of Trade? pass --time COLUMN, or --time Trade=COLUMN"),
        (["--time", "ts", "--stream", "--out", "big=x"], "a stream needs a directory for its state"),
        (["--time", "ts", "--out", "big=x", "--initial", "desk.cep"], "--initial needs --stream"),
        (["--time", "ts", "--in", "Rate=rate:5", "--out", "big=x"], "a rate has no end"),
        (["--time", "ts", "--in", "Quote=nowhere", "--out", "big=x"], "--in Quote=nowhere: there is no such file"),
        (["--time", "ts", "--in", "Quote=nowhere/*.csv", "--out", "big=x"], "nowhere/*.csv cannot be read: Path"),
        (["--time", "ts", "--out", "big=x", "--out", "sums=./x"], "the rows of big and sums cannot both go to ./x"),
        (["--time", "ts", "--stream", "--checkpoint", "s", "--overwrite", "--out", "big=x"], "--overwrite is for"),
        (
            ["--time", "ts", "--stream", "--checkpoint", "s", "--start", "0", "--initial", "a.cep", "--out", "big=x"],
            "pass either --start or --initial: the saved state has a clock",
        ),
    ],
)
def test_wrong_arguments(spark: SparkSession, folder: Path, capsys: Any, words: list[str], message: str) -> None:
    assert main([str(folder / "job.epl"), "--in", f"Trade={folder}/in", *words]) == EXIT_USAGE
    assert message in capsys.readouterr().err
    assert not (folder / "x").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--files", "0"], "'0' is no number of files from 1 on"),
        (["--delay", "10 parsecs"], "a delay is a length of time such as '10 minutes', not '10 parsecs'"),
        (["--delay", ""], "a delay is a length of time such as '10 minutes', not ''"),
        (["--delay=-5 seconds"], "not '-5 seconds'"),
    ],
)
def test_arguments_that_are_wrong_whatever_the_others(capsys: Any, words: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["job.epl", "--in", "A=x", *words])
    assert ended.value.code == EXIT_USAGE and message in capsys.readouterr().err


def test_a_directory_that_cannot_be_written(spark: SparkSession, folder: Path, capsys: Any) -> None:
    (folder / "file").write_text("")
    words = [str(folder / "job.epl"), "--in", f"Trade={folder}/in", "--time", "ts", "--out", f"big={folder}/file/x"]
    assert main(words) == EXIT_SPARK_FAILED
    told = capsys.readouterr().err
    assert "is not a directory" in told and "\tat " not in told and "An error occurred" not in told


def test_the_clock_of_a_job_begins_where_it_is_told_to(spark: SparkSession, tmp_path: Path, capsys: Any) -> None:
    begin = 1_700_000_000_000
    (tmp_path / "job.epl").write_text(
        "@name('ticks') select current_timestamp as at from pattern [every timer:interval(8 sec)]; "
        "@name('seen') select v from A"
    )
    frame = pd.DataFrame({"ts": [begin + 1_000, begin + 20_000], "v": [1, 2]})
    frame.to_parquet(tmp_path / "a.parquet")
    words = [str(tmp_path / "job.epl"), "--in", f"A={tmp_path}/a.parquet", "--time", "ts", "--quiet"]
    words += ["--out", f"ticks={tmp_path}/ticks", "--out", f"seen={tmp_path}/seen", "--start"]
    assert main([*words, "2023-11-14T22:13:20Z"]) == EXIT_DONE
    assert pq.read_table(tmp_path / "ticks").column("at").to_pylist() == [begin + 8_000, begin + 16_000]
    assert main([*words, str(begin + 5_000), "--overwrite"]) != EXIT_DONE
    told = capsys.readouterr().err
    assert "has the time 2023-11-14 22:13:21.000, but the clock starts at 2023-11-14 22:13:25.000" in told


def test_failures_of_what_only_feeds_a_statement_are_told(spark: SparkSession, folder: Path, capsys: Any) -> None:
    """With the first of the statements that it feeds."""
    epl = (
        "@name('f') update istream Trade set symbol = cast(cast(symbol, int), string) where size > 500;"
        "@name('q') select symbol from Trade; @name('r') select size + 1 as n from Trade"
    )
    (folder / "fed.epl").write_text(epl)
    words = [str(folder / "fed.epl"), "--in", f"Trade={folder}/in", "--time", "ts", "--sequence", "number"]
    assert main([*words, "--out", f"q={folder}/q", "--out", f"r={folder}/r"]) == EXIT_STATEMENT_FAILURES
    frame = trades(1)
    wrong = int((frame["symbol"].notna() & (frame["size"] > 500)).sum())
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "failures" in line)
    assert line.startswith(f"q: {wrong} failures, first at ") and "statement `f` failed on an event" in line


def test_a_missing_module(spark: SparkSession, capsys: Any) -> None:
    assert main(["none.epl", "--in", "A=x", "--out", "q=y"]) == EXIT_USAGE
    assert "none.epl: No such file" in capsys.readouterr().err


def test_a_stream_that_is_broken_off_goes_on_from_its_checkpoint_whatever_the_number_of_tasks(
    spark: SparkSession, folder: Path, request: pytest.FixtureRequest
) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    request.addfinalizer(lambda: spark.conf.set("spark.sql.shuffle.partitions", before))
    runtime = Runtime()
    columns = spark.read.parquet(str(folder / "in")).schema
    runtime.deploy("create schema Trade(ts long, symbol string, venue long, price double, size int)")
    runtime.deploy(EPL)
    taken: dict[int, list[Any]] = {}
    broken: set[int] = set()

    def sink(rows: Any, number: int) -> None:
        taken[number] = [tuple(row) for row in rows.select("time", "kind", "symbol", "total").collect()]
        if number in (0, 2) and number not in broken:
            broken.add(number)
            raise RuntimeError("broken off")

    for tasks in ("3", "2", "5"):  # another machine has others
        spark.conf.set("spark.sql.shuffle.partitions", tasks)
        source = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        run = stream(runtime=runtime, frames={"Trade": source}, time="ts", sequence="number", statements=["sums"])
        writer = run.frame("sums").writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "state"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as failure:
            assert "broken off" in str(failure)
        else:
            break
    assert broken == {0, 2}
    expected = stepped()
    found = [row for rows in taken.values() for row in rows]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_a_stream_does_not_go_on_with_the_state_of_other_statements(
    spark: SparkSession, folder: Path, capsys: Any
) -> None:
    words = [str(folder / "job.epl"), "--in", f"Trade={folder}/in", "--time", "ts", "--quiet", "--stream", "--once"]
    words += ["--sequence", "number", "--out", f"sums={folder}/sums", "--checkpoint"]
    assert main([*words, f"{folder}/state"]) == EXIT_DONE
    capsys.readouterr()
    assert (
        main([*words, f"{folder}/other"]) == EXIT_USAGE
    )  # Spark would take its first batches for those of the old one
    assert "the directory is not empty\n  hint: give a checkpoint" in capsys.readouterr().err
    (folder / "job.epl").write_text(EPL.replace("2 sec", "3 sec"))
    later = trades(1).assign(number=range(400)).assign(ts=trades(1)["ts"] + 100_000)
    pq.write_table(pa.Table.from_pandas(later, preserve_index=False), folder / "in" / "3.parquet")
    assert main([*words, f"{folder}/state"]) == EXIT_USAGE
    told = capsys.readouterr().err
    assert told.startswith(f"{folder}/state/sums holds the state of other statements, or of another version of cepbook")
    assert "\n  hint: continue with the original statements and data" in told and len(told.splitlines()) == 2
    (folder / "state" / "sums.mark").unlink()  # then the state itself tells
    assert main([*words, f"{folder}/state"]) == EXIT_USAGE
    assert capsys.readouterr().err.startswith("the checkpoint holds the state of other statements")
    (folder / "job.epl").write_text(EPL)
    assert main([*words, f"{folder}/state"]) == EXIT_DONE


def test_a_stream_tells_of_what_came_too_late_or_without_a_time(spark: SparkSession, folder: Path, capsys: Any) -> None:
    late = trades(1).assign(number=range(400)).iloc[[0, 399]].astype({"ts": "Int64"})
    late.loc[399, "ts"] = None
    late = late.assign(size=600).astype({"size": "int32"})
    pq.write_table(pa.Table.from_pandas(late, preserve_index=False), folder / "in" / "late.parquet")
    words = [str(folder / "job.epl"), "--in", f"Trade={folder}/in", "--time", "ts", "--out", f"sums={folder}/sums"]
    words += ["--out", f"big={folder}/big"]
    stream = ["--stream", "--once", "--files", "1", "--checkpoint", f"{folder}/state", "--sequence", "number"]
    assert main([*words, *stream]) == EXIT_STATEMENT_FAILURES
    shown = capsys.readouterr()
    told = shown.err
    rows = pq.read_table(folder / "sums").num_rows
    assert rows > 400
    assert shown.out.splitlines()[0].split() == ["sums", "by", "key", f"{rows:,}", "rows", str(folder / "sums")]
    big = pq.read_table(folder / "big")  # what keeps nothing takes late ones
    assert big.num_rows == len(kernel("big", "size")) + 1
    assert "big: a failure in batch 3, first: an event of Trade was left out: the time is missing" in told
    assert "sums: 2 failures in batch 3, first: an event of Trade " in told and "was left out: the " in told


def test_a_job_goes_on_from_a_saved_workbench(spark: SparkSession, folder: Path, capsys: Any) -> None:
    frame = spark.read.parquet(str(folder / "in")).toPandas()
    first = frame[frame["number"] < 134]
    desk = Workbench()
    desk.define("Trade", spark.read.parquet(str(folder / "in")), time="ts")
    desk.run(EPL)
    desk.replay({"Trade": first}).run()
    desk.save(folder / "desk.cep")
    for file in (folder / "in").iterdir():
        file.unlink()
    end, half = int(first["ts"].max()), int(frame["ts"].median())
    held = pa.Table.from_pandas(frame[frame["number"] >= 134], preserve_index=False)
    pq.write_table(held.filter(pc.field("ts") <= half), folder / "in" / "1.parquet")
    words = [str(folder / "job.epl"), "--in", f"Trade={folder}/in", "--time", "ts", "--sequence", "number", "--quiet"]
    words += ["--out", f"sums={folder}/sums", "--stream", "--once", "--checkpoint", f"{folder}/state"]
    assert main([*words, "--initial", str(folder / "desk.cep")]) == EXIT_DONE
    assert end < half and pq.read_table(folder / "sums").num_rows > 0
    pq.write_table(held.filter(pc.field("ts") > half), folder / "in" / "2.parquet")
    assert main(words) == EXIT_DONE  # all that was saved is in the checkpoint since
    rows = pq.read_table(folder / "sums").to_pylist()
    found = [tuple(row[name] for name in ("time", "kind", "symbol", "total")) for row in rows]
    assert found and sorted(found, key=repr) == sorted((row for row in stepped() if row[0] > end), key=repr)


def test_what_one_task_was_begun_with_is_given_again(spark: SparkSession, folder: Path, capsys: Any) -> None:
    epl = "@name('counts') select symbol, count(*) as n from Trade group by symbol"
    (folder / "job.epl").write_text(epl)
    (folder / "in" / "0.parquet").unlink()  # its first event has the time of what is saved
    desk = Workbench()
    desk.define("Trade", spark.read.parquet(str(folder / "in")), time="ts")
    desk.run(epl)
    desk.save(folder / "desk.cep")
    words = [str(folder / "job.epl"), "--in", f"Trade={folder}/in", "--time", "ts", "--sequence", "number", "--quiet"]
    words += ["--out", f"counts={folder}/counts", "--stream", "--once", "--checkpoint", f"{folder}/state"]
    assert main([*words, "--initial", str(folder / "desk.cep")]) == EXIT_DONE
    assert main(words) == EXIT_USAGE
    told = capsys.readouterr().err
    assert "divided in another way (whole, here 32 parts, Trade by symbol" in told
    assert "pass the same `initial=` again" in told


def test_the_rate_source(spark: SparkSession, tmp_path: Path) -> None:
    runtime = Runtime()
    runtime.deploy("create schema Rate(timestamp long, value long); @name('q') select value, prev(1, value) as before "
                   "from Rate#length(2)")  # fmt: skip
    source = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    run = stream(runtime=runtime, frames={"Rate": source}, time="timestamp", sequence="value")
    writer = run.frame("q").writeStream.format("memory").queryName("rates")
    query = writer.option("checkpointLocation", str(tmp_path / "state")).start()
    try:
        deadline = time.monotonic() + 120
        while spark.table("rates").count() < 100 and time.monotonic() < deadline:
            time.sleep(0.5)
    finally:
        query.stop()
    rows = [tuple(row) for row in spark.table("rates").select("value", "before").collect()]
    assert len(rows) >= 100
    assert rows == [(n, n - 1 if n else None) for n in range(len(rows))]


def test_a_stream_has_no_rows_to_read_or_to_compare(spark: SparkSession, folder: Path) -> None:
    cep = Workbench()
    cep.define("Trade", trades(1), time="ts")
    cep.run(EPL)
    frame = spark.read.parquet(str(folder / "in"))
    events = spark.readStream.schema(frame.schema).parquet(str(folder / "in"))
    run = stream(runtime=cep.runtime, frames={"Trade": events}, time="ts", session=spark)
    for read in (lambda: run.to_pandas("big"), run.errors, lambda: cep.compare(run)):
        with pytest.raises(UsageError, match="a stream has no end"):
            read()
    with pytest.raises(UsageError, match="big: a streaming DataFrame has no end; compare what it wrote"):
        cep.compare({"big": run.frame("big")})


def test_a_stream_whose_statement_reads_nothing_of_what_is_given(
    spark: SparkSession, folder: Path, capsys: Any
) -> None:
    runtime = Runtime()
    runtime.deploy(
        "create schema Trade(ts long, symbol string); create schema Rain(ts long, mm double);"
        "@name('trades') select symbol from Trade; @name('wet') select mm from Rain#length(2);"
        "@name('sums') insert into Wet select sum(mm) as mm from Rain; @name('fed') select mm from Wet;"
        "@name('ticks') select current_timestamp as t from pattern [every timer:interval(1 sec)]"
    )
    frame = spark.read.parquet(str(folder / "in"))
    events = spark.readStream.schema(frame.schema).parquet(str(folder / "in"))

    def told(*statements: str) -> str:
        with pytest.raises(UsageError) as error:
            stream(runtime=runtime, frames={"Trade": events}, time="ts", statements=statements or None)
        return str(error.value)

    lacks = "reads no events of Trade, so as a stream it would never deliver anything\n  hint: pass events of Rain"
    assert told().startswith(f"`wet` {lacks}") and told("trades", "fed").startswith(f"`fed` {lacks}")
    assert told("ticks").startswith("`ticks` reads no events, and those that a statement reads move its clock")
    assert stream(runtime=runtime, frames={"Trade": events}, time="ts", statements=["trades"]).statements == ("trades",)
    (folder / "job.epl").write_text(
        "@name('ticks') select current_timestamp as t from pattern [every timer:interval(1 sec)];"
        "@name('big') select symbol from Trade(size > 5)"
    )
    words = [str(folder / "job.epl"), "--in", f"Trade={folder}/in", "--time", "ts", "--stream", "--once"]
    words += ["--checkpoint", f"{folder}/state", "--out", f"big={folder}/big", "--out", f"ticks={folder}/ticks"]
    assert main(words) == EXIT_USAGE
    assert capsys.readouterr().err == f"{told('ticks')}\n"
    assert not (folder / "big").exists() and not (folder / "state").exists()


def test_a_frame_that_is_no_stream(spark: SparkSession, folder: Path) -> None:
    runtime = Runtime()
    runtime.deploy("create schema Trade(ts long, symbol string); select symbol from Trade")
    with pytest.raises(UsageError, match="the frame for `Trade` is not a stream"):
        stream(runtime=runtime, frames={"Trade": spark.read.parquet(str(folder / "in"))}, time="ts")
