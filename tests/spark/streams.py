"""What the stateful processors of a stream deliver of a history that the kernel has had, without Spark.

Each micro-batch has a new processor, as after a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from cepbook.errors import EventError
from cepbook.lang.plan.dependencies import dependencies_of
from cepbook.lang.plan.nodes import CycleStatement, SelectStatement
from cepbook.spark.execution.execution import _program, _properties_read, _task_modules, _without_slices
from cepbook.spark.plan.placement import place
from cepbook.spark.streaming.initial_state import STATE_COLUMNS, states_due_at_start
from cepbook.spark.streaming.processor import EngineProcessor, to_ipc_bytes
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.stream_columns import TASK, TICKS
from tests.spark.tasks import TASKS, Recorded, batch, divided, failing_otherwise, otherwise, shown

END = 10**8


class Store:
    """What Spark keeps between two calls, of one key."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None
        self.timers: set[int] = set()

    def getValueState(self, name: str, schema: str) -> Store:  # the names are Spark's
        return self

    def exists(self) -> bool:
        return self.value is not None

    def get(self) -> tuple[Any, ...] | None:
        return self.value

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value

    def listTimers(self) -> Iterator[int]:
        return iter(self.timers)

    def registerTimer(self, at: int) -> None:
        self.timers.add(at)

    def deleteTimer(self, at: int) -> None:
        self.timers.discard(at)


class Watermark:
    def __init__(self, at: int) -> None:
        self.at = at

    def getCurrentWatermarkInMs(self) -> int:
        return self.at


def delivered(taken: Iterator[Row]) -> list[dict[str, Any]]:
    """The rows that a processor packed."""
    return [each for row in taken for part in pa.ipc.open_stream(row["payload"]) for each in part.to_pylist()]


def of_division(
    program: TaskProgram,
    parts: list[tuple[int, pa.RecordBatch | None]],
    until: int,
    number: int = 0,
    begin: Row | None = None,
) -> list[dict[str, Any]]:
    """What is delivered of micro-batches, with the watermark before each, and of one at which it passes `until`."""
    store, before, rows = Store(), 0, []
    if begin is not None:
        processor = EngineProcessor(program, True)
        processor.init(store)  # type: ignore[arg-type]
        processor.handleInitialState(number, begin, Watermark(0))
    for watermark, events in (*parts, (until, None)):
        processor = EngineProcessor(program, True)
        processor.init(store)  # type: ignore[arg-type]
        if events is not None and len(events):
            payload = iter([Row(payload=to_ipc_bytes(events))])
            rows += delivered(processor.handleInputRows(number, payload, Watermark(watermark)))
        if any(before < timer <= watermark for timer in store.timers):  # Spark never looks at earlier ones again
            rows += delivered(processor.handleExpiredTimer(number, Watermark(watermark), None))
        before = watermark
    return rows


def differences(engine: Recorded, rng: Random, until: int) -> tuple[list[str], Counter[str]]:
    """Where a stream delivers something else than the kernel, whose clock stopped whenever something was due."""
    runtime, paths, wrong = engine.runtime, Counter[str](), []
    types = runtime.catalog.event_types
    plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
    frames = dict.fromkeys(dict.fromkeys(name for name, _, _ in engine.events))
    size = rng.choice((3, 20, 70))
    for each in plans:
        if not isinstance(each, SelectStatement | CycleStatement) or each.name not in runtime.statements:
            continue
        line = dependencies_of(each.name, plans, runtime.catalog, frames)
        at = replace(_without_slices(place(line, runtime.catalog)), ticks=False)
        if not line.inputs:
            continue
        read = _properties_read([line], frames, runtime.catalog)
        program = _program([line], runtime, frames, read, engine.start)
        if at.shards is not None:
            program = replace(program, task_modules=_task_modules(program, at.shards, TASKS))
        program = replace(program, upstream=line.feeders)
        names = [each.split()[0] for each in STATE_COLUMNS.split(", ")]
        begins = {row[0]: Row(**dict(zip(names, row, strict=True))) for row in states_due_at_start(program, at, TASKS)}
        found, failed = Counter[str](), Counter[str]()
        try:
            for number, numbers in enumerate(divided(program, at, engine)):
                parts: list[tuple[int, pa.RecordBatch | None]] = []
                watermark = 0
                for begin in range(0, len(engine.events), size):
                    here = range(begin, min(begin + size, len(engine.events)))
                    own = [n for n in numbers if n in here]
                    given = batch(program, at, engine, rng.sample(own, len(own))) if own else None
                    parts.append((watermark, None if given is None else given.drop_columns([TICKS, TASK])))
                    watermark = max(watermark, engine.events[here[-1]][1] - 1)  # or events of one time might be late
                rows = of_division(program, parts, until, number, begins.get(number))
                found.update(repr((r["time"], r["kind"], tuple(r["s0"].values()))) for r in rows if not r["error"])
                failed.update(r["statement"] for r in rows if r["error"])
            expected = shown(engine.rows[each.name], each.output_type.delivered, types)
        except EventError:  # values without a shape that tasks could be given
            paths["no fixed shape"] += 1
            continue
        paths[at.path] += 1
        title = f"{each.name} {at.path}, streamed"
        wrong += otherwise(title, found, expected)
        if engine.failed is not None:
            wrong += failing_otherwise(title, failed, engine.failed, program)
    return wrong, paths
