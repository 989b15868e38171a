"""Running the whole event log again in a second workbench: with a further statement, or with other values of variables.

The second workbench has the same statements in their initial state. Its variables have the given values from the start,
or those assigned from outside.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cepbook.engine.delivery.delta import Row
from cepbook.engine.runtime import Runtime
from cepbook.errors import MissingRowsWarning
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader import parser as dialect
from cepbook.session.history.event_log import DeployedAt, EventLog, LogEntry
from cepbook.session.history.rerun_statement import LogPlayer, group_simultaneous


@dataclass(frozen=True, slots=True)
class RecordedHistory:
    """The log from clock time `start` to `now`, oldest first. `complete` is False if earlier entries were forgotten.

    `assignments` are the values that variables were assigned from outside, `deployments` the deployments in their
    order.
    """

    log_entries: tuple[LogEntry, ...]
    assignments: tuple[LogEntry, ...]
    start: int
    now: int
    complete: bool
    deployments: tuple[DeployedAt, ...] = ()

    @property
    def events(self) -> int:
        """The number of events."""
        return sum(entry.type_name is not None for entry in self.log_entries)


class ForgottenWarning(MissingRowsWarning):
    """Issued when a rerun covers only the latest events, because earlier ones are no longer known."""


def recorded_history(runtime: Runtime, event_log: EventLog, start: int) -> RecordedHistory:
    """Return the recorded history of a workbench."""
    types = runtime.catalog.event_types
    entries = event_log.entries_since((0, 0), set(types), types)
    complete = event_log.incomplete_before(set(types)) is None
    deployed = sorted(map(event_log.deployed_at, runtime.deployments.values()), key=lambda d: d.position)
    return RecordedHistory(tuple(entries), tuple(event_log.assignments), start, runtime.now, complete, tuple(deployed))


class WorkbenchRerun(LogPlayer):
    """Plays the recorded history in the runtime of a second workbench, and logs it there."""

    def __init__(self, runtime: Runtime, event_log: EventLog) -> None:
        super().__init__(runtime)
        self._event_log = event_log

    def relive(self, past: RecordedHistory) -> None:
        """Play everything, up to the end of the history."""
        for log_entries in group_simultaneous(past.log_entries):
            self.play(log_entries)
        if past.now > self.runtime.now:
            self.play([LogEntry((0, 0), past.now)])

    def before_stop(self, time: int, *, stepping: bool) -> None:
        self._event_log.record_stop(time, stepping=stepping)

    def before_event(self, type_name: str, event: Row, time: int) -> None:
        self._event_log.recorder(type_name)(time, event, None)


def is_fire_and_forget(epl: str, runtime: Runtime) -> bool:
    """Return True if the text is a query over current contents: of named windows, tables, or rows of statements."""
    statements = dialect.parse_epl(epl).statements
    if len(statements) != 1:
        return False
    statement = statements[0]
    if not isinstance(statement, ast.Select):
        return statement.changed_store is not None
    readable: Collection[str] = {*runtime.statements, *runtime.stores}
    return bool(statement.sources) and all(
        isinstance(source.stream, ast.FilterStream) and not source.windows and source.stream.type_name in readable
        for source in statement.sources
    )
