"""Replays of historic events, and saving and loading, on which the snapshots of a replay are built."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from io import BytesIO
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

from cepbook.argument_checks import caller_stacklevel
from cepbook.engine.config import Config
from cepbook.engine.snapshot.file_format import MAGIC, SnapshotReader
from cepbook.engine.snapshot.runtime_snapshot import event_type_data
from cepbook.errors import ErrorPolicy, EventError, MissingRowsWarning, SnapshotError, UsageError
from cepbook.lang.plan.catalog import LATE_EVENT
from cepbook.session.core import saved_state
from cepbook.session.core.cell_deployments import find_deployment
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.history.history_cursor import HistoryCursor
from cepbook.session.history.replay_snapshots import MAX_SNAPSHOT_BYTES, ReplaySnapshots, SnapshotHost, SnapshotInterval
from cepbook.session.io.files import format_of
from cepbook.session.io.output.sinks import SinkError
from cepbook.session.io.rejected_events import RejectedFile
from cepbook.session.io.replay_options import LatePolicy, ReplayOptions
from cepbook.session.io.sources import ReplayInputs, sources_by_type
from cepbook.session.io.time_conversion import ClockTime, TimeLike, period_units
from cepbook.session.replay.replay import ENDED, Replay, ReplayRequest
from cepbook.session.replay.wall_clock import WallClock


class ReplayMixin(WorkbenchCore):
    """The methods of `Workbench` that replay, save and load.

    `keep` says whether replays take snapshots when their own `keep` does not. `glance` is the instant that views show.
    """

    keep: ClassVar[SnapshotInterval] = False  # the extension for notebooks sets it to True

    def __init__(
        self, *, start: TimeLike = 0, feed_capacity: int | None = 100_000, config: Config | None = None
    ) -> None:
        super().__init__(start=start, feed_capacity=feed_capacity, config=config)
        self._clock: WallClock | None = None
        self._replay: Replay[Self] | None = None
        self._replays: WeakKeyDictionary[Replay[Self], None] = WeakKeyDictionary()  # since the start, in order
        self._replay_count = 0  # of replays since the start
        self.glance: HistoryCursor[Self] = HistoryCursor()

    @property
    def live_clock(self) -> WallClock | None:
        """The wall clock that drives the time now; None if none does."""
        return self._clock if self._clock is not None and self._clock.running else None

    @property
    def replaying(self) -> Replay[Self] | None:
        """The replay that has not ended yet; None if there is none."""
        return self._replay if self._replay is not None and self._replay.state not in ENDED else None

    def replay(
        self,
        events: object,
        type: str | None = None,
        time: str | Mapping[str, str] | None = None,
        *,
        sequence: str | Mapping[str, str] | None = None,
        until: TimeLike | None = None,
        limit: int | None = None,
        speed: float | None = None,
        sort: bool = True,
        late: LatePolicy | None = None,
        lateness: str | timedelta | None = None,
        rejected: str | os.PathLike[str] | None = None,
        paused: bool = False,
        leap: bool = False,
        errors: ErrorPolicy = "raise",
        keep: SnapshotInterval | None = None,
        sep: str | None = None,
        encoding: str | None = None,
        comment: str | None = None,
        na: str | Sequence[str] = (),
    ) -> Replay[Self]:
        """Send historic events in event-time order, moving the clock. ``await`` the replay, or call its `run()`.

        `events` maps event types to sources; a single source comes with its `type`. A source is a DataFrame, an Arrow
        table, a path of a Parquet, CSV or JSON-lines file, or an iterable of dicts or dataclass instances. `time` names
        the column of the event time, one for all types or one per type (default: the type's own). Its values are dates,
        ISO 8601 texts or whole milliseconds. `sep`, `encoding`, `comment` and `na` tell how CSV is written, see
        `cepbook.session.io.text_files`.

        Events are ordered by time, then by the column `sequence`, then by the order of `events`, then by row, as on
        Spark. ``sort=False`` refuses DataFrames whose rows are not in order. An iterable must be in order, too: an
        event that goes back in time raises EventError (``late="error"``). With a `lateness`, such as ``"5 sec"``,
        events that are out of order by at most that are put in order. An event that is later still is left out, as with
        ``late="drop"``: it becomes an event of the predefined type ``LateEvent(type string, time long, lateness long,
        event map)``, and `ReplayResult.late_by_type` counts it. `rejected` is the path of a file of JSON lines for late
        events, items of an iterable that are no events of the type, and lines that are no rows. Such items then do not
        stop the replay; `ReplayResult.rejections` counts them by reason.

        `until` ends the replay: later events are left out and the clock advances to `until`. `limit` is the maximum
        number of events. The clock stops at every due time. With `leap` it moves from event to event: a timer that is
        due in between fires at the next event, and the result counts it. `speed` replays at that multiple of real time.
        `paused` waits for `step` or `resume`. `keep` takes snapshots for `Replay.at`: every so many events, every
        period, or (True) as often as costs a twentieth of the time. The default is `Workbench.keep`.

        Raises EventError for unknown types, missing columns and values that do not fit, before any event is sent; those
        of an iterable are checked as they come. Statements and listeners that fail stop nothing. The replay raises
        ReplayError after its last event; with ``errors="keep"`` it counts the errors in `ReplayResult.errors` instead.
        """
        arguments = {name: value for name, value in locals().items() if name != "self"}
        with self._lock:
            return self._begin_replay(ReplayRequest(**arguments))

    def _begin_replay(self, request: ReplayRequest, *, repeated: Replay[Any] | None = None) -> Replay[Self]:
        """Make a replay, which begins at once. `repeated` is the former one whose events it replays again."""
        end = self._prepare_replay(request.until)
        policy: LatePolicy = request.late or ("error" if request.lateness is None else "drop")
        sources = sources_by_type(request.events, request.type)
        options = ReplayOptions(
            until=end,
            limit=request.limit,
            speed=request.speed,
            sort=request.sort,
            late=policy,
            lateness=self._span("lateness", request.lateness) or 0,
            late_stream=policy == "drop" and self._define_late_events(),
            form=format_of(sources.values(), request.sep, request.encoding, request.comment, request.na),
            paused=request.paused,
            leap=request.leap,
            errors=request.errors,
        )
        inputs = ReplayInputs(
            sources,
            request.time,
            request.sequence,
            self.runtime.catalog.event_types,
            options,
            self._config.second,
            self._config.time_zone,
            self.runtime.now,
            rejecting=request.rejected is not None,
        )
        replay = self._open_replay(inputs, options, request.keep, request.rejected)
        self._add_replay(replay)
        replay.request, replay.only_once, self._replayed_files = request, inputs.only_once, inputs.files
        if repeated is not None:
            repeated.successor = replay
        self.glance.announce_replay()
        return replay

    def _prepare_replay(self, until: TimeLike | None) -> int | None:
        """Return the end in clock units; let go of snapshots that are too many. Raises if no replay can begin now."""
        if self.replaying is not None:
            self.replaying.refuse_another()
        if self.live_clock is not None:
            raise UsageError("a live clock drives the time\n  hint: stop it first: stop_clock(), `%clock stop`")
        replays = list(self._replays)
        while sum(replay.snapshot_bytes for replay in replays) > MAX_SNAPSHOT_BYTES:
            replays.pop(0).forget("later replays keep snapshots, and all together only so many")
        end = None if until is None else self._moment(until)
        if end is not None and end < self.runtime.now:
            raise EventError(f"the clock, {self.clock}, is already past {ClockTime(end, self._config.second)}")
        return end

    def _open_replay(
        self,
        inputs: ReplayInputs,
        options: ReplayOptions,
        keep: SnapshotInterval | None,
        rejected: str | os.PathLike[str] | None,
    ) -> Replay[Self]:
        with self._rejected_file(rejected) as file:
            reject = None if file is None else file.write
            snapshots = self._replay_snapshots(inputs, keep)
            sources = inputs.open(options, reject)
            self._replay = Replay(self._engine, sources, options, snapshots=snapshots, reject=reject, workbench=self)
            if file is not None:
                self._replay.subscribe(partial(self._close_rejected, self._replay, file))
        return self._replay

    @property
    def not_repeatable(self) -> str:
        """Why `replay_again` cannot repeat the replays since the start; empty if it can."""
        replays = list(self._replays)
        if self.replaying is not None:
            return f"a replay is {self.replaying.state}"
        if not self._replay_count:
            return "nothing was replayed since the workbench began"
        if len(replays) < self._replay_count or any(replay.request is None for replay in replays):
            return "an earlier replay is not known any more\n  hint: `%epl rewind`, then run the cells of the replays"
        return next(filter(None, (replay.only_once for replay in replays)), "")

    def events_before(self, name: str) -> int:
        """Return how many events came before statement `name` was deployed, if none came since; otherwise 0."""
        with self._lock:
            return self._engine.event_log.events_before(find_deployment(self.runtime, name))

    def _span(self, option: str, period: str | timedelta | None) -> int | None:
        """Return the period of an option in clock units. Raises UsageError if it is negative."""
        units = None if period is None else period_units(period, self._config.second)
        if units is not None and units < 0:
            raise UsageError(f"`{option}` is a time period such as '5 sec', not {period!r}")
        return units

    @contextmanager
    def _rejected_file(self, path: str | os.PathLike[str] | None) -> Iterator[RejectedFile | None]:
        """Open the file of rejected items for what the block makes. It is closed if the block raises."""
        file = None if path is None else RejectedFile(path, self._config.second)
        try:
            yield file
        except BaseException:
            if file is not None:
                with suppress(SinkError):  # printed when it happened
                    file.close()
            raise

    def _define_late_events(self) -> bool:
        """Define the type of late events. Return False if another type has its name, so that none can be sent."""
        if LATE_EVENT.name not in self.runtime.catalog.event_types:
            with self._engine.action("define", types=[event_type_data(LATE_EVENT)]):
                self.runtime.define(LATE_EVENT)
        return self.runtime.catalog.event_types[LATE_EVENT.name] == LATE_EVENT

    def _close_rejected(self, replay: Replay[Self], file: RejectedFile) -> None:
        if replay.state in ENDED:
            with suppress(SinkError):  # printed when it happened
                file.close()

    def _replay_snapshots(self, inputs: ReplayInputs, keep: SnapshotInterval | None) -> ReplaySnapshots[Self] | None:
        interval = self.keep if keep is None else keep
        if interval is False:
            return None
        engine, second = self._engine, self._config.second
        counts = engine.event_counts
        host = SnapshotHost(self._snapshot, self._restored, self._moment, second, lambda: engine.manual_actions, counts)
        return ReplaySnapshots(interval, inputs.reopen, host, required=keep is not None, unavailable=inputs.only_once)

    def _add_replay(self, replay: Replay[Self]) -> None:
        for earlier in self._replays:
            earlier.leave_clock()
        self._replays[replay] = None
        self._replay_count += 1

    def _end_replay(self) -> None:
        self.glance.leave()
        for replay in (*self._replays,):
            replay.forget("the workbench has begun anew since")
        self._replays.clear()
        self._replay, self._replay_count, self._replayed_files = None, 0, []

    def save(
        self,
        path: saved_state.Path,
        *,
        feeds: bool = False,
        replace: bool = False,
        key: bytes | str | None = None,
    ) -> None:
        """Write the workbench into a file: modules, event types, variables, the clock and the state of statements.

        `feeds` adds the rows of `changes` of each statement. A MissingRowsWarning says how many the feeds have lost.
        Listeners and Python functions are not saved. A file with a
        saved workbench is replaced, any other file only with `replace`. `key` signs the file (HMAC-SHA-256). Raises
        SnapshotError for an event that holds an object that EPL has no type for, and UsageError if the file holds
        something else or cannot be written; the file is then unchanged.
        """
        if not replace:
            saved_state.refuse_foreign(path, MAGIC, "saved workbench", "`replace=True`, or `%epl save --replace`,")
        with self._lock:
            saved_state.save_workbench(path, self._engine, self._start, self._cells, feeds=feeds, key=key)
            missing = saved_state.missing_rows_text(self._engine) if feeds else ""
        if missing:
            warnings.warn(f"`{path}` lacks {missing}", MissingRowsWarning, stacklevel=caller_stacklevel())

    def _snapshot(self, *, feeds: bool = False) -> bytes:
        return saved_state.snapshot_bytes(self._engine, self._start, self._cells, feeds=feeds)

    def load(self, path: saved_state.Path, *, key: bytes | str | None = None) -> None:
        """Replace the contents of this workbench by a saved one. Listeners stay with statements of the same name.

        The Python functions of the saved workbench must be registered; none is called. With `key`, the file must have
        been saved with the same key, so that nobody else can have written it. Raises UsageError for a file that cannot
        be read, and SnapshotError for one that is damaged, of another version, not signed with the key, or needs other
        functions; then nothing has changed.
        """
        with self._lock, self._engine.manual_call():
            with saved_state.reading(path) as file:
                try:
                    self._load_snapshot(saved_state.read_snapshot(file, key))
                except SnapshotError as error:
                    raise SnapshotError(f"`{path}`: {error}") from error
            if self._engine.journal is not None:
                self._engine.journal.doubt()  # the log does not lead here: nothing is recorded before a snapshot
                self._engine.journal.begin_log()

    def _load_snapshot(self, snapshot: SnapshotReader) -> None:
        runtime, extra = saved_state.restore_workbench_runtime(snapshot, self._functions)
        self._end_replay()
        self._start, self._config, self._checks = extra["start"], runtime.config, {}
        self._cells = saved_state.resume_runtime(self._engine, runtime, extra)

    def _restored(self, data: bytes) -> Self:
        twin = type(self)(feed_capacity=self._capacity)
        twin._functions = dict(self._functions)
        twin._load_snapshot(SnapshotReader(BytesIO(data)))
        return twin
