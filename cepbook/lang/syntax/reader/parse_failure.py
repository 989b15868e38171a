"""Where the parser of EPL stopped, as what gives hints looks at it."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.syntax.reader.lexer import SourceToken

CLAUSE_KEYWORDS = ("select", "from", "where", "group", "having", "output", "order", "limit")
BRACKETS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """Where the parser stopped: the statement's tokens, the position in them, and which words or signs would do.

    `accepted` holds terminal names of the grammar, `words` the keywords among them as written.
    """

    tokens: tuple[SourceToken, ...]
    at: int
    accepted: frozenset[str]
    words: tuple[str, ...]

    def text(self, offset: int = 0) -> str:
        """The lower-cased token at `offset` from the stop; empty outside of the statement."""
        i = self.at + offset
        return self.tokens[i].text.lower() if 0 <= i < len(self.tokens) else ""

    def kind(self, offset: int = 0) -> str:
        i = self.at + offset
        return self.tokens[i].kind if 0 <= i < len(self.tokens) else "end"

    @property
    def found(self) -> str:
        return self.tokens[self.at].text

    @property
    def ended(self) -> bool:
        return self.at >= len(self.tokens)

    def open_brackets(self) -> list[SourceToken]:
        """The brackets before the stop that are not closed before it."""
        stack: list[SourceToken] = []
        for token in self.tokens[: self.at]:
            if token.kind in BRACKETS:
                stack.append(token)
            elif stack and token.kind in BRACKETS.values():
                stack.pop()
        return stack

    def opens_clause(self) -> bool:
        """Whether the word at the stop begins its clause (and is not meant as a name)."""
        word, following = self.text(), self.text(1)
        if word in ("group", "order"):
            return following == "by"
        if word == "output":
            return following in ("all", "first", "last", "snapshot", "every", "at", "when", "after", "")
        return word in CLAUSE_KEYWORDS and self.kind(1) not in (",", ")", "=", ".") and following not in CLAUSE_KEYWORDS

    def clauses_before(self) -> list[str]:
        """Clause keywords outside of brackets before the stop."""
        depth, found = 0, []
        for token in self.tokens[: self.at]:
            if token.kind in BRACKETS:
                depth += 1
            elif token.kind in BRACKETS.values():
                depth -= 1
            elif depth == 0 and token.kind == "word" and token.text.lower() in CLAUSE_KEYWORDS:
                found.append(token.text.lower())
        return found
