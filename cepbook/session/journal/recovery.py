"""Recovery: a workbench from a snapshot and the log behind it.

The stimuli of the log happen again in a second workbench. Nothing of the log is executed, except that EPL is compiled
and calls the Python functions that are registered. Statement errors happen again and are no errors of the recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cepbook.engine.snapshot.file_format import unpack_document
from cepbook.errors import CepbookError, JournalError, SnapshotError, UsageError
from cepbook.session.io.frame_source import EventChunk
from cepbook.session.io.source_merge import SourceBatch
from cepbook.session.journal.event_columns import from_graph, read_batch
from cepbook.session.journal.journal import CLOCK, STEPS, Entry
from cepbook.session.journal.log_file import Frame, LogReader

Feed = Callable[[Sequence[SourceBatch], bool], None]


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of `Workbench.recover`: stimuli behind the snapshot, bytes of a torn end, and open sinks."""

    path: str
    stimuli: int
    cut: int
    clock: str
    statements: int
    sinks: tuple[Any, ...] = field(default=())

    def __repr__(self) -> str:
        torn = f", {self.cut:,} bytes of an unfinished group left out" if self.cut else ""
        lines = [
            f"recovered from {self.path}: {self.statements:,} statements, clock {self.clock}; "
            f"{self.stimuli:,} stimuli since the snapshot{torn}"
        ]
        return "\n".join([*lines, *(f"  {sink!r}" for sink in self.sinks)])


def read_log(path: str, *, cut: bool) -> tuple[list[Frame], int]:
    """Return the frames of a log and the number of bytes behind them.

    Raises JournalError if it is damaged; with `cut`, the frames before the damage are returned.
    """
    reader = LogReader(path)
    frames: list[Frame] = []
    try:
        frames.extend(reader)
    except JournalError:
        if not cut:
            raise
        return frames, reader.size - reader.position
    return frames, reader.cut


def functions_needed(snapshot: bytes, frames: Sequence[Frame], registered: Collection[str]) -> list[str]:
    """Return the functions that a snapshot was made with.

    Raises SnapshotError with the names of all functions, also those of the log, that are not registered.
    """
    names = [name for name, _ in unpack_document(snapshot)["functions"]]
    later = [from_graph(header["with"])["name"] for header, _ in frames if header.get("do") == "register_function"]
    missing = [name for name in dict.fromkeys([*names, *later]) if name not in registered]
    if missing:
        raise SnapshotError(
            f"the journal needs Python functions that are not registered: {', '.join(f'`{name}`' for name in missing)}"
            "\n  hint: run the cells that define them (`@cep.function`, `@cep.aggregate`, `@cep.window`) first"
        )
    return names


class LogRepeater:
    """Makes the stimuli of a log happen again.

    `send`, `advance` and `feeder` are those of the engine; `actions` has the actions of the user by name. `stimuli`
    counts them.
    """

    def __init__(
        self,
        send: Callable[[str, dict[str, Any]], object],
        advance: Callable[[int, bool], object],
        feeder: Callable[[Sequence[str]], Feed],
        actions: Mapping[str, Callable[..., object]],
    ) -> None:
        self._send, self._advance, self._feeder, self._actions = send, advance, feeder, actions
        self._feeds: dict[tuple[str, ...], Feed] = {}
        self._dictionaries: list[list[Any]] = []
        self.stimuli = 0

    def repeat(self, frames: Sequence[Frame]) -> None:
        """Repeat the frames in order. Raises SnapshotError or JournalError for one that is invalid."""
        for header, blocks in frames:
            try:
                self._repeat(header, blocks)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise SnapshotError(f"the journal is damaged: {type(error).__name__}: {error}") from error

    def _repeat(self, header: Mapping[str, Any], blocks: Sequence[memoryview]) -> None:
        kind = header["is"]
        if kind == "dictionary":
            self._dictionaries.append(header["texts"])
        elif kind == "action":
            action, arguments = self._actions[header["do"]], from_graph(header["with"])
            if header["do"] in ("reset", "rewind", "run", "drop", "define"):
                self._feeds.clear()
            self._attempt(lambda: action(**arguments))
        elif kind == "few":
            self._entries(from_graph(header["entries"]))
        elif kind == "group":
            self._entries(self._group(header["parts"], blocks))
        elif kind == "batches":
            self._batches(header, blocks)

    def _attempt(self, act: Callable[[], object]) -> None:
        self.stimuli += 1
        try:
            act()
        except (JournalError, SnapshotError):
            raise
        except CepbookError:  # it failed before, too
            pass

    def _entries(self, entries: Sequence[Entry]) -> None:
        for name, value in entries:
            if name in (CLOCK, STEPS):
                self._attempt(lambda time=value, steps=name == STEPS: self._advance(time, steps))  # type: ignore[misc]
            else:
                self._attempt(lambda name=name, event=value: self._send(name, event))  # type: ignore[misc]

    def _group(self, parts: Sequence[Mapping[str, Any]], blocks: Sequence[memoryview]) -> list[Entry]:
        ranked: list[tuple[int, Entry]] = []
        for section, block in zip(parts, blocks, strict=True):
            columns = read_batch(section, block, self._dictionaries)
            ranks: Sequence[int] = columns.pop("#") if len(parts) > 1 else range(section["count"])
            if section["type"] in (CLOCK, STEPS):
                values: Iterator[Any] = iter(columns[""])
            else:
                names = list(columns)
                rows = zip(*columns.values(), strict=True) if names else iter([()] * section["count"])
                values = (dict(zip(names, row, strict=True)) for row in rows)
            ranked += ((rank, (section["type"], value)) for rank, value in zip(ranks, values, strict=True))
        ranked.sort(key=lambda item: item[0])
        return [entry for _, entry in ranked]

    def _batches(self, header: Mapping[str, Any], blocks: Sequence[memoryview]) -> None:
        batches = []
        for section, block in zip(header["parts"], blocks, strict=True):
            columns = read_batch(section, block, self._dictionaries)
            times = columns.pop("")
            ranks = columns.pop("#", None)
            chunk = EventChunk(times, _reader(section["type"], columns))
            batches.append(SourceBatch(section["source"], section["type"], times, chunk, 0, ranks))
        types = tuple(header["types"])
        if types not in self._feeds:
            self._feeds[types] = self._feeder(types)
        if "progress" in header:
            self._actions["reach"](**from_graph(header["progress"]))
        self._attempt(lambda: self._feeds[types](batches, header["stepping"]))


def _reader(type_name: str, columns: Mapping[str, list[Any]]) -> Callable[[str], list[Any]]:
    def read(name: str) -> list[Any]:
        if name not in columns:
            raise UsageError(f"the journal does not have the column `{name}` of `{type_name}`")
        return columns[name]

    return read
