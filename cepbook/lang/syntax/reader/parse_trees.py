"""Parse trees of statements that differ only in numbers and strings: parsed once, then copied.

Lexer and parser decide by words and signs. Of a number or a string they know only that it is one, so statements with
the same words and signs have the same tree over other tokens. A statement with ``?`` or ``:`` is parsed each time,
since blanks decide there whether it has a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lark import Token, Tree
from lark.tree import Meta

from cepbook.lang.syntax.reader.lexer import SourceToken, StatementTokens

ParseTree: TypeAlias = "Tree[Token]"
_VALUES = {"NUMBER": 0, "STRING": 1}  # kinds of tokens whose text the parser does not read
_UNSAFE = frozenset(("?", ":", "SCRIPT", "RAW"))
_MOST_SHAPES, _MOST_TOKENS = 512, 400


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A token of a tree: the terminal, its text (None: that of the token read), and its first and last token read."""

    terminal: str
    text: str | None
    first: int
    last: int

    def over(self, tokens: Sequence[SourceToken]) -> Token:
        token = tokens[self.first]
        text = token.text if self.text is None else self.text
        return Token(self.terminal, text, token.start, 1, 1, 1, 1, tokens[self.last].end)


@dataclass(frozen=True, slots=True)
class _Branch:
    """A rule of a tree, with the first and the last token read, None if it has none."""

    data: str
    children: tuple[_Branch | _Leaf | None, ...]
    range: tuple[int, int] | None

    def over(self, tokens: Sequence[SourceToken]) -> ParseTree:
        meta = Meta()  # type: ignore[no-untyped-call]
        if self.range is not None:
            first, last = self.range
            meta.empty, meta.start_pos, meta.end_pos = False, tokens[first].start, tokens[last].end
        # lark has None for omitted parts
        return Tree(self.data, [None if child is None else child.over(tokens) for child in self.children], meta)  # type: ignore[misc]


class ParseTrees:
    """Returns the parse trees of statements. The shapes that were used last are remembered."""

    def __init__(self, parse: Callable[[StatementTokens], ParseTree]) -> None:
        self._parse = parse
        self._shapes: dict[tuple[str | int, ...], _Branch] = {}  # oldest use first

    def tree(self, piece: StatementTokens) -> ParseTree:
        """Return the parse tree of a statement. Errors: those of the parser."""
        tokens = piece.tokens
        if len(tokens) > _MOST_TOKENS or not _UNSAFE.isdisjoint([token.kind for token in tokens]):
            return self._parse(piece)
        key = tuple([_VALUES.get(token.kind, token.text) for token in tokens])
        shape = self._shapes.pop(key, None)
        if shape is None:
            tree = self._parse(piece)
            self._shapes[key] = _Shape(tokens).branch(tree)
            if len(self._shapes) > _MOST_SHAPES:
                self._shapes.pop(next(iter(self._shapes)), None)
            return tree
        self._shapes[key] = shape
        return shape.over(tokens)


class _Shape:
    """Replaces the positions of a tree by the numbers of its tokens."""

    def __init__(self, tokens: Sequence[SourceToken]) -> None:
        self._tokens = tokens
        self._starts = {token.start: number for number, token in enumerate(tokens)}
        self._ends = {token.end: number for number, token in enumerate(tokens)}

    def branch(self, tree: ParseTree) -> _Branch:
        meta = tree.meta
        span = None if meta.empty else (self._starts[meta.start_pos], self._ends[meta.end_pos])
        children = tuple(
            None if child is None else self._leaf(child) if isinstance(child, Token) else self.branch(child)
            for child in tree.children
        )
        return _Branch(str(tree.data), children, span)

    def _leaf(self, token: Token) -> _Leaf:
        first, last = self._starts[token.start_pos or 0], self._ends[token.end_pos or 0]
        is_value = self._tokens[first].kind in _VALUES
        return _Leaf(token.type, None if is_value else str(token), first, last)
