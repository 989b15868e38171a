"""What a user gets wrong, through every entry of the Workbench: a clear error, and nothing has changed.

Each case is ``(what is done, error, parts of the message)``. After each, statements, clock, feeds and window contents
are what they were. Cases that are told in more detail stand beside what they belong to (`test_workbench.py`,
`test_replay.py`, `test_validate.py`, `test_sources.py`); the magics have theirs in `tests/magics`.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.errors import BindError, CepbookError, EventError, ParseError, StatementError, UsageError
from cepbook.widgets import view

MODULE = """create schema Tick(symbol string, price double, qty int);
@name('last3') select symbol, price from Tick#length(3);
@name('recent') select symbol, count(*) as n from Tick#time(10 sec) group by symbol"""


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"symbol": ["a", "b"], "price": [1.0, 2.0], "qty": [1, 2], "ts": [6_000, 7_000]} | columns)


def picture(cep: Workbench) -> tuple[object, ...]:
    """Statements, clock, what feeds hold and what windows hold."""
    names = list(cep.runtime.statements)
    rows = [repr(cep.runtime.iterate(n)) for n in names]
    feeds = [cep.changes(n).to_json(date_format="iso") for n in names]
    return names, list(cep.runtime.catalog.event_types), cep.clock.ms, cep.runtime.next_due, rows, feeds


@pytest.fixture
def cep() -> Workbench:
    cep = Workbench()
    cep.run(MODULE, cell="c1")
    cep.advance(5_000)
    cep.send("Tick", symbol="a", price=1.5, qty=1)
    return cep


def replay(events: object, **options: Any) -> Callable[[Workbench], object]:
    return lambda cep: cep.replay(events, **({"type": "Tick", "time": "ts"} | options)).run()


def broken_source() -> Iterator[dict[str, Any]]:
    raise OSError("the line is dead")
    yield {}


