"""The latest events over again, in a second workbench: with a further statement, with other values of variables.

What is known of the past is what marble diagrams are made from (`session.running.arrivals`): for each event type its
latest events, and the latest stops of the clock. A second workbench with the same statements in their first state is
shown all of them in their order. Variables have the given values, or those that they were given from outside, from the
beginning on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cepbook.engine.delivery.delta import Row
from cepbook.engine.runtime import Runtime
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader import parser as dialect
from cepbook.session.history.event_log import DeployedAt, EventLog, LogEntry
from cepbook.session.history.rerun_statement import LogPlayer, group_simultaneous


@dataclass(frozen=True, slots=True)
class RecordedHistory:
    """What happened from clock time `start` to `now`, oldest first; `complete`: nothing has been forgotten.

    `assignments` are the values that variables were given from outside, `deployments` what is deployed, in the order
    in which it was.
    """

    log_entries: tuple[LogEntry, ...]
    assignments: tuple[LogEntry, ...]
    start: int
    now: int
    complete: bool
    deployments: tuple[DeployedAt, ...] = ()

    @property
    def events(self) -> int:
        return sum(each.type_name is not None for each in self.log_entries)


class ForgottenWarning(UserWarning):
    """Only the latest events happen anew: earlier ones are not known any more."""


def recorded_history(runtime: Runtime, event_log: EventLog, start: int) -> RecordedHistory:
    """What is known of the past of a workbench."""
    types = runtime.catalog.event_types
    log_entries = event_log.since((0, 0), set(types), types)
    complete = event_log.lost(set(types)) is None
    born = sorted(map(event_log.born, runtime.deployments.values()), key=lambda each: each.place)
    return RecordedHistory(tuple(log_entries), tuple(event_log.assignments), start, runtime.now, complete, tuple(born))


class WorkbenchRerun(LogPlayer):
    """All that is known of the past, in the `stage` of a second workbench, which takes note of it as well."""

    def __init__(self, runtime: Runtime, event_log: EventLog) -> None:
        super().__init__(runtime)
        self._event_log = event_log

    def relive(self, past: RecordedHistory) -> None:
        """Let it all happen, up to the present of then."""
        for log_entries in group_simultaneous(past.log_entries):
            self.let(log_entries)
        if past.now > self.runtime.now:
            self.let([LogEntry((0, 0), past.now)])

    def stopped(self, time: int, *, stepping: bool) -> None:
        self._event_log.stopped(time, stepping=stepping)

    def comes(self, type_name: str, event: Row, time: int) -> None:
        self._event_log.recorder(type_name)(time, event, None)


def is_fire_and_forget(epl: str, runtime: Runtime) -> bool:
    """Whether a text is a query of what is held now: of named windows, tables and rows of statements."""
    statements = dialect.parse_epl(epl).statements
    if len(statements) != 1:
        return False
    only = statements[0]
    if not isinstance(only, ast.Select):
        return isinstance(only, ast.FafInsert | ast.FafUpdate | ast.FafDelete)
    held: Collection[str] = {*runtime.statements, *runtime.stores}
    return bool(only.sources) and all(
        isinstance(source.stream, ast.FilterStream) and not source.windows and source.stream.type_name in held
        for source in only.sources
    )
