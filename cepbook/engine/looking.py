"""What people look at while a statement runs: the last rows, the events that a window holds, who gets the events.

The cost depends on what is seen and not on what is held, and nothing of it is paid while nobody looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from cepbook.engine.rows.support import copied
from cepbook.engine.rows.windows.along import Along
from cepbook.engine.statement import Statement

Ids = Container[int | None]


class Latest(NamedTuple):
    """The last of `total` rows, oldest first."""

    total: int
    rows: list[dict[str, Any]]


class Held(NamedTuple):
    """The last of `total` events that a window holds: those of their properties that the statement still needs."""

    total: int
    properties: tuple[str, ...]
    rows: list[dict[str, Any]]


class _Tail:
    """A view of which only the last items are there; all else is the view's."""

    def __init__(self, view: Any, items: Iterable[Any]) -> None:
        self._view = view
        self.items = deque(items)

    def contents(self) -> Iterable[Any]:
        return self.items

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


def latest(statement: Statement, most: int, wanted: Ids | None = None) -> Latest:
    """The last `most` rows of the iterator, of all context partitions by id or of those `wanted`.

    Where each event of the window is a row, no others are made. Errors: StatementError when an expression fails.
    """
    now, fresh = statement.now, statement.outlet.layout.fresh
    try:
        if not _row_by_row(statement):
            rows = [row for _, found in statement.iterated(now, wanted) for row in found]
            return Latest(len(rows), [fresh(row) for row in rows[-most:]])
        total = 0
        parts: list[list[Any]] = []
        for state, items in reversed(_views(statement, now, wanted)):
            room = most - sum(len(part) for part in parts)
            total += len(items)
            if room > 0:
                tail = _last(items, room)
                parts.append(statement.program["rows"]([state[0], _Tail(state[1], tail), *state[2:]], now))
        return Latest(total, [fresh(row) for part in reversed(parts) for row in part])
    except Exception as failure:
        raise statement.error(failure) from failure


def _row_by_row(statement: Statement) -> bool:
    """Whether the iterator shows one row for each event of one window, in its order."""
    steps = statement.steps
    if steps.row is None or steps.inputs or not steps.windows or steps.kind != "unaggregated":
        return False
    if steps.having is not None or steps.selection is not None or len(steps.stages) != 1 or steps.recognize is not None:
        return False
    projection = steps.row.projection
    return not (projection.distinct or projection.order_by or projection.limit or projection.offset)


def _views(statement: Statement, now: int, wanted: Ids | None) -> list[tuple[Any, Sequence[Any]]]:
    """The states with the items that their windows hold now."""
    found: list[tuple[Any, Sequence[Any]]] = []
    for id_, state in statement.states():
        if wanted is None or id_ in wanted:
            statement.program["settle"](state, now)
            items = state[1].contents()
            found.append((state, items if isinstance(items, deque | list | tuple) else list(items)))
    return found


def _last(items: Sequence[Any], most: int) -> list[Any]:
    return list(items) if len(items) <= most else list(islice(reversed(items), most))[::-1]


def holds_events(statement: Statement) -> bool:
    """Whether `held` can tell the events of its window: those of one stream, which are not its rows."""
    steps, items = statement.steps, statement.program.items
    if steps.row is None or items is None or steps.inputs or not steps.windows or len(steps.stages) != 1:
        return False
    return steps.kind != "unaggregated" and statement.owned is None


def held(statement: Statement, most: int, wanted: Ids | None = None) -> Held:
    """The last `most` events of the statement's window, for a statement that `holds_events`."""
    items = statement.program.items
    assert items is not None
    views = _views(statement, statement.now, wanted)
    if any(isinstance(state[1], Along) for state, _ in views):
        return Held(0, (), [])  # a batch of which only aggregates show keeps groups
    total, parts = sum(len(each) for _, each in views), []
    room = most
    for _, each in reversed(views):
        tail = _last(each, room) if room > 0 else []
        room -= len(tail)
        parts.append(tail)
    kept = [item for tail in reversed(parts) for item in tail]
    if items.bare:
        kept = [(item,) for item in kept]
    if "e" in items.parts:
        place = items.parts.index("e")
        rows = [copied(dict(item[place])) for item in kept]
        return Held(total, tuple(rows[-1]) if rows else (), rows)
    places = {name: items.parts.index(str(items.positions[name])) for name in items.properties}
    return Held(total, items.properties, [{n: copied(item[p]) for n, p in places.items()} for item in kept])
