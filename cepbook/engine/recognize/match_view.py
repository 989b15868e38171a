"""The view of match_recognize: rows enter, matches come out.

::

    pattern (A B+)            a1  b1  b2  a2  b3
    matches                       a1b1        a2b3

An *open match* is a tuple (ordinal and time of its first row, position in the automaton, rows by variable, mark, tail):
the rows of a partition up to now, from the first one on, are in it. So a row that leaves takes all open matches of its
partition with it that began no later, and no index of rows is needed. Each row tries what may follow each open match,
and begins a match of its own. Cost of a row: what may follow the open matches of its partition.

A variable of several rows is a *run* of them: the latest rows of a partition stand in a log, and a run says from where
to where. While a match stays at one position nothing is written down: the rows of its variable go on from index `tail`
of the log to its end. So staying costs the same whatever a match has already, and makes no object.

Two open matches of one beginning that are at the same position, and of which later conditions read the same rows, have
the same future: only the first choice is kept. Where only the earliest match is told of (skip past last row, nothing
leaves) this is so for different beginnings, too, and their number is bounded by that of the positions. With
``all matches`` they count as the same if they divide the same rows alike.

Where there is an interval, complete matches are *held* until they are due.
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

MatchRows = tuple[Any, ...]  # by variable: the row, or a run of several (`fold.Run`); None without any
OpenMatch = tuple[
    int, int, int, MatchRows, int, int
]  # ordinal and time of the first row, position, rows, mark, tail or -1
CompleteRowMatch = tuple[int, int, MatchRows]  # ordinal and time of the first row, rows
_LEAST, _MOST = 8, 256  # rows of a log


class Transition(NamedTuple):
    """To the position `target`, whose rows are those of `variable`, `many` or one.

    There a match may end (`ends`), and may go on (`goes`); `ahead` are the variables whose rows conditions of anything
    behind it read.
    """

    target: int
    variable: int
    many: bool
    ends: bool
    goes: bool
    ahead: tuple[int, ...]


class GuardedTransition(NamedTuple):
    """From one position to the next: the `move`, for a row of `variable` that meets the `condition`.

    It takes (row, rows before it, rows matched so far, state, time), None: any row; it reads rows matched so far, or
    stands `alone`.
    """

    move: Transition
    variable: int
    condition: Callable[..., bool] | None
    alone: bool


@dataclass(frozen=True, slots=True)
class RecognizeProgram:
    """What the states of one statement have in common: the automaton, generated functions and facts.

    `ways` are what may follow each position, the last one stands for the beginning; `alike` says whether that is the
    same for all matches there: no condition reads their rows. `runs`: some variable is `many`. `variables` are those
    of positions. `earliest`: of matches that share rows only the one that
    begins first is told of; `bounded`: open matches of different beginnings with the same future are one. `back` is
    how many rows before the tested one are read. `admits` is the where-clause, `key` tells the partition, `due` the end
    of the interval, `too_many` raises an error. `leaves`: rows may leave before they are of no use. `waiting` describes
    variables for people. `namespace` has the ports of the running statement.
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
        """Report a failure of the user's expressions."""
        self.namespace["failed"](failure)

    @property
    def most(self) -> int:
        """How many matches may be open in one state."""
        limit: int = self.namespace["recognize_limit"]
        return limit

    def named(self, rows: MatchRows) -> dict[str, Any]:
        """The rows of a match, by variable; lists for those that may have several."""
        pairs = zip(self.names, self.many, rows, strict=True)
        return {name: run_rows(cell) if many else cell for name, many, cell in pairs}


class HeldMatch(State):
    """A complete match that waits for its interval to end: when, ordinal of its last row, its rows (of all its lengths
    with ``all matches``).
    """

    __slots__ = ("due", "end", "rows", "since")

    def __init__(self, since: int, due: int) -> None:
        self.since = since
        self.due = due
        self.end = 0
        self.rows: list[MatchRows] = []


