"""Timelines: when the partitions of a context were allocated and deallocated, and how many lived at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.lang.types import LONG, Type
from cepbook.session.history.partition_lifetimes import ContextLifetimes, PartitionLifetime
from cepbook.session.inspect.partition_table import context_levels, flat_properties
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.output.result_frames import typed_series
from cepbook.session.io.output.time_types import time_type
from cepbook.session.io.time_conversion import clock_unit, format_span

MOST_PARTITIONS = 500


@dataclass(frozen=True, slots=True)
class Timeline:
    """The last partitions of a context as data. Notebooks show it as a chart (`cepbook.widgets`).

    It spans `start`, the allocation of the first of `lives`, to `end`, the present (ms, or µs with such a clock).
    `counts` gives the number of live partitions from a time on, `live` the present number, `allocated` the number of
    all partitions so far. `levels` names the levels of a nested context, outermost first. `times` are properties of the
    starting events that hold times in clock units; `time` is the type of times in frames.
    """

    context: str
    epl: str
    start: int
    end: int
    lives: tuple[PartitionLifetime, ...]
    counts: tuple[tuple[int, int], ...]
    live: int
    allocated: int
    levels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unit: str = "ms"
    times: frozenset[str] = frozenset()
    time: Type = LONG

    def to_frame(self, *, dates: bool = True) -> pd.DataFrame:
        """Return one row per partition: id, born, died (missing: it lives), and its properties.

        The times are dates, or numbers in the clock's unit.
        """
        time = self.time if dates else LONG
        rows = [flat_properties(life.properties, self.levels) for life in self.lives]
        names = dict.fromkeys(name for row in rows for name in row)
        head = {
            "id": pd.array([life.id for life in self.lives], dtype="Int64"),
            "born": typed_series([life.born for life in self.lives], time),
            "died": typed_series([life.died for life in self.lives], time),
        }
        rest: dict[str, Any] = {
            name: pd.Series([row.get(name) for row in rows], dtype="object") for name in names if name not in head
        }
        return pd.DataFrame({**head, **rest})

    def __repr__(self) -> str:
        drawn = f", the last {len(self.lives):,} drawn" if self.allocated > len(self.lives) else ""
        text = (
            f"timeline of {self.context}: {self.allocated:,} partition{'' if self.allocated == 1 else 's'}{drawn}, "
            f"{self.live:,} live, {format_span(self.start, self.end, self.unit)}"
        )
        return "\n".join((text, *(f"  {note}" for note in self.notes)))


def build_timeline(runtime: Runtime, lifetimes: ContextLifetimes, context: str, partitions: int) -> Timeline:
    """Return the timeline of the last `partitions` partitions of a context.

    Raises UsageError for an unknown context, and for a number below 1 or above `MOST_PARTITIONS`.
    """
    if isinstance(partitions, bool) or not isinstance(partitions, int) or not 1 <= partitions <= MOST_PARTITIONS:
        raise UsageError(f"a timeline shows 1 to {MOST_PARTITIONS} partitions, not {partitions!r}")
    running = runtime.context(context)
    lives = tuple(lifetimes.lives)[-partitions:]
    begin = min((life.born for life in lives), default=runtime.now)
    return Timeline(
        context=context,
        epl=running.plan.epl,
        start=begin,
        end=max(runtime.now, begin),
        lives=lives,
        counts=_counts(tuple(lifetimes.counts), begin),
        live=lifetimes.live,
        allocated=lifetimes.allocated,
        levels=context_levels(runtime, context),
        notes=() if running.statements else ("no statement uses the context: it is not active",),
        unit=clock_unit(runtime.config.second),
        times=TimeColumns(runtime, ms=True).of_context(context),
        time=time_type(runtime.config),
    )


def _counts(counts: tuple[tuple[int, int], ...], begin: int) -> tuple[tuple[int, int], ...]:
    later = [count for count in counts if count[0] >= begin]
    before = [live for time, live in counts if time < begin]
    return tuple(([(begin, before[-1])] if before and (not later or later[0][0] > begin) else []) + later)
