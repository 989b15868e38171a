"""Marble diagrams as data: which event was in the window from when to when, and what is known of it."""

from __future__ import annotations

import random

import pandas as pd
import pytest

from cepbook.errors import StatementError, UsageError
from cepbook.lang.registry.windows import EXAMPLE_SCHEMA, WINDOWS
from cepbook.session import Marble, Workbench
from cepbook.session.history import event_log

SCHEMA = "create schema Tick(symbol string, price double);"


def workbench(epl: str, start: int = 0) -> Workbench:
    cep = Workbench(start=start)
    cep.run(SCHEMA + epl)
    return cep


def send(cep: Workbench, *events: tuple[int, str, float]) -> None:
    for time, symbol, price in events:
        if time > cep.clock.ms:
            cep.advance(time)
        cep.send("Tick", symbol=symbol, price=price)


def stays(marble: Marble, by: str = "price") -> list[tuple[object, int, int | None, int | None]]:
    return [(bar.event[by], bar.arrived, bar.entered, bar.left) for bar in marble.bars]


def rows(marble: Marble) -> list[tuple[int, object, object]]:
    return [(d.time, d.insert, d.remove) for d in marble.deliveries]


def prices(cep: Workbench, name: str) -> list[object]:
    return [row["price"] for row in cep.runtime.iterate(name)]


# ---------------------------------------------------------------- windows
def test_a_time_window_holds_events_until_their_time_is_over() -> None:
    cep = workbench("@name('s') select irstream sum(price) as total from Tick#time(4 sec)")
    send(cep, (4000, "W", 500), (5000, "W", 100), (6500, "W", 200))
    cep.advance(8000)
    marble = cep.marble("s")
    assert stays(marble) == [(500, 4000, 4000, 8000), (100, 5000, 5000, None), (200, 6500, 6500, None)]
    assert [(time, insert[0]["total"]) for time, insert, _ in rows(marble)] == [  # type: ignore[index]
        (4000, 500.0), (5000, 600.0), (6500, 800.0), (8000, 300.0),
    ]  # fmt: skip
    assert (marble.start, marble.end, marble.notes) == (4000, 8000, ())


def test_a_length_batch_collects_then_holds_its_batch_until_the_next() -> None:
    cep = workbench("@name('s') select irstream * from Tick#length_batch(2)")
    send(cep, (0, "A", 1), (10, "A", 2), (20, "A", 3), (20, "A", 4), (30, "A", 5))
    marble = cep.marble("s")
    assert stays(marble) == [(1, 0, 10, 20), (2, 10, 10, 20), (3, 20, 20, None), (4, 20, 20, None), (5, 30, None, None)]
    assert [bar.collected for bar in marble.bars] == [True, False, False, False, True]


def test_a_time_batch_holds_its_batch_for_one_period() -> None:
    cep = workbench("@name('s') select * from Tick#time_batch(1 sec)")
    send(cep, (100, "A", 1), (100, "A", 2), (600, "A", 3))
    for time in (1100, 2100, 2200):
        cep.advance(time)
    send(cep, (2500, "A", 4))
    assert stays(cep.marble("s")) == [(1, 100, 1100, 2100), (2, 100, 1100, 2100), (3, 600, 1100, 2100),
                                      (4, 2500, None, None)]  # fmt: skip


def test_equal_events_of_one_millisecond_are_told_apart() -> None:
    cep = workbench("@name('s') select * from Tick#length(2)")
    send(cep, *[(7, "A", 1.0)] * 4)
    assert [(bar.number, bar.left) for bar in cep.marble("s").bars] == [(0, 7), (1, 7), (2, None), (3, None)]


def test_where_group_by_having_and_output_do_not_change_what_the_window_holds() -> None:
    cep = workbench(
        "@name('plain') select * from Tick#length(2);"
        "@name('s') select symbol, count(*) as n from Tick#length(2) where price > 1"
        " group by symbol having count(*) > 1"
    )
    send(cep, (0, "A", 1), (1, "B", 2), (2, "B", 3), (3, "A", 4))
    assert stays(cep.marble("s")) == stays(cep.marble("plain"))
    assert rows(cep.marble("s")) == [(2, [{"symbol": "B", "n": 2}], None)]


def test_an_unbound_statement_has_arrivals_and_rows_but_no_bars() -> None:
    cep = workbench("@name('s') select symbol from Tick(price > 1)")
    send(cep, (0, "A", 1), (5, "B", 2))
    marble = cep.marble("s")
    assert not marble.windowed and marble.bars == ()
    assert [(a.number, a.time, a.event) for a in marble.arrivals] == [(0, 5, {"symbol": "B", "price": 2.0})]
    assert rows(marble) == [(5, [{"symbol": "B"}], None)]


