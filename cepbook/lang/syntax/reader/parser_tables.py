"""LALR parsers from grammar files, with their tables in a cache file of the user.

Building the tables takes about a second, loading them some 50 ms. The name of the file holds a digest of the grammar,
the lexer's name and the versions of Python and lark, so a stale file is never read. A directory that cannot be written
costs only time. The file is JSON: another user who may write to the directory can spoil a parser, but not run code.
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
    """Return the parser for the concatenated grammar files of `package`; `dialect` names the cache file."""
    folder = files(package)
    grammar = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in grammar_files)
    cache = _cache_file(dialect, grammar, lexer)
    parser = _load(cache, lexer)
    if parser is None:
        edit = _end_at_word if lexer == "contextual" else None
        parser = Lark(
            grammar, parser="lalr", lexer=lexer, propagate_positions=True, maybe_placeholders=True, edit_terminals=edit
        )
        _save(parser, cache)
    _skip_single_child_rules(parser)
    return parser


def _end_at_word(terminal: TerminalDef) -> None:
    """Make a keyword end where a word does.

    The lexer of lark would find ``select`` at the start of ``selection`` where no name can stand. Where both can stand
    the keyword wins.
    """
    word = terminal.pattern.value
    if isinstance(terminal.pattern, PatternStr) and word.isalpha():
        terminal.pattern = PatternRE(rf"{word}(?![\w$])")
        terminal.priority = max(terminal.priority, 1)


def _skip_single_child_rules(parser: Lark) -> None:
    """Skip rules that only pass on their one child: an expression has one such rule for each precedence."""
    callbacks = parser.parser.parser.parser.callbacks
    for rule in callbacks:
        if isinstance(rule, Rule) and _passes_child_on(rule):
            callbacks[rule] = itemgetter(0)


def _passes_child_on(rule: Rule) -> bool:
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
        return _from_json(json.loads(path.read_bytes()), lexer)
    except (OSError, RecursionError, AttributeError, KeyError, ValueError, TypeError, AssertionError, LarkError):
        return None  # absent, unreadable or damaged: the tables are built again


def _to_json(parser: Lark) -> Any:
    """Return `parser` as JSON data: integer keys become text, the lexer's class is left out."""
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    lexing = {**data["parser"]["lexer_conf"], "lexer_type": None}
    parts = {**data["parser"], "lexer_conf": lexing}
    options = {**data["options"], "lexer": None, "edit_terminals": None}
    return {"data": {**data, "options": options, "parser": parts}, "memo": memo}


def _from_json(document: Any, lexer: LexerChoice) -> Lark:
    data, memo = document["data"], {int(number): entry for number, entry in document["memo"].items()}
    data["options"]["lexer"] = data["parser"]["lexer_conf"]["lexer_type"] = lexer
    table = data["parser"]["parser"]
    table["tokens"] = {int(number): name for number, name in table["tokens"].items()}
    table["states"] = {
        int(state): {int(token): tuple(action) for token, action in actions.items()}
        for state, actions in table["states"].items()
    }
    load: Any = Lark._load_from_dict  # parsers that lark generates as modules call it, too
    return load(data, memo)  # type: ignore[no-any-return]


def _save(parser: Lark, path: Path) -> None:
    """Write to a file next to `path` and rename it: other processes never see half a file."""
    written: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="ascii") as file:
            written = file.name
            json.dump(_to_json(parser), file, separators=(",", ":"))
        os.replace(written, path)
    except OSError:
        if written is not None:
            Path(written).unlink(missing_ok=True)
