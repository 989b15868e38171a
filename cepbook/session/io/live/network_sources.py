"""Sources of live events over a network: lines of a TCP connection, messages of a websocket, Kafka.

With ``retry`` (a time period) a source that lost its connection, or has none, tries again after that time. Without it
the source fails, and `Live` reports it. A connection that says nothing is no failure by itself: a websocket is pinged,
a TCP connection has the probes of the operating system, and ``silence`` is the longest time without an item.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any

from cepbook.errors import UsageError
from cepbook.session.io.live.live_sources import (
    READ,
    LineSplitter,
    Link,
    Located,
    Malformed,
    Offsets,
    Period,
    Silent,
    Sleep,
    Source,
    decoded,
    parse_json,
    positive_seconds,
    retrying,
    text_of,
)
from cepbook.session.io.text_files import LONGEST

PROBES = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # seconds and count; not every system has them
POSITION = 1.0  # seconds to wait for the position in a partition
NO_CODE, NORMAL, TOO_LONG = 1005, 1000, 1009
CODES = {
    1001: "going away",
    1002: "protocol error",
    1003: "unsupported data",
    1007: "invalid data",
    1008: "policy violation",
    TOO_LONG: "message too big",
    1011: "internal error",
    1012: "service restart",
    1013: "try again later",
}


def lines(
    host: str,
    port: int,
    *,
    retry: Period | None = None,
    silence: Period | None = None,
    longest: int = LONGEST,
    sleep: Sleep = asyncio.sleep,
) -> Source:
    """Yield the JSON objects of a TCP connection, one per line.

    Raises OSError without a connection, unless there is a `retry`. `silence` is the longest time without data; after it
    the connection is lost. A line that the other side did not end before closing is malformed, and so is a line of more
    than `longest` bytes.
    """

    limit = positive_seconds(silence, "silence")

    async def once() -> AsyncIterator[Any]:
        reader, writer = await asyncio.open_connection(host, port, limit=READ)
        splitter, lost = LineSplitter(longest), None
        try:
            _probe(writer.get_extra_info("socket"))
            yield Link(False)
            try:
                while data := await _read(reader, limit):
                    for line in splitter.lines(data):
                        item = line if type(line) is Malformed else decoded(line)  # type: ignore[arg-type]
                        if item is not None:
                            yield item
            except OSError as error:  # raised behind the line that was not ended
                lost = error
            unended = splitter.unended("the connection ended in this line")
            if unended is not None:
                yield unended
            if lost is not None:
                raise lost
        finally:
            writer.close()

    return Source(f"lines {host}:{port}", lambda _: retrying(once, retry, sleep))


def _probe(connection: Any) -> None:
    """Let the operating system notice that the other side is gone, although it sends nothing."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _read(reader: asyncio.StreamReader, limit: float | None) -> bytes:
    """Return the next data, empty at the end. Raises Silent if nothing comes in `limit` seconds, and OSError."""
    try:
        return await (reader.read(READ) if limit is None else asyncio.wait_for(reader.read(READ), limit))
    except TimeoutError as error:
        if limit is None or error.errno is not None:  # the probes of the operating system had no answer
            raise
        raise Silent("nothing came", limit) from None


def websocket(
    url: str,
    *,
    retry: Period | None = None,
    ping: Period | None = "20 sec",
    silence: Period | None = None,
    longest: int = LONGEST,
    sleep: Sleep = asyncio.sleep,
    subscribe: str | None = None,
) -> Source:
    """Yield the messages of a websocket, JSON objects. `subscribe` is sent first. Needs tornado.

    Without `retry` the source ends when the server closes with code 1000 or without a code; with `retry` it connects
    again. Any other code, a cut connection and a message of more than `longest` bytes are a lost connection. A server
    that sends nothing is pinged every `ping`; without an answer in the same time the connection is lost. `silence` is
    the longest time without a message, whatever the server answers.
    """
    limits = positive_seconds(ping, "ping"), positive_seconds(silence, "silence")
    return Source(
        f"websocket {url}",
        lambda _: retrying(lambda: _messages(url, subscribe, longest, *limits), retry, sleep),
    )


