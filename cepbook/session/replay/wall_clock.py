"""A wall clock that drives the time of the engine."""

from __future__ import annotations

import asyncio
import time as wall
from collections.abc import Callable

from cepbook.display import format_time
from cepbook.errors import JournalError, StatementError, UsageError, exception_text
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.io.live.live_sources import Sleep

GRAIN = 0.05  # seconds between two checks for due timers
JUMP = 60  # seconds: a longer gap (a suspended machine) is one advance without stops at due times

Now = Callable[[], int]


def unix_ns() -> int:
    """Return nanoseconds since 1970."""
    return wall.time_ns()


class WallClock:
    """Advances the clock of a workbench with real time, in an asyncio task, until `stop`.

    The first advance goes to the present (UTC) in one step. With `here`, time runs on from the current clock, also
    after that is moved by hand. `failures` counts advances with statement errors. `obstacle` is the reason why the
    journal has refused the last advance; the next one tries again. `failure` is the exception that ended the clock, if
    one did. Raises UsageError without a running event loop, and if the clock is past the present.
    """

    def __init__(
        self, workbench: WorkbenchCore, *, here: bool = False, now: Now = unix_ns, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._workbench = workbench
        self._now, self._sleep = now, sleep
        self._here = here
        self._offset = 0
        self._runtime = workbench.runtime
        self.failures = 0
        self.failure: Exception | None = None
        self.obstacle: JournalError | None = None
        self.takers: list[Callable[[], object]] = []  # called before time moves on, to take what has arrived
        if here:
            self._anchor()
        elif self.lead:
            raise UsageError(
                f"the clock is at {workbench.clock}, past the present\n  hint: `%epl rewind` begins anew, or let it "
                "run on from there: run_clock(here=True), `%clock live here`"
            )
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("a live clock needs a running event loop, as a notebook or asyncio.run have") from None
        self.touch()
        self._task: asyncio.Task[None] | None = loop.create_task(self._run(), name="cepbook clock")

    @property
    def _second(self) -> int:
        return self._workbench.runtime.config.second

    @property
    def present(self) -> int:
        """The time that the clock should have now."""
        return self._now() // (1_000_000_000 // self._second) + self._offset

    @property
    def lead(self) -> int:
        """How far the clock is past the present, in clock units; real time moves it once this is 0."""
        return max(0, self._workbench.runtime.now - self.present)

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def note(self) -> str:
        """A message for the user: why the clock ended, or that it waits for the present. Usually empty."""
        if self.failure is not None:
            return f"the live clock ended: {exception_text(self.failure)}"
        if self._task is not None and self._task.done():
            return "the live clock ended with its event loop"
        if self.obstacle is not None:
            return f"the live clock waits: {self.obstacle}"
        if self.running and not self._here and self.lead >= self._second:
            return f"{format_time(self.lead, second=self._second)} ahead of the present: the live clock waits for it"
        return ""

    def _anchor(self) -> None:
        self._runtime = self._workbench.runtime
        self._offset += self._runtime.now - self.present

    def touch(self, to: int | None = None) -> None:
        """Advance the engine's clock to the present, or to `to`, a recent time. Errors are counted."""
        if to is None:
            for take in (*self.takers,):
                take()
            if self._here and (self._workbench.runtime is not self._runtime or self.lead):
                self._anchor()  # the workbench was reset, loaded, or its clock moved by hand
            to = self.present
        behind = to - self._workbench.runtime.now
        if behind <= 0:
            return
        try:
            self._workbench.advance(to, stepping=behind <= JUMP * self._second)
        except StatementError:
            self.failures += 1

    async def _run(self) -> None:
        try:
            while True:
                due = self._workbench.runtime.next_due
                wait = GRAIN if due is None else (due - self.present) / self._second
                await self._sleep(min(max(wait, 0.001), GRAIN))
                try:
                    self.touch()
                    self.obstacle = None
                except JournalError as error:  # nothing was done
                    self.obstacle = error
        except Exception as error:  # noqa: BLE001  kept: `note` tells of it, and so do the panel and `%clock`
            self.failure = error
            context = {"message": f"cepbook: {self.note}", "exception": error, "task": self._task}
            asyncio.get_running_loop().call_exception_handler(context)

    def stop(self) -> None:
        """Stop the clock."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def __repr__(self) -> str:
        failed = f", {self.failures:,} advances with statement errors" if self.failures else ""
        state = "live" if self.running else "stopped"
        return f"clock {self._workbench.clock}, {state}{failed}" + (f"\n  {self.note}" if self.note else "")