def _supported() -> list[str]:
    return [name for name, row in WINDOWS.items() if not row.derived and name != "merge"]


@pytest.mark.histories
@pytest.mark.parametrize("name", _supported())
def test_what_is_drawn_last_is_what_the_statement_holds(name: str) -> None:
    """For every window: after each step the bars that have not left are the rows that the statement shows."""
    random.seed(7)
    cep = Workbench()
    cep.run(f"{EXAMPLE_SCHEMA}; @name('s') {WINDOWS[name].example}")
    for _ in range(60):
        if random.random() < 0.4:
            cep.advance(cep.clock.ms + random.choice((0, 1, 400, 3_000, 11_000)))
        else:
            tick = {"symbol": random.choice("ABC"), "price": float(random.randrange(9)), "volume": random.randrange(5)}
            cep.send("Tick", **tick, ts=max(0, cep.clock.ms + random.randrange(-2_000, 2_000)))
        marble = cep.marble("s", events=200)
        now = [bar.event for bar in marble.bars if bar.left is None]
        collecting = [bar.event for bar in marble.bars if bar.left is None and bar.entered is None]
        rows = sorted(cep.runtime.iterate("s"), key=repr)
        assert marble.notes == ()
        assert rows in (sorted(now, key=repr), sorted(collecting, key=repr))
        assert all(bar.arrived <= (bar.entered or bar.arrived) <= (bar.left or marble.end) for bar in marble.bars)


@pytest.mark.parametrize("name", [name for name, row in WINDOWS.items() if row.derived])
def test_before_a_derived_value_window_the_events_are_drawn(name: str) -> None:
    cep = Workbench()
    cep.run(f"{EXAMPLE_SCHEMA}; @name('s') {WINDOWS[name].example}")
    for i in range(7):
        cep.send("Tick", symbol="A", price=i, volume=2 * i)
    marble = cep.marble("s")
    assert [(bar.event["price"], bar.left is None) for bar in marble.bars] == [(float(i), i > 1) for i in range(7)]


# ---------------------------------------------------------------- groups, partitions, derived streams
def test_groups_and_partitions_are_named() -> None:
    cep = workbench(
        "create context PerSymbol partition by symbol from Tick;"
        "@name('g') select * from Tick#groupwin(symbol)#length(1);"
        "@name('c') context PerSymbol select * from Tick#length(1)"
    )
    send(cep, (0, "A", 1), (1, "B", 2), (2, "A", 3))
    for name in ("g", "c"):
        marble = cep.marble(name)
        assert marble.grouped_by == ("symbol",)
        assert [bar.group for bar in marble.bars] == [("A",), ("B",), ("A",)]
        assert stays(marble) == [(1, 0, 0, 2), (2, 1, 1, None), (3, 2, 2, None)]


def test_of_a_derived_stream_the_derived_events_arrive() -> None:
    cep = workbench(
        "insert into Big select symbol, price * 2 as twice from Tick(price > 1)#length_batch(2);"
        "@name('s') select * from Big#length(1)"
    )
    send(cep, (0, "A", 1), (1, "B", 2), (2, "A", 3))
    marble = cep.marble("s")
    assert stays(marble, "twice") == [(4, 2, 2, 2), (6, 2, 2, None)]
    assert marble.properties == ("symbol", "twice")


def test_one_event_inserted_twice_stays_twice() -> None:
    cep = workbench(
        "insert into Both select * from Tick; insert into Both select * from Tick;"
        "@name('s') select * from Both#length(3)"
    )
    send(cep, (0, "A", 1), (5, "A", 2))
    assert stays(cep.marble("s")) == [(1, 0, 0, 5), (1, 0, 0, None), (2, 5, 5, None), (2, 5, 5, None)]


# ---------------------------------------------------------------- what happened, and when
def test_the_last_events_are_drawn_with_those_still_in_the_window() -> None:
    cep = workbench("@name('s') select * from Tick#length(4)")
    send(cep, *[(10 * i, "A", float(i)) for i in range(10)])
    marble = cep.marble("s", events=2)
    assert [a.event["price"] for a in marble.arrivals] == [8.0, 9.0]
    assert stays(marble) == [(6, 60, 60, None), (7, 70, 70, None), (8, 80, 80, None), (9, 90, 90, None)][:4]
    assert marble.notes == ("2 older events in the window not drawn",)
    assert [d.time for d in marble.deliveries] == [80, 90]


