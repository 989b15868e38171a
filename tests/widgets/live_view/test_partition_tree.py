"""The tree of a nested context: which lines a page gets, folded and unfolded, searched and sorted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cepbook.session import Workbench
from cepbook.widgets import StatementView, WorkbenchSource, view
from cepbook.widgets.live_view.partition_tree import UNFOLDED_LIMIT, FoldState, TreeLines
from cepbook.widgets.live_view.row_filter import RowFilter
from tests.widgets.fakes import FakeBrowser, FakeTime, decoded

EPL = """
create schema Tick(venue string, trader string, price double);
create context Traders context PerVenue partition by venue from Tick, context Each partition by trader from Tick;
@name('out') context Traders select avg(price) as mean from Tick#length(3)"""
TALL = range(10_000)


def workbench(venues: int, traders: int) -> Workbench:
    cep = Workbench()
    cep.run(EPL)
    for venue in range(venues):
        for trader in range(traders):
            cep.send("Tick", venue=f"V{venue}", trader=f"T{trader:03d}", price=float(trader))
    return cep


def texts(seen: TreeLines) -> list[str]:
    return ["  " * line.depth + str(line.row["partition"]) for line in seen.lines]


def test_a_small_tree_is_unfolded() -> None:
    seen = WorkbenchSource(workbench(2, 2), "out").outline(RowFilter(), FoldState(), TALL)
    assert texts(seen) == [
        "PerVenue venue = V0",
        "  Each trader = T000",
        "  Each trader = T001",
        "PerVenue venue = V1",
        "  Each trader = T000",
        "  Each trader = T001",
    ]
    assert (seen.count, seen.total, seen.matching, list(seen.levels)) == (6, 4, 4, [2, 4])
    assert [line.row["id"] for line in seen.lines] == [None, 0, 1, None, 2, 3]
    assert [line.row["partitions"] for line in seen.lines] == [2, None, None, 2, None, None]
    assert [line.row["events"] for line in seen.lines] == [2, 1, 1, 2, 1, 1], "of nodes the sum"
    assert [(line.place, line.siblings) for line in seen.lines] == [(0, 2), (0, 2), (1, 2), (1, 2), (0, 2), (1, 2)]


def test_a_large_tree_is_folded_and_unfolds_where_somebody_clicks() -> None:
    source = WorkbenchSource(workbench(3, UNFOLDED_LIMIT), "out")
    folded = source.outline(RowFilter(), FoldState(), TALL)
    assert texts(folded) == [f"PerVenue venue = V{i}" for i in range(3)]
    assert [line.row["partitions"] for line in folded.lines] == [UNFOLDED_LIMIT] * 3
    assert [line.row["events"] for line in folded.lines] == [None] * 3, "of many it would cost too much to add up"
    number = folded.lines[1].number
    whole = source.outline(RowFilter(), FoldState(opened=frozenset({number})), TALL)
    assert whole.count == 3 + UNFOLDED_LIMIT and whole.lines[1].opened and not whole.lines[0].opened
    assert texts(whole)[1:3] == ["PerVenue venue = V1", "  Each trader = T000"]
    assert texts(whole)[-1] == "PerVenue venue = V2"
    for shown in (range(2), range(1, 9), range(100, 130), range(UNFOLDED_LIMIT, UNFOLDED_LIMIT + 9), range(900, 950)):
        part = source.outline(RowFilter(), FoldState(opened=frozenset({number})), shown)
        assert (list(part.lines), part.count) == (list(whole.lines[shown.start : shown.stop]), whole.count)


