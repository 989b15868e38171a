"""Listeners to the activation of contexts and the allocation of partitions; reports of context failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from cepbook.engine.expressions.primitives import deep_copied
from cepbook.errors import StatementError, exception_text

NoticeKind = Literal["activated", "deactivated", "allocated", "deallocated"]


class PartitionNotice(NamedTuple):
    """A change of a context or of one of its partitions.

    A context is activated by its first statement and deactivated when its last one is undeployed; `partition` is None
    then. Otherwise `partition` is the id of the partition and `properties` are its built-in properties, copied for each
    listener. `time` is engine time.
    """

    kind: NoticeKind
    context: str
    partition: int | None
    properties: Mapping[str, Any]
    time: int


PartitionListener = Callable[[PartitionNotice], object]


class PartitionListeners:
    """The partition listeners of one context each, or (context None) of all contexts."""

    def __init__(self, report: Callable[[StatementError], None]) -> None:
        self._listeners: list[tuple[str | None, PartitionListener]] = []
        self._by_context: dict[str, tuple[PartitionListener, ...]] = {}
        self._report = report

    def add(self, context: str | None, listener: PartitionListener) -> None:
        """Call `listener` with each notice about `context`."""
        self._listeners.append((context, listener))
        self._by_context.clear()

    def remove(self, context: str | None, listener: PartitionListener) -> None:
        """Remove a listener. Errors: ValueError if it was not added for this context."""
        self._listeners.remove((context, listener))
        self._by_context.clear()

    def has_listeners(self, context: str) -> bool:
        """Return whether any listener receives notices about `context`."""
        listeners = self._by_context.get(context)
        if listeners is None:
            listeners = tuple(listener for name, listener in self._listeners if name is None or name == context)
            self._by_context[context] = listeners
        return bool(listeners)

    def has_own_listeners(self, context: str) -> bool:
        """Return whether a listener was added for this context alone."""
        return any(name == context for name, _ in self._listeners)

    def notify(self, notice: PartitionNotice) -> None:
        """Call the listeners of a context for which `has_listeners` is true. Failures are reported and do not stop."""
        for listener in self._by_context[notice.context]:
            try:
                listener(notice._replace(properties=deep_copied(notice.properties)))
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self.report_failure(notice.context, failure, "a partition listener of context")

    def report_failure(self, context: str, failure: Exception, what: str = "context") -> None:
        """Report a run-time failure of a context."""
        message = f"{what} `{context}` failed: {exception_text(failure)}"
        self._report(StatementError(context, message, None, failure))
