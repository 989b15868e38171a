"""Named windows that run: who holds the rows, who reads them, and what is handed on when they change.

A row that is inserted goes to the statement that created the store; what enters and leaves there waits (`Changes`)
until all statements have seen the present event, and then goes to the readers, in their order, one change for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cepbook.engine.delta import Row
from cepbook.lang.catalog import StoreType

Item = tuple[Any, ...]


class Owner(Protocol):
    """The statement that created a store."""

    name: str

    def insert(self, row: Row) -> None:
        """A row arrives."""

    def states(self) -> list[tuple[int | None, Any]]:
        """(partition id, state) of every live partition."""


class Reader(Protocol):
    """A statement that reads stores."""

    name: str
    order: tuple[int, int]

    def take(self, moved: Sequence[Moved]) -> None:
        """What entered and left stores that it reads, since it was last told."""

    def failed(self, failure: Exception) -> None:
        """It failed."""


class Store:
    """A named window: `owner` holds its rows, `readers` are told of what enters and leaves.

    Items begin with their ordinal and end with the row.
    """

    def __init__(self, type_: StoreType, columns: Iterable[str], changes: Changes) -> None:
        self.type = type_
        self.name = type_.name
        self.columns = tuple(columns)
        self.owner: Owner
        self.readers: list[Reader] = []
        self._changes = changes

    def inserted(self, row: Row) -> None:
        """A row of ``insert into``; the store's own dict has its columns, and only these."""
        self.owner.insert({name: row.get(name) for name in self.columns})

    def changed(self, state: Any, entered: Sequence[Item], left: Sequence[Item], now: int) -> None:
        """What entered and left the contents in `state`."""
        if self.readers:
            self._changes.add(Moved(self, state[0], entered, left))

    def stored(self, states: Iterable[Any]) -> list[Item]:
        """The items in some of the owner's states."""
        return [item for state in states for item in state[1].contents()]


@dataclass(frozen=True, slots=True)
class Moved:
    """What entered and left a store, in the context partition `partition` of its owner."""

    store: Store
    partition: Any
    entered: Sequence[Item]
    left: Sequence[Item]


class Changes:
    """What moved and was not handed on yet. `waits` makes the round look when the present event was seen."""

    def __init__(self, waits: Callable[[], None]) -> None:
        self._waits = waits
        self._moved: list[Moved] = []

    def __bool__(self) -> bool:
        return bool(self._moved)

    def add(self, moved: Moved) -> None:
        """Hand this on when all statements have seen the present event."""
        if not self._moved:
            self._waits()
        self._moved.append(moved)

    def spread(self) -> None:
        """Hand on what has moved so far, to one reader after another; each is told of all of it at once."""
        moved, self._moved = self._moved, []
        readers = {id(reader): reader for each in moved for reader in each.store.readers}
        for reader in sorted(readers.values(), key=lambda r: r.order):
            try:
                reader.take([each for each in moved if reader in each.store.readers])
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                reader.failed(failure)
