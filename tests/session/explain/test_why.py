"""Why a row was delivered, and why none was: every answer is held to what the statement is known to do."""

from __future__ import annotations

import random

import pytest

from cepbook import Workbench
from cepbook.errors import EventError, UsageError
from cepbook.session.explain.explanations import RowExplanation, StatementOutcome
from cepbook.session.explain.why_not import known_events

TYPES = """create schema Tick(symbol string, price double);
create variable double threshold = 5.0;
create context Per partition by symbol from Tick;
"""
PRICES = (("A", 8), ("A", 9), ("B", 4), ("A", 12), ("B", 33), ("A", 12), ("B", 7))


def bench(epl: str, ticks: tuple[tuple[str, float], ...] = PRICES, *, second: int = 1000) -> Workbench:
    cep = Workbench()
    cep.run(TYPES + epl)
    for symbol, price in ticks:
        cep.send("Tick", symbol=symbol, price=float(price))
        cep.advance(by="1 sec")
    return cep


def stages(course: StatementOutcome) -> list[tuple[str, bool | None, str]]:
    return [(stage.name, stage.passed, stage.text) for stage in course.stages]


def only(cep: Workbench, name: str, event: object, **options: object) -> StatementOutcome:
    judged = cep.why(name, event, **options)  # type: ignore[call-overload]
    (course,) = judged.courses
    return course


# ---------------------------------------------------------------- rows
@pytest.mark.parametrize("context", ["", "context Per "])
@pytest.mark.parametrize(
    "window",
    [
        "",
        "#length(3)",
        "#time(4 sec)",
        "#length_batch(3)",
        "#time_batch(3 sec)",
        "#keepall",
        "#groupwin(symbol)#length(2)",
    ],
)
def test_the_events_of_a_group_make_its_sum(window: str, context: str) -> None:
    draw = random.Random(len(window) + len(context))
    ticks = tuple((draw.choice("AB"), draw.randrange(20)) for _ in range(12))
    where = "where price != 3"
    epl = f"@name('q') {context}select irstream symbol, sum(price) as s from Tick{window} {where} group by symbol;"
    cep = bench(epl, ticks)
    changes = cep.changes("q")
    assert len(changes)
    for index, (kind, symbol, total) in enumerate(zip(changes["kind"], changes["symbol"], changes["s"], strict=True)):
        fired = cep.why("q", row=index)
        assert (fired.basis, fired.insert, fired.group) == ("run again", kind == "insert", {"symbol": symbol})
        assert fired.provenance is not None
        if kind == "remove" and not window:
            continue  # the former sum of a stream: its events are those before the last
        sums = sum(piece.event["price"] for piece in fired.provenance)
        expected = 0.0 if total is None or total != total else total
        assert sums == expected, (index, fired)
        assert all(piece.event["symbol"] == symbol for piece in fired.provenance)


def test_a_row_of_a_pattern_has_its_path_its_partition_and_what_is_waited_for() -> None:
    cep = bench(
        """@name('q') context Per select a, b
            from pattern [every a=Tick -> b=Tick(price > a.price + threshold)];"""
    )
    fired = cep.why("q")
    assert fired.provenance is not None
    assert [(p.tag, p.time, p.event["price"]) for p in fired.provenance] == [("a", 2_000, 4.0), ("b", 4_000, 33.0)]
    assert fired.partition == {"id": 1, "symbol": "B"}
    assert fired.stimulus is not None and fired.stimulus.event == {"symbol": "B", "price": 33.0}
    assert fired.waiting == ("a=Tick", "b=Tick(price > (a.price + threshold))")


def test_a_row_of_match_recognize_has_its_path() -> None:
    cep = bench("""@name('q') select * from Tick match_recognize (measures A.price as low, last(B.price) as high
        pattern (A B+ C) define B as B.price > A.price, C as C.price < A.price);""")
    fired = cep.why("q", row=0)
    assert fired.provenance is not None
    assert [(p.tag, p.event["price"]) for p in fired.provenance] == [("A", 8.0), ("B", 9.0), ("C", 4.0)]


def test_a_row_of_a_join_has_one_event_of_each_stream() -> None:
    cep = bench("@name('q') select * from Tick#length(3) as x, Tick#length(4) as y where x.price < y.price;")
    fired = cep.why("q")
    assert fired.provenance is not None
    assert [(p.tag, p.event) for p in fired.provenance] == [("x", fired.row["x"]), ("y", fired.row["y"])]
    assert [(w.name, w.total) for w in fired.windows] == [("x", 3), ("y", 4)]


