"""The recipe for Kafka in docs/how-to/spark_streams.md.

Spark's own connector is a jar that no package index has. A data source in Python stands in its place and returns the
same rows, read from librdkafka's mock cluster over Kafka's protocol.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from cepbook import Workbench
from cepbook.errors import UsageError
from cepbook.spark import compare, from_kafka
from cepbook.spark.frames import kafka_messages
from cepbook.spark.job import main
from tests import documents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

confluent = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed (group `test`)")
COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


STAND_IN = "kafka_stand_in"  # Spark keeps the name of its own


@pytest.fixture(autouse=True)
def registered(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.dataSource.register(reader())
    monkeypatch.setattr(kafka_messages, "CONNECTOR", STAND_IN)


def reader() -> type[DataSource]:
    """Made here, so that it travels to Spark's workers as it is."""

    class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        def __init__(self, options: Any) -> None:
            self._servers, self._topic = options["kafka.bootstrap.servers"], options["subscribe"]
            self._last: dict[str, int] | None = None

        def prepareForTriggerAvailableNow(self) -> None:
            self._last = self._ends(1)

        def _consumer(self) -> Any:
            from confluent_kafka import Consumer

            return Consumer({"bootstrap.servers": self._servers, "group.id": "cepbook", "enable.auto.commit": False})

        def _ends(self, which: int) -> dict[str, int]:
            from confluent_kafka import TopicPartition

            consumer = self._consumer()
            parts = consumer.list_topics(self._topic, timeout=20).topics[self._topic].partitions
            found = {
                str(n): consumer.get_watermark_offsets(TopicPartition(self._topic, n), timeout=20)[which] for n in parts
            }
            consumer.close()
            return found

        def initialOffset(self) -> dict[str, int]:
            return self._ends(0)

        def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:
            return self._last or self._ends(1)

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            return [InputPartition((int(n), start[n], end[n])) for n in end if end[n] > start[n]]

        def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
            from datetime import UTC, datetime

            from confluent_kafka import TopicPartition

            number, begin, end = partition.value
            consumer = self._consumer()
            consumer.assign([TopicPartition(self._topic, number, begin)])
            while begin < end:
                for message in consumer.consume(end - begin, timeout=20):
                    assert message.error() is None and message.offset() == begin
                    kind, at = message.timestamp()
                    taken = datetime.fromtimestamp(at / 1000, UTC)
                    yield message.key(), message.value(), self._topic, number, begin, taken, kind - 1
                    begin += 1
            consumer.close()

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "kafka_stand_in"

        def schema(self) -> str:
            return COLUMNS

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return Reader(self.options)

    return Source


class Topic:
    """A broker with a topic, and what was sent to it: time, partition, offset, symbol and price."""

    def __init__(self) -> None:
        mock = {"bootstrap.servers": "replaced", "test.mock.num.brokers": 1, "log_level": 0}
        self._producer = confluent.Producer(mock)
        broker = next(iter(self._producer.list_topics("ticks", timeout=20).brokers.values()))
        self.servers = f"{broker.host}:{broker.port}"
        self.sent: list[tuple[int, int, int, str, float]] = []
        self._ends = [0, 0, 0]

    def send(self, events: Any) -> None:
        for n, (at, symbol, price) in enumerate(events):
            self.message(json.dumps({"at": at, "symbol": symbol, "price": price}).encode(), n % 3)
            self.sent.append((at, n % 3, self._ends[n % 3] - 1, symbol, price))

    def message(self, value: bytes | None, partition: int = 0) -> None:
        self._producer.produce("ticks", value, key=b"k", partition=partition, timestamp=1000 + self._ends[partition])
        self._ends[partition] += 1

    def flush(self) -> None:
        assert self._producer.flush(20) == 0

    def workbench(self) -> Workbench:
        """What saw the events in their order."""
        cep = Workbench()
        cep.define("Tick", {"at": int, "symbol": str, "price": float}, time="at")
        cep.run(QUERY)
        events = [(at, symbol, price) for at, _, _, symbol, price in sorted(self.sent)]
        cep.replay({"Tick": pd.DataFrame(events, columns=["at", "symbol", "price"])}).run()
        return cep


QUERY = (
    "@name('means') select symbol, max(price) as top, prev(1, price) as last from Tick#groupwin(symbol)#length(3) "
    "group by symbol;"
)
NO_PRICE = b'{"at": 3000, "symbol": "A", "price": "high"}'
WRONG = (b"no JSON", NO_PRICE, b'{"at": "soon", "symbol": "A"}', b"{}", b"", None)
END = b'{"at": 1000000000}'  # which nothing comes after, so that it waits


