"""Random joins against nested loops: rows of the insert and the remove stream, step by step.

What enters and leaves each window is taken from a statement over that window alone; the reference lets each event of
whole contents find the others along the ties, and keeps the combinations with an event that entered or left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from cepbook.engine.delivery.delta import Delta
from cepbook.engine.relations.relation import CompositeIndex
from cepbook.engine.runtime import Runtime
from cepbook.errors import CompileError
from tests.engine.histories import Event
from tests.engine.relations.test_modules import same_whichever_way
from tests.random_cases import seeds

SCHEMA = "".join(f"create schema {name}(k string, x int, i int);" for name in "ABC")
WINDOWS = (
    "keepall length(2) length(3) lastevent unique(k) time(1) time(2) length_batch(2) time_batch(1) firstlength(3)"
    " sort(2,x) time_order(i,100000)"
).split()
Row = tuple[dict[str, Any] | None, ...]
Partners = dict[int, dict[str, Any]]


def _equal(left: Any, right: Any) -> bool:
    return left is not None and left == right


@dataclass(frozen=True)
class Tie:
    """``on s.p = t.p`` between two streams."""

    left: int
    right: int
    name: str

    @property
    def text(self) -> str:
        return f"s{self.left}.{self.name} = s{self.right}.{self.name}"

    def holds(self, row: Row | Partners, *, nulls: bool) -> bool:
        one, two = row[self.left], row[self.right]
        if one is None or two is None:
            return False
        return one[self.name] == two[self.name] if nulls else _equal(one[self.name], two[self.name])


@dataclass(frozen=True)
class Condition:
    """Another condition of an on-clause between two streams; null makes it false."""

    left: int
    right: int
    text: str
    test: Callable[[Any, Any], bool]

    def holds(self, row: Row | Partners, *, nulls: bool) -> bool:
        one, two = row[self.left], row[self.right]
        return one is not None and two is not None and self.test(one, two)


@dataclass(frozen=True)
class NullableCondition(Condition):
    """A condition that decides about a missing event, too."""

    def holds(self, row: Row | Partners, *, nulls: bool) -> bool:
        return self.test(row[self.left] or {"x": None}, row[self.right] or {"x": None})


def _comparison(draw: Random, one: int, two: int) -> Condition:
    a, b = f"s{one}", f"s{two}"
    if draw.random() < 0.2:
        text = f"({a}.x is null or {b}.x is null or {a}.x < {b}.x)"
        return NullableCondition(one, two, text, lambda e, f: None in (e["x"], f["x"]) or e["x"] < f["x"])
    text, test = draw.choice(
        [
            (f"{a}.x < {b}.x", lambda e, f: None not in (e["x"], f["x"]) and e["x"] < f["x"]),
            (f"{b}.x > 0 and {a}.i is not null", lambda e, f: f["x"] is not None and f["x"] > 0),
            (f"{a}.k = 'a' and {a}.i != {b}.i", lambda e, f: e["k"] == "a" and e["i"] != f["i"]),
            (f"{a}.x + 1 = {b}.x", lambda e, f: None not in (e["x"], f["x"]) and e["x"] + 1 == f["x"]),
            (f"({a}.k = {b}.k or {a}.x = {b}.x)", lambda e, f: _equal(e["k"], f["k"]) or _equal(e["x"], f["x"])),
        ]
    )
    return Condition(one, two, text, test)


@dataclass(frozen=True)
class Join:
    """A join that was drawn: types, windows, kinds and ties of its streams; conditions of the where-clause."""

    types: tuple[str, ...]
    windows: tuple[str, ...]
    kinds: tuple[str, ...]
    ties: tuple[tuple[Tie | Condition, ...], ...]
    where: tuple[tuple[str, Callable[[Row], bool]], ...]
    unidirectional: int | None

    @property
    def text(self) -> str:
        words = []
        for number, (of, kind, ties) in enumerate(zip(self.types, self.kinds, self.ties, strict=True)):
            stream = (
                f"{of} as s{number} unidirectional"
                if number == self.unidirectional
                else f"{of}#{self.windows[number]} as s{number}"
            )
            if number == 0:
                words.append(stream)
            elif kind == "comma":
                words.append(f", {stream}")
            else:
                outer = "inner" if kind == "inner" else f"{kind} outer"
                on = f" on {' and '.join(tie.text for tie in ties)}" if ties else ""
                words.append(f" {outer} join {stream}{on}")
        where = f" where {' and '.join(text for text, _ in self.where)}" if self.where else ""
        columns = ", ".join(f"s{n}.i as c{n}" for n in range(len(self.types)))
        return f"select irstream {columns} from {''.join(words)}{where}"

    # -------------------------------------------------------------- the reference
    def rows(self, starts: list[list[dict[str, Any]]], contents: list[list[dict[str, Any]]]) -> list[Row]:
        """What each event of `starts` finds in the contents along the ties."""
        rows: dict[tuple[int | None, ...], Row] = {}
        definition = Definition(self, contents)
        for start, events in enumerate(starts):
            for event in events:
                for partners in definition.rows_of(start, event):
                    row = tuple(partners.get(n) for n in range(len(contents)))
                    rows[tuple(None if e is None else e["i"] for e in row)] = row
        needed = self._needed()
        complete = [row for row in rows.values() if all(row[n] is not None for n in needed)]
        return [row for row in complete if all(condition(row) for _, condition in self.where)]

    def beyond(self, stream: int, origin: int | None) -> list[int]:
        """The neighbours of a stream, but the one from which it is reached."""
        later = [n for n in range(1, len(self.kinds)) if self._partner(n) == stream]
        return [n for n in ([self._partner(stream)] if stream else []) + later if n != origin]

    @property
    def is_refused(self) -> bool:
        """Whether two on-clauses wait for each other's streams. Joins of inner and left outer joins always run."""
        runtime = Runtime()
        runtime.deploy(SCHEMA)
        try:
            runtime.compile(self.text)
        except CompileError as refusal:
            assert "there is no order" in str(refusal) and {"right", "full"} & set(self.kinds)
            return True
        return False

    @property
    def wide(self) -> bool:
        """Whether an on-clause reads several streams before its own."""
        return any(len({n for tie in ties for n in (tie.left, tie.right)}) > 2 for ties in self.ties)

    def _partner(self, number: int) -> int:
        """The earlier stream to which a stream is tied: that of its on-clause, else the one before."""
        return next((tie.left for tie in self.ties[number] if isinstance(tie, Tie)), number - 1)

    def _needed(self) -> set[int]:
        if all(kind in ("inner", "comma") for kind in self.kinds):
            return set()
        found: set[int] = set()
        for number, (kind, ties) in enumerate(zip(self.kinds, self.ties, strict=True)):
            if number and kind in ("inner", "comma"):
                found.update({self._partner(number), number} if ties else set(range(number + 1)))
        return found


