"""The limit of what each statement keeps (`Config.state_limit`): events are refused before the memory is full.

What a statement keeps is counted between events, never while it processes one. So a statement may exceed the limit by
the events between two counts. Counting takes time for each context partition, therefore it happens the less often the
more partitions there are. Refused events do not enter the engine. They are accepted again when windows have let go of
enough rows, or statements were removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import reduce

from cepbook.engine.statements.statement import RunningStatement
from cepbook.errors import Diagnostic, Span, StateLimitError

_MOST = 1000  # events between two counts, unless the limit or the number of partitions is large
_HINTS = {
    "rows": "bound the window (#time(10 min), #length(1000)), or delete rows of a named window or table (on … delete)",
    "groups": "group within a window (#time(10 min)), by fewer keys, or with @Hint('reclaim_group_aged=600')",
    "open partial matches": "end partial matches (where timer:within(10 min), and not)",
    "rows that wait for its output clause": "deliver more often, or `output last`",
    "context partitions": "end the partitions (terminated after 10 min)",
}
KINDS = tuple(_HINTS)


def state_counts(statement: RunningStatement) -> Counter[str]:
    """Return how much the states of a statement hold, by kind."""
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
    """Counts events, and what the statements keep when enough events have come."""

    def __init__(self, limit: int, statements: Mapping[str, RunningStatement]) -> None:
        self._limit = limit
        self._statements = statements
        self._left = 0

    def admit(self, events: int) -> None:
        """Count so many new events, before they are processed. Errors: StateLimitError, they must not be processed."""
        self._left -= events
        if self._left < 0:
            self.check()

    def check(self) -> None:
        """Errors: StateLimitError if a statement keeps more than the limit."""
        largest, states, limit = 0, 0, self._limit
        for statement in self._statements.values():
            counts = state_counts(statement)
            total = counts.total()
            if total > limit:
                raise self._error(statement, counts)
            largest = max(largest, total)
            states += counts["context partitions"] + 1
        self._left = max(min((limit - largest) // 4, _MOST), limit // 100, states)

    def _error(self, statement: RunningStatement, counts: Counter[str]) -> StateLimitError:
        kinds = [(kind, count) for kind, count in counts.most_common() if count]
        text = ", ".join(f"{count:,} {kind}" for kind, count in kinds)
        fact = f"statement `{statement.name}` keeps {text}, more than the limit of {self._limit:,}"
        hint = f"{_HINTS[kinds[0][0]]}; or drop the statement, or raise the limit (`cep.state_limit = None` for none)"
        diagnostic = Diagnostic("state-limit", f"{fact}: no event enters the engine", _fullest_source(statement), hint)
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
        inputs = [own] if statement.steps.join is None else [s[1].retained() for s in state[1].states]
        for place, count in enumerate((*inputs, *of_subqueries)):
            counts[place] += count
    return spans[counts.index(max(counts))]
