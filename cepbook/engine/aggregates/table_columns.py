"""Aggregates whose cells are those of columns of a table (``into table``).

The cells of a row of a table are one flat list: those of its aggregation columns one after the other, as `places` says,
and behind them the row, a dict of all columns. Generated code unpacks it as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cepbook.engine.aggregates.incremental import AggregateCodegen
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.physical.operators import Eviction
from cepbook.errors import Refusal
from cepbook.lang.plan import nodes as p


def table_column_cells(
    scope: CodeScope, calls: Mapping[str, object]
) -> tuple[dict[str, AggregateCodegen], dict[str, slice]]:
    """The cells of each aggregation column as it is declared, and where they stand in the list of a row."""
    cells: dict[str, AggregateCodegen] = {}
    places: dict[str, slice] = {}
    begin = 0
    for number, (name, call) in enumerate(calls.items()):
        assert isinstance(call, p.AggregateCall)
        cells[name] = AggregateCodegen(scope, [call], Eviction.ARBITRARY, False, f"c{number}_")
        places[name] = slice(begin, begin + len(cells[name].names))
        begin = places[name].stop
    return cells, places


class TableAggregateCodegen(AggregateCodegen):
    """The aggregates of a statement that feeds a table, as `AggregateCodegen`: each call has the cells of its column.

    What the statement must remember of its events is its own: `remembered` gives code of a dict by ordinal.
    """

    def __init__(
        self, scope: CodeScope, calls: Sequence[p.AggregateCall], into: p.IntoTable, remembered: Callable[[], str]
    ) -> None:
        self.source = scope.source
        self.calls = calls
        declared, places = table_column_cells(scope, into.store.calls)
        fed = dict(into.columns)
        self._parts: list[tuple[str, int, AggregateCodegen]] = []  # (column, where its cells begin, cells)
        for number, call in enumerate(calls):
            column = fed.get(number, "")
            if column not in places:
                raise Refusal("into-table", "an aggregate of `into table` that goes into no column")
            made = AggregateCodegen(scope, [call], Eviction.ARBITRARY, False, f"a{number}_", remembered=remembered)
            self._parts.append((column, places[column].start, made))
        own = {column: made.names for column, _, made in self._parts}
        self._all = [name for column, each in declared.items() for name in own.get(column, ["_"] * len(each.names))]
        self.values = [made.values[0] for _, _, made in self._parts]
        self.names = [name for _, _, made in self._parts for name in made.names]
        self.arguments = [argument for _, _, made in self._parts for argument in made.arguments]
        self.needs_ordinal = any(made.needs_ordinal for _, _, made in self._parts)
        self.reads_now = any(made.reads_now for _, _, made in self._parts)
        self.size = None

    @property
    def risky(self) -> bool:
        return any(made.risky for _, _, made in self._parts)

    @property
    def lasting(self) -> bool:
        return False

    def fresh(self) -> str:
        """The statement itself keeps nothing."""
        return "None"

    def load(self, state: str) -> None:
        """Unpack the cells of the columns, and the row."""
        self.source.line(f"{', '.join([*self._all, 'r'])} = {state}")

    def store(self, state: str, begin: int = 0) -> None:
        """Put what changed back, and the values of the columns into the row."""
        for _, place, made in self._parts:
            made.store(state, begin + place)
        for column, _, made in self._parts:
            self.source.line(f"r[{self.source.const(column, 'n')}] = {made.values[0]}")

    def enter(self, scope: CodeScope, ordinal: str | None = None) -> None:
        for _, _, made in self._parts:
            made.enter(scope, ordinal)

    def leave(self, scope: CodeScope, ordinal: str | None = None) -> None:
        for _, _, made in self._parts:
            made.leave(scope, ordinal)
