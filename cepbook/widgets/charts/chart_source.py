"""The statement that a chart draws: which columns, by which values, and their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepbook.display import format_count, format_time, format_value
from cepbook.errors import UsageError, known_names_line, printable
from cepbook.feeds import Feed
from cepbook.lang.types import INTEGRAL, NUMERIC, Type
from cepbook.session import Workbench
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.widgets.charts.series_rows import GROUPS, SERIES, SeriesRows, row_of

LABELS = 20  # values of a column of texts up to which it is the `by` column unless one is named
_NUMERIC, _INTEGRAL = ({of.name for of in types} for types in (NUMERIC, INTEGRAL))


class ChartSource:
    """The numbers of statement `name`: the columns `y`, and a series for each value of `by` (see `ChartView`).

    Raises UsageError if there is no such statement or column, or no number to draw.
    """

    def __init__(self, workbench: Workbench, name: str, y: Sequence[str] = (), by: str | None = None) -> None:
        self.workbench, self.name = workbench, name
        self._y, self._by = tuple(y), by
        self.rows = SeriesRows((), None)
        self.begin()

    def begin(self) -> None:
        """Begin anew, with the columns and rows that the statement has now. Raises UsageError likewise."""
        statement = self.workbench.runtime.statement(self.name)
        types = statement.output_type.properties
        times = TimeColumns(self.workbench.runtime).of_statement(self.name)
        columns = charted_columns(self.name, types, times, self._y)
        if self._by is not None:
            require_column(self.name, types, self._by)
        texts = [column for column, of in types.items() if of.name == "string" and column not in columns]
        for candidate in [self._by] if self._by is not None else [*texts, None]:
            self.rows = SeriesRows(columns, candidate)
            self.rows.read(self.feed)
            if self.rows.group_count <= LABELS:
                return

    @property
    def feed(self) -> Feed:
        """The deliveries; a different object after the statement was deployed anew. Raises UsageError if it is gone."""
        return self.workbench.feed(self.name)

    @property
    def dropped(self) -> bool:
        """True if there is no statement of the name any more."""
        return self.name not in self.workbench.runtime.statements

    @property
    def second(self) -> int:
        """The clock's units per second."""
        return int(self.workbench.runtime.config.second)

    def read(self, feed: Feed) -> None:
        """Append the rows that came since. A column that got too many values is no longer that of the series."""
        self.rows.read(feed)
        if self._by is None and self.rows.group_count > LABELS:
            self.begin()

    @property
    def title(self) -> str:
        """The statement with its columns."""
        y, by = ", ".join(self.rows.y), self.rows.by
        return printable(f"{self.name}: {y}" + (f" by {by}" if by else ""))

    @property
    def note(self) -> str:
        """The number of rows, and what is not drawn."""
        rows = self.rows
        notes = [format_count(len(rows), "row")]
        if rows.lost:
            notes.append(f"the oldest {rows.lost:,} rows are missing")
        if rows.group_count > SERIES:
            count = f"more than {GROUPS:,}" if rows.group_count >= GROUPS else f"{rows.group_count:,}"
            notes.append(f"the {SERIES} values of {printable(str(rows.by))} with the most rows, of {count}")
        return "; ".join(notes)

    def cells(self, feed: Feed, series: int, place: int) -> list[tuple[str, str]]:
        """Return the names and texts of a row; none if there is no such row, or the feed has lost it."""
        known = self.rows.series
        if series >= len(known) or place >= len(known[series].group):
            return []
        row = row_of(feed, known[series].group.key(place))
        if row is None:
            return []
        time, values = row
        times = TimeColumns(self.workbench.runtime, ms=True).of_statement(self.name)
        cells = [("time", format_time(time, second=self.second))]
        for name, value in values.items():
            cells.append((name, format_time(value) if name in times and type(value) is int else format_value(value)))
        return [(printable(name), printable(text)) for name, text in cells]


def charted_columns(name: str, types: Mapping[str, Type], times: frozenset[str], y: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of statement `name` to draw: `y`, or the first one with floats, else with whole numbers.

    Raises UsageError for a name that is no column, for a column without numbers, and if there is none.
    """
    numeric = [column for column, of in types.items() if of.name in _NUMERIC and column not in times]
    for column in y:
        require_column(name, types, column)
        if types[column].name in ("string", "char"):
            among = f": it has {', '.join(f'`{other}`' for other in numeric)}" if numeric else ""
            raise UsageError(f"column `{column}` of `{name}` holds text, and a chart draws numbers{among}")
    if y:
        return tuple(dict.fromkeys(y))
    floats = [column for column in numeric if types[column].name not in _INTEGRAL]
    if not numeric:
        others = ", ".join(f"`{column}`" for column in types) or "none"
        raise UsageError(
            f"statement {name} has no numeric column to draw; its columns: {others}\n"
            f"  hint: `%view {name}` shows its rows, and `--y COLUMN` names a column that holds numbers"
        )
    return ((floats or numeric)[0],)


def require_column(name: str, types: Mapping[str, Type], column: str) -> None:
    """Raise UsageError if statement `name` has no such column."""
    if column not in types:
        raise UsageError(f"statement {name} has no column `{column}`{known_names_line(column, types)}")
