"""The parser's tables: cached per user, and never needed from the cache."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from cepbook.lang.syntax.reader import parser_tables
from cepbook.lang.syntax.reader.lexer import EplStatementLexer, tokenize
from cepbook.lang.syntax.reader.parser import GRAMMAR_FILES
from cepbook.lang.syntax.reader.parser_tables import load_parser


def parses(cache: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv("CEPBOOK_CACHE", str(cache))
    pieces, _ = tokenize("select x from A#length(5)")
    tree = load_parser("epl", "cepbook.lang.syntax", GRAMMAR_FILES, EplStatementLexer).parse(pieces[0])  # type: ignore[arg-type]
    return tree.data == "start"


@pytest.mark.histories
def test_cache_is_written_read_and_rewritten_when_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parses(tmp_path / "new", monkeypatch)
    (file,) = (tmp_path / "new").iterdir()
    assert parses(tmp_path / "new", monkeypatch)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert parses(tmp_path / "new", monkeypatch)
    assert len(file.read_bytes()) > 0.9 * len(whole)


@pytest.mark.histories
def test_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    assert parses(blocked / "cache", monkeypatch)


DAMAGED = [b"", b"null", b"[]", b"{}", b'{"data": {}, "memo": {}}', b'{"data": 1, "memo": {"0": {}}}', b"\xff\xfe"]


class Payload:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('the cache ran code')",)


@pytest.mark.parametrize("content", [*DAMAGED, pickle.dumps({"data": Payload(), "memo": Payload()})])
def test_a_file_of_another_form_is_not_read_and_runs_no_code(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "tables"
    file.write_bytes(content)
    assert parser_tables._load(file, EplStatementLexer) is None
