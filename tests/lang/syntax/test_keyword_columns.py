"""Columns that are named like keywords of EPL: they work in backticks, and without them the hint says so."""

from __future__ import annotations

import time

import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.errors import CompileError
from cepbook.lang.syntax.reader.lexer import KEYWORD_BEFORE, NAME_BEFORE, RESERVED_WORDS, SOFT_KEYWORDS

TEXTS = (
    "select {w} from E",
    "select e.{w}, x from E as e",
    "select sum({w}) as s from E where x > {w} and {w} > 1",
    "select {w}, count(*) as n from E({w} > 1)#unique({w}) group by {w} order by {w}",
    "select case when {w} > 1 then {w} else 0 end as q from E",
    "select a.{w} as y from pattern [every a=E({w} = 1) -> b=E(not {w} > a.{w})]",
)
VALUES = {"true", "false", "null"}  # without backticks they are these values
OF_TIME = {"last", "lastweekday"}  # parameters of a schedule, also of a window
WORDS = (RESERVED_WORDS | SOFT_KEYWORDS | KEYWORD_BEFORE.keys() | NAME_BEFORE.keys()) - VALUES


@pytest.mark.parametrize("word", sorted(WORDS))
def test_a_column_named_like_a_keyword(word: str) -> None:
    cep = Workbench()
    cep.define("E", pd.DataFrame({word: [1], "x": [2]}))
    for text in TEXTS:
        cep.run(text.replace("{w}", f"`{word}`"))
        plain = text.replace("#unique({w})", "").replace("{w}", word) if word in OF_TIME else text.replace("{w}", word)
        for _ in range(9):  # an occurrence after the other, as the hints say
            try:
                cep.run(plain)
                break
            except CompileError as error:
                diagnostic = error.diagnostics[0]
                assert diagnostic.hint is not None and f"in backticks: `{word}`" in diagnostic.hint, plain
                at = _occurrence(plain, word, diagnostic.span.end)
                at = at if at >= 0 else _occurrence(plain, word, len(plain))
                assert at >= 0, plain
                plain = f"{plain[:at]}`{word}`{plain[at + len(word) :]}"
        else:
            pytest.fail(f"hints do not lead to a text that runs: {plain}")


def _occurrence(text: str, word: str, end: int) -> int:
    """The last place before `end` at which the word stands without backticks."""
    at = text.rfind(word, 0, end)
    while at >= 0 and (text[at - 1 : at] == "`" or text[at - 1 : at + len(word) + 1].strip(" (),.>=").lower() != word):
        at = text.rfind(word, 0, at)
    return at


def test_many_errors_are_answered_soon() -> None:
    """A statement is read again for the hint, not the text, which may have a hundred errors."""
    wrong = "".join(f"create schema K{n}(id string, v int);\ncreate schema X{n});\n" for n in range(100))
    began = time.process_time()
    with pytest.raises(CompileError, match="`\\)` is not allowed here"):
        Workbench().run(f"{wrong}select first from select where x;")
    with pytest.raises(CompileError, match="means nothing in EPL"):
        Workbench().run("select * from NoSuch \u202e" * 1000)  # a thousand errors of one statement
    assert time.process_time() - began < 5
