"""The view of `match_recognize`: rows enter, events of matches leave.

::

    pattern (A B+)            a1  b1  b2  a2  b3
    matches                       a1b1        a2b3

A partition (one value of `partition by`) has *open matches*: paths through the automaton that may still become longer.
An open match is a tuple (ordinal and time of its first row, position in the automaton, rows by variable, mark, tail).
It contains all rows of its partition from its first row on. Two things follow:

- A row that leaves ends the matches that begin with it. A match that began before goes on without it, unless the
  pattern needs the row there. Rows leave most windows in the order of arrival, so this is rare.
- A new row only has to try the transitions of the open matches, and to begin a match of its own. That is the cost of a
  row.

*Runs* make long matches cheap. A variable of several rows holds a run: a section of the log of the partition's latest
rows. While a match stays at one position nothing is written: the rows of its variable continue from index `tail` of the
log to its end. So staying costs the same for long and short matches, and creates no object.

*Equivalent matches are merged.* Two open matches with the same beginning, at the same position, whose later conditions
read the same rows, have the same future, so only the first choice is kept. If only the earliest match is reported (skip
past last row, no row leaves) this also holds for different beginnings, and the number of positions bounds the number of
open matches. With `all matches` two matches are equivalent only if they also divide the same rows alike.

With an interval, complete matches are kept until they are due. If only the earliest match is reported and no row
leaves, a complete match is certain to be reported, so the matches that begin within it are dropped at once.

The iterator looks for matches anew, in the rows that the windows hold: of each beginning the longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from heapq import heappop, heappush
from itertools import groupby
from operator import itemgetter
from typing import Any

from cepbook.engine.patterns.statement_pattern import PartialsSummary
from cepbook.engine.recognize.recognize_program import RecognizeProgram, Transition
from cepbook.engine.recognize.row_aggregates import MatchRows, read_rows, run_rows, with_run
from cepbook.engine.state import State
from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.derived_value import PackItem
from cepbook.engine.windows.view_chain import DownstreamView, ViewChain
from cepbook.engine.windows.window_view import Item, ViewDelta, WindowView

# ordinal and time of the first row, position, rows, mark, tail or -1
OpenMatch = tuple[int, int, int, MatchRows, int, int]
CompleteRowMatch = tuple[int, int, MatchRows]  # ordinal and time of the first row, rows
IteratedRow = tuple[int, Any, Sequence[Any]]  # ordinal, row, rows before it
_LEAST, _MOST = 8, 256  # rows of a log


class HeldMatch(State):
    """A complete match that waits until its interval ends.

    `due` is that time, `end` the ordinal of its last row, `rows` its rows (of all its lengths with `all matches`).
    """

    __slots__ = ("due", "end", "rows")

    def __init__(self, due: int) -> None:
        self.due = due
        self.end = 0
        self.rows: list[MatchRows] = []


class RowPartition(State):
    """The rows of one value of `partition by`: those just before, open matches by beginning, and held matches.

    `rows` has those that may leave, by ordinal, from the first row of the matches on.

    `log` has the latest rows, starting with ordinal `opened`; runs refer to it. A log is replaced when it holds `room`
    rows. The room grows with the length of the matches, so that few rows are kept that no match needs.
    """

    __slots__ = ("before", "held", "log", "open", "opened", "room", "rows")

    def __init__(self) -> None:
        self.rows: dict[int, Any] = {}
        self.before: list[Any] = []
        self.open: list[OpenMatch] = []
        self.held: dict[int, HeldMatch] = {}
        self.log: list[Any] = []
        self.opened = 0
        self.room = _LEAST

    def note(self, ordinal: int, row: Any, variables: Sequence[int]) -> None:
        """Append a row to the log; `variables` maps positions to variables."""
        if not self.open or len(self.log) >= self.room:
            longer = bool(self.open) and self.open[0][0] <= self.opened
            self.room = min(self.room * 2, _MOST) if longer else _LEAST
            self.open = [self.closed(match, variables) for match in self.open]
            self.log, self.opened = [], ordinal
        self.log.append(row)

    def closed(self, match: OpenMatch, variables: Sequence[int]) -> OpenMatch:
        """Return `match` with its tail moved into its rows."""
        begin, since, position, rows, mark, tail = match
        if tail < 0:
            return match
        return begin, since, position, with_run(rows, variables[position], self.log, tail, len(self.log)), mark, -1

    @property
    def idle(self) -> bool:
        """True if nothing is kept."""
        return not (self.open or self.held or self.before)


class MatchView(DownstreamView):
    """Finds the matches in the rows that enter, and emits an event for each; emitted events are never taken back.

    `state` is the statement's state, `pack` makes items of events. `size` counts the open matches, `dues` has the due
    times of held ones. `places` maps the ordinals of rows that may leave to their partitions, `priors` to the rows
    before them.
    """

    __slots__ = ("dues", "form", "pack", "partitions", "places", "priors", "serial", "size", "state")

    def __init__(self, form: RecognizeProgram, state: Any, pack: PackItem) -> None:
        super().__init__()
        self.form = form
        self.state = state
        self.pack = pack
        self.size = 0
        self.serial = 0
        self.partitions: dict[Any, RowPartition] = {}
        self.dues: list[tuple[int, int, Any]] = []
        self.places: dict[int, Any] = {}
        self.priors: dict[int, tuple[Any, ...]] = {}

    def take(self, change: ViewDelta, now: int) -> ViewDelta | None:
        matches: list[MatchRows] = []
        for item in change[1]:
            self._leave(item[0], now, matches)
        for item in change[0]:
            self._enter(item, now, matches)
        return self.emit_matches(matches, now)

    def emit_matches(self, matches: list[MatchRows], now: int) -> ViewDelta | None:
        """Return the events of complete matches; None without any."""
        self._look()
        if not matches:
            return None
        form, state = self.form, self.state
        entered: list[Item] = []
        for rows in matches:
            for listener in form.listeners:
                listener(form.named(rows))
            try:
                entered.append(self.pack(state, form.measures(rows, state, now), now, True))
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                form.failed(failure)
        return (entered, []) if entered else None

    def _look(self) -> None:
        dues, partitions = self.dues, self.partitions
        while dues:
            due, begin, key = dues[0]
            partition = partitions.get(key)
            if partition is not None and begin in partition.held and partition.held[begin].due == due:
                break
            heappop(dues)
        self.due = dues[0][0] if dues else NEVER

    def _partition_key(self, row: Any, now: int) -> tuple[Any] | None:
        """Return the partition of a row in a tuple, or None if the where clause rejects the row."""
        form = self.form
        if form.admits is not None and not form.admits(row, self.state, now):
            return None
        return (None if form.key is None else form.key(row, self.state, now),)

    def _enter(self, item: Item, now: int, matches: list[MatchRows]) -> None:
        form, row = self.form, item[-1]
        try:
            keys = self._partition_key(row, now)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            form.failed(failure)
            return
        if keys is None:
            return
        key = keys[0]
        partition = self.partitions.get(key)
        if partition is None:
            partition = self.partitions[key] = RowPartition()
        before, open_before = partition.before, len(partition.open)
        if form.leaves:
            self.places[item[0]] = key
            if form.back:
                self.priors[item[0]] = tuple(before)
            if not partition.open and not partition.held:
                partition.rows = {}
            partition.rows[item[0]] = row
        self.serial += 1
        if not form.iterate_only:
            self._match(partition, key, item, now, matches)
        if form.back:
            before.append(row)
            del before[: -form.back]
        self.size += len(partition.open) - open_before
        if partition.idle:
            del self.partitions[key]
        elif not partition.open:
            partition.log = []

    def _match(self, partition: RowPartition, key: Any, item: Item, now: int, matches: list[MatchRows]) -> None:
        """Continue the matches of a partition with its new row, and report those that are due.

        A condition that raises is reported, and ends all open matches.
        """
        ended: list[int] = []
        try:
            complete = self._append(partition, item[0], item[-1], partition.before, now, ended)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.form.failed(failure)
            complete, partition.open = [], []
        if self.form.due is not None:
            for begin in ended:
                if begin in partition.held and not self._blocked(partition, begin):
                    matches += partition.held.pop(begin).rows
            self._hold(partition, key, complete, item[0], now)
            self._release(partition, now, matches)
        elif complete:
            self._skip(partition, complete, matches)

    def _append(
        self, partition: RowPartition, ordinal: int, row: Any, before: Sequence[Any], now: int, ended: list[int]
    ) -> list[CompleteRowMatch]:
        """Append a row to a partition: continue its open matches, and return those that the row completes."""
        form = self.form
        begun = ordinal, now, -1, (None,) * len(form.names), 0, -1  # a match that may begin with the row
        if form.runs:
            partition.note(ordinal, row, form.variables)
        complete, partition.open = self._step([*partition.open, begun], partition.log, row, before, now, ended)
        return complete

    def _step(
        self, open_: list[OpenMatch], log: list[Any], row: Any, before: Sequence[Any], now: int, ended: list[int]
    ) -> tuple[list[CompleteRowMatch], list[OpenMatch]]:
        """Return the matches that a row completes (earliest beginning, first choice first) and the open ones.

        Append to `ended` the beginnings of complete matches of which one alternative goes on and another does not.
        """
        form = self.form
        forks, alike, variables = form.forks, form.alike, form.variables
        every, bounded = form.all_matches, form.bounded
        known: dict[int, bool] = {}  # by variable: results of conditions that read no other rows
        moves: dict[int, list[Transition]] = {}  # transitions from positions where all matches are alike
        seen: set[Any] = set()  # equivalence classes of one beginning, or of all if bounded
        complete: list[CompleteRowMatch] = []
        going: list[OpenMatch] = []
        present = done = -1  # the present beginning, and the last one with a complete match
        at, limit = len(log) - 1, form.most - self.size + len(open_) - 1
        for match in open_:
            begin, since, position, rows, mark, tail = match
            closed: Any = rows if tail < 0 else None  # with the tail moved in; None until that is needed
            if begin != present and not bounded:
                seen.clear()
            present = begin
            fitting = moves.get(position)
            if fitting is None:
                if closed is None and not alike[position]:
                    closed = with_run(rows, variables[position], log, tail, at)
                fitting = self._fitting(position, closed or rows, known, row, before, now)
                if alike[position]:
                    moves[position] = fitting
            if forks[position] and fitting and _parts(forks[position], fitting):
                ended.append(begin)
            for target, variable, many, ends, goes, ahead in fitting:
                after = _mark(mark, variable) if every else 0
                future: Any = (target, after) if every else target
                stays = target == position and tail >= 0
                if closed is None and (ahead or not stays):
                    closed = with_run(rows, variables[position], log, tail, at)
                if ahead and not every:
                    future = (target, *read_rows(closed, ahead))
                if future in seen:
                    continue
                seen.add(future)
                if stays:
                    longer = match if after == mark else (begin, since, position, rows, after, tail)
                else:
                    own = closed if many else (*closed[:variable], row, *closed[variable + 1 :])
                    longer = begin, since, target, own, after, at if many else -1
                if ends:
                    if (-1, after) not in seen if every else begin != done:
                        seen.add((-1, after))
                        own = with_run(longer[3], variable, log, longer[5], at + 1) if many else longer[3]
                        complete.append((begin, since, own))
                        done = begin
                    if not goes:
                        continue
                if len(going) >= limit:
                    form.too_many(form.most)
                going.append(longer)
        return complete, going

    def _fitting(
        self, position: int, rows: MatchRows, known: dict[int, bool], row: Any, before: Sequence[Any], now: int
    ) -> list[Transition]:
        """Return the transitions from `position` whose conditions `row` meets after the `rows` of a match.

        `known` caches the results of conditions that read no other rows of the match.
        """
        fitting = []
        for move, variable, condition, of_row in self.form.transitions[position]:
            if condition is None:
                fits = True
            elif not of_row:
                fits = condition(row, before, rows, self.state, now)
            elif variable in known:
                fits = known[variable]
            else:
                fits = known[variable] = condition(row, before, rows, self.state, now)
            if fits:
                fitting.append(move)
        return fitting

    def _skip(self, partition: RowPartition, complete: list[CompleteRowMatch], matches: list[MatchRows]) -> None:
        skip = self.form.skip
        if skip == "past last row":
            partition.open = []
            if not self.form.all_matches:
                del complete[1:]
        elif skip == "to next row":
            begins = {begin for begin, _, _ in complete}
            partition.open = [match for match in partition.open if match[0] not in begins]
        matches += [rows for _, _, rows in complete]

    def _leave(self, ordinal: int, now: int, matches: list[MatchRows]) -> None:
        if ordinal not in self.places:
            return
        key = self.places.pop(ordinal)
        self.priors.pop(ordinal, None)
        partition = self.partitions.get(key)
        if partition is None:
            return
        row = partition.rows.pop(ordinal, None)
        if partition.open and partition.open[0][0] <= ordinal:
            remaining = [match for match in partition.open if match[0] > ordinal]
            if partition.open[0][0] < ordinal:
                remaining[:0] = self._without(partition, ordinal, row)
            self.size += len(remaining) - len(partition.open)
            self.serial += 1
            partition.open = remaining
        for begin, held_match in list(partition.held.items()):
            if begin < ordinal <= held_match.end:
                shorter = [_without(rows, row) for rows in held_match.rows]
                order = partition.rows.values()
                held_match.rows = [rows for rows in shorter if self.form.reaches(self.form.path(rows, order), None)]
            if begin == ordinal or not held_match.rows:
                del partition.held[begin]
        if partition.held:
            open_before = len(partition.open)
            self._release(partition, now, matches)
            self.size += len(partition.open) - open_before
        if partition.idle:
            del self.partitions[key]

    def _without(self, partition: RowPartition, ordinal: int, row: Any) -> Iterable[OpenMatch]:
        """Yield the open matches that began before `row`, the row that left, as they are without it."""
        form = self.form
        for match in partition.open:
            begin, since, position, rows, mark, _ = partition.closed(match, form.variables)
            if begin < ordinal:
                rows = _without(rows, row)
                path = form.path(rows, partition.rows.values())
                if form.reaches(path, position):
                    mark = reduce(_mark, path, 0) if form.all_matches else mark
                    yield begin, since, position, rows, mark, -1

    def _hold(
        self, partition: RowPartition, key: Any, complete: list[CompleteRowMatch], ordinal: int, now: int
    ) -> None:
        form = self.form
        assert form.due is not None
        for begin, since, rows in complete:
            held_match = partition.held.get(begin)
            if held_match is None:
                try:
                    due = form.due(since, self.state, now)
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    form.failed(failure)
                    continue
                held_match = partition.held[begin] = HeldMatch(due)
                if due > now:
                    heappush(self.dues, (held_match.due, begin, key))
            held_match.end = ordinal
            held_match.rows = [*held_match.rows, rows] if form.all_matches else [rows]
            if form.settles:
                self._drop_within(partition, begin, ordinal)
                break

    def _release(self, partition: RowPartition, now: int, matches: list[MatchRows]) -> None:
        if not partition.held:
            return
        going = {match[0] for match in partition.open} if self.form.or_terminated else None
        for begin in sorted(partition.held):
            held_match = partition.held.get(begin)
            if held_match is None:
                continue
            if (held_match.due <= now or (going is not None and begin not in going)) and not self._blocked(
                partition, begin
            ):
                self._report(partition, begin, matches)

    def _blocked(self, partition: RowPartition, begin: int) -> bool:
        """Return True if an earlier match may still take the rows, and only the earliest is reported."""
        return self.form.earliest and bool(partition.open) and partition.open[0][0] < begin

    def _report(self, partition: RowPartition, begin: int, matches: list[MatchRows]) -> None:
        held_match = partition.held.pop(begin)
        matches += held_match.rows
        if self.form.earliest:
            self._drop_within(partition, begin, held_match.end)

    def _drop_within(self, partition: RowPartition, begin: int, end: int) -> None:
        """Drop the matches that begin within the one from `begin` to `end`."""
        for other in [other for other in partition.held if begin < other <= end]:
            del partition.held[other]
        partition.open = [match for match in partition.open if not begin < match[0] <= end]

    def advance(self, now: int) -> ViewDelta | None:
        """Report due matches together, in the order of their beginnings, across partitions."""
        ready: list[tuple[int, Any]] = []
        while self.dues and self.dues[0][0] <= now:
            _, begin, key = heappop(self.dues)
            ready.append((begin, key))
        matches: list[MatchRows] = []
        for begin, key in sorted(ready, key=lambda entry: entry[0]):
            partition = self.partitions.get(key)
            if partition is None or begin not in partition.held or self._blocked(partition, begin):
                continue
            open_before = len(partition.open)
            self.serial += 1
            self._report(partition, begin, matches)
            self.size += len(partition.open) - open_before
            if partition.idle:
                del self.partitions[key]
        return self.emit_matches(matches, now)

    def over(self, items: Iterable[Item], now: int) -> list[Item]:
        """Return the matches within `items` alone, for the iterator. The state does not change.

        They are those with the most rows of each beginning, or with `all matches` all of them, the longest first. An
        expression that raises on a row passes through to the reader: the failures of statements are those of arrivals.
        """
        form, state, alone = self.form, self.state, MatchView(self.form, self.state, self.pack)
        partitions: dict[Any, list[IteratedRow]] = {}
        for item in items:
            keys = self._partition_key(item[-1], now)
            if keys is not None:
                rows = partitions.setdefault(keys[0], [])
                before = self.priors.get(item[0])
                if before is None:
                    before = tuple(row for _, row, _ in rows[max(len(rows) - form.back, 0) :])
                rows.append((item[0], item[-1], before))
        matches = [longest for rows in partitions.values() for longest in alone._longest(rows, now)]
        matches.sort(key=itemgetter(0))
        number = state.ordinal
        try:
            return [self.pack(state, form.measures(rows, state, now), now, False) for _, own in matches for rows in own]
        finally:
            state.ordinal = number

    def _longest(self, rows: Iterable[IteratedRow], now: int) -> Iterable[tuple[int, list[MatchRows]]]:
        """Yield the beginnings in the rows of a partition, each with its matches, the longest first."""
        form, partition = self.form, RowPartition()
        longest: dict[int, tuple[int, list[MatchRows]]] = {}  # by beginning: the last row, the matches
        for ordinal, row, before in rows:
            self.size = len(partition.open)
            complete = self._append(partition, ordinal, row, before, now, [])
            for begin, same in groupby(complete, itemgetter(0)):
                shorter = longest[begin][1] if form.all_matches and begin in longest else []
                longest[begin] = ordinal, [own for _, _, own in same] + shorter
            while longest and complete and form.skip == "past last row":
                begin, first = min(longest), partition.open[0][0] if partition.open else ordinal + 1
                if first < begin:
                    break
                end, matches = longest[begin]  # no match begins within this one, which may still become longer
                partition.open = [match for match in partition.open if not begin < match[0] <= end]
                longest = {other: matches for other, matches in longest.items() if not begin < other <= end}
                if first == begin:
                    break
                yield begin, longest.pop(begin)[1]
        past = -1
        for begin in sorted(longest):
            end, matches = longest[begin]
            if begin > past or form.skip != "past last row":
                yield begin, matches
                past = end

    def inspect(self, most: int) -> PartialsSummary:
        """Return the number of open matches, and plain data about the first `most` of them."""
        return {"total": self.size, "rows": self.partials(most)}

    def partials(self, most: int) -> list[dict[str, Any]]:
        """Return plain data about the first `most` open matches: awaited variables, times, rows so far."""
        form, rows_of_matches = self.form, list[dict[str, Any]]()
        for partition in self.partitions.values():
            for match in partition.open:
                if len(rows_of_matches) >= most:
                    return rows_of_matches
                begin, since, position, rows, _, _ = partition.closed(match, form.variables)
                following = dict.fromkeys(guarded.variable for guarded in form.transitions[position])
                held_match = partition.held.get(begin)
                rows_of_matches.append(
                    {
                        "waiting_for": " | ".join(form.waiting[variable] for variable in following),
                        "since": since,
                        "until": None if held_match is None else held_match.due,
                        "events": {name: row for name, row in form.named(rows).items() if row is not None},
                    }
                )
        return rows_of_matches

    def discard(self, item: Item) -> None:
        """Ignore an item deleted here; it is not a row of the windows before this view."""

    def contents(self) -> Iterable[Item]:
        return ()

    def retained(self) -> int:
        return 0


class RecognizeView(ViewChain):
    """Windows followed by a match view; the iterator searches for matches in the contents of the windows."""

    __slots__ = ()

    then: MatchView

    def take(self, change: ViewDelta, now: int) -> ViewDelta | None:
        """Process a change of the named window that is read."""
        delta = self.then.take(change, now)
        self._look()
        return delta

    def over(self, items: Iterable[Item], now: int) -> list[Item]:
        """Return the matches in `items`, which the windows hold."""
        return self.then.over(items, now)

    def held(self) -> Iterable[Item]:
        """The contents of the windows."""
        return self.first.contents()

    def reevaluate(self, now: int) -> None:
        self.first.reevaluate(now)
        self._look()


def recognize_view(first: WindowView, form: RecognizeProgram, state: Any, pack: PackItem) -> RecognizeView:
    """Return the view of a statement with `match_recognize` over the windows `first`."""
    return RecognizeView(first, MatchView(form, state, pack))


def _without(rows: MatchRows, row: Any) -> MatchRows:
    """Return `rows` without `row`."""
    cells = list(rows)
    for variable, cell in enumerate(rows):
        if type(cell) is tuple:
            run = [own for own in run_rows(cell) or () if own is not row]
            if len(run) < cell[4]:
                cells[variable] = (None, run, 0, len(run), len(run), run[0]) if run else None
        elif cell is row:
            cells[variable] = None
    return tuple(cells)


def _mark(mark: int, variable: int) -> int:
    """Return the mark of a match whose rows before have `mark`: it tells how the rows are divided."""
    return hash((mark, variable))


def _parts(forks: Sequence[Sequence[frozenset[int]]], moves: Sequence[Transition]) -> bool:
    """Return whether one of several alternatives goes on by `moves`, and another does not."""
    targets = {move.target for move in moves}
    return any(len({targets.isdisjoint(branch) for branch in branches}) == 2 for branches in forks)
