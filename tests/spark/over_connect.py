"""A program for `test_connect`: the bridge in a process of its own that talks to a Spark Connect server, as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from cepbook import Workbench, spark
from cepbook.errors import EventError
from cepbook.spark import job
from cepbook.spark.execution.spark_actions import run_action
from cepbook.spark.spark_session import local_session, use_progress_display

EPL = """
@name('native') select symbol, price from Tick(price > 3);
@name('by_key') select symbol, sum(price) as s from Tick#groupwin(symbol)#length(3) group by symbol;
@name('engine') select irstream symbol, count(*) as n from Tick#groupwin(symbol)#length_batch(3) group by symbol;
@name('batches') select symbol, count(*) as n from Tick#groupwin(symbol)#ext_timed_batch(at, 1 sec, 0L) group by symbol;
@name('by_slice') select irstream symbol from Tick#time(1 sec);
@name('ordered') select count(*) as n from Tick output every 3 events;
"""
KEYED = "@name('by_key') select symbol, sum(price) as s from Tick#groupwin(symbol)#length(3) group by symbol;"


def main(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    session = local_session()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    found["session"] = type(session).__module__
    ticks = pd.DataFrame(
        {"at": range(0, 20_000, 100), "symbol": list("AB") * 100, "price": [float(i) for i in range(200)]}
    )
    cep = Workbench()
    cep.define("Tick", ticks, time="at")
    cep.run(EPL)
    cep.replay({"Tick": ticks}).run()
    frame = session.createDataFrame(ticks)
    frame.repartition(3).write.parquet(str(folder / "in"))
    read = session.read.parquet(str(folder / "in"))
    warnings.simplefilter("ignore")
    for name, given in (("pandas", ticks), ("frame", frame), ("files", read)):
        batch = cep.spark({"Tick": given}, session=session)
        paths = {n: (p.path, p.window is not None) for n, p in batch.coverage.items()}
        found[name] = [str(cep.compare(batch)), paths, len(batch.errors())]
    kept = cep.spark({"Tick": frame}, persist=True, statements=["by_key"])
    found["kept"] = kept.frame("by_key").count()
    kept.close()
    found["stream"] = _streamed(cep, session, read, folder)
    found["function"] = _function(session, frame)
    found["job"] = _jobs(folder)
    found["stopped"] = _stopped(cep, session)
    return found


def _streamed(cep: Workbench, session: Any, read: Any, folder: Path) -> dict[str, Any]:
    """Rows of streams that begin with the end of a batch, and with what a workbench saved; and of the whole."""
    before, after = read.where("at <= 9900"), str(folder / "after")
    read.where("at > 9900").write.parquet(after)
    source = session.readStream.schema(read.schema).parquet(after)
    desk = Workbench()
    desk.define("Tick", read, time="at")
    desk.run(KEYED)
    desk.replay({"Tick": before}).run()
    desk.save(folder / "desk.cep")
    begins = {"batch": cep.spark({"Tick": before}, statements=["by_key"]), "saved": folder / "desk.cep"}
    found: dict[str, Any] = {}
    for name, initial in begins.items():
        runtime = (cep if name == "batch" else desk).runtime
        run = spark.stream(runtime=runtime, frames={"Tick": source}, time="at", statements=["by_key"], initial=initial)
        writer = run.frame("by_key").writeStream.option("checkpointLocation", str(folder / f"{name}-state"))
        query = writer.trigger(availableNow=True).start(str(folder / f"from-{name}"))
        query.awaitTermination()
        found[name] = _rows(session.read.parquet(str(folder / f"from-{name}")))
    found["whole"] = _rows(cep.spark({"Tick": read}, statements=["by_key"]).frame("by_key").where("time > 9900"))
    return found


def _rows(frame: Any) -> list[list[Any]]:
    return sorted(list(row) for row in frame.select("time", "kind", "symbol", "s").collect())


def _function(session: Any, frame: Any) -> list[Any]:
    """What a table function gives, as rows and by symbol, and what it says of a table that has not the columns."""
    frame.createOrReplaceTempView("ticks")
    epl = "select symbol, sum(price) as s from Tick#length(3)"
    spark.register_sql("cep_run", epl, Tick=frame, time="at", session=session)
    query = "select * from cep_run(TABLE({0}) PARTITION BY symbol ORDER BY at)"
    found = _rows(session.sql(query.format("ticks")))
    try:
        run_action(session.sql(query.format("select at, symbol from ticks")).collect)
        said = "nothing"
    except EventError as wrong:
        said = str(wrong)
    return [found, said]


def _jobs(folder: Path) -> list[int]:
    (folder / "job.epl").write_text(KEYED)
    words = [str(folder / "job.epl"), "--in", f"Tick={folder}/in", "--time", "at", "--quiet"]
    batch = job.main([*words, "--out", f"by_key={folder}/batch"])
    stream = [*words, "--out", f"by_key={folder}/stream", "--stream", "--once", "--checkpoint", f"{folder}/job"]
    stream.remove("--quiet")
    return [batch, job.main(stream)]


def _stopped(cep: Workbench, session: Any) -> list[Any]:
    """What a job says that is stopped by Ctrl-C, after how long, and its progress."""

    def slow(value: float) -> float:
        time.sleep(0.2)
        return value

    cep.register_function("slow", slow, returns="double")
    cep.run("@name('slowly') select slow(price) as p from Tick(price > 10)")
    batch = cep.spark({"Tick": session.range(0, 1000).selectExpr("id as at", "'A' as symbol", "id + 0.5D as price")},
                      statements=["slowly"])  # fmt: skip
    lines: list[str | None] = []
    undo = use_progress_display(lines.append)
    threading.Timer(5, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    try:
        batch.to_arrow("slowly")
        said = "ended"
    except KeyboardInterrupt:
        said = "stopped"
    took = time.monotonic() - begun
    undo()
    return [said, took, next((line for line in lines if line), ""), session.range(5).count()]


if __name__ == "__main__":
    result = main(Path(sys.argv[1]))
    sys.stdout.write(f"\n{json.dumps(result)}\n")
