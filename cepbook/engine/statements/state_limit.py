"""The limit of what each statement keeps (`Config.state_limit`): events are refused before the memory is full.

The limit is soft. What a statement keeps is counted between two events, every few hundred events. One event can add
many matches, so a statement may exceed the limit by far. Counting takes time for each context partition, so there are
at least as many events between two counts as there are partitions. Refused events do not enter the engine. Events are
accepted again when windows have evicted enough rows, or a statement was removed.

Sends, replays, live sources and Spark's tasks ask `StateLimit.room` before they process events, and `took` counts the
events that were processed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import reduce

from cepbook.engine.config import state_limit_bytes
from cepbook.engine.statements.state_size import estimated_bytes
from cepbook.engine.statements.statement import RunningStatement
from cepbook.errors import Diagnostic, Span, StateLimitError

_MAX_INTERVAL = 1000  # events between two counts, unless the limit or the number of partitions is large
_FIRST_INTERVAL, _MAX_MEASURED_INTERVAL = 16, 4096  # likewise for a limit of bytes
_GROWTH = 4  # factor by which the latter may grow from one count to the next
_HINTS = {
    "rows": "bound the window (#time(10 min), #length(1000)), or delete rows of a named window or table (on … delete)",
    "groups": "group within a window (#time(10 min)), by fewer keys, or with @Hint('reclaim_group_aged=600')",
    "open partial matches": "end partial matches (where timer:within(10 min), and not)",
    "rows that wait for its output clause": "deliver more often, or `output last`",
    "context partitions": "end the partitions (terminated after 10 min)",
}
KINDS = tuple(_HINTS)
AFTER_THE_LAST = "all events were processed, and no further one enters the engine"


def state_counts(statement: RunningStatement) -> Counter[str]:
    """Return how much the states of a statement hold, by kind. Windows that expire rows lazily do it now."""
    counts = Counter[str]()
    for id_, state in statement.states():
        entry = statement.inspected(id_, state, statement.now, 0)
        counts["rows"] += entry["retained"]
        counts["groups"] += entry["groups"] or 0
        counts["open partial matches"] += entry["partials"]["total"] if "partials" in entry else 0
        counts["rows that wait for its output clause"] += statement.waiting_rows(state)
        counts["context partitions"] += id_ is not None
    return counts


class StateLimit:
    """Refuses events while a statement keeps more than the limit."""

    def __init__(self, limit: int | str, statements: Mapping[str, RunningStatement]) -> None:
        self._text = f"{limit:,}" if type(limit) is int else str(limit)
        self._in_bytes = type(limit) is str
        self._limit = state_limit_bytes(limit) if type(limit) is str else int(limit)
        self._statements = statements
        self._largest = 0  # at the last count
        self._interval = _FIRST_INTERVAL // _GROWTH
        self._events_until_count = 0
        self._excessive: RunningStatement | None = None  # kept too much at the last count

    def room(self, events: int, advance: Callable[[], object] | None = None) -> int:
        """Return how many of the next `events` may be processed before the next count, at least one.

        If a statement keeps too much, ``advance()`` moves the clock to the first of them, and windows may evict rows.
        Raises StateLimitError if none of the events may be processed.
        """
        if self._events_until_count <= 0:
            try:
                self.check()
            except StateLimitError:
                if advance is None:
                    raise
                advance()
                self.check()
        return min(events, self._events_until_count)

    def took(self, events: int) -> None:
        """Count events that are processed."""
        self._events_until_count -= events

    def check(self, consequence: str = "no event enters the engine") -> None:
        """Count now. Raises StateLimitError, with the `consequence`, if a statement keeps more than the limit.

        The next count is after a quarter of the room, but not before 1 % of the limit or one event per partition. With
        rows, it is after at most 1,000 events. With bytes, events are taken to add what those before have added, and
        the events between two counts grow from 16 to 4,096.
        """
        # the statement that was excessive is first, since each refused event counts
        statements = sorted(self._statements.values(), key=lambda statement: statement is not self._excessive)
        processed = max(1, self._interval - self._events_until_count)
        self._events_until_count, self._excessive = 0, None
        largest, states, limit = 0, 0, self._limit
        for statement in statements:
            counts = state_counts(statement)  # expires rows, too
            size = estimated_bytes(statement) if self._in_bytes else counts.total()
            if size > limit:
                self._excessive = statement
                raise self._error(statement, counts, size, consequence)
            largest = max(largest, size)
            states += counts["context partitions"] + 1
        grown, self._largest = largest - self._largest, largest
        allowed, most = max(limit - largest, limit // 25) // 4, max(_MAX_INTERVAL, limit // 100)
        if self._in_bytes:
            allowed = allowed * processed // max(1, grown)
            most = min(_MAX_MEASURED_INTERVAL, self._interval * _GROWTH)
        self._interval = self._events_until_count = max(min(allowed, most), states, 1)

    def _error(self, statement: RunningStatement, counts: Counter[str], size: int, consequence: str) -> StateLimitError:
        kinds = [(kind, count) for kind, count in counts.most_common() if count] or [("rows", 0)]
        text = ", ".join(f"{count:,} {kind}" for kind, count in kinds)
        text = f"about {size:,} bytes ({text})" if self._in_bytes else text
        fact = f"statement `{statement.name}` keeps {text}, more than the limit of {self._text}"
        hint = (
            f"{_HINTS[kinds[0][0]]}; or drop the statement, or raise the limit (`cep.state_limit = None` for none, "
            "`cepbook run --state-limit`)"
        )
        diagnostic = Diagnostic("state-limit", f"{fact}: {consequence}", _fullest_source(statement), hint)
        return StateLimitError(statement.name, diagnostic.render(statement.source))


def _fullest_source(statement: RunningStatement) -> Span:
    """Return the place in the text of the source, of the statement or a subquery, that keeps most rows."""
    if statement.owned is not None:
        return statement.plan.span
    plans = *(statement.steps.inputs or (statement.steps,)), *(inner.steps for inner in statement.program.subqueries)
    spans = [reduce(Span.to, (window.span for window in plan.windows), plan.source.span) for plan in plans]
    counts = [0] * len(spans)
    for _, state in statement.states():
        own, *of_subqueries = statement.subquery_inputs.retained_by_source(state)
        inputs = [own] if statement.steps.join is None else [s.view.retained() for s in state.view.states]
        for place, count in enumerate((*inputs, *of_subqueries)):
            counts[place] += count
    return spans[counts.index(max(counts))]
