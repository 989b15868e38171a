"""Tokens of EPL: one scan of the whole text, then names and keywords told apart by what the parser accepts.

EPL has some 150 keywords, and most of them may name a property. The scan therefore knows only words. The contextual
lexer below looks a word up when the parser requests it: the word is a keyword if the parser can continue with the
keyword, otherwise a name, unless it is reserved (Esper reference, appendix Reserved Keywords, and what was recorded for
names in the corpus).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from lark import Token
from lark.common import LexerConf
from lark.lexer import Lexer, LexerState
from lark.parsers.lalr_analysis import Shift

from cepbook.errors import Diagnostic, Span
from cepbook.lang.types import BY_NAME

TIME_UNITS: dict[str, str] = {
    **{u: u for u in ("year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")},
    **{f"{u}s": u for u in ("year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")},
    "min": "minute",
    "sec": "second",
    "msec": "millisecond",
    "usec": "microsecond",
}

# Names only in backticks.
RESERVED_WORDS = frozenset(
    """select from order group by in like and or not is as on case when then else end new insert into values output
    limit exists delete update distinct asc desc inner start expression initiated terminated measures sets cube rollup
    grouping having between regexp true false null create""".split()
) | frozenset(unit for unit in TIME_UNITS if unit != "min")

# Names of properties and of column aliases; anything else is named so only in backticks. (at, left, right and full are
# keywords, too, but recorded cases define types and properties of these names.)
SOFT_KEYWORDS = frozenset(
    """avedev avg cast coalesce context count current_timestamp define escape every first index
    for instanceof irstream istream join last lastweekday matched match_recognize matches max median merge metadatasql
    method min outer partition pattern prev prior prevcount prevtail prevwindow retain rstream
    schema set snapshot some sql stddev sum table typeof unidirectional until variable weekday where while
    window any all""".split()
)

TOKEN_PATTERN = re.compile(
    r"""\s*(?:(?P<skip>//[^\n]*|/\*.*?\*/|\Z)
    |(?P<word>(?:[^\W\d]|\$|\\\.)(?:\w|\$|\\\.)*)
    |(?P<NUMBER>0[xX][0-9a-fA-F]+|\d+[lL](?!\w)|(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[fFdD](?!\w))?)
    |(?P<STRING>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<tick>`[^`]+`)
    |(?P<punct>->|=>|<=|>=|<>|!==|!=|\|\||==|&&|\*\*|\+\+|[-+*/%&|^=<>(){}\[\],.;:?@\#!~\\])
    |(?P<bad>.))""",
    re.VERBOSE | re.DOTALL,
)
SCRIPT_HEAD = re.compile(
    r"expression\s+(?:[\w.]+(?:\s*\[\s*\])?\s+)?(?:\w+\s*:\s*)?\w+\s*(?:\([^()]*\)\s*)?(?=\[)(?!\[\s*\])", re.IGNORECASE
)
DATAFLOW_HEAD = re.compile(r"create\s+dataflow\s+[\w.]+", re.IGNORECASE)


def quoted_name(name: str) -> str:
    """Return a name as EPL writes it: in backticks if it is a keyword or has blanks or signs."""
    plain = name.replace("$", "_").isidentifier() and name.lower() not in RESERVED_WORDS
    return name if plain else f"`{name}`"


class SourceToken(NamedTuple):
    """One word, number, string or sign. `kind` is word, tick, NUMBER, STRING, SCRIPT, RAW, or the sign itself."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StatementTokens:
    """The tokens of one statement, and the offset at which its text ends (that of ``;`` or of the end of the text)."""

    tokens: tuple[SourceToken, ...]
    end: int


def tokenize(source: str) -> tuple[tuple[StatementTokens, ...], tuple[Diagnostic, ...]]:
    """Return the tokens of each statement of `source`, and diagnostics of text that is no token (unclosed strings)."""
    pieces: list[StatementTokens] = []
    bad: list[Diagnostic] = []
    tokens: list[SourceToken] = []
    end, length, script_at = 0, len(source), -1
    match, new = TOKEN_PATTERN.match, tuple.__new__  # the constructor of a named tuple is a function in Python
    while end < length:
        token_match = match(source, end)
        assert token_match is not None  # the last alternative takes any character
        kind = token_match.lastgroup or ""
        position, end = token_match.span(kind)
        text = source[position:end]
        if position == script_at:
            end = _closing(source, position)
            tokens.append(SourceToken("SCRIPT", source[position:end], position, end))
        elif kind == "word":
            lower = text.lower()
            if lower == "expression" and (head := SCRIPT_HEAD.match(source, position)):
                script_at = head.end()
            elif lower == "create" and (head := DATAFLOW_HEAD.match(source, position)):
                tokens.extend(_words(source, position, head.end()))
                end = _statement_end(source, head.end())
                tokens.append(SourceToken("RAW", source[head.end() : end], head.end(), end))
                continue
            tokens.append(new(SourceToken, ("word", text, position, end)))
        elif kind == "punct":
            if text == ";":
                pieces.append(StatementTokens(tuple(tokens), position))
                tokens = []
            else:
                tokens.append(new(SourceToken, (text, text, position, end)))
        elif kind == "bad":
            diagnostic, end = _unreadable(source, position, text)
            bad.append(diagnostic)
            tokens.append(SourceToken("bad", source[position:end], position, end))
            if ";" in source[position:end]:  # most likely the statement ended there
                pieces.append(StatementTokens(tuple(tokens), end))
                tokens = []
        elif kind != "skip":
            tokens.append(new(SourceToken, (kind, text, position, end)))
    pieces.append(StatementTokens(tuple(tokens), length))
    return tuple(pieces), tuple(bad)


def _words(source: str, start: int, end: int) -> Iterator[SourceToken]:
    for match in re.finditer(r"[\w.]+", source[start:end]):
        yield SourceToken("word", match.group(), start + match.start(), start + match.end())


def _closing(source: str, start: int) -> int:
    depth = 0
    for match in re.finditer(r"//[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[\]]", source[start:], re.S):
        if match.group() == "[":
            depth += 1
        elif match.group() == "]":
            depth -= 1
            if depth == 0:
                return start + match.end()
    return len(source)


def _statement_end(source: str, start: int) -> int:
    depth = 0
    for offset in range(start, len(source)):
        if source[offset] in "{[(":
            depth += 1
        elif source[offset] in "}])":
            depth -= 1
        elif source[offset] == ";" and depth <= 0:
            return offset
    return len(source)


def _unreadable(source: str, position: int, text: str) -> tuple[Diagnostic, int]:
    line_end = source.find("\n", position)
    line_end = len(source) if line_end < 0 else line_end
    if text in "'\"":
        return Diagnostic(
            "syntax",
            "this string is not closed",
            Span(position, line_end),
            f"end it with {text}, and write {text} inside as \\{text}",
        ), line_end
    if text == "`":
        return Diagnostic(
            "syntax", "this name in backticks is not closed", Span(position, line_end), "end it with a backtick"
        ), line_end
    at = Span(position, position + 1)
    return Diagnostic("syntax", f"the character {text!r} means nothing in EPL", at), position + 1


# Words that are keywords only before certain signs, because they also name functions, types or properties.
KEYWORD_BEFORE: dict[str, frozenset[str]] = {
    "any": frozenset("("),
    "some": frozenset("("),
    "cast": frozenset("("),
    "instanceof": frozenset("("),
    "pattern": frozenset("[@("),
    "sql": frozenset(":"),
    "method": frozenset(":"),
    "retain": frozenset("-"),
    "lastweekday": frozenset(",)]"),
}
# ... and words that are function names before "(".
NAME_BEFORE: dict[str, frozenset[str]] = {
    "istream": frozenset("("),
    "rstream": frozenset("("),
    "irstream": frozenset("("),
    "grouping": frozenset("("),
}


class StatementLexer(Lexer):
    """Supplies the parser with the tokens of one statement. Keywords and signs are those that the grammar quotes."""

    __future_interface__ = 2

    def __init__(self, conf: LexerConf) -> None:
        self.keywords: dict[str, str] = {}
        self.signs: dict[str, str] = {}
        for terminal in conf.terminals:
            value = terminal.pattern.value
            (self.keywords if value[0].isalpha() else self.signs)[value] = terminal.name


class EplStatementLexer(StatementLexer):
    """The lexer of EPL."""

    def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[Token]:
        piece: Any = lexer_state.text
        tokens: tuple[SourceToken, ...] = piece.tokens
        states = parser_state.parse_conf.states
        signs = self.signs
        count, i = len(tokens), 0
        while i < count:
            raw = tokens[i]
            kind = raw.kind
            accepts = states[parser_state.state_stack[-1]]
            following = tokens[i + 1] if i + 1 < count else END_TOKEN
            end, taken = raw.end, 1
            if kind == "word":
                name, value = self._word(raw.text, accepts, following)
                if name == "NAMED" or name in _PAIRS:
                    end, taken = following.end, 2
                elif following.kind == "(" and i > 0 and tokens[i - 1].kind == ".":
                    name, value = "IDENT", raw.text  # a method may have any name: x.between(a, b)
                elif following.kind == "(" and name == "IDENT" and value.lower() in _SELECTORS:
                    keyword = self.keywords[value.lower()]
                    if keyword in accepts and i + 2 < count and tokens[i + 2].kind != ")":  # not the function istream()
                        name = keyword
            elif kind == "tick":
                name, value = "IDENT", raw.text
            elif kind == "NUMBER" or kind == "STRING" or kind == "SCRIPT" or kind == "RAW":
                name, value = kind, raw.text
            elif kind in "?:" and "PARAMETER" in accepts and signs[kind] not in accepts:
                name, taken = _parameter(tokens, i)
                end = tokens[i + taken - 1].end
                value = "".join(token.text for token in tokens[i : i + taken])
            else:
                name, value = signs.get(kind, "UNKNOWN"), raw.text
                colon = kind == "." and i + 2 < count and tokens[i + 2].kind == ":"
                if colon and "DOT_NS" in accepts and _shifts(parser_state, "DOT_NS"):
                    name, value, end, taken = "DOT_NS", following.text, tokens[i + 2].end, 3
                elif kind == "," and "_COMMA_CONTEXT" in accepts and _opens_context(tokens, i + 1):
                    name, end, taken = "_COMMA_CONTEXT", following.end, 2
            yield Token(name, value, raw.start, 1, 1, 1, 1, end)
            i += taken

    def _word(self, text: str, accepts: dict[str, Any], following: SourceToken) -> tuple[str, str]:
        lower = text.lower()
        if lower in TIME_UNITS and "UNIT" in accepts:
            return "UNIT", lower
        keyword = self.keywords.get(lower)
        if keyword is None:
            if lower in ("any", "some") and "QUANTIFIER" in accepts and following.kind == "(":
                return "QUANTIFIER", lower
            if lower in RESERVED_WORDS:
                return "RESERVED", text
        else:
            pair = _PAIR.get((lower, following.text.lower())) if following.kind == "word" else None
            if pair in accepts:
                return pair, _PAIRS[pair]
            if keyword in accepts and self._is_keyword(lower, accepts, following):
                return keyword, lower
            if lower == "all" and "QUANTIFIER" in accepts and following.kind == "(":
                return "QUANTIFIER", lower
            if following.kind in NAME_BEFORE.get(lower, ()):
                return "IDENT", text
            if lower in RESERVED_WORDS or lower in NAME_BEFORE:
                return keyword, text
        if "NAMED" in accepts and following.kind == ":":
            return "NAMED", text
        if lower in SOFT_KEYWORDS:
            return "SOFT", text
        return "IDENT", text

    def _is_keyword(self, lower: str, accepts: dict[str, Any], following: SourceToken) -> bool:
        if lower in KEYWORD_BEFORE:
            return following.kind in KEYWORD_BEFORE[lower]
        if lower in NAME_BEFORE:
            return following.kind not in NAME_BEFORE[lower]
        if lower in RESERVED_WORDS or "IDENT" not in accepts:
            return True
        if lower == "all":
            return following.kind in ("word", "tick", "NUMBER") or "DISTINCT" not in accepts
        if lower == "last":  # of a crontab, or of `output after 2 sec last every …`
            return following.kind in (",", ")", "]") or following.text.lower() in _BEHIND_LAST
        return True


_BEHIND_LAST = frozenset(("every", "at", "when", "and"))
_SELECTORS = frozenset(("istream", "rstream", "irstream"))
# two words as one, where the first alone would not decide the parse
_PAIRS = {"_AND_WHEN": "and when", "OR_TERMINATED": "or terminated"}
_PAIR = {tuple(words.split()): name for name, words in _PAIRS.items()}

CONTEXT_STARTS = frozenset(("as", "start", "initiated", "partition", "coalesce", "group", "context"))
END_TOKEN = SourceToken("end", "", 0, 0)


def _shifts(parser_state: Any, terminal: str) -> bool:
    """Return whether the parser can really continue with `terminal`.

    The parse table alone does not tell: a low bound may end in ``a.b:``, and so may the name of a stream before the
    namespace of its window.
    """
    states, stack = parser_state.parse_conf.states, list(parser_state.state_stack)
    while True:
        action, rule = states[stack[-1]].get(terminal, (None, None))
        if action is None or action is Shift:
            return action is Shift
        if rule.expansion:
            del stack[-len(rule.expansion) :]
        stack.append(states[stack[-1]][rule.origin.name][1])


def _parameter(tokens: tuple[SourceToken, ...], i: int) -> tuple[str, int]:
    """Return the terminal that ``?`` or ``:`` begins in place of a value, and its number of tokens.

    Forms are ``?``, ``?:name``, ``?:name:type``, ``?::type`` and ``:name``, without blanks. A type is ``int``,
    ``java.lang.Integer``, ``int[]`` or ``int[primitive]``; another name after a second colon is the end of a range.
    """

    def follows(*kinds: str) -> bool:
        at = i + taken
        return [t.kind for t in tokens[at : at + len(kinds)]] == list(kinds) and all(
            tokens[k].start == tokens[k - 1].end for k in range(at, at + len(kinds))
        )

    taken = 1
    if tokens[i].kind == ":":
        return ("PARAMETER", 2) if follows("word") else ("UNKNOWN", 1)
    if follows(":", "word"):
        taken += 2
    elif follows(":", ":", "word"):
        taken += 1
    if taken > 1 and follows(":", "word"):
        until = taken + 2
        while [t.kind for t in tokens[i + until : i + until + 2]] == [".", "word"]:
            until += 2
        if until == taken + 2 and tokens[i + taken + 1].text.lower() not in BY_NAME:
            return "PARAMETER", taken
        taken = until
        if follows("[", "]"):
            taken += 2
        elif follows("[", "word", "]") and tokens[i + taken + 1].text.lower() == "primitive":
            taken += 3
    return "PARAMETER", taken


def _opens_context(tokens: tuple[SourceToken, ...], i: int) -> bool:
    """Return whether ``context NAME …`` stands at `i`, and not a property called context."""
    if i + 1 >= len(tokens) or tokens[i].kind != "word" or tokens[i].text.lower() != "context":
        return False
    return i + 2 < len(tokens) and tokens[i + 2].text.lower() in CONTEXT_STARTS
