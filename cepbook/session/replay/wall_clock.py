"""A wall clock that drives the time of the engine."""

from __future__ import annotations

import asyncio
import time as wall
from collections.abc import Callable

from cepbook.display import format_time
from cepbook.errors import StatementError, UsageError, exception_text
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.io.live_sources import Sleep

GRAIN = 0.05  # seconds: how often the wall clock looks at what is due
JUMP = 60  # seconds: a longer gap (a machine that slept) is one advance, not a stop at every due time

Now = Callable[[], int]


def unix_ns() -> int:
    """Nanoseconds since 1970."""
    return wall.time_ns()


class WallClock:
    """Advances the clock of a workbench with real time, in an asyncio task, until `stop`.

    The first advance goes to the present (UTC) in one go; with `here` time runs on from where the clock stands, also
    where that is moved by hand. `failures` counts advances with statement errors; `failure` is the exception that
    ended it, if one did, and `note` says so. Raises UsageError without a running event loop and when the clock is past
    the present already.
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
        self.takers: list[Callable[[], object]] = []  # what is to be taken before time goes on: what came until now
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
        """How far the clock is past the present, in its units: so long nothing moves it. 0: it is not."""
        return max(0, self._workbench.runtime.now - self.present)

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def note(self) -> str:
        """What people should know: what ended it, that it waits for the present; mostly nothing."""
        if self.failure is not None:
            return f"the live clock ended: {exception_text(self.failure)}"
        if self._task is not None and self._task.done():
            return "the live clock ended with its event loop"
        if self.running and not self._here and self.lead >= self._second:
            return f"{format_time(self.lead, second=self._second)} ahead of the present: the live clock waits for it"
        return ""

    def _anchor(self) -> None:
        """Time runs on from where the clock stands."""
        self._runtime = self._workbench.runtime
        self._offset += self._runtime.now - self.present

    def touch(self, to: int | None = None) -> None:
        """Bring the engine's clock to the present, or `to` a time before it that is not long ago.

        Statements that fail are counted and told in `errors`.
        """
        if to is None:
            for take in (*self.takers,):
                take()
            if self._here and (self._workbench.runtime is not self._runtime or self.lead):
                self._anchor()  # it has begun anew, was loaded, or moved by hand
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
                self.touch()
        except Exception as error:  # noqa: BLE001  kept: `note` tells of it, and so do the panel and `%clock`
            self.failure = error
            told = {"message": f"cepbook: {self.note}", "exception": error, "task": self._task}
            asyncio.get_running_loop().call_exception_handler(told)

    def stop(self) -> None:
        """Time stands still again."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def __repr__(self) -> str:
        failed = f", {self.failures:,} advances with statement errors" if self.failures else ""
        state = "live" if self.running else "stopped"
        return f"clock {self._workbench.clock}, {state}{failed}" + (f"\n  {self.note}" if self.note else "")
