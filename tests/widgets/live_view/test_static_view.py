"""What a saved notebook holds: escaped, the same in every run, readable as plain text."""

from __future__ import annotations

from html.parser import HTMLParser

from cepbook.widgets import ReplayControl, StatementView
from cepbook.widgets.base.column_encoding import ViewColumn
from cepbook.widgets.base.static_picture import row_cells
from tests.widgets.fakes import FakeReplay, FakeStatement, opened

EVIL = "<img src=x onerror=alert(1)>&\"'"


class Tags(HTMLParser):
    """The tags of a document, and whether they are closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def filled() -> FakeStatement:
    source = FakeStatement(now=1_357_016_400_000)
    source.feed.push(source.now, [{"symbol": "A", "price": 1.5}, {"symbol": "B", "price": 2.25}], None)
    source.feed.push(source.now + 7, [{"symbol": "C", "price": None}], [{"symbol": "A", "price": 1.5}])
    source.contents = [{"symbol": "B", "price": 2.25}, {"symbol": "C", "price": None}]
    source.parts = {0: [source.contents[0]], 1: [source.contents[1]]}
    return source


def test_plain_text() -> None:
    assert (
        str(StatementView(filled()).freeze())
        == """\
out: 3 insert rows, 1 remove row  (clock 2013-01-01 05:00:00)
Stream
  time                        symbol  price
  2013-01-01 05:00:00.000  +  A        1.50
  2013-01-01 05:00:00.000  +  B        2.25
  2013-01-01 05:00:00.007  +  C        null
  2013-01-01 05:00:00.007  −  A        1.50
Window: 2 rows
  symbol  price
  B        2.25
  C        null
Partitions: 2 partitions
  id  symbol  events
   0  B            1
   1  C            1"""
    )


def test_an_empty_statement_says_so() -> None:
    text = str(StatementView(FakeStatement()).freeze())
    assert text == "out: 0 insert rows, 0 remove rows  (clock 00:00:00.000)\nStream: no rows yet\nWindow: empty"


def test_a_statement_that_keeps_no_rows_says_why() -> None:
    view = StatementView(FakeStatement(keeps_rows=False))
    assert str(view.freeze()).splitlines()[-1] == "Window: keeps no rows: no data window"
    assert view.info["nothing"] == "The statement keeps no rows: no data window."
    assert StatementView(FakeStatement()).info["nothing"] == "The window is empty."


def test_a_table_has_rows_and_no_stream() -> None:
    view = StatementView(FakeStatement(delivers=False))
    assert str(view.freeze()) == "out  (clock 00:00:00.000)\nRows: empty"
    assert view.info["nothing"] == "The table is empty."


def test_only_the_last_rows_are_kept() -> None:
    source = FakeStatement()
    source.tick(100)
    source.contents = [{"symbol": "A", "price": float(i)} for i in range(30)]
    text = str(StatementView(source).freeze())
    assert "Stream: last 20 of 100 rows" in text and "Window: last 20 of 30 rows" in text
    assert "100.0" in text and " 80.0" not in text


def test_two_views_of_the_same_state_have_the_same_picture() -> None:
    first, second = (StatementView(filled())._repr_mimebundle_() for _ in range(2))
    for mime in ("text/plain", "text/html"):
        assert first[0][mime] == second[0][mime]
    assert "application/vnd.jupyter.widget-view+json" in first[0]


def test_a_display_does_not_change_the_picture() -> None:
    _, view, browser = opened(filled())
    before = view.freeze()
    view.flush()
    browser.ack()
    assert view.freeze() == before


def test_everything_is_escaped() -> None:
    source = filled()
    source.name, source.epl = f"s{EVIL}", f"select '{EVIL}'"
    source.columns = (ViewColumn(f"c{EVIL}", "string"), ViewColumn("price", "object"))
    source.feed.push(1, [{f"c{EVIL}": EVIL, "price": {EVIL: [EVIL]}}], None)
    source.contents = [{f"c{EVIL}": EVIL, "price": EVIL}]
    html = StatementView(source).freeze().html
    parsed = Tags(html)
    assert parsed.seen == {"div", "span", "pre", "table", "thead", "tbody", "tr", "th", "td"}
    assert parsed.open == []
    assert EVIL in parsed.text


def test_the_picture_needs_nothing_from_outside() -> None:
    html = StatementView(filled()).freeze().html
    for word in ("http", "src=", "href", "class=", "id=", "<script", "<style"):
        assert word not in html


def test_a_progress_has_no_rate_and_no_wall_clock() -> None:
    control = ReplayControl(FakeReplay(events=1234, total=5678, clock=1_357_016_400_000, state="paused"))
    text = "replay paused: 1,234 of 5,678 events, clock 2013-01-01 05:00:00"
    assert repr(control) == text
    assert control._repr_mimebundle_()[0]["text/html"] == f"<div>{text}</div>"
    unknown = ReplayControl(FakeReplay(events=1, total=None, state="running"))
    assert repr(unknown) == "replay running: 1 event, clock 00:00:00.000"


def test_times_of_a_column_are_told_alike() -> None:
    columns = (ViewColumn("at", "long", timed=True), ViewColumn("n", "long"))
    rows = [{"at": 1357019100000, "n": 1000}, {"at": 1357019100500, "n": 1}, {"at": None, "n": None}]
    assert row_cells(rows, columns) == [
        ("2013-01-01 05:45:00.000", "1000"), ("2013-01-01 05:45:00.500", "1"), ("null", "null"),
    ]  # fmt: skip
    assert row_cells(rows[:1], columns) == [("2013-01-01 05:45:00", "1000")]