def test_the_clock_sets_a_row_off() -> None:
    cep = bench("@name('q') select irstream * from Tick#time(2 sec);")
    fired = cep.why("q", row=-1)
    assert not fired.insert and fired.stimulus is None
    assert fired.cause == "the clock, which came to 00:00:07.000"
    assert fired.provenance is not None and fired.provenance[0].event == fired.row


def test_a_row_until_a_time() -> None:
    cep = bench("@name('q') select symbol, price from Tick;")
    assert cep.why("q", at=3_500).row == {"symbol": "A", "price": 12.0}
    assert cep.why("q", row=0).row == {"symbol": "A", "price": 8.0}
    with pytest.raises(UsageError, match="`q` has 7 rows; there is no row 7"):
        cep.why("q", row=7)
    with pytest.raises(UsageError, match="`q` has delivered nothing until then"):
        bench("@name('q') select * from Tick(price > 99);").why("q", at=100)


def test_where_the_past_is_not_known_a_snapshot_of_the_replay_tells() -> None:
    cep = Workbench()
    cep.run("create schema T(at long, v int); @name('q') select sum(v) as s from T#length(3);")
    events = [{"at": i * 10, "v": i} for i in range(6_000)]
    replay = cep.replay(events, type="T", time="at", keep=1_000)
    replay.run()
    fired = cep.why("q", at=30_000)
    assert (fired.basis, fired.row, fired.notes) == ("run again", {"s": 2_999 + 2_998 + 3_000}, ())
    assert [e["v"] for e in fired.windows[0].events] == [2_998, 2_999, 3_000]
    assert fired.stimulus is not None and fired.stimulus.event == {"at": 30_000, "v": 3_000}
    late = cep.why("q")
    assert [e["v"] for e in late.windows[0].events] == [5_997, 5_998, 5_999]


def test_a_row_that_older_events_made_is_explained_by_what_the_snapshot_holds() -> None:
    cep = Workbench()
    cep.run("create schema T(at long, v int); @name('q') select sum(v) as s from T#keepall;")
    cep.replay([{"at": i * 10, "v": i} for i in range(6_000)], type="T", time="at", keep=500).run()
    fired = cep.why("q", at=50_000)
    assert (fired.basis, fired.row) == ("snapshot", {"s": sum(range(5_001))})
    assert fired.windows[0].total == 5_001


def test_where_nothing_tells_it_is_said_that_this_is_the_present() -> None:
    cep = Workbench()
    cep.run("create schema T(at long, v int); @name('q') select sum(v) as s from T#length(3);")
    cep.replay([{"at": i * 10, "v": i} for i in range(6_000)], type="T", time="at").run()
    fired = cep.why("q", at=30_000)
    assert (fired.basis, fired.provenance, fired.cause) == ("now", None, "not known")
    assert fired.notes[0] == (
        "not all events are known any more, so that the row cannot be made again: the workbench knows at most the "
        "latest 2,000 events of each type, and the snapshots of a replay with `keep=True`"
    )
    assert [e["v"] for e in fired.windows[0].events] == [5_997, 5_998, 5_999]


def test_python_functions_are_called_on_request_only() -> None:
    cep = Workbench()
    called: list[float] = []

    @cep.function
    def doubled(price: float) -> float:
        called.append(price)
        return 2 * price

    cep.run(TYPES + "@name('q') select sum(price) as s from Tick(doubled(price) > 5)#length(2);")
    cep.send("Tick", symbol="A", price=4.0)
    cep.send("Tick", symbol="A", price=1.0)
    before = len(called)
    fired, course = cep.why("q"), only(cep, "q", -1)
    assert len(called) == before
    assert (fired.basis, course.outcome) == ("now", "not known")
    assert "it calls the Python function `doubled`: not run again unless asked (calls=True)" in fired.notes
    assert stages(course)[0] == ("filter", None, "doubled(price) > 5")
    assert only(cep, "q", -1, calls=True).outcome == "fell out"
    assert cep.why("q", calls=True).basis == "run again"
    assert len(called) > before


# ---------------------------------------------------------------- events
def test_a_filter_tells_which_condition_was_false_and_what_it_compared() -> None:
    cep = bench("@name('q') select * from Tick(price > threshold and symbol != 'Z');")
    course = only(cep, "q", 3)
    assert course.outcome == "fell out"
    assert course.fell_at is not None
    assert (course.fell_at.text, course.fell_at.values) == ("price > threshold", (("price", 4.0), ("threshold", 5.0)))
    supposed = only(cep, "q", {"symbol": "Z", "price": 6})
    assert stages(supposed) == [("filter", True, "price > threshold"), ("filter", False, "symbol != 'Z'")]


