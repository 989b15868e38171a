"""LALR parsers from grammar files, with their tables kept in a cache file of the user.

Building the tables takes about a second, loading them some 50 ms. The file's name holds a digest of the grammar, the
lexer's name and the versions of Python and lark, so a stale file is never read; a directory that cannot be written
costs only time.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import lark
from lark import Lark
from lark.lexer import Lexer


def parser_for(dialect: str, grammar_files: tuple[str, ...], lexer: type[Lexer]) -> Lark:
    """The parser for the concatenated grammar files; `dialect` names the cache file."""
    folder = files("cepbook.lang") / "grammar"
    grammar = "\n".join((folder / name).read_text(encoding="utf-8") for name in grammar_files)
    cache = _cache_file(dialect, grammar, lexer)
    cached = _load(cache)
    if cached is not None:
        return cached
    built = Lark(grammar, parser="lalr", lexer=lexer, propagate_positions=True, maybe_placeholders=True)
    _save(built, cache)
    return built


def _cache_file(dialect: str, grammar: str, lexer: type[Lexer]) -> Path:
    named = f"{lark.__version__} {sys.version_info[:3]} {lexer.__module__}.{lexer.__qualname__}\n{grammar}"
    digest = hashlib.sha256(named.encode()).hexdigest()[:24]
    if os.environ.get("CEPBOOK_CACHE"):
        base = Path(os.environ["CEPBOOK_CACHE"])
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", "~\\AppData\\Local")).expanduser() / "cepbook"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "cepbook"
    return base / f"{dialect}-{digest}.tables"


def _load(path: Path) -> Lark | None:
    try:
        with path.open("rb") as file:
            return Lark.load(file)
    except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, KeyError, ValueError, TypeError):
        return None  # absent, unreadable or damaged: the tables are built again


def _save(parser: Lark, path: Path) -> None:
    """Write to a file beside `path` and rename it: readers and other writers never see half a file."""
    written: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
            written = file.name
            parser.save(file)
        os.replace(written, path)
    except OSError:
        if written is not None:
            Path(written).unlink(missing_ok=True)
