"""Partition administration: the table, selectors, ending by hand, listeners, timelines, partial matches."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from cepbook.engine.contexts.partition_listeners import PartitionNotice
from cepbook.errors import UsageError
from cepbook.session import ByCategory, ByHash, ById, ByKey, ByProperties, Nested, Workbench
from cepbook.session.history.partition_lifetimes import KEPT, ContextLifetimes
from cepbook.session.inspect.match_record import MatchRecord

SCHEMAS = "create schema Txn(cust string, account string, amount double); create schema Go(id string);"
KEYED = """create context ByCust partition by cust from Txn;
@name('sums') context ByCust select cust, account, sum(amount) as total from Txn#length(2) group by account"""
CATEGORY = """create context Sized group amount < 10 as small, group amount >= 10 as large from Txn;
@name('sized') context Sized select context.label as size, count(*) as n from Txn"""
HASHED = """create context Hashed coalesce by hash_code(cust) from Txn granularity 4 preallocate;
@name('hashed') context Hashed select context.id as part, count(*) as n from Txn"""
NESTED = """create context Shifts
  context Shift initiated by Go as g terminated after 1 hour,
  context Cust partition by cust from Txn;
@name('nested') context Shifts
select context.Shift.g.id as go, context.Cust.key1 as cust, sum(amount) as total from Txn;
@name('rising') context Shifts
select a.amount as low, b.amount as high
from pattern [every a=Txn -> b=Txn(amount > a.amount) where timer:within(1 min)]"""
TXNS = [("ann", "x", 5.0), ("bob", "x", 20.0), ("ann", "y", 30.0), ("cid", "x", 1.0), ("ann", "x", 2.0)]


def bench(module: str) -> Workbench:
    """A workbench in which `TXNS` have happened, one a second."""
    cep = Workbench()
    cep.run(SCHEMAS)
    cep.run(module)
    if module is NESTED:
        cep.send("Go", id="first")
    for number, (cust, account, amount) in enumerate(TXNS, 1):
        cep.advance(1000 * number)
        cep.send("Txn", cust=cust, account=account, amount=amount)
    return cep


def customers(rows: list[dict[str, Any]]) -> list[str]:
    return [row["cust"] for row in rows]


# ---------------------------------------------------------------- the table
def test_a_keyed_context_as_a_table() -> None:
    frame = bench(KEYED).partitions("ByCust")
    assert list(frame.columns) == ["id", "key1", "statements", "retained", "groups", "partials"]
    assert frame["key1"].tolist() == ["ann", "bob", "cid"] and str(frame["key1"].dtype) == "string"
    assert frame["statements"].tolist() == [["sums"]] * 3
    assert frame["retained"].tolist() == [2, 1, 1]
    assert frame["groups"].tolist() == [2, 1, 1]
    assert frame["partials"].isna().all()


def test_a_nested_context_has_a_column_for_each_property_of_each_level() -> None:
    frame = bench(NESTED).partitions("Shifts")
    assert list(frame.columns) == [
        *("id", "Shift.startTime", "Shift.endTime", "Shift.g", "Cust.key1"),
        *("statements", "retained", "groups", "partials"),
    ]
    assert frame["Cust.key1"].tolist() == ["ann", "bob", "cid"]
    assert frame["Shift.endTime"].tolist() == [pd.Timestamp("1970-01-01 01:00")] * 3
    assert bench(NESTED).partitions("Shifts", times="ms")["Shift.endTime"].tolist() == [3_600_000] * 3
    assert frame["Shift.g"].tolist() == [{"id": "first"}] * 3
    assert frame["partials"].tolist() == [3, 2, 2], "each waits for another a, and ann twice for a b"


def test_categories_and_no_partitions() -> None:
    frame = bench(CATEGORY).partitions("Sized")
    assert frame["label"].tolist() == ["small", "large"]
    cep = Workbench()
    cep.run(SCHEMAS)
    cep.run(KEYED)
    assert list(cep.partitions("ByCust").columns) == list(bench(KEYED).partitions("ByCust").columns)
    assert cep.partitions("ByCust").empty