async def _messages(
    url: str, subscribe: str | None, longest: int, ping: float | None, silence: float | None
) -> AsyncIterator[Any]:
    try:
        from tornado.httpclient import HTTPError  # optional: only websockets need it
        from tornado.iostream import StreamClosedError
        from tornado.websocket import WebSocketClosedError, WebSocketError, websocket_connect
    except ImportError:
        raise UsageError("websockets need tornado: pip install 'cepbook[lab]'") from None
    try:
        connection = await websocket_connect(url, max_message_size=longest)
    except (HTTPError, WebSocketError, StreamClosedError) as error:  # for example from a proxy whose server is down
        raise ConnectionError(f"{url}: {error}") from error
    try:
        frame = _close_frame(connection.protocol)
        yield Link(False)
        if subscribe is not None:
            await connection.write_message(subscribe)
        messages = _MessageReader(connection, ping, silence)
        while (message := await messages.read()) is not None:
            item = parse_json(message) if isinstance(message, str) else decoded(message)
            if item is not None:
                yield item
        _check_close(frame() or (True, connection.close_code, connection.close_reason), longest)
    except WebSocketClosedError as error:
        raise ConnectionError(f"{url} was closed") from error
    finally:
        connection.close()


def _close_frame(protocol: Any) -> Callable[[], tuple[bool, int, str] | None]:
    """Record the close frame of a connection. Return a function that returns it, None before a close: True if the
    server sent it, code and reason.

    Tornado reports neither a frame without a code nor a frame of its own, so its protocol's `close` (tornado 6) is
    replaced.
    """
    frames: list[tuple[bool, int, str]] = []
    close = protocol.close

    def closing(code: int | None = None, reason: str | None = None) -> None:
        if not protocol.server_terminated:  # a cut connection is closed without a frame
            said = reason or protocol.close_reason or ""
            frames.append((protocol.client_terminated, NO_CODE if code is None else code, said))
        close(code, reason)

    protocol.close = closing
    return lambda: frames[0] if frames else None


def _check_close(frame: tuple[bool, int | None, str | None], longest: int) -> None:
    """Raise ConnectionError unless the server ended the connection in order."""
    by_server, code, reason = frame
    if not by_server and code == TOO_LONG:
        larger = f"longest={4 * longest}"
        raise ConnectionError(f"closed with {TOO_LONG}: a message has more than {longest:,} bytes\n  hint: {larger}")
    if code is None:
        raise ConnectionError("the connection was cut, without a close code")
    if code not in (NORMAL, NO_CODE):
        name = f" ({CODES[code]})" if code in CODES else ""
        side = "the server" if by_server else "this side"
        raise ConnectionError(f"closed by {side} with {code}{name}" + (f": {reason}" if reason else ""))


class _MessageReader:
    """Reads messages of a websocket, and notices that none comes."""

    def __init__(self, connection: Any, ping: float | None, silence: float | None) -> None:
        self._connection, self._ping, self._silence = connection, ping, silence
        self._pongs = 0
        connection.on_pong = self._on_pong

    def _on_pong(self, _data: bytes) -> None:
        self._pongs += 1

    async def read(self) -> str | bytes | None:
        """Return the next message, None at the end. Raises Silent."""
        reading = asyncio.ensure_future(self._connection.read_message())
        loop = asyncio.get_running_loop()
        since, pongs_before_ping = loop.time(), None
        try:
            while not reading.done():
                limits = [self._ping] if self._ping else []
                limits += [since + self._silence - loop.time()] if self._silence else []
                await asyncio.wait({reading}, timeout=max(0.0, min(limits)) if limits else None)
                if reading.done():
                    break
                if self._silence and loop.time() >= since + self._silence:
                    raise Silent("no message came", self._silence)
                if self._ping and loop.time() >= since + self._ping:
                    if pongs_before_ping == self._pongs:
                        raise Silent("no answer to a ping", self._ping)
                    pongs_before_ping = self._pongs
                    self._connection.ping(b"cepbook")
            message: str | bytes | None = reading.result()
            return message
        finally:
            reading.cancel()


def kafka(*topics: str, retry: Period | None = None, silence: Period | None = None, **settings: Any) -> Source:
    """Yield the messages of Kafka topics, whose values are JSON objects; `settings` are those of
    ``aiokafka.AIOKafkaConsumer``.

    The offsets of all partitions are saved with the workbench, also of those without a message. A loaded workbench
    continues at them, whatever `auto_offset_reset` says and a consumer group has committed. A partition that another
    member of the group takes over has no offset here any more. `silence` is the longest time without a message. Needs
    the extra ``cepbook[kafka]``. Raises what aiokafka raises without a broker, unless there is a `retry`.
    """
    limit = positive_seconds(silence, "silence")
    return Source(f"kafka {', '.join(topics)}", lambda offsets: _kafka(topics, settings, retry, limit, offsets))


