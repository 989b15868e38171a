"""Live events that wait until no earlier event can come (`reorder`), and how far their sources are.

`save` and the journal write both.

A batch of live events changes three things: this buffer, the engine and the offsets of the sources. `commit` makes the
three changes take effect together. A snapshot that is written before `commit` has the buffer as it was before the
batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from cepbook.session.io.reorder import Entry, ReorderBuffer

WaitingEvent = tuple[int, str, Mapping[str, Any], int]  # time, type and values of an event, number of the buffer


class WaitingEvents(ReorderBuffer):
    """A buffer whose entries are an event type and an event.

    `owned`: a live source uses the buffer. A loaded buffer has no source until one claims its events. `release` returns
    the very tuples that `insert` got, because entries are compared by identity. Changes count from the last commit.
    """

    def __init__(self, number: int, lateness: int = 0, *, owned: bool = False) -> None:
        super().__init__(lateness)
        self.number, self.owned = number, owned
        self.commits = 0
        self._added: list[Entry] = []  # since the last commit
        self._removed: list[Entry] = []
        self._former: Sequence[Entry] | None = None  # what is committed, if all entries were replaced

    def insert(self, entry: Entry) -> None:
        super().insert(entry)
        self._added.append(entry)

    def release(self, most: int | None = None) -> list[Entry]:
        released = super().release(most)
        self._removed += released
        return released

    def put_back(self, released: list[Entry]) -> None:
        """Insert entries before all others: those of the last `release`, with no commit since, or new ones."""
        # `self.replace` would take all entries for new ones
        super().replace([*released, *self.entries()])
        removed, back = set(map(id, self._removed)), set(map(id, released))
        self._added += [entry for entry in released if id(entry) not in removed]
        self._removed = [entry for entry in self._removed if id(entry) not in back]

    def replace(self, entries: Iterable[Entry]) -> None:
        if self._former is None:
            self._former = self._committed
        super().replace(entries)

    @property
    def changed(self) -> bool:
        """True if there is something to commit."""
        return bool(self._added or self._removed) or self._former is not None

    @property
    def _committed(self) -> Sequence[Entry]:
        if self._former is not None:
            return self._former
        added = set(map(id, self._added))
        return [entry for entries in (self._removed, self.entries()) for entry in entries if id(entry) not in added]

    def commit(self) -> None:
        """Let all changes take effect."""
        self._added, self._removed, self._former = [], [], None
        self.commits += 1

    def saved(self) -> list[WaitingEvent]:
        """Return the committed events."""
        return [(time, name, event, self.number) for time, (name, event) in self._committed]

    def changes(self) -> list[Any]:
        """Return ``[number, gone, added]``: the number of this buffer, how many committed events were removed,
        and those that were added. The removed ones are always the first ones; None is all. `repeat` takes the last two.
        """
        if self._former is not None:
            return [self.number, None, [[time, *item] for time, item in self.entries()]]
        added, removed = set(map(id, self._added)), set(map(id, self._removed))
        gone = sum(id(entry) not in added for entry in self._removed)
        return [self.number, gone, [[entry[0], *entry[1]] for entry in self._added if id(entry) not in removed]]

    def repeat(self, gone: int | None, events: Iterable[tuple[int, str, Any]]) -> None:
        """Apply the `changes` of another buffer and commit them."""
        super().replace([] if gone is None else self.entries()[gone:])
        for time, name, event in events:
            super().insert((time, (name, event)))
        self.commit()

    def take(self, names: Collection[str]) -> list[Entry]:
        """Remove and return the events of these types, at once: there is nothing to commit before or after it."""
        taken = [entry for entry in self.entries() if entry[1][0] in names]
        super().replace([entry for entry in self.entries() if entry[1][0] not in names])
        return taken

    def fill(self, entries: Iterable[Entry]) -> None:
        """Add events in any order, even before the watermark, and commit them."""
        for entry in entries:
            self.insert(entry)
        if self.entries():
            self.advance(self.entries()[-1][0] - self._lateness)
        self.commit()

    def disown(self) -> None:
        """Undo what is not committed, and let another live source claim the rest."""
        super().replace(self._committed)
        self.commit()
        self.owned = False

    def clear(self) -> None:
        """Forget everything, as if nothing had arrived."""
        super().replace([])
        self.watermark = None
        self.commit()


class WaitingBuffers:
    """The buffers of a workbench by number: those of running live sources, and those that no source has claimed."""

    def __init__(self) -> None:
        self._buffers: dict[int, WaitingEvents] = {}

    def open(self, lateness: int) -> WaitingEvents:
        """Return a buffer for live sources, whose events are saved with the workbench until `release`."""
        number = max(self._buffers, default=0) + 1
        return self._buffers.setdefault(number, WaitingEvents(number, lateness, owned=True))

    def release(self, buffer: WaitingEvents) -> None:
        """End the use of a buffer by its source. Events that are left in it are saved, and wait for another source."""
        buffer.disown()
        if not len(buffer) and self._buffers.get(buffer.number) is buffer:
            del self._buffers[buffer.number]

    def saved(self) -> list[WaitingEvent]:
        """Return the committed events of all buffers."""
        return [event for buffer in self._buffers.values() for event in buffer.saved()]

    def restore(self, events: Iterable[WaitingEvent]) -> None:
        """Replace all buffers by loaded ones."""
        by_number: dict[int, list[tuple[int, str, Any]]] = {}
        for time, name, event, number in events:
            by_number.setdefault(number, []).append((time, name, event))
        self._buffers = {}
        for number, entries in by_number.items():
            self.repeat(number, 0, entries)

    def unclaimed(self) -> list[int]:
        """Return the numbers of the buffers whose events have no source."""
        return [buffer.number for buffer in self._buffers.values() if len(buffer) and not buffer.owned]

    def move(self, names: Collection[str], origins: Iterable[int], number: int | None) -> None:
        """Move the events of these types from the buffers `origins` into that of `number`; None: drop them."""
        buffers = [self._buffers[origin] for origin in origins if origin in self._buffers]
        entries = [entry for buffer in buffers for entry in buffer.take(names)]
        self._buffers = {key: buffer for key, buffer in self._buffers.items() if buffer.owned or len(buffer)}
        if number is not None:
            self._buffers.setdefault(number, WaitingEvents(number)).fill(entries)

    def repeat(self, number: int, gone: int | None, events: Iterable[tuple[int, str, Any]]) -> None:
        """Apply the `changes` of another buffer to that of `number`."""
        self._buffers.setdefault(number, WaitingEvents(number)).repeat(gone, events)

    def clear(self) -> None:
        """Empty all buffers."""
        for buffer in self._buffers.values():
            buffer.clear()


SourcePart = tuple[str, str, str]  # event type, source, and its partition, as those of a Kafka topic
Offsets = Mapping[SourcePart, Any]


def plain_offsets(offsets: Offsets) -> list[list[Any]]:
    """Return offsets of live sources as plain data."""
    return [[*source, offset() if callable(offset) else offset] for source, offset in offsets.items()]


class SourceProgress(NamedTuple):
    """The progress of live sources once a batch is processed: their offsets, and the events that still wait."""

    offsets: Offsets = MappingProxyType({})
    waiting: WaitingEvents | None = None

    def plain(self) -> dict[str, Any]:
        """Return the progress as plain data: arguments of `EngineHandle.repeat_progress`."""
        changes = None if self.waiting is None or not self.waiting.changed else self.waiting.changes()
        data = {"offsets": plain_offsets(self.offsets), "waiting": changes}
        return {name: value for name, value in data.items() if value}

    def commit(self, offsets: dict[SourcePart, Any]) -> None:
        """Copy the offsets into `offsets` and commit the events."""
        offsets.update(self.offsets)
        if self.waiting is not None:
            self.waiting.commit()


NO_PROGRESS = SourceProgress()
