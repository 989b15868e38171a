"""Sources of live events: async iterators of dicts, for `Workbench.live`.

Any async generator of your own is as good. Input that is no event is passed on as `Malformed`, is counted and can be
inspected, and does not end the source. With ``retry`` (a time period) a source that lost its connection, or found none,
tries again after that time; without it the source fails, and `Live` reports it.
"""

from __future__ import annotations

import asyncio
import csv
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import IO, Any

from cepbook.errors import EventError, UsageError
from cepbook.session.io.files import json_object
from cepbook.session.io.time_conversion import period_units

Event = Mapping[str, Any]
Sleep = Callable[[float], Awaitable[object]]
LONGEST = 16 * 1024 * 1024  # maximum bytes of a line
CHUNK = 65_536  # bytes in which the end of a line is searched
READ = 262_144  # bytes per read


@dataclass(frozen=True, slots=True)
class Malformed:
    """Input that is no event: its text (cut off) and the reason."""

    text: str
    reason: str


Item = Event | Malformed


def _seconds(period: str | timedelta | None) -> float | None:
    return None if period is None else period_units(period) / 1000


def parse_json(line: str) -> Item:
    """Return the event of a line of JSON."""
    try:
        return json_object(line)
    except ValueError as error:
        return Malformed(line[:200], str(error))


def _decoded(line: bytes) -> Item | None:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return Malformed(repr(line[:100]), "this is no UTF-8")
    return parse_json(text) if text.strip() else None


async def _again(
    once: Callable[[], AsyncIterator[Item]], retry: str | timedelta | None, sleep: Sleep
) -> AsyncIterator[Item]:
    pause = _seconds(retry)
    while True:
        items = once()
        try:
            async for item in items:
                yield item
            if pause is None:
                return
        except OSError as error:
            if pause is None:
                raise
            yield Malformed("", f"connection lost, trying again: {error}")
        finally:
            await items.aclose()  # type: ignore[attr-defined]
        await sleep(pause)


async def lines(
    host: str, port: int, *, retry: str | timedelta | None = None, sleep: Sleep = asyncio.sleep
) -> AsyncIterator[Item]:
    """Yield the JSON objects of a TCP connection, one per line.

    Raises OSError without a connection, unless there is a `retry`. A line that the other side did not end before
    closing is malformed.
    """

    async def once() -> AsyncIterator[Item]:
        reader, writer = await asyncio.open_connection(host, port, limit=READ)
        rest: list[bytes] = []
        lost: OSError | None = None
        try:
            while data := await _read(reader):
                if isinstance(data, OSError):
                    lost = data
                    break
                *whole, last = data.split(b"\n")
                if whole:
                    whole[0], rest = b"".join((*rest, whole[0])), []
                rest += [last] if last else []
                if sum(map(len, rest)) > LONGEST:
                    raise EventError(f"a line is longer than {LONGEST:,} bytes")
                for item in map(_decoded, whole):
                    if item is not None:
                        yield item
            if rest:
                yield Malformed(repr(b"".join(rest)[:100]), "the connection ended in this line")
            if lost is not None:
                raise lost
        finally:
            writer.close()

    async for item in _again(once, retry, sleep):
        yield item


async def _read(reader: asyncio.StreamReader) -> bytes | OSError:
    try:
        return await reader.read(READ)
    except OSError as error:
        return error


async def websocket(
    url: str, *, retry: str | timedelta | None = None, sleep: Sleep = asyncio.sleep, subscribe: str | None = None
) -> AsyncIterator[Item]:
    """Yield the messages of a websocket, JSON objects. `subscribe` is sent first. Needs tornado."""
    try:
        from tornado.httpclient import HTTPError  # optional: only websockets need it
        from tornado.websocket import websocket_connect
    except ImportError:
        raise UsageError("websockets need tornado: pip install tornado") from None

    async def once() -> AsyncIterator[Item]:
        try:
            connection = await websocket_connect(url, max_message_size=LONGEST)
        except HTTPError as error:  # for example from a proxy whose server is down
            raise ConnectionError(f"{url}: {error}") from error
        try:
            if subscribe is not None:
                await connection.write_message(subscribe)
            while (message := await connection.read_message()) is not None:
                item = parse_json(message) if isinstance(message, str) else _decoded(message)
                if item is not None:
                    yield item
        finally:
            connection.close()

    async for item in _again(once, retry, sleep):
        yield item