def test_the_variable_has_the_value_that_it_had_then() -> None:
    cep = bench("@name('q') select * from Tick(price > threshold);")
    cep.set("threshold", 100.0)
    assert only(cep, "q", 1).outcome == "delivered"
    assert only(cep, "q", {"symbol": "A", "price": 8}).outcome == "fell out"


def test_a_where_clause_over_a_window() -> None:
    course = only(bench("@name('q') select * from Tick#length(2) where price > threshold;"), "q", 3)
    assert course.outcome == "kept"
    assert stages(course) == [("window", True, "#length(2)"), ("where", False, "price > threshold")]


def test_a_window_that_refuses_and_one_that_collects() -> None:
    cep = bench("@name('q') select * from Tick#firstlength(2); @name('b') select * from Tick#length_batch(3);")
    refused, collected = only(cep, "q", -1), only(cep, "b", -1)
    assert (refused.outcome, refused.stages[-1].note) == ("fell out", "the window does not take it: 2 retained")
    assert (collected.outcome, collected.stages[-1].note) == ("kept", "it waits in the batch: 1 collected")
    assert only(cep, "b", 6).outcome == "delivered"


def test_having_with_its_aggregates() -> None:
    epl = """@name('q') select symbol, avg(price) as p from Tick#length(3)
        group by symbol having avg(price) > 10 and count(*) > 1;"""
    course = only(bench(epl), "q", 2)
    assert stages(course)[1:] == [("having", False, "avg(price) > 10")]
    assert course.stages[-1].values == (("avg(price)", 8.5),)
    assert only(bench(epl), "q", 6).outcome == "delivered"


def test_an_output_clause_holds_back() -> None:
    cep = bench("@name('q') select * from Tick output every 10 sec;")
    course = only(cep, "q", 1)
    assert (course.outcome, course.stages[-1].name) == ("kept", "output")
    assert course.stages[-1].note == "1 row held back, next due at 00:00:10.000"


def test_contexts_without_a_partition() -> None:
    cep = bench(
        """create schema Go(id string);
        create context Open start Go end after 1 sec;
        create context Sorted group by price < 5 as low, group by price > 20 as high from Tick;
        @name('q') context Open select * from Tick;"""
    )
    course = only(cep, "q", 1)
    assert (course.outcome, course.stages[0].note) == ("fell out", "no partition is open: one starts with `Go`")
    cep.run("@name('c') context Sorted select * from Tick;", cell="c")
    lost = only(cep, "c", {"symbol": "A", "price": 10})
    assert lost.stages[0].note == "it is of no category (low: `price < 5`, high: `price > 20`)"
    taken = only(cep, "c", {"symbol": "A", "price": 1})
    assert (taken.outcome, taken.stages[0].values) == ("delivered", (("label", "low"),))


def test_a_pattern_that_waits_for_something_else() -> None:
    cep = bench(
        """@name('q') context Per select *
            from pattern [every (a=Tick(price > 10) -> b=Tick(price < a.price))];"""
    )
    first = only(cep, "q", 1)
    assert (first.outcome, first.stages[-1].values) == ("fell out", (("price", 8.0),))
    assert first.stages[-1].note == "`a=Tick(price > 10)` was waited for"
    fourth = only(cep, "q", 4)
    assert fourth.outcome == "kept"
    assert fourth.stages[-1].note.endswith("waits for b=Tick(price < a.price)")
    sixth = only(cep, "q", 6)
    assert sixth.fell_at is not None
    assert sixth.fell_at.values == (("price", 12.0), ("a.price", 12.0))


def test_a_join_tells_which_condition_no_partner_meets() -> None:
    cep = bench(
        """@name('q') select * from Tick(symbol = 'A')#length(2) as x, Tick(symbol = 'B')#length(2) as y
            where y.price > x.price + 90;"""
    )
    course = only(cep, "q", -1)
    assert course.fell_at is not None
    assert course.fell_at.note == "true of 0 of 2 events of `x`"
    assert [name for name, _ in course.fell_at.values] == ["y.price", "x.price"]
    assert course.fell_at.values[1][1] == [12.0], "each value of the two events once"


