"""Rows and events of a running statement for display: the latest rows, and the events that a window holds.

The cost depends on the number of rows shown, not on the number held, and arises only while somebody looks.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

from cepbook.engine.expressions.primitives import deep_copied
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.windows.aggregate_only_batch import AggregateOnlyBatch

_Views = Sequence[tuple[Any, Sequence[Any]]]
PartitionIds = Container[int | None]


class LatestRows(NamedTuple):
    """The last of `total` rows, oldest first."""

    total: int
    rows: list[dict[str, Any]]


class WindowEvents(NamedTuple):
    """The last of `total` events in a window, only the properties that the statement still needs."""

    total: int
    properties: tuple[str, ...]
    rows: list[dict[str, Any]]


@dataclass(eq=False)
class RowTable:
    """Rows (or events of a window) as the engine holds them: by column, and as dicts only where they are shown.

    `place` maps a column to its position in a tuple; with None rows are dicts. Rows are `lasting` if they never change,
    as those of tables do.
    """

    names: Sequence[str]
    _kept: Sequence[Any]
    _place: Mapping[str, int] | None
    _fresh: Callable[[Any], Any]
    _lasting: bool = False

    def __len__(self) -> int:
        return len(self._kept)

    def column(self, name: str, start: int = 0) -> list[Any]:
        """Return the values of a column, row by row from position `start`; null where a row lacks it."""
        rows = self._kept[start:] if start else self._kept
        if self._place is None:
            try:
                return list(map(operator.itemgetter(name), rows))
            except KeyError:
                return [row.get(name) for row in rows]
        place = self._place.get(name)
        return [None] * len(rows) if place is None else list(map(operator.itemgetter(place), rows))

    def dropped_since(self, earlier: RowTable) -> int | None:
        """Return how many rows of a table that was read earlier are gone, if they were the first ones and this table
        certainly begins with the others: they are the same objects. None if it does not, or if nothing remains.
        """
        if not self._lasting or (self.names, self._place) != (earlier.names, earlier._place) or not self._kept:
            return None
        first = self._kept[0]
        dropped = next((place for place, row in enumerate(earlier._kept) if row is first), len(earlier))
        remaining = len(earlier) - dropped
        if not 0 < remaining <= len(self):
            return None
        same = all(map(operator.is_, islice(earlier._kept, dropped, None), self._kept))
        return dropped if same else None

    def rows(self, places: Iterable[int]) -> list[dict[str, Any]]:
        """Return the rows at these positions; the caller owns them."""
        return [self._fresh(self._kept[place]) for place in places]


class _Tail:
    """A view restricted to its last items."""

    def __init__(self, view: Any, items: Iterable[Any]) -> None:
        self._view = view
        self.items = deque(items)

    def contents(self) -> Iterable[Any]:
        return self.items

    display_order = contents

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


def _with_view(state: StatementState, view: Any) -> StatementState:
    changed = copy(state)
    changed.view = view
    return changed


def latest_rows(
    statement: RunningStatement, most: int, wanted: PartitionIds | None = None, shown: range | None = None
) -> LatestRows:
    """Return the last `most` rows of the iterator, of all context partitions by id or of those `wanted`.

    `shown` restricts them to some positions. If each event of the window is a row, no other rows are computed. Errors:
    StatementError if an expression fails.
    """
    now, fresh = statement.now, statement.outlet.layout.fresh
    try:
        if _one_each(statement):
            ids = [id_ for id_, _ in statement.states() if wanted is None or id_ in wanted]
            places = _places(len(ids), most, shown)
            only = frozenset(ids[len(ids) - at] for at in places)
            rows = [row for _, part_rows in statement.iterated(now, only) for row in part_rows] if only else []
            return LatestRows(len(ids), [fresh(row) for row in rows])
        if not _row_by_row(statement):
            rows = [row for _, part_rows in statement.iterated(now, wanted) for row in part_rows]
            return LatestRows(len(rows), [fresh(rows[len(rows) - at]) for at in _places(len(rows), most, shown)])
        views = _views(statement, now, wanted)
        total = sum(len(items) for _, items in views)
        parts: list[list[Any]] = []
        for (state, _), tail in _tails(views, _places(total, most, shown)):
            parts.append(statement.program.functions.rows(_with_view(state, _Tail(state.view, tail)), now))
        return LatestRows(total, [fresh(row) for page in parts for row in page])
    except Exception as failure:
        raise statement.error(failure) from failure


def all_rows(statement: RunningStatement, wanted: PartitionIds | None = None) -> RowTable:
    """Return all rows of the iterator by partition id. Errors: StatementError if an expression fails."""
    layout = statement.outlet.layout
    names = tuple(statement.output_type.properties)
    try:
        place = _properties(statement)
        if place is not None:  # rows are built only when they are shown
            items = _tuples(statement, _views(statement, statement.now, wanted))
            order = tuple(place.values())
            lasting = statement.owned is None
            fresh = lambda item: layout.fresh([item[at] for at in order])  # noqa: E731
            return RowTable(names, items, place, fresh, lasting)
        if _events_are_rows(statement):
            views = _views(statement, statement.now, wanted)
            row_lists = [list(state.view.display_order()) for state, _ in views]
        else:
            row_lists = [rows for _, rows in statement.iterated(statement.now, wanted)]
        row_list = row_lists[0] if len(row_lists) == 1 else list(chain.from_iterable(row_lists))
    except Exception as failure:
        raise statement.error(failure) from failure
    place = None if layout.columns is None else {name: i for i, name in enumerate(layout.columns)}
    return RowTable(names, row_list, place, layout.fresh, statement.owned is None)


def _properties(statement: RunningStatement) -> dict[str, int] | None:
    """Map columns to positions in an item, if rows consist of retained properties of events only; else None."""
    items, layout = statement.program.items, statement.outlet.layout
    if not _row_by_row(statement) or items is None or layout.columns is None or statement.reads_only_tables:
        return None
    assert statement.steps.row is not None
    positions = {}
    for column in statement.steps.row.projection.columns:
        name = column.value.property_name
        if name not in items.properties:
            return None
        positions[column.name] = items.parts.index(str(items.positions[name]))
    return positions if tuple(positions) == layout.columns else None


def _events_are_rows(statement: RunningStatement) -> bool:
    """Return whether the rows are the events in the window themselves."""
    items = statement.program.items
    if not _row_by_row(statement) or items is None or statement.reads_only_tables:
        return False
    assert statement.steps.row is not None
    projection = statement.steps.row.projection
    return items.parts == ("e",) and projection.wildcard and not projection.columns


def _tuples(statement: RunningStatement, views: _Views) -> Sequence[Any]:
    """Return the items of all views as tuples."""
    items = statement.program.items
    view_items = views[0][1] if len(views) == 1 else [item for _, items_of_view in views for item in items_of_view]
    return [(item,) for item in view_items] if items is not None and items.bare else list(view_items)


def _places(total: int, most: int, shown: range | None) -> range:
    """Return the positions of the rows `shown` of the last `most` of `total`, counted from the end (last: 1)."""
    first = min(total, most)
    return range(first, 0, -1) if shown is None else range(first, 0, -1)[shown.start : shown.stop]


def _tails(views: _Views, places: range) -> list[tuple[tuple[Any, Sequence[Any]], list[Any]]]:
    """Return, for the views that hold the items at `places` (counted from the end of the last view), these items."""
    if not places:
        return []
    behind, remaining = places[-1] - 1, len(places)
    tails = []
    for view in reversed(views):
        if behind >= len(view[1]):
            behind -= len(view[1])
            continue
        tail = list(islice(reversed(view[1]), behind, behind + remaining))[::-1]
        tails.append((view, tail))
        behind, remaining = 0, remaining - len(tail)
        if not remaining:
            break
    return tails[::-1]


def _one_each(statement: RunningStatement) -> bool:
    steps = statement.steps
    if statement.context is None or steps.row is None or steps.kind != "fully_aggregated":
        return False
    if steps.having is not None or steps.on_select is not None:
        return False
    return not steps.row.projection.arranged and steps.recognize is None


def _row_by_row(statement: RunningStatement) -> bool:
    steps = statement.steps
    if steps.row is None or steps.inputs or not steps.windows or steps.kind != "unaggregated":
        return False
    if steps.having is not None or steps.filter is not None or len(steps.stages) != 1 or steps.recognize is not None:
        return False
    return not steps.row.projection.arranged


def _views(statement: RunningStatement, now: int, wanted: PartitionIds | None) -> list[tuple[Any, Sequence[Any]]]:
    """Return the states with the items in their windows now."""
    views: list[tuple[Any, Sequence[Any]]] = []
    for id_, state in statement.states():
        if wanted is None or id_ in wanted:
            statement.program.functions.settle(state, now)
            items = state.view.contents()
            views.append((state, items if isinstance(items, deque | list | tuple) else list(items)))
    return views


def has_window_events(statement: RunningStatement) -> bool:
    """Return True if `window_events` applies: the window holds events of one stream, which are not the rows."""
    steps, items = statement.steps, statement.program.items
    if steps.row is None or items is None or steps.inputs or not steps.windows or len(steps.stages) != 1:
        return False
    return steps.kind != "unaggregated" and statement.owned is None


def window_events(
    statement: RunningStatement, most: int, wanted: PartitionIds | None = None, shown: range | None = None
) -> WindowEvents:
    """Return the last `most` events of the statement's window, restricted to the positions `shown`."""
    items = statement.program.items
    assert items is not None
    views = _views(statement, statement.now, wanted)
    if any(isinstance(state.view, AggregateOnlyBatch) for state, _ in views):
        return WindowEvents(0, (), [])  # a batch with visible aggregates only keeps groups, not events
    total = sum(len(items_of_view) for _, items_of_view in views)
    table = _events(statement, _tails(views, _places(total, most, shown)))
    return WindowEvents(total, tuple(table.names), table.rows(range(len(table))))


def all_window_events(statement: RunningStatement, wanted: PartitionIds | None = None) -> RowTable:
    """Return all events of the statement's window."""
    views = _views(statement, statement.now, wanted)
    if any(isinstance(state.view, AggregateOnlyBatch) for state, _ in views):
        return RowTable((), [], {}, dict)
    return _events(statement, views)


def _events(statement: RunningStatement, views: _Views) -> RowTable:
    items, tuples = statement.program.items, _tuples(statement, views)
    assert items is not None
    if "e" in items.parts:
        place = items.parts.index("e")
        events = [item[place] for item in tuples]
        return RowTable(tuple(events[-1]) if events else (), events, None, lambda event: deep_copied(dict(event)))
    places = {name: items.parts.index(str(items.positions[name])) for name in items.properties}
    return RowTable(items.properties, tuples, places, lambda item: {n: deep_copied(item[p]) for n, p in places.items()})
