"""The engine of scenario files with an event log and a feed for each statement, from which rows are explained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cepbook.engine.deploy.fire_and_forget import replace_rows, run_query
from cepbook.feeds import Feed
from cepbook.session.history.event_log import EventLog
from cepbook.testing.engine import OnDelivery
from cepbook.testing.engines import RowsEngine
from cepbook.testing.values import Row


class RecordingEngine(RowsEngine):
    """A row engine that logs every stimulus before it acts on it. Listeners hear selects and named statements."""

    def __init__(self, start: int, options: Mapping[str, Any]) -> None:
        super().__init__(start, options)
        self.start = start
        self.event_log = EventLog()
        self.feeds: dict[str, Feed] = {}
        self.observed: list[str] = []

    def deploy(self, epl: str, deployment_id: str) -> Sequence[str]:
        names = super().deploy(epl, deployment_id)
        self._record_deployment(deployment_id)
        return names

    def deploy_query(self, dialect: str, name: str, text: str) -> None:
        super().deploy_query(dialect, name, text)
        self._record_deployment(name)

    def undeploy(self, deployment_id: str) -> None:
        super().undeploy(deployment_id)
        self.event_log.record_deployment(deployment_id, None, self.runtime.now)

    def _record_deployment(self, deployment_id: str) -> None:
        deployment = self.runtime.deployments[deployment_id]
        self.event_log.record_deployment(deployment_id, deployment, self.runtime.now)
        for statement in deployment.statements:
            self.feeds[statement.name] = feed = Feed()
            statement.add_sink(feed)

    def listen(self, statement: str, on_delivery: OnDelivery) -> None:
        running = self.runtime.statements[statement]
        if running.kind == "select" or running.plan.named:
            self.observed.append(statement)
            super().listen(statement, on_delivery)

    def send(self, event_type: str, event: dict[str, Any]) -> None:
        if event_type in self.runtime.catalog.event_types:
            self.event_log.recorder(event_type)(self.runtime.now, event, None)
        super().send(event_type, event)

    def send_together(self, events: Sequence[tuple[str, dict[str, Any]]]) -> None:
        positions = self.event_log.positions(len(events))
        for (event_type, event), position in zip(events, positions, strict=True):
            if event_type in self.runtime.catalog.event_types:
                self.event_log.recorder(event_type)(self.runtime.now, event, position)
        super().send_together(events)

    def advance(self, time: int, *, stepping: bool) -> None:
        self.event_log.record_stop(time, stepping=stepping)
        super().advance(time, stepping=stepping)

    def set_variable(self, name: str, value: Any) -> None:
        super().set_variable(name, value)
        self.event_log.record_assignment(self.runtime.now, name, value)

    def query(self, epl: str) -> Iterable[Row]:
        stores = frozenset(self.runtime.stores)
        self.event_log.record_action(self.runtime.now, lambda runtime: run_query(runtime, epl), epl, "", stores)
        return super().query(epl)

    def replace_table(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        what = f"the rows of `{name}` were replaced"
        self.event_log.record_action(
            self.runtime.now, lambda runtime: replace_rows(runtime, name, rows), None, what, frozenset((name,))
        )
        super().replace_table(name, rows)
