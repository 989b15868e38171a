"""What people look at while a statement runs: the last rows, the events that a window holds, who gets the events.

The cost depends on what is seen and not on what is held, and nothing of it is paid while nobody looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from cepbook.engine.expressions.primitives import deep_copied
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.windows.aggregate_only_batch import AggregateOnlyBatch
from cepbook.lang.plan.expressions import Prop

PartitionIds = Container[int | None]


class LatestRows(NamedTuple):
    """The last of `total` rows, oldest first."""

    total: int
    rows: list[dict[str, Any]]


class WindowEvents(NamedTuple):
    """The last of `total` events that a window holds: those of their properties that the statement still needs."""

    total: int
    properties: tuple[str, ...]
    rows: list[dict[str, Any]]


class RowTable:
    """Rows, or events of a window, as the engine has them: by columns, and as dicts only where somebody looks.

    `place` gives the place of a column in a row that is a tuple; with `place` None rows are dicts.
    """

    def __init__(
        self, names: Sequence[str], kept: Sequence[Any], place: Mapping[str, int] | None, fresh: Callable[[Any], Any]
    ) -> None:
        self.names = names
        self._kept = kept
        self._place = place
        self._fresh = fresh

    def __len__(self) -> int:
        return len(self._kept)

    def column(self, name: str) -> list[Any]:
        """The values of a column, row by row, as the engine has them; null where a row lacks it."""
        if self._place is None:
            return [row.get(name) for row in self._kept]
        place = self._place.get(name)
        return [None] * len(self._kept) if place is None else [row[place] for row in self._kept]

    def rows(self, places: Iterable[int]) -> list[dict[str, Any]]:
        """The rows at these places, which belong to who gets them."""
        return [self._fresh(self._kept[place]) for place in places]


class _Tail:
    """A view of which only the last items are there; all else is the view's."""

    def __init__(self, view: Any, items: Iterable[Any]) -> None:
        self._view = view
        self.items = deque(items)

    def contents(self) -> Iterable[Any]:
        return self.items

    shown = contents

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


def latest_rows(
    statement: RunningStatement, most: int, wanted: PartitionIds | None = None, shown: range | None = None
) -> LatestRows:
    """The last `most` rows of the iterator, of all context partitions by id or of those `wanted`; of these the rows
    with the places `shown`, None: all.

    Where each event of the window is a row, no others are made. Errors: StatementError when an expression fails.
    """
    now, fresh = statement.now, statement.outlet.layout.fresh
    try:
        if _one_each(statement):
            ids = [id_ for id_, _ in statement.states() if wanted is None or id_ in wanted]
            places = _places(len(ids), most, shown)
            only = frozenset(ids[len(ids) - each] for each in places)
            rows = [row for _, found in statement.iterated(now, only) for row in found] if only else []
            return LatestRows(len(ids), [fresh(row) for row in rows])
        if not _row_by_row(statement):
            rows = [row for _, found in statement.iterated(now, wanted) for row in found]
            return LatestRows(len(rows), [fresh(rows[len(rows) - each]) for each in _places(len(rows), most, shown)])
        views = _views(statement, now, wanted)
        total = sum(len(items) for _, items in views)
        parts: list[list[Any]] = []
        for (state, _), tail in _tails(views, _places(total, most, shown)):
            parts.append(statement.program["rows"]([state[0], _Tail(state[1], tail), *state[2:]], now))
        return LatestRows(total, [fresh(row) for part in parts for row in part])
    except Exception as failure:
        raise statement.error(failure) from failure


def all_rows(statement: RunningStatement, wanted: PartitionIds | None = None) -> RowTable:
    """All rows of the iterator, by partition id. Errors: StatementError when an expression fails."""
    layout = statement.outlet.layout
    names = tuple(statement.output_type.properties)
    try:
        place = _properties(statement)
        if place is not None:  # no row is made before somebody sees it
            found = _tuples(statement, _views(statement, statement.now, wanted))
            order = tuple(place.values())
            return RowTable(names, found, place, lambda item: layout.fresh([item[at] for at in order]))
        kept = [row for _, rows in statement.iterated(statement.now, wanted) for row in rows]
    except Exception as failure:
        raise statement.error(failure) from failure
    place = None if layout.columns is None else {name: i for i, name in enumerate(layout.columns)}
    return RowTable(names, kept, place, layout.fresh)


def _properties(statement: RunningStatement) -> dict[str, int] | None:
    """By column the place in an item, for a statement whose rows are nothing but kept properties of its events."""
    items, layout = statement.program.items, statement.outlet.layout
    if not _row_by_row(statement) or items is None or layout.columns is None or statement.reads_only_tables:
        return None
    assert statement.steps.row is not None
    found = {}
    for column in statement.steps.row.projection.columns:
        of = column.value
        if not isinstance(of, Prop) or of.name not in items.properties:
            return None
        found[column.name] = items.parts.index(str(items.positions[of.name]))
    return found if tuple(found) == layout.columns else None


