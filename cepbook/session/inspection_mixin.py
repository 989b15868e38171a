"""What a workbench tells of itself without a change: what is deployed and how, rows, matches, context partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from cepbook.errors import Diagnostic, StatementError, rejecting_deep_nesting
from cepbook.feeds import Feed
from cepbook.session.core.cpu_sampler import CpuSampler
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.explain.marble import Marble, build_marble
from cepbook.session.inspect.compiler_stages import explain_stage
from cepbook.session.inspect.dataflow_graph import DataflowGraph, build_graph
from cepbook.session.inspect.metrics import metrics_frame
from cepbook.session.inspect.partial_matches import partials_frame
from cepbook.session.inspect.partition_selectors import Selector, selected_ids, selected_rows
from cepbook.session.inspect.partition_table import partitions_frame
from cepbook.session.inspect.problems import find_problems
from cepbook.session.inspect.statement_table import statements_frame
from cepbook.session.inspect.store_table import stores_frame
from cepbook.session.inspect.timeline import Timeline, build_timeline


class InspectionMixin(WorkbenchCore):
    """The part of a workbench that looks."""

    def statements(self) -> pd.DataFrame:
        """All statements, in order of deployment: name, kind, context, what they read, columns, rows, text."""
        return statements_frame(self._engine.runtime, self._engine.feed)

    def cell_of(self, deployment: str) -> str | None:
        """The `cell` of the `Workbench.run` that made a deployment; None: none was given."""
        owned = self._cells.get(deployment)
        return None if owned is None else owned.cell

    def stores(self) -> pd.DataFrame:
        """All named windows and tables: kind, context, keys, indexes, sizes, rows, columns (from `stores_frame`)."""
        with self._lock:
            return stores_frame(self._engine.runtime)

    @property
    def errors(self) -> tuple[StatementError, ...]:
        """The latest errors of statements at run time, oldest first."""
        return tuple(self._engine.runtime.errors)

    @property
    def failures(self) -> Mapping[str, int]:
        """How often each statement failed at run time since the workbench began."""
        return dict(self._engine.failed)

    @property
    def failed(self) -> Mapping[str, int]:
        """How often each statement and context failed since it was deployed, which may have cost rows.

        `clear_errors` does not change it.
        """
        return dict(self._engine.failed_since_deployed)

    def clear_errors(self) -> None:
        """Forget the errors of statements that are told by `errors` and `failures`."""
        with self._lock:
            self._engine.runtime.errors.clear()
            self._engine.failed.clear()

    def explain(self, name_or_epl: str, stage: str = "plan") -> str:
        """What a stage of the compiler made of a deployed statement, or of any EPL text.

        Stages: ``ast``, ``plan``, ``rewritten``, ``python`` (the generated code), ``coverage`` (which engines run it).
        """
        with rejecting_deep_nesting():
            return explain_stage(self._engine.runtime, name_or_epl, stage)

    def problems(
        self, epl: str, *, cell: str | None = None, dialect: str = "epl", alone: bool = False, **settings: Any
    ) -> tuple[Diagnostic, ...]:
        """What `run` would refuse in the same arguments, as far as the text, its names and types tell; runs nothing.

        `alone`: the text is a module of its own, which sees nothing of what is deployed here.
        """
        return find_problems(self._engine.runtime, self._cells, epl, cell, dialect, settings, alone)

    def feed(self, name: str) -> Feed:
        """The latest deliveries of a statement. Deploying the statement anew gives it a new feed."""
        return self._engine.feed(name)

    def iterate(self, name: str, selector: Selector | None = None) -> list[dict[str, Any]]:
        """The rows that the statement's iterator shows now; of its context's partitions by ascending id.

        `selector` tells which partitions: an id, several ids, a dict of property values, a function of the properties,
        or what `cepbook.session.inspect.partition_selectors` makes. Raises UsageError for an unknown name, and for a
        selector of
        a statement without a context or of another kind than the context.
        """
        with self._lock:
            return selected_rows(self._engine.runtime, name, selector)

    def keeps_rows(self, name: str) -> bool:
        """Whether `to_frame` can show rows of the statement: it has a data window, or is one row of aggregates.

        ``@IterableUnbound`` makes a statement keep its last rows, ``Config(iterable_unbound=True)`` all of them.
        """
        return self._engine.statement(name).keeps_rows

    def marble(self, name: str, *, events: int = 20, label: str | Sequence[str] | None = None) -> Marble:
        """A marble diagram of statement `name`: its last `events` arrivals, how long each was in the data window, and
        the insert and remove stream, on one time axis. Notebooks show it as a chart.

        `label` names the properties that stand for an event (default: the first text and number). The statement, with
        what feeds it, runs again over the latest arrivals (`session.past.marble`). Raises UsageError for an unknown
        name or property, and for `events` below 1 or above 200.
        """
        with self._lock:
            return build_marble(
                self._engine.runtime, self._engine.event_log, self._engine.feed(name), name, events, label
            )

    def partials(self, name: str, partition: int | None = None) -> pd.DataFrame:
        """What the pattern of statement `name` waits for, since when, and with which events: its partial matches.

        At most the first `session.partials.SHOWN`. Raises UsageError for an unknown name or a statement without a
        pattern.
        """
        with self._lock:
            return partials_frame(self._engine.runtime, name, partition)

    def partitions(self, context: str, selector: Selector | None = None) -> pd.DataFrame:
        """The live partitions of a context, by id: their properties, statements, and what their states hold.

        Properties of a nested context's level are columns such as ``PerDay.key1``; ``retained``, ``groups`` and
        ``partials`` count events, groups and partial matches of all statements together.
        """
        with self._lock:
            ids = None if selector is None else selected_ids(self._engine.runtime, context, selector)
            return partitions_frame(self._engine.runtime, context, ids)

    def timeline(self, context: str, *, partitions: int = 50) -> Timeline:
        """When the last `partitions` partitions of a context were allocated and deallocated. Notebooks show a chart.

        Raises UsageError for an unknown context, and for `partitions` below 1 or above 500.
        """
        with self._lock:
            return build_timeline(
                self._engine.runtime, self._engine.partition_lifetimes.of(context), context, partitions
            )

    def metrics(self) -> pd.DataFrame:
        """One line per statement: name, events, rows, state, cpu, latency, errors.

        ``events`` of the types that it reads, whatever its filters said; insert and remove ``rows`` delivered; how many
        events, groups and partial matches its ``state`` holds; seconds of ``cpu`` while `sampler` measures (a shown map
        or panel has it measure), timed by slices of a replay and sampled where events are taken one by one, null when
        nobody has; the ``latency`` of an event, in microseconds, from these and the events meanwhile; ``errors`` at
        run time.
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
        """Which event types, statements, streams, named windows and tables feed which."""
        with self._lock:
            return build_graph(self._engine.runtime)

    @property
    def by_hand(self) -> Mapping[str, int]:
        """Events by type that were sent (`send`, ``%%events``) since the workbench began, and not replayed."""
        return dict(self._engine.event_log.by_hand)

    def event_counts(self) -> dict[str, int]:
        """Events by type since the workbench began: sent, replayed, and inserted by statements."""
        return self._engine.event_counts()