@dataclass(frozen=True)
class Definition:
    """The rows of a join by definition: on-clauses hold of the events that a row has, and a row lacks only what it may
    lack and could not have.
    """

    join: Join
    contents: list[list[dict[str, Any]]]

    def rows_of(self, start: int, event: dict[str, Any]) -> list[Partners]:
        return [row for row in self._candidates(start, None, {start: event}) if self._complete(start, None, row)]

    def _candidates(self, stream: int, origin: int | None, row: Partners) -> list[Partners]:
        """The row with all events behind a stream that equalities allow, and without them."""
        rows = [row]
        for other in self.join.beyond(stream, origin):
            tied = [e for e in self.contents[other] if self._holds(stream, other, {**row, other: e}, Tie)]
            rows += [r for base in rows for e in tied for r in self._candidates(other, stream, {**base, other: e})]
        return rows

    def _complete(self, stream: int, origin: int | None, row: Partners) -> bool:
        return all(
            self._met(stream, other, row)
            if other in row
            else self._optional(stream, other) and not self._could_meet(stream, other, row)
            for other in self.join.beyond(stream, origin)
        )

    def _met(self, stream: int, other: int, row: Partners) -> bool:
        return self._holds(stream, other, row, object) and self._complete(other, stream, row)

    def _could_meet(self, stream: int, other: int, row: Partners) -> bool:
        starts = [{**row, other: event} for event in self.contents[other]]
        longer = (r for start in starts for r in self._candidates(other, stream, start))
        return any(self._met(stream, other, r) for r in longer)

    def _optional(self, stream: int, other: int) -> bool:
        return self.join.kinds[max(stream, other)] in ("full", "left" if stream < other else "right")

    def _holds(self, stream: int, other: int, row: Partners, kind: type) -> bool:
        number = max(stream, other)
        every = {**dict.fromkeys(range(len(self.contents))), **row}
        nulls = self.join.kinds[number] not in ("inner", "comma")
        return all(tie.holds(every, nulls=nulls) for tie in self.join.ties[number] if isinstance(tie, kind))


