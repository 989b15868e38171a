"""Cases of the corpus in a workbench, and what can be said of an answer to the question why by its values."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cepbook.engine.deploy.fire_and_forget import FireAndForgetQuery, replace_rows, run_query
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.session import Workbench
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.explain.explanations import MAX_EVENTS, RowExplanation
from cepbook.session.explain.provenance import ProvenanceEvent
from cepbook.testing.engines import RowsEngine
from cepbook.testing.runner import run
from cepbook.testing.scenario import read
from cepbook.testing.values import Row

CORPUS = Path(__file__).parents[1] / "corpus"


class Noting(RowsEngine):
    """The engine of the corpus, inside a workbench that takes note of all that happens."""

    def __init__(self, start: int, options: Mapping[str, Any]) -> None:
        super().__init__(start, options)
        self.workbench = Workbench(start=start, config=self.runtime.config)
        self.stage = self.workbench._engine = EngineHandle(self.runtime, self.workbench._lock, 10_000)
        self.stage.follow_deployments()

    def deploy(self, epl: str, deployment_id: str) -> Sequence[str]:
        try:
            return super().deploy(epl, deployment_id)
        finally:
            self.stage.follow_deployments()

    def deploy_query(self, dialect: str, name: str, text: str) -> None:
        try:
            super().deploy_query(dialect, name, text)
        finally:
            self.stage.follow_deployments()

    def undeploy(self, deployment_id: str) -> None:
        try:
            super().undeploy(deployment_id)
        finally:
            self.stage.follow_deployments()

    def send(self, event_type: str, event: dict[str, Any]) -> None:
        self.stage.event_log.recorder(event_type)(self.stage.now, event, None)
        super().send(event_type, event)

    def send_together(self, events: Sequence[tuple[str, dict[str, Any]]]) -> None:
        event_log = self.stage.event_log
        for place, (name, event) in zip(event_log.positions(len(events)), events, strict=True):
            event_log.recorder(name)(self.stage.now, event, place)
        super().send_together(events)

    def advance(self, time: int, *, stepping: bool) -> None:
        self.stage.event_log.record_stop(time, stepping=stepping)
        super().advance(time, stepping=stepping)

    def set_variable(self, name: str, value: Any) -> None:
        super().set_variable(name, value)
        self.stage.event_log.record_assignment(self.stage.now, name, self.runtime.variables[name].given)

    def replace_table(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        self.stage.record_manual_action(lambda runtime: replace_rows(runtime, name, rows), what="rows replaced")
        super().replace_table(name, rows)

    def query(self, epl: str) -> list[Row]:
        acts = lambda: self.stage.record_manual_action(lambda runtime: run_query(runtime, epl), query=epl)  # noqa: E731
        answer = FireAndForgetQuery(self.runtime, epl).ask(acts=acts)
        return self._shown(answer.rows, answer.properties)


def drawn(*left_out: str, seed: int) -> Iterator[tuple[str, Workbench]]:
    """Two cases of each of thirty files of the corpus, run: where they stand, the workbench. None with these tags."""
    draw = random.Random(seed)
    paths = [path for path in sorted(CORPUS.rglob("*.md")) if path.parent.name not in ("invalid", "errors")]
    for path in draw.sample(paths, 30):
        cases = [entry for entry in read(path).cases if not set(left_out) & set(entry.tags)]
        for case in draw.sample(cases, min(2, len(cases))):
            noted: list[Noting] = []

            def opened(start: int, options: Mapping[str, Any], noted: list[Noting] = noted) -> Noting:
                noted.append(Noting(start, options))
                return noted[-1]

            run(case, opened, "rows")
            if noted and "undeploy" not in case.tags:
                yield f"{path}:{case.line}", noted[-1].workbench


def contradictions(workbench: Workbench, fired: RowExplanation) -> Iterator[str]:
    """What in an answer is not so: events that never came, values of the row that its events do not give."""
    known = workbench.runtime.catalog.event_types
    for piece in fired.provenance or ():
        if piece.time is not None and not any(
            entry.type_name == piece.type_name and entry.time == piece.time and dict(entry.event) == dict(piece.event)
            for entry in workbench._engine.event_log.entries_since((0, 0), set(known), known)
        ):
            yield f"{piece} never came"
    target = workbench.runtime.statement(fired.statement).plan
    for name, expected in _of_group(target, fired.group):
        if name in fired.row and not _same(fired.row[name], expected):
            yield f"{name} is {fired.row[name]!r}, and the group is {fired.group}"
    if type(target) is not plan.SelectStatement or fired.provenance is None or fired.provenance_total > MAX_EVENTS:
        return
    if target.into is not None:  # which others may fill, too
        return
    if target.source.pattern is None and target.join is None and target.derived is None:
        for name, expected in _expected(target, fired.provenance):
            if name in fired.row and not _same(fired.row[name], expected):
                yield f"{name} is {fired.row[name]!r}, and {expected!r} by {fired.provenance}"


def _of_group(target: object, group: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """Columns that are keys of the group, by the group."""
    if not isinstance(target, plan.SelectStatement) or group is None:
        return
    aggregation = next((node for node in plan.chain(target.root) if isinstance(node, plan.Aggregation)), None)
    if aggregation is None or aggregation.levels or len(group) < len(aggregation.keys):  # two are written alike
        return
    keys = aggregation.keys
    for column in target.root.columns:
        key = keys[column.value.index] if isinstance(column.value, x.KeyRef) else column.value
        if key in keys:
            yield column.name, list(group.values())[keys.index(key)]


def _expected(target: plan.SelectStatement, provenance: Sequence[ProvenanceEvent]) -> Iterator[tuple[str, Any]]:
    """Columns that are properties, and plain aggregates of properties, by the events."""
    nodes = tuple(plan.chain(target.root))
    if any(isinstance(node, plan.Recognition) for node in nodes):
        return
    aggregation = next((node for node in nodes if isinstance(node, plan.Aggregation)), None)
    for column in target.root.columns:
        value = column.value
        if aggregation is None and isinstance(value, x.Prop) and len(provenance) == 1:
            yield column.name, provenance[0].event.get(value.name)
        if aggregation is None or not aggregation.kind.startswith("fully") or not isinstance(value, x.AggregateRef):
            continue
        call = aggregation.calls[value.index]
        if call.distinct or call.filter is not None or call.group_by is not None or len(call.args) > 1:
            continue
        if call.args and not isinstance(call.args[0], x.Prop):
            continue
        values = [piece.event.get(call.args[0].name) if call.args else 1 for piece in provenance]
        numbers = [entry for entry in values if entry is not None and entry == entry]
        if len(numbers) < len(values) and any(entry != entry for entry in values):
            continue
        if call.name == "count":
            yield column.name, len(numbers)
        elif call.name in ("sum", "min", "max", "avg"):
            yield column.name, _folded(call.name, numbers)


def _folded(name: str, values: Sequence[Any]) -> Any:
    if not values:
        return None
    return sum(values) / len(values) if name == "avg" else {"sum": sum, "min": min, "max": max}[name](values)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9) or (one != one and other != other)
    return bool(one == other)