# ---------------------------------------------------------------- selectors
@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (0, ["ann"]),
        ([0, 2, 99], ["ann", "cid"]),
        (ById(1), ["bob"]),
        (ByKey("bob", "cid"), ["bob", "cid"]),
        ({"key1": "ann"}, ["ann"]),
        ({"key1": "ann", "id": 1}, []),
        ({}, ["ann", "bob", "cid"]),
        (lambda p: p["key1"] > "ann", ["bob", "cid"]),
        (ByProperties(lambda p: p["name"] == "ByCust" and p["id"] == 2), ["cid"]),
    ],
)
def test_selecting_partitions_of_a_keyed_context(selector: Any, expected: list[str]) -> None:
    cep = bench(KEYED)
    assert list(dict.fromkeys(customers(cep.iterate("sums", selector)))) == expected
    assert cep.to_frame("sums", selector)["cust"].drop_duplicates().tolist() == expected
    assert cep.partitions("ByCust", selector)["key1"].tolist() == expected
    assert cep.query("select distinct cust from sums", selector)["cust"].tolist() == expected


def test_selecting_hashes_and_categories() -> None:
    cep = bench(CATEGORY)
    assert cep.iterate("sized", ByCategory("large")) == [{"size": "large", "n": 2}]
    assert cep.iterate("sized", {"label": "small"}) == [{"size": "small", "n": 3}]
    hashed = bench(HASHED)
    assert hashed.partitions("Hashed")["hash"].tolist() == [0, 1, 2, 3]
    assert hashed.iterate("hashed", {"hash": 2}) == hashed.iterate("hashed", ByHash(2))
    counts = {number: sum(row["n"] for row in hashed.iterate("hashed", ByHash(number))) for number in range(4)}
    assert sum(counts.values()) == len(TXNS)
    assert hashed.iterate("hashed", ByHash(0, 1, 2, 3)) == hashed.iterate("hashed")


@pytest.mark.parametrize(
    ("module", "statement", "selector", "message"),
    [
        (CATEGORY, "sized", ByCategory("lage"), "(?s)no category 'lage'; there are 'small', 'large'.*mean `large`"),
        (CATEGORY, "sized", ByCategory("large", 7), "no category 7; there are 'small', 'large'"),
        (HASHED, "hashed", ByHash(1, 4), "hashes of this context are 0 to 3, found 4"),
    ],
)
def test_what_no_partition_can_be(module: str, statement: str, selector: Any, message: str) -> None:
    cep = bench(module)
    with pytest.raises(UsageError, match=message):
        cep.iterate(statement, selector)


def test_what_no_partition_can_be_is_told_before_there_is_one() -> None:
    cep = Workbench()
    cep.run(
        f"{SCHEMAS} create context Parts"
        " context K partition by cust from Txn, context G group amount < 0 as low from Txn;"
        "@name('s') context Parts select count(*) from Txn"
    )
    assert cep.iterate("s", Nested(G=ByCategory("low"))) == []
    for wrong in (Nested(G=ByCategory("high")), Nested(K=ByCategory("low")), Nested(K=ByKey(("a", "b"))), ByKey("a")):
        with pytest.raises(UsageError):
            cep.iterate("s", wrong)
    with pytest.raises(UsageError, match=r"(?s)ByCategory takes values, not \['low'\].*ByCategory\(\*\['low'\]\)"):
        ByCategory(["low"])  # type: ignore[arg-type]


