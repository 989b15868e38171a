"""What a worker is sent to run: plans, event types and names of columns, all plain data.

A program holds no compiled statement, session, lock or text that has to be parsed. This module loads neither Spark nor
Arrow, so that planning can use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cepbook.engine.config import Config
from cepbook.lang.plan import expressions, nodes
from cepbook.lang.plan.catalog import EventType, FunctionType
from cepbook.lang.plan.nodes import ModulePlan
from cepbook.lang.types import Type

TaskInputs = tuple[tuple[int, str, tuple[str, ...], tuple[str, ...]], ...]
"""By event type its tag, its name, the properties that are read and their columns in the stream."""

BASE_AGGREGATE = {"count": "number", "sum": "total", "avg": "total", "min": "lowest", "max": "highest"}
"""What aggregates are made of."""


@dataclass(frozen=True, slots=True)
class VectorizedWindow:
    """A statement of one event type: `columns` are its own, each a property or an aggregate.

    Over the last `length` rows; or those of the last `span` (units of the clock, as are others); or batches of the
    `period` on the grid through `reference`: then `clock` is the property that must be the event's time.
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
    def reason(self) -> str:
        """What is done, in words."""
        of = f" of each {'+'.join(self.keys)}" if self.keys else ""
        if self.clock is not None:
            return f"whole numbers over batches{of}: Spark's own groups"
        last = f"the last {self.length} events" if self.length else f"the last {self.span / 1000:g} s"
        return f"aggregates over {last}{of}, by columns"


@dataclass(frozen=True, slots=True)
class DeploymentStep:
    """One statement to deploy: its `name` in the workbench, a module of it alone, and whether its rows are wanted."""

    name: str
    module: ModulePlan
    collect: bool


@dataclass(frozen=True, slots=True)
class TaskProgram:
    """Everything that a task needs. `inputs` are (type name, properties, stream columns) by tag; a property that is the
    event's time may have the column `TIME`. `outputs` are the columns of collected statements, `others` what feeds
    these and has its failures told of here, `types` the event types that no step creates, `functions` the registered
    ones with their types, `variables` what `Runtime.define_variable` takes, with the values at the start. With `stops`
    the rows of `TICK` hold all times at which the clock of the whole stream stops. Tasks may differ: of the steps at
    the places in `shares` each has a module of its own, and with `begins` it delivers what has its time or a later one
    (None: all).
    With a `form` there is one statement of one input, whose events pass its filter, and it needs no engine (`columns`).
    What a stream keeps bears the `mark`.
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
    stops: bool = False
    shares: Mapping[int, tuple[ModulePlan, ...]] = field(default_factory=dict)
    begins: tuple[int | None, ...] = ()
    form: VectorizedWindow | None = None
    mark: str = ""
    others: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of what rows, or failures, are told, by the numbers that `COMPACT_COLUMNS` has."""
        return (*(name for name, _ in self.outputs), *self.others)

    @property
    def numbered(self) -> bool:
        """Whether a task must know its number: the rows have it in `TASK`."""
        return bool(self.shares or self.begins)
