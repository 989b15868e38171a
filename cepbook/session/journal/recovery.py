"""Recovery: a workbench from a snapshot and the log that follows it.

Recovery repeats the stimuli of the log in a second workbench. It compiles the EPL of the log. It runs no code that is
stored in the log; registered Python functions are called as the statements call them. Errors of statements happen again
and are no errors of the recovery. An action that did not fail when it was recorded must not fail.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cepbook.engine.snapshot.file_format import WRITTEN_BY, unpack_document
from cepbook.errors import JournalError, SnapshotError, StatementError, UsageError, exception_text
from cepbook.session.io.frame_source import EventChunk
from cepbook.session.io.source_merge import SourceBatch
from cepbook.session.journal.entry_group import CLOCK, STEPS, Entry, unpack_entries
from cepbook.session.journal.event_columns import RANKS, TIMES, from_graph, read_batch
from cepbook.session.journal.log_file import Frame, LogReader

TakeBatches = Callable[[Sequence[SourceBatch], bool], object]


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of `Workbench.recover`.

    `stimuli` were repeated since the snapshot, `failures` of them raised an error, `cut` bytes at the end of the log
    were left out. `sinks` are open, `lost` has the errors of those that had failed and are not continued. `missing`
    says how many rows of `Workbench.changes` the journal did not have, by statement; it is empty if it had all of them.
    """

    path: str
    stimuli: int
    cut: int
    clock: str
    statements: int
    sinks: tuple[Any, ...] = field(default=())
    failures: int = 0
    lost: tuple[str, ...] = ()
    missing: str = ""

    def __repr__(self) -> str:
        failed = f", {self.failures:,} of them failed" if self.failures else ""
        cut = f", {self.cut:,} bytes at the end of the log left out" if self.cut else ""
        lines = [
            f"recovered from {self.path}: {self.statements:,} statements, clock {self.clock}; "
            f"{self.stimuli:,} stimuli since the snapshot{failed}{cut}"
        ]
        lines += [f"  {sink!r}" for sink in self.sinks]
        lines += [f"  {text}" for text in self.lost]
        if self.missing:
            lines.append(f"missing: {self.missing}")
        return "\n".join(lines)


def read_log(path: str, *, cut: bool) -> tuple[list[Frame], int]:
    """Return the frames of a log and the number of bytes that follow them and were left out.

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
    """Repeats the stimuli of a log.

    `send`, `advance` and `taker`, which returns the function that takes batches of some event types, are those of an
    engine that has no journal; `actions` has the actions of the user by name. `stimuli` counts what was repeated (a
    batch is one), `failures` what raised an error.
    """

    def __init__(
        self,
        send: Callable[[str, dict[str, Any]], object],
        advance: Callable[[int, bool], object],
        taker: Callable[[Sequence[str]], TakeBatches],
        actions: Mapping[str, Callable[..., object]],
    ) -> None:
        self._send, self._advance, self._taker, self._actions = send, advance, taker, actions
        self._takers: dict[tuple[str, ...], TakeBatches] = {}
        self._dictionaries: dict[int, list[Any]] = {}
        self._written_by = WRITTEN_BY
        self.stimuli = 0
        self.failures = 0

    def repeat(self, frames: Sequence[Frame]) -> None:
        """Repeat the frames in order.

        Raises SnapshotError or JournalError for one that is invalid, and for an action that fails now only.
        """
        may_fail = {len(frames) - 1}  # a process that was killed then has not told
        action = 0
        for number, (header, _) in enumerate(frames):
            if header.get("is") == "action":
                action = number
            elif header.get("is") == "failed":
                may_fail.add(action)
        for number, (header, blocks) in enumerate(frames):
            try:
                act = self._prepared(header, blocks)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise SnapshotError(f"the journal is damaged: {type(error).__name__}: {error}") from error
            if act is not None:
                self._act(header, act, number in may_fail)

    def _prepared(self, header: Mapping[str, Any], blocks: Sequence[memoryview]) -> Callable[[], object] | None:
        """Return the function that repeats a frame; None if it is no stimulus."""
        match header["is"]:
            case "begin":
                self._written_by = header["cepbook"]
            case "failed":
                pass
            case "dictionary":
                self._dictionaries[header["number"]] = header["texts"]
            case "action":
                return partial(self._actions[header["do"]], **from_graph(header["with"]))
            case "group":
                return partial(self._entries, unpack_entries(header["parts"], iter(blocks)))
            case "batches":
                return self._batches(header, blocks)
            case kind:
                raise ValueError(f"unknown frame {kind!r}")
        return None

    def _act(self, header: Mapping[str, Any], act: Callable[[], object], may_fail: bool) -> None:
        if header["is"] == "group":
            act()
            return
        failure = self._attempt(act)
        if header["is"] != "action":
            return
        self._takers.clear()  # it may have changed the event types or the runtime
        if failure is not None and not may_fail:
            other = "" if self._written_by == WRITTEN_BY else f" by cepbook {self._written_by} (this is {WRITTEN_BY})"
            raise SnapshotError(
                f"`{header['do']}` fails now, and did not when it was recorded{other}: {exception_text(failure)}\n"
                "  hint: recover with the same version of cepbook, the same plug-ins and functions"
            ) from failure

    def _attempt(self, act: Callable[..., object], *arguments: Any) -> Exception | None:
        """Call `act`. Return an error that is not that of a statement; those happen again."""
        self.stimuli += 1
        try:
            act(*arguments)
        except StatementError:
            pass
        except Exception as error:  # noqa: BLE001  it failed before, too, or `_act` refuses it
            self.failures += 1
            return error
        return None

    def _entries(self, entries: Sequence[Entry]) -> None:
        for name, value in entries:
            if name in (CLOCK, STEPS):
                self._attempt(self._advance, value, name == STEPS)
            else:
                self._attempt(self._send, name, value)

    def _batches(self, header: Mapping[str, Any], blocks: Sequence[memoryview]) -> Callable[[], object]:
        batches, rest = [], iter(blocks)
        for section in header["parts"]:
            columns = read_batch(section, rest, self._dictionaries)
            times = columns.pop(TIMES)
            ranks = columns.pop(RANKS, None)
            chunk = EventChunk(times, _reader(section["type"], columns))
            batches.append(SourceBatch(section["source"], section["type"], times, chunk, 0, ranks))
        types, progress = tuple(header["types"]), from_graph(header["progress"]) if "progress" in header else None

        def take() -> None:
            if progress is not None:
                self._actions["reach"](**progress)
            if types not in self._takers:
                self._takers[types] = self._taker(types)
            self._takers[types](batches, header["stepping"])

        return take


def _reader(type_name: str, columns: Mapping[str | int, list[Any]]) -> Callable[[str], list[Any]]:
    def read(name: str) -> list[Any]:
        if name not in columns:
            raise UsageError(f"the journal does not have the column `{name}` of `{type_name}`")
        return columns[name]

    return read
