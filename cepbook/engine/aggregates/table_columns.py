"""Aggregates of ``into table``, whose cells are those of columns of a table.

The cells of a table row are one flat list: those of each aggregation column in turn, then the row, a dict.
Generated code unpacks the list as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cepbook.engine.aggregates.incremental import AggregateCodegen
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.physical.operators import Eviction
from cepbook.errors import Refusal
from cepbook.lang.plan import nodes as p

Calls = Sequence[p.AggregateCall]


def table_column_cells(
    scope: CodeScope, calls: Mapping[str, p.AggregateCall]
) -> tuple[dict[str, AggregateCodegen], dict[str, slice]]:
    """Return the cells of each aggregation column as it is declared, and their slice of a row's list."""
    cells: dict[str, AggregateCodegen] = {}
    places: dict[str, slice] = {}
    begin = 0
    for number, (name, call) in enumerate(calls.items()):
        cells[name] = AggregateCodegen(scope, [call], Eviction.ARBITRARY, False, f"c{number}_")
        places[name] = slice(begin, begin + len(cells[name].names))
        begin = places[name].stop
    return cells, places


class TableAggregateCodegen(AggregateCodegen):
    """The aggregates of a statement that feeds a table: each call has the cells of its column. `remembered` returns the
    code of a dict, of the statement itself, for values of events by ordinal.
    """

    def __init__(self, scope: CodeScope, calls: Calls, into: p.IntoTable, remembered: Callable[[], str]) -> None:
        self.source = scope.source
        self.calls = calls
        declared, places = table_column_cells(scope, into.store.calls)
        fed = dict(into.columns)
        self._parts: list[tuple[str, int, AggregateCodegen]] = []  # (column, where its cells begin, cells)
        for number, call in enumerate(calls):
            column = fed.get(number, "")
            if column not in places:
                raise Refusal("into-table", "an aggregate of `into table` without a column")
            codegen = AggregateCodegen(scope, [call], Eviction.ARBITRARY, False, f"a{number}_", remembered=remembered)
            self._parts.append((column, places[column].start, codegen))
        own = {column: codegen.names for column, _, codegen in self._parts}
        self._all = [name for column, cells in declared.items() for name in own.get(column, ["_"] * len(cells.names))]
        self.values = [codegen.values[0] for _, _, codegen in self._parts]
        self.names = [name for _, _, codegen in self._parts for name in codegen.names]
        self.arguments = [argument for _, _, codegen in self._parts for argument in codegen.arguments]
        self.needs_ordinal = any(codegen.needs_ordinal for _, _, codegen in self._parts)
        self.reads_now = any(codegen.reads_now for _, _, codegen in self._parts)
        self.size = None

    @property
    def risky(self) -> bool:
        return any(codegen.risky for _, _, codegen in self._parts)

    @property
    def lasting(self) -> bool:
        return False

    def fresh(self) -> str:
        """Return the code of the statement's own groups: it has none."""
        return "None"

    def load(self, state: str) -> None:
        """Write code that unpacks the cells of the columns, and the row."""
        self.source.line(f"{', '.join([*self._all, 'r'])} = {state}")

    def store(self, state: str, begin: int = 0) -> None:
        """Write code that stores changed cells, and the values of the columns in the row."""
        for _, place, codegen in self._parts:
            codegen.store(state, begin + place)
        for column, _, codegen in self._parts:
            self.source.line(f"r[{self.source.const(column, 'n')}] = {codegen.values[0]}")

    def enter(self, scope: CodeScope, ordinal: str | None = None) -> None:
        for _, _, codegen in self._parts:
            codegen.enter(scope, ordinal)

    def leave(self, scope: CodeScope, ordinal: str | None = None) -> None:
        for _, _, codegen in self._parts:
            codegen.leave(scope, ordinal)
