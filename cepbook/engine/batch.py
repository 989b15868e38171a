"""Many events at once: the loop runs inside the generated code, over columns.

A replay hands over slices of columns in total order. Statements do not share state, so each runs through the slice on
its own, which gives every statement exactly the deliveries that event-by-event sending gives it: timers are evaluated
at the times at which the clock would have been advanced (`ticks`: all distinct event times of the slice), and rows of
``insert into`` go on to their readers with the time of their origin. Where statements do depend on the order among
themselves (a plain listener, several sources of one stream, …) the events are sent one by one; `reason` says why.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any, Protocol

from cepbook.engine.clock import Clock
from cepbook.engine.contexts import KeyedContext
from cepbook.engine.delta import RawDelta, Row, Rows
from cepbook.engine.rows.shape import TIMED
from cepbook.engine.statement import Statement
from cepbook.lang import expr as x
from cepbook.lang.catalog import Catalog


class Replayed(Protocol):
    """What a batch needs of the runtime that it feeds."""

    clock: Clock
    catalog: Catalog
    version: int

    @property
    def now(self) -> int: ...
    @property
    def statements(self) -> Mapping[str, Statement]: ...
    @property
    def contexts(self) -> Mapping[str, KeyedContext]: ...
    def readers(self, type_name: str) -> list[Statement]: ...
    def sender(self, type_name: str) -> Callable[[dict[str, Any]], None]: ...
    def advance(self, t: int) -> None: ...
    def raise_unraised(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive events of one type: `times` ascending (ms), `columns` by property name, all of one length.

    `ranks` are the positions of the events in the total order of the replay; needed when several types are replayed.
    """

    type: str
    times: list[int]
    columns: Mapping[str, list[Any]]
    ranks: Sequence[int] | None = None


