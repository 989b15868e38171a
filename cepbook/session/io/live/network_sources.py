"""Sources of live events over a network: lines of a TCP connection, messages of a websocket, Kafka.

With ``retry`` (a time period) a source that lost its connection, or has none, tries again after that time. Without it
the source fails, and `Live` reports it. A connection that says nothing is no failure by itself: a websocket is pinged,
a TCP connection has the probes of the operating system, and ``silence`` is the longest time without an item.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
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
    retrying,
    seconds_of,
    text_of,
)
from cepbook.session.io.text_files import LONGEST

PROBES = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # seconds and count; not every system has them
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

    async def once() -> AsyncIterator[Any]:
        reader, writer = await asyncio.open_connection(host, port, limit=READ)
        _probe(writer.get_extra_info("socket"))
        yield Link(False)
        splitter, lost, limit = LineSplitter(longest), None, seconds_of(silence)
        try:
            while data := await _read(reader, limit):
                if isinstance(data, OSError):
                    lost = data
                    break
                for line in splitter.lines(data):
                    item = line if type(line) is Malformed else decoded(line)  # type: ignore[arg-type]
                    if item is not None:
                        yield item
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


async def _read(reader: asyncio.StreamReader, limit: float | None) -> bytes | OSError:
    try:
        return await (reader.read(READ) if limit is None else asyncio.wait_for(reader.read(READ), limit))
    except TimeoutError:
        return Silent("nothing came", limit or 0.0)
    except OSError as error:
        return error


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

    The source ends when the server closes with code 1000 or without a code. Any other code, a cut connection and a
    message of more than `longest` bytes are a lost connection. A server that sends nothing is asked for a sign of life
    every `ping`; without an answer in the same time the connection is lost. `silence` is the longest time without a
    message, whatever the server answers.
    """
    return Source(
        f"websocket {url}",
        lambda _: retrying(lambda: _messages(url, subscribe, longest, ping, silence), retry, sleep),
    )


async def _messages(
    url: str, subscribe: str | None, longest: int, ping: Period | None, silence: Period | None
) -> AsyncIterator[Any]:
    try:
        from tornado.httpclient import HTTPError  # optional: only websockets need it
        from tornado.iostream import StreamClosedError
        from tornado.websocket import WebSocketClosedError, WebSocketError, websocket_connect
    except ImportError:
        raise UsageError("websockets need tornado: pip install tornado") from None
    try:
        connection = await websocket_connect(url, max_message_size=longest)
    except (HTTPError, WebSocketError, StreamClosedError) as error:  # for example from a proxy whose server is down
        raise ConnectionError(f"{url}: {error}") from error
    frame = _close_frame(connection.protocol)
    yield Link(False)
    try:
        if subscribe is not None:
            await connection.write_message(subscribe)
        watch = _Watch(connection, seconds_of(ping), seconds_of(silence))
        while (message := await watch.message()) is not None:
            item = parse_json(message) if isinstance(message, str) else decoded(message)
            if item is not None:
                yield item
        _check_close(frame() or (True, connection.close_code, connection.close_reason), longest)
    except WebSocketClosedError as error:
        raise ConnectionError(f"{url} was closed at once") from error
    finally:
        connection.close()