class RowPartition(State):
    """The rows of one value of ``partition by``: those just before, open matches by beginning, held ones.

    `log` are the latest rows, the first one of ordinal `opened`; runs refer to it. It makes place for another when it
    holds `room` rows: more, the longer matches are, so that few rows are kept that none needs.
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
        """A row for runs to refer to; `variables` are those of positions."""
        if not self.open or len(self.log) >= self.room:
            longer = bool(self.open) and self.open[0][0] <= self.opened
            self.room = min(self.room * 2, _MOST) if longer else _LEAST
            self.open = [self.closed(each, variables) for each in self.open]
            self.log, self.opened = [], ordinal
        self.log.append(row)

    def closed(self, match: OpenMatch, variables: Sequence[int]) -> OpenMatch:
        """`match` with its tail in its rows."""
        begin, since, position, rows, mark, tail = match
        if tail < 0:
            return match
        return begin, since, position, _closed(rows, variables[position], self.log, tail, len(self.log)), mark, -1

    @property
    def idle(self) -> bool:
        return not (self.open or self.held or self.before)


class MatchView(DownstreamView):
    """The matches in the rows that enter; it posts an event for each, and takes none back.

    `state` is the statement's, `pack` makes items of events. `size` counts the open matches, `dues` are those of held
    ones, `places` tells the partitions of rows that may leave.
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

    # -------------------------------------------------------------- rows
    def take(self, change: ViewDelta, now: int) -> ViewDelta | None:
        found: list[MatchRows] = []
        for item in change[1]:
            self._leave(item[0], now, found)
        for item in change[0]:
            self._enter(item, now, found)
        return self._posted(found, now)

    def _posted(self, found: list[MatchRows], now: int) -> ViewDelta | None:
        """The events of matches that are told of."""
        self._look()
        if not found:
            return None
        form, state, listeners = self.form, self.state, self.form.namespace.get("matched")
        entered: list[Item] = []
        for rows in found:
            for listener in listeners or ():
                listener(form.named(rows))
            try:
                entered.append(self.pack(state, form.measures(rows, state, now), now, True))
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                form.failed(failure)
        return (entered, []) if entered else None

    def _look(self) -> None:
        """When something is due: what was told of or given up meanwhile is not."""
        dues, partitions = self.dues, self.partitions
        while dues:
            due, begin, key = dues[0]
            partition = partitions.get(key)
            if partition is not None and begin in partition.held and partition.held[begin].due == due:
                break
            heappop(dues)
        self.due = dues[0][0] if dues else NEVER

    def _enter(self, item: Item, now: int, found: list[MatchRows]) -> None:
        """A row; matches that are to be told of now are added to `found`."""
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
            self._release(partition, now, found)
        elif complete:
            self._skip(partition, complete, found)
        self.size += len(partition.open) - were
        if partition.idle:
            del self.partitions[key]
        elif not partition.open:
            partition.log = []

    def _step(
        self, open_: list[OpenMatch], log: list[Any], before: list[Any], ordinal: int, row: Any, now: int
    ) -> tuple[list[CompleteRowMatch], list[OpenMatch]]:
        """What a row completes, earliest beginning and first choice first, and what is open then."""
        form, state = self.form, self.state
        ways, every, bounded, alike, variables = form.ways, form.all_matches, form.bounded, form.alike, form.variables
        known: dict[int, bool] = {}  # of conditions that read no other rows
        moves: dict[int, list[Transition]] = {}  # of positions where all matches are alike
        seen: set[Any] = set()  # of one beginning; where beginnings are bounded, of all
        complete: list[CompleteRowMatch] = []
        going: list[OpenMatch] = []
        present = done = -1  # the beginning in hand, and the last one with a complete match
        at, limit = len(log) - 1, form.most - self.size + len(open_)
        fresh: OpenMatch = (ordinal, now, -1, (None,) * len(form.names), 0, -1)
        for match in (*open_, fresh):
            begin, since, position, rows, mark, tail = match
            closed: MatchRows | None = rows if tail < 0 else None
            if begin != present:
                present = begin
                if not bounded:
                    seen.clear()
            found = moves.get(position)
            if found is None:
                found = []
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
                        found.append(move)
                if alike[position]:
                    moves[position] = found
            for target, variable, many, ends, goes, ahead in found:
                after = 0
                same: Any = target
                stays = target == position and tail >= 0
                if closed is None and (ahead or not stays):
                    closed = _closed(rows, variables[position], log, tail, at)
                if every:
                    after = hash((mark, variable))
                    same = target, after
                elif ahead:
                    assert closed is not None
                    same = (target, *_read(closed, ahead))
                if same in seen:
                    continue
                seen.add(same)
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

    def _skip(self, partition: RowPartition, complete: list[CompleteRowMatch], found: list[MatchRows]) -> None:
        """Tell of complete matches, and give up what the skip-clause skips."""
        skip = self.form.skip
        if skip == "past last row":
            partition.open = []
            if not self.form.all_matches:
                del complete[1:]
        elif skip == "to next row":
            begins = {begin for begin, _, _ in complete}
            partition.open = [each for each in partition.open if each[0] not in begins]
        found += [rows for _, _, rows in complete]

    def _leave(self, ordinal: int, now: int, found: list[MatchRows]) -> None:
        """A row left the window: no match that it is in can be told of."""
        if ordinal not in self.places:
            return
        key = self.places.pop(ordinal)
        partition = self.partitions.get(key)
        if partition is None:
            return
        if partition.open and partition.open[0][0] <= ordinal:
            kept = [each for each in partition.open if each[0] > ordinal]
            self.size += len(kept) - len(partition.open)
            self.serial += 1
            partition.open = kept
        for begin in [begin for begin, held in partition.held.items() if begin <= ordinal <= held.end]:
            del partition.held[begin]
        if partition.held:
            were = len(partition.open)
            self._release(partition, now, found)
            self.size += len(partition.open) - were
        if partition.idle:
            del self.partitions[key]

    # -------------------------------------------------------------- intervals
    def _hold(
        self, partition: RowPartition, key: Any, complete: list[CompleteRowMatch], ordinal: int, now: int
    ) -> None:
        """Complete matches wait for their interval to end; a longer one takes the place of that before it."""
        form = self.form
        assert form.due is not None
        for begin, since, rows in complete:
            held = partition.held.get(begin)
            if held is None:
                try:
                    due = form.due(since, self.state, now)
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    form.failed(failure)
                    continue
                held = partition.held[begin] = HeldMatch(since, due)
                if due > now:
                    heappush(self.dues, (held.due, begin, key))
            held.end = ordinal
            held.rows = [*held.rows, rows] if form.all_matches else [rows]

    def _release(self, partition: RowPartition, now: int, found: list[MatchRows]) -> None:
        """Tell of held matches that are due, or that no row can make longer."""
        if not partition.held:
            return
        going = {each[0] for each in partition.open} if self.form.or_terminated else None
        for begin in sorted(partition.held):
            held = partition.held.get(begin)
            if held is None:
                continue
            if (held.due <= now or (going is not None and begin not in going)) and not self._blocked(partition, begin):
                self._tell(partition, begin, found)

    def _blocked(self, partition: RowPartition, begin: int) -> bool:
        """Whether a match that began earlier may still take the rows: the earliest one counts."""
        return self.form.earliest and bool(partition.open) and partition.open[0][0] < begin

    def _tell(self, partition: RowPartition, begin: int, found: list[MatchRows]) -> None:
        """Tell of what is held of a beginning; what it grows to from now on is told of at once."""
        held = partition.held.pop(begin)
        found += held.rows
        if self.form.earliest:
            for other in [other for other in partition.held if begin < other <= held.end]:
                del partition.held[other]
            partition.open = [each for each in partition.open if not begin < each[0] <= held.end]

    def advance(self, now: int) -> ViewDelta | None:
        """Held matches that are due come together, in the order of their beginnings, whatever partition they are of."""
        ready: list[tuple[int, Any]] = []
        while self.dues and self.dues[0][0] <= now:
            _, begin, key = heappop(self.dues)
            ready.append((begin, key))
        found: list[MatchRows] = []
        for begin, key in sorted(ready, key=lambda each: each[0]):
            partition = self.partitions.get(key)
            if partition is None or begin not in partition.held or self._blocked(partition, begin):
                continue
            were = len(partition.open)
            self.serial += 1
            self._tell(partition, begin, found)
            self.size += len(partition.open) - were
            if partition.idle:
                del self.partitions[key]
        return self._posted(found, now)

    # -------------------------------------------------------------- reading
    def over(self, items: Iterable[Item], now: int) -> list[Item]:
        """The matches in `items` alone, from their beginning: what the iterator shows. Nothing is changed."""
        form, state = self.form, self.state
        alone, found = MatchView(form, state, self.pack), list[MatchRows]()
        for item in items:
            alone._enter(item, now, found)
        held = [(begin, partition) for partition in alone.partitions.values() for begin in partition.held]
        for begin, partition in sorted(held, key=lambda each: each[0]):
            if begin in partition.held:
                alone._tell(partition, begin, found)
        number = state[3]
        shown = [self.pack(state, form.measures(rows, state, now), now, False) for rows in found]
        state[3] = number
        return shown

    def inspect(self, most: int) -> dict[str, Any]:
        """How many matches are open, and plain data about the first `most` of them."""
        return {"total": self.size, "rows": self.partials(most)}

    def partials(self, most: int) -> list[dict[str, Any]]:
        """Plain data about the first `most` open matches: what they wait for, since when, with which rows."""
        form, found = self.form, list[dict[str, Any]]()
        for partition in self.partitions.values():
            for each in partition.open:
                if len(found) >= most:
                    return found
                begin, since, position, rows, _, _ = partition.closed(each, form.variables)
                following = dict.fromkeys(way.variable for way in form.ways[position])
                held = partition.held.get(begin)
                found.append(
                    {
                        "waiting_for": " | ".join(form.waiting[variable] for variable in following),
                        "since": since,
                        "until": None if held is None else held.due,
                        "events": {name: row for name, row in form.named(rows).items() if row is not None},
                    }
                )
        return found

    def discard(self, item: Item) -> None:
        """What leaves here is no row of the windows before it."""

    def contents(self) -> Iterable[Item]:
        return ()

    def retained(self) -> int:
        return 0


