"""Which task gets the events of a key: by its hash; of large inputs such that all tasks get about as many.

Keys are seldom alike: of two tasks one may get three quarters of all events by hash alone. A job counts the events of
groups of keys, many groups for each task, and they are dealt, the largest first, each to the task that has the fewest
events. That reads the keys once more than the statement does, so small inputs are left to the hash. All events of a
group go to one task, whatever was counted.
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
"""Bytes of all frames (of Spark's what it estimates, of Parquet files their size) from which on events are counted."""
_GROUPS = 64  # for each task
_MOST = 4096
_CHEAP = {"Project", "Filter", "Relation", "LocalRelation", "InMemoryRelation", "FileScan", "Range"}  # to read twice
_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50}


def task_number_sql(inputs: TaskInputs, placement: Placement, tasks: int, dealt: Sequence[int] = ()) -> str:
    """The task that gets an event, as text of Spark SQL: as the group of its keys was `dealt`, else by their hash, and
    the first one where there are no keys. `inputs` are those of `hosted.Program`.
    """
    if placement.path != "by key":
        return "0"
    if not dealt:
        return f"pmod({_hash(inputs, placement)}, {tasks})"
    return f"array({', '.join(map(str, dealt))})[pmod({_hash(inputs, placement)}, {len(dealt)})]"


def key_columns(inputs: TaskInputs, placement: Placement) -> tuple[str, ...]:
    """The columns of the keys by which Spark itself can divide the events: those of one type."""
    if len(inputs) > 1 or not placement.keys:
        return ()
    ((_, columns),) = _keys(inputs, placement)
    return tuple(columns)


def _keys(inputs: TaskInputs, placement: Placement) -> list[tuple[int, list[str]]]:
    """For each input its tag and the columns of its keys."""
    keys = dict(placement.keys)
    return [(tag, [columns[properties.index(p)] for p in keys[name]]) for tag, name, properties, columns in inputs]


def _hash(inputs: TaskInputs, placement: Placement) -> str:
    """Keys are hashed as text, so that an int and a long of one value agree."""
    hashes = []
    for tag, columns in _keys(inputs, placement):
        own = ", ".join(f"CAST({column} AS STRING)" for column in columns)
        hashes.append((tag, f"hash({own})"))
    several = " ".join(f"WHEN {TAG} = {tag} THEN {own}" for tag, own in hashes)
    return hashes[0][1] if len(hashes) == 1 else f"CASE {several} END"


def shard_tasks(shards: ContextShards, inputs: TaskInputs, tasks: int) -> Column:
    """Return an expression for the array of tasks that get an event: those with one of its context partitions."""
    chosen: Any = F.array().cast("array<int>")
    for tag, name, properties, columns in inputs:
        column_of = dict(zip(properties, columns, strict=True))
        if isinstance(shards.spec, CategorySpec):
            own = _category_tasks(shards.spec, column_of, tasks)
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
    """Whether it pays to count the events of these frames; where nobody knows how large they are, or they are not just
    read, but calculated, it does not.
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
    found = re.search(r"Statistics\(sizeInBytes=([\d.]+) (\w+)", logical)
    if not _CHEAP.issuperset(re.findall(r"^[\s:+\-]*([A-Z]\w+)", logical, re.MULTILINE)):
        return None
    if found is None or found.group(2) not in _UNITS:
        return None
    return int(float(found.group(1)) * 2 ** _UNITS[found.group(2)])


def balanced_assignment(events: SqlQuery, inputs: TaskInputs, placement: Placement, tasks: int) -> list[int]:
    """The task of each group of keys, of the tagged `events`: a job that reads the keys. Errors: EventError."""
    groups = min(_GROUPS * tasks, max(_MOST, tasks))
    parts = events.select(f"{task_number_sql(inputs, placement, groups)} AS part")
    counts = parts.grouped(["part"], ["count(1) AS events"]).frame
    rows = run_action(counts.collect, counts.sparkSession)
    return assign_key_groups({row[0]: row[1] for row in rows}, groups, tasks)


def assign_key_groups(counts: Mapping[int, int], groups: int, tasks: int) -> list[int]:
    """By group the task: the largest groups first, each to the task that has the fewest events (and groups)."""
    loads = [(0, 0, task) for task in range(tasks)]
    heapify(loads)
    found = [0] * groups
    for group in sorted(range(groups), key=lambda each: (-counts.get(each, 0), each)):
        events, number, task = loads[0]
        found[group] = task
        heapreplace(loads, (events + counts.get(group, 0), number + 1, task))
    return found
