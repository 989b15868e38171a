"""Values that a replay answers with: its progress, its result, and the error of an interrupted replay."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from cepbook.display import DisplayTable, captioned_html, format_count, format_time
from cepbook.errors import ReplayError, StatementError
from cepbook.session.io.time_conversion import clock_text

MAX_UNREAD = 3  # columns that a result names
MAX_SILENT = 20  # statements without deliveries that are listed by name


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay. Nothing in it depends on the wall clock.

    `state` is ``finished`` or ``stopped``. `clock` is the engine's time at the end; a second has `second` of its units.
    `deliveries` counts deliveries by statement, 0 included. `late` events were left out, `late_by_type` counts them
    by type. `rejected` counts items that are no events by type, `rejections` by type and reason. `errors` counts errors
    of statements and their listeners, `failures` are the latest of them, oldest first. Where the clock leapt,
    `late_timers` fired after they were due, by at most `longest_delay` (clock units). `unread_columns` are those
    of DataFrames that are no properties of the type, by type.
    """

    state: str
    events: int
    clock: int
    deliveries: Mapping[str, int] = field(default_factory=dict)
    late: int = 0
    errors: int = 0
    second: int = 1000
    late_timers: int = 0
    longest_delay: int = 0
    late_by_type: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    rejections: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    failures: tuple[StatementError, ...] = field(default=(), repr=False, compare=False)
    unread_columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def _head(self) -> str:
        clock = format_time(self.clock, second=self.second)
        text = f"{self.events:,} event{'' if self.events == 1 else 's'} {self.state}, clock {clock}"
        if self.late:
            text += f", {self.late:,} late dropped"
        if self.rejected:
            text += f", {sum(self.rejected.values()):,} rejected"
        if self.late_timers:
            delay = str(timedelta(seconds=self.longest_delay / self.second))
            delay = delay.rstrip("0") if "." in delay else delay
            text += f", {format_count(self.late_timers, 'timer')} fired late, by up to {delay}"
        if self.errors:
            text += f", {format_count(self.errors, 'statement error')} (see Workbench.errors)"
        for type_name, columns in self.unread_columns.items():
            names = ", ".join(f"`{name}`" for name in columns[:MAX_UNREAD])
            more = f" and {len(columns) - MAX_UNREAD} more" if len(columns) > MAX_UNREAD else ""
            text += f"; `{type_name}` has no {'property' if len(columns) == 1 else 'properties'} {names}{more}"
        return text

    def _lines(self) -> list[tuple[str, str]]:
        silent = [name for name, count in self.deliveries.items() if not count]
        many = len(silent) > MAX_SILENT
        lines = [(name, f"{count:,}") for name, count in self.deliveries.items() if count or not many]
        return [*lines, (f"{len(silent):,} more statements", "0")] if many else lines

    def __repr__(self) -> str:
        return "\n".join((self._head(), *(f"  {name}: {count} deliveries" for name, count in self._lines())))

    def error(self) -> ReplayError:
        """Return the exception that tells of the statement errors."""
        counts = Counter(failure.statement for failure in self.failures)
        texts = [f"`{name}` {n:,}" for name, n in counts.items()]
        texts += [f"earlier {self.errors - counts.total():,}"] if self.errors > counts.total() else []
        head = f"{format_count(self.errors, 'statement error')} in a replay of {format_count(self.events, 'event')}"
        end = "All events were processed." if self.state == "finished" else "The replay was stopped."
        first = next(iter(self.failures), None) or StatementError("", "", None, Exception("the errors were cleared"))
        hint = '  hint: `cep.errors` lists the errors; `replay(…, errors="keep")` does not raise'
        lines = (f"{head}: {', '.join(texts)}. {end}", str(first), hint)
        return ReplayError(first, "\n".join(filter(None, lines)), self)

    def _repr_html_(self) -> str:
        rows = self._lines()
        return captioned_html(self._head(), DisplayTable(("statement", "deliveries"), (False, True), tuple(rows)))


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a replay: `events` so far of `total` (None if unknown; `estimate` may then be approximate),
    `clock` in ms.

    `rate` is in events per second of running time. `state` is ``ready``, ``running``, ``paused``, ``finished``,
    ``stopped`` or ``failed``. A replay with a speed is `behind` the wall clock by that many seconds. `late` events were
    dropped, `errors` counts statement errors.
    """

    events: int
    total: int | None
    rate: float
    clock: int
    state: str
    late: int = 0
    behind: float = 0.0
    estimate: int | None = None
    errors: int = 0


class ReplayInterrupted(asyncio.CancelledError):
    """Raised when the task that awaits a replay is cancelled. The replay is paused. Notebooks show no traceback.

    A time limit is given with `asyncio.wait_for`, as for `LiveInterrupted`.
    """

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


def paused_message(events: int, clock: int, second: int) -> str:
    """Return the message of an interrupted replay: how far it came and how to continue."""
    at, count = clock_text(clock, second), format_count(events, "event")
    fact = f"interrupted: the replay is paused at {at}, after {count}"
    return f"{fact}\n  hint: resume() goes on, step() takes one event, stop() ends it"
