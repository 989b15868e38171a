"""The map: what feeds what, its figures, and what a click opens; names of any content do no harm."""

from __future__ import annotations

import time
from base64 import b64decode
from xml.etree import ElementTree

import pandas as pd
import pytest

from cepbook.display import format_time
from cepbook.session import Workbench
from cepbook.widgets.map.flow_map import FlowMap
from tests.widgets.fakes import FakeBrowser

HOSTILE = "<script>alert(1)</script>\u202e\x07&\"'"
MODULE = """
create schema Tick(symbol string, price double);
create window Latest#unique(symbol) as Tick;
create table Totals(symbol string primary key, n count(*));
@name('fill') insert into Latest select * from Tick;
@name('count') into table Totals select count(*) as n from Tick group by symbol;
@name('high') insert into High select symbol from Tick(price > 10);
@name('seen') select h.symbol as s, l.price as p from High as h unidirectional, Latest as l where h.symbol = l.symbol;
@name('again') insert into Again select symbol as s from Again2;
@name('back') insert into Again2 select s as symbol from Again
"""


def bench() -> Workbench:
    cep = Workbench()
    cep.run("create schema Again2(symbol string); create schema Again(s string)")
    cep.run(MODULE)
    for i, symbol in enumerate("ABAB"):
        cep.send("Tick", symbol=symbol, price=8.0 + i)
    return cep


def test_what_feeds_what() -> None:
    graph = bench().graph()
    kinds = {node.name: (node.kind, node.layer) for node in graph.nodes}
    assert kinds["Tick"] == ("type", 0) and kinds["fill"] == ("statement", 1) and kinds["Latest"] == ("store", 2)
    assert kinds["high"][1] == 1 and kinds["High"] == ("type", 2) and kinds["seen"][1] == 3
    edges = {tuple(each.partition(" ")[2] for each in edge) for edge in graph.edges}
    assert edges >= {("Tick", "fill"), ("fill", "Latest"), ("Latest", "seen"), ("High", "seen"), ("count", "Totals")}
    assert ("Again", "back") in edges and ("back", "Again2") in edges  # in a circle
    places = [(node.layer, node.place) for node in graph.nodes]
    assert len(set(places)) == len(places)


def test_metrics_as_a_frame() -> None:
    cep = bench()
    frame = cep.metrics().set_index("name")
    assert frame.loc["high", ["events", "rows", "state", "errors"]].tolist() == [4, 1, 0, 0]
    assert frame.loc["seen", ["events", "rows"]].tolist() == [1, 1]
    assert frame.loc["Latest", "state"] == 2 and frame["cpu"].isna().all()
    cep.sampler.start()
    cep.sampler.stop()
    assert (cep.metrics()["cpu"] == 0).all() and cep.metrics()["latency"].isna().all()  # no event came meanwhile


def test_the_latency_is_that_of_the_events_that_came_while_somebody_measured() -> None:
    cep = bench()
    for came in (4, 6):
        cep.sampler.start()
        for _ in range(came):
            cep.send("Tick", symbol="A", price=1.0)
        cep.sampler.stop()
        cep.send("Tick", symbol="A", price=1.0)
    cep.sampler.took["high"] = 0.04  # seconds, for ten events
    assert cep.metrics().set_index("name").loc["high", "latency"] == 4_000.0


def test_the_time_of_a_statement_is_what_the_process_used_while_it_ran() -> None:
    """Most of it is one statement's, whatever others do on the machine."""
    cep = Workbench()
    cep.run(
        "create schema Tick(at long, price double);"
        "@name('much') select median(price) as m, stddev(price) as d from Tick#length(500) "
        "output last every 1000 events;"
        "@name('little') select price from Tick(price < 0)"
    )
    ticks = pd.DataFrame({"at": range(200_000), "price": [float(i % 97) for i in range(200_000)]})
    replay = cep.replay(ticks, type="Tick", time="at", paused=True)
    replay.step(1_000)  # which reads the columns
    cep.sampler.start()
    began = time.process_time()
    replay.run()
    spent = time.process_time() - began
    cep.sampler.stop()
    took = cep.metrics().set_index("name")["cpu"]
    assert spent / 2 < took["much"] < spent and took["little"] < took["much"] / 2


def test_the_time_of_a_statement_that_takes_events_one_by_one_is_sampled() -> None:
    cep = Workbench()
    cep.run(
        "create schema Tick(price double);"
        "@name('much') select median(price) as m, stddev(price) as d from Tick#length(500);"
        "@name('little') select price from Tick(price < 0)"
    )
    cep.sampler.start()
    began = time.process_time()
    while time.process_time() - began < 1:
        for i in range(1_000):
            cep.send("Tick", price=float(i % 97))
    spent = time.process_time() - began
    cep.sampler.stop()
    took = cep.metrics().set_index("name")["cpu"]
    assert spent / 20 < took["much"] < spent and took["little"] < took["much"]


def test_what_began_anew_meanwhile_is_counted_too() -> None:
    """Before and after the workbench was rewound, and not what came when nobody measured."""
    cep = Workbench()
    cep.run("create schema Tick(at long, price double); @name('q') select avg(price) as mean from Tick#length(500)")
    ticks = pd.DataFrame({"at": range(50_000), "price": [1.0] * 50_000})

    def replayed(n: int) -> float:
        for _ in range(n):
            cep.rewind()
            cep.replay(ticks, type="Tick", time="at").run()
        return float(cep.metrics().set_index("name").loc["q", "cpu"])

    cep.sampler.start()
    once = replayed(1)
    fivefold = replayed(4)
    cep.sampler.stop()
    assert 0 < 2 * once < fivefold
    assert replayed(1) == fivefold