def test_a_join_tells_which_condition_the_last_partner_does_not_meet() -> None:
    cep = bench(
        """@name('q') select * from Tick(symbol = 'A')#keepall as x, Tick(symbol = 'B')#lastevent as y
            where x.price = y.price and x.price > y.price + 1;""",
        (("A", 1), ("A", 2), ("A", 1), ("B", 1)),
    )
    course = only(cep, "q", -1)
    assert [(s.text, s.passed, s.note) for s in course.stages if s.name == "join"] == [
        ("x.price = y.price", True, "true of 2 of 3 events of `x`"),
        ("x.price > y.price + 1", False, "true of 0 of 2 events of `x` that were left of 3"),
    ]
    assert course.fell_at is not None and course.fell_at.values == (("y.price", 1.0), ("x.price", [1.0]))


RISES = """@name('q') select * from Tick match_recognize (partition by symbol
    measures A.price as low, last(B.price) as high pattern (A B+ C)
    define A as A.price > 10, B as B.price > A.price, C as C.price < A.price)"""


@pytest.mark.parametrize(
    ("prices", "outcome", "stage", "text", "note"),
    [
        ((("A", 5),), "fell out", "define", "A.price > 10", "no match begins: it is no `A`"),
        ((("A", 20),), "kept", "match", "match_recognize", "waits for B where price > A.price"),
        (
            (("A", 20), ("B", 99), ("A", 8)),
            "fell out", "define", "B.price > A.price",
            "an open match, A, was waiting for `B`; nor does it meet `A.price > 10`",
        ),
        ((("A", 12), ("A", 15), ("B", 99), ("A", 12)), "kept", "match", "match_recognize", "waits for"),
    ],
)  # fmt: skip
def test_a_row_that_is_in_no_match_meets_no_condition(
    prices: tuple[tuple[str, float], ...], outcome: str, stage: str, text: str, note: str
) -> None:
    course = only(bench(RISES, prices), "q", -1)
    assert course.fell_at is not None
    assert (course.outcome, course.fell_at.name, course.fell_at.text) == (outcome, stage, text)
    assert course.fell_at.note.startswith(note)


def test_all_statements_that_read_the_event() -> None:
    cep = bench(
        """@name('q') select * from Tick(price > 99); @name('r') select * from Tick;
            on Tick(price > 50) set threshold = 1;"""
    )
    judged = cep.why(None, "Tick")
    assert [(c.statement, c.outcome) for c in judged.courses] == [
        ("q", "fell out"),
        ("r", "delivered"),
        ("stmt_4", "fell out"),
    ]
    assert judged.to_dict()["event"]["event"] == {"symbol": "B", "price": 7.0}


def test_many_statements_are_judged_by_their_filters_and_thirty_run_again() -> None:
    cep = bench(";".join(f"@name('s{i}') select * from Tick(price > {i})" for i in range(60)), (("A", 50),))
    courses = cep.why(None, -1).courses
    assert [c.outcome for c in courses] == ["delivered"] * 30 + ["not known"] * 20 + ["fell out"] * 10
    note = "not run again: at most 30 statements are, fewer of much; ask for this one by its name"
    assert courses[40].notes == (note,)
    assert courses[59].fell_at is not None and courses[59].fell_at.values == (("price", 50.0),)


def test_what_runs_again_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cepbook.session.explain.why_not.HAPPENING", 7)
    cep = bench(";".join(f"@name('s{i}') select * from Tick" for i in range(5)), (("A", 50), ("B", 60), ("A", 70)))
    courses = cep.why(None, -1).courses
    assert [c.outcome for c in courses] == ["delivered"] * 2 + ["not known"] * 3


def test_nothing_changes() -> None:
    cep = bench("""@name('q') context Per select * from pattern [every a=Tick -> b=Tick(price > a.price)];
        @name('r') select sum(price) as s from Tick#length(3) having sum(price) > 20;""")
    before = cep._snapshot(feeds=True)
    cep.why("q"), cep.why("r"), cep.why(None, -1), cep.why("r", {"symbol": "A", "price": 1})
    assert cep._snapshot(feeds=True) == before
    assert cep.past().events == len(PRICES)


def test_what_cannot_be_asked() -> None:
    cep = bench("@name('q') select * from Tick;")
    with pytest.raises(UsageError, match="no statement `qq`"):
        cep.why("qq")
    with pytest.raises(UsageError, match="why of which statement, or of which event"):
        cep.why()  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="events are counted from 1"):
        cep.why("q", 0)
    with pytest.raises(UsageError, match="there is no event number 8: 7 came"):
        cep.why("q", 8)
    with pytest.raises(UsageError, match="needs its type"):
        cep.why(None, {"symbol": "A"})
    with pytest.raises(EventError):
        cep.why("q", {"symbl": "A"})
    assert isinstance(cep.why("q"), RowExplanation)


