"""What the parts of the engine need of each other, where asking for the whole would make a circle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from cepbook.engine.clock import Clock
from cepbook.engine.delta import Row
from cepbook.errors import StatementError


class Host(Protocol):
    """What a statement needs of the runtime that runs it."""

    clock: Clock

    def enqueue(self, type_name: str, rows: list[Row]) -> None:
        """Rows of ``insert into``, for when all statements have seen the present event."""

    def report(self, error: StatementError) -> None:
        """A failure at run time."""

    def rewired(self) -> None:
        """Listeners changed."""


class Member(Protocol):
    """What a context needs of the statements that run in it."""

    name: str

    def new_state(self, partition: Any) -> Any:
        """A fresh state for a partition."""

    def guarded(self, take: Callable[[Any, Any], object], event: Any, partition: Any) -> bool:
        """Hand an event to the statement's state in a partition; failures are reported. Whether it took the event."""