def test_selecting_level_by_level() -> None:
    cep = bench(NESTED)
    cep.send("Go", id="second")
    cep.send("Txn", cust="bob", account="x", amount=7.0)
    late = ByProperties(lambda p: p["startTime"] > 0)
    rows = cep.iterate("nested", Nested(Shift=late, Cust=ByKey("bob")))
    assert rows == [{"go": "second", "cust": "bob", "total": 7.0}]
    assert len(cep.iterate("nested", Nested(Cust=ByKey("bob")))) == 2
    assert customers(cep.iterate("nested", {"Cust.key1": "cid"})) == ["cid"]
    assert cep.partitions("Shifts", {"Shift.g": {"id": "second"}})["Cust.key1"].tolist() == ["bob"]


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"key2": 1}, "(?s)no property `key2`.*did you mean `key1`"),
        ("ann", r"(?s)'ann' \(str\) selects no context partitions.*ByKey"),
        ([0, "x"], "selects no context partitions"),
        (True, "selects no context partitions"),
        (ByCategory("x"), "ByCategory is for category contexts, this one is keyed"),
        (Nested(Inner=ById(1)), "no level `Inner`"),
        (ByKey(("ann", "x")), r"(?s)keys of this context have 1 value, found 2: 'ann', 'x'"),
    ],
)
def test_what_selects_nothing_is_refused(selector: Any, message: str) -> None:
    cep = bench(KEYED)
    for read in (cep.iterate, cep.to_frame):
        with pytest.raises(UsageError, match=message):
            read("sums", selector)
    with pytest.raises(UsageError, match=message):
        cep.partitions("ByCust", selector)


def test_ids_out_of_a_table_select() -> None:
    cep = Workbench()
    cep.run(
        "create schema A(k string); create context PerKey partition by k from A;"
        "@name('s') context PerKey select k from A#keepall"
    )
    for key in "abc":
        cep.send("A", k=key)
    ids = cep.partitions("PerKey")["id"]
    assert cep.iterate("s", ids.to_numpy(dtype="int64")[1]) == [{"k": "b"}]
    assert cep.iterate("s", ids[ids > 0]) == [{"k": "b"}, {"k": "c"}]


def test_a_statement_without_a_context_has_no_partitions_to_select() -> None:
    cep = bench("@name('all') select * from Txn#keepall")
    assert len(cep.iterate("all")) == 5
    with pytest.raises(UsageError, match="`all` has no context"):
        cep.iterate("all", 0)


# ---------------------------------------------------------------- ending and listening
def test_ending_a_partition_delivers_what_is_due_at_its_end() -> None:
    cep = bench("""create context ByCust partition by cust from Txn;
    @name('last') context ByCust select cust, sum(amount) as total from Txn output last when terminated""")
    assert cep.changes("last").empty
    cep.end_partition("ByCust", 0)
    assert cep.changes("last")[["cust", "total"]].to_numpy().tolist() == [["ann", 37.0]]
    assert cep.partitions("ByCust")["key1"].tolist() == ["bob", "cid"]
    cep.send("Txn", cust="ann", account="x", amount=1.0)
    assert cep.partitions("ByCust")["id"].tolist() == [1, 2, 3], "ids are not used again"
    with pytest.raises(UsageError, match="no live partition 0"):
        cep.end_partition("ByCust", 0)
    with pytest.raises(UsageError, match=r"(?s)no context `ByCst`.*`ByCust`"):
        cep.end_partition("ByCst", 1)


def test_a_partition_listener_hears_of_everything_until_it_is_taken_back() -> None:
    cep = Workbench()
    cep.run(SCHEMAS)
    cep.run(KEYED.split(";")[0])
    heard: list[PartitionNotice] = []
    cancel = cep.on_partition("ByCust", heard.append)
    cep.run(KEYED.split(";")[1])
    cep.advance(10)
    cep.send("Txn", cust="ann", account="x", amount=1.0)
    cep.end_partition("ByCust", 0)
    cep.send("Txn", cust="bob", account="x", amount=1.0)
    cep.drop("sums")
    assert [(n.kind, n.partition, n.time) for n in heard] == [
        ("activated", None, 0), ("allocated", 0, 10), ("deallocated", 0, 10),
        ("allocated", 1, 10), ("deallocated", 1, 10), ("deactivated", None, 10),
    ]  # fmt: skip
    assert heard[1].properties == {"id": 0, "key1": "ann", "name": "ByCust"}
    cancel()
    cep.run(KEYED.split(";")[1])
    assert len(heard) == 6
    cancel()


