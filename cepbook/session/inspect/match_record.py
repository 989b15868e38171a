"""The matches of a pattern behind each delivery, recorded while somebody looks at them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cepbook.engine.delivery.delta import Record, Row
from cepbook.engine.runtime import RunningStatement
from cepbook.feeds import Feed

KEPT = 2_000  # deliveries
MOST = 50  # matches of one delivery

Match = Mapping[str, Any]  # events by tag; of a repeated tag a list


class DeliveryMatches(NamedTuple):
    """The matches behind a delivery: the first `MOST` of `total`."""

    matches: tuple[Match, ...]
    total: int


class MatchRecord:
    """The matches of a pattern statement by number of the delivery in its feed, from `begin` to `end`.

    A sink of the statement beside its feed. All matches since the previous delivery are attributed to a delivery, which
    is exact unless windows or output clauses hold rows back.
    """

    def __init__(self, statement: RunningStatement, feed: Feed) -> None:
        self._statement = statement
        self._next = feed.deliveries
        self._pending: list[Match] = []
        self._total = 0
        self._records: deque[tuple[int, DeliveryMatches]] = deque(maxlen=KEPT)

    def is_of(self, statement: RunningStatement) -> bool:
        """Return True if it records this statement and not a former one of the same name."""
        return self._statement is statement

    def begin(self) -> None:
        """Start recording."""
        self._statement.add_match_listener(self._on_match)
        self._statement.add_sink(self)

    def end(self) -> None:
        """Stop recording and detach from the statement."""
        self._statement.remove_match_listener(self._on_match)
        self._statement.remove_sink(self)

    def of(self, number: int) -> DeliveryMatches | None:
        """Return the matches behind delivery `number`; None if unknown."""
        return next((matches for delivery, matches in reversed(self._records) if delivery == number), None)

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row]) -> None:
        """Ignore the description: the layout of the statement tells it."""

    def one(self, record: Record) -> None:
        """Take a delivery."""
        self._records.append((self._next, DeliveryMatches(tuple(self._pending), self._total)))
        self._next += 1
        self._pending, self._total = [], 0

    def extend(self, flat: list[Any]) -> None:
        """Take the records of several deliveries."""
        for record in self._statement.outlet.layout.records(flat):
            if not record[0] % 2:  # begins a delivery
                self.one(record)

    def _on_match(self, match: Match) -> None:
        self._total += 1
        if len(self._pending) < MOST:
            self._pending.append(match)
