"""Types of times on their way out: numbers of the engine's clock, as dates or as numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cepbook.argument_checks import short_repr
from cepbook.engine.config import Config
from cepbook.engine.snapshot.runtime_snapshot import type_data, type_from
from cepbook.errors import UsageError
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.types import LONG, TIMESTAMP, Type

DATES, MILLISECONDS, MICROSECONDS = "datetime", "ms", "us"
EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True, repr=False)
class TimeType(Type):
    """The type of a column of times for users: clock units since 1970, `second` per second, read in `zone`."""

    second: int = 1000
    zone: str = "UTC"

    @property
    def unit(self) -> str:
        """Numpy's and Arrow's name of the clock's unit."""
        return MILLISECONDS if self.second == 1000 else MICROSECONDS

    def text(self, value: Any) -> Any:
        """Return a time in ISO 8601 with its offset. Years that `datetime` does not have stay numbers."""
        if type(value) is not int:
            return value
        try:
            moment = EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=value * (1_000_000 // self.second))
            digits = "milliseconds" if self.second == 1000 else "microseconds"  # always, as readers of columns expect
            return moment.astimezone(zone_of(self.zone)).isoformat(timespec=digits)
        except OverflowError:
            return value


def clock_numbers(config: Config) -> str:
    """Return the form of times that are numbers in the clock's unit: ``ms`` or ``us``."""
    return MILLISECONDS if config.second == 1000 else MICROSECONDS


def time_type(config: Config, times: str = DATES) -> Type:
    """Return the type of time columns in the form `times`: ``datetime``, or numbers in the clock's unit.

    Raises UsageError for another form.
    """
    clock = TimeType("clock time", second=config.second, zone=config.time_zone)
    if times == DATES:
        return clock
    if times == clock.unit:
        return LONG
    hint = "" if times not in (MILLISECONDS, MICROSECONDS) else f": the clock counts {clock.unit}"
    raise UsageError(f'`times` is "datetime" or "{clock.unit}", not {short_repr(times)}{hint}')


def output_types(properties: Mapping[str, Type], columns: Collection[str], time: Type) -> dict[str, Type]:
    """Return the types of a statement's columns for users: those of `columns` are times of type `time` (`time_type`).

    With dates for times, a `timestamp` is a date of the same zone, too.
    """
    moment = TIMESTAMP if time == LONG else replace(time, name="moment")
    own_types = {name: moment if of == TIMESTAMP else of for name, of in properties.items()}
    return {name: time if name in columns else of for name, of in own_types.items()}


def column_data(of: Type) -> Any:
    """Return the type of a column for users as plain data."""
    return [type_data(of), [of.second, of.zone] if type(of) is TimeType else None]


def column_from(data: Any) -> Type:
    """Return the type of `column_data`."""
    of, clock = type_from(data[0]), data[1]
    return of if clock is None else TimeType(of.name, of.of, of.event, of.fields, second=clock[0], zone=clock[1])