def drawn(draw: Random) -> Join:
    count = draw.choice([2, 2, 2, 3, 3, 4])
    types = tuple(draw.choice("ABC") for _ in range(count))
    style = draw.choice(["comma", "inner", "outer", "outer", "mixed", "left", "wide"])
    kinds, ties = ["comma"], [()]
    for number in range(1, count):
        of_style = {"comma": ["comma"], "inner": ["inner"], "left": ["inner", "left", "left"]}
        of_style["outer"] = of_style["wide"] = ["left", "right", "full"]
        kinds.append(draw.choice(of_style.get(style, ["inner", "left", "right", "full"])))
        partner = draw.randrange(number)
        names = draw.sample(["k", "x"], draw.choice([1, 1, 2]))
        tied = kinds[-1] == "inner" or (kinds[-1] != "comma" and draw.random() < 0.9)
        on: list[Tie | Condition] = [Tie(partner, number, name) for name in names]
        if draw.random() < 0.4:
            sides = draw.choice([(partner, number), (number, partner)]) if draw.random() < 0.5 else None
            on = [*on, _comparison(draw, *(sides or (partner, number)))]
        if style in ("left", "wide") and draw.random() < 0.7:  # of any two streams up to this one
            on = [*on, _comparison(draw, *draw.sample(range(number + 1), 2))]
        ties.append(tuple(on) if tied else ())
    where: list[tuple[str, Callable[[Row], bool]]] = []
    for _ in range(draw.choice([0, 1, 2]) if style != "comma" else count):
        one, two = draw.sample(range(count), 2)
        where.append(_condition(draw, one, two))
    marked = draw.choice([None, None, None, draw.randrange(count)])
    windows = tuple(draw.choice(WINDOWS) for _ in range(count))
    return Join(types, windows, tuple(kinds), tuple(ties), tuple(where), marked)


def _condition(draw: Random, one: int, two: int) -> tuple[str, Callable[[Row], bool]]:
    def value(row: Row, at: int, name: str) -> Any:
        event = row[at]
        return None if event is None else event[name]

    kind = draw.choice(["key", "key", "less", "is", "between", "own"])
    if kind == "key":
        return f"s{one}.k = s{two}.k", lambda row: _equal(value(row, one, "k"), value(row, two, "k"))
    if kind == "is":
        return f"s{one}.k is s{two}.k", lambda row: value(row, one, "k") == value(row, two, "k")
    if kind == "own":
        return f"s{one}.x > 0", lambda row: value(row, one, "x") is not None and value(row, one, "x") > 0

    def less(row: Row) -> bool:
        left, right = value(row, one, "x"), value(row, two, "x")
        return left is not None and right is not None and left < right

    if kind == "less":
        return f"s{one}.x < s{two}.x", less

    def between(row: Row) -> bool:
        left, right = value(row, one, "x"), value(row, two, "x")
        return left is not None and right is not None and right <= left <= right + 1

    return f"s{one}.x >= s{two}.x and s{one}.x <= s{two}.x + 1", between


def history(draw: Random, length: int) -> list[tuple[int, str, dict[str, Any]]]:
    """Times, types and events, with ties, nulls and equal keys."""
    found, time = [], 0
    for number in range(length):
        time += draw.choice([0, 0, 1, 500, 1000, 2500])
        event = {"k": draw.choice(["a", "b", None]), "x": draw.choice([None, 0, 1, 2]), "i": number}
        found.append((time, draw.choice("ABC"), event))
    return found


class Windows:
    """The contents of the windows of a join, from statements of their own, and what entered and left last."""

    def __init__(self, join: Join, runtime: Runtime) -> None:
        self.contents: list[list[dict[str, Any]]] = [[] for _ in join.types]
        self.moved: list[tuple[list[Any], list[Any]]] = []
        self.reset()
        for number, of in enumerate(join.types):
            stream = of if number == join.unidirectional else f"{of}#{join.windows[number]}"
            runtime.deploy(f"@name('w{number}') select irstream * from {stream}")
            runtime.statement(f"w{number}").add_listener(self._listener(number))

    def reset(self) -> None:
        self.moved = [([], []) for _ in self.contents]

    def _listener(self, number: int) -> Callable[[Delta], None]:
        def listen(delta: Delta) -> None:
            self.moved[number][0].extend(delta.insert or ())
            self.moved[number][1].extend(delta.remove or ())

        return listen


def expected(join: Join, windows: Windows) -> tuple[Counter[Any], Counter[Any]]:
    """The rows that enter and leave with what moved; the contents are brought up to date."""

    def with_some(moved: int) -> Counter[Any]:
        some = [[e["i"] for e in each[moved]] for each in windows.moved]
        starts = [  # what enters and leaves at once finds those that stay, and is found by nobody
            [*contents, *(e for e in each[moved] if all(e["i"] != c["i"] for c in contents))]
            for contents, each in zip(windows.contents, windows.moved, strict=True)
        ]
        found = Counter[Any]()
        for row in join.rows(starts, windows.contents):
            active = range(len(row)) if join.unidirectional is None else [join.unidirectional]
            if any(row[n] is not None and row[n]["i"] in some[n] for n in active):
                found[tuple(None if e is None else e["i"] for e in row)] += 1
        return found

    left = with_some(1) if join.unidirectional is None else Counter[Any]()
    for number, (contents, (entered, gone)) in enumerate(zip(windows.contents, windows.moved, strict=True)):
        if number != join.unidirectional:
            ids = {e["i"] for e in gone}
            windows.contents[number] = [e for e in [*contents, *entered] if e["i"] not in ids]
    entered = with_some(0)
    windows.reset()
    return entered, left