class Batch:
    """The batch entry for events of `types`. Stays valid when statements come and go between two `run`s."""

    def __init__(self, runtime: Replayed, types: Sequence[str]) -> None:
        self._runtime = runtime
        self.types = tuple(types)
        self._version = -1
        self._reason: str | None = None
        self._raw: dict[str, list[Statement]] = {}
        self._columns: dict[str, tuple[str, ...]] = {}

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The properties of each type that `run` must be given now; ask again before each slice."""
        self._plan()
        return self._columns

    @property
    def reason(self) -> str | None:
        """Why events are sent one by one; None when slices run inside the generated code."""
        self._plan()
        return self._reason

    def run(self, slices: Sequence[Slice]) -> None:
        """Process the events of `slices` (at most one per type), which precede all events of the next call.

        Before an event of time t the clock advances to t; events before the clock's time do not move it.
        Errors: as `Runtime.send`.
        """
        self._plan()
        runtime = self._runtime
        if not any(s.times for s in slices):
            return
        if self._reason is not None:
            self._send_one_by_one(slices)
            return
        last = max(s.times[-1] for s in slices if s.times)
        ticks = _ticks(slices)
        for each in slices:
            self._run_raw(each, ticks, last)
        given = {each.type for each in slices}
        for statement in (s for name in self.types if name not in given for s in self._raw[name]):
            self._finish(statement, [], ticks, last)  # no event came, but the clock moved
        for statement in runtime.statements.values():
            if statement.timed.due <= last and statement.program.shape.source.event_type not in self._reached:
                self._finish(statement, [], ticks, last)
        runtime.clock.now = max(last, runtime.clock.now)
        runtime.clock.settle()
        runtime.raise_unraised()

    # -------------------------------------------------------------- planning
    def _plan(self) -> None:
        runtime = self._runtime
        if self._version == runtime.version:
            return
        self._version = runtime.version
        self._raw = {name: runtime.readers(name) for name in self.types}
        self._reason = self._obstacle()
        self._columns = {name: self._needed(name) for name in self.types}

    def _needed(self, name: str) -> tuple[str, ...]:
        properties = self._runtime.catalog.event_types[name].properties
        if self._reason is not None:
            return tuple(properties)
        wanted = {c for s in self._raw[name] for c in s.program.columns}
        for context, listed in self._allocating(name):
            wanted.update(context.columns(listed))
        return tuple(c for c in properties if c in wanted)

    def _allocating(self, type_name: str) -> list[tuple[KeyedContext, str]]:
        """The active contexts in which events of `type_name` open partitions, each with its listed type."""
        found: list[tuple[KeyedContext, str]] = []
        for context in self._runtime.contexts.values():
            listed = next((t for t in context.streams if self._runtime.catalog.is_a(type_name, t)), None)
            if listed is not None and any(context.statements):
                found.append((context, listed))
        return found

    def _obstacle(self) -> str | None:
        """Why the statements cannot run through a slice one after the other; None if they can."""
        sources: dict[str, int] = {}
        self._reached: set[str] = set(self.types)
        pending = [s for readers in self._raw.values() for s in readers]
        for statement in pending:
            sources[statement.name] = sources.get(statement.name, 0) + 1
        done: set[str] = set()
        while pending:
            statement = pending.pop()
            if statement.name in done:
                continue
            done.add(statement.name)
            found = self._obstacle_in(statement)
            if found is not None:
                return found
            if statement.plan.insert is not None:
                target = statement.plan.insert.target
                self._reached.add(target)
                for reader in self._runtime.readers(target):
                    sources[reader.name] = sources.get(reader.name, 0) + 1
                    pending.append(reader)
        for name, count in sources.items():
            if count > 1:
                return f"`{name}` reads from several sources"
        return self._context_obstacle()

    def _obstacle_in(self, statement: Statement) -> str | None:
        if statement.listened:
            return f"`{statement.name}` has a listener that is called one delivery at a time"
        window = statement.program.shape.window
        if window is not None and window.name in TIMED and not _positive(window.args[0]):
            return f"`{statement.name}` has a period that is not a positive constant"
        if window is not None and "START_EAGER" in window.options and statement.context is not None:
            return f"`{statement.name}` starts its batches when a partition begins"
        if statement.plan.drop:
            return f"`{statement.name}` drops events for statements of lower priority"
        return None

    def _context_obstacle(self) -> str | None:
        opened: dict[str, str] = {}
        for name in sorted(self._reached):
            for context, _ in self._allocating(name):
                if context.name in opened:
                    return f"context `{context.name}` takes partitions from several streams"
                opened[context.name] = name
                read = any(s.context is context for s in self._runtime.readers(name))
                if name not in self.types and not read:
                    return f"context `{context.name}` takes partitions from the derived stream `{name}`"
        return None

    # -------------------------------------------------------------- running
    def _run_raw(self, each: Slice, ticks: list[int] | None, last: int) -> None:
        count = len(each.times)
        partitions = {c.name: c.assign(listed, each.columns, count) for c, listed in self._allocating(each.type)}
        for statement in self._raw[each.type]:
            program, out = statement.program, []  # type: tuple[Any, list[RawDelta]]
            found = None if statement.context is None else partitions[statement.context.name]
            columns = [each.columns[name] for name in program.columns]
            catch_up = _catch_up(statement, out, ticks)
            program["run"](each.times, statement.state, out, catch_up, ticks, found, *columns)
            self._finish(statement, out, ticks, last)

    def _run_derived(
        self, statement: Statement, events: list[tuple[int, Row]], ticks: list[int] | None, last: int
    ) -> None:
        out: list[RawDelta] = []
        clock, timed = self._runtime.clock, statement.timed
        catch_up = _catch_up(statement, out, ticks)
        push, before = statement.push, clock.now

        def collect(time: int, insert: Rows, remove: Rows) -> None:
            out.append((time, insert, remove))

        if push is not None:
            statement.redirect(collect)
        take = self._taker(statement)
        try:
            for time, event in events:
                if time >= timed.due:
                    catch_up(time)
                clock.now = time
                try:
                    take(event)
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    statement.failed(failure, time)
        finally:
            clock.now = before
            statement.redirect(push)
        self._finish(statement, out, ticks, last)

    def _taker(self, statement: Statement) -> Any:
        take, context = statement.program["on_event"], statement.context
        if context is None:
            return take
        target = statement.program.shape.source.event_type
        locate = context.locator(next(listed for c, listed in self._allocating(target) if c is context))
        slot = statement.program.namespace["slot"]

        def within(event: Row) -> None:
            partition = locate(event)
            if partition is not None:
                take(event, partition.states[slot])

        return within

    def _finish(self, statement: Statement, out: list[RawDelta], ticks: list[int] | None, last: int) -> None:
        """Fire what is due until the end of the slice, deliver, and hand inserted rows on."""
        if statement.timed.due <= last:
            _catch_up(statement, out, ticks)(last)
        if not out:
            events: list[tuple[int, Row]] = []
        else:
            statement.deliver_batch(out)
            if statement.plan.insert is None:
                return
            events = [(time, row) for time, ins, rem in out for row in statement.inserted(ins, rem)]
        if statement.plan.insert is not None:
            for reader in self._runtime.readers(statement.plan.insert.target):
                self._run_derived(reader, events, ticks, last)

    def _send_one_by_one(self, slices: Sequence[Slice]) -> None:
        runtime = self._runtime
        senders = {each.type: runtime.sender(each.type) for each in slices}
        streams = [
            [
                (rank, number, i)
                for i, rank in enumerate(each.ranks if each.ranks is not None else range(len(each.times)))
            ]
            for number, each in enumerate(slices)
        ]
        for _, number, i in merge(*streams):
            each = slices[number]
            if each.times[i] > runtime.now:
                runtime.advance(each.times[i])
            senders[each.type]({name: values[i] for name, values in each.columns.items()})


def _positive(period: x.Expr) -> bool:
    """Whether a period is a constant above 0."""
    parts: list[x.Expr] = [period]
    if isinstance(period, x.Period):
        parts = [e for e in (period.months, period.millis) if e is not None]
    values = [e.value for e in parts if isinstance(e, x.Const)]
    return len(values) == len(parts) and any(isinstance(v, (int, float)) and v > 0 for v in values)


def _ticks(slices: Sequence[Slice]) -> list[int] | None:
    """All distinct times of the slices in order; None for one slice, whose own times are the ticks."""
    filled = [s for s in slices if s.times]
    if len(filled) == 1:
        return filled[0].times
    return sorted({t for s in filled for t in s.times})


def _catch_up(statement: Statement, out: list[RawDelta], ticks: list[int] | None) -> Any:
    """A function that fires the statement's timers up to a time, at the ticks at which the clock stops."""
    timed = statement.timed

    def catch_up(t: int) -> None:
        while timed.due <= t:
            tick = t if ticks is None else ticks[bisect_left(ticks, timed.due)]
            found = statement.collect(tick)
            if found is not None:
                out.append((tick, *found))

    return catch_up
