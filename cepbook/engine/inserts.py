"""Rows that a statement inserts into several streams, each named with the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cepbook.engine.delivery.delta import Row
from cepbook.engine.services import EngineServices


class StreamInserter:
    """Takes events for the streams `targets`. While the runtime holds rows they wait as those of an outlet do."""

    def __init__(self, host: EngineServices, targets: Sequence[str], failed: Callable[[Exception], None]) -> None:
        self.failed = failed
        self._host = host
        self._targets = targets
        self._held: list[tuple[int, Row, Any]] = []

    def put(self, number: int, event: Row, state: Any) -> None:
        """`event`, which the partition of `state` made, goes to the stream of this number."""
        if not self._host.holds:
            self._host.enqueue_rows(self._targets[number], [event], state[0])
            return
        if not self._held:
            self._host.held(self)  # first: a fault between the two must not leave rows that nobody releases
        self._held.append((number, event, state[0]))

    def release(self) -> None:
        """Hand on what was held."""
        held = self._held.copy()
        self._held.clear()
        for number, event, partition in held:
            self._host.enqueue_rows(self._targets[number], [event], partition)

    def close(self) -> None:
        """The statement stops."""
        self._held.clear()
