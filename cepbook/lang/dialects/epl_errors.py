"""What to say when the parser stops."""

from __future__ import annotations

from typing import Any

from lark.exceptions import UnexpectedToken

from cepbook.errors import Diagnostic, Span
from cepbook.lang.dialects.epl_lexer import Piece


def explain(error: UnexpectedToken, piece: Piece, parser: Any) -> Diagnostic:
    token = error.token
    span = Span(token.start_pos, token.end_pos)
    if token.type == "$END":
        span = Span(piece.tokens[-1].end, piece.tokens[-1].end)
        return Diagnostic("syntax", "the statement ends too early", span)
    return Diagnostic("syntax", f"unexpected {token.value}", span)