def test_a_small_tree_folds_and_a_number_outlives_its_node() -> None:
    cep = workbench(2, 2)
    source = WorkbenchSource(cep, "out")
    number = source.outline(RowFilter(), FoldState(), TALL).lines[0].number
    shut = FoldState(shut=frozenset({number, 999}))
    assert texts(source.outline(RowFilter(), shut, TALL))[:2] == ["PerVenue venue = V0", "PerVenue venue = V1"]
    cep.runtime.context("Traders").end_partition(0)
    seen = source.outline(RowFilter(), FoldState(), TALL)
    assert (seen.lines[0].row["partitions"], seen.total) == (1, 3)
    cep.drop("out")
    cep.run(EPL.rpartition(";")[2])
    assert source.outline(RowFilter(), shut, TALL).count == 0
    cep.send("Tick", venue="V0", trader="x", price=1.0)
    assert texts(source.outline(RowFilter(), shut, TALL)) == ["PerVenue venue = V0"], "the same keys, the same node"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("t001", ["PerVenue venue = V0", "  Each trader = T001", "PerVenue venue = V1", "  Each trader = T001"]),
        ("v1", ["PerVenue venue = V1", "  Each trader = T000", "  Each trader = T001"]),
        ("T001 V1", ["PerVenue venue = V1", "  Each trader = T001"]),
        ("3", ["PerVenue venue = V1", "  Each trader = T001"]),
        ("nobody", []),
    ],
)
def test_words_are_looked_for_on_all_levels(words: str, expected: list[str]) -> None:
    source = WorkbenchSource(workbench(2, 2), "out")
    seen = source.outline(RowFilter.of({"filter": words}), FoldState(), TALL)
    assert texts(seen) == expected
    leaves = sum(line.number == 0 for line in seen.lines)
    assert (seen.matching, seen.total) == (leaves, 4)
    assert sum(line.row["partitions"] or 0 for line in seen.lines) == leaves  # type: ignore[misc]


def test_what_is_found_follows_what_comes_and_goes() -> None:
    cep = workbench(2, 2)
    source, choice = WorkbenchSource(cep, "out"), RowFilter.of({"filter": "t001"})
    assert source.outline(choice, FoldState(), TALL).matching == 2
    cep.send("Tick", venue="V2", trader="T001", price=1.0)
    assert source.outline(choice, FoldState(), TALL).matching == 3
    cep.runtime.context("Traders").end_partition(1)
    assert source.outline(choice, FoldState(), TALL).matching == 2
    assert source.outline(RowFilter(), FoldState(), TALL).matching == 4


def test_nodes_are_sorted_beside_each_other_by_what_they_got_together() -> None:
    cep = workbench(3, 3)
    source = WorkbenchSource(cep, "out")
    source.count(True)
    for i, (venue, trader) in enumerate([(1, 2), (1, 2), (2, 0), (1, 1), (2, 0), (2, 0), (2, 1)]):
        cep.advance(1000 * (i + 1))
        cep.send("Tick", venue=f"V{venue}", trader=f"T{trader:03d}", price=0.0)
    seen = source.outline(RowFilter(by="arrived", down=True), FoldState(), TALL)
    assert [(line.row["partition"], line.row["arrived"]) for line in seen.lines] == [
        ("PerVenue venue = V2", 4),
        ("Each trader = T000", 3),
        ("Each trader = T001", 1),
        ("Each trader = T002", 0),
        ("PerVenue venue = V1", 3),
        ("Each trader = T002", 2),
        ("Each trader = T001", 1),
        ("Each trader = T000", 0),
        ("PerVenue venue = V0", 0),
        ("Each trader = T000", 0),
        ("Each trader = T001", 0),
        ("Each trader = T002", 0),
    ]
    assert [line.row["last event"] for line in seen.lines][:2] == [7000, 6000]
    by_name = source.outline(RowFilter(by="partition", down=True), FoldState(), TALL)
    assert texts(by_name)[:2] == ["PerVenue venue = V2", "  Each trader = T002"]
    by_size = source.outline(RowFilter(by="events", down=True), FoldState(), TALL)
    assert [line.row["events"] for line in by_size.lines if line.number] == [6, 6, 3]
    later = WorkbenchSource(cep, "out")
    later.count(True)
    counted = later.outline(RowFilter(), FoldState(), TALL).lines
    assert {line.row["arrived"] for line in counted} == {0}, "who looks later counts from then on"


