"""Views of contexts and patterns: the tree of partitions, what a pattern waits for, the events behind a match."""

from __future__ import annotations

from typing import Any

from cepbook.session import Workbench
from cepbook.session.inspect.match_record import DeliveryMatches
from cepbook.session.inspect.partial_matches import PartialMatch
from cepbook.widgets import StatementView, view
from cepbook.widgets.base.column_encoding import ViewColumn
from cepbook.widgets.live_view.partition_rows import match_lines, partition_columns
from tests.widgets.fakes import FakeBrowser, FakeHandle, FakeStatement, FakeTime, decoded, opened

DAY = 86_400_000
NESTED: list[dict[str, Any]] = [
    {"id": 0, "Office.startTime": 19_000 * DAY, "Office.endTime": None, "Each.key1": "ann", "events": 2},
    {"id": 2, "Office.startTime": 19_000 * DAY, "Office.endTime": None, "Each.key1": "bob", "events": 1},
    {"id": 3, "Office.startTime": 19_001 * DAY, "Office.endTime": 19_002 * DAY, "Each.key1": "ann", "events": 4},
]
EVENTS = {"a": {"id": 1}, "b": [{"id": 2}, {"id": 3}]}


def nested() -> FakeStatement:
    return FakeStatement(nested=NESTED, levels=("Office", "Each"))


def pattern() -> FakeStatement:
    waiting = [
        PartialMatch(None, "b=B(id > a.id)", 1000 * n, 90_000 if n else None, {"a": {"id": n}}) for n in range(3)
    ]
    return FakeStatement(tags=("a", "b"), waiting=waiting, keeps_rows=False)


def texts(browser: FakeBrowser, part: dict[str, Any], column: int) -> list[str]:
    """A text column of a part of the last frame."""
    return decoded(part["columns"][column], browser.buffers[-1])


# ---------------------------------------------------------------- the tree
def test_a_saved_tree_names_outer_partitions_once() -> None:
    assert str(StatementView(nested()).freeze()).partition("Partitions")[2].splitlines() == [
        ": 3 partitions",
        "  partition                                                              id  events",
        "  Office startTime = 2022-01-08 00:00:00, endTime = null",
        "  · Each key1 = ann                                                       0       2",
        "  · Each key1 = bob                                                       2       1",
        "  Office startTime = 2022-01-09 00:00:00, endTime = 2022-01-10 00:00:00",
        "  · Each key1 = ann                                                       3       4",
    ]


def test_times_of_partitions_are_shown_as_times() -> None:
    assert partition_columns([{"id": 0, "startTime": 5, "key1": None, "events": 1}, {"key1": 1.5}]) == (
        ViewColumn("id", "long"),
        ViewColumn("startTime", "time"),
        ViewColumn("key1", "double"),
        ViewColumn("events", "long"),
    )
    source = FakeStatement(nested=[{"id": 0, "startTime": 61_000, "endTime": None, "events": 1}])
    assert str(StatementView(source).freeze()).splitlines()[-1] == "   0  00:01:01.000  null          1"


# ---------------------------------------------------------------- what a pattern waits for
def test_partial_matches_are_read_only_while_they_are_shown() -> None:
    source, shown, browser = opened(pattern())
    assert (shown.info["waits"], shown.info["keeps"]) == (True, False)
    shown.flush()
    assert source.reads == 0 and "waiting" not in browser.frames[-1]
    browser.ack()
    browser.show("waiting")
    shown.flush(urgent=True)
    waiting = browser.frames[-1]["waiting"]
    assert (waiting["total"], waiting["count"], waiting["partition"]) == (3, 3, None)
    assert [c["name"] for c in waiting["names"]] == ["since", "waiting for", "until", "events so far"]
    assert texts(browser, waiting, 1) == ["b=B(id > a.id)"] * 3
    assert texts(browser, waiting, 2) == ["", "00:01:30.000", "00:01:30.000"]
    assert waiting["lines"] == [["a = {id=0}"], ["a = {id=1}"], ["a = {id=2}"]]


def test_a_saved_pattern_tells_what_it_waits_for() -> None:
    assert str(StatementView(pattern()).freeze()).splitlines()[-5:] == [
        "Waiting: 3 partial matches",
        "  since         waiting for     until         events so far",
        "  00:00:00.000  b=B(id > a.id)                a={id=0}",
        "  00:00:01.000  b=B(id > a.id)  00:01:30.000  a={id=1}",
        "  00:00:02.000  b=B(id > a.id)  00:01:30.000  a={id=2}",
    ]
    source = pattern()
    source.waiting = []
    assert str(StatementView(source).freeze()).endswith("Waiting: for nothing")


def test_the_events_of_a_match_line_by_line() -> None:
    assert match_lines({**EVENTS, "c": None}) == ["a = {id=1}", "b[0] = {id=2}", "b[1] = {id=3}"]


# ---------------------------------------------------------------- provenance
def test_matches_are_kept_while_a_page_looks_and_not_otherwise() -> None:
    source, shown, browser = opened(pattern())
    assert not source.watched
    shown.flush()
    assert source.watched
    browser.say(kind="bye", client=None)
    source.tick()
    assert not source.watched
    browser.hello()
    shown.flush()
    assert source.watched
    shown.close()
    assert not source.watched


def test_statements_without_a_pattern_are_not_watched() -> None:
    source, shown, _ = opened()
    shown.flush()
    assert not source.watched


