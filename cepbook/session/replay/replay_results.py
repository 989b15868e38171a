"""Values that a replay answers with: its progress, its result, and the error of an interrupted replay."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from cepbook.display import DisplayTable, captioned_html, format_count, format_time
from cepbook.session.io.time_conversion import clock_text


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay. Nothing in it depends on the wall clock.

    `state` is ``finished`` or ``stopped``. `clock` is the engine's time at the end; a second has `second` of its units.
    `deliveries` counts deliveries by statement. `late` events were dropped. `errors` counts statement errors. Where the
    clock leapt, `late_timers` fired after they were due, by at most `longest_delay` (clock units).
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

    def _head(self) -> str:
        clock = format_time(self.clock, second=self.second)
        text = f"{self.events:,} event{'' if self.events == 1 else 's'} {self.state}, clock {clock}"
        if self.late:
            text += f", {self.late:,} late dropped"
        if self.late_timers:
            delay = str(timedelta(seconds=self.longest_delay / self.second))
            delay = delay.rstrip("0") if "." in delay else delay
            text += f", {format_count(self.late_timers, 'timer')} fired late, by up to {delay}"
        if self.errors:
            text += f", {self.errors:,} statement error{'' if self.errors == 1 else 's'} (see Workbench.errors)"
        return text

    def __repr__(self) -> str:
        return "\n".join((self._head(), *(f"  {name}: {n:,} deliveries" for name, n in self.deliveries.items())))

    def _repr_html_(self) -> str:
        rows = [(name, f"{n:,}") for name, n in self.deliveries.items()]
        return captioned_html(self._head(), DisplayTable(("statement", "deliveries"), (False, True), tuple(rows)))


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a replay: `events` so far of `total` (None if unknown; `estimate` may then be approximate),
    `clock` in ms.

    `rate` is in events per second of running time. `state` is ``ready``, ``running``, ``paused``, ``finished``,
    ``stopped`` or ``failed``. A replay with a speed is `behind` the wall clock by that many seconds.
    """

    events: int
    total: int | None
    rate: float
    clock: int
    state: str
    late: int = 0
    behind: float = 0.0
    estimate: int | None = None


class ReplayInterrupted(asyncio.CancelledError):
    """Raised when the task that awaits a replay is cancelled. The replay is paused. Notebooks show no traceback."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


def paused_message(events: int, clock: int, second: int) -> str:
    """Return the message of an interrupted replay: how far it came and how to continue."""
    at, count = clock_text(clock, second), format_count(events, "event")
    fact = f"interrupted: the replay is paused at {at}, after {count}"
    return f"{fact}\n  hint: resume() goes on, step() takes one event, stop() ends it"