async def tail(
    path: str | os.PathLike[str],
    *,
    begin: bool = False,
    every: str | timedelta = "200 msec",
    sleep: Sleep = asyncio.sleep,
) -> AsyncIterator[Item]:
    """Yield the lines that are appended to a JSON-lines or CSV file; with `begin` also the existing ones.

    A line counts once it is ended. The first line of a CSV file names the columns; all values are texts, which
    `Workbench.live` converts to the types of the properties. A file that becomes shorter is read from its start. A file
    that replaces it (as in log rotation) is read when the former one is used up. Raises UsageError if there is no such
    file.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise UsageError(f"there is no file {name!r}")
    pause = _seconds(every) or 0.0
    file = _File(name, name.lower().endswith(".csv"))
    try:
        if not begin:
            file.to_end()
        while True:
            for item in file.items():
                yield item
            await sleep(pause)
            unended = file.follow()
            if unended:
                yield Malformed(repr(unended[:100]), "the file was replaced in this line")
    finally:
        file.close()


class _File:
    """A growing file, with its column names if it is CSV."""

    def __init__(self, name: str, as_csv: bool) -> None:
        self._name, self._as_csv = name, as_csv
        self._columns: list[str] | None = None
        self._file: IO[bytes] = open(name, "rb")  # noqa: SIM115  until `close`

    def to_end(self) -> None:
        """Skip to the end of the last ended line; read the header of a CSV file."""
        if self._as_csv:
            self._named()
        at = self._file.seek(0, os.SEEK_END)
        while at:
            begin = max(0, at - CHUNK)
            self._file.seek(begin)
            ended = self._file.read(at - begin).rfind(b"\n") + 1
            at = begin + ended
            if ended:
                break
        self._file.seek(at)

    def _named(self) -> bool:
        if self._columns is None:
            line = self._file.readline()
            if not line.endswith(b"\n"):
                self._file.seek(0)
                return False
            self._columns = _fields(line.decode("utf-8-sig"))
        return True

    def items(self) -> Iterator[Item]:
        """Yield the items of new, ended lines."""
        if self._as_csv and not self._named():
            return
        while lines := _whole_lines(self._file):
            for line in lines:
                item = _decoded(line) if self._columns is None else _csv_row(line, self._columns)
                if item is not None:
                    yield item

    def follow(self) -> bytes:
        """Restart if the file has become shorter; change over if another file has its name and this one is used up.

        Return the beginning of a line that the former file did not end.
        """
        current_status = os.fstat(self._file.fileno())
        if current_status.st_size < self._file.tell():
            self._file.seek(0)
            self._columns = None
            return b""
        try:
            status = os.stat(self._name)
            if (status.st_dev, status.st_ino) == (current_status.st_dev, current_status.st_ino):
                return b""
            other = open(self._name, "rb")  # noqa: SIM115  until `close`
        except OSError:
            return b""  # until it exists again
        at, rest = self._file.tell(), self._file.readline()
        if rest.endswith(b"\n"):  # first the rest of this file
            other.close()
            self._file.seek(at)
            return b""
        self._file.close()
        self._file, self._columns = other, None
        return rest

    def close(self) -> None:
        self._file.close()


def _whole_lines(file: IO[bytes]) -> list[bytes]:
    at, chunks = file.tell(), list[bytes]()
    while chunk := file.read(READ):
        end = chunk.rfind(b"\n") + 1
        if end:
            chunks.append(chunk[:end])
            file.seek(at + sum(map(len, chunks)))
            return b"".join(chunks).split(b"\n")[:-1]
        chunks.append(chunk)
    file.seek(at)
    return []


def _fields(line: str) -> list[str]:
    line = line.rstrip("\r\n")
    if '"' in line or "\r" in line:
        return next(csv.reader([line]), [])
    return line.split(",") if line else []


def _csv_row(line: bytes, columns: list[str]) -> Item | None:
    try:
        text = line.decode("utf-8")
        values = _fields(text)
    except (UnicodeDecodeError, csv.Error) as error:
        return Malformed(repr(line[:100]), str(error))
    if not text.strip():
        return None
    if len(values) != len(columns):
        return Malformed(text[:200].rstrip(), f"{len(values)} fields, not {len(columns)}")
    return TextFields({name: value or None for name, value in zip(columns, values, strict=True)})


class TextFields(dict[str, Any]):
    """An event whose values are texts, to be converted to the types of its properties."""


async def database(
    connect: Callable[[], Any],
    query: str,
    *,
    cursor: str | None = None,
    start: Any = 0,
    every: str | timedelta | None = "1 sec",
    sleep: Sleep = asyncio.sleep,
) -> AsyncIterator[Item]:
    """Yield the rows of a query of any DB-API 2 database, polled every so often.

    ``database(lambda: sqlite3.connect("t.db"), "select id, price from ticks where id > ? order by id", cursor="id")``:
    the query gets the last value of the column `cursor` (at first `start`) as its one parameter, so each row comes
    once. Without `cursor` the query has no parameter and runs once. Connection and queries use a thread of their own.
    """
    pause = _seconds(every if cursor is not None else None)
    async with _own_thread() as call:
        base = await call(connect)
        try:
            last = start
            while True:
                names, rows = await call(partial(_query_rows, base, query, () if cursor is None else (last,)))
                if cursor is not None and cursor not in names:
                    raise EventError(f"the query has no column `{cursor}` (columns: {', '.join(names)})")
                for row in rows:
                    event = dict(zip(names, row, strict=True))
                    yield event
                    last = event[cursor] if cursor is not None else last
                if pause is None:
                    return
                await sleep(pause)
        finally:
            await call(base.close)


def _query_rows(base: Any, query: str, values: tuple[Any, ...]) -> tuple[list[str], list[tuple[Any, ...]]]:
    asked = base.cursor()
    try:
        asked.execute(query, values)
        return [column[0] for column in asked.description or ()], list(asked.fetchall())
    finally:
        asked.close()


@asynccontextmanager
async def _own_thread() -> AsyncIterator[Callable[[Callable[[], Any]], Awaitable[Any]]]:
    with ThreadPoolExecutor(1, "cepbook database") as pool:
        loop = asyncio.get_running_loop()
        yield lambda fn: loop.run_in_executor(pool, fn)


async def kafka(*topics: str, **settings: Any) -> AsyncIterator[Item]:
    """Yield the messages of Kafka topics, whose values are JSON objects; `settings` are those of
    ``aiokafka.AIOKafkaConsumer``.

    Needs the extra ``cepbook[kafka]``. Raises what aiokafka raises without a broker.
    """
    try:
        from aiokafka import AIOKafkaConsumer  # optional: the extra kafka
    except ImportError:
        raise UsageError("Kafka needs aiokafka: pip install 'cepbook[kafka]'") from None
    consumer = AIOKafkaConsumer(*topics, **settings)
    await consumer.start()
    try:
        async for message in consumer:
            item = None if message.value is None else _decoded(message.value)
            if item is not None:
                yield item
    finally:
        await consumer.stop()