def _close_frame(protocol: Any) -> Callable[[], tuple[bool, int, str] | None]:
    """Return the function that tells the close frame: who sent it (True: the server), code and reason; None: none.

    Tornado reports neither a frame without a code nor a frame of its own.
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
        raise ConnectionError(f"closed by the server with {code}{name}" + (f": {reason}" if reason else ""))


class _Watch:
    """Reads messages of a websocket, and notices that none comes."""

    def __init__(self, connection: Any, ping: float | None, silence: float | None) -> None:
        self._connection, self._ping, self._silence = connection, ping or None, silence or None
        self._pongs = 0
        connection.on_pong = self._on_pong

    def _on_pong(self, _data: bytes) -> None:
        self._pongs += 1

    async def message(self) -> str | bytes | None:
        """Return the next message, None at the end. Raises Silent."""
        coming = asyncio.ensure_future(self._connection.read_message())
        loop = asyncio.get_running_loop()
        since, pongs = loop.time(), None
        try:
            while not coming.done():
                limits = [self._ping] if self._ping else []
                limits += [since + self._silence - loop.time()] if self._silence else []
                await asyncio.wait({coming}, timeout=max(0.0, min(limits)) if limits else None)
                if coming.done():
                    break
                if self._silence and loop.time() >= since + self._silence:
                    raise Silent("no message came", self._silence)
                if self._ping and loop.time() >= since + self._ping:
                    if pongs == self._pongs:
                        raise Silent("no answer to a ping", self._ping)
                    pongs = self._pongs
                    self._connection.ping(b"cepbook")
            message: str | bytes | None = coming.result()
            return message
        finally:
            coming.cancel()


def kafka(*topics: str, retry: Period | None = None, silence: Period | None = None, **settings: Any) -> Source:
    """Yield the messages of Kafka topics, whose values are JSON objects; `settings` are those of
    ``aiokafka.AIOKafkaConsumer``.

    The offsets of all partitions are saved with the workbench. A loaded workbench continues at them, whatever
    `auto_offset_reset` says and a consumer group has committed. `silence` is the longest time without a message. Needs
    the extra ``cepbook[kafka]``. Raises what aiokafka raises without a broker, unless there is a `retry`.
    """
    return Source(f"kafka {', '.join(topics)}", lambda offsets: _kafka(topics, settings, retry, silence, offsets))


async def _kafka(
    topics: tuple[str, ...], settings: dict[str, Any], retry: Period | None, silence: Period | None, offsets: Offsets
) -> AsyncIterator[Any]:
    try:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener  # optional: the extra kafka
        from aiokafka.errors import KafkaError
    except ImportError:
        raise UsageError("Kafka needs aiokafka: pip install 'cepbook[kafka]'") from None
    next_offsets, limit = dict(offsets), seconds_of(silence)
    consumer: Any = None
    settings = {**settings}
    read_value = settings.pop("value_deserializer", None) or (lambda value: value)

    class Continue(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        async def on_partitions_assigned(self, assigned: Any) -> None:
            _seek(consumer, assigned, next_offsets)

    async def once() -> AsyncIterator[Any]:
        nonlocal consumer
        consumer = AIOKafkaConsumer(**settings)
        consumer.subscribe(topics, listener=Continue())
        try:
            await consumer.start()
            yield Link(False)
            _seek(consumer, consumer.assignment(), next_offsets)
            for reason in await _skip_deleted(consumer, next_offsets):
                yield Link(False, reason)
            while True:
                batches = await consumer.getmany(timeout_ms=round(1000 * limit) if limit else 60_000)
                if limit and not batches:
                    raise Silent("no message came", limit)
                for messages in batches.values():
                    for message in messages:
                        partition = f"{message.topic}/{message.partition}"
                        next_offsets[partition] = message.offset + 1
                        yield Located(_kafka_item(read_value, message.value), message.offset + 1, partition)
        finally:
            await consumer.stop()

    async for item in retrying(once, retry, asyncio.sleep, (OSError, KafkaError)):
        yield item


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


def _seek(consumer: Any, partitions: Any, offsets: Offsets) -> None:
    for partition in partitions:
        offset = offsets.get(f"{partition.topic}/{partition.partition}")
        if offset is not None:
            consumer.seek(partition, offset)


async def _skip_deleted(consumer: Any, offsets: dict[str, Any]) -> list[str]:
    """Go to the first message that the broker has where it has deleted the next ones; return a text for each partition.

    Without that aiokafka goes on at the end.
    """
    partitions = {f"{one.topic}/{one.partition}": one for one in consumer.assignment()}
    known = [name for name in partitions if name in offsets]
    first = await consumer.beginning_offsets([partitions[name] for name in known]) if known else {}
    gaps = {name: first[partitions[name]] - offsets[name] for name in known}
    gaps = {name: gap for name, gap in gaps.items() if gap > 0}
    for name, gap in gaps.items():
        offsets[name] += gap
    _seek(consumer, [partitions[name] for name in gaps], offsets)
    return [f"{gap:,} messages of {name} are lost: the broker has deleted them" for name, gap in gaps.items()]