def test_a_partition_listener_follows_a_rewind_and_hears_of_replays() -> None:
    cep = Workbench()
    ticks = pd.DataFrame({"at": [0, 100, 200, 300], "cust": ["a", "b", "a", "c"]})
    cep.define("Tick", ticks, time="at")
    cep.run("create context C partition by cust from Tick; @name('n') context C select count(*) as n from Tick")
    heard: list[Any] = []
    cep.on_partition("C", lambda n: heard.append((n.properties.get("key1"), n.time, cep.feed("n").total_insert)))
    for _ in range(2):
        cep.rewind()
        heard.clear()
        cep.replay({"Tick": ticks}).run()
        assert heard == [("a", 0, 0), ("b", 100, 1), ("c", 300, 3)]
    with pytest.raises(UsageError, match="not int"):
        cep.on_partition("C", 5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no context `D`"):
        cep.on_partition("D", heard.append)


# ---------------------------------------------------------------- timelines
def test_a_timeline_tells_births_and_deaths() -> None:
    cep = bench(NESTED)
    cep.end_partition("Shifts", 1)
    cep.advance(4_000_000)
    timeline = cep.timeline("Shifts")
    assert (timeline.live, timeline.allocated, timeline.levels) == (0, 3, ("Shift", "Cust"))
    assert timeline.counts == ((1000, 1), (2000, 2), (4000, 3), (5000, 2), (4_000_000, 0))
    assert timeline.to_frame()["born"].tolist() == [pd.Timestamp(s, unit="s") for s in (1, 2, 4)]
    frame = timeline.to_frame(dates=False)
    assert frame[["id", "born", "died"]].to_numpy().tolist() == [
        [0, 1000, 4_000_000], [1, 2000, 5000], [2, 4000, 4_000_000],
    ]  # fmt: skip
    assert frame["Cust.key1"].tolist() == ["ann", "bob", "cid"]
    assert str(timeline) == "timeline of Shifts: 3 partitions, 0 live, 00:00:01.000 to 01:06:40.000"
    last = cep.timeline("Shifts", partitions=1)
    assert [life.id for life in last.lives] == [2] and last.start == 4000 and last.counts[0] == (4000, 3)
    assert str(last).startswith("timeline of Shifts: 3 partitions, the last 1 drawn, 0 live")


def test_a_timeline_knows_the_partitions_that_are_there_from_the_beginning_after_a_rewind() -> None:
    cep = Workbench(start=1000)
    cep.run(
        "create schema A(x int); create context Signs group by x < 0 as minus, group by x >= 0 as plus from A;"
        "@name('s') context Signs select count(*) as n from A"
    )
    cep.advance(5000)
    cep.rewind()
    for one in (cep, cep.rehearsal()):
        one.advance(3000)
        one.end_partition("Signs", 0)
        timeline = one.timeline("Signs")
        assert [(life.id, life.properties["label"], life.born, life.died) for life in timeline.lives] == [
            (0, "minus", 1000, 3000),
            (1, "plus", 1000, None),
        ]
        assert (timeline.allocated, timeline.live) == (2, 1)


def test_a_replay_in_slices_knows_when_partitions_were_born() -> None:
    cep = Workbench()
    ticks = pd.DataFrame({"at": range(0, 1000, 100), "cust": list("aabbccddee"), "n": range(10)})
    cep.define("Tick", ticks, time="at")
    cep.run("create context C partition by cust from Tick; @name('n') context C select count(*) as n from Tick")
    assert cep.runtime.batch(["Tick"]).reason is None
    cep.replay({"Tick": ticks}).run()
    assert cep.timeline("C").to_frame(dates=False)["born"].tolist() == [0, 200, 400, 600, 800]
    cep.rewind()
    assert cep.timeline("C").lives == ()


def test_a_timeline_says_when_a_context_is_not_active() -> None:
    context, statement = KEYED.split(";")
    cep = Workbench()
    for module in (SCHEMAS, context, statement):
        cep.run(module)
    cep.send("Txn", cust="ann", account="x", amount=1.0)
    cep.advance(5000)
    cep.drop("sums")
    timeline = cep.timeline("ByCust")
    assert (timeline.live, [life.died for life in timeline.lives]) == (0, [5000])
    assert timeline.notes == ("no statement uses the context: it is not active",)
    cep.drop("ByCust")
    with pytest.raises(UsageError, match="no context `ByCust`"):
        cep.timeline("ByCust")
    cep.run(context)
    assert cep.timeline("ByCust").allocated == 0


@pytest.mark.parametrize("partitions", [0, 501, True, "5"])
def test_a_timeline_shows_a_sensible_number_of_partitions(partitions: Any) -> None:
    with pytest.raises(UsageError, match=r"1 to 500 partitions|`partitions` is a whole number"):
        bench(KEYED).timeline("ByCust", partitions=partitions)


def test_the_record_of_lives_is_bounded() -> None:
    lives = ContextLifetimes()
    for number in range(KEPT + 10):
        lives.take(PartitionNotice("allocated", "C", number, {}, number))
    assert (len(lives.lives), lives.lives[0].id, lives.live) == (KEPT, 10, KEPT + 10)
    lives.take(PartitionNotice("deallocated", "C", 3, {}, 10**6))
    lives.take(PartitionNotice("deallocated", "C", KEPT, {}, 10**6))
    assert lives.live == KEPT + 8 and sum(life.died is not None for life in lives.lives) == 1
    lives.take(PartitionNotice("deactivated", "C", None, {}, 2 * 10**6))
    assert lives.live == 0 and all(life.died is not None for life in lives.lives)
    assert not lives._open
    lives.take(PartitionNotice("allocated", "C", 10, {}, 3 * 10**6))  # ids begin anew; that of the oldest is used again
    lives.take(PartitionNotice("allocated", "C", 11, {}, 3 * 10**6))
    lives.take(PartitionNotice("deallocated", "C", 10, {}, 4 * 10**6))
    assert [life.died for life in list(lives.lives)[-2:]] == [4 * 10**6, None]


# ---------------------------------------------------------------- partial matches
def test_what_a_pattern_waits_for() -> None:
    cep = bench(NESTED)
    frame = cep.partials("rising", 0)
    assert list(frame.columns) == ["partition", "waiting_for", "since", "until", "a", "b"]
    assert frame["waiting_for"].tolist()[0] == "a=Txn"
    assert frame["since"].tolist() == [pd.Timestamp(s, unit="s") for s in (1, 3, 5)]
    assert frame["until"].tolist() == [pd.NaT, pd.Timestamp(63, unit="s"), pd.Timestamp(65, unit="s")]
    assert cep.partials("rising", 0, times="ms")["until"].tolist() == [pd.NA, 63_000, 65_000]
    assert [None if a is None else a["amount"] for a in frame["a"]] == [None, 30.0, 2.0]
    assert cep.partials("rising")["partition"].tolist() == [0, 0, 0, 1, 1, 2, 2]
    with pytest.raises(UsageError, match="`nested` has no pattern"):
        cep.partials("nested")
    with pytest.raises(UsageError, match="no statement `raising`"):
        cep.partials("raising")


def test_a_pattern_without_a_context() -> None:
    cep = bench("@name('p') select a.cust as cust from pattern [every a=Txn(amount > 10) -> b=Txn(cust = a.cust)]")
    frame = cep.partials("p")
    assert list(frame.columns) == ["waiting_for", "since", "until", "a", "b"]
    assert [None if a is None else a["cust"] for a in frame["a"]] == [None, "bob"]


def test_the_matches_behind_deliveries_are_kept_while_somebody_looks() -> None:
    cep = Workbench()
    cep.run(SCHEMAS)
    cep.run("@name('p') select b.amount as high from pattern [every a=Txn -> b=Txn(amount > a.amount)]")
    statement = cep.runtime.statement("p")

    def send(*amounts: float) -> None:
        for amount in amounts:
            cep.send("Txn", cust="ann", account="x", amount=amount)

    send(1.0, 2.0)
    record = MatchRecord(statement, cep.feed("p"))
    record.begin()
    send(1.0, 0.5, 3.0)
    record.end()
    send(9.0)
    assert record.of(0) is None and record.of(2) is None
    second = record.of(1)
    assert second is not None and second.total == 3
    assert [(match["a"]["amount"], match["b"]["amount"]) for match in second.matches] == [(0.5, 3), (1, 3), (2, 3)]
    assert len(cep.feed("p").snapshot()[1].insert or ()) == 3
    assert not statement._match_listeners and len(statement.outlet._sinks) == 1
