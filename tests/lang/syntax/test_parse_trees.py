"""Statements that differ only in numbers and strings are parsed once, and have the trees that the parser makes."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from lark import Token, Tree
from lark.exceptions import LarkError

from cepbook.lang.syntax.reader.lexer import StatementTokens, tokenize
from cepbook.lang.syntax.reader.parse_trees import ParseTrees
from cepbook.lang.syntax.reader.parser import epl_parser
from tests.lang.syntax.test_parse_corpus import FILES, epl_texts
from tests.random_cases import part


def content(node: Any) -> Any:
    """A tree as values that can be compared: rules, terminals, texts and places."""
    if isinstance(node, Token):
        return node.type, str(node), node.start_pos, node.end_pos
    if isinstance(node, Tree):
        place = None if node.meta.empty else (node.meta.start_pos, node.meta.end_pos)
        return str(node.data), place, [content(child) for child in node.children]
    return node


class CountingParser:
    """The parser of EPL, with the number of statements that it has parsed."""

    def __init__(self) -> None:
        self.statements = 0

    def parse(self, piece: StatementTokens) -> Any:
        self.statements += 1
        return epl_parser().parse(piece)


def pieces(text: str) -> list[StatementTokens]:
    return [piece for piece in tokenize(text)[0] if piece.tokens]


@pytest.mark.parametrize(
    ("first", "second", "parsed"),
    [
        ("select a from E(k = 1)", "select a  from E(k = 1234567)", 1),
        ("select 'x' as a from E", "select '' as a from E /* . */", 1),
        ("select 1 as a from E", "select '1' as a from E", 2),
        ("select number from E", "select 1 from E", 2),
        ("select a from E#length(5)", "select a from E#time(5)", 2),
        ("select * from E(k = ?:a)", "select * from E(k = ? :a)", 2),
    ],
)
def test_trees_of_one_shape(first: str, second: str, parsed: int) -> None:
    parser = CountingParser()
    trees = ParseTrees(parser.parse)
    for text in (first, second, first):
        for piece in pieces(text):
            try:
                expected = content(epl_parser().parse(piece))
            except LarkError as failure:
                with pytest.raises(type(failure)):
                    trees.tree(piece)
            else:
                assert content(trees.tree(piece)) == expected
    assert parser.statements == parsed + (":" in first)  # those with parameters are parsed each time


@pytest.mark.histories
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_trees_of_the_corpus(file: Path) -> None:
    rng, trees = random.Random(file.name), ParseTrees(epl_parser().parse)
    for text in part(epl_texts(file.read_text(encoding="utf-8"))):
        digits = re.sub(r"\b\d+\b", lambda _: str(rng.choice([0, 7, 99, 12345])), text)
        others = re.sub(r"'[^'\n]*'", lambda _: f"'{'x' * rng.randrange(9)}'", digits).replace(" ", "  ")
        for piece, other in zip(pieces(text), pieces(others), strict=True):
            try:
                trees.tree(piece)
                expected = content(epl_parser().parse(other))
            except LarkError:
                continue
            assert content(trees.tree(other)) == expected
