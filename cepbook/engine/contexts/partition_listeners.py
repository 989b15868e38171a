"""Who wants to know what becomes of contexts and their partitions, and of their failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from cepbook.engine.expressions.primitives import deep_copied
from cepbook.errors import StatementError, exception_text

NoticeKind = Literal["activated", "deactivated", "allocated", "deallocated"]


class PartitionNotice(NamedTuple):
    """A context was activated or deactivated (its first statement came, its last one went), or a partition was
    allocated or deallocated: then `partition` is its id, and `properties` are its built-in ones, copied for each
    listener. `time` is engine time.
    """

    kind: NoticeKind
    context: str
    partition: int | None
    properties: Mapping[str, Any]
    time: int


PartitionListener = Callable[[PartitionNotice], object]


class PartitionListeners:
    """The partition listeners: of one context, or (None) of all."""

    def __init__(self, report: Callable[[StatementError], None]) -> None:
        self._listeners: list[tuple[str | None, PartitionListener]] = []
        self._of: dict[str, tuple[PartitionListener, ...]] = {}  # by context
        self._report = report

    def add(self, context: str | None, listener: PartitionListener) -> None:
        """Call `listener(Notice)` for what happens to `context`."""
        self._listeners.append((context, listener))
        self._of.clear()

    def remove(self, context: str | None, listener: PartitionListener) -> None:
        """Errors: ValueError if it was not added for this context."""
        self._listeners.remove((context, listener))
        self._of.clear()

    def wanted(self, context: str) -> bool:
        """Whether anybody listens to `context`."""
        found = self._of.get(context)
        if found is None:
            found = self._of[context] = tuple(fn for name, fn in self._listeners if name is None or name == context)
        return bool(found)

    def watched(self, context: str) -> bool:
        """Whether anybody listens to `context` alone."""
        return any(name == context for name, _ in self._listeners)

    def tell(self, notice: PartitionNotice) -> None:
        """Call the listeners of a context of which `wanted` holds; one that fails is reported and stops nothing."""
        for listener in self._of[notice.context]:
            try:
                listener(notice._replace(properties=deep_copied(notice.properties)))
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self.failed(notice.context, failure, "a partition listener of context")

    def failed(self, context: str, failure: Exception, what: str = "context") -> None:
        """Report a run-time failure of a context."""
        message = f"{what} `{context}` failed: {exception_text(failure)}"
        self._report(StatementError(context, message, None, failure))
