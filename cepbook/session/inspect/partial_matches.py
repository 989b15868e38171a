"""Partial matches of a pattern or match_recognize: what it waits for, since when, with which events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError

MAX_PARTIALS = 200


@dataclass(frozen=True, slots=True)
class PartialMatch:
    """A sub-expression that has begun and is not true yet: an event of a filter, a timer.

    It waits for `waiting_for`, a piece of the pattern, `since` (ms) and, if it expires, `until` (ms). `events` are the
    events that matched before or beside it, by tag; a list if there are several. `partition` is None without a context.
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
        if total < MAX_PARTIALS and summary["partials"]["total"]:
            first.append(summary["partition"])
        total += summary["partials"]["total"]
    rows = [
        PartialMatch(summary["partition"], **match)
        for summary in runtime.state(statement, first, partials=MAX_PARTIALS)
        for match in summary["partials"]["rows"]
    ]
    if total <= MAX_PARTIALS:
        total = len(rows)  # an engine counts in its limit also the further matches of an operand of `and`
    return PartialMatches(total, tuple(rows[:MAX_PARTIALS]))
