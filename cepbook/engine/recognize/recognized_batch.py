"""Rows of `match_recognize` a batch at a time: arrays find the rows that complete a match.

::

    columns ──► variables that accept each row ──► states of each partition, row after row (`RowAutomaton`)
                                                        ├── matches: their values as columns, or the row engine gets
                                                        │   the row that completes a match, in the state before it
                                                        └── matches that are open behind the last row

Between two batches the partitions are as the row engine leaves them: their open matches in order, the rows before, the
counters, and the order of the partitions. Only the division of long runs into sections differs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from cepbook.engine.recognize.match_view import MatchView, OpenMatch, RowPartition
from cepbook.engine.recognize.recognize_program import RecognizeProgram
from cepbook.engine.recognize.row_aggregates import MatchRows, with_run
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.engine.vectorized.recognition_form import MeasureForm
from cepbook.engine.vectorized.row_automaton import BEGUN, RowState
from cepbook.interrupts import InterruptGuard


class _Path(NamedTuple):
    """An open match at `position`. Its rows from place `begin` on are of the `variables` in turn; before these it has
    those of the open match `earlier`, if it began before the batch.
    """

    position: int
    begin: int
    variables: Sequence[int]
    earlier: OpenMatch | None


def recognized_batch(
    program: RecognizeProgram, batch: ColumnBatch, view: MatchView, names: Sequence[str]
) -> RecognizedBatch | None:
    """Return the matches of a batch of events that pass the filter; None if arrays cannot evaluate the conditions, or
    if too many matches could be open. The events have the properties `names`.
    """
    form = program.arrays()
    if isinstance(form, str) or program.automaton.full:
        return None
    from cepbook.engine.vectorized.partitioned_rows import partitioned_rows

    rows = partitioned_rows(form, batch)
    if rows is None or view.size + len(rows.keys) * len(program.variables) > program.most:
        return None
    try:
        return RecognizedBatch(program, form.measures, view, batch.times, rows, names)
    except Exception:  # noqa: BLE001 - too many states, or a condition fails: the row engine reports it with its row
        return None


class RecognizedBatch:
    """The matches of a batch, as they complete; `rows` are its `PartitionedRows`.

    `completing` has the rows that complete a match, as places in the batch, `present_row` is the one that the row
    engine processes. Nothing has changed yet. Either `measures` are the output, or `prepare_rows` leads the row engine
    through the rows; then `finish`.
    """

    def __init__(
        self,
        program: RecognizeProgram,
        measures: Mapping[str, MeasureForm],
        view: MatchView,
        times: Sequence[int],
        rows: Any,
        names: Sequence[str],
    ) -> None:
        from cepbook.engine.vectorized.row_matches import RowMatches

        self._program = program
        self._measures = measures
        self._view = view
        self._times = times
        self._rows = rows
        self._names = names
        self._order: Sequence[int] = rows.order.tolist()
        self._new = [key not in view.partitions for key in rows.keys]
        self._partitions = [view.partitions.get(key) or RowPartition() for key in rows.keys]
        self._rows_before = [list(partition.before) for partition in self._partitions]
        self._open_before = [
            [partition.closed(match, program.variables) for match in partition.open] for partition in self._partitions
        ]
        self._serial = view.serial
        self._open_elsewhere = view.size - sum(map(len, self._open_before))
        self._ordinals = [(-1, view.state.ordinal)]  # of rows that have completed a match, and before the first row
        self._decide_first_rows()
        begun = [
            program.automaton.number(RowState(tuple(position for _, _, position, _, _, _ in matches)))
            for matches in self._open_before
        ]
        self._matches = RowMatches(rows, program.automaton, begun)
        self.completing = [self._order[place] for place in self._matches.completing]
        self.present_row = -1
        self._open_after = [
            [self._path(number, end - 1, match) for match in range(len(self._state(end - 1).positions))]
            for number, end in enumerate(rows.bounds[1:])
        ]
        self._events: list[Any] = []

    def _state(self, place: int) -> RowState:
        """Return the state of a partition behind the row at a place."""
        return self._program.automaton.states[int(self._matches.states[place])]

    def _decide_first_rows(self) -> None:
        """Evaluate the conditions of the first rows of partitions, which read rows of former batches, one by one."""
        program, rows = self._program, self._rows
        if not program.back:
            return
        bounds = zip(rows.bounds, rows.bounds[1:], strict=False)
        first = [range(begin, min(begin + program.back, end)) for begin, end in bounds]
        events = self._events_of(first)
        conditions = {guarded.variable: guarded.condition for moves in program.transitions for guarded in moves}
        for places, before in zip(first, self._rows_before, strict=True):
            earlier = list(before)
            for place in places:
                row, now = events[place], self._times[self._order[place]]
                rows.accepted[place] = sum(
                    1 << variable
                    for variable, condition in conditions.items()
                    if condition is None or condition(row, earlier, (), self._view.state, now)
                )
                earlier.append(row)

    def _events_of(self, sections: Sequence[range]) -> list[Any]:
        """Return the events of some places by place, None for others."""
        needed = bytearray(len(self._order))
        for places in sections:
            needed[places.start : places.stop] = b"\1" * len(places)
        events: list[Any] = self._rows.events(needed, self._names)
        return events

    def _path(self, number: int, place: int, match: int) -> _Path:
        """Return the path of a match that is open in partition `number` behind the row at a place."""
        first, variables = self._rows.bounds[number], list[int]()
        position = self._state(place).positions[match] if place >= first else self._open_before[number][match][2]
        while place >= first and match != BEGUN:
            state = self._state(place)
            variables.append(self._program.variables[state.positions[match]])
            match = state.parents[match]
            place -= 1
        variables.reverse()
        return _Path(position, place + 1, variables, None if match == BEGUN else self._open_before[number][match])

    def _completed_path(self, match: int) -> _Path | None:
        """Return the path of a complete match without its last row; None if that is the only one."""
        number, place = self._matches.owners[match], self._matches.completing[match]
        completed = self._state(place).completed
        return None if completed == BEGUN else self._path(number, place - 1, completed)

    def _section(self, number: int, place: int, paths: Sequence[_Path | None]) -> range:
        """Return the places of rows before `place` that some paths have, or that conditions may read."""
        first = max(self._rows.bounds[number], place - self._program.back)
        return range(min([first, *(path.begin for path in paths if path is not None)]), place)

    def _open_sections(self) -> list[range]:
        return [self._section(n, self._rows.bounds[n + 1], paths) for n, paths in enumerate(self._open_after)]

    @property
    def columns(self) -> Mapping[str, list[Any]]:
        """The columns of the rows in `completing`."""
        columns: Mapping[str, list[Any]] = self._rows.columns.of_rows(self.completing)
        return columns

    def measures(self, names: Sequence[str]) -> dict[str, list[Any]] | None:
        """Return the measures `names` of all matches; None if measures must be computed from rows, if somebody listens
        to the rows of matches, or if a measure fails: then its match has no row.
        """
        if self._program.listeners or not self._measures:
            return None
        if any(measure.name not in self._names for measure in self._measures.values()):
            return None  # dynamic or nested, so no column of the batch
        try:
            columns, unknown = self._matches.measures(self._measures)
            self._measure_from_events(columns, unknown)
        except Exception:  # noqa: BLE001 - the row engine meets it again, and reports it
            return None
        before, ordinal = self._ordinals[0]
        self._ordinals += [(row, ordinal + row - before + number) for number, row in enumerate(self.completing, 1)]
        return {name: columns[name] for name in names}

    def _measure_from_events(self, columns: Mapping[str, list[Any]], matches: Sequence[int]) -> None:
        """Put the measures of some matches into `columns`."""
        owners, completing = self._matches.owners, self._matches.completing
        paths = {match: self._completed_path(match) for match in matches}
        sections = [self._section(owners[match], completing[match] + 1, [path]) for match, path in paths.items()]
        self._events = self._events_of([*sections, *self._open_sections()])
        for match, path in paths.items():
            place = completing[match]
            assert path is not None
            whole = path._replace(variables=[*path.variables, self._state(place).variable])
            *_, cells, _, _ = self._match(whole, place + 1)
            measured = self._program.measures(cells, self._view.state, self._times[self.completing[match]])
            for name, column in columns.items():
                column[match] = measured[name]

    def prepare_rows(self) -> Iterator[int]:
        """Yield the times of the rows that complete a match. Before each, put its partition into the state in which the
        row engine completes the match.
        """
        view, owners, completing = self._view, self._matches.owners, self._matches.completing
        paths = list(map(self._completed_path, range(len(completing))))
        sections = [self._section(n, at, [path]) for n, at, path in zip(owners, completing, paths, strict=True)]
        self._events = self._events_of([*sections, *self._open_sections()])
        for row, number, place, path in zip(self.completing, owners, completing, paths, strict=True):
            view.state.ordinal += row - self._ordinals[-1][0] - 1
            partition = view.partitions[self._rows.keys[number]] = self._partitions[number]
            former = len(partition.open)
            self._enter(number, place, [] if path is None else [path])
            view.size += len(partition.open) - former
            self.present_row = row
            yield self._times[row]
            self._ordinals.append((row, view.state.ordinal))

    def finish(self) -> None:
        """Put all partitions into their states behind the last row."""
        view, rows = self._view, self._rows
        begun = []
        with InterruptGuard():
            for number, paths in enumerate(self._open_after):
                self._enter(number, rows.bounds[number + 1], paths)
                partition, key, row = self._partitions[number], rows.keys[number], self._kept_from(number)
                if partition.idle or row is not None:
                    view.partitions.pop(key, None)
                if not partition.idle:
                    begun.append((-1 if row is None else row, key, partition))
            for _, key, partition in sorted(begun, key=itemgetter(0)):
                view.partitions[key] = partition
            view.size = self._open_elsewhere + sum(map(len, self._open_after))
            view.serial = self._serial + len(self._order)
            row, ordinal = self._ordinals[-1]
            view.state.ordinal = ordinal + len(self._times) - 1 - row

    def _enter(self, number: int, place: int, paths: Sequence[_Path]) -> None:
        """Put a partition into its state before the row at a place, with the matches of some paths."""
        partition, first, back = self._partitions[number], self._rows.bounds[number], self._program.back
        partition.open = [self._match(path, place) for path in paths]
        partition.log = []
        if back:
            partition.before = [*self._rows_before[number], *self._events[max(first, place - back) : place]][-back:]

    def _match(self, path: _Path, place: int) -> OpenMatch:
        """Return the open match of a path that ends before the row at a place."""
        cells: MatchRows
        if path.earlier is not None:
            begin, since, _, cells, _, _ = path.earlier
        else:
            row = self._order[path.begin]
            before, ordinal = self._ordinals[bisect_left(self._ordinals, (row,)) - 1]
            begin, since, cells = ordinal + row - before, self._times[row], (None,) * len(self._program.names)
        log, at = self._events[path.begin : place], 0
        for variable, rows in groupby(path.variables):
            count = len(list(rows))
            if self._program.many[variable]:
                cells = with_run(cells, variable, log, at, at + count)
            else:
                cells = (*cells[:variable], log[at], *cells[variable + 1 :])
            at += count
        return begin, since, path.position, cells, 0, -1

    def _kept_from(self, number: int) -> int | None:
        """Return the row with which the row engine begins to keep a partition; None if it keeps it from before."""
        first, end = self._rows.bounds[number : number + 2]
        place: int = first
        if not self._program.back:  # else a partition is kept from its first row on
            place = next((at for at in range(end, first, -1) if not self._state(at - 1).positions), first)
        if place == end or (place == first and not self._new[number]):
            return None
        return self._order[place]
