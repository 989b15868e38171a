"""Placement: where on Spark a statement runs.

The rows of a statement depend on other events in two ways: through state (windows, groups, context partitions, stores)
and through the clock, every advance of which may expire events. A task computes the right rows if its state is complete
and if it stops its clock at all times that matter:

    path            the state of a task is complete because                     decided in
    native          there is none, and Spark evaluates filter and columns       frames/sql_conditions.py
    row by row      there is none that a row shows
    by key          it has all events of its keys, or of its partitions         partitioning.py, context_shards.py
    by time slice   it starts early enough                                      lookback.py
    ordered         it is the only task

A task that sees a part of the stream gets the times of all other events as clock ticks. `place` decides from the plan
alone and is conservative: a statement whose rows are not known to be the same runs in order, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from cepbook.engine.config import Config
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import StatementDependencies, created_store
from cepbook.lang.plan.key_requirement import NO_REQUIREMENT, KeyRequirement
from cepbook.spark.frames.sql_conditions import is_native
from cepbook.spark.plan.context_shards import ContextShards, context_shards_of
from cepbook.spark.plan.key_propagation import common_partition_keys
from cepbook.spark.plan.lookback import Lookback, lookback_of
from cepbook.spark.plan.partitioning import (
    depends_on_clock,
    key_requirement_of,
    partition_streams,
    store_key_requirement,
)
from cepbook.spark.plan.vectorized_windows import vectorized_window_of
from cepbook.spark.task.program import VectorizedWindow

PARTITION_ADVICE = "if each key may count by itself, a context `partition by` that key lets it run in parallel"
NESTED_CONTEXT_ADVICE = (
    "if each key may have partitions of its own, a nested context with `partition by` that key as its outermost level "
    "lets it run in parallel"
)
NO_INPUT = "no frame has events that it reads, so it delivers nothing"


@dataclass(frozen=True, slots=True)
class Placement:
    """The place on Spark where a statement runs.

    `keys` gives by input type the properties that decide on the task; ``by key`` without keys is divided by `shards`. A
    time slice starts with the earlier events within `lookback`. With `ticks` every task gets all clock ticks of the
    stream, or of its slice. `advice` says how the statement could run in parallel. A statement of which
    the engine computes nothing, or aggregates alone, has a `window`.
    """

    path: Literal["native", "row by row", "by key", "by time slice", "ordered"]
    keys: tuple[tuple[str, tuple[str, ...]], ...]
    ticks: bool
    reason: str
    advice: str = ""
    shards: ContextShards | None = None
    lookback: Lookback | None = None
    window: VectorizedWindow | None = None


def place(deps: StatementDependencies, catalog: Catalog, clocks: Mapping[str, str] | None = None) -> Placement:
    """Return how to run a statement so that its rows are those of the ordered run.

    `clocks` gives by event type the long property that holds the event time; by default the time property of the type.
    """
    if clocks is None:
        clocks = event_time_properties({name: catalog.event_types[name].time_property for name in deps.inputs}, catalog)
    created = deps.named_windows
    ticks = any(map(depends_on_clock, (*deps.readers, *created))) or not all(c.permanent for c in deps.contexts)
    if not deps.inputs:
        if ticks:
            return Placement("ordered", (), ticks, "no frame has events that it reads: only the clock drives it")
        return Placement("row by row", (), ticks, NO_INPUT)
    if any(s.assigned for s in deps.readers):
        names = ", ".join(s.name for s in deps.readers if s.assigned)
        return Placement("ordered", (), ticks, f"it reads variables that {names} assigns event by event")
    statements = [*deps.readers, *(s for s in created if s.name not in {r.name for r in deps.readers})]
    needs = {statement.name: key_requirement_of(statement, deps, catalog) for statement in statements}
    needs |= {s.name: store_key_requirement(s, deps, catalog) for s in deps.stores if s.name not in needs}
    only = deps.selects[0]
    alone = len(deps.inputs) == len(deps.readers) == 1
    if alone and isinstance(only, nodes.SelectStatement) and is_native(only, catalog.event_types):
        return Placement("native", (), False, "a filter and columns, which Spark expresses itself")
    if not any(need.reason for need in needs.values()):
        if all(need == NO_REQUIREMENT for need in needs.values()):
            return Placement("row by row", (), False, "no row depends on state: each event is evaluated by itself")
        keys = common_partition_keys(deps, list(needs.values()), catalog)
        if keys is not None:
            key_text = ", ".join(f"{t}.{'+'.join(props)}" for t, props in keys)
            clock = "; every task follows the clock of the whole stream" if ticks else ""
            return Placement("by key", keys, ticks, f"all state is divided by {key_text}{clock}")
    shards = context_shards_of(deps, catalog, any(map(depends_on_clock, statements)))
    if isinstance(shards, ContextShards):
        return Placement("by key", (), ticks, shards.reason, shards=shards)
    lookback = lookback_of(deps, catalog, clocks)
    if isinstance(lookback, Lookback):
        return Placement("by time slice", (), ticks, lookback.reason, lookback=lookback)
    return _ordered(deps, needs, ticks, shards, lookback)


def event_time_properties(columns: Mapping[str, str | None], catalog: Catalog) -> dict[str, str]:
    """Return those of the time columns that are long properties, by type: their values are the times of the events."""
    properties = {}
    for name, column in columns.items():
        declared = catalog.event_types[name].properties
        if column is not None and column in declared and declared[column].name == "long":
            properties[name] = column
    return properties


def bypass_engine(
    placement: Placement, deps: StatementDependencies, catalog: Catalog, config: Config, clocks: Mapping[str, str]
) -> Placement:
    """Return the placement of a statement that Spark computes itself, or of which the engine computes aggregates alone.

    Any other statement keeps its placement. `clocks` gives by event type the property that holds the event time.
    """
    if placement.path not in ("by key", "by time slice", "ordered") or placement.shards is not None:
        return placement
    window = vectorized_window_of(deps, catalog, config)
    if window is None:
        return placement
    if isinstance(window, VectorizedWindow) and window.clock is None:
        if placement.ticks:
            return placement
        return replace(placement, reason=f"{placement.reason}; {window.reason}", window=window)
    if placement.path != "by key":
        return placement
    if isinstance(window, VectorizedWindow) and window.clock == clocks.get(window.event_type):
        return Placement("native", placement.keys, False, window.reason, window=window)
    why = window if isinstance(window, str) else f"Spark itself could group batches if {window.clock} were the time"
    return replace(placement, reason=f"{placement.reason}; {why}")


def _ordered(
    deps: StatementDependencies,
    needs: Mapping[str, KeyRequirement],
    ticks: bool,
    shards: str | None,
    lookback: str | None,
) -> Placement:
    """Return the placement in one task, with the reason that forbids to divide the statement."""
    refused = [(name, need.reason) for name, need in needs.items() if need.reason]
    together = any(s.lots for s in deps.selects)  # which have no contexts
    advice = "" if deps.contexts or together else PARTITION_ADVICE
    if any(isinstance(partition_streams(context), str) for context in deps.contexts):
        advice = NESTED_CONTEXT_ADVICE
    if refused:
        refused.sort(key=lambda refusal: refusal[0] != deps.target)
        name, reason = refused[0]
        feeder = "" if name == deps.target else f"{name}, which feeds it: "
        reason = f"{feeder}{reason}"
    elif deps.stores:
        names = ", ".join(dict.fromkeys(str(created_store(s)) for s in deps.stores))
        reason = f"it reads or changes {names}, which no property of all its events divides"
    else:
        reason = "no property divides all the state of the statement and what feeds it"
    reason = shards or reason
    return Placement("ordered", (), ticks, f"{reason}; {lookback}" if lookback else reason, advice)
