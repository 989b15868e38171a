"""Aggregates whose cells are those of columns of a table (``into table``)."""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.engine.rows.aggregate import Aggregates, Leaving
from cepbook.engine.rows.expr import Scope
from cepbook.errors import Refusal
from cepbook.lang import plan as p


class TableCells(Aggregates):
    """The aggregates of a statement that feeds a table, as `Aggregates`: each call has the cells of its column."""

    def __init__(self, scope: Scope, calls: Sequence[p.AggregateCall], into: p.IntoTable) -> None:
        self.source = scope.source
        self.calls = calls
        places = {name: number for number, name in enumerate(into.store.calls)}
        fed = dict(into.columns)
        self._parts: list[tuple[int | None, str, Aggregates]] = []
        for number, call in enumerate(calls):
            column = fed.get(number, "")
            if column not in places:
                raise Refusal("into-table", "an aggregate of `into table` that goes into no column")
            made = Aggregates(scope, [call], Leaving.ANYHOW, False, f"a{number}_", remembers=False)
            self._parts.append((places.get(column), column, made))
        self.values = [part.values[0] for _, _, part in self._parts]
        self.names = [name for _, _, part in self._parts for name in part.names]
        self.arguments = [argument for _, _, part in self._parts for argument in part.arguments]
        self.needs_ordinal = any(part.needs_ordinal for _, _, part in self._parts)
        self.reads_now = any(part.reads_now for _, _, part in self._parts)
        self.size = None

    @property
    def risky(self) -> bool:
        return any(part.risky for _, _, part in self._parts)

    @property
    def lasting(self) -> bool:
        return False

    def fresh(self) -> str:
        """The statement itself keeps nothing."""
        return "None"

    def load(self, state: str) -> None:
        """Unpack the cells of the columns."""
        for place, _, part in self._parts:
            self.source.line(f"{state}{place} = {state}[{place}]")
            part.load(f"{state}{place}")

    def store(self, state: str) -> None:
        """Put what changed back, and the values of the columns into the row."""
        for place, _, part in self._parts:
            part.store(f"{state}{place}")
        self.source.line(f"r = {state}[-1]")
        for _, column, part in self._parts:
            self.source.line(f"r[{self.source.const(column, 'n')}] = {part.values[0]}")

    def enter(self, scope: Scope, ordinal: str | None = None) -> None:
        for _, _, part in self._parts:
            part.enter(scope, ordinal)

    def leave(self, scope: Scope, ordinal: str | None = None) -> None:
        for _, _, part in self._parts:
            part.leave(scope, ordinal)
