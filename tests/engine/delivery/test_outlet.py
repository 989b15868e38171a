"""Who is told of deliveries, and that nobody who is told can change what the engine keeps."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.engine.delivery.delta import EMPTY, GONE, INSERT, MORE, REMOVE, Delta, Record
from cepbook.engine.delivery.row_layout import RowLayout, split_deliveries
from cepbook.engine.runtime import RunningStatement, Runtime
from cepbook.errors import ReplayError, StatementError
from cepbook.feeds import Feed
from cepbook.lang.types import INT, OBJECT, STRING
from tests.engine.sinks import Deltas

SCHEMA = "create schema E(k string, x int, tags string[]);"


def started(epl: str, **functions: Any) -> tuple[Runtime, RunningStatement]:
    """The runtime and its first statement that delivers."""
    runtime = Runtime(functions=functions)
    return runtime, runtime.deploy(SCHEMA + epl).statements[0]


def event(k: str, x: int) -> dict[str, Any]:
    return {"k": k, "x": x, "tags": [k]}


def spoil(value: Any) -> None:
    """Change whatever can be changed."""
    if isinstance(value, dict):
        for each in value.values():
            spoil(each)
        value.clear()
        value["spoilt"] = True
    elif isinstance(value, list):
        for each in value:
            spoil(each)
        value.append("spoilt")


# ---------------------------------------------------------------- rows of one's own
@pytest.mark.parametrize("select", ["*", "k, x, tags", "*, 1 as one", "e as whole, k, x, tags, window(*) as all_"])
def test_a_listener_that_changes_rows_changes_nothing_else(select: str) -> None:
    runtime, first = started(
        f"@name('s') insert into D select {select} from E#length(2) as e; @name('t') select k, x, tags from D#length(2)"
    )
    late: list[Delta] = []
    feed = Feed()
    first.add_listener(lambda delta: spoil(delta.insert))
    first.add_listener(late.append)
    first.add_sink(feed)
    expected = [event("a", 1), event("b", 2)]
    for each in (event("a", 1), event("b", 2)):
        runtime.send("E", each)
    assert [(row["k"], row["x"], row["tags"]) for delta in late for row in delta.insert or ()] == [
        ("a", 1, ["a"]),
        ("b", 2, ["b"]),
    ]
    spoil([delivery.insert for delivery in feed.snapshot()])
    spoil(runtime.iterate("s"))
    assert [{name: row[name] for name in ("k", "x", "tags")} for row in runtime.iterate("s")] == expected
    assert runtime.iterate("t") == expected
    read = [row for one in feed.snapshot() for row in one.insert or ()]
    assert [(row["k"], row["tags"]) for row in read] == [("a", ["a"]), ("b", ["b"])]


def test_a_function_that_changes_its_arguments_changes_nothing_else() -> None:
    seen: list[Any] = []

    def take(whole: Any, tags: Any) -> int:
        seen.append(deepcopy((whole, tags)))
        spoil(whole)
        spoil(tags)
        return 1

    runtime, _ = started("@name('s') select take(e, tags) as n, k, tags from E#length(2) as e", take=take)
    for each in (event("a", 1), event("b", 2)):
        runtime.send("E", each)
    assert [(row["k"], row["tags"]) for row in runtime.iterate("s")] == [("a", ["a"]), ("b", ["b"])]
    assert seen[0] == (event("a", 1), ["a"])


def test_who_looks_at_partitions_partial_matches_and_variables_changes_nothing() -> None:
    runtime, _ = started(
        "create variable int[] numbers = {1, 2}; create context C initiated by E as e terminated after 1 min;"
        "@name('s') context C select context.e.k as k, numbers[0] as n from E;"
        "@name('p') select a.k as k from pattern [every a=E -> E(k = 'end' and a.x = 1)]"
    )
    deltas = Deltas()
    runtime.statement("s").add_sink(deltas)
    runtime.add_partition_listener("C", lambda notice: spoil(notice.properties))
    runtime.send("E", event("a", 1))
    spoil(runtime.partitions("C"))
    spoil(runtime.state("p"))
    spoil(runtime.get_variable("numbers"))
    found = Deltas()
    runtime.statement("p").add_sink(found)
    runtime.send("E", event("end", 2))
    assert {"k": "a", "n": 1} in [row for delta in deltas for row in delta.insert or ()]
    assert [delta.insert for delta in found] == [[{"k": "a"}]]


# ---------------------------------------------------------------- who is told
def test_everybody_is_told_of_the_same_deliveries() -> None:
    runtime, statement = started("@name('s') select irstream k, x from E#length(1)")
    listened: list[Delta] = []
    sinks = Deltas(), Deltas()
    statement.add_listener(listened.append)
    for sink in sinks:
        statement.add_sink(sink)
    for each in (event("a", 1), event("b", 2)):
        runtime.send("E", each)
    assert listened == sinks[0] == sinks[1]
    assert listened == [Delta(0, [{"k": "a", "x": 1}], None), Delta(0, [{"k": "b", "x": 2}], [{"k": "a", "x": 1}])]
    statement.remove_sink(sinks[0])
    statement.remove_listener(listened.append)
    runtime.send("E", event("c", 3))
    assert [len(sink) for sink in sinks] == [2, 3]


def test_without_anybody_no_rows_are_made() -> None:
    calls: list[int] = []
    runtime, statement = started("@name('s') select f(x) as y from E", f=lambda x: calls.append(x))
    runtime.send("E", event("a", 1))
    statement.add_sink(Feed())
    runtime.send("E", event("a", 2))
    assert calls == [2]


def test_one_row_comes_as_one_record() -> None:
    class Records:
        def __init__(self) -> None:
            self.found: list[tuple[str, Any]] = []

        def describe(self, columns: Any, fresh: Any) -> None:
            self.found.append(("describe", columns))

        def one(self, record: Record) -> None:
            self.found.append(("one", record))

        def extend(self, flat: list[Any]) -> None:
            self.found.append(("extend", flat))

    runtime, statement = started("@name('s') select irstream k, x from E#length(1); @name('t') select * from E")
    records, whole = Records(), Records()
    statement.add_sink(records)
    runtime.statement("t").add_sink(whole)
    sent = event("b", 2)
    for each in (event("a", 1), sent):
        runtime.send("E", each)
    assert records.found[0] == ("describe", ("k", "x"))
    assert records.found[-1] == ("extend", [INSERT, 0, "b", 2, GONE, 0, "a", 1])
    assert (whole.found[0], whole.found[-1]) == (("describe", None), ("one", (INSERT, 0, sent)))
    assert whole.found[-1][1][2] is sent


# ---------------------------------------------------------------- records
def test_records_of_deliveries() -> None:
    layout = RowLayout(("k", "x"), {"k": STRING, "x": INT})
    a, b, c = ("a", 1), ("b", 2), ("c", 3)
    assert layout.flat(5, [a, b], [c]) == [INSERT, 5, *a, MORE, 5, *b, GONE, 5, *c]
    assert layout.flat(5, None, [a, b]) == [REMOVE, 5, *a, GONE, 5, *b]
    assert layout.records([INSERT, 5, *a, GONE, 5, *b]) == [(INSERT, 5, *a), (GONE, 5, *b)]
    assert layout.flat(5, None, None) == [EMPTY, 5, None, None]
    whole = RowLayout(None, {"k": OBJECT})
    assert whole.flat(5, [{"k": 1}], None) == [INSERT, 5, {"k": 1}]
    assert whole.flat(5, None, None) == [EMPTY, 5, None]


@pytest.mark.parametrize(
    "sides", [([("a",)], None), ([("a",), ("b",)], [("c",), ("d",)]), (None, [("a",)]), (None, None)]
)
def test_records_tell_the_sides_of_each_delivery(sides: Any) -> None:
    layout = RowLayout(("k",), {"k": STRING})
    records = layout.records([*layout.flat(1, *sides), *layout.flat(2, *sides)])
    found = [layout.sides(each) for each in split_deliveries(records)]
    assert found == [(sides[0] or [], sides[1] or [])] * 2


def test_a_row_for_user_code_shares_nothing_that_can_be_changed() -> None:
    layout = RowLayout(("k", "o"), {"k": STRING, "o": OBJECT})
    kept = {"deep": [{"x": 1}]}
    spoil(layout.fresh(("a", kept)))
    assert kept == {"deep": [{"x": 1}]}


# ---------------------------------------------------------------- failures
class FullSink(Feed):
    """A sink that takes nothing."""

    def one(self, record: Record) -> None:
        raise OSError("no space")

    def extend(self, flat: list[Any]) -> None:
        raise OSError("no space")

    def push(self, time: int, insert: Any, remove: Any) -> None:
        raise OSError("no space")

    def extend_columns(self, times: list[int], columns: Any) -> None:
        raise OSError("no space")


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("select", ["k, x from E", "k, sum(x) as x from E", "irstream k, x from E#length(1)"])
def test_a_sink_that_raises_takes_nothing_from_the_others(select: str, *, holds: bool) -> None:
    pattern = "@name('p') select * from pattern [every a=E(x < 0) -> b=E(k = a.k)];" * holds
    runtime = Runtime()
    runtime.deploy(f"{SCHEMA}create table T(k string primary key, x long);{pattern}")
    statement = runtime.deploy(f"@name('s') insert into T select {select}").statements[0]
    errors: list[Any] = []
    runtime.add_error_listener(errors.append)
    after, deltas = Feed(), list[Delta]()
    statement.add_sink(FullSink())
    statement.add_sink(after)
    statement.add_listener(deltas.append)
    runtime.send("E", event("a", 1))
    runtime.send("E", event("b", 2))
    assert [row["k"] for delta in deltas for row in delta.insert or ()] == ["a", "b"]
    assert after.deliveries == 2
    assert [row["k"] for row in runtime.iterate("T")] == ["a", "b"]
    assert ["no space" in str(error) for error in errors] == [True, True]


@pytest.mark.parametrize("select", ["k, x from E", "k, sum(x) as x from E group by k", "rstream k, x from E#length(1)"])
def test_a_sink_that_raises_takes_nothing_from_the_others_in_a_batch(select: str) -> None:
    cep = Workbench()
    cep.run(f"create schema E(ts long, k string, x int) starttimestamp ts; @name('s') select {select}")
    after = Feed()
    for sink in (FullSink(), after):
        cep.runtime.statement("s").add_sink(sink)
    frame = pd.DataFrame({"ts": range(10_000), "k": ["a", "b"] * 5_000, "x": 1})
    with pytest.raises(ReplayError, match="no space"):
        cep.replay(frame, "E").run()
    assert after.deliveries == cep.feed("s").deliveries >= 9_999
    with pytest.raises(StatementError, match="no space"):
        cep.send("E", ts=10_000, k="a", x=1)
