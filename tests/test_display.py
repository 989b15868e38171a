"""Tables and sentences as HTML: one writer for all that a notebook shows."""

from __future__ import annotations

from pathlib import Path

from cepbook.display import DisplayTable, captioned_html, prose_html, table_html

ROOT = Path(__file__).resolve().parents[1]


def test_times_and_sentences_may_take_several_lines_and_values_one() -> None:
    lines = (("x" * 61, "1"), ("two\nlines", "2"), ("2013-01-01 10:00:00", "event type"))
    html = table_html(DisplayTable(("a", "b"), (False, True), lines))
    assert html.count("white-space:pre-wrap") == 3 and html.count("white-space:nowrap") == 3
    assert html.count("text-align:left") == 4


def test_names_break_where_a_part_begins_and_nothing_else_does() -> None:
    lines = (("SegmentedByCustomer", "a_b"), ("1709540460000.125", "2013-01-01"))
    html = table_html(
        DisplayTable(("SpanA.startTime", "mean_delay", "delay"), (False,) * 3, tuple((*x, "") for x in lines))
    )
    assert ">Span<wbr>A.<wbr>start<wbr>Time</th>" in html and ">mean_<wbr>delay</th>" in html and ">delay</th>" in html
    assert ">Segmented<wbr>By<wbr>Customer</td>" in html and html.count("nowrap") == 5
    help_ = table_html(DisplayTable(("method",), (False,), (("sorted.floorEvents",),), prose=(True,)))
    assert ">sorted.<wbr>floor<wbr>Events</td>" in help_


def test_only_columns_of_sentences_have_code() -> None:
    html = table_html(DisplayTable(("value", "note"), (False, False), (("`a`", "`a` was meant"),), prose=(False, True)))
    assert ">`a`</td>" in html and "><code>a</code> was meant</td>" in html


def test_backticks_of_sentences_are_code_and_nothing_of_a_text_is_markup() -> None:
    assert prose_html("write `a < b`, not `b") == "write <code>a &lt; b</code>, not `b"
    shown = captioned_html("<i>", DisplayTable(("<b>",), (False,), (("`<script>`",),)), ("<u>",))
    assert all(f"<{tag}>" not in shown for tag in ("i", "b", "u", "script", "code"))
    assert "`&lt;script&gt;`" in shown  # a value, not a sentence


def test_no_other_writer_of_tables() -> None:
    found = [p for p in (ROOT / "cepbook").rglob("*.py") if "<table" in p.read_text(encoding="utf-8")]
    assert [p.name for p in found] == ["display.py"]
