"""Events from Kafka over its protocol: aiokafka against the mock cluster of librdkafka, which listens on a port of this
machine and does what a broker does for producers and consumers. No other broker can be had from a package index."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from cepbook.session import Workbench, inlets

pytest.importorskip("aiokafka", reason="aiokafka is not installed (extra `kafka`)")
confluent = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed (group `test`)")
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
