"""Which statements may run in parallel over the rows of a stream, and which need them all in one order.

A statement's output may depend on other events in two ways: through state (windows, groups, context partitions, stores)
and through the clock (every advance may let events expire). State that is divided by a key is complete in a task
that sees all events of the key (`division`), as are partitions that are known beforehand in the task that has them
(`parts`); state that forgets is complete in a task that begins early enough (`reach`). The clock is complete when the
task is told every time at which the whole stream advances it ("ticks"). `place` decides from the plan alone, and is
conservative: what is not known to be the same runs in order, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from cepbook.engine.config import Config
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import StatementDependencies, created_store
from cepbook.spark.frames.sql_conditions import is_native
from cepbook.spark.plan.clock_dependence import depends_on_clock
from cepbook.spark.plan.context_shards import ContextShards, context_shards_of
from cepbook.spark.plan.key_propagation import NO_REQUIREMENT, KeyRequirement, common_partition_keys
from cepbook.spark.plan.lookback import Lookback, lookback_of
from cepbook.spark.plan.partitioning import key_requirement_of, partition_streams, store_key_requirement
from cepbook.spark.plan.vectorized_windows import vectorized_window_of
from cepbook.spark.task.program import VectorizedWindow

PARTITION_ADVICE = "if each key may count by itself, a context `partition by` that key lets it run in parallel"
NESTED_CONTEXT_ADVICE = (
    "if each key may have partitions of its own, a nested context with `partition by` that key as its outermost level "
    "lets it run in parallel"
)


NO_INPUT = "no frame has events that it reads, so that it delivers nothing"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a statement runs: by Spark itself, in parallel without regard to rows' company, by key or by time slice, or
    in one task.

    `keys` gives for each input event type the properties that decide on the task; of ``by key`` without keys it is the
    `parts` that do. A time slice begins with the earlier events that are within the `reach`. `ticks` says whether every
    task is told all times of the whole stream (or of its slice); `advice` what would let it run in parallel, if
    anything is known. Of windows that need no engine there is the `form`.
    """

    path: Literal["native", "row by row", "by key", "by time slice", "ordered"]
    keys: tuple[tuple[str, tuple[str, ...]], ...]
    ticks: bool
    reason: str
    advice: str = ""
    parts: ContextShards | None = None
    reach: Lookback | None = None
    form: VectorizedWindow | None = None


def place(line: StatementDependencies, catalog: Catalog, clocks: Mapping[str, str] | None = None) -> Placement:
    """How to run `line` so that the result is the one of the ordered run.

    `clocks` are the properties (long) that are the times of events, by their types; by default the types' own.
    """
    if clocks is None:
        clocks = event_time_properties({name: catalog.event_types[name].time_property for name in line.inputs}, catalog)
    created = [s for s in line.stores if isinstance(s, nodes.CreateWindowStatement)]
    ticks = any(depends_on_clock(s) for s in (*line.readers, *created)) or any(
        isinstance(c, nodes.CreateContextTreeStatement) for c in line.contexts
    )
    if not line.inputs:
        if ticks:
            return Placement("ordered", (), ticks, "no frame has events that it reads: only the clock moves it")
        return Placement("row by row", (), ticks, NO_INPUT)
    if any(s.assigned for s in line.readers):
        names = ", ".join(s.name for s in line.readers if s.assigned)
        return Placement("ordered", (), ticks, f"it reads variables that {names} assigns event by event")
    statements = [*line.readers, *(s for s in created if s.name not in {r.name for r in line.readers})]
    needs = {statement.name: key_requirement_of(statement, line, catalog) for statement in statements}
    needs |= {s.name: store_key_requirement(s, line, catalog) for s in line.stores if s.name not in needs}
    whole = {name: need for name, need in needs.items() if not isinstance(need, str)}
    only = line.selects[0]
    alone = len(line.inputs) == len(line.readers) == 1
    if alone and isinstance(only, nodes.SelectStatement) and is_native(only, catalog.event_types):
        return Placement("native", (), False, "a filter and columns, which Spark expresses itself")
    if len(whole) == len(needs):
        if all(need == NO_REQUIREMENT for need in whole.values()):
            return Placement("row by row", (), False, "no state that can be seen: every event is judged by itself")
        keys = common_partition_keys(line, list(whole.values()), catalog)
        if keys is not None:
            shown = ", ".join(f"{t}.{'+'.join(props)}" for t, props in keys)
            clock = "; every task follows the clock of the whole stream" if ticks else ""
            return Placement("by key", keys, ticks, f"all state is divided by {shown}{clock}")
    parts = context_shards_of(line, catalog, any(map(depends_on_clock, statements)))
    if isinstance(parts, ContextShards):
        return Placement("by key", (), ticks, parts.reason, parts=parts)
    reach = lookback_of(line, catalog, clocks)
    if isinstance(reach, Lookback):
        return Placement("by time slice", (), ticks, reach.reason, reach=reach)
    return _ordered(line, needs, ticks, parts, reach)


def event_time_properties(columns: Mapping[str, str | None], catalog: Catalog) -> dict[str, str]:
    """Of the time columns, by type, those that are long properties: their values are the times of the events."""
    found = {}
    for name, column in columns.items():
        of = catalog.event_types[name].properties
        if column is not None and column in of and of[column].name == "long":
            found[name] = column
    return found


def bypass_engine(
    found: Placement, line: StatementDependencies, catalog: Catalog, config: Config, clocks: Mapping[str, str]
) -> Placement:
    """By Spark itself, or by columns in the same tasks, where a statement has a form that can be calculated so.

    `clocks`: event type -> the property that is its time, where one is.
    """
    if found.path not in ("by key", "by time slice", "ordered") or found.parts is not None:
        return found
    form = vectorized_window_of(line, catalog, config)
    if form is None:
        return found
    if isinstance(form, VectorizedWindow) and form.clock is None:
        return found if found.ticks else replace(found, reason=f"{found.reason}; {form.reason}", form=form)
    if found.path != "by key":
        return found
    if isinstance(form, VectorizedWindow) and form.clock == clocks.get(form.event_type):
        return Placement("native", found.keys, False, form.reason, form=form)
    why = form if isinstance(form, str) else f"Spark itself could group batches if {form.clock} were the time"
    return replace(found, reason=f"{found.reason}; {why}")


def _ordered(
    line: StatementDependencies,
    needs: Mapping[str, KeyRequirement | str],
    ticks: bool,
    parts: str | None,
    reach: str | None,
) -> Placement:
    """In one task, with what forbids to divide it."""
    refused = [(name, reason) for name, reason in needs.items() if isinstance(reason, str)]
    together = any(isinstance(s, nodes.CycleStatement) or s.lots for s in line.selects)  # which have no contexts
    advice = "" if line.contexts or together else PARTITION_ADVICE
    if any(isinstance(partition_streams(context), str) for context in line.contexts):
        advice = NESTED_CONTEXT_ADVICE
    if refused:
        refused.sort(key=lambda each: each[0] != line.target)
        name, reason = refused[0]
        who = "" if name == line.target else f"{name}, which feeds it: "
        reason = f"{who}{reason}"
    elif line.stores:
        names = ", ".join(dict.fromkeys(str(created_store(s)) for s in line.stores))
        reason = f"it reads or changes {names}, which no property of all its events divides"
    else:
        reason = "no property divides all the state of the statement and what feeds it"
    reason = parts or reason
    return Placement("ordered", (), ticks, f"{reason}; {reach}" if reach else reason, advice)
