"""Syntax colours of EPL for Pygments: HTML that nbconvert makes of a notebook, documents, terminals.

Pygments finds `EplLexer` by its entry point, as ``epl``. nbconvert takes the language of a cell from its metadata
(``magics_language``), which JupyterLab's extension sets when such a cell runs. The words are those of the extension.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text, Whitespace, _TokenType

WORDS = Path(__file__).parent / "magics" / "labextension" / "src" / "words.json"


@cache
def _words() -> dict[str, frozenset[str]]:
    words = json.loads(WORDS.read_text(encoding="utf-8"))
    return {name: frozenset(words[name]) for name in ("keywords", "types", "units")}


def _word(lexer: RegexLexer, match: re.Match[str]) -> Iterator[tuple[int, _TokenType, str]]:
    text, known = match[0], _words()
    lower = text.lower()
    if lower in ("true", "false", "null"):
        kind = Keyword.Constant
    elif lower in known["keywords"]:
        kind = Keyword
    elif lower in known["types"]:
        kind = Keyword.Type
    elif text[0].isupper():
        kind = Name.Class
    elif match.string.startswith("(", match.end()):
        kind = Name.Function
    else:
        kind = Name
    yield match.start(), kind, text


def _unit(lexer: RegexLexer, match: re.Match[str]) -> Iterator[tuple[int, _TokenType, str]]:
    yield match.start(1), Number, match[1]
    yield match.start(2), Whitespace, match[2]
    yield match.start(3), Keyword if match[3].lower() in _words()["units"] else Name, match[3]


_NUMBER = r"0x[\da-f]+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?[lfd]?"


class EplLexer(RegexLexer):  # type: ignore[misc]  # Pygments has no types
    """Lexer for EPL, as a file or as a cell whose first line is a magic."""

    name = "EPL"
    aliases: ClassVar[list[str]] = ["epl"]
    filenames: ClassVar[list[str]] = ["*.epl"]
    mimetypes: ClassVar[list[str]] = ["text/x-epl"]
    flags = re.IGNORECASE | re.MULTILINE
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            (r"\A(\s*)(%%)(\w+)([^\n]*)", bygroups(Whitespace, Operator, Keyword, Text)),
            (r"\s+", Whitespace),
            (r"//[^\n]*", Comment.Single),
            (r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)", Comment.Multiline),
            (r"'(?:[^'\\]|\\.)*'?", String.Single),
            (r'"(?:[^"\\]|\\.)*"?', String.Double),
            (r"`[^`]*`?", Name),
            (r"@\w+", Name.Decorator),
            (r"(#)(\w+)(?:(:)(\w+))?", bygroups(Punctuation, Name.Builtin, Punctuation, Name.Builtin)),
            (rf"({_NUMBER})([ \t]+)([a-z]+)", _unit),
            (_NUMBER, Number),
            (r"(\.)([^\W\d][\w$]*)(?=\s*\()", bygroups(Punctuation, Name.Function)),
            (r"(\.)([^\W\d][\w$]*)", bygroups(Punctuation, Name.Attribute)),
            (r"[^\W\d][\w$]*|\$[\w$]+", _word),
            (r"[-+*/%=<>!|&~^]", Operator),
            (r".", Punctuation),
        ]
    }
