"""Rounds: what one stimulus (an event, an advance of the clock, an assignment from outside) leads to.

A round goes on until all statements have seen the stimulus, what they held was delivered, and the events that they
derived have been through the same. It is atomic: what user code does wrong is told, and stops nobody else. Where a
round was broken off by something else (a second Ctrl-C, `SystemExit`, a fault of the engine) some statements may have
seen the stimulus and others not: the runtime is broken then, and says so at everything that it is asked to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType

from cepbook.engine.delivery.delta import Row
from cepbook.engine.delivery.outlet import DeliveryHolder
from cepbook.engine.dispatch.failures import FailureLog
from cepbook.engine.relations.store import PendingChanges
from cepbook.engine.subscriptions.filter_index import EventHandler
from cepbook.engine.time.activations import ActivationScheduler
from cepbook.engine.time.clock import Clock
from cepbook.engine.time.timers import NEVER, DueEntry, OwnerTimers
from cepbook.errors import CepbookError, Interrupted, StatementError, UsageError

_MOST_DERIVED = 1_000_000  # events that one event may lead to
_MOST_STEPS = 100_000  # changes of named windows that one event may lead to, one because of the other
_PATIENCE = 1_000  # derived events that are still processed when the user wants to stop


class Turn:
    """The present round of a runtime: derived events that wait, statements that hold rows, failures.

    ``route(type)`` gives what takes events of a type, None if there is no such type (a listener may have dropped it);
    `caught` attributes a failure. `halt` asks the loops of the engine to stop at the next place where nothing is lost.
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
        self._clock = clock
        self._failures = failures
        self._route = route
        self._caught = caught
        self._rewired = rewired
        self.queue: deque[tuple[str, list[Row]]] = deque()
        self.changes = PendingChanges(self.request_flush)
        self.activations = ActivationScheduler(clock, self.request_flush)
        self._waiting = self.activations.waiting
        self.halt = False
        self._held: list[DeliveryHolder] = []
        self._broken: BaseException | None = None

    # -------------------------------------------------------------- whole or broken
    def check(self) -> None:
        """Errors: UsageError when an earlier round was broken off."""
        if self._broken is not None:
            what = type(self._broken).__name__
            raise UsageError(
                f"the engine was broken off in the middle of its work ({what}): some statements have seen the last "
                "event or advance, others have not\n  hint: begin again with Workbench.rewind() or reset()"
            ) from self._broken

    @property
    def broken(self) -> bool:
        """Whether an earlier round was broken off."""
        return self._broken is not None

    def told(self, failure: BaseException) -> bool:
        """Whether `failure` is what a round raised when it was over, of somebody's error."""
        return failure is self._failures.raised

    def broke(self, failure: BaseException) -> None:
        """Something that is no failure of user code escaped in the middle of a round."""
        if isinstance(failure, Interrupted | CepbookError) or self.told(failure):
            return
        if self._broken is None:
            self._broken = failure
            self.frozen()
            self._rewired()

    def frozen(self) -> None:
        """A broken runtime has no fast ways: its clock is always due, and that is where `check` stands."""
        if self._broken is not None:
            self._clock.due = -NEVER

    def __enter__(self) -> None:
        self.check()

    def __exit__(self, kind: object, failure: BaseException | None, at: TracebackType | None) -> None:
        if failure is not None:
            self.broke(failure)

    @property
    def over(self) -> bool:
        """Whether nothing waits: no rows that are held, no derived events, no failures."""
        return not (self.queue or self.changes or self._waiting or self._held or self._failures.waiting)

    # -------------------------------------------------------------- what statements do in a round
    def hold(self, holder: DeliveryHolder) -> None:
        """`statement` holds rows until everybody has seen the present event (or instant)."""
        if not self._held:
            self.request_flush()
        self._held.append(holder)

    def request_flush(self) -> None:
        """Make the sender look into the queue when the event was seen."""
        self.queue.append(("", []))

    # -------------------------------------------------------------- running
    def advance(self, t: int, *, raising: bool = True) -> None:
        """Set the clock to `t`, run what is due, and process what that leads to."""
        try:
            self.fire(t)
            if self.queue:
                self.drain(raising=raising)
        except BaseException as failure:
            self.broke(failure)
            raise

    def fire(self, t: int) -> None:
        """Set the clock to `t` and run what is due. What an exception keeps from being run stays armed."""
        if self._broken is not None:
            self.check()
        due: list[tuple[OwnerTimers, list[DueEntry]]] = []
        try:
            self._clock.now = t
            due = self._clock.pop_due(t)
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
            self.broke(failure)
            raise

    def drain(self, *, raising: bool = True) -> None:
        """Process what waits behind the present event: held rows, derived events, failures that nobody listens for."""
        try:
            if self._held or self.changes.moved or self._waiting:
                self._settle()
            self._derive()
            if raising:
                self._failures.raise_pending()
            elif self._failures.waiting:
                self.request_flush()
        except BaseException as failure:
            self.broke(failure)
            raise

    def settled(self) -> None:
        """Process what a query has changed."""
        if self.queue or self.changes or self._waiting or self._held:
            self.drain()
        else:
            self._failures.raise_pending()

    def _derive(self) -> None:
        queue, derived, wanted = self.queue, 0, 0
        moved, waiting = self.changes.moved, self._waiting
        while queue:
            type_name, rows = queue.popleft()
            for number, row in enumerate(rows):
                route = self._route(type_name)
                if route is None:
                    break
                if self.halt:
                    wanted += 1
                    if wanted > _PATIENCE:
                        self._give_up(type_name, rows[number:])
                try:
                    route(row)
                except Exception as failure:  # noqa: BLE001 - attributed to its statement
                    self._caught(failure)
                if self._held or moved or waiting:
                    self._settle()
            if self._held or moved or waiting:  # while rows were released
                self._settle()
            derived += len(rows)
            if derived > _MOST_DERIVED:
                queue.clear()
                raise UsageError(
                    f"insert into feeds itself without end: one event led to more than {_MOST_DERIVED:,} derived ones "
                    f"(the last of type `{type_name}`); the rest was dropped"
                )

    def _give_up(self, type_name: str, rows: list[Row]) -> None:
        """The user wants to stop, and derived events do not come to an end. Errors: Interrupted, always."""
        count = len(rows) + sum(len(rows) for _, rows in self.queue)
        self.queue.clear()
        fact = f"interrupted: {count:,} derived events of one event were dropped, the first of type `{type_name}`"
        interruption = Interrupted(fact)
        self._failures.tell(StatementError(type_name, fact, None, interruption))
        raise interruption

    def _settle(self) -> None:
        """Everybody has seen the present event: deliver what is held, and hand on what moved in stores."""
        self._release()
        steps = 0
        while self.changes or self._waiting:
            steps += 1
            if steps > _MOST_STEPS and self.changes:
                name = self.changes.dropped()
                raise UsageError(
                    f"named window `{name}` feeds itself without end: one event led to more than {_MOST_STEPS:,} "
                    "changes one after the other; the rest was dropped"
                )
            (self.changes or self.activations).spread()
            self._release()

    def _release(self) -> None:
        """Statements deliver what they hold, in the order in which they had their first rows."""
        held, self._held = self._held, []
        for statement in held:
            try:
                statement.release()
            except Exception as failure:  # noqa: BLE001 - attributed to its statement
                statement.failed(failure)
                statement.release()  # if it did not come so far


def _back(timers: OwnerTimers, entries: list[DueEntry]) -> None:
    """Arm again what may not have been run. Where it was, nothing is due and nothing will happen."""
    for due, path in entries:
        timers.arm(path, min(due, timers.at(path)))


def run_all_steps(steps: Iterable[Callable[[], object]]) -> BaseException | None:
    """Take all `steps`; one that is interrupted is taken again. The interruption, for when they were all taken.

    Raises at once whatever interrupts a second time.
    """
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