def test_a_replay_is_drawn_as_the_same_events_sent() -> None:
    epl = "@name('s') select irstream symbol, sum(price) as total from Tick#time(50 msec) group by symbol"
    events = [(i * 13 % 7 + i * 10, "AB"[i % 2], float(i)) for i in range(40)]
    sent, replayed = workbench(epl), workbench(epl)
    send(sent, *events)
    frame = pd.DataFrame(events, columns=["at", "symbol", "price"])
    replayed.replay(frame, type="Tick", time="at", leap=True).run()
    assert replayed.marble("s") == sent.marble("s")
    assert replayed.marble("s").notes == ()


def test_several_replayed_types_keep_their_order_and_each_moves_the_clock() -> None:
    cep = workbench(
        "create schema Other(n int); insert into Tick select 'O' as symbol, 0.5 as price from Other;"
        "@name('s') select irstream price from Tick#time(10 msec)"
    )
    ticks = pd.DataFrame({"symbol": ["A", "A", "A"], "price": [1.0, 2.0, 3.0], "at": [0, 5, 30]})
    others = pd.DataFrame({"n": [1, 2], "at": [5, 17]})
    cep.replay({"Other": others, "Tick": ticks}, time="at", until=60).run()
    marble = cep.marble("s")
    assert stays(marble) == [(1, 0, 0, 10), (0.5, 5, 5, 15), (2, 5, 5, 15), (0.5, 17, 17, 27), (3, 30, 30, 40)]
    assert marble.notes == ()


def test_the_clock_may_step_and_statements_may_come_late() -> None:
    cep = workbench("@name('early') select irstream * from Tick#time(1 sec)")
    send(cep, (0, "A", 1), (300, "A", 2))
    cep.run("@name('late') select irstream * from Tick#time(1 sec)")
    send(cep, (400, "A", 3))
    cep.advance(5000, stepping=True)
    assert stays(cep.marble("early")) == [(1, 0, 0, 1000), (2, 300, 300, 1300), (3, 400, 400, 1400)]
    assert stays(cep.marble("late")) == [(3, 400, 400, 1400)]
    assert cep.marble("early").notes == cep.marble("late").notes == ()


def test_variables_have_the_values_that_they_had() -> None:
    cep = workbench(
        "create variable int low = 0; create schema Cap(n int); on Cap set low = n;"
        "@name('s') select price from Tick(price > low)#length(2)"
    )
    send(cep, (0, "A", 1))
    cep.set("low", 2)
    send(cep, (1, "A", 2), (2, "A", 3))
    cep.send("Cap", n=5)
    send(cep, (3, "A", 4), (4, "A", 6))
    marble = cep.marble("s")
    assert stays(marble) == [(1, 0, 0, 4), (3, 2, 2, None), (6, 4, 4, None)]
    assert marble.notes == ()


def test_after_a_rewind_variables_keep_what_they_were_given() -> None:
    cep = workbench("create variable int low = 0; @name('s') select price from Tick(price > low)#length(2)")
    cep.set("low", 2)
    send(cep, (5, "A", 1))
    cep.rewind()
    send(cep, (1, "A", 2), (2, "A", 3))
    marble = cep.marble("s")
    assert stays(marble) == [(3, 2, 2, None)]
    assert marble.notes == ()


# ---------------------------------------------------------------- what is not known
def test_what_is_not_known_any_more_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "KEPT", 5)
    cep = workbench("@name('s') select count(*) as n from Tick#keepall", start=1_704_096_000_000)
    send(cep, *[(1_704_096_000_000 + 1000 * i, "A", float(i)) for i in range(8)])
    marble = cep.marble("s")
    assert [bar.event["price"] for bar in marble.bars] == [3.0, 4.0, 5.0, 6.0, 7.0]
    assert marble.notes == (
        "running it again over the known arrivals gives other rows: the rows are those of the statement",
        "what came before 2024-01-01 08:00:03 is not known, and left out of the window: " + event_log.HORIZON,
    )
    assert [delivery.insert for delivery in marble.deliveries] == [[{"n": n}] for n in range(4, 9)]


def test_what_had_left_the_window_before_need_not_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "KEPT", 50)
    cep = workbench(
        "@name('few') select * from Tick#length(3); @name('many') select * from Tick#length(45);"
        "@name('all') select * from Tick#keepall; @name('none') select * from Tick;"
        "@name('batch') select * from Tick#length_batch(7); @name('counted') select count(*) as n from Tick"
    )
    send(cep, *[(i, "A", float(i)) for i in range(110)])
    lost = ("what came before 60 ms is not known, and left out of the window: " + event_log.HORIZON,)
    notes = {name: cep.marble(name, events=10).notes for name in cep.runtime.statements}
    assert notes["few"] == notes["none"] == ()
    assert notes["many"][-1:] == notes["all"][-1:] == notes["batch"][-1:] == notes["counted"][-1:] == lost
    assert all(any("gives other rows" in note for note in notes[name]) for name in ("batch", "counted"))


