"""Run-time failures of statements: recorded, passed to error listeners, or raised at the end of the turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from cepbook.engine.statements.failure_attribution import traceback_namespaces
from cepbook.engine.statements.statement import RunningStatement
from cepbook.errors import StatementError

ErrorListener = Callable[[StatementError], object]
_KEPT = 1000


class FailureLog:
    """The latest failures, in `recorded`. Without listeners the first failure of a turn is raised at its end."""

    def __init__(self) -> None:
        self.recorded: deque[StatementError] = deque(maxlen=_KEPT)
        self.listeners: list[ErrorListener] = []
        self._unraised: list[Exception] = []
        self.raised: Exception | None = None  # the last failure that was raised

    @property
    def waiting(self) -> bool:
        """True if there is a failure to raise."""
        return bool(self._unraised)

    def report(self, error: StatementError) -> bool:
        """Record a failure and notify the listeners. Return True if a failure will be raised."""
        self.tell(error)
        if not self.listeners:
            self._unraised.append(error)
        return self.waiting

    def tell(self, error: StatementError) -> None:
        """Record a failure and notify the listeners. A listener that raises is a failure to raise itself."""
        self.recorded.append(error)
        for listener in list(self.listeners):
            try:
                listener(error)
            except Exception as failure:  # noqa: BLE001 - raised at the end of the turn
                self._unraised.append(failure)

    def keep(self, failure: Exception) -> None:
        """Raise `failure`, which belongs to no statement, at the end of the turn."""
        self._unraised.append(failure)

    def raise_pending(self) -> None:
        """Raise the first failure that no listener was notified of."""
        if self._unraised:
            first, self._unraised = self._unraised[0], []
            self.raised = first
            if isinstance(first, StatementError):
                raise first from first.cause
            raise first


def attribute_failure(failure: Exception, statements: Collection[RunningStatement]) -> bool:
    """Report a failure of generated code as its statement's. If there is none, all rearm timers; return False."""
    raised_in = list(traceback_namespaces(failure))
    for statement in statements:
        if any(statement.program.namespace is namespace for namespace in raised_in):
            statement.failed(failure)
            return True
    for statement in statements:
        statement.timed.mend(state for _, state in statement.states())
    # a listener may have dropped a statement that had not seen the event yet
    return any("stopped" in namespace for namespace in raised_in)
