"""Events from Kafka over its protocol: aiokafka against the mock cluster of librdkafka, which listens on a port of this
machine and does what a broker does for producers and consumers. No other broker can be had from a package index."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from cepbook.session import Workbench, inlets
from cepbook.session.io.live.network_sources import _skip_deleted
from tests.session.replay.test_live_faults import bad_lines
from tests.waiting import until

pytest.importorskip("aiokafka", reason="aiokafka is not installed (extra `kafka`)")
confluent = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed (group `test`)")
from aiokafka import TopicPartition  # noqa: E402  optional, see above

MESSAGES = (
    json.dumps({"symbol": "A", "price": 1.5}).encode(),
    b"not JSON",
    json.dumps({"symbol": "B", "price": "high"}).encode(),
    None,
    json.dumps({"symbol": "C", "price": 3}).encode(),
)


def test_messages_become_events() -> None:
    producer = confluent.Producer({"bootstrap.servers": "replaced", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(producer.list_topics("ticks", timeout=20).brokers.values()))
    for message in MESSAGES:
        producer.produce("ticks", message, partition=0)
    assert producer.flush(20) == 0
    cep = Workbench()
    cep.run("create schema Tick(symbol string, price double); @name('out') select * from Tick")
    source = inlets.kafka("ticks", bootstrap_servers=f"{broker.host}:{broker.port}", auto_offset_reset="earliest")

    async def receive() -> None:
        live = cep.live({"Tick": source})
        for _ in range(300):
            if len(cep.changes("out")) == 2:
                break
            await asyncio.sleep(0.1)
        live.stop()
        await live
        assert len(live.rejected) == 2, "what is no JSON, and what is no price"

    asyncio.run(receive())
    assert cep.changes("out")[["symbol", "price"]].to_dict("records") == [
        {"symbol": "A", "price": 1.5},
        {"symbol": "C", "price": 3.0},
    ]


def test_a_loaded_workbench_continues_at_its_offsets(tmp_path: Path) -> None:
    producer = confluent.Producer({"bootstrap.servers": "replaced", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(producer.list_topics("ticks", timeout=20).brokers.values()))

    def produce(prices: range) -> None:
        for price in prices:
            message = json.dumps({"symbol": "A", "price": price}).encode()
            producer.produce("ticks", message, partition=price % 3)
        assert producer.flush(20) == 0

    def source() -> inlets.Source:
        return inlets.kafka("ticks", bootstrap_servers=f"{broker.host}:{broker.port}", auto_offset_reset="earliest")

    async def receive(cep: Workbench, count: int) -> None:
        live = cep.live({"Tick": source()})
        for _ in range(300):
            if len(cep.changes("out")) >= count:
                break
            await asyncio.sleep(0.1)
        live.stop()
        await live

    produce(range(30))
    first, second = Workbench(), Workbench()
    first.run("create schema Tick(symbol string, price double); @name('out') select * from Tick")
    asyncio.run(receive(first, 30))
    first.save(tmp_path / "a.cep", feeds=True)
    produce(range(30, 50))
    second.load(tmp_path / "a.cep")
    asyncio.run(receive(second, 50))
    assert sorted(second.changes("out")["price"]) == [float(price) for price in range(50)]


def new_broker() -> tuple[Any, str]:
    """Return a producer of a new mock cluster and the address of its broker."""
    producer = confluent.Producer({"bootstrap.servers": "replaced", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(producer.list_topics("ticks", timeout=20).brokers.values()))
    return producer, f"{broker.host}:{broker.port}"


def produce(producer: Any, prices: Iterable[int]) -> None:
    for price in prices:
        producer.produce("ticks", json.dumps({"symbol": "A", "price": price}).encode(), partition=0)
    assert producer.flush(20) == 0


def bench() -> Workbench:
    cep = Workbench()
    cep.run("create schema Tick(symbol string, price double); @name('out') select * from Tick")
    return cep


@pytest.mark.parametrize("retry", ["20 msec", None], ids=["retry", "no retry"])
def test_a_silent_topic_is_a_lost_connection(retry: str | None) -> None:
    """With a retry the gap is told, and no message comes twice or is missing."""
    producer, address = new_broker()
    cep = bench()
    source = inlets.kafka(
        "ticks", bootstrap_servers=address, auto_offset_reset="earliest", silence="400 msec", retry=retry
    )

    async def receive() -> None:
        live = cep.live({"Tick": source})
        produce(producer, range(5))
        await until(lambda: live.events["Tick"] == 5)
        if retry is None:
            await until(lambda: live.ended)
            assert live.state == "failed" and "no message came for 0.4 s" in str(live.failures["Tick"])
            return
        await until(lambda: live.statuses["Tick"].reconnected >= 1)
        produce(producer, range(5, 10))
        await until(lambda: live.events["Tick"] >= 10)
        live.stop()
        await live
        assert "no message came for 0.4 s" in live.reconnections["reason"].iloc[0]
        assert live.reconnections["gap"].iloc[0] > 0

    asyncio.run(receive())
    assert cep.changes("out")["price"].tolist() == [float(price) for price in range(5 if retry is None else 10)]


@pytest.mark.parametrize("retry", ["20 msec", None], ids=["retry", "no retry"])
def test_a_broker_that_is_away_is_told(retry: str | None) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    cep = bench()

    async def receive() -> None:
        live = cep.live({"Tick": inlets.kafka("ticks", bootstrap_servers=address, retry=retry)})
        if retry is None:
            await until(lambda: live.ended)
            assert live.state == "failed" and address.split(":")[1] in repr(live)
            return
        await until(lambda: live.sources["state"].iloc[0] == "reconnecting")
        assert address.split(":")[1] in live.sources["note"].iloc[0]
        live.stop()
        await asyncio.wait_for(live._wait(), 10)
        assert live.state == "stopped"

    asyncio.run(receive())


def test_the_places_of_rejected_messages_count(tmp_path: Path) -> None:
    producer, address = new_broker()
    for message in MESSAGES:
        producer.produce("ticks", message, partition=0)
    assert producer.flush(20) == 0
    cep, path = bench(), tmp_path / "rejected.jsonl"

    async def receive(count: int) -> int:
        source = inlets.kafka("ticks", bootstrap_servers=address, auto_offset_reset="earliest")
        live = cep.live({"Tick": source}, rejected=path)
        await until(lambda: cep._engine.offsets.get(("Tick", "kafka ticks", "ticks/0")) == count)
        live.stop()
        await live
        return live.malformed["Tick"]

    assert asyncio.run(receive(5)) == 2
    producer.produce("ticks", b"[1]", partition=0)
    assert producer.flush(20) == 0
    assert asyncio.run(receive(6)) == 1
    items = [json.loads(line)["item"] for line in path.read_text().splitlines()]
    assert items == ["not JSON", {"symbol": "B", "price": "high"}, [1]] or items[-1] == "[1]"


def test_bad_messages_cost_no_good_one() -> None:
    producer, address = new_broker()
    cep = bench()
    lines = [line for line in bad_lines() if len(line) < 500_000]
    for number, line in enumerate(lines):
        produce(producer, [number])
        producer.produce("ticks", line, partition=0)
    assert producer.flush(20) == 0

    async def receive() -> None:
        source = inlets.kafka("ticks", bootstrap_servers=address, auto_offset_reset="earliest")
        live = cep.live({"Tick": source})
        await until(lambda: live.events["Tick"] + live.malformed["Tick"] == 2 * len(lines))
        live.stop()
        await live
        assert live.malformed["Tick"] == live.rejections["count"].sum() == len(lines) == 52

    asyncio.run(receive())
    assert cep.changes("out")["price"].tolist() == [float(number) for number in range(len(lines))]


def test_messages_that_the_broker_has_deleted_are_skipped_and_told_of() -> None:
    """The mock cluster deletes nothing, so this is the consumer's side alone."""

    class Consumer:
        def __init__(self) -> None:
            self.sought: dict[object, int] = {}

        def assignment(self) -> list[TopicPartition]:
            return [TopicPartition("ticks", number) for number in range(3)]

        async def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
            return dict.fromkeys(partitions, 50)

        def seek(self, partition: TopicPartition, offset: int) -> None:
            self.sought[partition] = offset

    offsets = {"ticks/0": 20, "ticks/1": 70}
    consumer = Consumer()
    texts = asyncio.run(_skip_deleted(consumer, offsets))
    assert texts == ["30 messages of ticks/0 are lost: the broker has deleted them"]
    assert consumer.sought == {TopicPartition("ticks", 0): 50}
    assert offsets == {"ticks/0": 50, "ticks/1": 70}