def test_of_a_replay_as_many_events_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "KEPT", 5)
    cep = workbench("@name('s') select * from Tick#length(2)")
    frame = pd.DataFrame({"symbol": "A", "price": [float(i) for i in range(900)], "at": range(900)})
    cep.replay(frame, type="Tick", time="at").run()
    marble = cep.marble("s")
    assert [a.event["price"] for a in marble.arrivals] == [895.0, 896.0, 897.0, 898.0, 899.0]
    assert marble.notes == ("what came before 895 ms is not known, and left out of the window: " + event_log.HORIZON,)
    assert stays(cep.marble("s", events=3)) == [
        (895, 895, 895, 897), (896, 896, 896, 898), (897, 897, 897, 899), (898, 898, 898, None), (899, 899, 899, None),
    ]  # fmt: skip


def test_events_that_passed_the_workbench_by_are_noticed() -> None:
    cep = workbench("@name('s') select price from Tick#length(2)")
    send(cep, (0, "A", 1))
    cep.runtime.send("Tick", {"symbol": "A", "price": 2.0})
    send(cep, (5, "A", 3))
    marble = cep.marble("s")
    assert rows(marble) == [(0, [{"price": 1.0}], None), (0, [{"price": 2.0}], None), (5, [{"price": 3.0}], None)]
    assert marble.notes == (
        "running it again over the known arrivals gives other rows: the rows are those of the statement",
    )


def test_drawing_leaves_the_statement_alone_and_repeats() -> None:
    cep = workbench("@name('s') select irstream * from Tick#time(1 sec)")
    send(cep, (0, "A", 1), (10, "B", 2))
    first = cep.marble("s")
    assert cep.marble("s") == first
    assert cep.feed("s").deliveries == 2 and prices(cep, "s") == [1.0, 2.0]
    span = "00:00:00.000 to 00:00:00.010"
    assert repr(first) == f"marble diagram of s: 2 arrivals, 2 bars, 2 insert rows, 0 remove rows, {span}"


def test_reset_forgets() -> None:
    cep = workbench("@name('s') select * from Tick#length(1)")
    send(cep, (0, "A", 1))
    cep.reset()
    cep.run(SCHEMA + "@name('s') select * from Tick#length(1)")
    marble = cep.marble("s")
    assert marble.arrivals == marble.bars == marble.deliveries == ()


# ---------------------------------------------------------------- labels, frames, mistakes
def test_a_label_is_the_first_text_and_number_or_what_is_chosen() -> None:
    cep = workbench("@name('s') select * from Tick#length(1)")
    assert cep.marble("s").label == ("symbol", "price")
    assert cep.marble("s", label="price").label == ("price",)
    assert cep.marble("s", label=["price", "symbol"]).label == ("price", "symbol")


def test_the_stays_as_a_frame() -> None:
    cep = workbench("@name('s') select * from Tick#length(1)")
    send(cep, (0, "A", 1), (10, "B", 2))
    frame = cep.marble("s").to_frame()
    assert list(frame.columns) == ["number", "arrived", "entered", "left", "symbol", "price"]
    assert frame["left"].tolist() == [pd.Timestamp(10, unit="ms"), pd.NaT] and frame["symbol"].tolist() == ["A", "B"]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("t", {}, "there is no statement `t`; did you mean `s`?"),
        ("s", {"events": 0}, "a marble diagram shows 1 to 200 events, not 0"),
        ("s", {"events": 201}, "a marble diagram shows 1 to 200 events, not 201"),
        ("s", {"label": "prize"}, "event type `Tick` has no property `prize`"),
        ("limit", {}, "`limit` is a statement of kind `create variable`: marble diagrams show select statements"),
        ("p", {}, "`p` reads the matches of a pattern: marble diagrams show statements that read a stream of events"),
    ],
)
def test_mistakes(name: str, options: dict[str, object], message: str) -> None:
    cep = workbench(
        "@name('limit') create variable int low = 0; @name('s') select * from Tick#length(1);"
        "@name('p') select * from pattern [every a=Tick]#length(1)"
    )
    with pytest.raises(UsageError) as error:
        cep.marble(name, **options)  # type: ignore[arg-type]
    assert str(error.value).startswith(message.split(";")[0])


