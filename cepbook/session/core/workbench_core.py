"""The base of `Workbench`: what all of its methods share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from cepbook.argument_checks import check_argument, describe_value
from cepbook.engine.expressions.plain_values import plain_value
from cepbook.engine.runtime import Config, Runtime
from cepbook.errors import EventError, UsageError
from cepbook.feeds import rows_limit
from cepbook.lang.plan.catalog import EventType, FunctionType
from cepbook.locks import EngineLock
from cepbook.session.core.cell_deployments import CellRuns
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.history.event_log import EventRecorder
from cepbook.session.io import time_conversion as times
from cepbook.session.io.event_validation import EventValidator, find_type

RegisteredFunctions = dict[str, tuple[Callable[..., Any], FunctionType]]


class WorkbenchCore:
    """Config, clock, lock, registered functions, the engine handle and the deployments of cells.

    `Workbench` adds its public methods by mixins. Replays are above this class. `defined` is what `define` returned,
    latest last; notebooks clear it for each cell.
    """

    _engine: EngineHandle
    _cells: CellRuns
    _checks: dict[str, tuple[EventType, EventValidator, EventRecorder]]
    defined: dict[str, EventType]

    def __init__(
        self, *, start: times.TimeLike = 0, feed_capacity: int | None = 100_000, config: Config | None = None
    ) -> None:
        if config is not None and not isinstance(config, Config):
            hint = "from cepbook import Config; Workbench(config=Config(integer_division=True))"
            raise UsageError(f"Workbench: `config` is a Config, or None, not {describe_value(config)}\n  hint: {hint}")
        self._config = config if config is not None else Config()
        self._start = self._moment(start)
        self._capacity = _rows(feed_capacity)
        self._lock = EngineLock()
        self._functions: RegisteredFunctions = {}
        self._replayed_files: list[str] = []  # of the last replay: no output replaces them
        self._begin()

    def _begin(self) -> None:
        runtime = Runtime(self._config, start=self._start)
        for name, (fn, returns) in self._functions.items():
            runtime.register_function(name, fn, returns=returns)
        engine = EngineHandle(runtime, self._lock, self._capacity)
        self._engine, self._cells, self._checks, self.defined = (
            engine,
            CellRuns(),
            {},
            {},
        )  # at once: Ctrl-C finds no gap

    @property
    def runtime(self) -> Runtime:
        """The engine. `reset` replaces it."""
        return self._engine.runtime

    @property
    def clock(self) -> times.ClockTime:
        """The current time of the engine."""
        return times.ClockTime(self.runtime.now, self._config.second)

    @property
    def start(self) -> times.ClockTime:
        """The time at which the clock began. `rewind` and `reset` return to it."""
        return times.ClockTime(self._start, self._config.second)

    @property
    def feed_capacity(self) -> int | None:
        """How many of the latest rows of each statement are in memory; None: all. A file has the earlier ones.

        Assign another number, or None, at any time.
        """
        return None if self._capacity == rows_limit(None) else self._capacity

    @feed_capacity.setter
    def feed_capacity(self, rows: int | None) -> None:
        capacity = _rows(rows)
        with self._lock, self._engine.manual_call(), self.runtime.turn:
            self._capacity = capacity
            self._engine.resize_feeds(capacity)

    @property
    def state_limit(self) -> int | str | None:
        """How many rows, groups, partial matches and context partitions a statement may keep, or how much memory they
        may take (``"500 MB"``); None: no limit.

        While a statement keeps more, events are refused with StateLimitError. Assign another number, or None, at any
        time. `Config.state_limit` sets it from the start.
        """
        return self._config.state_limit

    @state_limit.setter
    def state_limit(self, limit: int | str | None) -> None:
        with self._lock, self._engine.action("set_state_limit", limit=limit):
            self.runtime.limit_state(limit)
            self._config, self._checks = self.runtime.config, {}

    def _moment(self, value: object) -> int:
        second, zone = self._config.second, self._config.time_zone
        return times.check_clock_range(times.to_clock_units(value, second, zone), second)

    def advance(
        self, to: times.TimeLike | timedelta | None = None, *, by: str | timedelta | None = None, stepping: bool = False
    ) -> times.ClockTime:
        """Move the clock forward. Everything that is due fires in order, at the new time.

        `to` is a point in time (int in ms, or µs with such a clock; datetime; ISO 8601 text) or a timedelta; `by` is a
        period (``"10 sec"``, timedelta). With `stepping` the clock stops at every due time on the way. Raises
        EventError if the time lies in the past, UsageError if it is no time.
        """
        if (to is None) == (by is None):
            both = f", not both: {describe_value(to)} and {describe_value(by)}" if by is not None else ""
            raise UsageError(f'advance the clock to a time or by a period{both}\n  hint: advance(by="10 sec")')
        second, to, by = self._config.second, plain_value(to), plain_value(by)
        with self._lock:
            if by is not None:
                time = self.runtime.now + times.period_units(by, second)
            elif isinstance(to, timedelta):
                time = self.runtime.now + times.timedelta_units(to, second)
            elif isinstance(to, str) and (period := times.parse_period(to, second)) is not None:
                time = self.runtime.now + period
            else:
                time = times.to_clock_units(to, second, self._config.time_zone)
            times.check_clock_range(time, second)
            if time < self.runtime.now:
                raise EventError(f"the clock cannot go back from {self.clock} to {times.ClockTime(time, second)}")
            with self._engine.manual_call(), self._engine.raising_failures(), self.runtime.turn:
                self._engine.record_stop(time, stepping=stepping, by_hand=True)
                self.runtime.advance(time, stepping=stepping)
        return self.clock

    def _entry(self, type_name: str) -> tuple[EventValidator, EventRecorder]:
        types = self.runtime.catalog.event_types
        try:
            event_type = find_type(type_name, types)
        except EventError:
            self.runtime.turn.check()
            raise
        known = self._checks.get(type_name)
        if known is None or known[0] is not event_type:
            check = EventValidator(event_type, types, second=self._config.second, zone=self._config.time_zone)
            record = self._engine.recorder(type_name, event_type)
            known = self._checks[type_name] = (event_type, check, record)
        return known[1:]


def _rows(feed_capacity: int | None) -> int:
    check_argument("Workbench", "feed_capacity", "int | None", feed_capacity)
    return rows_limit(feed_capacity)