def _ids(rows: Any, count: int) -> Counter[Any]:
    return Counter(tuple(row[f"c{n}"] for n in range(count)) for row in rows or ())


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(25))
def test_joins_against_nested_loops(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(seed)
    check(drawn(draw), draw, monkeypatch, seed)


def check(join: Join, draw: Random, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Send a random history to the join and compare each delivery with the reference; save and load in between."""
    if seed % 2:
        monkeypatch.setattr(CompositeIndex, "MANY", 1)
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    windows = Windows(join, runtime)
    try:
        runtime.deploy(f"@name('join') {join.text}")
    except CompileError as refusal:
        pytest.fail(f"{join.text}\n{refusal}")
    got: list[Delta] = []
    runtime.statement("join").add_listener(got.append)
    cut = draw.randrange(40)
    for number, (time, of, event) in enumerate(history(draw, 40)):
        for sends in (False, True):
            if sends:
                runtime.send(of, event)
            else:
                runtime.advance(time)
            entered, left = expected(join, windows)
            assert len(got) <= 1, "one delivery for each stimulus"
            delta = got.pop() if got else Delta(0, None, None)
            where = f"{join.text}\nstep {number} at {time}: {of} {event}"
            assert _ids(delta.insert, len(join.types)) == entered, where
            assert _ids(delta.remove, len(join.types)) == left, where
        if number == cut:  # saved, and gone on with from there
            runtime = Runtime.restored(runtime.snapshot(), {})
            runtime.statement("join").add_listener(got.append)
            for place in range(len(join.types)):
                runtime.statement(f"w{place}").add_listener(windows._listener(place))


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(25))
def test_on_clauses_of_several_streams_against_nested_loops(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins as above whose on-clauses read any stream before their own."""
    draw = Random(f"wide {seed}")
    kinds = ("left",) if seed % 3 == 0 else ("right", "full")
    while not (join := drawn(draw)).wide or not any(kind in join.kinds for kind in kinds) or join.is_refused:
        pass
    check(join, draw, monkeypatch, seed)


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(13))
def test_joins_sent_replayed_and_loaded(seed: int) -> None:
    """Joins as above, of two to four streams: the same rows in the same order, whichever way the events come."""
    draw = Random(seed)
    join = drawn(draw)
    epl = f"@name('join') {join.text}".replace("time_order(i,100000)", "length(2)").replace(".i", ".x")
    further = {"A": {"g": 0, "n": 1, "d": 1.5, "f": 0.5}, "C": {"c": 1}}
    drawn_events = history(draw, 40)
    events = [Event(t, of, {"k": e["k"], "x": e["x"], **further.get(of, {})}) for t, of, e in drawn_events]
    same_whichever_way(epl, events, draw)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_several_unidirectional_streams(count: int) -> None:
    """Streams that keep nothing meet nobody: each event makes a row of its own, in a full outer join of all."""
    draw, found, made = Random(count), list[Any](), list[Any]()
    streams = ("A", "B", "C", "A")[:count]
    others = "".join(f" full outer join {of} unidirectional as s{n}" for n, of in enumerate(streams) if n)
    columns = ", ".join(f"s{n}.i as c{n}" for n in range(count))
    runtime = Runtime()
    runtime.deploy(SCHEMA + f"@name('join') select {columns} from A unidirectional as s0{others}")
    runtime.statement("join").add_listener(lambda delta: found.append(_ids(delta.insert, count)))
    for time, of, event in history(draw, 40):
        runtime.advance(time)
        runtime.send(of, event)
        rows = [
            tuple(event["i"] if n == own else None for n in range(count)) for own in range(count) if streams[own] == of
        ]
        if rows:
            made.append(Counter(rows))
    assert found == made


def test_the_reference_knows_outer_joins() -> None:
    tie = (Tie(0, 1, "k"),)
    join = Join(("A", "B"), ("keepall", "keepall"), ("comma", "full"), ((), tie), (), None)
    one, two = {"k": "a", "x": 1, "i": 1}, {"k": "b", "x": 1, "i": 2}
    assert join.rows([[one], [two]], [[one], [two]]) == [(one, None), (None, two)]
    assert len(join.rows([[one], [one]], [[one], [one]])) == 1
