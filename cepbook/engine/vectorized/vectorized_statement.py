"""Runs batches of one statement by kernels, over the state that its generated code works on, too.

::

    columns of the batch ──append──►  RowStore  ──which rows leave──►  counts and sums by group  ──►  output columns
    items of the window  ──load────►     │                                  ▲        │
    cells of the groups  ───────────────────────────────────────────────────┘        └──►  cells of the groups
                                         └── items of the window, when somebody reads them

Between two batches the cells are those of the row engine again. The items of a window stay in the store: its views have
none until generated code or an inspector reads them (`state.defer`), and are loaded again by the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from cepbook.engine.delivery.delta import InsertColumns
from cepbook.engine.state import defer
from cepbook.engine.time.clock import NEVER
from cepbook.engine.vectorized.array_columns import ArrayColumns, StoredColumn, python_values, stored_columns
from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.engine.vectorized.group_cells import GroupCells
from cepbook.engine.vectorized.kernel_form import ARRIVAL, GROUP, ORDINAL, KernelForm
from cepbook.engine.vectorized.kernel_library import kernels
from cepbook.engine.vectorized.output_arrays import OutputArrays
from cepbook.engine.vectorized.row_chains import ExtremeQueues, WindowChains
from cepbook.engine.vectorized.row_store import MOST_CODES, RELOADED, Array, RowStore, StoredItems, coded
from cepbook.engine.vectorized.statement_states import BatchStates, PartitionStates, SingleState, distinct_partitions
from cepbook.engine.vectorized.stream_forms import EnrichmentForm, JoinForm, VectorizedForm
from cepbook.engine.vectorized.vectorized_enrichment import VectorizedEnrichment
from cepbook.engine.vectorized.vectorized_join import VectorizedJoin
from cepbook.interrupts import InterruptGuard

_GROUPS = 4  # groups for each event of a batch, at most: their cells are read and written for each batch


class VectorizedStatement:
    """Kernels over the state of one statement, whose form is `form`."""

    def __init__(self, form: KernelForm) -> None:
        self.form = form
        self._waited = 0  # events since the items were last read
        self._begin()

    def _begin(self) -> None:
        form = self.form
        names = {*form.items, *(argument.name for argument in form.arguments), *form.keys}
        types = {name: form.types[name] for name in sorted(form.types.keys() & names)}
        own = {ARRIVAL, ORDINAL} & set(form.items)
        self._rows = RowStore(types | dict.fromkeys([GROUP, *own], "long"), form.keys, scattered=form.divided)
        self._names = tuple(types)
        self._chains = WindowChains()
        self._queues = [
            {name: ExtremeQueues(greatest=name == "greatest") for name in argument.queues}
            for argument in form.arguments
        ]
        self._items = StoredItems(self._rows, form.items, bare=form.bare)
        self._viewed = np.empty(0, bool)  # whether a group has a view
        self._reloaded = True  # the views of the rows are not known yet

    def run(
        self,
        batch: ColumnBatch,
        state: Any,
        fire: Callable[[int], int],
        rearm: Callable[..., object],
        partitions: tuple[Sequence[Any], int] | None = None,
    ) -> tuple[InsertColumns, Array | None] | None:
        """Run a batch of events that pass the filter. Return the rows, and a mask of the events that have one; None if
        all have. Return None, and change nothing, if the batch or the state has values that kernels do not represent.

        `state` is the `StatementState`, ``fire(due)`` returns when a timer fires (`ClockStops.fire`), and
        ``rearm(due, state, view)`` arms the timer of a view. `partitions` are, of a statement in a context,
        the `PartitionAssignment` of each event, and the slot of the statement's states in a partition.
        """
        form, rows, count = self.form, self._rows, len(batch.times)
        columns = stored_columns(batch.columns, form.types)
        if columns is None:
            return None
        assignments, slot = partitions or (None, 0)
        assigned = None if assignments is None else distinct_partitions(assignments)
        if assignments is not None and assigned is None:
            return None
        if not form.needs_kernels:
            passed_on = tuple(ArrayValues.of_column(columns[output.name]) for output in form.outputs)
            return InsertColumns(batch.times, passed_on), None
        loaded = kernels(count)
        times = batch.columns.stored(None) if isinstance(batch.columns, ArrayColumns) else None
        if loaded is None or times is None or not all(rows.fits(name, columns[name]) for name in self._names):
            return None
        states = SingleState(form, state) if assigned is None else PartitionStates(*assigned, slot)
        if states.groups > _GROUPS * count:
            return None
        try:
            cells = self._enter(columns, times, count, states)
        except MemoryError:
            return None
        if cells is None:
            return None
        rows = self._rows  # a new one if it has begun anew
        first = rows.end - count
        try:
            leaving, ends, due = self._leave(loaded, states.state, first, fire)
            cells.update(loaded, leaving, ends, first, early=form.window == "period")
            previous = partial(self._previous, first, ends + rows.begin)
            outputs = OutputArrays(columns, cells, rows, previous, first)
            produced = tuple(outputs.values(output) for output in form.outputs)
            passes = None if form.having is None else outputs.meets(form.having)
            inserted = _passing(batch.times, times.values, produced, passes)
        except BaseException as failure:
            rows.cut(first)  # nothing has entered
            if isinstance(failure, MemoryError):
                return None
            raise
        with InterruptGuard():
            cells.store(loaded, leaving, first)
            self._store(states, leaving, due, first, batch.times[-1], rearm)
        return inserted, passes

    def _enter(
        self, columns: Mapping[str, StoredColumn], times: StoredColumn, count: int, states: BatchStates
    ) -> GroupCells | None:
        """Append the rows of a batch to those of the window, and return the cells as they were before; None, and append
        nothing, if arrays cannot hold them.
        """
        form = self.form
        if coded(self._rows) > MOST_CODES + self._rows.end - self._rows.begin:
            for view in states.known_views(self._rows):
                view.contents()  # makes the items
            self._begin()
        if form.window != "none" and not self._adopt(states, count):
            return None
        rows = self._rows
        new = {name: rows.stored(name, columns[name]) for name in self._names}
        new[GROUP] = states.grouped(rows, new, count)
        cells = GroupCells(form, rows, states.cells(), self._queues)
        if not cells.load(new):
            return None
        if ARRIVAL in form.items:
            new[ARRIVAL] = times.values
        if ORDINAL in form.items:
            new[ORDINAL] = states.ordinals(count)
        rows.append(new, count)
        return cells

    def _adopt(self, states: BatchStates, count: int) -> bool:
        """Load the items of the windows that the store does not have. Return False if impossible or not worth it."""
        rows, views = self._rows, states.views()
        missing = {key: view for key, view in views.items() if not self._items.stored_for(view)}
        if not missing and (views or not rows.end):
            return True
        in_context = states.state is None
        if not in_context:
            missing = views  # loading single groups anew took longer
        self._waited += count
        if sum(len(view.items) for view in missing.values()) > RELOADED * self._waited:
            return False  # otherwise the items of stored windows are made now, before their rows go
        if in_context:  # only the windows of this batch are known
            rows.forget(missing)
        else:
            rows.clear()
            self._viewed[:] = False
        items = self._item_columns(missing)
        if items is None:
            return False
        rows.load(items, len(items[GROUP]))
        self._reloaded = not in_context
        self._waited = 0
        return True

    def _item_columns(self, views: Mapping[Any, Any]) -> dict[str, Array] | None:
        """Return the items of some windows as columns; None if arrays cannot hold them."""
        form, rows = self.form, self._rows
        items = [item for view in views.values() for item in view.items]
        columns = self._items.columns(items)
        if columns is None:
            return None
        if form.divided:
            codes = rows.groups.of_values(list(views))
            columns[GROUP] = np.repeat(codes, [len(view) for view in views.values()])
        elif columns.keys() >= set(form.keys):
            columns[GROUP] = rows.grouped(columns, len(items))
        else:
            columns[GROUP] = np.zeros(len(items), np.int64)
        return columns

    def _leave(
        self, loaded: ModuleType, state: Any, first: int, fire: Callable[[int], int]
    ) -> tuple[Array, Array, int]:
        """Return the rows that leave, how many of them have left after each arrival, and when the view is due."""
        form, rows = self.form, self._rows
        if form.window == "none":
            return np.empty(0, np.int64), np.zeros(rows.end - first, np.int64), NEVER
        if form.divided:
            left = self._chains.replace(loaded, rows, first, form.limit)
            gone = left >= 0
            return left[gone], np.cumsum(gone), NEVER
        if form.window == "newest":
            ends = np.maximum(np.arange(first + 1, rows.end + 1) - form.limit, rows.begin)
            return np.arange(rows.begin, ends[-1]), ends - rows.begin, NEVER
        ends, times = np.empty(rows.end - first, np.int64), rows.arrays[ARRIVAL]
        row, oldest, due = first, rows.begin, state.view.due
        while True:
            row, oldest, due = loaded.expire(times, oldest, row, first, form.limit, due, ends)
            if row == rows.end:
                break
            limit = fire(due) - form.limit
            oldest += int(np.searchsorted(times[oldest:row], limit, "right"))
            # a lazy window is due one period after its oldest row has expired (see `TimeWindow`)
            due = NEVER if oldest == row else int(times[oldest]) + 2 * form.limit
        return np.arange(rows.begin, oldest), ends - rows.begin, due

    def _previous(self, first: int, oldest: Array, number: int) -> Array:
        """Return for each row from `first` on the one `number` places before it in the window; -1 if there is none.
        `oldest` has the oldest row in a window that is not divided.
        """
        if self.form.divided:
            return self._chains.before
        places = np.arange(first, self._rows.end) - number
        return np.where(places >= oldest, places, -1)

    def _store(
        self, states: BatchStates, leaving: Array, due: int, first: int, now: int, rearm: Callable[..., object]
    ) -> None:
        """Make the windows read their items from the store."""
        form, rows, state = self.form, self._rows, states.state
        if ORDINAL in form.items:
            states.count_events(rows.end - first)
        if form.window == "none":
            rows.clear()
            return
        if not form.divided:
            rows.begin += len(leaving)
            defer(state.view, self._items.all)
            if form.window == "period":
                state.view.due = state.view.armed = due
                rearm(due, state, state.view)
            return
        assert rows.alive is not None
        rows.alive[leaving] = False
        self._viewed = np.append(self._viewed, np.zeros(len(rows.groups) - len(self._viewed), bool))
        groups = rows.arrays[GROUP][0 if self._reloaded else first : rows.end]
        codes, places = np.unique(groups[~self._viewed[groups]], return_index=True)
        for code in codes[np.argsort(places)].tolist():
            defer(states.view(rows.groups.values[code], now), partial(self._items.of, code))
        self._viewed[codes] = True
        self._reloaded = False


def runner(form: VectorizedForm) -> VectorizedStatement | VectorizedJoin | VectorizedEnrichment:
    """Return what runs batches of a statement of this form."""
    match form:
        case JoinForm():
            return VectorizedJoin(form)
        case EnrichmentForm():
            return VectorizedEnrichment(form)
        case _:
            return VectorizedStatement(form)


def _passing(
    times: list[int], arrivals: Array, columns: tuple[ArrayValues, ...], passes: Array | None
) -> InsertColumns:
    """Return the rows that pass the having clause; `times` and `arrivals` are those of all rows."""
    if passes is None:
        return InsertColumns(times, columns)
    return InsertColumns(python_values(arrivals[passes]), tuple(values.compressed(passes) for values in columns))
