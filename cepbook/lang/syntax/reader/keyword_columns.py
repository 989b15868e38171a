"""Columns whose names are keywords: a syntax error that backticks around such a name would mend says so."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from cepbook.errors import Diagnostic, ParseError
from cepbook.lang.syntax.reader.hint_rows import keyword_hint
from cepbook.lang.syntax.reader.lexer import KEYWORD_BEFORE, RESERVED_WORDS, SOFT_KEYWORDS, TOKEN_PATTERN
from cepbook.lang.syntax.reader.parser import parse_epl

_KEYWORDS = RESERVED_WORDS | SOFT_KEYWORDS | KEYWORD_BEFORE.keys()
_DECLARATION = re.compile(r"\s*(?:@[^;]*\s)?create\s+(?:\w+\s+)?(?:schema|table|window)\b", re.IGNORECASE)
_NEAREST = 4  # keywords before an error that are tried
_MOST_TRIES = 100  # statements that are parsed for all errors of a text
_MOST_ERRORS = 50  # errors of a text whose statements are looked at


def with_keyword_columns(error: ParseError, text: str, columns: Collection[str]) -> ParseError:
    """Return the error with hints that name `columns` of the event types which are keywords.

    A name is the cause of a syntax error if the statement is EPL with the name, and further ones, in backticks.
    """
    tries = [_MOST_TRIES]
    first, rest = error.diagnostics[:_MOST_ERRORS], error.diagnostics[_MOST_ERRORS:]
    diagnostics = (*(_with_hint(diagnostic, text, columns, tries) for diagnostic in first), *rest)
    return error if diagnostics == error.diagnostics else ParseError(diagnostics, error.source)


def _with_hint(diagnostic: Diagnostic, text: str, columns: Collection[str], tries: list[int]) -> Diagnostic:
    span = diagnostic.span
    if diagnostic.code != "syntax" or span.end > len(text):
        return diagnostic
    begin, end = text.rfind(";", 0, span.start) + 1, text.find(";", span.end)
    statement = text[begin : len(text) if end < 0 else end]
    word = _cause(span.start - begin, span.end - begin, statement, columns, tries)
    if word is None:
        return diagnostic
    return replace(diagnostic, hint=keyword_hint(word))


def _cause(start: int, end: int, statement: str, columns: Collection[str], tries: list[int]) -> str | None:
    """Return the keyword near the error from `start` to `end` with which, and with further such words, in backticks the
    statement is EPL.
    """
    declares = _DECLARATION.match(statement) is not None
    words = [
        match
        for match in TOKEN_PATTERN.finditer(statement)
        if match["word"]
        and match.start("word") <= end + 1
        and match["word"].lower() in _KEYWORDS
        and (declares or match["word"] in columns)
    ]
    for word in words[: -_NEAREST - 1 : -1]:
        if tries[0] <= 0:
            return None
        tries[0] -= 1
        mended = f"{statement[: word.start('word')]}`{word['word']}`{statement[word.end() :]}"
        try:
            parse_epl(mended)
        except ParseError as further:
            later = further.diagnostics[0].span
            behind = later.start > start + 2
            if not behind or _cause(later.start, later.end, mended, columns, tries) is None:
                continue
        return str(word["word"])
    return None
