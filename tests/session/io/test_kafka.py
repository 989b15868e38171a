"""Events from Kafka over its protocol: aiokafka against the mock cluster of librdkafka, which listens on a port of this
machine and does what a broker does for producers and consumers. No other broker can be had from a package index."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cepbook.session import Workbench, inlets
from cepbook.session.io.live.live_sources import Link, Located
from tests.session.replay.test_live_faults import bad_lines
from tests.waiting import until

pytest.importorskip("aiokafka", reason="aiokafka is not installed (extra `kafka`)")
confluent = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed (group `test`)")
from aiokafka import TopicPartition  # noqa: E402  optional, see above
from aiokafka.errors import KafkaConnectionError  # noqa: E402

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
        assert [*live.rejections] == ["source", "reason", "count", "first", "last"]

    asyncio.run(receive())
    assert cep.changes("out")["price"].tolist() == [float(number) for number in range(len(lines))]


def test_a_partition_without_a_message_has_a_place(tmp_path: Path) -> None:
    """Its first message comes while nobody listens, and the source would begin at the end."""
    producer, address = new_broker()

    async def receive(cep: Workbench, first: int, count: int) -> None:
        live = cep.live({"Tick": inlets.kafka("ticks", bootstrap_servers=address, auto_offset_reset="latest")})
        await until(lambda: len(cep._engine.offsets) == 4)
        for price in range(first, count):
            producer.produce("ticks", json.dumps({"symbol": "A", "price": price}).encode(), partition=0)
        assert producer.flush(20) == 0
        await until(lambda: len(cep.changes("out")) == count)
        live.stop()
        await live

    first, second = bench(), Workbench()
    asyncio.run(receive(first, 0, 5))
    first.save(tmp_path / "a.cep", feeds=True)
    for price in range(5, 30):
        producer.produce("ticks", json.dumps({"symbol": "A", "price": price}).encode(), partition=price % 4)
    assert producer.flush(20) == 0
    second.load(tmp_path / "a.cep")
    asyncio.run(receive(second, 30, 30))
    assert sorted(second.changes("out")["price"]) == [float(price) for price in range(30)]


class Consumer:
    """A consumer of aiokafka whose broker has `messages` (their first offset, the offset behind them) by partition.

    `script` has the steps of `getmany`: messages, or partitions that are assigned from now on.
    """

    script: list[Any]
    messages: dict[int, tuple[int, int]]

    def __init__(self, **_settings: Any) -> None:
        self.listener: Any = None
        self.assigned: list[int] = []
        self.at: dict[int, int] = {}
        self.sought: list[tuple[int, int]] = []
        Consumer.last = self

    last: Consumer

    def subscribe(self, _topics: Any, listener: Any) -> None:
        self.listener = listener

    async def start(self) -> None:
        await self.assign(self.script.pop(0))

    async def stop(self) -> None:
        pass

    async def assign(self, numbers: list[int]) -> None:
        await self.listener.on_partitions_revoked(self.assignment())
        self.assigned = numbers
        self.at = {number: self.messages[number][1] for number in numbers}
        await self.listener.on_partitions_assigned(self.assignment())

    def assignment(self) -> set[TopicPartition]:
        return {TopicPartition("ticks", number) for number in self.assigned}

    async def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {one: self.messages[one.partition][0] for one in partitions}

    async def position(self, partition: TopicPartition) -> int:
        return self.at[partition.partition]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at[partition.partition] = offset

    async def getmany(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        if not self.script:
            raise asyncio.CancelledError
        step = self.script.pop(0)
        if isinstance(step, list):
            await self.assign(step)
            return {}
        taken = {}
        for number, count in step.items():
            at = self.at[number]
            value = b'{"symbol": "A"}'
            taken[TopicPartition("ticks", number)] = [
                SimpleNamespace(offset=offset, value=value) for offset in range(at, at + count)
            ]
            self.at[number] += count
        return taken


async def consumed(script: list[Any], messages: dict[int, tuple[int, int]], offsets: dict[str, Any]) -> list[Any]:
    Consumer.script, Consumer.messages = script, messages
    items = []
    stream = inlets.kafka("ticks").open(offsets)
    try:
        async for item in stream:
            items.append(item)
    except asyncio.CancelledError:
        return items
    raise AssertionError


def test_messages_that_the_broker_has_deleted_are_skipped_and_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mock cluster deletes nothing, so this is the consumer's side alone."""
    monkeypatch.setattr("aiokafka.AIOKafkaConsumer", Consumer)
    messages = dict.fromkeys(range(3), (50, 90))
    items = asyncio.run(consumed([[0, 1, 2]], messages, {"ticks/0": 20, "ticks/1": 70}))
    assert items[1] == Link(False, "30 messages of ticks/0 are lost: the broker has deleted them")
    assert items[2:] == [Located(None, 90, "ticks/2")]
    assert Consumer.last.at == {0: 50, 1: 70, 2: 90}


def test_a_rebalance_whose_broker_does_not_answer_keeps_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokafka.AIOKafkaConsumer", Consumer)
    asked: list[int] = []

    async def away(self: Consumer, partitions: Any) -> Any:
        asked.append(len(partitions))
        raise KafkaConnectionError("away")

    async def assign(self: Consumer, numbers: list[int]) -> None:  # aiokafka logs what a listener raises
        with contextlib.suppress(KafkaConnectionError):
            await real(self, numbers)

    async def scenario() -> list[int]:
        Consumer.script, Consumer.messages = [[0], {0: 2}, [0], {0: 2}], {0: (0, 90)}
        offsets: list[int] = []
        stream = inlets.kafka("ticks").open({"ticks/0": 10})
        try:
            async for item in stream:
                if type(item) is Located:
                    offsets.append(item.offset)
                    monkeypatch.setattr(Consumer, "beginning_offsets", away)
        except asyncio.CancelledError:
            pass
        return offsets

    real = Consumer.assign
    monkeypatch.setattr(Consumer, "assign", assign)
    assert asyncio.run(scenario()) == [11, 12, 13, 14] and asked


def test_a_partition_that_comes_back_continues_where_the_group_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokafka.AIOKafkaConsumer", Consumer)
    messages = {0: (0, 90), 1: (0, 90)}
    items = asyncio.run(consumed([[0, 1], {0: 2, 1: 2}, [0], {0: 1}, [0, 1], {1: 1}], messages, {"ticks/1": 10}))
    places = [(item.partition, item.offset) for item in items if type(item) is Located]
    assert places == [
        ("ticks/0", 90),
        *[("ticks/0", 91), ("ticks/0", 92), ("ticks/1", 11), ("ticks/1", 12)],
        ("ticks/1", None),
        ("ticks/0", 93),
        ("ticks/1", 90),  # where the group is
        ("ticks/1", 91),
    ]


def test_a_rebalance_within_a_batch_repeats_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that deletes messages, and the offsets of the other partitions stay."""
    monkeypatch.setattr("aiokafka.AIOKafkaConsumer", Consumer)

    async def scenario() -> list[int]:
        Consumer.script, Consumer.messages = [[0, 1], {0: 10}, {0: 5}], {0: (0, 0), 1: (0, 0)}
        offsets = []
        stream = inlets.kafka("ticks").open({})
        try:
            async for item in stream:
                if type(item) is Located and item.item is not None:
                    offsets.append(item.offset)
                    if len(offsets) == 3:
                        await Consumer.last.assign([0, 1])
        except asyncio.CancelledError:
            pass
        return offsets

    assert asyncio.run(scenario()) == [*range(1, 16)]
