"""Sources over a network: how silence, lost connections and closing are told apart."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace
from typing import Any

import pytest

from cepbook.errors import UsageError
from cepbook.session import inlets
from cepbook.session.io.live import network_sources
from cepbook.session.io.live.live_sources import Link


class Reader:
    """A connection that the probes of the operating system found dead."""

    def __init__(self) -> None:
        self._data = [b'{"x": 1}\n{"x', b""]

    async def read(self, _size: int) -> bytes:
        data = self._data.pop(0)
        if not data:
            raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")
        return data


class Writer:
    def __init__(self) -> None:
        self.closed = 0

    def get_extra_info(self, _name: str) -> Any:
        return SimpleNamespace(setsockopt=lambda *_: None)

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("silence", [None, "10 sec"])
def test_a_probe_without_an_answer_is_no_silence(monkeypatch: pytest.MonkeyPatch, silence: str | None) -> None:
    async def connected(*_: object, **_options: object) -> tuple[Reader, Writer]:
        return Reader(), writer

    async def scenario() -> list[Any]:
        items = []
        with pytest.raises(TimeoutError, match="Connection timed out"):
            async for item in inlets.lines("host", 1, silence=silence):
                items.append(item)
        return items

    writer = Writer()
    monkeypatch.setattr(asyncio, "open_connection", connected)
    first, unended = asyncio.run(scenario())
    assert first == {"x": 1} and "the connection ended in this line" in unended.reason
    assert writer.closed == 1


@pytest.mark.parametrize("fails", ["setsockopt", "consumer"])
def test_a_connection_is_closed_whatever_happens_at_its_begin(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    async def connected(*_: object, **_options: object) -> tuple[Reader, Writer]:
        return Reader(), writer

    def probe(_connection: object) -> None:
        if fails == "setsockopt":
            raise OSError(errno.EINVAL, "Invalid argument")

    async def scenario() -> None:
        items = inlets.lines("host", 1).open({})
        try:
            assert await anext(items) == Link(False)
        except OSError:
            assert fails == "setsockopt"
        await items.aclose()  # type: ignore[attr-defined]

    writer = Writer()
    monkeypatch.setattr(asyncio, "open_connection", connected)
    monkeypatch.setattr(network_sources, "_probe", probe)
    asyncio.run(scenario())
    assert writer.closed == 1


@pytest.mark.parametrize(
    "source",
    [
        lambda: inlets.lines("host", 1, silence="0 sec"),
        lambda: inlets.websocket("ws://host", silence="0 sec"),
        lambda: inlets.websocket("ws://host", ping="0 msec"),
        lambda: inlets.kafka("t", silence="0 sec"),
    ],
)
def test_a_longest_time_of_zero_is_refused(source: Any) -> None:
    with pytest.raises(UsageError, match="is a time above 0, or None"):
        source()


@pytest.mark.parametrize(("by_server", "side"), [(True, "the server"), (False, "this side")])
def test_who_closed_a_websocket_is_told(by_server: bool, side: str) -> None:
    with pytest.raises(ConnectionError, match=rf"closed by {side} with 1002 \(protocol error\): because"):
        network_sources._check_close((by_server, 1002, "because"), 100)
