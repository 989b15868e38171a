"""Sinks of a killed process: rows that are delivered again are compared with those that the file has.

A sink writes no row before the stimuli that led to it are in the log. So the file has the first of the rows that the
log delivers again, and the missing ones are the rest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.engine.delivery.delta import Sink
from cepbook.feeds import SinkFeed
from cepbook.lang.types import Type
from cepbook.session.io.files import file_stamp
from cepbook.session.io.output.sink_files import OtherRowsError, count_delivered
from cepbook.session.io.output.sinks import FileSink, SinkError, feed_rows
from cepbook.session.io.output.time_types import column_from

Mark = Mapping[str, Any]
AttachLater = Callable[[str, Sink, Callable[[object], object]], Callable[[], None]]


@dataclass(slots=True)
class _Interrupted:
    """A sink that was open, or was about to be closed, and what it is delivered again."""

    mark: Mark
    tap: SinkFeed
    columns: Mapping[str, Type]
    leave: Callable[[], None]
    closing: bool = False
    former: Sequence[int] | None = None  # `file_stamp` of the file that a finished one would replace
    missing: list[tuple[Any, ...]] | None = None


class SinkRecovery:
    """The sinks of a log. `attach` connects a sink with a statement of the workbench in which the log happens again.

    `lost` has the errors of sinks that had failed.
    """

    def __init__(self, attach: AttachLater) -> None:
        self._attach = attach
        self._sinks: dict[tuple[str, str], _Interrupted] = {}  # by path and table
        self.lost: list[str] = []

    def open(self, **mark: Any) -> None:
        """Note that a sink is open from now on, `mark` tells how far it is."""
        tap = SinkFeed(lambda: None)
        tap.begin_at(mark["number"])
        columns = {name: column_from(data) for name, data in mark["columns"]}
        leave = self._attach(mark["name"], tap, lambda _: None)  # also to a statement that was dropped and may return
        self._sinks[mark["path"], mark["table"]] = _Interrupted(mark, tap, columns, leave)

    def closing(self, path: str, table: str, former: Sequence[int] | None) -> None:
        """Note that a sink delivers nothing more and is about to be finished, when its path had the stamp `former`."""
        sink = self._sinks.get((path, table))
        if sink is not None:
            sink.closing, sink.former = True, former
            sink.leave()

    def closed(self, path: str, table: str) -> None:
        """Note that the file of a sink is finished."""
        self._sinks.pop((path, table), None)

    def lose_all(self) -> None:
        """Note that the workbench was reset: the sinks get nothing more."""
        for sink in self._sinks.values():
            sink.closing = True

    def compare(self) -> None:
        """Find the rows that are missing in the files. Raises SinkError for a file that has other rows."""
        for key, sink in list(self._sinks.items()):
            rows = feed_rows(sink.tap.peek(), [name for name, _ in sink.mark["types"]])
            columns = sink.columns
            place = sink.mark["place"]
            try:
                count = count_delivered(place, sink.mark["position"], rows, columns, sink.mark["table"])
                sink.missing = rows[count:]
            except FileNotFoundError:
                stamp = file_stamp(sink.mark["path"])
                if not sink.closing or stamp in (None, sink.former):
                    raise _refusal(sink.mark, f"the file {place!r} is gone") from None
                del self._sinks[key]  # it was finished before the end was recorded
            except OtherRowsError:
                raise _refusal(sink.mark, f"{place!r} has other rows than were delivered") from None
            except Exception as error:
                raise _refusal(sink.mark, f"{place!r} cannot be compared: {error}") from error

    def complete(self, reopen: Callable[[Mark, Mapping[str, Type], int], FileSink]) -> list[FileSink]:
        """Open the sinks by ``reopen(mark, columns, number)`` and write the missing rows. Return those that stay open.

        Raises SinkError if a file cannot be written.
        """
        sinks = []
        for item in self._sinks.values():
            sink = reopen(item.mark, item.columns, item.tap.number)
            sink.restore(item.missing or [])
            if item.closing:
                sink.close()
            else:
                sinks.append(sink)
        return sinks


def _refusal(mark: Mark, fact: str) -> SinkError:
    return SinkError(
        f"the sink of `{mark['name']}` cannot go on: {fact}\n"
        "  hint: put the file back, or leave all sinks out: recover(…, sinks=False)"
    )