def test_frames_carry_figures_and_the_picture_once() -> None:
    cep = bench()
    shown = FlowMap(cep)
    browser = FakeBrowser(shown)
    browser.hello()
    shown.flush(urgent=True)
    first = browser.frames[-1]
    assert first["figures"]["statement high"]["words"] == ("4 events", "") and "<svg" in first["svg"]
    browser.ack()
    cep.send("Tick", symbol="C", price=99.0)
    shown.flush(urgent=True)
    assert "svg" not in browser.frames[-1] and browser.frames[-1]["figures"]["store Latest"]["words"] == ("", "holds 3")
    browser.ack()
    cep.drop("seen")
    shown.flush(urgent=True)
    assert "seen" not in browser.frames[-1]["svg"]
    shown.close()


def test_a_saved_map_is_well_formed_whatever_names_hold() -> None:
    cep = bench()
    cep.run(f"@name('{HOSTILE.replace(chr(39), '')}') select * from Tick")
    frozen = FlowMap(cep).freeze()
    image = ElementTree.fromstring(frozen.html).find("img")
    assert image is not None and "Latest: holds 2" in image.attrib["alt"]
    tree = ElementTree.fromstring(b64decode(image.attrib["src"].removeprefix("data:image/svg+xml;base64,")))
    texts = [text for node in tree.iter() if (text := (node.text or "").strip())]
    assert "Latest" in texts and "holds 2" in texts
    svg = ElementTree.tostring(tree, encoding="unicode")
    assert not any(sign in text for sign in ("<script", "\u202e", "\x07") for text in (frozen.html, svg))
    assert FlowMap(cep).freeze() == frozen
    assert str(FlowMap(Workbench()).freeze()) == "nothing is deployed"


@pytest.mark.parametrize("keep", [1, 7, 1000])
def test_the_map_shows_the_past_instant(keep: int) -> None:
    """The figures are those of a replay up to there, whether a snapshot was taken just before or not."""
    ticks = [{"at": 100 * i, "symbol": "ABC"[i % 3], "price": float(i)} for i in range(40)]

    def replayed(until: int | None) -> tuple[Workbench, FlowMap, FakeBrowser]:
        cep = Workbench()
        cep.run("create schema Again2(symbol string); create schema Again(s string)")
        cep.run(MODULE)
        cep.send("Tick", symbol="Z", price=11.0)
        cep.replay(ticks, "Tick", "at", until=until, keep=keep).run()
        shown = FlowMap(cep)
        browser = FakeBrowser(shown)
        browser.hello()
        shown.flush(urgent=True)
        browser.ack()
        return cep, shown, browser

    def words(browser: FakeBrowser) -> dict[str, list[str]]:
        return {name: figures["words"] for name, figures in browser.frames[-1]["figures"].items()}

    cep, shown, browser = replayed(None)
    now = words(browser)
    assert browser.frames[-1]["past"] == ""
    for at in (0, 1950, 2000, 3800):
        replay = next(iter(cep._replays))
        cep.glance.show(at, replay.at(at))
        browser.ack()
        assert browser.frames[-1]["past"] == f"past · {format_time(at)}"
        assert words(browser) == words(replayed(at)[2])
        assert shown.freeze().text.startswith("past · ") and "past · " in shown.freeze().html
        cep.glance.leave()
        browser.ack()
        assert (browser.frames[-1]["past"], words(browser)) == ("", now)


@pytest.mark.parametrize("width", [300, 500, 700, 1000, 1400, None])
def test_the_picture_is_made_for_the_width_of_the_page(width: int | None) -> None:
    """Nodes become narrower before the picture is drawn smaller, which every size may be."""
    shown = FlowMap(bench())
    browser = FakeBrowser(shown)
    browser.hello()
    shown.flush(urgent=True)
    natural = int(ElementTree.fromstring(browser.frames[-1]["svg"]).attrib["width"])
    browser.ack()
    for wrong in (0, -5, "wide", 1e9):
        browser.say(kind="size", width=wrong)
    if width is not None:
        browser.say(kind="size", width=width)
        shown.flush(urgent=True)
    tree = ElementTree.fromstring([frame["svg"] for frame in browser.frames if "svg" in frame][-1])
    drawn = int(tree.attrib["width"])
    assert drawn <= max(6 * 92 + 5 * 16 + 16, min(natural, width or natural))  # six columns
    assert "max-width:100%" in tree.attrib["style"]


def test_who_reads_a_named_window_gets_what_is_inserted_into_it() -> None:
    cep = Workbench()
    cep.run("""create schema A(x int); create window W#keepall as A; create table T(x int primary key, n count(*));
        insert into W select * from A(x > 1); @name('w') select count(*) as n from W;
        @name('t') select T[x].n as n from A;
        @name('j') select a.x as x from A#lastevent as a, W as w where a.x = w.x""")
    for x in range(4):
        cep.send("A", x=x)
    events = cep.metrics().set_index("name")["events"]
    assert [events[name] for name in ("W", "w", "j", "t")] == [2, 2, 6, 4]
