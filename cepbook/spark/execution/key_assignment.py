"""The task that gets the events of a key: by hash, or, for large inputs, so that all tasks get about as many events.

Keys are rarely alike: by hash alone one of two tasks may get three quarters of all events. A job counts the events of
*key groups*, many for each task. The groups are assigned, the largest first, each to the task with the fewest events.
This reads the keys once more than the statement does, so small inputs are left to the hash. All events of a group go to
one task, whatever was counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Any, cast

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from cepbook.lang.plan.context import CategorySpec
from cepbook.spark.execution.spark_actions import run_action
from cepbook.spark.frames.sql_conditions import condition_sql
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.frames.tagged_stream import open_frame, physical_plan
from cepbook.spark.plan.context_shards import ContextShards, hash_buckets, hashed_properties
from cepbook.spark.plan.placement import Placement
from cepbook.spark.task.program import TaskInputs
from cepbook.spark.task.stream_columns import TAG

BALANCING_THRESHOLD = 2**23
"""Bytes of all frames (Spark's estimate, or the size of Parquet files) from which on events are counted first."""
_GROUPS_PER_TASK = 64  # for each task
_MAX_GROUPS = 4096
_CHEAP_NODES = {
    "Project",
    "Filter",
    "Relation",
    "LocalRelation",
    "InMemoryRelation",
    "FileScan",
    "Range",
}  # to read twice
_BYTE_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50}


def task_number_sql(inputs: TaskInputs, placement: Placement, tasks: int, group_tasks: Sequence[int] = ()) -> str:
    """Return the task of an event as SQL: the task of its key group if there are `group_tasks`, else by hash; 0 without
    keys.
    """
    if placement.path != "by key":
        return "0"
    if not group_tasks:
        return f"pmod({_key_hash(inputs, placement)}, {tasks})"
    return f"array({', '.join(map(str, group_tasks))})[pmod({_key_hash(inputs, placement)}, {len(group_tasks)})]"


def key_columns(inputs: TaskInputs, placement: Placement) -> tuple[str, ...]:
    """Return the key columns if Spark itself can divide the events by them: those of one type."""
    if len(inputs) > 1 or not placement.keys:
        return ()
    ((_, columns),) = _key_columns(inputs, placement)
    return tuple(columns)


def _key_columns(inputs: TaskInputs, placement: Placement) -> list[tuple[int, list[str]]]:
    """Return by input its tag and the columns of its keys."""
    keys = dict(placement.keys)
    return [(tag, [columns[properties.index(p)] for p in keys[name]]) for tag, name, properties, columns in inputs]


def _key_hash(inputs: TaskInputs, placement: Placement) -> str:
    """Return the hash of the keys as text, so that an int and a long of equal value agree."""
    hashes = []
    for tag, columns in _key_columns(inputs, placement):
        columns_text = ", ".join(f"CAST({column} AS STRING)" for column in columns)
        hashes.append((tag, f"hash({columns_text})"))
    several = " ".join(f"WHEN {TAG} = {tag} THEN {columns_text}" for tag, columns_text in hashes)
    return hashes[0][1] if len(hashes) == 1 else f"CASE {several} END"


def shard_tasks(shards: ContextShards, inputs: TaskInputs, tasks: int) -> Column:
    """Return an expression for the array of tasks that get an event: those with one of its context partitions."""
    chosen: Any = F.array().cast("array<int>")
    for tag, name, properties, columns in inputs:
        column_of = dict(zip(properties, columns, strict=True))
        if shards.categories is not None:
            own = _category_tasks(shards.categories, column_of, tasks)
        else:
            bucket: Any = arrow_udf(_hash_function(shards, name), "int", ArrowUDFType.SCALAR)
            number = bucket(*(F.col(column_of[name]) for name in hashed_properties(shards, name)))
            own = F.array(F.pmod(number, F.lit(tasks)).cast("int"))
        chosen = F.when(F.col(TAG) == tag, own).otherwise(chosen)
    return cast("Column", chosen)


def _category_tasks(spec: CategorySpec, column_of: Mapping[str, str], tasks: int) -> Column:
    cases = []
    for task in range(min(tasks, len(spec.categories))):
        conditions = [condition_sql(condition, column_of) for _, condition in spec.categories[task::tasks]]
        any_holds = " OR ".join(f"coalesce({condition}, FALSE)" for condition in conditions)
        cases.append(f"CASE WHEN {any_holds} THEN {task} END")
    return F.expr(f"array_compact(array({', '.join(cases)}))")


def _hash_function(shards: ContextShards, name: str) -> Callable[..., pa.Array]:
    """Return the function that Spark's workers call; it names nothing of this module, which they need not load."""

    def buckets(*columns: pa.Array) -> pa.Array:
        return pa.array(hash_buckets(shards, name, [column.to_pylist() for column in columns]), pa.int32())

    return buckets


def is_worth_balancing(session: SparkSession, frames: Iterable[Any]) -> bool:
    """Return whether the frames are large enough to count their events first.

    It is False where a size is unknown, or where a frame is computed and not just read.
    """
    sizes = [_size(open_frame(session, frame)) for frame in frames]
    known = [size for size in sizes if size is not None]
    return len(known) == len(sizes) and sum(known) >= BALANCING_THRESHOLD


def _size(frame: Any) -> int | None:
    if isinstance(frame, pa.Table):
        return int(frame.nbytes)
    if isinstance(frame, pd.DataFrame):
        return int(frame.memory_usage().sum())
    logical = physical_plan(frame, "cost").partition("== Physical Plan")[0]
    match = re.search(r"Statistics\(sizeInBytes=([\d.]+) (\w+)", logical)
    if not _CHEAP_NODES.issuperset(re.findall(r"^[\s:+\-]*([A-Z]\w+)", logical, re.MULTILINE)):
        return None
    if match is None or match.group(2) not in _BYTE_UNITS:
        return None
    return int(float(match.group(1)) * 2 ** _BYTE_UNITS[match.group(2)])


def balanced_assignment(events: SqlQuery, inputs: TaskInputs, placement: Placement, tasks: int) -> list[int]:
    """Return by key group its task, from a job that reads the keys of `events`. Errors: EventError."""
    groups = min(_GROUPS_PER_TASK * tasks, max(_MAX_GROUPS, tasks))
    parts = events.select(f"{task_number_sql(inputs, placement, groups)} AS part")
    counts = parts.grouped(["part"], ["count(1) AS events"]).frame
    rows = run_action(counts.collect, counts.sparkSession)
    return assign_key_groups({row[0]: row[1] for row in rows}, groups, tasks)


def assign_key_groups(counts: Mapping[int, int], groups: int, tasks: int) -> list[int]:
    """Return by key group its task: the largest first, each to the task with the fewest events so far."""
    loads = [(0, 0, task) for task in range(tasks)]
    heapify(loads)
    tasks_by_group = [0] * groups
    for group in sorted(range(groups), key=lambda group: (-counts.get(group, 0), group)):
        events, number, task = loads[0]
        tasks_by_group[group] = task
        heapreplace(loads, (events + counts.get(group, 0), number + 1, task))
    return tasks_by_group