def test_of_three_levels() -> None:
    cep = Workbench()
    cep.run("""create schema Tick(a string, b string, c double);
    create context Deep context A partition by a from Tick, context Kind group by c < 0 as low, group by c >= 0 as high
    from Tick, context B partition by b from Tick; @name('deep') context Deep select count(*) as n from Tick""")
    for a, b, c in [("x", "p", 1.0), ("x", "q", -1.0), ("x", "r", 2.0), ("y", "p", 3.0)]:
        cep.send("Tick", a=a, b=b, c=c)
    source = WorkbenchSource(cep, "deep")
    seen = source.outline(RowFilter(), FoldState(), TALL)
    assert (seen.total, list(seen.levels)) == (4, [2, 4, 4])
    assert texts(seen) == [
        "A a = x",
        "  Kind label = low",
        "    B b = q",
        "  Kind label = high",
        "    B b = p",
        "    B b = r",
        "A a = y",
        "  Kind label = low",
        "  Kind label = high",
        "    B b = p",
    ]
    assert [line.row["partitions"] for line in seen.lines if line.number] == [3, 1, 2, 1, 0, 1]
    found = source.outline(RowFilter.of({"filter": "high r"}), FoldState(), TALL)
    assert texts(found) == ["A a = x", "  Kind label = high", "    B b = r"]


def read(browser: FakeBrowser, name: str) -> list[Any]:
    """A column of the lines in the last frame."""
    listed = browser.frames[-1]["partitions"]
    at = [each["name"] for each in listed["names"]].index(name)
    return decoded(listed["columns"][at], browser.buffers[-1])


@pytest.fixture
def opened() -> Iterator[tuple[StatementView, FakeBrowser]]:
    shown = view(workbench(3, UNFOLDED_LIMIT), "out")
    browser = FakeBrowser(shown)
    browser.hello()
    yield shown, browser
    shown.close()


def test_a_page_gets_the_lines_in_sight(opened: tuple[StatementView, FakeBrowser]) -> None:
    shown, browser = opened
    browser.say(kind="show", client="c", pane="partitions", first=0, rows=2)
    shown.flush(urgent=True)
    listed = browser.frames[-1]["partitions"]
    assert read(browser, "partition") == ["PerVenue venue = V0", "PerVenue venue = V1"]
    assert (listed["count"], listed["total"], listed["levels"]) == (
        3,
        3 * UNFOLDED_LIMIT,
        [["PerVenue", 3], ["Each", 3 * UNFOLDED_LIMIT]],
    )
    number = decoded(listed["tree"]["number"], browser.buffers[-1])[1]
    browser.ack()
    browser.say(kind="show", client="c", pane="partitions", first=1, rows=3, opened=[number, "x", None], shut=5)
    shown.flush(urgent=True)
    listed = browser.frames[-1]["partitions"]
    assert read(browser, "partition") == ["PerVenue venue = V1", "Each trader = T000", "Each trader = T001"]
    assert (listed["count"], listed["first"]) == (3 + UNFOLDED_LIMIT, 1)
    assert decoded(listed["tree"]["depth"], browser.buffers[-1]) == [0, 1, 1]
    assert decoded(listed["tree"]["opened"], browser.buffers[-1]) == [True, False, False]
    assert read(browser, "id") == [None, UNFOLDED_LIMIT, UNFOLDED_LIMIT + 1]


def test_a_frame_does_not_grow_with_the_tree() -> None:
    sizes = []
    for traders in (UNFOLDED_LIMIT, 4 * UNFOLDED_LIMIT):
        shown = view(workbench(2, traders), "out")
        browser = FakeBrowser(shown)
        browser.hello()
        browser.say(kind="show", client="c", pane="partitions", first=0, rows=70)
        shown.flush(urgent=True)
        sizes.append(sum(map(len, browser.buffers[-1])))
        shown.close()
    assert sizes[0] <= sizes[1] <= sizes[0] + 8, "but for wider numbers"


def test_hostile_keys_are_only_text() -> None:
    cep = Workbench()
    cep.run(EPL)
    cep.send("Tick", venue="<b>\x00\u202e", trader="T" * 2_000_000, price=1.0)
    cep.send("Tick", venue=None, trader=None, price=1.0)
    shown = view(cep, "out", rate=20.0)
    shown._pump._now = FakeTime()
    browser = FakeBrowser(shown)
    browser.hello()
    browser.say(kind="show", client="c", pane="partitions", first=0, rows=70, filter="")
    shown.flush(urgent=True)
    labels = read(browser, "partition")
    assert labels[0].startswith("PerVenue venue = <b>\\x00\\u202e") and max(map(len, labels)) <= 320
    assert labels[2:] == ["PerVenue venue = null", "Each trader = null"]
    shown.close()
