"""Computes the rows of a statement whose values subqueries look up, for a batch of events, all at once.

::

    event          e0      e1      e2             e0 meets the rows 3 and 5 of the subquery, e2 row 4
    pairs        0─3 0─5          2─4
    max(price)     9.5    null    7.0             aggregated in order, one group for each event
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from cepbook.engine.delivery.delta import InsertColumns
from cepbook.engine.vectorized.array_columns import python_values
from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.engine.vectorized.group_cells import ArgumentArrays, aggregate_values
from cepbook.engine.vectorized.kernel_form import ArgumentForm, OutputForm
from cepbook.engine.vectorized.kernel_library import kernels
from cepbook.engine.vectorized.output_arrays import ColumnArrays
from cepbook.engine.vectorized.row_store import Array, magnitude
from cepbook.engine.vectorized.stream_forms import EnrichmentForm, LookupForm
from cepbook.engine.vectorized.stream_rows import StreamRows
from cepbook.engine.vectorized.vectorized_streams import Output, VectorizedStreams, meet, values_of_rows


class VectorizedEnrichment(VectorizedStreams):
    """The statement whose form is `form`, over batches of arrays. Stream 0 is its own; the others are of subqueries."""

    def __init__(self, form: EnrichmentForm) -> None:
        keys = [zip(*lookup.pairs.keys, strict=True) for lookup in form.lookups]
        outer, inner = zip(*keys, strict=True)
        super().__init__([form.stream, *(lookup.stream for lookup in form.lookups)], [sum(outer, ()), *inner])
        self.form = form
        self._kernels: ModuleType | None = None

    def _states(self, state: Any) -> Sequence[tuple[Any, Any]] | None:
        return [(state, None), *((own, own.relation) for own in state.subqueries)]

    def _read(self, batches: Sequence[ColumnBatch | None], states: Sequence[tuple[Any, Any]]) -> bool:
        if self.form.aggregates:
            self._kernels = kernels(sum(len(batch.times) for batch in batches if batch is not None))
            if self._kernels is None:
                return False
        return super()._read(batches, states)

    def _rearm(self, state: Any, timers: Any) -> None:
        for number, lookup in enumerate(self.form.lookups):
            if lookup.stream.window == "period":
                timers.rearm_subquery(number, state.subqueries[number])

    def _output(self, times: Sequence[Array]) -> Output | None:
        outer, *inner = self._streams
        looked_up = []
        for lookup, stream in zip(self.form.lookups, inner, strict=True):
            values = self._looked_up(lookup, outer, stream, times[0])
            if values is None:
                return None
            looked_up.append(values)
        events, passing = meet([outer], [np.arange(outer.count)], self.form.tests, looked_up)
        columns = tuple(map(events.values, self.form.outputs))
        return InsertColumns(python_values(times[0][passing]), columns), np.ones(len(passing), bool)

    def _looked_up(self, lookup: LookupForm, outer: StreamRows, stream: StreamRows, times: Array) -> ArrayValues | None:
        """Return the value of a subquery for each event; None if there are too many pairs, or if it is not exact."""
        numbers = self._key_numbers(lookup.pairs, (outer, stream))
        partners = self._partners(lookup.pairs, (outer, stream), 0, times, numbers)
        if partners is None:
            return None
        rows = _RowsOfEvents(lookup, stream, *partners, len(times))
        if not rows.aggregate(self._kernels):
            return None
        return rows.values(lookup.result)


class _RowsOfEvents(ColumnArrays):
    """The rows of a subquery that events meet: the rows `partners` of `stream`, by the numbers `which` of the events,
    of which there are `events`.
    """

    def __init__(self, form: LookupForm, stream: StreamRows, which: Array, partners: Array, events: int) -> None:
        super().__init__({})
        self._form = form
        self._stream = stream
        self._which = which
        self._partners = partners
        self._counts = np.bincount(which, minlength=events)
        self._aggregates: list[dict[str, Array]] = []

    def aggregate(self, loaded: ModuleType | None) -> bool:
        """Aggregate the arguments. Return False if a sum may not be exact."""
        for argument in self._form.arguments:
            if argument.name is None:
                self._aggregates.append({"count": self._counts})
                continue
            assert loaded is not None
            outcome = self._aggregated(loaded, argument, self._stream.column(argument.name)[self._partners])
            if outcome is None:
                return False
            self._aggregates.append(outcome)
        return True

    def _aggregated(self, loaded: ModuleType, form: ArgumentForm, values: Array) -> dict[str, Array] | None:
        arrays = ArgumentArrays.of_new_groups(form, len(self._counts), self._form.cells)
        if not form.floating and not arrays.exact(magnitude(values), int(self._counts.max(initial=0))):
            return None
        leaving, ends = np.empty(0, np.int64), np.zeros(len(values), np.int64)  # none leaves
        movement = self._which, leaving, ends, 0, len(values), False
        arrays.update(loaded, values, movement, 0, len(values))
        return {"count": arrays.counts, **arrays.numbers}

    def other(self, output: OutputForm) -> ArrayValues:
        if output.kind in ("exists", "contains"):
            return ArrayValues(self._counts > 0)
        if output.kind == "matched":
            return self._only(output)
        return aggregate_values(self._form.arguments[output.number], output.kind, self._aggregates[output.number])

    def _only(self, output: OutputForm) -> ArrayValues:
        """Return a property of the only row; null without rows, and with several."""
        rows = np.full(len(self._counts), -1)
        rows[self._which] = self._partners
        rows[self._counts != 1] = -1
        return values_of_rows(self._stream, output.name, rows)
