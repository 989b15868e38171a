"""The methods of `Workbench` for live sources and real time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, Iterable, Mapping
from datetime import timedelta

from cepbook.errors import UsageError
from cepbook.session.io.live.live_sources import Sleep
from cepbook.session.replay.live_ingestion import Live, LiveOptions, check_sources
from cepbook.session.replay.wall_clock import Now, WallClock, unix_ns
from cepbook.session.replay_mixin import ReplayMixin


class LiveMixin(ReplayMixin):
    """Events and time that come by themselves, beside `send`, `advance` and `replay`."""

    @property
    def clock_note(self) -> str:
        """The reason why the live clock ended, or that it waits for the present. Usually empty."""
        return "" if self._clock is None else self._clock.note

    def run_clock(self, *, here: bool = False, now: Now = unix_ns, sleep: Sleep = asyncio.sleep) -> WallClock:
        """Let real time drive the clock until `stop_clock`. Timers fire by themselves.

        The clock goes to the present; with `here`, time runs on from the current clock. `now` (ns since 1970) and
        `sleep` are for tests. A clock that runs already continues. Raises UsageError without a running event loop,
        during a replay, and if the clock is past the present.
        """
        if self.live_clock is None:
            if self.replaying is not None:
                self.replaying.refuse_another()
            self._clock = WallClock(self, here=here, now=now, sleep=sleep)
        assert self._clock is not None
        return self._clock

    def stop_clock(self) -> None:
        """Stop the live clock, if one runs."""
        if self._clock is not None:
            self._clock.stop()
            self._clock = None

    def live(
        self,
        sources: Mapping[str, AsyncIterable[object] | Iterable[object]],
        *,
        time: str | Mapping[str, str] | None = None,
        lateness: str | timedelta | None = None,
        ahead: str | timedelta | None = None,
        rejected: str | os.PathLike[str] | None = None,
        resume: bool = True,
        status: str | None = None,
        now: Now = unix_ns,
        sleep: Sleep = asyncio.sleep,
    ) -> Live:
        """Take events from async sources, by event type, as they come: ``live = cep.live({"Tick": ticks()})``.

        A source is an async iterator of dicts or dataclass instances: your own generator, or one of
        `cepbook.session.inlets` (websocket, line socket, tail of a file, database, Kafka). Without `time` an event
        happens when it arrives, and a wall clock drives the time while the sources run; a clock that runs already
        continues. With `time`, a column of the event time, the clock follows the events, and an older event is late. It
        becomes an event of the predefined type `LateEvent`, as in a replay. With a `lateness`, such as ``"5 sec"``,
        events that are out of order by at most that are put in order. They wait for earlier ones, at most until the
        latest time has not risen for that long in real time. An event whose time is later than the present by more than
        `ahead`, such as ``"1 hour"``, is rejected: one wrong date would move the clock there, and make all that follow
        late.

        Nothing is lost without a trace. Items that are no events are counted and kept (`Live.rejections`), and so are
        late events. `rejected` is the path of a file of JSON lines (.jsonl) that gets them as they came. A source that
        fails is reported and does not stop the others. While a reader of `stream` is full, no further event is taken.

        `save` writes waiting events, and the places in files, databases and Kafka: a source that ran here before, or in
        the workbench that was loaded, continues there. ``resume=False`` begins anew; so does all after `rewind`.

        `status` names an event type that gets an event for each change of a source: `source` (its event type), `state`
        (``connected``, ``reconnecting``, ``reconnected``, ``notice``, ``paused``, ``resumed``, ``finished``,
        ``stopped``, ``failed``), `reason` and `gap` (seconds without a connection).

        ``await`` the result, or `stop` it. Raises UsageError, and EventError for unknown types.
        """
        check_sources(self, sources, status)
        if self.replaying is not None:
            self.replaying.refuse_another()
        if time is not None and self.live_clock is not None:
            raise UsageError("a live clock drives the time already\n  hint: stop_clock(), or leave `time` out")
        if lateness is not None and time is None:
            raise UsageError('a lateness needs the column of the event time\n  hint: time="ts", lateness="5 sec"')
        if ahead is not None and time is None:
            raise UsageError('`ahead` needs the column of the event time\n  hint: time="ts", ahead="1 hour"')
        bound, limit = self._span("lateness", lateness) or 0, self._span("ahead", ahead)
        owns = time is None and self.live_clock is None
        with self._rejected_file(rejected) as file:
            clock = self.run_clock(now=now, sleep=sleep) if time is None else None
            late_stream = time is not None and self._define_late_events()
            options = LiveOptions(time, bound, limit, late_stream, resume, status, now, sleep)
            return Live(self, sources, options, clock=clock, owns_clock=owns, file=file)
