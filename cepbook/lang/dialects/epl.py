"""EPL, the event processing language of Esper 8 and 9: text to `ast.Module`.

The grammar is in ``cepbook/lang/grammar/*.lark``; the tables of the LALR parser are built once and kept in the
user's cache directory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lark import Token, Tree
from lark.exceptions import UnexpectedToken

from cepbook.errors import Diagnostic, ParseError, Span, not_too_deep
from cepbook.lang import ast
from cepbook.lang.dialects.epl_errors import explain
from cepbook.lang.dialects.epl_expr import Misplaced
from cepbook.lang.dialects.epl_lexer import EplLexer, Piece, scan
from cepbook.lang.dialects.epl_statements import StatementReader
from cepbook.lang.dialects.tables import parser_for

GRAMMAR = ("common.lark", "expression.lark", "epl.lark", "pattern.lark", "match_recognize.lark")
READER = StatementReader()


@lru_cache(maxsize=1)
def _parser() -> Any:
    return parser_for("epl", GRAMMAR, EplLexer)


@not_too_deep()
@lru_cache(maxsize=64)
def parse(text: str) -> ast.Module:
    """The statements of `text`, which are separated by ``;``. Spans count characters of `text`.

    A cell is read several times on its way (for the names in it, to check it, to run it): the last trees are kept.

    Raises `ParseError` with the first error of every statement that is not EPL, UsageError where one is too deep.
    """
    pieces, unreadable = scan(text)
    diagnostics = list(unreadable)
    statements: list[ast.Statement] = []
    declarations: dict[str, Any] = {}
    for piece in pieces:
        if not piece.tokens or any(token.kind == "bad" for token in piece.tokens):
            continue
        parsed = _parse_piece(piece)
        if isinstance(parsed, Diagnostic):
            diagnostics.append(parsed)
        elif isinstance(parsed, ast.Statement):
            statements.append(parsed)
        else:
            _declare(declarations, parsed)
    if diagnostics:
        raise ParseError(tuple(diagnostics), text)
    return ast.Module(tuple(statements), **declarations, span=Span(0, len(text)))


def _parse_piece(piece: Piece) -> Any:
    """The statement (or module declaration) of `piece`, or the diagnostic of its first error."""
    try:
        tree: Tree[Token] = _parser().parse(piece)
        return READER.read(tree)
    except UnexpectedToken as error:
        return explain(error, piece, _parser())
    except Misplaced as error:
        return error.diagnostic


def _declare(declarations: dict[str, Any], parsed: tuple[str, str]) -> None:
    kind, value = parsed
    if kind == "name":
        declarations["name"] = value
    elif kind:
        declarations[kind] = (*declarations.get(kind, ()), value)
