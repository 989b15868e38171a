"""The rows of one stream, of a statement or of a subquery: those that its window retains, and those of a batch.

Between two batches they stay arrays. The window, and the relation in which others look its events up, are deferred
until somebody reads them (`cepbook.engine.state.defer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from cepbook.engine.state import defer
from cepbook.engine.time.clock import NEVER
from cepbook.engine.vectorized.array_columns import ArrayColumns, distinct, stored_columns
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.engine.vectorized.kernel_form import ARRIVAL, ORDINAL
from cepbook.engine.vectorized.row_store import RELOADED, Array, RowStore, StoredItems, ValueCodes
from cepbook.engine.vectorized.stream_forms import StreamForm
from cepbook.interrupts import InterruptGuard


class StreamRows:
    """The rows of a stream whose form is `form`. `codes` are those of the texts in `keys`, shared with other streams.
    A `state` is the `StatementState` of the stream, a `relation` the `Relation` of its window.

    `places` and `times` are those of the batch's events that meet the conditions of the stream. Their rows come behind
    the `retained_before` rows that the window had. Rows are counted from the oldest one.
    """

    def __init__(self, form: StreamForm, keys: Sequence[str], codes: ValueCodes) -> None:
        self.form = form
        self.rows = RowStore({**form.types, **dict.fromkeys({ARRIVAL, ORDINAL} & set(form.items), "long")})
        self.rows.codes |= {name: codes for name in keys if name in self.rows.codes}
        self.retained_before = 0
        self._items = StoredItems(self.rows, form.items)
        self._waited = 0  # events since the items were last loaded
        self._left = 0  # rows that have left at the end of the batch
        self._compacted: dict[str, Array] | None = None  # or those that stay, where rows leave from the middle
        self.forget_batch()

    def forget_batch(self) -> None:
        """Forget the events of a batch, whose columns are parts of a frame."""
        self.places = self.times = np.empty(0, np.int64)
        self._batch: dict[str, Array] = {}

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.rows.end - self.rows.begin

    def retained(self, state: Any) -> int:
        """Return the number of events in the window."""
        return self.count if self._items.stored_for(state.view) else int(state.view.retained())

    def read(self, batch: ColumnBatch | None) -> bool:
        """Read the events of a batch that meet the conditions. Return False if arrays cannot hold them."""
        self.forget_batch()
        if batch is None:
            return True
        if not isinstance(batch.columns, ArrayColumns):
            return False
        if self.form.conditions:
            passed = batch.passing((self.form.conditions,))
            if passed is None or not passed.exact:
                return False
            batch = passed.batch
        assert isinstance(batch.columns, ArrayColumns)
        times, columns = batch.columns.stored(None), stored_columns(batch.columns, self.form.types)
        if times is None or columns is None or not all(self.rows.fits(name, c) for name, c in columns.items()):
            return False
        self.places = np.asarray(batch.places, np.int64)
        self.times = times.values
        self._batch = {name: self.rows.stored(name, column) for name, column in columns.items()}
        return True

    def adopt(self, state: Any, events: int) -> bool:
        """Load the items of the window, unless it still defers to these rows. Return False if that is impossible, or
        not worth it for a batch of `events`.
        """
        view = state.view
        if self.form.window == "none" or self._items.stored_for(view):
            return True
        self._waited += events
        if view.retained() > RELOADED * self._waited:
            return False
        items = list(view.contents())
        columns = self._items.columns(items)
        if columns is None:
            return False
        loaded = {name: columns.get(name, array[:0]) for name, array in self.rows.arrays.items()}
        with InterruptGuard():
            self.rows.replace(loaded, len(items))
            self._waited = 0
        return True

    def enter(self, state: Any, times: Array) -> None:
        """Append the rows of the batch, which arrive at `times`."""
        count = len(self.places)
        self.retained_before = self.count
        new = self._batch | {ORDINAL: np.arange(1, count + 1) + state.ordinal, ARRIVAL: times}
        if count:
            self.rows.append({name: new[name] for name in self.rows.arrays}, count)

    def cut(self, count: int) -> None:
        """Remove all rows but the oldest `count`."""
        self.rows.cut(self.rows.begin + count)

    def give_up_batch(self, state: Any, relation: Any) -> None:
        """Forget a batch that the row engine will run, and rows to which neither window nor relation defers."""
        self.forget_batch()
        if not self._items.stored_for(state.view) and getattr(relation, "stored", None) is None:
            self.rows.clear()

    def visible(self, places: Array, times: Array) -> tuple[Array, Array]:
        """Return where the rows begin and end that the window has for events of the other stream, which arrive at some
        places and times. A row of the same event is one of them. Rows that are older than the ``latest`` of their key
        are not.
        """
        ends = self.retained_before + np.searchsorted(self.places, places, "right")
        if self.form.window == "period":
            return np.searchsorted(self.column(ARRIVAL), times - self.form.limit, "right"), ends
        begins = np.maximum(ends - self.form.limit, 0) if self.form.window == "newest" else np.zeros_like(ends)
        return begins, ends

    def column(self, name: str) -> Array:
        """Return a column of all rows; texts as codes."""
        return self.rows.arrays[name][self.rows.begin : self.rows.end]

    def expire(self, state: Any, now: int) -> None:
        """Find the rows that have left the window at the time `now`. `commit` removes them."""
        form, self._left, self._compacted = self.form, 0, None
        if form.window == "newest":
            self._left = max(self.count - form.limit, 0)
        elif form.window == "period":
            self._left = int(np.searchsorted(self.column(ARRIVAL), now - form.limit, "right"))
        elif form.window == "latest":
            rows = _latest(self.column(form.items[state.view.at]))
            self._compacted = {name: self.column(name)[rows] for name in self.rows.arrays}

    def commit(self, state: Any, relation: Any) -> None:
        """Let the window retain the rows that have not left, and defer its items and its relation to them."""
        form, rows, view = self.form, self.rows, state.view
        if form.items:
            state.ordinal += len(self.places)
        self.forget_batch()
        if form.window == "none":
            rows.clear()
            return
        if self._compacted is not None:
            rows.replace(self._compacted, len(self._compacted[ORDINAL]))
            self._compacted = None
        rows.begin += self._left
        if form.window == "period":
            view.due = int(self.column(ARRIVAL)[0]) + form.limit if self.count else NEVER
        defer(view, partial(self._items.by_key, view.at) if form.window == "latest" else self._items.all)
        if getattr(relation, "stored", None) is None:
            empty = [type(index)(index.key) for index in relation.indexes]
            defer(relation, partial(self._related, empty))

    def make_items(self, state: Any, relation: Any) -> None:
        """Make the items that are deferred."""
        if self.form.window == "none":
            return
        state.view.contents()
        relation.rows  # noqa: B018 - made when it is read

    def _related(self, indexes: Sequence[Any]) -> tuple[dict[int, Any], list[Any]]:
        """Return the items by ordinal, and `indexes` with all of them."""
        (items,) = self._items.all()
        by_arrival = sorted(items, key=itemgetter(0)) if self.form.window == "latest" else list(items)
        for index in indexes:
            for item in by_arrival:
                index.enter(item)
        return {item[0]: item for item in by_arrival}, list(indexes)


def _latest(keys: Array) -> Array:
    """Return the last place of each key, in the order of their first places."""
    _, numbers = distinct(keys)
    by_key = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[by_key], prepend=-1))
    last: Array = by_key[np.append(begins[1:], len(keys))[: len(begins)] - 1]
    return last[np.argsort(by_key[begins])]
