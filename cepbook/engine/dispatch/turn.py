"""Turns: the processing of one stimulus (an event, an advance of the clock, an assignment from outside).

::

    stimulus ─► statements ─► flush: held rows, changes of stores, activations ─► derived events, one by one ─┐
                    ▲                                                                                        │
                    └────────────────────────────────────────────────────────────────────────────────────────┘

Derived events wait in a queue. Rows for named windows come first, so an event finds the rows that were inserted
together with it. Then come events by their precedence (`Config.precedence`) and in the order of their insertion.

A turn ends when all statements have seen the stimulus, held rows are delivered, and derived events have been through
the same. It is atomic: a failure of user code is reported and stops nothing else. If something else breaks a turn off
(a second Ctrl-C, `SystemExit`, a defect of the engine), some statements may have seen the stimulus and others not. Then
the runtime is broken, and every further call says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from cepbook.engine.delivery.delta import Row
from cepbook.engine.delivery.outlet import DeliveryOutlet
from cepbook.engine.dispatch.failures import FailureLog
from cepbook.engine.relations.store import PendingChanges
from cepbook.engine.subscriptions.filter_index import EventHandler
from cepbook.engine.time.activations import ActivationScheduler
from cepbook.engine.time.clock import Clock
from cepbook.engine.time.timers import NEVER, DueEntry, OwnerTimers
from cepbook.errors import CepbookError, Interrupted, StatementError, UsageError

_MOST_DERIVED = 1_000_000  # derived events of one event
_MOST_STEPS = 100_000  # consecutive changes of named windows caused by one event
_PATIENCE = 1_000  # derived events that are still processed after an interrupt


class Turn:
    """The present turn of a runtime: queued derived events, statements that hold rows, failures.

    `route(type)` returns the handler of a type, or None if the type does not exist any more. `caught` attributes a
    failure. `halt` asks the loops of the engine to stop at the next point where nothing is lost.
    """

    SAVED = ("queue",)

    def __init__(
        self,
        clock: Clock,
        failures: FailureLog,
        route: Callable[[str], EventHandler | None],
        caught: Callable[[Exception], None],
        rewired: Callable[[], None],
    ) -> None:
        self.clock = clock
        self._failures = failures
        self._route = route
        self._caught = caught
        self._rewired = rewired
        self.queue: deque[tuple[str, list[Row], int]] = deque()  # type, events, rank; the highest ranks first
        self.changes = PendingChanges(self.request_flush)
        self.activations = ActivationScheduler(clock, self.request_flush)
        self._waiting = self.activations.waiting
        self.halt = False
        self._buffering: list[DeliveryOutlet] = []
        self._broken: BaseException | None = None

    def check(self) -> None:
        """Errors: UsageError if an earlier turn was broken off."""
        if self._broken is not None:
            what = type(self._broken).__name__
            raise UsageError(
                f"the engine was interrupted in the middle of an event or a change ({what}): some statements have seen "
                "it, others have not\n  hint: call Workbench.rewind() or reset() to start again"
            ) from self._broken

    @property
    def broken(self) -> bool:
        """True if an earlier turn was broken off."""
        return self._broken is not None

    def raised_at_end(self, failure: BaseException) -> bool:
        """Return True if a turn raised `failure` at its end, as the error of a statement."""
        return failure is self._failures.raised

    def mark_broken(self, failure: BaseException) -> None:
        """Mark the runtime as broken, unless `failure` is an error of user code or an interruption."""
        if isinstance(failure, Interrupted | CepbookError) or self.raised_at_end(failure):
            return
        if self._broken is None:
            self._broken = failure
            self.block_fast_paths()
            self._rewired()

    def block_fast_paths(self) -> None:
        """Disable the fast paths of a broken runtime: its clock is always due, and `check` stands there."""
        if self._broken is not None:
            self.clock.due = -NEVER

    def __enter__(self) -> None:
        self.check()

    def __exit__(self, kind: object, failure: BaseException | None, at: TracebackType | None) -> None:
        if failure is not None:
            self.mark_broken(failure)

    @property
    def over(self) -> bool:
        """True if nothing waits: no held rows, no derived events, no failures."""
        return not (self.queue or self.changes or self._waiting or self._buffering or self._failures.waiting)

    def request_release(self, outlet: DeliveryOutlet) -> None:
        """Note that `outlet` holds rows until all statements have seen the present event or instant."""
        if not self._buffering:
            self.request_flush()
        self._buffering.append(outlet)

    def request_flush(self) -> None:
        """Make the sender drain the queue when all statements have seen the event."""
        self.queue.append(("", [], self.queue[-1][2] if self.queue else 0))

    def enqueue(self, type_name: str, rows: list[Row], rank: int) -> None:
        """Queue derived events before those of lower rank."""
        queue = self.queue
        if not queue or queue[-1][2] >= rank:
            queue.append((type_name, rows, rank))
        else:
            queue.insert(bisect_right(queue, -rank, key=lambda entry: -entry[2]), (type_name, rows, rank))

    def advance(self, t: int, *, raising: bool = True) -> None:
        """Set the clock to `t`, run everything due, and process what follows from it."""
        try:
            self.fire(t)
            if self.queue:
                self.drain(raising=raising)
        except BaseException as failure:
            self.mark_broken(failure)
            raise

    def fire(self, t: int) -> None:
        """Set the clock to `t` and run everything due. Entries that an exception prevents from running stay armed."""
        if self._broken is not None:
            self.check()
        due: list[tuple[OwnerTimers, list[DueEntry]]] = []
        try:
            clock = self.clock
            clock.former, clock.now = clock.now, t
            due = clock.pop_due(t)
            while due:
                timers, entries = due[0]
                try:
                    timers.run(t, entries)
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    _back(timers, entries)
                    timers.failed(failure)
                del due[0]
                if timers.drops:
                    while due:
                        suppressed, entries = due[0]
                        suppressed.lose(t, entries)
                        del due[0]
        except BaseException as failure:
            for timers, entries in due:
                _back(timers, entries)
            self.mark_broken(failure)
            raise

    def drain(self, *, raising: bool = True) -> None:
        """Process everything that waits: held rows, derived events, failures without a listener."""
        try:
            if self._buffering or self.changes.moved or self._waiting:
                self._flush()
            self._derive(None)
            if raising:
                self._failures.raise_pending()
            elif self._failures.waiting:
                self.request_flush()
        except BaseException as failure:
            self.mark_broken(failure)
            raise

    def settled(self) -> None:
        """Process what waits, and raise the first failure that no error listener was notified of."""
        if self.queue or self.changes or self._waiting or self._buffering:
            self.drain()
        else:
            self._failures.raise_pending()

    def _derive(self, above: int | None) -> None:
        """Process queued events, if not None those of a higher rank than `above`, and all that follow from them."""
        queue, derived, after_halt = self.queue, 0, 0
        moved, waiting = self.changes.moved, self._waiting
        while queue and (above is None or queue[0][2] > above):
            type_name, rows, rank = queue.popleft()
            for number, row in enumerate(rows):
                if number and queue and queue[0][2] > rank:
                    self._derive(rank)
                route = self._route(type_name)
                if route is None:
                    break
                if self.halt:
                    after_halt += 1
                    if after_halt > _PATIENCE:
                        self._give_up(type_name, rows[number:])
                try:
                    route(row)
                except Exception as failure:  # noqa: BLE001 - attributed to its statement
                    self._caught(failure)
                if self._buffering or moved or waiting:
                    self._flush()
            if self._buffering or moved or waiting:  # queued while rows were released
                self._flush()
            derived += len(rows)
            if derived > _MOST_DERIVED:
                queue.clear()
                raise UsageError(
                    f"`insert into` feeds itself: one event produced more than {_MOST_DERIVED:,} derived ones "
                    f"(the last of type `{type_name}`); the rest was dropped"
                )

    def _give_up(self, type_name: str, rows: list[Row]) -> None:
        """Drop the derived events of a turn that the user wants to stop. Errors: always Interrupted."""
        count = len(rows) + sum(len(rows) for _, rows, _ in self.queue)
        self.queue.clear()
        fact = f"interrupted: {count:,} derived events of one event were dropped, the first of type `{type_name}`"
        interruption = Interrupted(fact)
        self._failures.tell(StatementError(type_name, fact, None, interruption))
        raise interruption

    def _flush(self) -> None:
        self._release()
        steps = 0
        while self.changes or self._waiting:
            steps += 1
            if steps > _MOST_STEPS and self.changes:
                name = self.changes.dropped()
                raise UsageError(
                    f"named window `{name}` feeds itself: one event caused more than {_MOST_STEPS:,} "
                    "changes one after the other; the rest was dropped"
                )
            (self.changes or self.activations).spread()
            self._release()

    def _release(self) -> None:
        outlets, self._buffering = self._buffering, []
        for outlet in outlets:
            try:
                outlet.release()
            except Exception as failure:  # noqa: BLE001 - attributed to its statement
                outlet.failed(failure)
                outlet.release()  # in case the failure prevented it


def _back(timers: OwnerTimers, entries: list[DueEntry]) -> None:
    """Arm entries again that may not have run. For those that ran nothing is due, so nothing happens."""
    for due, path in entries:
        timers.arm(path, min(due, timers.at(path)))


def run_all_steps(steps: Iterable[Callable[[], object]]) -> BaseException | None:
    """Run all `steps`, repeating an interrupted one; return the interruption. A second one is raised at once."""
    interruption: BaseException | None = None
    for step in steps:
        try:
            step()
        except BaseException as failure:
            if interruption is not None:
                raise
            interruption = failure
            step()
    return interruption


def build_sender(
    routes: Mapping[str, EventHandler],
    type_name: str,
    turn: Turn,
    caught: Callable[[Exception], None],
    time: str | None = None,
) -> Callable[[dict[str, Any]], None]:
    """Return a sender by `routes`, which may change; `time` names the property with the event's time."""
    queue, clock = turn.queue, turn.clock

    def send(event: dict[str, Any]) -> None:
        try:
            try:
                routes[type_name](event)
            except Exception as failure:  # noqa: BLE001 - attributed to its statement
                caught(failure)
            if queue:
                turn.drain()
        except BaseException as failure:
            turn.mark_broken(failure)
            raise

    def send_at(event: dict[str, Any]) -> None:
        now = event[time]  # type: ignore[index]
        try:
            if now > clock.now:
                if now < clock.due:
                    clock.now = now
                else:
                    turn.fire(now)
                    if queue:
                        turn.drain(raising=False)
            try:
                routes[type_name](event)
            except Exception as failure:  # noqa: BLE001 - attributed to its statement
                caught(failure)
            if queue:
                turn.drain()
        except BaseException as failure:
            turn.mark_broken(failure)
            raise

    return send if time is None else send_at
