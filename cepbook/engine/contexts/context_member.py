"""The interface between a context and the statements that run in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.subscriptions.filter_index import EventReader
from cepbook.errors import StatementError


class ContextMember(ABC):
    """A statement that runs in a context, with one state per context partition."""

    name: str
    order: tuple[int, int]

    @property
    @abstractmethod
    def correlation(self) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] | None:
        """Key functions (of an event, of a partition) that are equal wherever the filter passes; None without such."""

    @abstractmethod
    def new_state(self, partition: ContextPartition) -> Any:
        """Return a fresh state for a partition."""

    @abstractmethod
    def opened(self, partition: ContextPartition) -> None:
        """Start in a partition that was just allocated. All its states exist already."""

    @property
    @abstractmethod
    def external_state(self) -> str | None:
        """Reason why single partitions cannot be moved (state shared with something outside the context), or None."""

    @abstractmethod
    def armed_timers(self, partition: ContextPartition) -> list[tuple[int, int]]:
        """Return the armed timers of the state in a partition."""

    @abstractmethod
    def partition_restored(self, partition: ContextPartition, timers: Iterable[tuple[int, int]]) -> None:
        """Continue with the state of a restored partition, which had these timers armed."""

    @abstractmethod
    def reading(self, type_name: str) -> EventReader | None:
        """Return the reader for events of a type, or None if the statement does not read the type."""

    @abstractmethod
    def end(self, partition: ContextPartition, now: int) -> None:
        """Deliver the output that is due when a partition ends, then discard its state."""

    @abstractmethod
    def caused(self, failure: Exception) -> bool:
        """Return True if the statement's generated code raised the failure."""

    @abstractmethod
    def error(self, failure: Exception) -> StatementError:
        """Return the failure as an error that points at the EPL text."""

    @abstractmethod
    def settle(self) -> None:
        """Repair the timer queue after a failure that may have interrupted the arming of a timer."""

    @abstractmethod
    def forget(self, partition: ContextPartition) -> None:
        """Discard the state in a partition without any output."""

    @abstractmethod
    def guarded(self, take: Callable[[Any, Any], object], event: Any, partitions: Iterable[ContextPartition]) -> bool:
        """Apply `take(event, state)` in the partitions, report failures, and return True if any consumed the event."""
