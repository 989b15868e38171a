"""The sides of a comparison: a workbench, a run on Spark, or frames; each with what it knows of its statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cepbook.errors import UsageError
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import QueryStatement, StatementDependencies, dependencies_of
from cepbook.lang.plan.nodes import StatementPlan
from cepbook.lang.types import Type
from cepbook.spark.comparison.typed_rows import (
    StatementRows,
    TypedColumn,
    column_of_arrow,
    concat_columns,
    delivery_times,
    remove_mask,
    rows_of_frame,
    typed_column,
    value_families,
)

if TYPE_CHECKING:
    from cepbook.spark.execution.spark_run import SparkRun


class ComparedSide(Protocol):
    """What `compare` asks of a side."""

    @property
    def statements(self) -> Sequence[str]:
        """The names of the statements whose rows it holds."""

    @property
    def queries(self) -> Sequence[str]:
        """Of these those that a run on Spark can have."""

    @property
    def second(self) -> int | None:
        """How many units of the clock a second has; None where it does not say."""

    @property
    def live(self) -> bool:
        """Whether events may be sent to it one by one."""

    def rows(self, name: str, second: int) -> StatementRows:
        """The rows of a statement, with times in units of a clock of which a `second` has so many."""

    def failures(self) -> Mapping[str, int]:
        """How often what it has now failed at run time, by statement, as far as it knows."""

    def feeders(self, name: str) -> Sequence[str]:
        """The names of all that feeds a statement, as far as it knows."""

    def by_hand(self, names: Iterable[str]) -> Mapping[str, int]:
        """Of the events that were sent to it by hand those that statements of these names read, by type."""


def side_of(source: Any) -> ComparedSide:
    """What `source` is. Errors: UsageError where nothing can be compared with it."""
    if isinstance(source, Mapping):
        return _Frames(source)
    if hasattr(source, "to_arrow") and hasattr(source, "statements"):
        return _Run(source)
    if hasattr(source, "feed") and hasattr(source, "runtime"):
        return _Workbench(source)
    expected = "expected a Workbench, a SparkRun or a mapping of statement -> DataFrame"
    raise UsageError(f"cannot compare {type(source).__name__}: {expected}")


class _Frames:
    """Frames and tables by the names of statements."""

    second: int | None = None
    live = False

    def __init__(self, frames: Mapping[Any, Any]) -> None:
        self._frames = frames
        self.statements = self.queries = [str(name) for name in frames]

    def rows(self, name: str, second: int) -> StatementRows:
        return rows_of_frame(self._frames[name], name, second)

    def failures(self) -> Mapping[str, int]:
        return {}

    def feeders(self, name: str) -> Sequence[str]:
        return ()

    def by_hand(self, names: Iterable[str]) -> Mapping[str, int]:
        return {}


class _Run:
    """A run on Spark."""

    live = False

    def __init__(self, run: SparkRun) -> None:
        self._run = run
        self.statements = self.queries = list(run.statements)
        self.second: int | None = run.second

    def rows(self, name: str, second: int) -> StatementRows:
        run = self._run
        table, shown = run.to_arrow(name), run.columns(name)
        columns = {own: column_of_arrow(table.column(there)) for own, there in shown.items()}
        for own, read in run.readers(name).items():
            columns[own] = typed_column([None if v is None else read(v) for v in columns[own].plain()])
        float32_columns = frozenset(
            own for own, there in shown.items() if str(table.schema.field(there).type) == "float"
        )
        order, column_families = "" if run.certain else run.order, value_families(run.types(name))
        return StatementRows(
            delivery_times(table, second),
            remove_mask(table),
            columns,
            column_families=column_families,
            float32_columns=float32_columns,
            order=order,
        )

    def failures(self) -> Mapping[str, int]:
        return Counter(self._run.errors()["statement"].tolist())

    def feeders(self, name: str) -> Sequence[str]:
        return () if self._run.given is None else self._run.given.feeders.get(name, ())

    def by_hand(self, names: Iterable[str]) -> Mapping[str, int]:
        return {}


class _Workbench:
    """A workbench: all rows since its statements were deployed."""

    live = True

    def __init__(self, workbench: Any) -> None:
        self._workbench = workbench
        self.statements = list(workbench.runtime.statements)
        self.second: int | None = workbench.runtime.config.second

    @property
    def queries(self) -> Sequence[str]:
        found = {plan.name for plan in self._plans() if isinstance(plan, QueryStatement)}
        return [name for name in self.statements if name in found]

    def rows(self, name: str, second: int) -> StatementRows:
        feed, runtime = self._workbench.feed(name), self._workbench.runtime
        properties = runtime.statements[name].output_type.properties
        times: list[Any] = [np.empty(0, np.int64)]
        remove: list[Any] = [np.empty(0, bool)]
        parts: dict[str, list[TypedColumn]] = {c: [typed_column([])] for c in properties}
        for found in feed.everything():
            times.append(np.array(found.times, np.int64))
            remove.append(~np.array(found.inserts, bool))
            for c in properties:
                parts[c].append(typed_column(_declared(found.column(c), properties[c], runtime.catalog)))
        columns = {c: concat_columns(parts[c]) for c in properties}
        time = np.concatenate(times)
        lost = feed.total_insert + feed.total_remove - len(time)
        return StatementRows(time, np.concatenate(remove), columns, lost, column_families=value_families(properties))

    def failures(self) -> Mapping[str, int]:
        failed: Mapping[str, int] = self._workbench.failed
        return failed

    def feeders(self, name: str) -> Sequence[str]:
        return self._pipeline(name, ()).feeders

    def by_hand(self, names: Iterable[str]) -> Mapping[str, int]:
        sent: Mapping[str, int] = self._workbench.by_hand
        read = {each for name in names for each in self._pipeline(name, sent).inputs}
        return {name: count for name, count in sent.items() if name in read}

    def _pipeline(self, name: str, given: Iterable[str]) -> StatementDependencies:
        return dependencies_of(name, self._plans(), self._workbench.runtime.catalog, given)

    def _plans(self) -> list[StatementPlan]:
        deployments = self._workbench.runtime.deployments.values()
        return [statement for deployment in deployments for statement in deployment.plan.statements]


def _declared(values: list[Any], of: Type, catalog: Catalog) -> list[Any]:
    """Events as their declared type has them, as in columns of Spark: without what a subtype adds."""
    if of.of is not None and of.of.event is not None:
        return [None if value is None else _declared(value, of.of, catalog) for value in values]
    found = catalog.event_types.get(of.event or "")
    if found is None or not any(of.event in each.supertypes for each in catalog.event_types.values()):
        return values
    names = found.properties
    return [{k: v for k, v in each.items() if k in names} if isinstance(each, dict) else each for each in values]