def _tuples(statement: RunningStatement, views: Sequence[tuple[Any, Sequence[Any]]]) -> Sequence[Any]:
    """The items of all views, bare ones too as tuples."""
    items = statement.program.items
    found = views[0][1] if len(views) == 1 else [item for _, held in views for item in held]
    return [(item,) for item in found] if items is not None and items.bare else list(found)


def _places(total: int, most: int, shown: range | None) -> range:
    """Where the rows `shown` of the last `most` of `total` are, counted from the end: the last is at 1."""
    first = min(total, most)
    return range(first, 0, -1) if shown is None else range(first, 0, -1)[shown.start : shown.stop]


def _tails(
    views: Sequence[tuple[Any, Sequence[Any]]], places: range
) -> list[tuple[tuple[Any, Sequence[Any]], list[Any]]]:
    """Of the views that hold the items at `places`, counted from the end of the last view, the items."""
    if not places:
        return []
    behind, wanted = places[-1] - 1, len(places)
    found = []
    for each in reversed(views):
        if behind >= len(each[1]):
            behind -= len(each[1])
            continue
        tail = list(islice(reversed(each[1]), behind, behind + wanted))[::-1]
        found.append((each, tail))
        behind, wanted = 0, wanted - len(tail)
        if not wanted:
            break
    return found[::-1]


def _one_each(statement: RunningStatement) -> bool:
    """Whether the iterator shows one row for each context partition, whatever it holds."""
    steps = statement.steps
    if statement.context is None or steps.row is None or steps.kind != "fully_aggregated":
        return False
    if steps.having is not None or steps.selects is not None:
        return False
    projection = steps.row.projection
    return not (projection.distinct or projection.limit or projection.offset) and steps.recognize is None


def _row_by_row(statement: RunningStatement) -> bool:
    """Whether the iterator shows one row for each event of one window, in its order."""
    steps = statement.steps
    if steps.row is None or steps.inputs or not steps.windows or steps.kind != "unaggregated":
        return False
    if steps.having is not None or steps.selection is not None or len(steps.stages) != 1 or steps.recognize is not None:
        return False
    projection = steps.row.projection
    return not (projection.distinct or projection.order_by or projection.limit or projection.offset)


def _views(statement: RunningStatement, now: int, wanted: PartitionIds | None) -> list[tuple[Any, Sequence[Any]]]:
    """The states with the items that their windows hold now."""
    found: list[tuple[Any, Sequence[Any]]] = []
    for id_, state in statement.states():
        if wanted is None or id_ in wanted:
            statement.program["settle"](state, now)
            items = state[1].contents()
            found.append((state, items if isinstance(items, deque | list | tuple) else list(items)))
    return found


def has_window_events(statement: RunningStatement) -> bool:
    """Whether `held` can tell the events of its window: those of one stream, which are not its rows."""
    steps, items = statement.steps, statement.program.items
    if steps.row is None or items is None or steps.inputs or not steps.windows or len(steps.stages) != 1:
        return False
    return steps.kind != "unaggregated" and statement.owned is None


def window_events(
    statement: RunningStatement, most: int, wanted: PartitionIds | None = None, shown: range | None = None
) -> WindowEvents:
    """The last `most` events of the statement's window (of these those at `shown`), for one that
    `has_window_events`.
    """
    items = statement.program.items
    assert items is not None
    views = _views(statement, statement.now, wanted)
    if any(isinstance(state[1], AggregateOnlyBatch) for state, _ in views):
        return WindowEvents(0, (), [])  # a batch of which only aggregates show keeps groups
    total = sum(len(each) for _, each in views)
    kept = _events(statement, _tails(views, _places(total, most, shown)))
    return WindowEvents(total, tuple(kept.names), kept.rows(range(len(kept))))


def all_window_events(statement: RunningStatement, wanted: PartitionIds | None = None) -> RowTable:
    """All events of the statement's window, as `held`."""
    views = _views(statement, statement.now, wanted)
    if any(isinstance(state[1], AggregateOnlyBatch) for state, _ in views):
        return RowTable((), [], {}, dict)
    return _events(statement, views)


def _events(statement: RunningStatement, views: Sequence[tuple[Any, Sequence[Any]]]) -> RowTable:
    items, found = statement.program.items, _tuples(statement, views)
    assert items is not None
    if "e" in items.parts:
        place = items.parts.index("e")
        events = [item[place] for item in found]
        return RowTable(tuple(events[-1]) if events else (), events, None, lambda event: deep_copied(dict(event)))
    places = {name: items.parts.index(str(items.positions[name])) for name in items.properties}
    return RowTable(items.properties, found, places, lambda item: {n: deep_copied(item[p]) for n, p in places.items()})