def test_a_failing_statement_is_drawn_all_the_same() -> None:
    def broken(value: float) -> float:
        if value == 2:
            raise ValueError("no twos")
        return value

    cep = Workbench()
    cep.register_function("broken", broken)
    cep.run(SCHEMA + "@name('s') select broken(price) as b from Tick#length(2)")
    send(cep, (0, "A", 1))
    with pytest.raises(StatementError):
        send(cep, (1, "A", 2))
    send(cep, (2, "A", 3))
    marble = cep.marble("s")
    assert [a.event["price"] for a in marble.arrivals] == [1.0, 2.0, 3.0]
    assert [d.insert for d in marble.deliveries] == [[{"b": 1.0}], [{"b": 3.0}]]


def test_an_event_in_several_partitions_has_a_bar_in_each() -> None:
    cep = Workbench()
    cep.run(
        "create schema Open(id int); create schema Tick(price int);"
        "create context PerOpen initiated by Open as o terminated after 5 sec;"
        "@name('s') context PerOpen select price from Tick#length(2)"
    )

    def tick(time: int, price: int) -> None:
        cep.advance(time)
        cep.send("Tick", price=price)

    cep.send("Open", id=1)
    tick(0, 1)
    cep.send("Open", id=2)
    for time, price in ((1000, 2), (2000, 3), (3000, 4)):
        tick(time, price)
    bars = [(bar.event["price"], *bar.group, bar.number, bar.entered, bar.left) for bar in cep.marble("s").bars]
    assert bars == [
        (1, 0, 0, 0, 2000),
        (2, 0, 1, 1000, 3000),
        (2, 1, 2, 1000, 3000),
        (3, 0, 3, 2000, None),
        (3, 1, 4, 2000, None),
        (4, 0, 5, 3000, None),
        (4, 1, 6, 3000, None),
    ]


def test_a_bar_ends_with_the_window_of_its_partition() -> None:
    cep = Workbench()
    cep.run(
        "create schema Open(id int); create schema Tick(price int);"
        "create context PerOpen initiated by Open as o terminated after 5 sec;"
        "@name('s') context PerOpen select price from Tick#keepall"
    )
    cep.send("Open", id=1)
    cep.send("Tick", price=1)
    cep.advance(3000)
    cep.send("Open", id=2)
    cep.send("Tick", price=2)
    cep.advance(6000)
    cep.send("Tick", price=3)
    assert [(bar.event["price"], *bar.group, bar.left) for bar in cep.marble("s").bars] == [
        (1, 0, 6000),
        (2, 0, 6000),
        (2, 1, None),
        (3, 1, None),
    ]


def test_a_bar_ends_when_the_event_itself_ends_its_partition() -> None:
    cep = Workbench()
    cep.run(
        "create schema Tick(price int); create context Span start Tick(price = 1) end Tick(price = 2);"
        "@Priority(1) @name('s') context Span select price from Tick#keepall"
    )
    for price in (1, 2, 1):
        cep.send("Tick", price=price)
    cep.advance(1000)
    assert prices(cep, "s") == [1]
    assert [(bar.event["price"], bar.left) for bar in cep.marble("s").bars] == [(1, 0), (2, 0), (1, None)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("of_window", "2 arrivals, 2 insert rows, 1 remove row"),
        ("looks", "2 arrivals, 2 insert rows, 0 remove rows"),
        ("fills", "2 arrivals, 2 insert rows, 0 remove rows"),
        ("W3", "0 arrivals, 0 bars, 0 insert rows, 0 remove rows"),
        ("of_context", "2 arrivals, 2 insert rows, 0 remove rows"),
    ],
)
def test_statements_that_read_or_fill_stores(name: str, said: str) -> None:
    cep = Workbench()
    cep.run("""create schema A(k string, v int); create schema D(k string);
        create window W#keepall as A; insert into W select * from A; on D as d delete from W where W.k = d.k;
        @name('of_window') select irstream k, v from W; @name('looks') select (select count(*) from W) as n from A;
        create table T(s sum(int)); @name('fills') into table T select sum(v) as s from A;
        create context P partition by k from A; context P create window V#keepall as A;
        context P insert into V select * from A; @name('of_context') context P select k, v from V""")
    for time, k in ((1000, "x"), (2000, "y")):
        cep.advance(time)
        cep.send("A", k=k, v=time)
    cep.send("D", k="x")
    cep.run("create window W2#keepall as W insert; create window W3#keepall as W2 insert")
    assert said in repr(cep.marble(name))
    fired = cep.why(name) if name != "W3" else None
    assert fired is None or fired.basis == "run again"