def test_a_type_selects_the_events_that_a_number_counts() -> None:
    cep = Workbench()
    cep.run(
        "create schema A(n int); create schema B(n int); @name('q') select a.n from A#length(9) as a, B#length(9) as b"
    )
    for n in range(3):
        cep.send("A", n=n)
        cep.send("B", n=10 + n)
    for name in ("q", None):
        assert cep.why(name, 2).event.event == {"n": 10}
        assert cep.why(name, 2, type="A").event.event == {"n": 1}
        assert cep.why(name, -1, type="A").event.event == {"n": 2}
        assert cep.why(name, "B", type="B").event.event == {"n": 12}
        with pytest.raises(UsageError, match="there is no event number 4 of type `A`: 3 came"):
            cep.why(name, 4, type="A")
        with pytest.raises(UsageError, match="of type `A` or of type `B`, not both"):
            cep.why(name, "A", type="B")
    with pytest.raises(UsageError, match="`type` is the type of an event"):
        cep.why("q", row=0, type="A")  # type: ignore[call-overload]


def test_numbers_of_events_do_not_depend_on_at_and_on_what_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven events come at 0 to 6 seconds."""
    cep = bench("@name('q') select * from Tick;")
    assert cep.why("q", 2, at=3000).event.time == cep.why("q", 2).event.time == 1000
    assert cep.why("q", -1, at=3000).event.time == 3000
    with pytest.raises(UsageError, match="event number 5 until then: 4 came"):
        cep.why("q", 5, at=3000)
    monkeypatch.setattr("cepbook.session.explanation_mixin.known_events", lambda *args: known_events(*args)[4:])
    assert cep.why("q", 6, at=5000).event.time == cep.why("q", 6).event.time == 5000
    for number in (4, 8, -4):
        with pytest.raises(UsageError, match=f"there is no event number {number}: only the latest 3 are known$"):
            cep.why("q", number)
    with pytest.raises(UsageError, match="number 2 until then: only the latest 3 are known, 0 of them until then"):
        cep.why("q", 2, at=1000)


def test_variables_of_other_cells_stand_in_no_ones_way() -> None:
    cep = Workbench()
    cep.run("create schema Tick(symbol string, price double)")
    cep.run("create context Own partition by symbol from Tick; @name('q') context Own select price from Tick")
    cep.run("create variable int fastest = 900; @name('r') select * from Tick(price > fastest)")
    cep.send("Tick", symbol="A", price=9.0)
    assert only(cep, "q", -1).outcome == "delivered"
    assert cep.why("q").row["price"] == 9.0


# ---------------------------------------------------------------- in a terminal
def test_an_answer_is_printed_as_a_page() -> None:
    cep = bench("@name('q') select symbol, sum(price) as s from Tick(price > threshold)#length(2) group by symbol")
    assert str(cep.why("q")).splitlines() == [
        "why q delivered + at 00:00:06.000",
        "  row         symbol=B  s=7.0",
        "  because of  Tick  symbol=B  price=7.0",
        "  group       symbol=B",
        "provenance: 1 event",
        "        time          symbol  price",
        "  Tick  00:00:06.000  B         7.0",
        "Tick: 2 events retained then",
        "  symbol  price",
        "  A        12.0",
        "  B         7.0",
    ]
    assert str(cep.why("q", {"symbol": "A", "price": 1.0})).splitlines() == [
        "what would become of Tick at 00:00:07.000",
        "  event  symbol=A  price=1.0",
        "q: fell out",
        "  stage       condition          values                        note",
        "  filter  no  price > threshold  price = 1.0, threshold = 5.0",
    ]


def test_times_of_a_column_are_told_alike() -> None:
    """Also of a property that is called as the column of arrivals is."""
    cep = Workbench()
    cep.run("create schema P(time long, who string) starttimestamp time; @name('o') select who from P#length(2)")
    for time in (1357019100000, 1357019100500):
        cep.advance(time)
        cep.send("P", time=time, who="a")
    lines = str(cep.why("o")).splitlines()
    assert lines[-2:] == ["  2013-01-01 05:45:00.000  a", "  2013-01-01 05:45:00.500  a"]
    assert "  P  2013-01-01 05:45:00.500  2013-01-01 05:45:00.500  a" in lines
