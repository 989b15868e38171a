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
_MOST_TRIES = 40  # texts that are parsed for one error


def with_keyword_columns(error: ParseError, text: str, columns: Collection[str]) -> ParseError:
    """Return the error with hints that name `columns` of the event types which are keywords.

    A name is the cause of a syntax error if the statement is EPL with the name, and further ones, in backticks.
    """
    diagnostics = tuple(_with_hint(diagnostic, text, columns) for diagnostic in error.diagnostics)
    return error if diagnostics == error.diagnostics else ParseError(diagnostics, error.source)


def _with_hint(diagnostic: Diagnostic, text: str, columns: Collection[str]) -> Diagnostic:
    if diagnostic.code != "syntax" or diagnostic.span.end > len(text):
        return diagnostic
    word = _cause(diagnostic, text, columns, [_MOST_TRIES])
    if word is None:
        return diagnostic
    return replace(diagnostic, hint=keyword_hint(word))


def _cause(diagnostic: Diagnostic, text: str, columns: Collection[str], tries: list[int]) -> str | None:
    """Return the keyword near an error with which, and with further such words, in backticks the text is EPL."""
    span = diagnostic.span
    begin = text.rfind(";", 0, span.start) + 1
    declares = _DECLARATION.match(text[begin:]) is not None
    words = [
        match
        for match in TOKEN_PATTERN.finditer(text)
        if match["word"]
        and match.start() <= span.end + 1
        and match["word"].lower() in _KEYWORDS
        and (declares or match["word"] in columns)
    ]
    for word in words[: -_NEAREST - 1 : -1]:
        mended = f"{text[: word.start()]}`{word['word']}`{text[word.end() :]}"
        tries[0] -= 1
        try:
            parse_epl(mended)
        except ParseError as further:
            later = next((other for other in further.diagnostics if other.span.start >= begin), None)
            if later is not None:
                behind = later.span.start > span.start + 2 and tries[0] > 0
                if not behind or _cause(later, mended, columns, tries) is None:
                    continue
        return str(word["word"])
    return None
