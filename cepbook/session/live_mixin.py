"""What comes into a workbench while it runs: live sources and real time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable, Mapping

from cepbook.errors import UsageError
from cepbook.session.io.live_sources import Sleep
from cepbook.session.replay.live_ingestion import Live, check_sources
from cepbook.session.replay.wall_clock import Now, WallClock, unix_ns
from cepbook.session.replay_mixin import ReplayMixin


class LiveMixin(ReplayMixin):
    """The ways in which events and time come to a workbench by themselves, beside `send`, `advance` and `replay`."""

    @property
    def clock_note(self) -> str:
        """What ended the live clock, or that it waits for the present; mostly nothing."""
        return "" if self._clock is None else self._clock.note

    def run_clock(self, *, here: bool = False, now: Now = unix_ns, sleep: Sleep = asyncio.sleep) -> WallClock:
        """Let real time drive the clock until `stop_clock`: what is due happens by itself.

        The clock goes to the present; with `here` time runs on from where it stands. `now` (ns since 1970) and `sleep`
        are for tests. Raises UsageError without a running event loop, during a replay, and when the clock is past the
        present. A clock that runs already goes on.
        """
        if self.live_clock is None:
            if self.replaying is not None:
                self.replaying.refuse_another()
            self._clock = WallClock(self, here=here, now=now, sleep=sleep)
        assert self._clock is not None
        return self._clock

    def stop_clock(self) -> None:
        """The clock stands still again; without a live one nothing happens."""
        if self._clock is not None:
            self._clock.stop()
            self._clock = None

    def live(
        self,
        sources: Mapping[str, AsyncIterable[object] | Iterable[object]],
        *,
        time: str | Mapping[str, str] | None = None,
        now: Now = unix_ns,
        sleep: Sleep = asyncio.sleep,
    ) -> Live:
        """Take events from async sources, by event type, as they come: ``live = cep.live({"Tick": ticks()})``.

        A source is an async iterator of dicts or dataclass instances: a generator of one's own, or what
        `cepbook.session.inlets` makes (websocket, line socket, tail of a file, database, Kafka). Without `time` an
        event happens when it arrives, and a wall clock drives the time while the sources run (one that ran goes on).
        With `time`, a column of the event time, the clock follows the events, and one that is older is late.

        Nothing is lost silently: items that are no events are counted and kept (`Live.rejected`), a source that fails
        is told of and does not stop the others. While a reader of `stream` is full no further event is taken. ``await``
        it, or `stop` it. Raises UsageError, EventError for unknown types.
        """
        check_sources(self, sources)
        if self.replaying is not None:
            self.replaying.refuse_another()
        if time is not None and self.live_clock is not None:
            raise UsageError("a live clock drives the time already\n  hint: stop_clock(), or leave `time` out")
        owns = time is None and self.live_clock is None
        clock = self.run_clock(now=now, sleep=sleep) if time is None else None
        return Live(self, sources, time=time, clock=clock, owns_clock=owns, sleep=sleep)
