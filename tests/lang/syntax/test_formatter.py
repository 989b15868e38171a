"""The formatter: what it makes is the same EPL, formatting again changes nothing, no comment is lost."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cepbook.errors import ParseError
from cepbook.lang.registry.clauses import CLAUSE_OF_KEYWORD, CLAUSES, ClauseRow
from cepbook.lang.syntax import formatter
from cepbook.lang.syntax.formatter import format_epl
from cepbook.lang.syntax.reader.lexer import tokenize
from cepbook.lang.syntax.reader.parser import parse_epl

CORPUS = Path(__file__).parents[2] / "corpus"
FENCE = re.compile(r"^```epl[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(//[^\n]*|/\*.*?\*/)", re.DOTALL)
FILES = sorted(CORPUS.rglob("*.md"))
TEXTS = [
    body
    for file in FILES
    if file.parent.name in ("basic", "joins", "patterns", "contexts", "expressions", "match_recognize", "named_windows")
    for body in FENCE.findall(file.read_text(encoding="utf-8"))
]


def comments(text: str) -> list[str]:
    return sorted(" ".join(found.split()) for found in COMMENT.findall(text) if found)


def check(text: str) -> str:
    after = format_epl(text)
    assert parse_epl(after) == parse_epl(text)
    assert format_epl(after) == after
    assert comments(after) == comments(text)
    assert all(line == line.rstrip() for line in after.splitlines())
    return after


@pytest.mark.parametrize("folder", sorted({file.parent.name for file in FILES}))
def test_statements_of_the_corpus_mean_the_same(folder: str) -> None:
    """A part of every file; the whole corpus holds, too."""
    for file in (file for file in FILES if file.parent.name == folder):
        for text in FENCE.findall(file.read_text(encoding="utf-8"))[::12]:
            try:
                parse_epl(text)
            except ParseError:
                continue
            check(text)


@pytest.mark.histories
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_comments_may_stand_anywhere(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    places = [t.start for piece in tokenize(text)[0] for t in piece.tokens]
    chosen = data.draw(st.lists(st.sampled_from(places), max_size=4, unique=True))
    for number, at in enumerate(sorted(chosen, reverse=True)):
        form = data.draw(st.sampled_from([" // c{}\n", " /* c{} */ ", "\n// c{}\n", "\n/* c{}\n  d */\n", "/*c{}*/"]))
        text = text[:at] + form.format(number) + text[at:]
    try:
        parse_epl(text)
    except ParseError:  # within the text of a script
        return
    check(text)


def test_layout_of_a_select() -> None:
    text = (
        "@name('m') select origin,count ( * ) as n, case when delay>-5 then 1 else - 2 end as x "
        "from Flight ( delay>3 )#time(1 hour) // the last hour\nwhere origin in('EWR','LGA') group by origin;select 1 "
        "as one from Flight"
    )
    assert check(text) == (
        "@name('m')\n"
        "select origin, count(*) as n, case when delay > -5 then 1 else -2 end as x\n"
        "from Flight(delay > 3)#time(1 hour)  // the last hour\n"
        "where origin in ('EWR', 'LGA')\n"
        "group by origin;\n"
        "select 1 as one from Flight\n"
    )


def test_long_lists_conditions_and_brackets_are_cut() -> None:
    names = [f"a_rather_long_name_{i}" for i in range(6)]
    text = (
        f"select {', '.join(names)} from pattern [every a=A -> (timer:interval(10 sec) and not B(id = a.id, "
        f"{names[0]} between 1 and 200000))] where {' > 1 and '.join(names)} > 1"
    )
    assert check(text) == (
        "select\n" + ",\n".join(f"    {name}" for name in names) + "\n"
        "from pattern [\n"
        "    every a=A\n"
        "        -> (timer:interval(10 sec) and not B(id = a.id, a_rather_long_name_0 between 1 and 200000))\n"
        "]\n"
        "where a_rather_long_name_0 > 1\n" + "".join(f"    and {name} > 1\n" for name in names[1:])
    )


def test_layout_of_a_merge_and_of_comments() -> None:
    text = (
        "// heading\n\n\non Paid as p merge Customers as c where c.id = p.id /* keys */ when matched then delete "
        "when not matched then insert select p.id as id; // done\n/* last\n   word */"
    )
    assert check(text) == (
        "// heading\n"
        "\n"
        "on Paid as p\n"
        "merge Customers as c\n"
        "where c.id = p.id /* keys */\n"
        "when matched\n"
        "    then delete\n"
        "when not matched\n"
        "    then insert select p.id as id;  // done\n"
        "/* last\n"
        "   word */\n"
    )


def test_what_needs_its_blanks_keeps_them() -> None:
    text = "select * from A(x > :least, y = ?:name)#win:length(3) output last at (*/5, *, *, *, *)"
    assert ":least" in check(text) and "(*/5, *, *, *, *)" in format_epl(text)
    shape = "select * from A match_recognize (measures B.p as p pattern (B+ C*? D{2,} (E | F)) define B as B.p > - 1)"
    assert "pattern (B+ C*? D{2,} (E | F))" in check(shape)


def test_nothing_and_mistakes() -> None:
    assert format_epl("") == "" and format_epl(" \n ;; ") == ""
    assert format_epl("// only a comment") == "// only a comment\n"
    with pytest.raises(ParseError, match="syntax"):
        format_epl("select from where")


def test_deep_brackets() -> None:
    check("select " + "(" * 60 + "x" + ")" * 60 + " as v from A")


def test_annotations_that_do_not_fit_in_one_line_have_one_each() -> None:
    text = "@Name('s0') @Description('all items of an hour') @Tag(name = 'team', value = 'blue')@Hint('reclaim=1') "
    assert check(text + "select * from A").startswith(
        "@Name('s0')\n@Description('all items of an hour')\n@Tag(name = 'team', value = 'blue')\n@Hint("
    )


@pytest.mark.parametrize("text", ["@Hint('s0') " * 3000 + "select * from A", "select a" + ".b(2)" * 3000 + " from A"])
def test_thousands_of_brackets_in_a_row_take_no_square_of_the_time(text: str) -> None:
    began = time.process_time()
    format_epl(text)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("row", CLAUSES.values(), ids=lambda row: row.name)
def test_no_line_of_a_clause_is_a_lone_keyword(row: ClauseRow, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keyword that begins a clause in one place and ends one in another must not be split from its clause."""
    monkeypatch.setattr(formatter, "SHORT", 0)
    assert not CLAUSE_OF_KEYWORD.keys() & set(map(str.strip, check(row.example).splitlines()))
