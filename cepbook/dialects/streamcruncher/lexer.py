"""Tokens of running queries. A word is a keyword where the parser can continue with the keyword, else a name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lark import Token
from lark.lexer import LexerState

from cepbook.errors import Diagnostic, Span
from cepbook.lang.plan.cycles import STATUS
from cepbook.lang.syntax.reader.lexer import END_TOKEN, SourceToken, StatementLexer, StatementTokens

# in milliseconds
DURATION_UNITS = {"milliseconds": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}

# Names only in double quotes
RESERVED_WORDS = frozenset(
    "select from where group having order limit as and or not in between like is null exists case when then else end"
    " distinct true false".split()
)

UPDATE_GROUP = ("with", "update", "group")

_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|//[^\n]*|/\*.*?\*/)
    |(?P<word>(?:[^\W\d]|\$)(?:\w|\$)*)
    |(?P<NUMBER>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<STRING>'(?:[^']|'')*')
    |(?P<quoted>"[^"]+"|`[^`]+`)
    |(?P<punct><=|>=|<>|!=|==|&&|\|\||[-+*/%=<>(){}\[\],.;:?@\#!~])
    |(?P<bad>.)""",
    re.VERBOSE | re.DOTALL,
)


def tokenize(source: str) -> tuple[StatementTokens, Diagnostic | None]:
    """Return the tokens of a text, and the diagnostic of the first character that begins no token."""
    tokens: list[SourceToken] = []
    bad: Diagnostic | None = None
    for match in _TOKEN.finditer(source):
        kind, text = match.lastgroup or "", match.group()
        if kind == "bad" and bad is None:
            bad = _unreadable(source, match.start(), text)
        if kind != "skip":
            tokens.append(SourceToken(text if kind == "punct" else kind, text, match.start(), match.end()))
    return StatementTokens(tuple(tokens), len(source)), bad


def _unreadable(source: str, position: int, text: str) -> Diagnostic:
    line_end = source.find("\n", position)
    span = Span(position, len(source) if line_end < 0 else line_end)
    if text == "'":
        return Diagnostic("syntax", "this string is not closed", span, "end it with ', and write ' inside as ''")
    if text in '"`':
        return Diagnostic("syntax", "this name in quotes is not closed", span, f"end it with {text}")
    return Diagnostic("syntax", f"the character {text!r} means nothing here", Span(position, position + 1))


# Words that are keywords, where a name may stand, too, only before certain signs or words.
_BEFORE: dict[str, frozenset[str]] = {
    "first": frozenset(("NUMBER",)),
    "self": frozenset("#"),
    "to": frozenset("("),
    "store": frozenset(("last", "latest", "random", "highest", "lowest")),
    "alert": frozenset(("word", "quoted")),
}
# ... and words that are names before "(" or "."
_NOT_BEFORE = frozenset(("pinned", "alert"))


class RunningQueryLexer(StatementLexer):
    """The tokens of a running query."""

    def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[Token]:
        piece: Any = lexer_state.text
        tokens: tuple[SourceToken, ...] = piece.tokens
        states = parser_state.parse_conf.states
        i = 0
        while i < len(tokens):
            raw = tokens[i]
            taken, value = 1, raw.text
            if raw.kind == "word":
                accepts = states[parser_state.state_stack[-1]]
                if "UPDATE_GROUP" in accepts and _words(tokens[i : i + 3]) == UPDATE_GROUP:
                    name, taken = "UPDATE_GROUP", 3
                else:
                    name = self._word(raw.text, accepts, tokens[i + 1] if i + 1 < len(tokens) else END_TOKEN)
                    value = raw.text if name == "NAME" else raw.text.lower()
            elif raw.kind == "quoted":
                name, value = "NAME", raw.text[1:-1]
            elif raw.kind in ("NUMBER", "STRING"):
                name = raw.kind
            else:
                name = self.signs.get(raw.kind, "UNKNOWN")
            yield Token(name, value, raw.start, 1, 1, 1, 1, tokens[i + taken - 1].end)
            i += taken

    def _word(self, text: str, accepts: dict[str, Any], following: SourceToken) -> str:
        lower = text.lower()
        if lower[0] == "$":
            return "ROW_STATUS" if lower == STATUS else "UNKNOWN"
        if lower in DURATION_UNITS and "UNIT" in accepts:
            return "UNIT"
        keyword = self.keywords.get(lower)
        if keyword is None:
            return "NAME"
        if lower in RESERVED_WORDS:
            return keyword
        return keyword if keyword in accepts and ("NAME" not in accepts or _means(lower, following)) else "NAME"


def _means(keyword: str, following: SourceToken) -> bool:
    """Return whether a word before `following` is a keyword in a place that also accepts a name."""
    if keyword in _NOT_BEFORE and following.kind in ("(", "."):
        return False
    before = _BEFORE.get(keyword)
    return before is None or following.kind in before or following.text.lower() in before


def _words(tokens: tuple[SourceToken, ...]) -> tuple[str, ...]:
    return tuple(token.text.lower() for token in tokens)
