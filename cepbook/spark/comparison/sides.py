"""The two sides of a comparison, each a workbench or frames; a run on Spark is in `spark_side`.

`side_of` in `comparison_report` chooses the class for what the user passes. A new kind of side is a subclass of
`ComparedSide` with a case there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import QueryStatement, StatementDependencies, dependencies_of
from cepbook.lang.types import Type
from cepbook.spark.comparison.typed_rows import (
    StatementRows,
    TypedColumn,
    concat_columns,
    rows_of_frame,
    typed_column,
    value_families,
)


class ComparedSide(ABC):
    """One side of a comparison: the rows of its statements, and what it knows about where they come from."""

    second: int | None = None  # units of the clock per second; None if the side has no clock
    accepts_events = False  # True if events may be sent to it outside a replay

    @property
    @abstractmethod
    def statements(self) -> Sequence[str]:
        """The names of the statements whose rows it holds."""

    @property
    def queries(self) -> Sequence[str]:
        """The statements that are queries, which Spark may be able to run; all statements where that is not known."""
        return self.statements

    @abstractmethod
    def rows(self, name: str, second: int) -> StatementRows:
        """Return the rows of a statement, with times in units of a clock that has `second` units per second.

        A side with a clock gets the `second` of this clock, because sides with different clocks are not compared.
        """

    def failures(self) -> Mapping[str, int]:
        """Return by statement how often it failed at run time, as far as that is known."""
        return {}

    def feeders(self, name: str) -> Sequence[str]:
        """Return the names of all statements and contexts that feed a statement, directly or indirectly, if known."""
        return ()

    def by_hand(self, names: Iterable[str]) -> Mapping[str, int]:
        """Return how many events were sent by hand (with `send`, not by a replay), by event type.

        Only types that one of the statements `names` reads, directly or indirectly, are in the result.
        """
        return {}

    def clock_by_hand(self) -> int | None:
        """Return the time in clock units to which the user moved the clock after the last replayed event, or None."""
        return None


class FramesSide(ComparedSide):
    """Frames and tables by the names of statements."""

    def __init__(self, frames: Mapping[Any, Any]) -> None:
        self._frames = frames

    @property
    def statements(self) -> Sequence[str]:
        return [str(name) for name in self._frames]

    def rows(self, name: str, second: int) -> StatementRows:
        return rows_of_frame(self._frames[name], name, second)


class WorkbenchSide(ComparedSide):
    """A workbench: the rows that its feeds still have. The rows that they dropped count as `StatementRows.lost`."""

    accepts_events = True

    def __init__(self, workbench: Any) -> None:  # a Workbench; `session` imports `spark`, not the other way round
        self._workbench = workbench
        self.second = workbench.runtime.config.second

    @property
    def statements(self) -> Sequence[str]:
        return list(self._workbench.runtime.statements)

    @property
    def queries(self) -> Sequence[str]:
        names_of_queries = {plan.name for plan in self._workbench.runtime.plans if isinstance(plan, QueryStatement)}
        return [name for name in self.statements if name in names_of_queries]

    def rows(self, name: str, second: int) -> StatementRows:
        feed, runtime = self._workbench.feed(name), self._workbench.runtime
        properties = runtime.statements[name].output_type.properties
        times: list[Any] = [np.empty(0, np.int64)]  # with an empty piece, so that no rows can be concatenated too
        is_remove: list[Any] = [np.empty(0, bool)]
        pieces: dict[str, list[TypedColumn]] = {c: [typed_column([])] for c in properties}
        for piece in feed.everything():
            times.append(np.array(piece.times, np.int64))
            is_remove.append(~np.array(piece.inserts, bool))
            for c in properties:
                pieces[c].append(typed_column(_as_declared(piece.column(c), properties[c], runtime.catalog)))
        columns = {c: concat_columns(pieces[c]) for c in properties}
        time = np.concatenate(times)
        lost = feed.total_insert + feed.total_remove - len(time)
        return StatementRows(time, np.concatenate(is_remove), columns, lost, column_families=value_families(properties))

    def failures(self) -> Mapping[str, int]:
        failed: Mapping[str, int] = self._workbench.failed
        return failed

    def feeders(self, name: str) -> Sequence[str]:
        return self._dependencies(name, ()).feeders

    def by_hand(self, names: Iterable[str]) -> Mapping[str, int]:
        sent: Mapping[str, int] = self._workbench.by_hand
        read = {event_type for name in names for event_type in self._dependencies(name, sent).inputs}
        return {event_type: count for event_type, count in sent.items() if event_type in read}

    def clock_by_hand(self) -> int | None:
        moved = self._workbench.clock_by_hand
        return None if moved is None else int(moved)

    def _dependencies(self, name: str, event_types: Iterable[str]) -> StatementDependencies:
        """Return the dependencies of a statement; its `inputs` are those of `event_types` that they read."""
        return dependencies_of(name, self._workbench.runtime.plans, self._workbench.runtime.catalog, event_types)


def _as_declared(values: list[Any], type_: Type, catalog: Catalog) -> list[Any]:
    """Remove from events, and from arrays of events, the properties that only a subtype has.

    Spark's columns have the properties of the declared type. Other values are returned unchanged.
    """
    if type_.of is not None and type_.of.event is not None:  # arrays of events
        return [None if value is None else _as_declared(value, type_.of, catalog) for value in values]
    declared = catalog.event_types.get(type_.event or "")
    has_subtypes = any(type_.event in other.supertypes for other in catalog.event_types.values())
    if declared is None or not has_subtypes:
        return values
    names = declared.properties
    return [{k: v for k, v in event.items() if k in names} if isinstance(event, dict) else event for event in values]
