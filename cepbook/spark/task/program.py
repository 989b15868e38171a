"""The program of a task: plans, event types and names of columns, all plain data that Spark sends to its workers.

A program holds no compiled statement, session, lock or text that has to be parsed. This module loads neither Spark nor
Arrow, so that planning can use it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cepbook.engine.config import Config
from cepbook.errors import SnapshotError
from cepbook.lang.plan import expressions, nodes
from cepbook.lang.plan.catalog import EventType, FunctionType
from cepbook.lang.plan.nodes import ModulePlan
from cepbook.lang.types import Type

STATE_FORMAT = 1  # of what `processor` keeps
OUTDATED_STATE = "was written by a version of cepbook with another format: it would not fit"
_MISMATCHES = (
    ("format", OUTDATED_STATE),
    ("code", "holds the state of other statements, or of another version of cepbook: it would not fit"),
    ("divided", "holds a state that is divided in another way ({there}, here {here}): it would be incomplete"),
    ("events", "holds events with other columns ({there}, here {here}): they would not fit"),
)
RESTART_HINT = (
    "\n  hint: continue with the original statements and data, or start over with another checkpoint and directory"
)
_INITIAL_HINT = "\n  hint: pass the same `initial=` again, or start over with another checkpoint"

TaskInputs = tuple[tuple[int, str, tuple[str, ...], tuple[str, ...]], ...]
"""By event type its tag, its name, the properties that are read and their columns in the stream."""

BASE_AGGREGATE = {"count": "number", "sum": "total", "avg": "total", "min": "lowest", "max": "highest"}
"""The values that aggregates are computed from."""


@dataclass(frozen=True, slots=True)
class VectorizedWindow:
    """A statement of one event type with a row for each event, or each batch; columns are properties or aggregates.

    It covers the last `length` rows, or the last `span` (units of the clock, as all times here), or batches of the
    `period` on the grid through `reference`. For batches `clock` is the property that must be the event time.
    """

    event_type: str
    keys: tuple[str, ...]
    filter: expressions.BoundExpr | None
    columns: tuple[str | nodes.AggregateCall, ...]
    length: int = 0
    span: int = 0
    period: int = 0
    reference: int = 0
    clock: str | None = None

    @property
    def calls(self) -> tuple[nodes.AggregateCall, ...]:
        """The aggregates among the columns."""
        return tuple(column for column in self.columns if not isinstance(column, str))

    @property
    def reason(self) -> str:
        """How the window is computed, for reports."""
        of_keys = f" of each {'+'.join(self.keys)}" if self.keys else ""
        if self.clock is not None:
            return f"whole numbers over batches{of_keys}: Spark's own groups"
        last = f"the last {self.length} events" if self.length else f"the last {self.span / 1000:g} s"
        return f"aggregates over {last}{of_keys}, by columns"


def window_call_names(window: VectorizedWindow) -> list[str]:
    """Return the columns of the statement that computes the aggregates of a window."""
    return [f"a{number}" for number in range(len(window.calls))]


@dataclass(frozen=True, slots=True)
class DeploymentStep:
    """A statement to deploy: its `name` in the workbench, its own module, and whether its rows are collected."""

    name: str
    module: ModulePlan
    collect: bool


@dataclass(frozen=True, slots=True)
class TaskProgram:
    """Everything that a task needs to run statements.

    - `steps`, `types`, `functions`, `variables`: what is deployed, in order; the event types that no step creates; the
      registered functions; variables as `Runtime.define_variable` takes them, with their values at the start.
    - `inputs`: by tag the event type, its properties and their columns; the event time may have the column `TIME`.
    - `outputs`, `upstream`: the columns of collected statements; upstream statements whose failures this task reports.
    - `leaps`: the clock moves from event to event and does not stop at due times in between.
    - `has_ticks`: rows with the tag `TICK` hold all times at which a clock that leaps stops.
    - `task_modules`: by position of a step a module per task, where tasks differ.
    - `slice_starts`: by task the time from which on it delivers (None: all); earlier rows belong to another task.
    - `window`: the vectorized window, if there is one; its events pass the filter, and the step computes aggregates
      (`window_call_names`).
    - `fingerprint`: the fingerprint of the state that a stream keeps.
    """

    steps: tuple[DeploymentStep, ...]
    types: tuple[EventType, ...]
    inputs: TaskInputs
    outputs: tuple[tuple[str, EventType], ...]
    nested: Mapping[str, EventType]
    config: Config
    start: int
    functions: Mapping[str, tuple[Callable[..., Any], FunctionType]] = field(default_factory=dict)
    variables: tuple[tuple[str, Type, Any, bool], ...] = ()
    leaps: bool = False
    has_ticks: bool = False
    task_modules: Mapping[int, tuple[ModulePlan, ...]] = field(default_factory=dict)
    slice_starts: tuple[int | None, ...] = ()
    window: VectorizedWindow | None = None
    fingerprint: str = ""
    upstream: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The statements that report rows or failures, in the order of the numbers in `COMPACT_COLUMNS`."""
        return (*(name for name, _ in self.outputs), *self.upstream)

    @property
    def numbered(self) -> bool:
        """True if a task must know its number, which the rows have in `TASK`."""
        return bool(self.task_modules or self.slice_starts)


def check_fingerprint(expected: str, actual: str | None, where: str = "the checkpoint") -> None:
    """Raise `SnapshotError` unless the fingerprint of a state is the expected one; an old state has none (None)."""
    if expected == actual:
        return
    here, there = (json.loads(text or "{}") for text in (expected, actual))
    for name, message in _MISMATCHES:
        if there.get(name) != here.get(name):
            text = message.format(there=there.get(name), here=here.get(name))
            hint = _INITIAL_HINT if name == "divided" and there[name] == "whole" else RESTART_HINT
            raise SnapshotError(f"{where} {text}{hint}")
