"""The source of the rows of a database query, polled every so often."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from cepbook.argument_checks import describe_value, short_repr
from cepbook.errors import EventError, UsageError, exception_text
from cepbook.session.io.live.live_sources import (
    Link,
    Located,
    Malformed,
    Offsets,
    Period,
    Sleep,
    Source,
    retrying,
    seconds_of,
)
from cepbook.session.io.time_conversion import period_units

LOCKED = 0.2  # seconds until a locked database is asked again by a query that runs once
_SQLITE = (5, 6)  # SQLITE_BUSY and SQLITE_LOCKED
_SQLSTATES = ("40001", "40P01", "55P03")  # serialization failure, deadlock, lock not available
_LOST = ("OperationalError", "InterfaceError")  # of DB-API 2

Row = Sequence[Any]
Seen = Mapping[str, tuple[int, Any]]  # how often, and the value of the cursor


def database(
    connect: Callable[[], Any],
    query: str,
    *,
    cursor: str | None = None,
    start: Any = 0,
    overlap: Any = None,
    key: str | None = None,
    every: Period | None = "1 sec",
    retry: Period | None = None,
    sleep: Sleep = asyncio.sleep,
) -> Source:
    """Yield the rows of a query of any DB-API 2 database, polled every so often.

    ``database(lambda: sqlite3.connect("t.db"), "select id, price from ticks where id > ? order by id", cursor="id")``:
    the query gets the largest value of the column `cursor` (at first `start`) as its one parameter, so each row comes
    once. Without `cursor` the query has no parameter and runs once. Connection and queries use a thread of their own.

    A row that is committed late, behind the cursor, is never in the result. `overlap` (a number, a timedelta or a
    period) asks again for rows so far behind the cursor, and yields those that have not come yet. Rows are the same if
    all of their values are, or the value of the column `key`. A `limit` of the query must be larger than the number of
    rows within the overlap. A query with ``>=`` needs no `overlap` for rows that
    share a value of the cursor.

    A locked database is asked again at the next poll. With `retry` a lost connection is opened again after that time.
    The cursor is saved with the workbench, and a loaded workbench continues behind it.
    """
    if not callable(connect):
        hint = 'hint: `lambda: sqlite3.connect("t.db")`'
        raise UsageError(f"`connect` is a function that opens a connection, not {short_repr(connect)}\n  {hint}")
    if cursor is None and (overlap is not None or key is not None):
        raise UsageError('`overlap` and `key` are for a query with a cursor\n  hint: cursor="id"')
    far = timedelta(milliseconds=period_units(overlap)) if isinstance(overlap, str) else overlap

    def opened(offsets: Offsets) -> AsyncIterator[Any]:
        progress = _Progress(cursor, key, far, start, offsets.get(""))
        return _database(connect, query, progress, seconds_of(every), retry, sleep)

    return Source(f"database {query}", opened)


class _Progress:
    """The largest value of the cursor so far, and the rows near it that have come."""

    def __init__(self, cursor: str | None, key: str | None, overlap: Any, start: Any, saved: Any) -> None:
        self.cursor, self._key, self._overlap = cursor, key, overlap
        self._last, self._has_value = start, saved is not None
        self._seen: Seen = {}
        if saved is not None:
            self._last, self._seen = saved

    def _floor(self, last: Any) -> Any:
        """Return the smallest value of the cursor whose rows are asked for when `last` is the largest one."""
        if self._overlap is None or not self._has_value:
            return last
        try:
            return last - self._overlap
        except (TypeError, OverflowError):
            raise EventError(
                f"the column `{self.cursor}` has {describe_value(last)}, from which `overlap` cannot be subtracted"
            ) from None

    def parameters(self) -> list[tuple[Any, ...]]:
        """Return the parameters of the next queries: the second is for a query whose limit leaves no new row."""
        if self.cursor is None:
            return [()]
        floor = self._floor(self._last)
        return [(floor,)] if floor == self._last else [(floor,), (self._last,)]

    def items(self, names: list[str], rows: list[Row]) -> Iterator[Located | Malformed | dict[str, Any]]:
        """Yield the rows that have not come yet."""
        if self.cursor is None:
            for row in rows:
                yield _event(names, row)
            return
        for name in filter(None, (self.cursor, self._key)):
            if name not in names:
                raise EventError(f"the query has no column `{name}` (columns: {', '.join(names)})")
        index = names.index(self.cursor)
        key = None if self._key is None else names.index(self._key)
        before, had_value, last = self._last, self._has_value, self._last
        seen, again, fresh = self._seen, dict[str, int](), list[Row]()
        for row in rows:
            value = row[index]
            if had_value and value is not None and value <= before:
                identity = repr(row if key is None else row[key])
                again[identity] = again.get(identity, 0) + 1
                if again[identity] <= seen.get(identity, (0, None))[0]:
                    continue
            fresh.append(row)
            if value is not None and (not self._has_value or value > last):
                last, self._has_value = value, True
            band = partial(self._band, seen, fresh, len(fresh), index, key, last)
            yield Located(_event(names, row), partial(_offset, last, band))
        self._last, self._seen = last, self._band(seen, fresh, len(fresh), index, key, last)

    def _band(self, seen: Seen, fresh: list[Row], count: int, index: int, key: int | None, last: Any) -> Seen:
        """Return the rows among `seen` and the first `count` of `fresh` that the next query may have in its result."""
        floor = self._floor(last)
        band = {identity: entry for identity, entry in seen.items() if entry[1] >= floor}
        for row in fresh[:count]:
            if row[index] is not None and row[index] >= floor:
                identity = repr(row if key is None else row[key])
                band[identity] = band.get(identity, (0, None))[0] + 1, row[index]
        return band


def _offset(last: Any, band: Callable[[], Seen]) -> tuple[Any, Seen]:
    return last, band()


def _event(names: list[str], row: Row) -> dict[str, Any] | Malformed:
    try:
        return dict(zip(names, row, strict=True))
    except (TypeError, ValueError) as error:
        return Malformed(repr(row), f"this is no row: {error}")


async def _database(
    connect: Callable[[], Any],
    query: str,
    progress: _Progress,
    pause: float | None,
    retry: Period | None,
    sleep: Sleep,
) -> AsyncIterator[Any]:
    once = progress.cursor is None
    async with _own_thread() as call:

        async def polled() -> AsyncIterator[Any]:
            base, connected = None, False
            try:
                while True:
                    try:
                        base = await call(partial(_connection, connect)) if base is None else base
                        for parameters in progress.parameters():
                            names, rows = await call(partial(_query_rows, base, query, parameters))
                            if not connected:
                                yield Link(False)
                                connected = True
                            some = False
                            for item in progress.items(names, rows):
                                some = True
                                yield item
                            if some or not rows:
                                break
                    except Exception as error:
                        if not _is_locked(error):
                            if retry is not None and type(error).__name__ in _LOST:
                                raise ConnectionError(exception_text(error)) from error
                            raise
                        if connected:
                            yield Link(True, exception_text(error))
                        connected = False
                    else:
                        if once or pause is None:
                            return
                    await sleep(LOCKED if pause is None else pause)
            finally:
                if base is not None:
                    await call(base.close)

        async with aclosing(retrying(polled, None if once or pause is None else retry, sleep)) as items:
            async for item in items:
                yield item


def _is_locked(error: Exception) -> bool:
    """Return whether the database can be asked again in a moment."""
    code = getattr(error, "sqlite_errorcode", None)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    by_code = code is not None and code & 0xFF in _SQLITE
    return by_code or state in _SQLSTATES or (type(error).__name__ in _LOST and "lock" in str(error).lower())


def _connection(connect: Callable[[], Any]) -> Any:
    base = connect()
    if isinstance(base, sqlite3.Connection) and base.text_factory is str:
        base.text_factory = _text  # otherwise one value ends the query with all of its rows
    return base


def _text(data: bytes) -> str | bytes:
    """Return text, or bytes that are no UTF-8 as they are, which no property of the type string takes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _query_rows(base: Any, query: str, values: tuple[Any, ...]) -> tuple[list[str], list[Row]]:
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
