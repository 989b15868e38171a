"""Sources of live events, for `Workbench.live`: the items that they yield, and what all of them share.

Any async generator of dicts is a source. The sources of this package yield three more kinds of items. `Malformed` is
input that is no event. `Located` is an item with the place from which the source continues after it. `Link` reports
that a connection was opened or lost. None of them ends a source.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from cepbook.errors import UsageError
from cepbook.session.io.text_files import LONGEST, json_object
from cepbook.session.io.time_conversion import period_units

Event = Mapping[str, Any]
Sleep = Callable[[float], Awaitable[object]]
Period = str | timedelta
READ = 262_144  # bytes per read
BEGINNING = 1_000  # bytes that are kept of a line that is too long


@dataclass(frozen=True, slots=True)
class Malformed:
    """Input that is no event: its text and the reason."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Located:
    """An item, and the `offset` from which its source continues after it: plain data, or a function that returns it.

    `partition` names a partition of the source, such as one of Kafka; each has an offset of its own. Without an
    item it is the place where the source begins.
    """

    item: Event | Malformed | None
    offset: Any
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A change of the connection of a source. `silence` is the time in seconds without a sign of life before a loss.

    With `lost`, the source tries again. Otherwise it is connected, or has something to report that ends nothing.
    """

    lost: bool
    reason: str = ""
    silence: float = 0.0


Item = Event | Malformed
Offsets = Mapping[str, Any]  # by partition


@dataclass(frozen=True)
class Source:
    """A source that can continue where it was. `open` takes the offsets of its parts; none: the source begins.

    `key` names the source in a saved workbench. Iterating yields events and malformed input, without a place.
    """

    key: str
    open: Callable[[Offsets], AsyncIterator[Any]]

    async def __aiter__(self) -> AsyncIterator[Item]:
        items = self.open({})
        try:
            async for item in items:
                plain = item.item if type(item) is Located else item
                if plain is not None and type(plain) is not Link:
                    yield plain
        finally:
            await items.aclose()  # type: ignore[attr-defined]


def seconds_of(period: Period | None) -> float | None:
    """Return the seconds of a period."""
    return None if period is None else period_units(period) / 1000


def positive_seconds(period: Period | None, name: str) -> float | None:
    """Return the seconds of the option `name`. Raises UsageError for 0 seconds."""
    if period is not None and not seconds_of(period):
        raise UsageError(f"`{name}` is a time above 0, or None: not {period!r}")
    return seconds_of(period)


def parse_json(line: str) -> Item:
    """Return the event of a line of JSON."""
    try:
        return json_object(line)
    except ValueError as error:
        return Malformed(line, str(error))


def text_of(data: bytes) -> str:
    """Return bytes as text; those that are no UTF-8 as escapes."""
    return data.decode("utf-8", "backslashreplace")


def decoded(line: bytes) -> Item | None:
    """Return the event of a line of JSON in UTF-8; None for an empty line."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return Malformed(text_of(line), "this is no UTF-8")
    return parse_json(text) if text.strip() else None


class LineSplitter:
    """Splits bytes into lines. `rest` is the length of the last line, which has no end yet; `taken` counts the bytes
    of lines that were yielded.

    A line of more than `longest` bytes is not kept: it becomes `Malformed`, and the lines after it go on.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._rest: list[bytes] = []
        self.rest = 0
        self.taken = 0

    def lines(self, data: bytes) -> Iterator[bytes | Malformed]:
        """Yield the lines that `data` ends."""
        *whole, last = data.split(b"\n")
        for line in whole:
            length, self.rest = self.rest + len(line), 0
            self.taken += length + 1
            if length > self._longest:
                yield Malformed(text_of(b"".join((*self._rest, line))[:BEGINNING]), self._too_long(length))
            else:
                yield b"".join((*self._rest, line)) if self._rest else line
            self._rest = []
        self.rest += len(last)
        if self.rest <= self._longest:
            self._rest += [last] if last else []
        else:  # of such a line only the beginning is kept
            self._rest = [b"".join((*self._rest, last))[:BEGINNING]]

    def _too_long(self, length: int) -> str:
        return f"a line of {length:,} bytes, and {self._longest:,} is the longest\n  hint: longest={length}"

    def unended(self, reason: str) -> Malformed | None:
        """Return the line that has no end as malformed, None if there is none, and begin anew."""
        rest, length, self._rest, self.rest = self._rest, self.rest, [], 0
        return Malformed(text_of(b"".join(rest)), reason) if length else None


async def retrying(
    once: Callable[[], AsyncIterator[Any]],
    retry: Period | None,
    sleep: Sleep,
    lost: tuple[type[Exception], ...] = (OSError,),
) -> AsyncGenerator[Any, None]:
    """Yield the items of `once()`. With `retry`, call it again when it has ended or raised one of `lost`.

    `once` yields a `Link` when it is connected. A generator that passes the items on closes this one at its end
    (`contextlib.aclosing`), so that `once` lets go of its connection before anything that it needs is gone.
    """
    pause = seconds_of(retry)
    while True:
        items = once()
        reason, silence = "the other side ended the connection", 0.0
        try:
            async for item in items:
                yield item
            if pause is None:
                return
        except lost as error:
            if pause is None:
                raise
            reason, silence = f"{error}" or type(error).__name__, getattr(error, "silence", 0.0)
        finally:
            await items.aclose()  # type: ignore[attr-defined]
        yield Link(True, reason, silence)
        await sleep(pause)


class Silent(ConnectionError):
    """No sign of life from the other side for `silence` seconds."""

    def __init__(self, what: str, silence: float) -> None:
        super().__init__(f"{what} for {silence:g} s")
        self.silence = silence
