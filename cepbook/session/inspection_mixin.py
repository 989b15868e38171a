"""The methods of `Workbench` that inspect it without changing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from cepbook.engine.statements.state_limit import KINDS, state_counts
from cepbook.engine.statements.state_size import estimated_bytes
from cepbook.errors import Diagnostic, StatementError, rejecting_deep_nesting
from cepbook.feeds import Feed
from cepbook.session.core.cpu_sampler import CpuSampler
from cepbook.session.explain.marble import Marble, build_marble
from cepbook.session.inspect.compiler_stages import explain_stage
from cepbook.session.inspect.dataflow_graph import DataflowGraph, build_graph
from cepbook.session.inspect.metrics import metrics_frame
from cepbook.session.inspect.partition_selectors import Selector, selected_ids, selected_rows
from cepbook.session.inspect.problems import find_problems
from cepbook.session.inspect.state_frames import partials_frame, partitions_frame
from cepbook.session.inspect.statement_table import statements_frame
from cepbook.session.inspect.store_table import stores_frame
from cepbook.session.inspect.stream_chart import build_stream_chart
from cepbook.session.inspect.timeline import Timeline, build_timeline
from cepbook.session.io.output.time_types import DATES
from cepbook.session.io.time_conversion import ClockTime
from cepbook.session.replay_mixin import ReplayMixin


class InspectionMixin(ReplayMixin):
    """Deployments, rows, matches, context partitions and metrics."""

    def statements(self) -> pd.DataFrame:
        """Return all statements in order of deployment: name, kind, context, reads, columns, rows, text."""
        return statements_frame(self._engine.runtime, self._engine.feed)

    def cell_of(self, deployment: str) -> str | None:
        """Return the `cell` of the `Workbench.run` that made a deployment; None if it had none."""
        owned = self._cells.get(deployment)
        return None if owned is None else owned.cell

    def stores(self) -> pd.DataFrame:
        """Return all named windows and tables: kind, context, keys, indexes, sizes, rows, columns."""
        with self._lock:
            return stores_frame(self._engine.runtime)

    @property
    def errors(self) -> tuple[StatementError, ...]:
        """The latest 1,000 run-time errors of statements, oldest first; `failures` counts all."""
        return tuple(self._engine.runtime.errors)

    @property
    def failures(self) -> Mapping[str, int]:
        """The number of run-time errors by statement since the workbench began."""
        return dict(self._engine.failed)

    @property
    def failed(self) -> Mapping[str, int]:
        """Errors by statement and context since its deployment, never cleared; rows may be missing."""
        return dict(self._engine.failed_since_deployed)

    def clear_errors(self) -> None:
        """Clear `errors` and `failures`."""
        with self._lock:
            self._engine.runtime.errors.clear()
            self._engine.failed.clear()

    def explain(self, name_or_epl: str, stage: str = "plan") -> str:
        """Print a compiler stage of a deployed statement, or of any EPL text.

        Stages: ``ast``, ``plan``, ``rewritten``, ``python`` (the generated code), ``coverage`` (which engines run it).
        """
        with rejecting_deep_nesting():
            return explain_stage(self._engine.runtime, name_or_epl, stage)

    def problems(
        self, epl: str, *, cell: str | None = None, dialect: str = "epl", alone: bool = False, **settings: Any
    ) -> tuple[Diagnostic, ...]:
        """Return the problems for which `run` would refuse the same arguments, judged by text, names and types. Runs
        nothing.

        `alone`: the text is a module of its own that sees none of the deployments here.
        """
        return find_problems(self._engine.runtime, self._cells, epl, cell, dialect, settings, alone)

    def feed(self, name: str) -> Feed:
        """Return the latest deliveries of a statement. A redeployed statement gets a new feed."""
        return self._engine.feed(name)

    def iterate(self, name: str, selector: Selector | None = None) -> list[dict[str, Any]]:
        """Return the rows that the statement's iterator shows now, by ascending partition id in a context.

        If there are none because the statement keeps no rows (`keeps_rows`), a MissingRowsWarning says so.

        `selector` chooses partitions: an id, several ids, a dict of property values, a function of the properties, or a
        selector of `cepbook.session` (`ByKey`, `ByCategory` …). Raises UsageError for an unknown name, and for a
        selector of a statement without a context or of another kind than the context.
        """
        with self._lock:
            return selected_rows(self._engine.runtime, name, selector)

    def keeps_rows(self, name: str) -> bool:
        """Return True if `to_frame` can show rows of the statement: it has a data window, or is one row of aggregates.

        ``@IterableUnbound`` makes a statement keep its last rows, ``Config(iterable_unbound=True)`` all of them.
        """
        return self._engine.statement(name).keeps_rows

    def state_sizes(self) -> pd.DataFrame:
        """Return how much each statement keeps: rows, groups, open partial matches, rows that wait for its output
        clause, context partitions, and the estimated bytes.

        `state_limit` applies to the sum of the former, or to the bytes.
        """
        with self._lock:
            self.runtime.entered()
            rows = [
                (name, *(counts[kind] for kind in KINDS), estimated_bytes(statement))
                for name, statement in self.runtime.statements.items()
                for counts in [state_counts(statement)]
            ]
        return pd.DataFrame(rows, columns=["statement", *KINDS, "bytes"])

    def chart(self, name: str, *, y: str | Sequence[str] | None = None, by: str | None = None) -> Any:
        """Return an altair chart of the rows that statement `name` inserted, over time.

        `y` names the column or columns to draw, by default the first one with floats, else with whole numbers. `by`
        names the column whose values are lines of their own, by default the first one of texts with at most 20 values.
        More than 5,000 rows are thinned; the extremes stay. ``%view --chart`` draws all rows, live. Raises UsageError
        for an unknown name, if there is no number to draw, and if altair is not installed.
        """
        changes = self.feed(name).whole(self.glance.time)
        return build_stream_chart(self.runtime, changes, name, y, "time", by)

    def marble(self, name: str, *, events: int = 20, label: str | Sequence[str] | None = None) -> Marble:
        """Return a marble diagram of statement `name`; notebooks show it as a chart.

        It has the last `events` arrivals, how long each was in the data window, and the insert and remove stream, on
        one time axis. `label` names the properties that stand for an event (default: the first text and number). The
        statement and what feeds it run again over the latest arrivals. Raises UsageError for an unknown name or
        property, and for `events` below 1 or above 200.
        """
        with self._lock:
            return build_marble(
                self._engine.runtime, self._engine.event_log, self._engine.feed(name), name, events, label
            )

    def partials(self, name: str, partition: int | None = None, *, times: str = DATES) -> pd.DataFrame:
        """Return the partial matches of statement `name`: what its pattern waits for, since when, and with which
        events.

        At most the first 200. Times are dates, with `times="ms"` numbers; the events are those of the engine. Raises
        UsageError for an unknown name or a statement without a pattern.
        """
        with self._lock:
            return partials_frame(self._engine.runtime, name, partition, times)

    def partitions(self, context: str, selector: Selector | None = None, *, times: str = DATES) -> pd.DataFrame:
        """Return the live partitions of a context by id: properties, statements, and sizes of their states.

        Properties of a level of a nested context are columns such as ``PerDay.key1``. ``retained``, ``groups`` and
        ``partials`` count events, groups and partial matches of all statements together. Times are dates, with
        `times="ms"` numbers.
        """
        with self._lock:
            ids = None if selector is None else selected_ids(self._engine.runtime, context, selector)
            return partitions_frame(self._engine.runtime, context, ids, times)

    def timeline(self, context: str, *, partitions: int = 50) -> Timeline:
        """Return when the last `partitions` partitions of a context were allocated and deallocated; notebooks show a
        chart.

        Raises UsageError for an unknown context, and for `partitions` below 1 or above 500.
        """
        with self._lock:
            return build_timeline(
                self._engine.runtime, self._engine.partition_lifetimes.of(context), context, partitions
            )

    def metrics(self) -> pd.DataFrame:
        """Return one row per statement: name, events, rows, state, cpu, latency, errors.

        ``events`` counts events of the types that the statement reads, before its filters; ``rows`` are the insert and
        remove rows delivered; ``state`` is the number of events, groups and partial matches held. ``cpu`` is in seconds
        while `sampler` measures (a visible map or panel makes it measure), else null. ``latency`` is microseconds per
        event, from the same figures. ``errors`` counts run-time errors.
        """
        with self._lock:
            stage = self._engine
            counts = stage.event_counts()
            return metrics_frame(stage.runtime, stage.feed, counts, stage.sampler, stage.failed)

    @property
    def sampler(self) -> CpuSampler:
        """Measures processor time by statement between its `start` and `stop`."""
        return self._engine.sampler

    def graph(self) -> DataflowGraph:
        """Return which event types, statements, streams, named windows and tables feed which."""
        with self._lock:
            return build_graph(self._engine.runtime)

    @property
    def by_hand(self) -> Mapping[str, int]:
        """The number of sent (`send`, ``%%events``), not replayed, events by type since the workbench began."""
        return dict(self._engine.event_log.by_hand)

    @property
    def clock_by_hand(self) -> ClockTime | None:
        """The time to which `advance` has moved the clock since the last replayed event; None if it did not."""
        time = self._engine.event_log.clock_by_hand
        return None if time is None else ClockTime(time, self._config.second)

    def seen_texts(self, event_type: str, name: str, most: int = 20) -> list[str]:
        """Return the texts that a property had in the latest events, in order; none if there were more than `most`."""
        with self._lock:
            seen = {v for v in self._engine.event_log.latest_values(event_type, name) if isinstance(v, str)}
        return sorted(seen) if len(seen) <= most else []

    def event_counts(self) -> dict[str, int]:
        """Return the number of events by type since the workbench began: sent, replayed, and inserted by statements."""
        return self._engine.event_counts()
