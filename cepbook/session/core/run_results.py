"""What the workbench answers: small values with a short, deterministic text and an HTML table for notebooks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cepbook.display import DisplayTable, captioned_html, format_count, format_time
from cepbook.session.io.time_conversion import format_clock_time

if TYPE_CHECKING:
    from cepbook.engine.runtime import Deployment, RunningStatement


def columns_text(properties: Mapping[str, object]) -> str:
    """``name type, name type`` of an event type's properties."""
    return ", ".join(f"{name} {of}" for name, of in properties.items())


def statement_kind(statement: RunningStatement) -> str:
    """What a statement is, for people; of one that creates a store that, with the store's name if it differs."""
    store = statement.owned
    if store is None:
        return statement.kind
    kind = "named window" if store.type.kind == "window" else "table"
    return kind if store.name == statement.name else f"{kind} {store.name}"


@dataclass(frozen=True, slots=True)
class RunResult:
    """What `Workbench.run` deployed. `messages` tell what else changed (dependants deployed anew, names
    gone), and what failed with the first partitions or rows.
    """

    deployment: Deployment
    statements: tuple[RunningStatement, ...]
    replaced: bool
    messages: tuple[str, ...] = ()

    @property
    def _running(self) -> list[RunningStatement]:
        """The statements that are listed by their own names."""
        return [s for s in self.statements if s.kind != "create variable"]

    def __repr__(self) -> str:
        verb = "replaced" if self.replaced else "deployed"
        found = self.deployment
        made = (*found.event_types, *found.contexts, *found.variables, *(s.name for s in self._running))
        names = ", ".join(dict.fromkeys(made)) or "nothing"
        return "\n".join((f"{verb} {names}", *self.messages))

    def _repr_html_(self) -> str:
        made = self.deployment
        stores = {s.owned.name for s in self._running if s.owned is not None}
        rows = [(name, "event type", "") for name in made.event_types if name not in stores]
        rows += [(name, "context", "") for name in made.contexts]
        rows += [(name, "variable", "") for name in made.variables]
        rows += [(s.name, statement_kind(s), columns_text(s.output_type.properties)) for s in self._running]
        verb = "replaced" if self.replaced else "deployed"
        return captioned_html(verb, DisplayTable(("name", "kind", "columns"), (False,) * 3, tuple(rows)), self.messages)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The outcome of a replay; nothing in it depends on the wall clock.

    `state` is ``finished`` or ``stopped``; `clock` is the engine's time at the end, `second` how many of its units a
    second has; `deliveries` counts the deliveries of every statement that had any during the replay; `late` events were
    dropped; `errors` is the number of statement errors.
    """

    state: str
    events: int
    clock: int
    deliveries: Mapping[str, int] = field(default_factory=dict)
    late: int = 0
    errors: int = 0
    second: int = 1000

    def _head(self) -> str:
        clock = format_time(self.clock, second=self.second)
        text = f"{self.events:,} event{'' if self.events == 1 else 's'} {self.state}, clock {clock}"
        if self.late:
            text += f", {self.late:,} late dropped"
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
    """How far a replay is: events so far, `total` planned if known, `clock` in ms, events per second of running time.
    Where `total` is not known, `estimate` may tell about how many it will be.

    `state` is ``ready``, ``running``, ``paused``, ``finished``, ``stopped`` or ``failed``. A replay with a speed is so
    many seconds `behind` the wall clock.
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
    """Who awaited a replay was cancelled; the replay is paused. A notebook shows the words without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


def paused_message(events: int, clock: int, second: int) -> str:
    """The words of an interrupted replay: how far it came, and how it goes on."""
    fact = (
        f"interrupted: the replay is paused at {format_clock_time(clock, second)}, after "
        f"{format_count(events, 'event')}"
    )
    return f"{fact}\n  hint: resume() goes on, step() takes one event, stop() ends it"
