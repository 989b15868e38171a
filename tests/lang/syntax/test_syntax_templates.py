"""Statements that differ only in numbers and strings are parsed once, and have the trees that the reader makes."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from lark.exceptions import LarkError

from cepbook.lang.syntax.reader.expression_reader import Misplaced
from cepbook.lang.syntax.reader.lexer import StatementTokens, tokenize
from cepbook.lang.syntax.reader.parser import STATEMENT_READER, epl_parser
from cepbook.lang.syntax.reader.syntax_templates import SyntaxTemplates
from tests.lang.syntax.test_parse_corpus import FILES, epl_texts
from tests.random_cases import part


def read(piece: StatementTokens) -> Any:
    return STATEMENT_READER.read(epl_parser().parse(piece))


def pieces(text: str) -> list[StatementTokens]:
    return [piece for piece in tokenize(text)[0] if piece.tokens]


@pytest.mark.parametrize(
    ("first", "second", "built"),
    [
        ("select a from E(k = 1)", "select a  from E(k = 1234567)", True),
        ("select a from E(k = -1)", "select a from E(k = - 7)", True),
        ("select a from E(k = 1)", "select a from E(k = 12345678901)", False),  # a long
        ("select a from E(k = 1)", "select a from E(k = 1.5)", False),
        ("select a from E(k = -0x10)", "select a from E(k = -0x20)", False),  # the sign decides about the type
        ("select 'x' as a from E", "select '' as a from E /* . */", True),
        ("select 1 as a from E", "select '1' as a from E", False),
        ("select number from E", "select 1 from E", False),
        (
            "@name('a') @Tag(name='x', value='y') select a from E",
            "@name('bb') @Tag(name='x', value='y') select a from E",
            True,
        ),
        ("@Priority(1) select a from E", "@Priority(2) select a from E", False),
        ("select a from E#time(1 min 30 sec)", "select a from E#time(2 min 5 sec)", True),
        ("select a from E(k < 1e308)", "select a from E(k < 5e307)", True),  # 2e308 is no double
        ("select a from E(k < 0.5)", "select a from E(k < 1e308)", True),
        ("select a from E#length(5)", "select a from E#time(5)", False),
        ("select * from E(k = ?:a)", "select * from E(k = ? :a)", False),
        ("select * from E(k = :a)", "select * from E(k = : a)", False),
        ("select * from E(k = :a and v = 1)", "select * from E(k = :a and v = 2)", False),
        ("select a from E(k in [1:5])", "select a from E(k in [20 : 50])", True),
        ("select a from pattern [a=E -> timer:interval(5)]", "select a from pattern [a=E -> timer:interval(70)]", True),
        (
            "select a from pattern [a=E -> timer:interval(5)]",
            "select a from pattern [a=E -> timer: interval(7)]",
            False,
        ),
        ("select a from pattern [[2:5] a=E until b=F]", "select a from pattern [[3:40] a=E until b=F]", True),
        ("select a from pattern [[2:] a=E until b=F]", "select a from pattern [[:4] a=E until b=F]", False),
    ],
)
def test_trees_of_one_shape(first: str, second: str, built: bool) -> None:
    templates = SyntaxTemplates(read)
    for number, text in enumerate((first, first, second)):
        for piece in pieces(text):
            try:
                expected = repr(read(piece))
            except LarkError as failure:
                with pytest.raises(type(failure)):
                    templates.tree(piece)
            else:
                tree, form = templates.tree(piece)
                assert repr(tree) == expected
                assert (form is not None) == (number == 2 and built)


@pytest.mark.histories
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_trees_of_the_corpus(file: Path) -> None:
    rng, templates = random.Random(file.name), SyntaxTemplates(read)
    for text in part(epl_texts(file.read_text(encoding="utf-8"))):
        digits = re.sub(r"\b\d+\b", lambda _: str(rng.choice([0, 7, 99, 12345])), text)
        others = re.sub(r"'[^'\n]*'", lambda _: f"'{'x' * rng.randrange(9)}'", digits).replace(" ", "  ")
        for piece, other in zip(pieces(text), pieces(others), strict=True):
            try:
                templates.tree(piece)
                templates.tree(piece)
                expected = repr(read(other))
            except (LarkError, Misplaced):
                continue
            assert repr(templates.tree(other)[0]) == expected
