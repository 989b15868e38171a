"""The place at which the parser of EPL stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from lark.exceptions import UnexpectedToken

from cepbook.lang.syntax.reader.lexer import SourceToken

CLAUSE_KEYWORDS = ("select", "from", "where", "group", "having", "output", "order", "limit")
BRACKETS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """The tokens of the statement, the position at which the parser stopped, and what it accepts there.

    `accepted` holds terminal names of the grammar, `words` the keywords among them as written.
    """

    tokens: tuple[SourceToken, ...]
    at: int
    accepted: frozenset[str]
    words: tuple[str, ...]

    @classmethod
    def of(cls, error: UnexpectedToken, tokens: tuple[SourceToken, ...], spelled: Mapping[str, str]) -> ParseFailure:
        """Return the place of an error in `tokens`, which are not empty. `spelled` maps terminals to their texts."""
        accepted = frozenset(error.accepts or ()) or frozenset(error.expected)
        words = sorted(spelled[name] for name in accepted if name in spelled and spelled[name][0].isalpha())
        start = tokens[-1].end if error.token.type == "$END" else error.token.start_pos
        at = next((i for i, token in enumerate(tokens) if token.start == start), len(tokens))
        return cls(tokens, at, accepted, tuple(words))

    def text(self, offset: int = 0) -> str:
        """Return the token at `offset` from the failure in lower case, or an empty text outside of the statement."""
        i = self.at + offset
        return self.tokens[i].text.lower() if 0 <= i < len(self.tokens) else ""

    def kind(self, offset: int = 0) -> str:
        i = self.at + offset
        return self.tokens[i].kind if 0 <= i < len(self.tokens) else "end"

    def words_before(self) -> list[str]:
        """Return the tokens of the statement before the failure, in lower case."""
        return [token.text.lower() for token in self.tokens[: self.at]]

    def written(self, first: int, end: int) -> str:
        """Return the text from token `first` up to token `end`, with blanks where the tokens do not touch."""
        tokens = self.tokens[first:end]
        return "".join(" " * (a.end < b.start) + b.text for a, b in pairwise((tokens[0], *tokens))) if tokens else ""

    def arguments(self, opening: int) -> tuple[list[str], int]:
        """Return the texts of the arguments in the bracket at token `opening`, and the index behind the bracket."""
        depth, begin, texts = 0, opening + 1, []
        for i in range(opening, len(self.tokens)):
            kind = self.tokens[i].kind
            depth += (kind in BRACKETS) - (kind in BRACKETS.values())
            if depth == 0 or (depth == 1 and kind == ","):
                texts += [self.written(begin, i)] if begin < i else []
                begin = i + 1
            if depth == 0:
                return texts, i + 1
        return texts, len(self.tokens)

    @property
    def found(self) -> str:
        return self.tokens[self.at].text

    @property
    def ended(self) -> bool:
        return self.at >= len(self.tokens)

    def open_brackets(self) -> list[SourceToken]:
        """Return the brackets before the failure that are not closed before it."""
        stack: list[SourceToken] = []
        for token in self.tokens[: self.at]:
            if token.kind in BRACKETS:
                stack.append(token)
            elif stack and token.kind in BRACKETS.values():
                stack.pop()
        return stack

    def opens_clause(self) -> bool:
        """Return whether the word at the failure begins a clause (and is not meant as a name)."""
        word, following = self.text(), self.text(1)
        if word in ("group", "order"):
            return following == "by"
        if word == "output":
            return following in ("all", "first", "last", "snapshot", "every", "at", "when", "after", "")
        return word in CLAUSE_KEYWORDS and self.kind(1) not in (",", ")", "=", ".") and following not in CLAUSE_KEYWORDS

    def clauses_before(self) -> list[str]:
        """Return the clause keywords outside of brackets before the failure."""
        depth, clauses = 0, []
        for token in self.tokens[: self.at]:
            if token.kind in BRACKETS:
                depth += 1
            elif token.kind in BRACKETS.values():
                depth -= 1
            elif depth == 0 and token.kind == "word" and token.text.lower() in CLAUSE_KEYWORDS:
                clauses.append(token.text.lower())
        return clauses
