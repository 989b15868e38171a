"""Why a row was delivered, with the snapshots of a replay.

If the event log does not reach back to the row, a snapshot of the replay leads to a workbench of that instant, which
has the events before it in its own log: the statement runs again over these. If that does not give the row, the
contents of that workbench are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cepbook.engine.inspection.visible_rows import has_window_events, window_events
from cepbook.engine.runtime import Runtime
from cepbook.errors import CepbookError
from cepbook.lang.plan import nodes
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.explain.explanations import RowExplanation
from cepbook.session.explain.why import UNKNOWN_PAST, explain_again, explain_now, explain_row, named_partition
from cepbook.session.history.event_log import KEPT, EventLog
from cepbook.session.history.rerun_provenance import DeliveredRow
from cepbook.session.history.rerun_statement import StatementRerun
from cepbook.session.replay.replay import Replay


def explain_replayed_row(
    runtime: Runtime, event_log: EventLog, replay: Replay[Any] | None, name: str, at: DeliveredRow, *, calls: bool
) -> RowExplanation:
    """Explain a row as `why.explain_row` does, with the snapshots of `replay` where the event log does not suffice."""
    explanation = explain_row(runtime, event_log, name, at, calls=calls)
    ran_again = explanation.basis == "run again"
    target = runtime.statement(name).plan
    if replay is None or not _covers(replay, at.time) or (ran_again and not explanation.notes):
        return explanation
    if not isinstance(target, nodes.StreamStatement | nodes.CreateVariableStatement):
        return explanation
    past = _again_in_past(replay, name, at, calls=calls)
    return past or _by_snapshot(runtime, replay, name, at, explanation if ran_again else None)


def _covers(replay: Replay[Any], time: int) -> bool:
    span = replay.span
    return span is not None and span[0] <= time <= span[1]


def past_engine(replay: Replay[Any] | None, time: int) -> EngineHandle | None:
    """Return the engine of an instant (clock units), with an event log of its own that reaches further back; None
    without a snapshot of the replay before it.
    """
    if replay is None or not _covers(replay, time):
        return None
    try:
        past: EngineHandle = replay.at_with_past(time, KEPT)._engine
    except CepbookError:
        return None
    return past


def _again_in_past(replay: Replay[Any], name: str, at: DeliveredRow, *, calls: bool) -> RowExplanation | None:
    """Explain a row by running the statement again over the events before it, which a snapshot leads to.

    None if they do not give the row.
    """
    try:
        past = replay.at_with_past(at.time, KEPT)
        runtime, event_log = past.runtime, past._engine.event_log
        target = runtime.statement(name).plan
        explanation = explain_again(runtime, event_log, target, at, [], calls=calls)
        if explanation is None:
            return None
        explanation = replace(explanation, partition=_partition_of(runtime, target.context, explanation.partition))
        if explanation.windows and not _has_all_events(runtime, event_log, target):
            return explanation
    except CepbookError:
        return None
    return replace(explanation, notes=tuple(n for n in explanation.notes if not n.startswith(UNKNOWN_PAST)))


def _partition_of(
    runtime: Runtime, context: str | None, partition: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the partition with the properties of one of a rerun, which has other ids; without id if it has ended."""
    if context is None or partition is None:
        return partition
    for row in runtime.partitions(context):
        if named_partition(runtime, context, row) == (own := {**partition, "id": row["id"]}):
            return own
    return {name: value for name, value in partition.items() if name != "id"}


def _has_all_events(runtime: Runtime, event_log: EventLog, target: Any) -> bool:
    """Return True if a rerun over the log ends with as many events in the window as the statement holds."""
    statement = runtime.statement(target.name)
    if not has_window_events(statement):
        return False
    run = StatementRerun(runtime, event_log, target)
    run.run()
    return window_events(run.runtime.statement(target.name), 0).total == window_events(statement, 0).total


def _by_snapshot(
    runtime: Runtime, replay: Replay[Any], name: str, at: DeliveredRow, other: RowExplanation | None
) -> RowExplanation:
    try:
        twin = replay.at(at.time if at.insert or at.time <= (replay.span or (at.time,))[0] else at.time - 1)
    except CepbookError as error:
        return other or explain_now(runtime, runtime, name, at, [str(error)])
    notes = ["windows are those of a snapshot of the replay, after all that happened at that time"]
    explanation = explain_now(runtime, twin.runtime, name, at, notes, "snapshot")
    if other is None:
        return explanation
    whole = other.provenance is not None and other.group is None and other.provenance_total <= len(other.provenance)
    return replace(
        explanation,
        cause=other.cause,
        stimulus=other.stimulus,
        partition=other.partition,
        group=other.group,
        provenance=other.provenance if whole else None,
        provenance_total=other.provenance_total if whole else 0,
    )
