"""Tables and sentences as HTML: one writer for all that a notebook shows."""

from __future__ import annotations

from pathlib import Path

from cepbook.shown import Table, captioned, prose, table_html

ROOT = Path(__file__).resolve().parents[1]


def test_sentences_may_take_several_lines_and_values_one() -> None:
    html = table_html(Table(("a", "b"), (False, True), (("x" * 61, "1"), ("two\nlines", "2"))))
    assert html.count("white-space:pre-wrap") == 2 and html.count("white-space:nowrap") == 2
    assert html.count("text-align:left") == 3


def test_backticks_of_sentences_are_code_and_nothing_of_a_text_is_markup() -> None:
    assert prose("write `a < b`, not `b") == "write <code>a &lt; b</code>, not `b"
    shown = captioned("<i>", Table(("<b>",), (False,), (("`<script>`",),)), ("<u>",))
    assert all(f"<{tag}>" not in shown for tag in ("i", "b", "u", "script", "code"))
    assert "`&lt;script&gt;`" in shown  # a value, not a sentence


def test_no_other_writer_of_tables() -> None:
    found = [p for p in (ROOT / "cepbook").rglob("*.py") if "<table" in p.read_text(encoding="utf-8")]
    assert [p.name for p in found] == ["shown.py"]
