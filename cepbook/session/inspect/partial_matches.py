"""The partial matches of a pattern or of match_recognize: what it is waiting for, since when, with which events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.lang.types import LONG, OBJECT, STRING
from cepbook.session.io.result_frames import typed_series, unused_name

SHOWN = 200


@dataclass(frozen=True, slots=True)
class PartialMatch:
    """One sub-expression that has begun and is not true yet: an event of a filter, a timer.

    It waits for `waiting_for`, a piece of the pattern, `since` (ms), and if it ends by itself, then `until` (ms).
    `events` are those that matched before it, by tag; of a repeated tag a list. `partition` is None without a context.
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
    """The tags of the statement's pattern, or variables of its match_recognize; None of a statement without these."""
    steps = runtime.statement(statement).steps
    if steps.recognize is not None:
        return tuple(variable.name for variable in steps.recognize.variables)
    pattern = steps.source.pattern
    return None if pattern is None else tuple(pattern.match_type.properties)


def partial_matches(runtime: Runtime, statement: str, partition: int | None = None) -> PartialMatches:
    """The partial matches of a statement, or of one of its context partitions, in order of partition and start.

    Errors: UsageError for an unknown name and for a statement without a pattern.
    """
    if pattern_tags(runtime, statement) is None:
        raise UsageError(f"`{statement}` has no pattern: it waits for nothing but events")
    total = 0
    first: list[int] = []  # partitions that have the first of them
    for state in runtime.state(statement, None if partition is None else (partition,), partials=0):
        if total < SHOWN and state["partials"]["total"]:
            first.append(state["partition"])
        total += state["partials"]["total"]
    rows = [
        PartialMatch(state["partition"], **each)
        for state in runtime.state(statement, first, partials=SHOWN)
        for each in state["partials"]["rows"]
    ]
    return PartialMatches(total, tuple(rows[:SHOWN]))


def partials_frame(runtime: Runtime, statement: str, partition: int | None = None) -> pd.DataFrame:
    """One line per partial match: partition (with a context), waiting_for, since, until (ms), a column per tag.

    Errors: as `partial_matches`.
    """
    found = partial_matches(runtime, statement, partition)
    tags = pattern_tags(runtime, statement) or ()
    data: dict[str, pd.Series[Any]] = {}
    if runtime.statement(statement).steps.context is not None:
        data["partition"] = typed_series([p.partition for p in found.rows], LONG)
    data["waiting_for"] = typed_series([p.waiting_for for p in found.rows], STRING)
    data["since"] = typed_series([p.since for p in found.rows], LONG)
    data["until"] = typed_series([p.until for p in found.rows], LONG)
    for tag in tags:
        data[unused_name(tag, data)] = typed_series([p.events.get(tag) for p in found.rows], OBJECT)
    return pd.DataFrame(data)
