"""Events from Kafka messages, as Spark's connector delivers them, and the sources ``kafka:…`` of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from pyspark import __version__ as version
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cepbook.errors import UsageError, did_you_mean
from cepbook.lang.plan.catalog import EventType
from cepbook.spark.frames.tagged_stream import frame_column_names
from cepbook.spark.task.type_mapping import quote_identifier, type_mapping_of

KAFKA_SCHEME = "kafka:"
CONNECTOR = "kafka"  # Spark's name of it
KAFKA_TIMESTAMP, KAFKA_ORDER = "kafka_timestamp", "kafka_order"
_EVENT, _WRONG = "__cepbook_event", "__cepbook_wrong"
_PARTITION_BITS = 48  # of a place the partition stands above its offset
_NEEDED = ("value", "partition", "offset", "timestamp")


def from_kafka(messages: DataFrame, types: Mapping[str, EventType], name: str) -> DataFrame:
    """See `cepbook.spark.from_kafka`."""
    if name not in types:
        raise UsageError(f"there is no event type {name}; {did_you_mean(name, types) or 'run its schema first'}")
    columns = frame_column_names(messages) if hasattr(messages, "sparkSession") else None
    if columns is None:
        raise UsageError(f"messages of Kafka are a Spark DataFrame, not {type(messages).__name__}")
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        raise UsageError(f"these are no messages of Kafka: they lack the column `{missing[0]}`")
    properties = types[name].properties
    shapes = [f"{quote_identifier(p)} {type_mapping_of(type_, types).ddl}" for p, type_ in properties.items()]
    read = F.from_json(
        F.col("value").cast("string"), ", ".join([*shapes, f"{_WRONG} string"]), {"columnNameOfCorruptRecord": _WRONG}
    )
    fits = f"{_EVENT} IS NOT NULL AND {_EVENT}.{_WRONG} IS NULL"
    values = (f"CASE WHEN {fits} THEN {_EVENT}.{quote_identifier(p)} END AS {quote_identifier(p)}" for p in properties)
    time = f"CASE WHEN {fits} THEN timestamp END AS {KAFKA_TIMESTAMP}"
    order = f"shiftleft(CAST(partition AS BIGINT), {_PARTITION_BITS}) + offset AS {KAFKA_ORDER}"
    return messages.select(read.alias(_EVENT), *_NEEDED[1:]).selectExpr(*values, time, order)


def subscribe_topic(session: SparkSession, source: str) -> DataFrame:
    """Return the messages of ``kafka:SERVERS/TOPIC``, optionally with ``?option=value&…`` for Spark's connector.

    Errors: UsageError for another form, and if the connector is missing.
    """
    where, _, query = source.removeprefix(KAFKA_SCHEME).partition("?")
    servers, _, topic = where.partition("/")
    if not (servers and topic):
        raise UsageError(
            f"{source} is no topic: say {KAFKA_SCHEME}SERVERS/TOPIC, as in {KAFKA_SCHEME}localhost:9092/ticks"
        )
    options: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    reader = session.readStream.format(CONNECTOR).options(**{"kafka.bootstrap.servers": servers, "subscribe": topic})
    try:
        messages = reader.options(**options).load()
        messages.schema  # noqa: B018  Spark Connect looks when asked
    except PySparkException as failed:
        if f"data source: {CONNECTOR}" not in str(failed):
            raise
        raise UsageError(
            f"{source}: Spark's connector for Kafka is missing\n  hint: spark-submit "
            f"--packages org.apache.spark:spark-sql-kafka-0-10_2.13:{version} brings it"
        ) from failed
    return messages