class RecognizeView(ViewChain):
    """Windows, and the matches in what enters them; the iterator looks for matches in what they hold."""

    __slots__ = ()

    then: MatchView

    def take(self, change: ViewDelta, now: int) -> ViewDelta | None:
        """What changed in the named window that is read."""
        found = self.then.take(change, now)
        self._look()
        return found

    def over(self, items: Iterable[Item], now: int) -> list[Item]:
        """The matches in `items`, which are those that are held."""
        return self.then.over(items, now)

    def held(self) -> Iterable[Item]:
        """What the windows hold."""
        return self.first.contents()

    def reevaluate(self, now: int) -> None:
        self.first.reevaluate(now)
        self._look()


def recognize_view(first: WindowView, form: RecognizeProgram, state: Any, pack: PackItem) -> RecognizeView:
    """The view of a statement with match_recognize over the windows `first`."""
    return RecognizeView(first, MatchView(form, state, pack))


def _closed(rows: MatchRows, variable: int, log: list[Any], start: int, stop: int) -> MatchRows:
    """`rows`, and those in the `log` from `start` to before `stop` as more of `variable`."""
    run, first, count = rows[variable], log[start], stop - start
    earlier: RowRun | None = run
    if run is not None:
        first, count = run[5], run[4] + count
        if run[1] is log and run[3] == start:
            earlier, start = run[0], run[2]
    return (*rows[:variable], (earlier, log, start, stop, count, first), *rows[variable + 1 :])


def _read(rows: MatchRows, ahead: Sequence[int]) -> tuple[Any, ...]:
    """What tells the rows apart that conditions read later."""
    cells = (rows[each] for each in ahead)
    return tuple((id(c[0]), id(c[1]), c[2], c[3]) if type(c) is tuple else id(c) for c in cells)