async def _kafka(
    topics: tuple[str, ...], settings: dict[str, Any], retry: Period | None, limit: float | None, offsets: Offsets
) -> AsyncIterator[Any]:
    try:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener  # optional: the extra kafka
        from aiokafka.errors import KafkaError
    except ImportError:
        raise UsageError("Kafka needs aiokafka: pip install 'cepbook[kafka]'") from None
    settings = {**settings}
    read_value = settings.pop("value_deserializer", None) or (lambda value: value)
    next_offsets = {name: offset for name, offset in offsets.items() if offset is not None}
    reports: list[Located | Link] = []  # of the listener
    consumer: Any = None

    class Continue(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            pass  # most of them are assigned again at once

        async def on_partitions_assigned(self, assigned: Any) -> None:
            for name in next_offsets.keys() - set(map(_name_of, assigned)):  # another consumer goes on there
                del next_offsets[name]
                reports.append(Located(None, None, name))
            reports.extend(await _seek(consumer, next_offsets))

    async def once() -> AsyncIterator[Any]:
        nonlocal consumer
        consumer = AIOKafkaConsumer(**settings)
        consumer.subscribe(topics, listener=Continue())
        try:
            await consumer.start()
            yield Link(False)
            reports.extend(await _seek(consumer, next_offsets))
            while True:
                reports.extend(await _places(consumer, next_offsets))
                while reports:
                    yield reports.pop(0)
                batches = await consumer.getmany(timeout_ms=round(1000 * limit) if limit else 60_000)
                if limit and not batches:
                    raise Silent("no message came", limit)
                for partition, messages in batches.items():  # all are yielded, so a rebalance continues behind them
                    next_offsets[_name_of(partition)] = messages[-1].offset + 1
                for partition, messages in batches.items():
                    for message in messages:
                        item = _kafka_item(read_value, message.value)
                        yield Located(item, message.offset + 1, _name_of(partition))
        finally:
            await consumer.stop()

    async with aclosing(retrying(once, retry, asyncio.sleep, (OSError, KafkaError))) as items:
        async for item in items:
            yield item


def _name_of(partition: Any) -> str:
    return f"{partition.topic}/{partition.partition}"


def _kafka_item(read: Callable[[Any], Any], value: Any) -> Any:
    """Return the event of a message; None for one without a value."""
    try:
        value = None if value is None else read(value)
        return decoded(value) if isinstance(value, bytes) else parse_json(value) if isinstance(value, str) else value
    except Exception as error:  # noqa: BLE001  the user's deserializer
        return Malformed(
            text_of(value) if isinstance(value, bytes) else repr(value),
            f"value_deserializer: {type(error).__name__}: {error}",
        )


async def _seek(consumer: Any, offsets: dict[str, Any]) -> list[Link]:
    """Go to the offsets of the assigned partitions, or to the first message that is there if the broker has deleted
    that one; return a report for each of these.

    At an offset that is deleted aiokafka would go on at the end.
    """
    partitions = {_name_of(one): one for one in consumer.assignment()}
    known = {partition: name for name, partition in partitions.items() if name in offsets}
    for partition, name in known.items():  # also if the broker does not answer the question below
        consumer.seek(partition, offsets[name])
    first = await consumer.beginning_offsets([*known]) if known else {}
    reports = []
    for partition, name in known.items():
        gap = first[partition] - offsets[name]
        if gap > 0:
            offsets[name] = first[partition]
            consumer.seek(partition, offsets[name])
            reports.append(Link(False, f"{gap:,} messages of {name} are lost: the broker has deleted them"))
    return reports


async def _places(consumer: Any, offsets: dict[str, Any]) -> list[Located]:
    """Return the places of assigned partitions that have none: a partition has one before its first message."""
    places = []
    for partition in consumer.assignment():
        name = _name_of(partition)
        if name not in offsets:
            with suppress(TimeoutError):  # its broker is away: the next call asks again
                offsets[name] = await asyncio.wait_for(consumer.position(partition), POSITION)
                places.append(Located(None, offsets[name], name))
    return places
