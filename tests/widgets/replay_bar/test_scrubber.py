"""The bar under a replay: the past without disturbing the run, until something fires, the clock, the speed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cepbook.session import Replay, Workbench
from cepbook.widgets import ReplayControl, StatementView, WorkbenchSource, view
from cepbook.widgets.replay_bar.scrubber import TRIGGER_NAME, Scrubber
from tests.widgets.fakes import FakeBrowser, FakeTime

TICKS = [{"time": 100 * i, "symbol": "ABC"[i % 3], "price": float(i)} for i in range(100)]


def bench() -> Workbench:
    cep = Workbench()
    cep.run(
        "create schema Tick(symbol string, price double);"
        "create context PerSymbol partition by symbol from Tick;"
        "@name('sums') context PerSymbol select symbol, sum(price) as total from Tick#time(1 sec);"
        "@name('high') select * from Tick(price % 10 = 0);"
        "@name('rise') select b.price as top from pattern [every a=Tick(symbol='A') -> b=Tick(symbol='B', price > 50)]"
    )
    return cep


def replayed(*, keep: int | None = 20, upto: int = 100, **options: Any) -> tuple[Workbench, Replay, FakeBrowser]:
    cep = bench()
    replay = cep.replay(TICKS, type="Tick", time="time", keep=keep, paused=True, **options)
    if 0 < upto < 100:
        replay.step(upto)
    elif upto:
        replay.run()
    control = ReplayControl(replay, now=FakeTime())
    browser = FakeBrowser(control)
    browser.hello()
    control.flush(urgent=True)
    return cep, replay, browser


def order(browser: FakeBrowser, **content: object) -> dict[str, Any]:
    """Send an order; what the next frame tells."""
    if browser.frames:
        browser.ack()
    browser.say(kind="order", **content)
    browser.widget.flush(urgent=True)
    found: dict[str, Any] = browser.frames[-1]["scrub"]
    return found


def test_views_show_a_past_instant_and_the_run_stays_as_it_is() -> None:
    cep, replay, browser = replayed(upto=80)
    now, before = cep.runtime.now, cep.iterate("sums")
    views = {name: StatementView(WorkbenchSource(cep, name), now=FakeTime()) for name in ("sums", "rise")}
    pages = {name: FakeBrowser(shown) for name, shown in views.items()}
    for page in pages.values():
        page.hello()
        page.show("partitions" if page is pages["sums"] else "waiting")
        page.widget.flush(urgent=True)
        page.ack()
    assert order(browser, order="seek", time=4050)["past"] == 4050
    for name, page in pages.items():
        frame = page.frames[-1]
        assert (frame["state"], frame["clock"]) == ("past", "00:00:04.050")
        assert frame["counts"]["inserted"] == sum(time <= 4050 for time in cep.feed(name).columns().times)
    assert pages["rise"].frames[-1]["waiting"]["total"] == 15
    assert (cep.runtime.now, cep.iterate("sums")) == (now, before)
    replay.step(1)
    assert cep.runtime.now > now
    for page in pages.values():
        page.ack()
    assert order(browser, order="seek", time=None)["past"] is None
    assert pages["sums"].frames[-1]["state"] == "paused"
    result = replay.run()
    assert result is not None and result.events == 100
    other = bench()
    other.replay(TICKS, type="Tick", time="time").run()
    assert all(cep.changes(name).equals(other.changes(name)) for name in ("sums", "high", "rise"))


@pytest.mark.histories
def test_every_instant_is_what_a_replay_up_to_it_leaves() -> None:
    cep, _, browser = replayed(keep=7)
    for time in (0, 50, 1999, 2000, 9900):
        order(browser, order="seek", time=time)
        past = cep.glance.workbench or cep
        other = bench()
        other.replay(TICKS, type="Tick", time="time", until=time).run()
        assert past.iterate("sums") == other.iterate("sums")
        assert past.partials("rise").equals(other.partials("rise"))
        until = cep.feed("sums").until(time)
        there = other.feed("sums")
        assert (until.total_insert, until.deliveries) == (there.total_insert, there.deliveries)
        assert until.columns().values == there.columns().values


def test_from_delivery_to_delivery() -> None:
    _, _, browser = replayed()
    assert order(browser, order="seek", time=4550)["past"] == 4550
    assert order(browser, order="hop", statement="high", back=False)["past"] == 5000
    assert order(browser, order="hop", statement="high", back=False)["past"] == 6000
    assert order(browser, order="hop", statement="high", back=True)["past"] == 5000
    assert order(browser, order="seek", time=0)["past"] == 0
    assert "no earlier delivery of `high`" in order(browser, order="hop", statement="high", back=True)["note"]
    assert "there is no statement `nosuch`" in order(browser, order="hop", statement="nosuch", back=True)["note"]


def test_bookmarks() -> None:
    _, _, browser = replayed()
    for time in (5000, 1000, 5000):
        order(browser, order="seek", time=time)
        order(browser, order="mark")
    assert order(browser, order="seek", time=3000)["marks"] == [1000, 5000]
    assert order(browser, order="unmark", time=1000)["marks"] == [5000]


@pytest.mark.parametrize("upto", [0, 7])
@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("rise", 5200),
        ("Tick(price > 41)", 4200),
        ("select * from Tick(symbol='C', price > 9)#length(2) having count(*) = 2", 1400),
    ],
)
def test_until_something_fires(text: str, time: int, upto: int) -> None:
    cep, replay, browser = replayed(upto=upto)
    assert order(browser, order="until", text=text)["note"] == ""
    replay.run()
    assert (cep.runtime.now, replay.state) == (time, "paused")
    browser.ack()
    browser.widget.flush(urgent=True)
    assert browser.frames[-1]["scrub"]["note"] == f"fired: {text}"
    assert "until this fires" not in cep.runtime.statements


@pytest.mark.parametrize(("text", "fact"), [("", "until what"), ("Tock(price > 1)", "Tock"), ("high +", "syntax")])
def test_what_cannot_be_waited_for(text: str, fact: str) -> None:
    cep, replay, browser = replayed(upto=7)
    assert fact in order(browser, order="until", text=text)["note"]
    assert replay.state == "paused" and "until this fires" not in cep.runtime.statements


@pytest.mark.parametrize(
    ("text", "line", "marked"),
    [
        ("Tick(prize > 1)", "1 | Tick(prize > 1)", "prize"),
        ("select * from Tick(prize > 1)", "1 | select * from Tick(prize > 1)", "prize"),
        ("Tick(price >", "1 | Tick(price >", " "),
    ],
)
def test_mistakes_in_what_is_waited_for_are_shown_in_what_was_written(text: str, line: str, marked: str) -> None:
    _, _, browser = replayed(upto=7)
    lines = order(browser, order="until", text=text)["note"].split("\n")
    caret = lines[lines.index(line) + 1]
    assert (line + " ")[caret.index("^") : caret.rindex("^") + 1] == marked


def test_the_clock_goes_on_by_a_period_or_to_what_is_due() -> None:
    cep, replay, browser = replayed(upto=7)
    order(browser, order="clock", by=1000)
    replay.run()
    assert (cep.runtime.now, replay.state, replay.progress.events) == (1600, "paused", 17)
    order(browser, order="clock", due=True)
    replay.run()
    assert cep.runtime.now == 1700
    replay.run()
    assert replay.state == "finished"
    order(browser, order="clock", by=500)
    assert cep.runtime.now == 10_400
    order(browser, order="clock", due=True)
    assert cep.runtime.now == 10_500


def test_the_clock_of_a_past_instant_moves_through_the_past_alone() -> None:
    cep, _, browser = replayed()
    now = cep.runtime.now
    assert order(browser, order="seek", time=4050)["past"] == 4050
    assert order(browser, order="clock", by=1000)["past"] == 5050
    due = cep.glance.workbench.runtime.next_due if cep.glance.workbench is not None else None
    assert due == 5100 and order(browser, order="clock", due=True)["past"] == due
    assert cep.runtime.now == now and cep.clock_by_hand is None
    assert order(browser, order="clock", by=60_000)["past"] is None and cep.runtime.now == now  # the span ends before
    order(browser, order="clock", by=500)
    assert cep.clock_by_hand == cep.clock and cep.runtime.now == now + 500


def test_the_speed_can_be_changed() -> None:
    _, replay, browser = replayed(upto=7)
    assert order(browser, order="speed", factor=60)["speed"] == 60
    assert "a factor above 0" in order(browser, order="speed", factor=-1)["note"]
    assert replay.speed == 60
    assert order(browser, order="speed", factor=None)["speed"] is None


def test_without_snapshots_the_bar_says_so() -> None:
    _, _, browser = replayed(keep=None)
    assert order(browser, order="mark")["span"] is None
    assert "keeps no snapshots" in order(browser, order="seek", time=5)["note"]


def test_orders_of_any_content_do_no_harm() -> None:
    _, replay, browser = replayed(upto=7)
    for content in ({"order": "seek", "time": "x"}, {"order": "hop"}, {"order": 5}, {"order": "clock", "by": None}, {}):
        browser.say(kind="order", **content)
    assert replay.state == "paused"


@pytest.mark.histories
def test_an_order_is_obeyed_while_the_replay_runs() -> None:
    async def main() -> None:
        cep = bench()
        replay = cep.replay(TICKS, type="Tick", time="time", keep=20, speed=2)
        control = ReplayControl(replay)
        browser = FakeBrowser(control)
        browser.hello()
        for _ in range(10):
            await asyncio.sleep(0.05)
        browser.say(kind="order", order="seek", time=300)
        await asyncio.sleep(0.05)
        assert cep.glance.time == 300 and cep.runtime.now > 300 and replay.state == "running"
        replay.stop()
        control.close()

    asyncio.run(main())


def test_statements_with_names_come_first() -> None:
    cep = Workbench()
    cep.run("create schema A(x int, at long); create variable int v = 1; select x from A")
    cep.run("@name('named') select x from A where x > v")
    replay = cep.replay([{"x": 1, "at": 1}], type="A", time="at", keep=True)
    assert Scrubber(replay, cep).describe()["statements"] == ["named", "stmt_3"]  # a variable delivers nothing


@pytest.mark.parametrize("options", [{}, {"leap": True}, {"speed": 1e9}])
def test_the_bar_begins_with_the_first_event_wherever_the_clock_stood(options: dict[str, Any]) -> None:
    cep = Workbench()  # its clock stands at 1970
    cep.run("create schema A(x int); @name('q') select x from A")
    begin = 1_709_251_200_000
    events = [{"x": n, "at": begin + n * 60_000} for n in range(10)]
    replay = cep.replay(events, type="A", time="at", keep=True, **options)
    bar = Scrubber(replay, cep)
    assert bar.describe()["span"] == [0, 0]
    replay.step(4)
    assert bar.describe()["span"] == [begin, begin + 180_000]
    assert replay.at(begin - 1).feed("q").deliveries == 0  # what was before can be asked for all the same


def test_each_instant_that_is_asked_for_is_answered_also_the_one_that_is_shown() -> None:
    _, _, browser = replayed()
    for time in (None, 99_999, 2000, 2000, None):
        before = len(browser.frames)
        order(browser, order="seek", time=time)
        assert len(browser.frames) > before


def test_choices_are_kept_for_the_next_page() -> None:
    cep, _, browser = replayed(upto=50)
    assert order(browser, order="mark")["statement"] == "sums"
    view(cep, "high")
    assert order(browser, order="mark")["statement"] == "high"  # the one that is viewed
    assert order(browser, order="choose", statement="rise")["statement"] == "rise"
    assert order(browser, order="choose", step=25)["step"] == 25
    order(browser, order="choose", text="Tick(price > 1)")
    for nonsense in ({"step": 0}, {"step": "x"}, {"text": "x" * 20_000}, {"statement": 7}, {}):
        browser.say(kind="order", order="choose", **nonsense)
    browser.hello()
    browser.widget.flush(urgent=True)
    scrub = browser.frames[-1]["scrub"]
    assert (scrub["statement"], scrub["step"], scrub["text"]) == ("rise", 25, "Tick(price > 1)")


def test_a_wrong_text_leaves_the_one_before_in_place() -> None:
    cep, replay, browser = replayed(upto=10)
    assert order(browser, order="until", text="Tick(price = 42)")["awaited"] == "Tick(price = 42)"
    scrub = order(browser, order="until", text="Tick(prise = 42)")
    assert scrub["awaited"] == "Tick(price = 42)" and "prise" in scrub["note"]
    assert TRIGGER_NAME not in scrub["statements"]
    replay.run()
    browser.ack()
    browser.widget.flush(urgent=True)
    scrub = browser.frames[-1]["scrub"]
    assert (replay.progress.events, scrub["awaited"], scrub["note"]) == (43, None, "fired: Tick(price = 42)")
    assert TRIGGER_NAME not in cep.runtime.statements


def test_a_statement_that_is_dropped_cannot_fire() -> None:
    cep, replay, browser = replayed(upto=10)
    order(browser, order="until", text="high")
    cep.drop("high")
    scrub = order(browser, order="mark")
    assert replay.state == "paused" and "`high` was dropped" in scrub["note"]
    order(browser, order="until", text="Tick(price > 1e9)")
    replay.run()
    browser.ack()
    browser.widget.flush(urgent=True)
    assert "`Tick(price > 1e9)` did not fire" in browser.frames[-1]["scrub"]["note"]


def test_the_bar_goes_on_with_the_replay_that_repeats_its_own() -> None:
    cep, replay, browser = replayed()
    order(browser, order="seek", time=5000)
    order(browser, order="mark")
    asyncio.run(cep.replay_again())
    browser.ack()
    browser.widget.flush(urgent=True)
    frame = browser.frames[-1]
    assert (replay.lacks, frame["state"], frame["events"]) == ("the workbench has begun anew since", "finished", 100)
    assert (frame["scrub"]["marks"], frame["scrub"]["lacks"]) == ([5000], "")
    assert order(browser, order="seek", time=4000)["past"] == 4000
