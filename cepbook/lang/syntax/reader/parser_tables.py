"""LALR parsers from grammar files, with their tables kept in a cache file of the user.

Building the tables takes about a second, loading them some 50 ms. The file's name holds a digest of the grammar, the
lexer's name and the versions of Python and lark, so a stale file is never read; a directory that cannot be written
costs only time. The file is JSON: whoever else may write to the directory can spoil a parser, but not run code.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import lark
from lark import Lark
from lark.exceptions import LarkError
from lark.grammar import Rule
from lark.lexer import Lexer, PatternRE, PatternStr, TerminalDef

# A lexer of our own, or lark's: the words that can stand where the parser is
LexerChoice = type[Lexer] | Literal["contextual"]


def load_parser(dialect: str, package: str, grammar_files: tuple[str, ...], lexer: LexerChoice) -> Lark:
    """The parser for the concatenated grammar files; `dialect` names the cache file."""
    folder = files(package)
    grammar = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in grammar_files)
    cache = _cache_file(dialect, grammar, lexer)
    found = _load(cache, lexer)
    if found is None:
        edit = _as_whole_words if lexer == "contextual" else None
        found = Lark(
            grammar, parser="lalr", lexer=lexer, propagate_positions=True, maybe_placeholders=True, edit_terminals=edit
        )
        _save(found, cache)
    _shorten(found)
    return found


def _as_whole_words(terminal: TerminalDef) -> None:
    """A keyword ends where a word does: lark's lexer would find ``select`` at the beginning of ``selection`` wherever
    no name can stand. Where both can it is a keyword.
    """
    word = terminal.pattern.value
    if isinstance(terminal.pattern, PatternStr) and word.isalpha():
        terminal.pattern = PatternRE(rf"{word}(?![\w$])")
        terminal.priority = max(terminal.priority, 1)


def _shorten(parser: Lark) -> None:
    """Rules that only hand on their one child do so at once: of an expression there is one for each precedence."""
    callbacks = parser.parser.parser.parser.callbacks
    for rule in callbacks:
        if isinstance(rule, Rule) and _hands_on(rule):
            callbacks[rule] = itemgetter(0)


def _hands_on(rule: Rule) -> bool:
    if len(rule.expansion) != 1 or not rule.options.expand1 or rule.alias or any(rule.options.empty_indices):
        return False
    (child,) = rule.expansion
    inlined = rule.origin.name.startswith("_") or child.name.startswith("_")
    return not (inlined or getattr(child, "filter_out", False))


def _cache_file(dialect: str, grammar: str, lexer: LexerChoice) -> Path:
    lexing = lexer if isinstance(lexer, str) else f"{lexer.__module__}.{lexer.__qualname__}"
    named = f"{lark.__version__} {sys.version_info[:3]} {lexing}\n{grammar}"
    digest = hashlib.sha256(named.encode()).hexdigest()[:24]
    if os.environ.get("CEPBOOK_CACHE"):
        base = Path(os.environ["CEPBOOK_CACHE"])
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", "~\\AppData\\Local")).expanduser() / "cepbook"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "cepbook"
    return base / f"{dialect}-{digest}.json"


def _load(path: Path, lexer: LexerChoice) -> Lark | None:
    try:
        return _from_plain(json.loads(path.read_bytes()), lexer)
    except (OSError, RecursionError, AttributeError, KeyError, ValueError, TypeError, AssertionError, LarkError):
        return None  # absent, unreadable or damaged: the tables are built again


def _plain(parser: Lark) -> Any:
    """What `parser` consists of, as JSON: numbers that are keys become text, the lexer's class is left out."""
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    lexing = {**data["parser"]["lexer_conf"], "lexer_type": None}
    parts = {**data["parser"], "lexer_conf": lexing}
    options = {**data["options"], "lexer": None, "edit_terminals": None}
    return {"data": {**data, "options": options, "parser": parts}, "memo": memo}


def _from_plain(kept: Any, lexer: LexerChoice) -> Lark:
    """The parser that `_plain` has taken apart."""
    data, memo = kept["data"], {int(number): entry for number, entry in kept["memo"].items()}
    data["options"]["lexer"] = data["parser"]["lexer_conf"]["lexer_type"] = lexer
    table = data["parser"]["parser"]
    table["tokens"] = {int(number): name for number, name in table["tokens"].items()}
    table["states"] = {
        int(state): {int(token): tuple(action) for token, action in actions.items()}
        for state, actions in table["states"].items()
    }
    load: Any = Lark._load_from_dict  # what the parsers that lark generates as modules call
    return load(data, memo)  # type: ignore[no-any-return]


def _save(parser: Lark, path: Path) -> None:
    """Write to a file beside `path` and rename it: readers and other writers never see half a file."""
    written: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="ascii") as file:
            written = file.name
            json.dump(_plain(parser), file, separators=(",", ":"))
        os.replace(written, path)
    except OSError:
        if written is not None:
            Path(written).unlink(missing_ok=True)