def parts() -> list[list[tuple[int, str, float]]]:
    """Events of the same symbol and time in several partitions, whose messages come out of order by some seconds."""
    events = [(at * 1000, "AB"[at % 2], float(n)) for at in range(16) for n in range(4)]
    return [sorted(part, key=lambda e: (e[0] % 5000, e)) for part in (events[:30], events[30:])]


def test_messages_become_events_and_a_stream_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic()
    recipe = documents.of_kafka().replace("host:9092", topic.servers).replace(documents.KAFKA, f".format('{STAND_IN}')")
    recipe = recipe.replace("state/", f"{tmp_path}/state").replace("means/", f"{tmp_path}/means")
    cep = Workbench()
    cep.define("Tick", {"at": int, "symbol": str, "price": float}, time="at")
    cep.run(QUERY)
    for part in parts():
        topic.send(part)
        for value in WRONG:
            topic.message(value)
        if len(topic.sent) == 64:
            topic.message(END)
        topic.flush()
        names: dict[str, Any] = {"spark": spark, "cep": cep}
        exec(compile(recipe, "spark_streams.md", "exec"), names)
        assert names["run"].order == "events of one time are ordered by the column kafka_order"
        (query,) = spark.streams.active
        query.processAllAvailable()
        query.stop()
    rows = pq.read_table(tmp_path / "means").sort_by([("time", "ascending"), ("sequence", "ascending")])
    assert rows.num_rows == len(topic.sent)
    compare(topic.workbench(), {"means": rows}, order=True).assert_same()


def test_a_job_over_messages(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic, module = Topic(), tmp_path / "job.epl"
    module.write_text(f"create schema Tick(at long, symbol string, price double); {QUERY}")
    words = ["--time", "at", "--delay", "10 seconds", "--out", f"means={tmp_path / 'means'}", "--quiet"]
    words += ["--stream", "--once", "--checkpoint", str(tmp_path / "state")]
    codes = []
    for part in parts():
        topic.send(part)
        if len(topic.sent) < 64:
            topic.message(NO_PRICE)
        else:
            topic.message(END)
        topic.flush()
        codes.append(main([str(module), "--in", f"Tick=kafka:{topic.servers}/ticks?startingOffsets=earliest", *words]))
    told = capsys.readouterr()
    assert codes == [1, 0] and "warning" not in told.err, told
    assert "an event of Tick was left out: the time is missing" in told.err
    rows = spark.read.parquet(str(tmp_path / "means")).toArrow()
    rows = rows.sort_by([("time", "ascending"), ("sequence", "ascending")])
    compare(topic.workbench(), {"means": rows}, order=True).assert_same()


def test_the_messages_own_times(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic, module = Topic(), tmp_path / "job.epl"
    for value in (*WRONG[:2], *(f'{{"symbol": "{symbol}"}}'.encode() for symbol in "ABA")):
        topic.message(value)
    topic.flush()
    module.write_text("create schema Tick(symbol string, price double); @name('q') select symbol, price from Tick")
    words = ["--time", "kafka_timestamp", "--out", f"q={tmp_path / 'q'}", "--stream", "--once", "--quiet"]
    words += ["--in", f"Tick=kafka:{topic.servers}/ticks", "--checkpoint", str(tmp_path / "state")]
    assert main([str(module), *words]) == 1
    assert "2 failures in batch 0, first: an event of Tick was left out" in capsys.readouterr().err
    rows = spark.read.parquet(str(tmp_path / "q")).toArrow().sort_by("time").to_pylist()
    expected = [(1002 + n, symbol, None) for n, symbol in enumerate("ABA")]
    assert [(row["time"], row["symbol"], row["price"]) for row in rows] == expected


def test_what_is_wrong_with_a_topic(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "job.epl"
    module.write_text("create schema Tick(at long, symbol string); @name('q') select symbol from Tick")
    out = ["--time", "at", "--out", f"q={tmp_path / 'q'}"]
    stream = ["--stream", "--checkpoint", str(tmp_path / "state"), *out]
    for words, message in (
        (["--in", "Tick=kafka:host:9092/ticks", *out], "a topic has no end, so it needs --stream"),
        (["--in", "Tick=kafka:host:9092", *stream], "is no topic: say kafka:SERVERS/TOPIC"),
        (["--in", "Other=kafka:host:9092/ticks", *stream], "say `create schema Other(…)` in the module"),
        (["--in", "q=kafka:host:9092/ticks", *stream], "there is no event type q"),
    ):
        assert main([str(module), *words]) == 2
        assert message in capsys.readouterr().err
    cep = Workbench()
    cep.define("Tick", {"at": int})
    with pytest.raises(UsageError, match="these are no messages of Kafka: they lack the column `value`"):
        from_kafka(spark.range(3), runtime=cep.runtime, event_type="Tick")
    with pytest.raises(UsageError, match="there is no event type Tik; did you mean `Tick`"):
        from_kafka(spark.range(3), runtime=cep.runtime, event_type="Tik")
