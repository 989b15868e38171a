"""The workbench with other dialects: running, replacing, replaying, saving, explaining, and what is wrong."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.dialects.apama.expressions import APAMA_AGGREGATES
from cepbook.dialects.registry import DIALECTS
from cepbook.errors import BindError, ParseError, UsageError
from cepbook.session.explain.marble import Marble

SCHEMA = "create schema Value(v double); create schema Tick(s string, price double, vol long)"
STREAM = "stream<float> values := from e in all Value() select e.v; "
BATCHED = STREAM + "from v in values within 1.5 every 1.0 select sum(v)"
PICTURE = ((500, 10.0), (1500, 20.0), (2000, 30.0), (2500, 40.0))


def bench(*queries: str) -> Workbench:
    """A workbench with the event types and the queries ``q0`` and so on."""
    cep = Workbench()
    cep.run(SCHEMA)
    for number, text in enumerate(queries):
        cep.run(text, dialect="apama", name=f"q{number}")
    return cep


def draw(cep: Workbench) -> None:
    """Send what the picture of the document shows."""
    for time, value in PICTURE:
        cep.advance(time)
        cep.send("Value", v=value)
    cep.advance(9000)


def rows(cep: Workbench, name: str) -> list[tuple[Any, ...]]:
    found = cep.changes(name, times="ms").drop(columns=["seq", "kind"]).astype(object).fillna("NaN")
    return list(found.itertuples(index=False, name=None))


def bars_of(marble: Marble) -> pd.DataFrame:
    """The bars with times in ms."""
    frame, epoch = marble.to_frame(), pd.Timestamp(0)
    times = frame[["arrived", "entered", "left"]]
    return frame.assign(**{name: ((times[name] - epoch) // pd.Timedelta("1ms")).astype("Int64") for name in times})


# ---------------------------------------------------------------- the document
def test_the_queries_of_the_document() -> None:
    """Defining Batched Windows: the three queries, and the sentences about the items in the picture."""
    window = "within 1.5 every 1.0"
    cep = bench(*(f"{STREAM}from v in values {window} select {what}" for what in ("v", "rstream v", "sum(v)")))
    draw(cep)
    assert rows(cep, "q0") == [(1000, 10.0), (2000, 20.0), (2000, 30.0), (3000, 40.0)]
    assert rows(cep, "q1") == [(2000, 10.0), (3000, 20.0), (4000, 30.0), (4000, 40.0)]
    assert rows(cep, "q2") == [(1000, 10.0), (2000, 20.0), (2000, 50.0), (3000, 70.0), (4000, 0.0)]


@pytest.mark.parametrize(
    "window", ["within 1.5 every 1.0", "retain 3 every 2", "within 1.5 every 1.0 retain 2", "within 1.0 every 3.0"]
)
def test_the_forms_of_the_document(window: str) -> None:
    cep = bench(f"{STREAM}from v in values {window} select v")
    draw(cep)
    assert rows(cep, "q0")


# ---------------------------------------------------------------- running
def test_running_again_replaces() -> None:
    cep = bench()
    text = "from t in all Tick() select t.price"
    assert str(cep.run(text, dialect="apama", name="q")) == "deployed q"
    assert str(cep.run(text, dialect="apama", name="q")) == "replaced q"
    assert str(cep.run(BATCHED, dialect="apama", name="q", cell="a")) == "replaced q.values, q"
    assert str(cep.run(text, dialect="apama")) == "deployed stmt_1"
    cep.drop("q")
    assert list(cep.runtime.statements) == ["stmt_1"]


OUT = "event Out { string s; float p; } from t in all Tick() select Out(t.s, t.price)"


@pytest.mark.parametrize("cells", [("one", "two"), (None, None)])
def test_equal_events_are_shared(cells: tuple[str | None, str | None]) -> None:
    """Each cell says what its events are; which of them was first does not matter."""
    cep = bench()
    assert str(cep.run(OUT, dialect="apama", name="a", cell=cells[0])) == "deployed Out, a"
    other = OUT.replace("t.price)", "t.price + 1.0)")
    assert str(cep.run(other, dialect="apama", name="b", cell=cells[1])) == "deployed b"
    again = cep.run(OUT.replace("t.price)", "t.price + 2.0)"), dialect="apama", name="a", cell=cells[0])
    assert str(again) == "replaced Out, a\nredeployed, because they depend on it: b"
    cep.send("Tick", s="x", price=1.0)
    assert rows(cep, "a") == [(0, "x", 3.0)] and rows(cep, "b") == [(0, "x", 2.0)]
    with pytest.raises(BindError, match="there is an event type `Out` with other fields"):
        cep.run(OUT.replace("float p", "integer p").replace("t.price", "t.vol"), dialect="apama", name="c", cell="3")


def test_events_of_python_may_be_declared() -> None:
    cep = Workbench()
    cep.define("Temp", {"room": str, "degrees": float})
    text = "event Temp { string room; float degrees; } from t in all Temp() select t.degrees"
    cep.run(text, dialect="apama", name="q", cell="one")
    with pytest.raises(BindError, match="with other fields"):
        cep.run(text.replace("float", "integer"), dialect="apama", name="r", cell="two")


def test_events_of_the_text_can_be_sent() -> None:
    cep = Workbench()
    cep.run(
        "event Temp { string room; float degrees; } from t in all Temp(degrees > 20.0) select t",
        dialect="apama",
        name="hot",
    )
    cep.send("Temp", room="a", degrees=25.0)
    cep.send("Temp", room="b", degrees=15.0)
    assert rows(cep, "hot") == [(0, "a", 25.0)]


def test_epl_reads_a_stream_of_a_query() -> None:
    cep = bench(BATCHED.replace("stream<float> values", "stream<float> values"))
    cep.run("@name('seen') select value from `q0.values`(value > 15)")
    draw(cep)
    assert rows(cep, "seen") == [(1500, 20.0), (2000, 30.0), (2500, 40.0)]


def test_epl_feeds_a_query_event_by_event() -> None:
    cep = bench()
    cep.run("insert into Big select v from Value(v > 15)")
    cep.run("from b in all Big() retain 2 select sum(b.v)", dialect="apama", name="big")
    draw(cep)
    assert rows(cep, "big") == [(1500, 20.0), (2000, 50.0), (2500, 70.0)]


def test_retain_all_keeps_no_items_for_aggregates() -> None:
    aggregates = "from t in all Tick() retain all group by t.s select sum(t.price)"
    cep = bench(aggregates, "from t in all Tick() retain all select nth(t.price, 1)")
    for number in range(5):
        cep.send("Tick", s="ab"[number % 2], price=float(number), vol=1)
    assert [cep.runtime.state(name)[0]["retained"] for name in ("q0", "q1")] == [0, 5]
    assert sorted(cep.to_frame("q0")["value"]) == [4.0, 6.0]
    assert "#keepall" not in cep.explain("q0", "epl")


def test_a_listener_hears_lots() -> None:
    cep, heard = bench(f"{STREAM}from v in values retain 2 every 2 select v"), list[Any]()
    cep.on("q0", lambda delta: heard.append([row["value"] for row in delta.insert or ()]))
    draw(cep)
    assert heard == [[10.0, 20.0], [30.0, 40.0]]


# ---------------------------------------------------------------- sent, replayed, saved
QUERIES = (
    BATCHED,
    "from t in all Tick() partition by t.s within 2.0 retain 2 select t.price",
    "from t in all Tick() within 1.0 group by t.s select mean(t.price)",
    "from t in all Tick() retain 3 join u in all Tick() within 2.0 on t.s equals u.s select t.price * u.price",
    "stream<Tick> lots := from t in all Tick() within 3.0 every 1.0 select t;"
    "from x in lots retain 4 with unique x.vol select rstream x",
)


def history(seed: int) -> pd.DataFrame:
    rng, now, found = random.Random(seed), 0, []
    for _ in range(60):
        now += rng.choice((0, 0, 250, 500, 1000, 2300))
        found.append({"t": now, "s": rng.choice("ab"), "price": float(rng.randint(1, 9)), "vol": rng.randint(1, 3)})
    return pd.DataFrame(found)


@pytest.mark.parametrize("text", QUERIES)
def test_sent_is_replayed_is_saved_and_loaded(text: str, tmp_path: Path) -> None:
    events, end = history(1), 200_000
    if "Value" in text:
        events = events.rename(columns={"price": "v"})[["t", "v"]]
    kind = "Value" if "Value" in text else "Tick"
    sent, replayed, stepped, saved = (bench(text) for _ in range(4))
    for cep, cut in ((sent, -1), (saved, 30)):
        for number, event in enumerate(events.to_dict("records")):
            time = event.pop("t")
            cep.advance(time)
            cep.send(kind, event)
            if number == cut:
                cep.save(tmp_path / "half.cep", feeds=True)
                cep.load(tmp_path / "half.cep")
        cep.advance(end)
    replayed.replay(events, type=kind, time="t", until=end).run()
    stepped.replay(events, type=kind, time="t", until=end).run()
    expected = rows(sent, "q0")
    assert expected
    assert rows(replayed, "q0") == expected
    assert rows(stepped, "q0") == expected
    assert rows(saved, "q0") == expected


def test_replays_say_why_events_go_one_by_one() -> None:
    cep = bench(BATCHED)
    assert "is activated once per event" in cep.explain("q0", "coverage")


# ---------------------------------------------------------------- explaining
def test_stages() -> None:
    cep = bench(BATCHED)
    assert cep.explain("q0", "ast").startswith("Program\n")
    assert "window gated_time(1 sec 500 msec, 1 sec)" in cep.explain("q0", "plan")
    assert "gated_time" in cep.explain("q0", "steps")
    assert "def moved(S, change, now):" in cep.explain("q0", "python")
    epl = cep.explain("q0", "epl")
    assert epl.splitlines()[-1] == "from `q0.values`#gated_time(1500 msec, 1 sec) as v"
    assert "Esper has no such window" in epl


def test_the_nearest_epl_of_a_join() -> None:
    cep = bench("from t in all Tick() retain 3 join u in all Tick(vol > 2) within 2.5 on t.s equals u.s select t.price")
    assert cep.explain("q0", "epl").splitlines()[-3:] == [
        "select t.price as value",
        "from Tick#length(3) as t, Tick(vol > 2)#time(2500 msec) as u",
        "where t.s = u.s",
    ]


def test_the_nearest_epl_of_events_within_events_runs() -> None:
    pair = "event Pair { Tick t; Tick u; float x; } "
    joined = "from t in all Tick() retain 1 join u in all Tick() retain 2 on t.s equals u.s select Pair(t, u, t.price)"
    cep = bench(pair + joined, f"{pair}stream<Pair> pairs := {joined}; from p in pairs retain 2 select p.u.price")
    epl = cep.explain("q0", "epl").partition("@name")[2]
    assert "select t as t, u as u, t.price as x" in epl
    assert cep.explain("q1", "epl").splitlines()[-2:] == ["select p.u.price as value", "from `q1.pairs`#length(2) as p"]
    cep.run(f"@name{epl}".replace("'q0'", "'e0'"))
    for number in range(3):
        cep.send("Tick", s="ab"[number % 2], price=float(number), vol=1)
    assert rows(cep, "e0") == rows(cep, "q0") != []
    assert [row[2]["price"] for row in rows(cep, "q0")] == [0.0, 1.0, 2.0]


def test_the_picture_of_the_document_is_drawn_from_the_running_query() -> None:
    cep = bench(f"{STREAM}from v in values within 1.5 every 1.0 select v")
    draw(cep)
    bars = bars_of(cep.marble("q0"))[["arrived", "entered", "left", "value"]]
    assert bars.values.tolist() == [
        [500, 1000, 2000, 10.0],
        [1500, 2000, 3000, 20.0],
        [2000, 2000, 4000, 30.0],
        [2500, 3000, 4000, 40.0],
    ]


def test_a_marble_diagram_of_lots() -> None:
    lots = "stream<float> lots := from v in values retain 2 every 2 select v; "
    cep = bench(f"{STREAM}{lots}from x in lots within 2.0 select x")
    draw(cep)
    bars = bars_of(cep.marble("q0"))[["arrived", "left", "value"]]
    assert bars.values.tolist() == [
        [1500, 3500, 10.0],
        [1500, 3500, 20.0],
        [2500, 4500, 30.0],
        [2500, 4500, 40.0],
    ]


def test_a_marble_diagram_of_events_that_arrive_together() -> None:
    cep = bench("from t in all Tick() retain 2 select t.price", "from t in all Tick() within 1.0 select sum(t.vol)")
    ticks = [("Tick", {"s": "a", "price": float(number), "vol": 1}) for number in range(3)]
    cep.send_together(*ticks)
    cep.advance(500)
    cep.send_together(("Value", {"v": 1.0}), ticks[0])
    cep.send(*ticks[1])
    cep.advance(2000)
    drawn = cep.marble("q0")
    assert not drawn.notes
    assert [[row["value"] for row in each.insert or ()] for each in drawn.deliveries] == [[1.0, 2.0], [0.0], [1.0]]
    assert bars_of(drawn)[["number", "entered", "left"]].astype(object).fillna("").values.tolist() == [
        [1, 0, 500],
        [2, 0, 500],
        [3, 500, ""],
        [4, 500, ""],
    ]
    assert [len(each.insert or ()) for each in cep.marble("q1").deliveries] == [1] * 5 and not cep.marble("q1").notes


# ---------------------------------------------------------------- what is wrong
def test_errors_are_in_the_words_of_the_dialect() -> None:
    cep = bench()
    with pytest.raises(ParseError, match=r"(?s)`within` comes after `retain`.*apama:1:.*in this order"):
        cep.run("from t in all Tick() retain 2 within 1.0 select t", dialect="apama")
    with pytest.raises(BindError, match=r"(?s)`Tick` has no field `prise`.*apama:1:.*did you mean `price`"):
        cep.run("from t in all Tick() select t.prise", dialect="apama")
    assert not cep.runtime.statements


def test_unknown_dialects_and_settings() -> None:
    cep = bench()
    with pytest.raises(UsageError, match=r"(?s)no dialect `apamma`.*did you mean `apama`"):
        cep.run("from t in all Tick() select t", dialect="apamma")
    with pytest.raises(UsageError, match="apama has no setting `weights`"):
        cep.run("from t in all Tick() select t", dialect="apama", weights={})
    with pytest.raises(BindError, match="a statement named `q` already exists"):
        cep.run("@name('q') select * from Tick")
        cep.runtime.compile(_text("from t in all Tick() select t", "q"))


def _text(text: str, name: str) -> str:
    from cepbook.lang.syntax.source_text import SourceText

    return SourceText(text, "apama", {"name": name})


def test_failures_at_run_time_are_told_and_stop_nobody() -> None:
    cep = bench("from t in all Tick() select 10 / t.vol")
    failed: list[Any] = []
    cep.runtime.add_error_listener(failed.append)
    for vol in (5, 0, 2):
        try:
            cep.send("Tick", s="a", price=1.0, vol=vol)
        except Exception as failure:  # noqa: BLE001 - what the workbench raises is what is looked at
            assert "q0" in str(failure) and "apama:1:" in str(failure)
    assert [value for _, value in rows(cep, "q0")] == [2, 5]
    assert len(failed) == 1


@pytest.mark.histories
def test_mutated_queries_are_refused_with_a_diagnostic() -> None:
    """Tokens dropped, doubled, swapped: a diagnostic or a query that runs, never a Python exception."""
    rng = random.Random(3)
    texts = [*QUERIES, BATCHED, "event R { string s; float p; } from t in all Tick(s = \"a\", price > 1.0) retain all "
             "group by t.s having count() > 1 select R(t.s, nth(t.price, 1))"]  # fmt: skip
    words = [text.replace("(", " ( ").replace(")", " ) ").replace(";", " ; ").split() for text in texts]
    cep = bench()
    for _ in range(3000):
        tokens = list(rng.choice(words))
        for _ in range(rng.choice((1, 1, 2, 3))):
            at, change = rng.randrange(len(tokens)), rng.randrange(4)
            if change == 0 and len(tokens) > 1:
                del tokens[at]
            elif change == 1:
                tokens.insert(at, tokens[at])
            elif change == 2:
                other = rng.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            else:
                tokens[at] = rng.choice(rng.choice(words))
        try:
            cep.run(" ".join(tokens), dialect="apama", name="q")
        except (ParseError, BindError) as error:
            assert all(each.message for each in error.diagnostics)
        except UsageError as error:
            assert "q" in str(error)


# ---------------------------------------------------------------- registries
def test_rows_of_the_registry_are_whole() -> None:
    for name, row in DIALECTS.items():
        assert name == row.name and row.title and row.magic
        assert all(doc.strip() for doc in (*row.settings.values(), *row.keywords.values()))


def test_every_aggregate_runs() -> None:
    calls = {"count": "count()", "nth": "nth(t.price, 0)", "prior": "prior(t.price, 0)", "wavg": "wavg(t.price, t.vol)"}
    texts = [calls.get(name, f"{name}(t.price)") for name in APAMA_AGGREGATES]
    cep = bench(*(f"from t in all Tick() retain 2 select {text}" for text in texts))
    cep.send("Tick", s="a", price=3.0, vol=2)
    found = {name: rows(cep, f"q{number}")[0][1] for number, name in enumerate(APAMA_AGGREGATES)}
    assert {name: found[name] for name in ("sum", "mean", "wavg", "last", "prior", "count", "countUnique")} == {
        "sum": 3.0,
        "mean": 3.0,
        "wavg": 3.0,
        "last": 3.0,
        "prior": 3.0,
        "count": 1,
        "countUnique": 1,
    }