def test_the_events_of_a_delivery_are_sent_when_asked_for_and_again_until_they_arrive() -> None:
    now = FakeTime()
    source, shown, browser = opened(pattern(), now=now)
    source.tick(2)
    source.matches = {1: DeliveryMatches((EVENTS,), 1)}
    shown.flush()
    assert "matches" not in browser.frames[-1]
    browser.ack()
    browser.say(kind="expand", client="c", delivery=1)
    for _ in range(2):  # the first may get lost
        now.value += 1.1
        shown.flush(urgent=True)
        (match,) = browser.frames[-1]["matches"]
        assert (match["delivery"], match["rows"], match["total"]) == (1, True, 1)
        assert match["matches"] == [["a = {id=1}", "b[0] = {id=2}", "b[1] = {id=3}"]]
        source.tick()
    browser.ack()
    now.value += 1.1
    source.tick()
    shown.flush(urgent=True)
    assert "matches" not in browser.frames[-1]


def test_a_delivery_whose_matches_were_not_kept() -> None:
    source, shown, browser = opened(pattern())
    source.columns = (ViewColumn("a", "A"), ViewColumn("b", "B"))
    source.feed.push(5, [{"a": {"id": 1}, "b": None}], None)  # the row itself has the events
    source.feed.push(6, [{"n": 1}], None)
    for number in (0, 1, 7):
        browser.say(kind="expand", client="c", delivery=number)
    shown.flush()
    found = {match["delivery"]: match for match in browser.frames[-1]["matches"]}
    assert found[0]["matches"] == [["a = {id=1}"]]
    assert found[1]["matches"] == found[7]["matches"] == []
    assert found[1]["nothing"].startswith("Unknown")


def test_a_page_cannot_ask_for_deliveries_without_end() -> None:
    _, shown, browser = opened(pattern())
    for number in range(1000):
        browser.say(kind="expand", client="c", delivery=number)
    shown.flush()
    assert len(browser.frames[-1]["matches"]) == 50


# ---------------------------------------------------------------- over a workbench
def test_a_view_of_a_pattern_under_a_nested_context() -> None:
    cep = Workbench()
    cep.run("""create schema Go(id int); create schema Txn(cust string, amount double);
    create context Shifts context Shift initiated by Go as g terminated after 1 hour,
      context Each partition by cust from Txn;
    @name('rise') context Shifts select b.amount as high from pattern [every a=Txn -> b=Txn(amount > a.amount)]""")
    shown = view(cep, "rise")
    browser = FakeBrowser(shown)
    browser.hello()
    browser.show("partitions")
    shown.flush()
    browser.ack()
    statement = cep.runtime.statement("rise")
    assert len(statement._match_listeners) == 1
    cep.send("Go", id=7)
    for cust, amount in (("ann", 1.0), ("bob", 2.0), ("ann", 3.0)):
        cep.send("Txn", cust=cust, amount=amount)
    browser.show("partitions")
    browser.say(kind="expand", client="c", delivery=0)
    shown.flush(urgent=True)
    frame = browser.frames[-1]
    assert frame["partitions"]["levels"] == [["Shift", 1], ["Each", 2]]
    assert frame["partitions"]["names"][-1]["name"] == "waiting"
    assert frame["matches"][0]["matches"] == [["a = {cust=ann, amount=1.0}", "b = {cust=ann, amount=3.0}"]]
    shown.close()
    assert not statement._match_listeners and len(statement.outlet._sinks) == 1


def test_a_saved_view_notices_partitions_and_partial_matches_although_nothing_is_delivered() -> None:
    cep = Workbench()
    cep.run("""create schema Txn(cust string, amount double); create context C partition by cust from Txn;
    @name('rise') select b.amount as high from pattern [every a=Txn(amount > 1) -> b=Txn(amount > a.amount)];
    @name('big') context C select * from Txn(amount > 100)""")
    for name, quiet, news in (("rise", 0.5, 9.0), ("big", 0.5, None)):
        shown, handle = view(cep, name), FakeHandle()
        shown.show(handle.display)
        cep.send("Txn", cust=name, amount=quiet)
        shown.refresh_if_stale()
        count = len(handle.shown)
        if news is not None:
            assert count == 1, "no atom waits for it"
            cep.send("Txn", cust=name, amount=news)
            shown.refresh_if_stale()
            assert "a={cust=rise, amount=9.0}" in handle.shown[-1]["text/plain"]
        else:
            assert count == 2, "a partition was allocated"
        shown.refresh_if_stale()
        assert len(handle.shown) == 2
        shown.close()


def test_a_view_goes_on_when_the_statement_is_deployed_anew() -> None:
    cep = Workbench()
    cep.run("create schema Txn(amount double)")
    epl = "@name('rise') select b.amount as high from pattern [every a=Txn -> b=Txn(amount > a.amount)]"
    cep.run(epl)
    shown = view(cep, "rise")
    browser = FakeBrowser(shown)
    browser.hello()
    shown.flush()
    browser.ack()
    cep.run(epl + " where b.amount > 5")
    shown.flush(urgent=True)
    assert len(cep.runtime.statement("rise")._match_listeners) == 1
    cep.drop("rise")
    browser.ack()
    shown.flush(urgent=True)
    assert shown.state == "dropped"
    cep.run("@name('rise') select amount from Txn")
    shown.flush(urgent=True)
    assert shown.info["waits"] is False
    shown.close()
