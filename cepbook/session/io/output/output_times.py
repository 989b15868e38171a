"""Times on their way out: numbers of the engine's clock become dates in frames and files.

A frame has ``datetime64``, in the clock's unit and the zone of ``Config(time_zone=…)``. In a workbench without a zone
of its own the dates are naive and mean UTC, as dates without a zone do on their way in. Arrow and Parquet have the
same. Text has ISO 8601 with the offset from UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd

from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.types import Type
from cepbook.session.io.output.time_types import EPOCH, TimeType

_MISSING = -(2**63)  # how numpy writes NaT
_MANY = 100  # values that are worth the conversion to numpy
_FIRST_YEAR, _LAST_YEAR = -62_135_510_400, 253_402_214_400  # s since 1970 between which all zones have a date


def clock_texts(of: TimeType, values: Sequence[Any]) -> Sequence[Any]:
    """Return `TimeType.text` of all values, many of them at once."""
    if len(values) < _MANY or not set(map(type, values)) <= {int, type(None)}:
        return list(map(of.text, values))
    there = [0 if value is None else value for value in values] if None in values else values
    if min(there) < _FIRST_YEAR * of.second or max(there) >= _LAST_YEAR * of.second:
        return list(map(of.text, values))
    unit: Any = of.unit
    moments: Any = np.array(there, np.int64).view(f"datetime64[{unit}]")
    zone, ends = zone_of(of.zone), ["+00:00"] * len(values)
    if zone is not UTC:
        local = pd.Series(moments).dt.tz_localize(UTC).dt.tz_convert(zone).dt.tz_localize(None).to_numpy(moments.dtype)
        seconds = ((local - moments) // np.timedelta64(1, "s")).astype(np.int64).tolist()
        offsets = {offset: _offset_text(offset) for offset in set(seconds)}
        moments, ends = local, [offsets[offset] for offset in seconds]
    texts = np.datetime_as_string(moments, unit=unit).tolist()
    return [None if value is None else text + end for value, text, end in zip(values, texts, ends, strict=True)]


def _offset_text(seconds: int) -> str:
    """Return an offset from UTC as ISO 8601 has it; old ones have seconds."""
    minutes, rest = divmod(abs(seconds), 60)
    text = f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{rest:02d}" if rest else text


def clock_dates(values: Sequence[Any], of: Any) -> pd.Series[Any]:
    """Return clock units as a column of dates. Raises TypeError or ValueError for what is no whole number."""
    numbers = pd.array(list(values), dtype="Int64").to_numpy(dtype="int64", na_value=_MISSING)
    dates = pd.Series(numbers.view(f"datetime64[{of.unit}]"))
    zone = zone_of(of.zone)
    return dates if zone is UTC else dates.dt.tz_localize(UTC).dt.tz_convert(zone)


def moment_dates(values: Sequence[Any], of: Any) -> pd.Series[Any]:
    """Return values of `timestamp` as a column of dates, in ms, or in µs if one of them is that fine."""
    return clock_dates(*_clock_units(values, EPOCH.replace(tzinfo=UTC), of.zone))


def local_dates(values: Sequence[Any], of: Any) -> pd.Series[Any]:
    """Return values of `localdatetime`, which have no zone, likewise."""
    return clock_dates(*_clock_units(values, EPOCH, "UTC"))


def _clock_units(values: Sequence[Any], epoch: datetime, zone: str) -> tuple[list[int | None], Type]:
    units = [None if value is None else (value - epoch) // timedelta(microseconds=1) for value in values]
    if any(value is not None and value % 1000 for value in units):
        return units, TimeType("clock time", second=1_000_000, zone=zone)
    return [None if value is None else value // 1000 for value in units], TimeType("clock time", zone=zone)


def whole_numbers(dates: pd.Series[Any], unit: str) -> list[int | None]:
    """Return a column of dates as units since 1970 UTC."""
    utc = dates if dates.dt.tz is None else dates.dt.tz_convert(None)
    numbers = np.asarray(utc.to_numpy(dtype=f"datetime64[{unit}]"))
    return [None if value == _MISSING else value for value in numbers.astype("int64").tolist()]
