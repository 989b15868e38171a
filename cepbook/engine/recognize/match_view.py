"""The view of `match_recognize`: rows enter, events of matches leave.

::

    pattern (A B+)            a1  b1  b2  a2  b3
    matches                       a1b1        a2b3

A partition (one value of `partition by`) has *open matches*: paths through the automaton that may still become longer.
An open match is a tuple (ordinal and time of its first row, position in the automaton, rows by variable, mark, tail).
It contains all rows of its partition from its first row on. Two things follow:

- A row that leaves removes every open match of its partition that began at or before it. No index of rows is needed.
- A new row only has to try the transitions of the open matches, and to begin a match of its own. That is the cost of a
  row.

*Runs* make long matches cheap. A variable of several rows holds a run: a section of the log of the partition's latest
rows. While a match stays at one position nothing is written: the rows of its variable continue from index `tail` of the
log to its end. So staying costs the same for long and short matches, and creates no object.

*Equivalent matches are merged.* Two open matches with the same beginning, at the same position, whose later conditions
read the same rows, have the same future, so only the first choice is kept. If only the earliest match is reported (skip
past last row, no row leaves) this also holds for different beginnings, and the number of positions bounds the number of
open matches. With `all matches` two matches are equivalent only if they also divide the same rows alike.

With an interval, complete matches are kept until they are due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple

from cepbook.engine.recognize.row_aggregates import RowRun, run_rows
from cepbook.engine.state import State
from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.derived_value import PackItem
from cepbook.engine.windows.view_chain import DownstreamView, ViewChain
from cepbook.engine.windows.window_view import Item, ViewDelta, WindowView

MatchRows = tuple[Any, ...]  # by variable: the row, or a run of several (`RowRun`); None without any
OpenMatch = tuple[
    int, int, int, MatchRows, int, int
]  # ordinal and time of the first row, position, rows, mark, tail or -1
CompleteRowMatch = tuple[int, int, MatchRows]  # ordinal and time of the first row, rows
_LEAST, _MOST = 8, 256  # rows of a log


class Transition(NamedTuple):
    """A transition to the position `target`, for `many` rows of `variable` or one.

    A match may end there (`ends`) and may continue (`goes`). `ahead` lists the variables whose rows later conditions
    read.
    """

    target: int
    variable: int
    many: bool
    ends: bool
    goes: bool
    ahead: tuple[int, ...]


class GuardedTransition(NamedTuple):
    """A transition with the condition that a row must meet as `variable`.

    The condition takes (row, rows before it, matched rows, state, time); None accepts any row. `alone`: it does not
    read matched rows.
    """

    move: Transition
    variable: int
    condition: Callable[..., bool] | None
    alone: bool


@dataclass(frozen=True, slots=True)
class RecognizeProgram:
    """The automaton, generated functions and facts that all states of one statement share.

    - `ways` are the transitions from each position; the last element has those that begin a match.
    - `alike` says for each position whether the transitions are the same for all matches there, because no condition
      reads matched rows.
    - `runs`: some variable is `many`. `variables` maps positions to variables.
    - `earliest`: of matches that share rows only the one that begins first is reported.
    - `bounded`: equivalent open matches with different beginnings are merged.
    - `back` is the number of rows before the tested one that conditions read.
    - `admits` is the where clause, `key` returns the partition, `due` the end of the interval, `too_many` raises an
      error.
    - `leaves`: rows may leave while they are still needed.
    - `waiting` describes the variables for users. `namespace` has the ports of the running statement.
    """

    ways: tuple[tuple[GuardedTransition, ...], ...]
    alike: tuple[bool, ...]
    earliest: bool
    bounded: bool
    names: tuple[str, ...]
    many: tuple[bool, ...]
    runs: bool
    variables: tuple[int, ...]
    back: int
    admits: Callable[[Any, Any, int], bool] | None
    key: Callable[[Any, Any, int], Any] | None
    measures: Callable[[MatchRows, Any, int], Any]
    due: Callable[[int, Any, int], int] | None
    too_many: Callable[[int], None]
    skip: str
    all_matches: bool
    or_terminated: bool
    leaves: bool
    waiting: tuple[str, ...]
    namespace: Mapping[str, Any]

    def failed(self, failure: Exception) -> None:
        """Report a failure of a user expression."""
        self.namespace["failed"](failure)

    @property
    def most(self) -> int:
        """The number of matches that may be open in one state."""
        limit: int = self.namespace["recognize_limit"]
        return limit

    def named(self, rows: MatchRows) -> dict[str, Any]:
        """Return the rows of a match by variable name; lists for variables of several rows."""
        pairs = zip(self.names, self.many, rows, strict=True)
        return {name: run_rows(cell) if many else cell for name, many, cell in pairs}


class HeldMatch(State):
    """A complete match that waits until its interval ends.

    `due` is that time, `end` the ordinal of its last row, `rows` its rows (of all its lengths with `all matches`).
    """

    __slots__ = ("due", "end", "rows", "since")

    def __init__(self, since: int, due: int) -> None:
        self.since = since
        self.due = due
        self.end = 0
        self.rows: list[MatchRows] = []


class RowPartition(State):
    """The rows of one value of `partition by`: those just before, open matches by beginning, and held matches.

    `log` has the latest rows, starting with ordinal `opened`; runs refer to it. A log is replaced when it holds `room`
    rows. The room grows with the length of the matches, so that few rows are kept that no match needs.
    """

    __slots__ = ("before", "held", "log", "open", "opened", "room")

    def __init__(self) -> None:
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
        return begin, since, position, _closed(rows, variables[position], self.log, tail, len(self.log)), mark, -1

    @property
    def idle(self) -> bool:
        """True if nothing is kept."""
        return not (self.open or self.held or self.before)


class MatchView(DownstreamView):
    """Finds the matches in the rows that enter, and emits an event for each; emitted events are never taken back.

    `state` is the statement's state, `pack` makes items of events. `size` counts the open matches, `dues` has the due
    times of held ones, `places` the partitions of rows that may leave.
    """

    __slots__ = ("dues", "form", "pack", "partitions", "places", "serial", "size", "state")

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

    def take(self, change: ViewDelta, now: int) -> ViewDelta | None:
        matches: list[MatchRows] = []
        for item in change[1]:
            self._leave(item[0], now, matches)
        for item in change[0]:
            self._enter(item, now, matches)
        return self._posted(matches, now)

    def _posted(self, matches: list[MatchRows], now: int) -> ViewDelta | None:
        self._look()
        if not matches:
            return None
        form, state, listeners = self.form, self.state, self.form.namespace.get("matched")
        entered: list[Item] = []
        for rows in matches:
            for listener in listeners or ():
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

    def _enter(self, item: Item, now: int, matches: list[MatchRows]) -> None:
        form, row = self.form, item[-1]
        try:
            if form.admits is not None and not form.admits(row, self.state, now):
                return
            key = None if form.key is None else form.key(row, self.state, now)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            form.failed(failure)
            return
        partition = self.partitions.get(key)
        if partition is None:
            partition = self.partitions[key] = RowPartition()
        if form.leaves:
            self.places[item[0]] = key
        before, were = partition.before, len(partition.open)
        self.serial += 1
        try:
            if form.runs:
                partition.note(item[0], row, form.variables)
            complete, partition.open = self._step(partition.open, partition.log, before, item[0], row, now)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            form.failed(failure)
            complete, partition.open = [], []
        if form.back:
            before.append(row)
            del before[: -form.back]
        if form.due is not None:
            self._hold(partition, key, complete, item[0], now)
            self._release(partition, now, matches)
        elif complete:
            self._skip(partition, complete, matches)
        self.size += len(partition.open) - were
        if partition.idle:
            del self.partitions[key]
        elif not partition.open:
            partition.log = []

    def _step(
        self, open_: list[OpenMatch], log: list[Any], before: list[Any], ordinal: int, row: Any, now: int
    ) -> tuple[list[CompleteRowMatch], list[OpenMatch]]:
        """Return the matches that a row completes (earliest beginning, first choice first) and the open ones."""
        form, state = self.form, self.state
        ways, every, bounded, alike, variables = form.ways, form.all_matches, form.bounded, form.alike, form.variables
        known: dict[int, bool] = {}  # results of conditions that read no other rows
        moves: dict[int, list[Transition]] = {}  # transitions from positions where all matches are alike
        seen: set[Any] = set()  # equivalence classes of one beginning, or of all if bounded
        complete: list[CompleteRowMatch] = []
        going: list[OpenMatch] = []
        present = done = -1  # the present beginning, and the last one with a complete match
        at, limit = len(log) - 1, form.most - self.size + len(open_)
        fresh: OpenMatch = (ordinal, now, -1, (None,) * len(form.names), 0, -1)
        for match in (*open_, fresh):
            begin, since, position, rows, mark, tail = match
            closed: MatchRows | None = rows if tail < 0 else None
            if begin != present:
                present = begin
                if not bounded:
                    seen.clear()
            fitting = moves.get(position)
            if fitting is None:
                fitting = []
                for move, variable, condition, alone in ways[position]:
                    if condition is None:
                        fits = True
                    elif not alone:
                        if closed is None:
                            closed = _closed(rows, variables[position], log, tail, at)
                        fits = condition(row, before, closed, state, now)
                    elif variable in known:
                        fits = known[variable]
                    else:
                        fits = known[variable] = condition(row, before, rows, state, now)
                    if fits:
                        fitting.append(move)
                if alike[position]:
                    moves[position] = fitting
            for target, variable, many, ends, goes, ahead in fitting:
                after = 0
                future: Any = target
                stays = target == position and tail >= 0
                if closed is None and (ahead or not stays):
                    closed = _closed(rows, variables[position], log, tail, at)
                if every:
                    after = hash((mark, variable))
                    future = target, after
                elif ahead:
                    assert closed is not None
                    future = (target, *_read(closed, ahead))
                if future in seen:
                    continue
                seen.add(future)
                if stays:
                    longer = match if after == mark else (begin, since, position, rows, after, tail)
                else:
                    assert closed is not None
                    own = closed if many else (*closed[:variable], row, *closed[variable + 1 :])
                    longer = begin, since, target, own, after, at if many else -1
                if ends:
                    if (-1, after) not in seen if every else begin != done:
                        seen.add((-1, after))
                        own = longer[3]
                        complete.append((begin, since, _closed(own, variable, log, longer[5], at + 1) if many else own))
                        done = begin
                    if not goes:
                        continue
                if len(going) >= limit:
                    form.too_many(form.most)
                going.append(longer)
        return complete, going

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
        partition = self.partitions.get(key)
        if partition is None:
            return
        if partition.open and partition.open[0][0] <= ordinal:
            remaining = [each for each in partition.open if each[0] > ordinal]
            self.size += len(remaining) - len(partition.open)
            self.serial += 1
            partition.open = remaining
        for begin in [begin for begin, held_match in partition.held.items() if begin <= ordinal <= held_match.end]:
            del partition.held[begin]
        if partition.held:
            were = len(partition.open)
            self._release(partition, now, matches)
            self.size += len(partition.open) - were
        if partition.idle:
            del self.partitions[key]

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
                held_match = partition.held[begin] = HeldMatch(since, due)
                if due > now:
                    heappush(self.dues, (held_match.due, begin, key))
            held_match.end = ordinal
            held_match.rows = [*held_match.rows, rows] if form.all_matches else [rows]

    def _release(self, partition: RowPartition, now: int, matches: list[MatchRows]) -> None:
        if not partition.held:
            return
        going = {each[0] for each in partition.open} if self.form.or_terminated else None
        for begin in sorted(partition.held):
            held_match = partition.held.get(begin)
            if held_match is None:
                continue
            if (held_match.due <= now or (going is not None and begin not in going)) and not self._blocked(
                partition, begin
            ):
                self._tell(partition, begin, matches)

    def _blocked(self, partition: RowPartition, begin: int) -> bool:
        """Return True if an earlier match may still take the rows, and only the earliest is reported."""
        return self.form.earliest and bool(partition.open) and partition.open[0][0] < begin

    def _tell(self, partition: RowPartition, begin: int, matches: list[MatchRows]) -> None:
        held_match = partition.held.pop(begin)
        matches += held_match.rows
        if self.form.earliest:
            for other in [other for other in partition.held if begin < other <= held_match.end]:
                del partition.held[other]
            partition.open = [match for match in partition.open if not begin < match[0] <= held_match.end]

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
            were = len(partition.open)
            self.serial += 1
            self._tell(partition, begin, matches)
            self.size += len(partition.open) - were
            if partition.idle:
                del self.partitions[key]
        return self._posted(matches, now)

    def over(self, items: Iterable[Item], now: int) -> list[Item]:
        """Return the matches within `items` alone, for the iterator. The state does not change."""
        form, state = self.form, self.state
        alone, matches = MatchView(form, state, self.pack), list[MatchRows]()
        for item in items:
            alone._enter(item, now, matches)
        held_matches = [(begin, partition) for partition in alone.partitions.values() for begin in partition.held]
        for begin, partition in sorted(held_matches, key=lambda entry: entry[0]):
            if begin in partition.held:
                alone._tell(partition, begin, matches)
        number = state[3]
        rows_shown = [self.pack(state, form.measures(rows, state, now), now, False) for rows in matches]
        state[3] = number
        return rows_shown

    def inspect(self, most: int) -> dict[str, Any]:
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
                following = dict.fromkeys(way.variable for way in form.ways[position])
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


def _closed(rows: MatchRows, variable: int, log: list[Any], start: int, stop: int) -> MatchRows:
    """Return `rows` with the log from `start` up to but excluding `stop` appended to the run of `variable`."""
    run, first, count = rows[variable], log[start], stop - start
    earlier: RowRun | None = run
    if run is not None:
        first, count = run[5], run[4] + count
        if run[1] is log and run[3] == start:
            earlier, start = run[0], run[2]
    return (*rows[:variable], (earlier, log, start, stop, count, first), *rows[variable + 1 :])


def _read(rows: MatchRows, ahead: Sequence[int]) -> tuple[Any, ...]:
    cells = (rows[number] for number in ahead)
    return tuple((id(cell[0]), id(cell[1]), cell[2], cell[3]) if type(cell) is tuple else id(cell) for cell in cells)
