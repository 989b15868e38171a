"""Partial matches of a pattern or match_recognize: what it waits for, since when, with which events."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cepbook.argument_checks import caller_stacklevel
from cepbook.engine.runtime import Runtime
from cepbook.errors import MissingRowsWarning, UsageError
from cepbook.lang.types import LONG, OBJECT, STRING
from cepbook.session.io.output.output_times import DATES, time_type
from cepbook.session.io.output.result_frames import typed_series, unused_name

SHOWN = 200


@dataclass(frozen=True, slots=True)
class PartialMatch:
    """A sub-expression that has begun and is not true yet: an event of a filter, a timer.

    It waits for `waiting_for`, a piece of the pattern, `since` (ms) and, if it expires, `until` (ms). `events` are the
    events that matched before it, by tag; a list for a repeated tag. `partition` is None without a context.
    """

    partition: int | None
    waiting_for: str
    since: int
    until: int | None
    events: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PartialMatches:
    """The partial matches of a statement: `total` of them, of which `rows` are the first."""

    total: int
    rows: tuple[PartialMatch, ...]


def pattern_tags(runtime: Runtime, statement: str) -> tuple[str, ...] | None:
    """Return the tags of the statement's pattern or the variables of its match_recognize; None if it has neither."""
    steps = runtime.statement(statement).steps
    if steps.recognize is not None:
        return tuple(variable.name for variable in steps.recognize.variables)
    pattern = steps.source.pattern
    return None if pattern is None else tuple(pattern.match_type.properties)


def partial_matches(runtime: Runtime, statement: str, partition: int | None = None) -> PartialMatches:
    """Return the partial matches of a statement, or of one context partition, ordered by partition and start.

    Raises UsageError for an unknown name and for a statement without a pattern.
    """
    if pattern_tags(runtime, statement) is None:
        raise UsageError(f"`{statement}` has no pattern: it waits for nothing but events")
    total = 0
    first: list[int | None] = []  # partitions with the first matches
    for summary in runtime.state(statement, None if partition is None else (partition,), partials=0):
        if total < SHOWN and summary["partials"]["total"]:
            first.append(summary["partition"])
        total += summary["partials"]["total"]
    rows = [
        PartialMatch(summary["partition"], **match)
        for summary in runtime.state(statement, first, partials=SHOWN)
        for match in summary["partials"]["rows"]
    ]
    return PartialMatches(total, tuple(rows[:SHOWN]))


def partials_frame(runtime: Runtime, statement: str, partition: int | None = None, times: str = DATES) -> pd.DataFrame:
    """Return one row per partial match: partition (with a context), waiting_for, since, until, a column per tag.

    `times` is the form of the times (`time_type`). Issues a MissingRowsWarning if there are more than `SHOWN`.
    Raises as `partial_matches` does.
    """
    matches = partial_matches(runtime, statement, partition)
    if matches.total > len(matches.rows):
        fact = f"the first {len(matches.rows):,} of {matches.total:,} partial matches of `{statement}` are listed"
        divided = partition is None and runtime.statement(statement).steps.context is not None
        hint = "\n  hint: `partition=ID` lists those of one context partition" if divided else ""
        warnings.warn(f"{fact}{hint}", MissingRowsWarning, stacklevel=caller_stacklevel())
    tags = pattern_tags(runtime, statement) or ()
    time = time_type(runtime.config, times)
    data: dict[str, pd.Series[Any]] = {}
    if runtime.statement(statement).steps.context is not None:
        data["partition"] = typed_series([p.partition for p in matches.rows], LONG)
    data["waiting_for"] = typed_series([p.waiting_for for p in matches.rows], STRING)
    data["since"] = typed_series([p.since for p in matches.rows], time)
    data["until"] = typed_series([p.until for p in matches.rows], time)
    for tag in tags:
        data[unused_name(tag, data)] = typed_series([p.events.get(tag) for p in matches.rows], OBJECT)
    return pd.DataFrame(data)