Case = tuple[Callable[[Workbench], object], type[CepbookError], tuple[str, ...]]
CASES: dict[str, Case] = {
    # EPL: what, where with a caret, what to do
    "run: unknown type": (
        lambda cep: cep.run("select * from Tik"),
        BindError,
        ("no event type `Tik`", "epl:1:15", "|               ^^^", "did you mean `Tick`?"),
    ),
    "run: unknown property": (
        lambda cep: cep.run("select symbl from Tick"),
        BindError,
        ("no property `symbl` in `Tick`", "epl:1:8", "^^^^^", "did you mean `symbol`?"),
    ),
    "run: wrong type": (
        lambda cep: cep.run("select * from Tick where price > 'x'"),
        BindError,
        ("`>` cannot compare double with string", "^^^^^^^^^^^"),
    ),
    "run: malformed": (
        lambda cep: cep.run("select symbol form Tick"),
        ParseError,
        ("epl:1:20", "^^^^", "did you mean from"),
    ),
    "run: every statement's errors in one report": (
        lambda cep: cep.run("select a from Tick; select 1 as x from Tick; select * from Nope"),
        BindError,
        ("`a`", "`Nope`"),
    ),
    "run: not supported yet": (
        lambda cep: cep.run("create dataflow Flow Source -> events {}"),
        BindError,
        ("not supported yet", "epl:1:1"),
    ),
    "run: replaces what it needs": (
        lambda cep: cep.run("@name('last3') select * from Tick"),
        BindError,
        ("no event type `Tick`", "replaces the deployment `c1`, which also declares `Tick`", "another name"),
    ),
    "run: names of another cell": (
        lambda cep: cep.run("@name('last3') select * from Tick", cell="c2"),
        UsageError,
        ("`last3`", "`recent`", "other cells"),
    ),
    "run: no text": (lambda cep: cep.run(None), UsageError, ("`epl` is text, not None",)),  # type: ignore[arg-type]
    "run: nested too deeply for Python's parser": (
        lambda cep: cep.run(f"select {'qty-(' * 200}qty{')' * 200} as x from Tick"),
        BindError,
        ("nested too deeply", "insert into"),
    ),
    "run: nested too deeply for the stack": (
        lambda cep: cep.run(f"select {'(' * 3000}qty{')' * 3000} as x from Tick"),
        BindError,
        ("nested too deeply",),
    ),
    "explain: unknown name": (lambda cep: cep.explain("last4"), CepbookError, ("last4",)),
    "explain: unknown stage": (lambda cep: cep.explain("last3", "code"), UsageError, ("code", "coverage")),
    "drop: unknown": (lambda cep: cep.drop("last"), UsageError, ("nothing named `last`", "last3")),
    "to_frame: unknown": (lambda cep: cep.to_frame("last4"), UsageError, ("did you mean `last3`?",)),
    "partitions: unknown": (lambda cep: cep.partitions("C"), UsageError, ("no context `C`",)),
    "query: unknown property": (
        lambda cep: cep.query("select cost from last3"),
        BindError,
        ("no property `cost` in `last3`", "^^^^"),
    ),
    "query: malformed": (lambda cep: cep.query("select * from last3 where"), ParseError, ("ends too early",)),
    "on: no function": (lambda cep: cep.on("last3", 5), UsageError, ("not int",)),  # type: ignore[arg-type]
    # events
    "send: unknown type": (lambda cep: cep.send("Tik", symbol="a"), EventError, ("did you mean `Tick`?",)),
    "send: unknown property": (lambda cep: cep.send("Tick", prize=1.0), EventError, ("`prize`", "`price`?")),
    "send: wrong type": (lambda cep: cep.send("Tick", price="1"), EventError, ("`price`", "double", "'1' (str)")),
    "send: no event": (lambda cep: cep.send("Tick", 5), EventError, ("not 5 (int)",)),
    # time
    "advance: back": (lambda cep: cep.advance(4_999), EventError, ("cannot go back", "5000", "4999")),
    "advance: no time": (lambda cep: cep.advance("tomorrow"), UsageError, ("'tomorrow'", "ISO 8601")),
    "advance: nanoseconds": (lambda cep: cep.advance(1_600_000_000 * 10**9), UsageError, ("nanoseconds?",)),
    # replays
    "replay: unknown type": (replay(frame(), type="Tik"), EventError, ("did you mean `Tick`?",)),
    "replay: lacking a column": (replay(frame().drop(columns="qty")), EventError, ("lacks the column `qty`",)),
    "replay: lacking the time": (replay(frame(), time="at"), EventError, ("no time column `at`",)),
    "replay: NaN for the time": (replay(frame(ts=[6_000, None])), EventError, ("row 1", "missing")),
    "replay: NaT": (replay(frame(ts=[pd.Timestamp(6e9), pd.NaT])), EventError, ("row 1", "missing")),
    "replay: nanoseconds": (replay(frame(ts=[1, 1_600_000_000 * 10**9])), EventError, ("nanoseconds?",)),
    "replay: wrong type": (replay(frame(price=["x", "y"])), EventError, ("`price`", "row 0", "'x' (str)")),
    "replay: int that does not fit": (replay(frame(qty=[1, 2**31])), EventError, ("`qty`", "row 1", "2147483648")),
    "replay: fractions": (replay(frame(qty=[1, 1.5])), EventError, ("`qty`", "row 1", "1.5")),
    "replay: before the clock": (replay(frame(ts=[4_000, 7_000])), EventError, ("4000 ms", "before the clock")),
    "replay: back": (replay(frame(ts=[7_000, 6_000]), sort=False), EventError, ("row 1", "goes back", 'late="drop"')),
    "replay: until in the past": (replay(frame(), until=1), EventError, ("already past",)),
    "replay: no file": (replay("no.csv"), UsageError, ("no file 'no.csv'",)),
    "replay: no source": (replay(5), UsageError, ("cannot come from int",)),
    "replay: broken source": (replay(broken_source()), EventError, ("before row 0", "the line is dead")),
    "replay: no event": (replay([5]), EventError, ("row 0", "not 5 (int)")),
    "replay: event without its time": (replay([{"symbol": "a"}]), EventError, ("row 0", "`ts` is missing")),
    "replay: two columns of one name": (
        replay(frame().set_axis(["symbol", "price", "price", "ts"], axis=1)),
        UsageError,
        ("`price` twice",),
    ),
    "replay: speed": (replay(frame(), speed="fast"), UsageError, ("not 'fast'",)),
    "replay: limit": (replay(frame(), limit=1.5), UsageError, ("not 1.5",)),
    # Spark: refused before a session is started
    "spark: unknown type": (lambda cep: cep.spark({"Tik": frame()}, time="ts"), UsageError, ("Tik", "Tick")),
    "spark: lacking a column": (
        lambda cep: cep.spark({"Tick": frame().drop(columns="qty")}, time="ts"),
        EventError,
        ("lacks the column `qty`",),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_mistake_is_explained_and_changes_nothing(cep: Workbench, case: Case) -> None:
    action, error, parts = case
    before = picture(cep)
    with pytest.raises(error) as caught:
        action(cep)
    for text in parts:
        assert text in str(caught.value)
    assert picture(cep) == before
    cep.send("Tick", symbol="b", price=2.0)  # and it goes on
    assert cep.to_frame("last3")["symbol"].tolist() == ["a", "b"]


def test_names_that_go_together_are_told(cep: Workbench) -> None:
    cep.run("@name('cheap') select * from Tick(price < 1)", cell="c2")
    before = picture(cep)
    with pytest.raises(
        UsageError,
        match=r"(?s)`Tick` was deployed with `last3`, `recent`, and goes with them; `cheap` would have to go",
    ):
        cep.drop("Tick")
    assert picture(cep) == before


@pytest.mark.parametrize(("name", "content"), [("a.csv", b""), ("a.parquet", b"PAR?"), ("a.csv.gz", b"no gzip")])
def test_files_that_are_none(cep: Workbench, tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    before = picture(cep)
    with pytest.raises(EventError, match=f"{name}.*cannot be read as a (CSV|Parquet) file"):
        cep.replay(str(path), type="Tick", time="ts").run()
    assert picture(cep) == before


@pytest.mark.parametrize("change", ["drop", "redefine"])
def test_a_type_that_changes_under_a_replay_ends_it(change: str) -> None:
    cep = Workbench()
    cep.run("create schema Tick(symbol string)", cell="schema")
    cep.run("@name('all') select * from Tick", cell="all")
    going = cep.replay(frame(), type="Tick", time="ts", paused=True)
    going.step()
    if change == "drop":
        cep.drop("all")
        cep.drop("Tick")
    else:
        cep.run("create schema Tick(symbol string, feed string)", cell="schema")
    with pytest.raises(UsageError, match=r"`Tick` was (dropped|changed) during the replay"):
        going.run()
    assert going.state == "failed"
    assert cep.clock.ms == 6_000
    assert cep.replaying is None


def test_the_same_type_anew_does_not_end_a_replay() -> None:
    cep = Workbench()
    cep.run("create schema Tick(symbol string)", cell="schema")
    cep.run("@name('all') select * from Tick#keepall", cell="all")
    going = cep.replay(frame(), type="Tick", time="ts", paused=True)
    going.step()
    cep.run("create schema Tick(symbol string)", cell="schema")
    assert str(going.run()).startswith("2 events finished")
    assert cep.to_frame("all")["symbol"].tolist() == ["b"]  # deployed anew, it starts empty


def test_an_interruption_inside_a_listener_stops_the_replay(cep: Workbench) -> None:
    def listener(_: object) -> None:
        raise KeyboardInterrupt

    end = cep.on("last3", listener)
    going = cep.replay(frame(), type="Tick", time="ts")
    with pytest.raises(KeyboardInterrupt):
        going.run()
    end()
    assert going.state == "stopped"
    assert cep.clock.ms == 6_000
    assert cep.to_frame("last3")["symbol"].tolist() == ["a", "a"]
    rest = cep.replay(frame().iloc[1:], type="Tick", time="ts")
    with pytest.raises(UsageError, match="interrupted in the middle"):  # `recent` may not have seen the event
        rest.run()
    cep.rewind()
    cep.replay(frame(), type="Tick", time="ts").run()
    assert cep.to_frame("last3")["symbol"].tolist() == ["a", "b"]


def test_ctrl_c_inside_a_listener_pauses_the_replay_behind_the_event(cep: Workbench) -> None:
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    end = cep.on("last3", lambda _: (end(), os.kill(os.getpid(), signal.SIGINT)))
    going = cep.replay(frame(), type="Tick", time="ts")
    try:
        with pytest.raises(KeyboardInterrupt):
            going.run()
    finally:
        signal.signal(signal.SIGINT, former)
    seen = len(cep.to_frame("last3"))
    assert (going.state, seen) == ("paused", 1 + going.progress.events)
    assert cep.to_frame("recent")["n"].sum() == seen  # all statements have seen the event
    going.run()
    assert cep.to_frame("last3")["symbol"].tolist() == ["a", "a", "b"]


def test_reading_a_statement_that_fails_on_a_row(cep: Workbench) -> None:
    cep.run("@name('number') select cast(symbol, int) as n from Tick#length(2)")
    reads = (cep.to_frame, lambda name: cep.query(f"select * from {name}"))
    with pytest.raises(StatementError, match="`number` failed"):
        cep.send("Tick", symbol="x")
    for read in reads:
        with pytest.raises(StatementError, match=r"(?s)`number` failed.*ValueError: .*'x'.*\^\^\^"):
            read("number")
    assert "'x'" in str(view(cep, "number").freeze())
    for symbol in ("1", "2"):
        cep.send("Tick", symbol=symbol)
    assert cep.to_frame("number")["n"].tolist() == [1, 2]


EDITS = {
    "schema": ("create schema K(s string, v double)", "create schema K(s string, w double)"),
    "context": ("create context C partition by s from K", "create context C partition by nope from K"),
    "first": (
        "@name('first') context C insert into X select s, sum(v) as t from K#length(2)",
        "@name('first') select nope from K",
    ),
    "second": (
        "@name('second') insert into X select s, v as t from K",
        "@name('second') insert into X select s, v as t, 1 as z from K",
    ),
    "third": (
        "@name('third') select irstream s, count(*) as c from X#time(2 sec) group by s",
        "@name('first') select * from K",
    ),
    "broken": ("select * from", "@name('joined') select * from K, X"),
}


@pytest.mark.histories
@pytest.mark.parametrize("seed", range(12))
def test_cells_edited_run_and_dropped_at_random(seed: int) -> None:
    """Whatever the order: an operation succeeds, or nothing has changed."""
    draw = random.Random(seed)
    cep = Workbench()
    refused = 0
    for _ in range(40):
        before = picture(cep)
        what = draw.random()
        try:
            if what < 0.6:
                cell = draw.choice(list(EDITS))
                cep.run(draw.choice(EDITS[cell]), cell=cell if draw.random() < 0.8 else None)
            elif what < 0.75:
                cep.drop(draw.choice([*cep.runtime.statements, "K", "X", "C"]), cascade=draw.random() < 0.3)
            elif what < 0.95:
                cep.send("K", s=draw.choice("ab"), v=draw.random())
            else:
                cep.advance(by="1 sec")
        except CepbookError:
            refused += 1
            assert picture(cep) == before
    assert 0 < refused < 40
