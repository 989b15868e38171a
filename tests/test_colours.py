"""EPL in the colours of Pygments: nothing is lost, words have their kinds, and nbconvert finds the lexer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, String

from cepbook.colours import EplLexer

ROOT = Path(__file__).resolve().parent.parent
CELL = """%%epl --quiet
@name('it''s') /* two
lines */ select irstream a.b.where(v => v > 1.5e3), cast(`a b`, int), null as n // end
from Tick(price >= 0x1F)#time(10 sec)#std:unique(sym) output every 5 minutes"""


def kinds(text: str) -> dict[str, object]:
    return {part: kind for kind, part in EplLexer().get_tokens(text)}


def test_words_and_signs_have_their_kinds() -> None:
    found = kinds(CELL)
    assert found["%%"] is Operator and found["epl"] is Keyword and found["@name"] is Name.Decorator
    assert found["/* two\nlines */"] is Comment.Multiline and found["// end"] is Comment.Single
    assert found["'it'"] is String.Single and found["1.5e3"] is found["0x1F"] is found["10"] is Number
    assert {found[word] for word in ("select", "irstream", "from", "sec", "minutes", "output")} == {Keyword}
    assert found["where"] is Name.Function and found["cast"] is Keyword
    assert found["time"] is found["std"] is found["unique"] is Name.Builtin
    assert (
        found["Tick"] is Name.Class and found["price"] is found["`a b`"] is Name and found["null"] is Keyword.Constant
    )
    assert found["b"] is Name.Attribute and found["int"] is Keyword.Type


@pytest.mark.parametrize("text", ["'", '"', "`", "/*", "/* *", "'\\", "@", "#", "\x00\u202e\ud800", "1e", ".", "%%"])
def test_what_is_not_finished_is_coloured_too(text: str) -> None:
    parts = list(EplLexer(ensurenl=False, stripnl=False).get_tokens(text))
    assert "".join(part for _, part in parts) == text and Error not in {kind for kind, _ in parts}


def test_nothing_of_the_corpus_is_lost() -> None:
    fence = re.compile(r"^```epl[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
    texts = [
        text
        for path in sorted((ROOT / "tests" / "corpus").rglob("*.md"))[::20]
        for text in fence.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(texts) > 20
    for text in texts:
        parts = list(EplLexer(stripnl=False).get_tokens(text))
        assert "".join(part for _, part in parts) == text and Error not in {kind for kind, _ in parts}


def test_nbconvert_colours_the_cells() -> None:
    nbconvert = pytest.importorskip("nbconvert", reason="nbconvert comes with JupyterLab (extra `lab`)")
    made, _ = nbconvert.HTMLExporter().from_filename(str(ROOT / "notebooks" / "09_service_logs.ipynb"))
    assert '<span class="k">select</span>' in made and '<span class="nc">' in made
